"""The files that commands write: what their endings stand for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from lvmcore.errors import ConfigError
from lvmcore.export.anndata import check_h5ad, places_to_h5ad
from lvmcore.export.tables import to_csv_bytes, to_parquet_bytes
from lvmcore.persistence import write_atomically

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.data.dataset import Dataset
    from lvmcore.runs.job import JobSpec

__all__ = ["check_outputs", "table_writer", "write_output", "write_placements"]

_TABLES = {".csv": to_csv_bytes, ".parquet": to_parquet_bytes}
_ANNOTATED = ".h5ad"


def table_writer(path: Path, option: str = "--out") -> Callable[[pd.DataFrame], bytes]:
    """What writes a table in the format of a file's ending.

    Raises:
        ConfigError: the ending is not known.
    """
    if path.suffix.lower() not in _TABLES:
        raise ConfigError(f"{option} {path} ends in no known way: expected .csv or .parquet.")
    return _TABLES[path.suffix.lower()]


def check_outputs(path: Path, option: str) -> None:
    """Refuse a file that places on a map cannot be written to, before they are worked out.

    Raises:
        ConfigError: the ending is not known.
        UnsupportedError: the package that writes such a file is not installed.
    """
    if path.suffix.lower() == _ANNOTATED:
        check_h5ad()
    elif path.suffix.lower() not in _TABLES:
        raise ConfigError(
            f"{option} {path} ends in no known way: expected .csv, .parquet or .h5ad."
        )


def write_placements(
    path: Path,
    frame: pd.DataFrame,
    model: LatentVariableModel,
    rows: Dataset,
    spec: JobSpec | None = None,
) -> None:
    """Write places on a map in the format of a file's ending.

    Args:
        path: the file, which ``check_places`` has taken.
        frame: the places, as ``places_to_h5ad`` takes them.
        model: whose map it is.
        rows: the dataset that holds the rows.
        spec: of the run that placed them, where there is one.

    Raises:
        ConfigError: it cannot be written.
    """
    if path.suffix.lower() == _ANNOTATED:
        write_output(path, places_to_h5ad(frame, model, rows, spec))
    else:
        write_output(path, table_writer(path)(frame))


def write_output(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        write_atomically(path, content)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error
