"""Checkpoints: where a fit stands, in one file, so that it can go on from there."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore import persistence
from lvmcore.errors import DataError
from lvmcore.persistence import CHECKPOINT_FORMAT

__all__ = ["Checkpoint", "restore_tensors", "tensor_arrays"]

SECONDS_BETWEEN = 2.0
#: Writing takes at most this share of a fit's time: a large fit writes less often.
SHARE = 0.05

_NOT_READ = "The checkpoint could not be read, so the fit started from the beginning."
_OF_ANOTHER = (
    "The checkpoint was of other data, other settings or another version, so the fit started from "
    "the beginning."
)
_NOT_WRITTEN = (
    "A checkpoint could not be written ({why}): had the fit been interrupted then, more of it "
    "would have been lost."
)

State = tuple[Mapping[str, NDArray[Any]], Mapping[str, Any]]


class Checkpoint:
    """One fit's checkpoint file, read when the fit begins and replaced now and then.

    Args:
        path: the file; it need not exist.
        seconds: from one checkpoint to the next.

    Attributes:
        notes: sentences on a checkpoint that could not be used or written.
    """

    def __init__(self, path: str | os.PathLike[str], *, seconds: float = SECONDS_BETWEEN) -> None:
        self.path = Path(path)
        self.notes: list[str] = []
        self._seconds = seconds
        self._gap = seconds
        self._cost = 0.0
        self._written = time.monotonic()
        self._fingerprint = ""
        self._generator: torch.Generator | None = None
        self._found: State | None = None
        self._beside: State | None = None
        self._steps, self._seconds_before = 0, 0.0

    def attach(self, fingerprint: str, generator: torch.Generator) -> None:
        """Say which fit this is for; a checkpoint of another one, or a torn one, is not used.

        Args:
            fingerprint: of everything that decides the fit's course.
            generator: its source of randomness, kept and restored with the rest.
        """
        self._fingerprint, self._generator = fingerprint, generator
        self._written = time.monotonic()
        if not self.path.is_file():
            return
        try:
            arrays, facts = persistence.read(self.path, format=CHECKPOINT_FORMAT)
        except DataError:
            self.notes.append(_NOT_READ)
            return
        if facts.get("fingerprint") != fingerprint:
            self.notes.append(_OF_ANOTHER)
            return
        self._found = arrays, facts

    def beside(self) -> State | None:
        """What ``follow`` was given before the checkpoint that was found; None without."""
        if self._found is None or "beside" not in self._found[1]:
            return None
        arrays, facts = self._found
        return persistence.with_prefix(arrays, "beside."), facts["beside"]

    def follow(
        self, generator: torch.Generator, *, steps: int, seconds: float, beside: State
    ) -> None:
        """Turn to the next of several optimisations that make one fit.

        Args:
            generator: its source of randomness.
            steps: done by those before it; the file counts them too.
            seconds: spent on those before it; likewise.
            beside: what is to be kept of those before it, in the same file.
        """
        self._generator, self._beside = generator, beside
        self._steps, self._seconds_before = steps, seconds

    def restore(self) -> State | None:
        """What ``save`` was given last, with the generator set to where it was; None without."""
        found, self._found = self._found, None
        if found is None or self._generator is None:
            return found
        arrays, facts = found
        self._generator.set_state(torch.as_tensor(arrays["generator"].copy()))
        own = {
            "iteration": facts["iteration"] - self._steps,
            "seconds": facts["seconds"] - self._seconds_before,
        }
        return arrays, {**facts, **own}

    def due(self) -> bool:
        """Whether it is time for the next one."""
        return time.monotonic() - self._written >= self._gap

    def save(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Replace the file, whole or not at all; what cannot be written does not stop the fit.

        Args:
            arrays: the fit's state.
            facts: the rest of it, as JSON can hold it; "iteration" is the steps that were done, in
                "seconds".
        """
        assert self._generator is not None
        began = time.monotonic()
        self._gap = max(self._seconds, self._cost / SHARE)
        state = {**arrays, "generator": self._generator.get_state().numpy()}
        own = {
            "iteration": facts["iteration"] + self._steps,
            "seconds": facts["seconds"] + self._seconds_before,
            "fingerprint": self._fingerprint,
            "gap": self._gap,
        }
        facts = {**facts, **own}
        if self._beside is not None:
            state |= {f"beside.{name}": array for name, array in self._beside[0].items()}
            facts["beside"] = dict(self._beside[1])
        try:
            persistence.write(self.path, state, facts, format=CHECKPOINT_FORMAT)
        except OSError as error:
            note = _NOT_WRITTEN.format(why=error.strerror or type(error).__name__)
            if note not in self.notes:
                self.notes.append(note)
        self._written = began
        self._cost = time.monotonic() - began


def tensor_arrays(
    parameters: Sequence[Tensor], sound: Sequence[Tensor], adam: torch.optim.Optimizer
) -> dict[str, NDArray[Any]]:
    """Parameters, the last sound ones, and the optimiser's state of each, as arrays."""
    arrays: dict[str, NDArray[Any]] = {}
    for i, (parameter, copy) in enumerate(zip(parameters, sound, strict=True)):
        arrays |= {f"parameter.{i}": _array(parameter), f"sound.{i}": _array(copy)}
        moments = adam.state.get(parameter, {})
        arrays |= {f"adam.{i}.{name}": _array(value) for name, value in moments.items()}
    return arrays


def restore_tensors(
    arrays: Mapping[str, NDArray[Any]],
    parameters: Sequence[Tensor],
    sound: Sequence[Tensor],
    adam: torch.optim.Optimizer,
) -> None:
    """Put back what ``tensor_arrays`` gave, in place."""
    with torch.no_grad():
        for i, (parameter, copy) in enumerate(zip(parameters, sound, strict=True)):
            parameter.copy_(_tensor(arrays[f"parameter.{i}"], parameter.shape))
            copy.copy_(_tensor(arrays[f"sound.{i}"], copy.shape))
            moments = persistence.with_prefix(arrays, f"adam.{i}.")
            if moments:  # none at the first step, and none after a recovery
                adam.state[parameter] = {
                    name: _tensor(value, () if name == "step" else parameter.shape).to(
                        parameter.device
                    )
                    for name, value in moments.items()
                }


def _array(tensor: Tensor) -> NDArray[Any]:
    return np.asarray(tensor.detach().cpu().numpy())


def _tensor(array: NDArray[Any], shape: Sequence[int]) -> Tensor:
    return torch.from_numpy(array.copy()).reshape(tuple(shape))
