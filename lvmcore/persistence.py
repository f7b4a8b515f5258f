"""Model files: safetensors with JSON in the metadata."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from lvmcore.errors import DataError, LatentboardError
from lvmcore.results import FitStep

__all__ = [
    "CHECKPOINT_FORMAT",
    "branch_path",
    "checkpoint_progress",
    "history_arrays",
    "history_from_arrays",
    "read",
    "read_metadata",
    "with_prefix",
    "write",
    "write_atomically",
]

FORMAT = "latentboard-model-1"
CHECKPOINT_FORMAT = "latentboard-checkpoint-1"


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file atomically: temporary name, fsync, rename."""
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write(
    path: str | os.PathLike[str],
    arrays: Mapping[str, NDArray[Any]],
    meta: Mapping[str, Any],
    *,
    format: str = FORMAT,
) -> None:
    """Write arrays and JSON metadata to one safetensors file of format ``format``, atomically.

    The metadata has a digest of the content, which ``read`` verifies.
    """
    stored = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    facts = json.dumps(dict(meta), default=_to_json)
    digest = _digest(stored, facts)
    content = save(stored, metadata={"format": format, "json": facts, "digest": digest})
    write_atomically(path, content)


def _digest(arrays: Mapping[str, NDArray[Any]], facts: str) -> str:
    """BLAKE2b of the names, types, shapes and values of arrays, and of the JSON metadata."""
    digest = hashlib.blake2b(facts.encode(), digest_size=32)
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes() if array.ndim == 0 else np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _to_json(value: Any) -> Any:
    """A NumPy number for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be stored in a model file's JSON")


def read(
    path: str | os.PathLike[str], *, format: str = FORMAT
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read a file of ``write``: its arrays and JSON metadata.

    Raises:
        DataError: the file is missing, damaged, or of another format.
    """
    with _open(path, format) as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        facts, metadata = _facts(path, file), file.metadata()
        expected = metadata.get("digest")  # files of earlier versions have none
        if expected not in (None, _digest(arrays, metadata["json"])):
            raise DataError(f"{path} is damaged: its content does not have its digest.")
        return arrays, facts


def read_metadata(path: str | os.PathLike[str], *, format: str = FORMAT) -> dict[str, Any]:
    """The JSON metadata, without reading the arrays.

    Raises:
        DataError: the file is missing, damaged, or of another format.
    """
    with _open(path, format) as file:
        return _facts(path, file)


def _facts(path: str | os.PathLike[str], file: Any) -> dict[str, Any]:
    """The JSON metadata of an open file."""
    try:
        facts = json.loads(file.metadata()["json"])
    except (KeyError, ValueError, RecursionError) as error:
        raise DataError(
            f"{path} is damaged: its description is no JSON ({type(error).__name__})."
        ) from error
    if not isinstance(facts, dict):
        raise DataError(f"{path} is damaged: its description is no JSON object.")
    return facts


def branch_path(folder: Path, start: int) -> Path:
    """The file of the state of a start, from 1, before its learning rate decreases."""
    return folder / f"branch-{start}.safetensors"


def checkpoint_progress(path: str | os.PathLike[str]) -> tuple[int, float] | None:
    """Steps and seconds of a checkpoint; None if there is no valid one."""
    try:
        facts = read_metadata(path, format=CHECKPOINT_FORMAT)
        return int(facts["iteration"]), float(facts["seconds"])
    except (DataError, KeyError, TypeError, ValueError):
        return None


@contextmanager
def _open(path: str | os.PathLike[str], format: str) -> Iterator[Any]:
    if Path(path).exists() and not Path(path).is_file():  # a pipe would never end
        raise DataError(f"{path} cannot be read as a model file: it is no regular file.")
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            if (file.metadata() or {}).get("format") != format:
                raise DataError(
                    f"{path} is not a model file of this package: expected a safetensors file "
                    f"marked {format}, as written by save()."
                )
            yield file
    except FileNotFoundError as error:
        raise DataError(f"There is no model file at {path}.") from error
    except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
        if isinstance(error, LatentboardError):
            raise
        raise DataError(
            f"{path} cannot be read as a model file ({error}): it may be torn, or of another kind."
        ) from error


def with_prefix(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names start with ``prefix``, which is removed."""
    return {name[len(prefix) :]: a for name, a in arrays.items() if name.startswith(prefix)}


def history_arrays(history: Sequence[FitStep]) -> dict[str, NDArray[Any]]:
    """A fit's history as arrays, without snapshots."""
    names = list(history[0].terms) if history else []
    columns = {
        "iteration": np.array([step.iteration for step in history], dtype=np.int64),
        "total": np.array([step.total for step in history], dtype=np.int64),
        "seconds": np.array([step.seconds for step in history]),
        "objective": np.array([step.objective for step in history]),
        **{f"term.{name}": np.array([s.terms[name] for s in history]) for name in names},
    }
    held_out = np.array([step.held_out for step in history])
    if np.isfinite(held_out).any():
        columns["held_out"] = held_out
    return {f"history.{name}": column for name, column in columns.items()}


def history_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> tuple[FitStep, ...]:
    """The history from ``history_arrays``."""
    columns = with_prefix(arrays, "history.")
    terms = with_prefix(columns, "term.")
    return tuple(
        FitStep(
            iteration=int(columns["iteration"][i]),
            total=int(columns["total"][i]),
            seconds=float(columns["seconds"][i]),
            objective=float(columns["objective"][i]),
            terms={name: float(values[i]) for name, values in terms.items()},
            held_out=float(columns["held_out"][i]) if "held_out" in columns else math.nan,
        )
        for i in range(len(columns["iteration"]))
    )
