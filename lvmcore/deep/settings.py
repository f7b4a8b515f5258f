"""Shared settings of the deep Gaussian process models."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from lvmcore.kernels.stationary import StationaryName
from lvmcore.parameters import Advanced, Doc, Range, Syntax

__all__ = [
    "Exponent",
    "HiddenDim",
    "InducingCountOrAuto",
    "InducingInputs",
    "Kernel",
    "KernelOfFeatures",
    "KernelOfLayers",
    "KernelOrChosen",
    "Layers",
    "Samples",
    "Validation",
]

Layers = Annotated[
    int,
    Range(0, 5),
    Doc(
        "Hidden layers between the columns and the target; 0 is a single Gaussian process.",
        "hidden layers",
    ),
]
InducingCountOrAuto = Annotated[
    int | None,
    Range(2, 2000),
    Doc(
        "Inducing points that summarise each layer: more follow finer detail and cost more; auto "
        "is the advised number for the table.",
        "points a layer",
    ),
]
HiddenDim = Annotated[
    int | None,
    Range(1, 30),
    Doc(
        "Units in each hidden layer; auto is the number of columns, 30 at most; 2 can be plotted.",
        "units a layer",
    ),
]
InducingInputs = Annotated[
    Literal["learned", "fixed"],
    Doc(
        "Whether the inducing points of each layer are optimised (DSVI), or fixed (DSVI*).",
        "points of a layer",
    ),
    Advanced(),
]
Validation = Annotated[
    float,
    Range(0, 0.5),
    Doc(
        "Share of the rows set aside for early stopping: the fit ends once their density has not "
        "improved for 100 steps, and hardly uses them otherwise. At 0 it uses all rows and ends "
        "when the bound is flat.",
        "share set aside",
    ),
    Advanced(),
]
Samples = Annotated[
    int,
    Range(1, 100),
    Doc("Draws of the functions averaged in a step.", "draws a step"),
    Advanced(),
]
Exponent = Annotated[
    float,
    Range(0.5, 2.0),
    Doc(
        "2 is a Gaussian process; less has heavier tails, so that outlying rows have less weight.",
        "exponent q",
    ),
]
_SYNTAX = "lvmcore.kernels.catalogue:check_kernel"
_EXAMPLE = "linear + rbf * periodic(month)"
_STATIONARY = get_args(StationaryName)

Kernel = Annotated[
    str,
    Syntax(_SYNTAX, _EXAMPLE, _STATIONARY),
    Doc(
        "Kernel, such as rbf, matern32 (sharp bends) or linear + rbf * periodic(month), each part "
        "of the named columns or of all.",
        "kernel",
    ),
]
KernelOrChosen = Annotated[
    str | Literal["auto"],
    Syntax(_SYNTAX, _EXAMPLE, ("auto", *_STATIONARY)),
    Doc(
        "Kernel: auto, the likeliest of rbf, matern52 and matern32, or a sum or product such as "
        "linear + rbf * periodic(month).",
        "kernel",
    ),
]
KernelOfLayers = Annotated[
    str,
    Syntax(_SYNTAX, "linear + rbf", _STATIONARY),
    Doc(
        "Kernel of all layers, such as rbf or linear + rbf; one that names columns, such as "
        "linear + rbf(month), of the first alone.",
        "kernel",
    ),
]
KernelOfFeatures = Annotated[
    str,
    Syntax("lvmcore.kernels.catalogue:check_feature_kernel", "linear + rbf", _STATIONARY),
    Doc(
        "Kernel of the network's features, such as rbf, matern32 or linear + rbf; it names no "
        "columns.",
        "kernel",
    ),
]
