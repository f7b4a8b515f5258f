"""Shared settings of the deep Gaussian process models."""

from __future__ import annotations

from typing import Annotated, Literal

from lvmcore.parameters import Advanced, Doc, Range

__all__ = [
    "Exponent",
    "HiddenDim",
    "InducingCountOrAuto",
    "InducingInputs",
    "Kernel",
    "Layers",
    "Samples",
    "SmoothnessOrAuto",
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
Kernel = Annotated[
    Literal["matern32", "rbf"],
    Doc(
        "Smoothness of the functions: Matérn-3/2 is once differentiable and follows sharp bends; "
        "RBF is infinitely smooth.",
        "kernel",
    ),
]
SmoothnessOrAuto = Annotated[
    Literal["auto", "rbf", "matern52", "matern32"],
    Doc(
        "Smoothness of the function: RBF is infinitely smooth, Matérn-5/2 twice and Matérn-3/2 "
        "once differentiable; auto is the one of the highest marginal likelihood.",
        "kernel",
    ),
]
