"""Settings that models with networks share."""

from __future__ import annotations

from typing import Annotated, Literal

from lvmcore.parameters import Advanced, Doc, Syntax

__all__ = ["NetworkKind", "NetworkKindOrAuto", "PictureShape"]

NetworkKind = Annotated[
    Literal["columns", "pictures"],
    Doc(
        "Type of the network's input: columns, or the pixels of a picture, row by row, for a "
        "convolutional network.",
        "network of",
    ),
    Advanced(),
]
NetworkKindOrAuto = Annotated[
    Literal["columns", "pictures"] | None,
    Doc(
        "Type of the network's input: columns, or the pixels of a picture, row by row, for a "
        "convolutional network; auto is pictures where the columns make one.",
        "network of",
    ),
]
PictureShape = Annotated[
    str,
    Doc(
        "Rows x columns of a picture, and x channels where they are in colour; auto is the shape "
        "that the columns' names have, else a square, grey or with three channels.",
        "shape of pictures",
    ),
    Syntax("lvmcore.preprocessing.picture_shape:check_picture_shape", "32x48x3", ("auto",)),
    Advanced(),
]
