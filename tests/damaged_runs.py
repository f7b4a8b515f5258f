"""A hundred kinds of damage to the folder of a run, as scripts, disks and people leave them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

__all__ = ["DAMAGES", "TARGET_DAMAGES", "damage_copies"]

_FILES = (
    "spec.json",
    "status.json",
    "about.json",
    "metrics.json",
    "events.jsonl",
    "model.safetensors",
    "embedding.parquet",
    "selections.json",
)
_STATUS: dict[str, Any] = {
    "elbo": ["text", float("inf"), 1e999, [], True],
    "stage": ["resting", 3],
    "status": ["asleep", None],
    "submitted": ["yesterday", "2026-01-01T00:00:00", "0001-01-01T00:00:00+00:00", 7],
    "notes": ["text", [1, 2], 5],
    "attempt": ["first", -1],
    "earlier": ["long", -3.0],
    "memory": [-1, "much"],
    "converged": ["perhaps"],
    "rise": ["fast", [1.0], [1.0, "much"]],
}
_SPEC: dict[str, Any] = {
    "kind": ["other", 4],
    "parameters": ["text", [1], {"n_components": {"a": [1]}}],
    "dataset": ["../../..", 12, "0" * 64],
    "model": ["tarot", ["ppca"], "ldgd"],
    "name": ["x" * 1_000_000, 3],
    "run": ["../..", "f" * 32],
    "codes": [{"a": "b"}],
    "target": ["no such column"],
}
_METRIC: list[Any] = [
    {"label": "bound", "value": "text", "protocol": ""},
    {"label": "bound", "value": float("inf"), "protocol": ""},
    {"label": 3, "value": 1.0, "protocol": ""},
    {"value": 1.0},
    "text",
]


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _halve(path: Path) -> None:
    content = path.read_bytes() if path.is_file() else b"{"
    path.write_bytes(content[: len(content) // 2])


def _overwrite(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 8)


def _nest(path: Path) -> None:
    path.write_bytes(b"[" * 100_000 + b"\n")


def _no_text(path: Path) -> None:
    """Put a byte into the first name or text that is no UTF-8."""
    content = path.read_bytes() if path.is_file() else b'{"a": 1}'
    path.write_bytes(content.replace(b'"', b'"\xff', 1))


def _folder(path: Path) -> None:
    _delete(path)
    path.mkdir()


def _pipe(path: Path) -> None:
    _delete(path)
    os.mkfifo(path)


def _link(path: Path, target: str) -> None:
    _delete(path)
    path.symlink_to(target)


def _loop(path: Path) -> None:
    _link(path, path.name)


_BY_FILE: dict[str, Callable[[Path], None]] = {
    "deleted": _delete,
    "empty": _empty,
    "half": _halve,
    "overwritten": _overwrite,
    "nested": _nest,
    "no UTF-8": _no_text,
    "a folder": _folder,
    "a pipe": _pipe,
    "a loop": _loop,
    "a device": partial(_link, target="/dev/zero"),
}


def _set_field(folder: Path, file: str, field: str, value: Any) -> None:
    path = folder / file
    stored = json.loads(path.read_text())
    stored[field] = value
    path.write_text(json.dumps(stored))


def _change_file(folder: Path, file: str, change: Callable[[Path], None]) -> None:
    change(folder / file)


def _half_deleted(folder: Path) -> None:
    for path in sorted(folder.iterdir())[::2]:
        path.unlink()


def _foreign(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "thesis.txt").write_text("not of the store")


def _file_for_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("a file")


def _link_for_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.symlink_to("/")


def _other_table(path: Path) -> None:
    pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}).to_parquet(path)


def _all() -> dict[str, Callable[[Path], None]]:
    found: dict[str, Callable[[Path], None]] = {
        "half deleted": _half_deleted,
        "a folder of the user": _foreign,
        "embedding.parquet another table": partial(
            _change_file, file="embedding.parquet", change=_other_table
        ),
        "a file in place of the folder": _file_for_folder,
        "a link to the root": _link_for_folder,
    }
    for file in _FILES:
        for name, change in _BY_FILE.items():
            found[f"{file} {name}"] = partial(_change_file, file=file, change=change)
    for file, fields in (("status.json", _STATUS), ("spec.json", _SPEC)):
        for field, values in fields.items():
            for value in values:
                found[f"{file} {field}={str(value)[:20]}"] = partial(
                    _set_field, file=file, field=field, value=value
                )
    for value in _METRIC:
        found[f"metrics.json elbo={value}"] = partial(
            _set_field, file="metrics.json", field="elbo", value=value
        )
    return found


def _of_target() -> dict[str, Callable[[Path], None]]:
    return {
        f"{file} {name}": partial(_change_file, file=file, change=change)
        for file in ("predictions.parquet", "hidden.parquet", "model.safetensors", "metrics.json")
        for name, change in (_BY_FILE | {"another table": _other_table}).items()
    }


#: The damages: each changes the folder of a run that is done.
DAMAGES = _all()
#: Damages to a run that predicts a target.
TARGET_DAMAGES = _of_target()


def damage_copies(jobs: Path, run: str, names: list[str]) -> dict[str, str]:
    """Copy a run that is done, once for each damage, and damage the copies.

    Args:
        jobs: the folder of the runs of a store.
        run: id of the run.
        names: keys of ``DAMAGES`` or ``TARGET_DAMAGES``.

    Returns:
        The damage of each copy, by its id.
    """
    found = {}
    for number, name in enumerate(names):
        id = f"{number:032x}"
        shutil.copytree(jobs / run, jobs / id)
        (DAMAGES | TARGET_DAMAGES)[name](jobs / id)
        found[id] = name
    return found
