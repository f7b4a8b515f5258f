"""Checkpoints: the state of a fit in one file, from which it can be resumed or extended."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.errors import DataError
from lvmcore.persistence import (
    CHECKPOINT_FORMAT,
    branch_path,
    read,
    read_metadata,
    with_prefix,
    write,
    write_atomically,
)
from lvmcore.training.adam import Adam

__all__ = ["Checkpoint", "restore_tensors", "tensor_arrays"]

SECONDS_BETWEEN = 2.0
#: Most of a fit's time that is spent on writing, as a share; large fits write less often.
SHARE = 0.05
#: Size of the largest state, in bytes, that is stored for a continuation with more steps.
LARGEST_BRANCH = 1 << 28

_NOT_READ = "The checkpoint could not be read, so the fit started from the beginning."
_OF_ANOTHER = (
    "The checkpoint was of other data, other settings or another version, so the fit started from "
    "the beginning."
)
_NO_BRANCH = (
    "The stored state of the shorter fit cannot be used: it is of other data, other settings or "
    "another version, or damaged. So the fit started from the beginning, and ends the same."
)
_NOT_WRITTEN = (
    "A checkpoint could not be written ({why}): had the fit been interrupted then, more of it "
    "would have been lost."
)

State = tuple[Mapping[str, NDArray[Any]], Mapping[str, Any]]


class Checkpoint:
    """The checkpoint file of a fit, read at its start and replaced at intervals.

    Args:
        path: the file; it need not exist.
        branches: folder for the state of each start of the fit just before its cooling, until when
            a fit with more steps has the same trajectory. A state that exists there is the start of
            this fit. None neither stores nor uses one.
        seconds: interval between checkpoints.

    Attributes:
        notes: sentences on a checkpoint that could not be used or written.
        saved: seconds of an earlier fit that were not spent again, as this one continues it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        branches: Path | None = None,
        seconds: float = SECONDS_BETWEEN,
    ) -> None:
        self.path = Path(path)
        self.notes: list[str] = []
        self.saved = 0.0
        self._branches, self._start, self._course = branches, 1, ""
        self._seconds = seconds
        self._gap = seconds
        self._cost = 0.0
        self._written = time.monotonic()
        self._fingerprint, self._seed = "", 0
        self._generator: torch.Generator | None = None
        self._found: State | None = None
        self._beside: State | None = None
        self._steps, self._seconds_before = 0, 0.0

    def attach(self, course: str, max_iter: int | None, generator: torch.Generator) -> None:
        """Identify the fit; a checkpoint of another fit, or a damaged one, is not used.

        Args:
            course: fingerprint of all that determines the fit's trajectory, except its length.
            max_iter: most steps of the fit; None if it has no such setting.
            generator: its source of randomness, saved and restored with the state.
        """
        self._course, self._generator = course, generator
        self._fingerprint = hashlib.sha256(f"{course} {max_iter}".encode()).hexdigest()
        self._written = time.monotonic()
        self._restore_branch_seed(generator)
        self._seed = generator.initial_seed()
        if not self.path.is_file():
            return
        try:
            arrays, facts = read(self.path, format=CHECKPOINT_FORMAT)
        except DataError:
            self.notes.append(_NOT_READ)
            return
        if facts.get("fingerprint") != self._fingerprint:
            self.notes.append(_OF_ANOTHER)
            return
        # Random draws before the first step are repeated.
        self._seed = int(facts["drawn_by"])
        generator.manual_seed(self._seed)
        self._found = arrays, facts

    def _restore_branch_seed(self, generator: torch.Generator) -> None:
        """Set the seed of an earlier fit that this one continues, for fits without a given seed."""
        path = self._branch_path
        if path is None or not path.is_file():
            return
        with suppress(DataError):
            facts = read_metadata(path, format=CHECKPOINT_FORMAT)
            if facts.get("fingerprint") == self._course:
                generator.manual_seed(int(facts["seed"]))

    @property
    def _branch_path(self) -> Path | None:
        return None if self._branches is None else branch_path(self._branches, self._start)

    def beside(self) -> State | None:
        """``beside`` of the last ``follow`` before the checkpoint was saved, or None."""
        if self._found is None or "beside" not in self._found[1]:
            return None
        arrays, facts = self._found
        return with_prefix(arrays, "beside."), facts["beside"]

    def follow(
        self,
        generator: torch.Generator,
        *,
        start: int,
        steps: int,
        seconds: float,
        beside: State,
    ) -> None:
        """Switch to the next of several optimisations in one fit.

        Args:
            generator: its source of randomness.
            start: its number, from 1.
            steps: of the earlier optimisations, included in the file's count.
            seconds: of the earlier optimisations, likewise.
            beside: state of the earlier optimisations, saved in the same file.
        """
        self._generator, self._beside, self._start = generator, beside, start
        self._steps, self._seconds_before = steps, seconds

    def for_start(self, folder: Path | None) -> Checkpoint:
        """A checkpoint for one optimisation of the same fit in another process.

        It is never due; it uses and stores branches where this one does.

        Args:
            folder: of its files; None for one that is only sent to the other process.
        """
        place = Path() if folder is None else folder
        found = Checkpoint(
            place / self.path.name,
            branches=None if self._branches is None else place,
            seconds=float("inf"),
        )
        found._course, found._fingerprint = self._course, self._fingerprint
        found._seed = self._seed
        return found

    def branch(self, start: int) -> bytes | None:
        """The stored state of a start, from 1, before its cooling; None without one."""
        if self._branches is None:
            return None
        path = branch_path(self._branches, start)
        return path.read_bytes() if path.is_file() else None

    def write_branch(self, start: int, content: bytes | None) -> None:
        """Write what ``branch`` of another checkpoint returned; a failure leaves none."""
        if self._branches is not None and content is not None:
            with suppress(OSError):
                write_atomically(branch_path(self._branches, start), content)

    def restore(self, sizes: Sequence[int] = ()) -> State | None:
        """The arguments of the last ``save``, or None; the generator is reset to its state then.

        Args:
            sizes: numbers in each tensor that the state has to fit. An earlier version may have
                had others: its state is not used.
        """
        found, self._found = self._found, None
        if found is None or self._generator is None:
            return found
        arrays, facts = found
        if facts.get("between"):
            return None
        if not _have_sizes(arrays, sizes):
            self.notes.append(_OF_ANOTHER)
            return None
        self._generator.set_state(torch.as_tensor(arrays["generator"].copy()))
        own = {
            "iteration": facts["iteration"] - self._steps,
            "seconds": facts["seconds"] - self._seconds_before,
        }
        return arrays, {**facts, **own}

    def restore_branch(self, last: int, sizes: Sequence[int] = ()) -> State | None:
        """The state of an earlier, shorter fit, the generator reset to its state then.

        Args:
            last: most steps of this fit before its cooling; a state after more steps is not used.
            sizes: as of ``restore``.

        Returns:
            The arguments of ``save_branch``; None if there is no state, or none that can be used.
        """
        path = self._branch_path
        if path is None or self._generator is None or not path.is_file():
            return None
        try:
            arrays, facts = read(path, format=CHECKPOINT_FORMAT)
        except DataError:
            arrays, facts = {}, {}
        own = facts.get("fingerprint") == self._course and facts["iteration"] <= last
        if not own or not _have_sizes(arrays, sizes):
            if _NO_BRANCH not in self.notes:
                self.notes.append(_NO_BRANCH)
            return None
        self._generator.set_state(torch.as_tensor(arrays["generator"].copy()))
        self.saved += float(facts["seconds"])
        return arrays, facts

    def save_branch(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Save the state of a fit before its cooling, for a continuation with more steps.

        A state that is too large or cannot be written is not saved; a longer fit then starts from
        the beginning.
        """
        path, generator = self._branch_path, self._generator
        if path is None or generator is None:
            return
        if sum(array.nbytes for array in arrays.values()) > LARGEST_BRANCH:
            path.unlink(missing_ok=True)
            return
        state = {**arrays, "generator": generator.get_state().numpy()}
        own = {"fingerprint": self._course, "seed": generator.initial_seed()}
        with suppress(OSError):
            write(path, state, {**facts, **own}, format=CHECKPOINT_FORMAT)

    def due(self) -> bool:
        """Whether the next checkpoint is due."""
        return time.monotonic() - self._written >= self._gap

    def save_between(self) -> None:
        """Replace the file between two optimisations: it has what ``follow`` was given alone."""
        self.save({}, {"iteration": 0, "seconds": 0.0, "between": True})

    def save(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Replace the file atomically; a failure to write is noted and does not stop the fit.

        Args:
            arrays: the arrays of the fit's state.
            facts: the rest of the state, for JSON; "iteration" is the number of steps done, in
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
            "drawn_by": self._seed,
            "gap": self._gap,
        }
        facts = {**facts, **own}
        if self._beside is not None:
            state |= {f"beside.{name}": array for name, array in self._beside[0].items()}
            facts["beside"] = dict(self._beside[1])
        try:
            write(self.path, state, facts, format=CHECKPOINT_FORMAT)
        except OSError as error:
            note = _NOT_WRITTEN.format(why=error.strerror or type(error).__name__)
            if note not in self.notes:
                self.notes.append(note)
        self._written = began
        self._cost = time.monotonic() - began


def tensor_arrays(
    parameters: Sequence[Tensor], sound: Sequence[Tensor], adam: Adam
) -> dict[str, NDArray[Any]]:
    """Parameters, their last valid copies, and the optimiser's state of each, as arrays."""
    arrays: dict[str, NDArray[Any]] = {}
    for i, (parameter, copy) in enumerate(zip(parameters, sound, strict=True)):
        arrays |= {f"parameter.{i}": _array(parameter), f"sound.{i}": _array(copy)}
        moments = adam.state.get(parameter, {})
        arrays |= {f"adam.{i}.{name}": _array(value) for name, value in moments.items()}
    return arrays


def _have_sizes(arrays: Mapping[str, NDArray[Any]], sizes: Sequence[int]) -> bool:
    """Whether the arrays of ``tensor_arrays`` have so many numbers."""
    stored = [arrays.get(f"parameter.{i}") for i in range(len(sizes))]
    return [None if array is None else array.size for array in stored] == list(sizes)


def restore_tensors(
    arrays: Mapping[str, NDArray[Any]],
    parameters: Sequence[Tensor],
    sound: Sequence[Tensor],
    adam: Adam,
) -> None:
    """Restore the tensors of ``tensor_arrays`` in place."""
    with torch.no_grad():
        for i, (parameter, copy) in enumerate(zip(parameters, sound, strict=True)):
            parameter.copy_(_tensor(arrays[f"parameter.{i}"], parameter.shape))
            copy.copy_(_tensor(arrays[f"sound.{i}"], copy.shape))
            moments = with_prefix(arrays, f"adam.{i}.")
            if moments:  # empty before the first step and after a recovery
                adam.state[parameter] = {
                    name: _tensor(value, ()).to(parameter.device)
                    if name == "step"
                    # With the parameter's memory layout, as the optimiser pairs their elements.
                    else torch.empty_like(parameter).copy_(_tensor(value, parameter.shape))
                    for name, value in moments.items()
                }


def _array(tensor: Tensor) -> NDArray[Any]:
    return np.asarray(tensor.detach().cpu().numpy())


def _tensor(array: NDArray[Any], shape: Sequence[int]) -> Tensor:
    return torch.from_numpy(array.copy()).reshape(tuple(shape))
