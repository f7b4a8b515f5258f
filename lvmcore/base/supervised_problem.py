"""The input of a predictor's fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.results import Callback
from lvmcore.training.checkpoint import Checkpoint

__all__ = ["HeldOutRows", "SupervisedFitProblem", "Task"]

#: Kind of target: a number or a class.
Task = Literal["number", "class"]


@dataclass(frozen=True)
class HeldOutRows:
    """Held-out rows, whose density is tracked during the fit.

    Attributes:
        X: inputs, standardised like the training rows, [n, H].
        y: numbers in their units, or classes.
        stops: whether they decide on early stopping.
    """

    X: Tensor
    y: NDArray[Any]
    stops: bool


@dataclass(frozen=True)
class SupervisedFitProblem:
    """Input of a predictor's ``_fit``: validated, standardised and on the device.

    Attributes:
        X: columns that vary, standardised, [N, H].
        Y: the target: a standardised number, [N, 1], or signs of classes, [N, C]; for two classes
            that of the second alone, [N, 1].
        generator: the fit's only source of randomness (CPU generator).
        callback: called at every step; True stops the fit.
        target: the numbers, or codes of classes, that Y holds, [N].
        checkpoint: checkpoint to continue from and to write; None for none.
        held_out: held-out rows whose density is tracked.
        validation: X and Y of all validation rows; after the last step a q in closed form
            conditions on them too.
    """

    X: Tensor
    Y: Tensor
    generator: torch.Generator
    callback: Callback | None
    target: NDArray[Any]
    checkpoint: Checkpoint | None = None
    held_out: HeldOutRows | None = None
    validation: tuple[Tensor, Tensor] | None = None
