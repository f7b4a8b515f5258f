"""The problem that the fit of a predictor gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.results import Callback
from lvmcore.training.checkpoint import Checkpoint

__all__ = ["HeldOutRows", "SupervisedFitProblem", "Task"]

#: What a model predicts: a number, or a class.
Task = Literal["number", "class"]


@dataclass(frozen=True)
class HeldOutRows:
    """Rows that a fit does not see, whose density is followed.

    Attributes:
        X: standardised as the others, [n, H].
        y: numbers in their units, or classes.
        stops: whether the fit ends by them.
    """

    X: Tensor
    y: NDArray[Any]
    stops: bool


@dataclass(frozen=True)
class SupervisedFitProblem:
    """What a predictor's ``_fit`` gets: everything checked, standardised and on the device.

    Attributes:
        X: columns that vary, standardised, [N, H].
        Y: the target: a standardised number, [N, 1], or signs of classes, [N, C], of two the
            second alone, [N, 1].
        generator: the fit's only source of randomness (CPU generator).
        callback: called at every step; True stops the fit.
        checkpoint: what the fit goes on from and leaves for the next; None keeps none.
        unseen: rows that the fit does not see, to be measured on now and then.
        aside: all that it stops by, X and Y: when the steps are over, a q in closed form takes them
            too.
    """

    X: Tensor
    Y: Tensor
    generator: torch.Generator
    callback: Callback | None
    checkpoint: Checkpoint | None = None
    unseen: HeldOutRows | None = None
    aside: tuple[Tensor, Tensor] | None = None
