"""Settings that models of deep Gaussian processes share, declared once."""

from __future__ import annotations

from typing import Annotated, Literal

from lvmcore.parameters import Advanced, Doc, Range

__all__ = [
    "Exponent",
    "HiddenDim",
    "InducingCount",
    "InducingInputs",
    "Kernel",
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
InducingCount = Annotated[
    int,
    Range(2, 1000),
    Doc(
        "Points that summarise each layer: more follow finer detail and cost more.",
        "points a layer",
    ),
]
HiddenDim = Annotated[
    int | None,
    Range(1, 30),
    Doc(
        "Units in each hidden layer; auto is as many as columns, 30 at most, and 2 can be drawn.",
        "units a layer",
    ),
]
InducingInputs = Annotated[
    Literal["learned", "fixed"],
    Doc(
        "Whether the points that summarise each layer move (DSVI), or stay (DSVI*).",
        "points of a layer",
    ),
    Advanced(),
]
Validation = Annotated[
    float,
    Range(0, 0.5),
    Doc(
        "Share of the rows that is set aside: the fit ends once their density has not improved for "
        "100 steps, and learns little or nothing else from them. At 0 it learns from all rows and "
        "ends when the bound is flat.",
        "share set aside",
    ),
    Advanced(),
]
Samples = Annotated[
    int,
    Range(1, 100),
    Doc("Draws of the functions that a step averages.", "draws a step"),
    Advanced(),
]
Exponent = Annotated[
    float,
    Range(0.5, 2.0),
    Doc(
        "2 is a Gaussian process; less has heavier tails, so that rows far off count little.",
        "exponent q",
    ),
]
Kernel = Annotated[
    Literal["matern32", "rbf"],
    Doc(
        "How functions vary: Matérn-3/2 has a slope and no more, and follows bends; RBF is smooth "
        "all over.",
        "kernel",
    ),
]
