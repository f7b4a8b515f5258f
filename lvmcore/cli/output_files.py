"""Output files of the commands: CSV, Parquet, H5AD, GIF and MP4, by their suffixes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from lvmcore.errors import ConfigError
from lvmcore.export.animation import AnimationFormat, check_animation
from lvmcore.export.anndata import check_h5ad, places_to_h5ad
from lvmcore.export.tables import to_csv_bytes, to_parquet_bytes
from lvmcore.persistence import write_atomically

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.data.dataset import Dataset
    from lvmcore.runs.job import JobSpec

__all__ = ["animation_format", "check_outputs", "table_writer", "write_output", "write_placements"]

_TABLES = {".csv": to_csv_bytes, ".parquet": to_parquet_bytes}
_ANNOTATED = ".h5ad"
_ANIMATIONS: dict[str, AnimationFormat] = {".gif": "gif", ".mp4": "mp4"}


def table_writer(path: Path, option: str = "--out") -> Callable[[pd.DataFrame], bytes]:
    """The function that converts a table to the format of a file's suffix.

    Args:
        path: the file.
        option: the option that names it, for the message.

    Raises:
        ConfigError: the suffix is unknown.
    """
    if path.suffix.lower() not in _TABLES:
        raise ConfigError(f"{option} {path} has an unknown suffix: expected .csv or .parquet.")
    return _TABLES[path.suffix.lower()]


def animation_format(path: Path, option: str = "--out") -> AnimationFormat:
    """The format of an animation by a file's suffix, before it is drawn.

    Args:
        path: the file.
        option: the option that names it, for the message.

    Raises:
        ConfigError: the suffix is unknown.
        UnsupportedError: the package that writes such a file is not installed.
    """
    form = _ANIMATIONS.get(path.suffix.lower())
    if form is None:
        raise ConfigError(f"{option} {path} has an unknown suffix: expected .gif or .mp4.")
    check_animation(form)
    return form


def check_outputs(path: Path, option: str) -> None:
    """Check that latent positions can be written to a file, before they are computed.

    Args:
        path: the file.
        option: the option that names it, for the message.

    Raises:
        ConfigError: the suffix is unknown.
        UnsupportedError: the package that writes such a file is not installed.
    """
    if path.suffix.lower() == _ANNOTATED:
        check_h5ad()
    elif path.suffix.lower() not in _TABLES:
        raise ConfigError(
            f"{option} {path} has an unknown suffix: expected .csv, .parquet or .h5ad."
        )


def write_placements(
    path: Path,
    frame: pd.DataFrame,
    model: LatentVariableModel,
    rows: Dataset,
    spec: JobSpec | None = None,
) -> None:
    """Write latent positions of rows in the format of a file's suffix.

    Args:
        path: the file, checked by ``check_outputs``.
        frame: the positions, in the form of ``places_to_h5ad``.
        model: the model of the map.
        rows: the dataset of the rows.
        spec: description of the run that fitted the model; None without one.

    Raises:
        ConfigError: it cannot be written.
    """
    if path.suffix.lower() == _ANNOTATED:
        write_output(path, places_to_h5ad(frame, model, rows, spec))
    else:
        write_output(path, table_writer(path)(frame))


def write_output(path: Path, content: bytes) -> None:
    """Write a file atomically.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        write_atomically(path, content)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error
