"""Decoded rows along curves of the latent space, and rows sampled from a model."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from app.services import server
from app.services.caching import cached
from app.services.fitted_maps import fitted_dataset, model
from lvmcore.export.tables import to_csv_bytes, to_parquet_bytes

if TYPE_CHECKING:
    import pandas as pd

    from app.analysis.map.generation import DecodedPath, GeneratedRows
    from app.analysis.map.map_axes import Axes
    from app.analysis.map.row_colours import CategoryStyle
    from lvmcore.export.animation import AnimationFormat
    from lvmcore.geometry import LatentPath

__all__ = [
    "cell_range",
    "decoded_path",
    "decoded_sweep",
    "generated_csv",
    "generated_parquet",
    "generated_rows",
    "max_deviation",
    "model_digest",
    "path_animation",
]

LatentPosition = tuple[float, ...]


@cached(max_entries=64)
def decoded_path(
    run: str, start: LatentPosition, end: LatentPosition, *, straight: bool
) -> tuple[LatentPath, DecodedPath]:
    """A curve between two latent positions, and the decoded rows along it.

    Args:
        run: id of the run.
        start: latent position of one end, Q coordinates.
        end: latent position of the other end.
        straight: whether the curve is a straight line, not a path that follows the data.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
        UnsupportedError: the model cannot decode.
    """
    from app.analysis.map import generation

    fitted = model(run)
    found = fitted.latent_path(start, end, along="line" if straight else "data")
    return found, generation.decode_path(fitted, fitted_dataset(run), found)


@cached(max_entries=64)
def decoded_sweep(run: str, dimension: int, held: LatentPosition, points: int) -> DecodedPath:
    """Decoded rows along one latent dimension.

    Args:
        run: id of the run.
        dimension: the dimension that varies.
        held: latent position whose other coordinates stay fixed.
        points: number of rows.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
        UnsupportedError: the model cannot decode.
    """
    from app.analysis.map import generation

    return generation.decode_sweep(model(run), fitted_dataset(run), dimension, held, points)


def path_animation(
    run: str,
    found: DecodedPath,
    form: AnimationFormat,
    *,
    title: str,
    columns: Sequence[int],
    axes: Axes,
    classes: CategoryStyle | None = None,
    ends: tuple[str, str] | None = None,
) -> bytes:
    """A decoded curve as an animation: the point on the map, and beside it the decoded row.

    Args:
        run: id of the run.
        found: the decoded curve.
        form: "gif" or "mp4".
        title: what ``found.at`` measures.
        columns: positions of the columns to draw; all are drawn of a table of pictures.
        axes: the dimensions of the map.
        classes: categories of the rows with their colours; None for one colour.
        ends: letters of the first and the last point; None for no letters.

    Raises:
        DataError: the run has no model, its dataset does not exist, or the curve is too short.
        UnsupportedError: the package that writes such a file is not installed.
    """
    from app.analysis.map.map_axes import positions
    from app.figures.latent_map import axis_title
    from lvmcore.export.path_animation import AnimatedCurve, AnimatedPictures
    from lvmcore.export.path_animation import path_animation as animation_of

    dataset, shape = fitted_dataset(run), fitted_dataset(run).image_shape
    drawn = list(range(found.value.shape[1])) if shape is not None else list(columns)
    shown = [dimension for dimension in axes if dimension is not None]
    curve = AnimatedCurve(
        rows=positions(model(run).embedding_.mean, axes),
        points=found.latent[:, shown],
        axes=(axis_title(axes[0]), axis_title(axes[1])),
        at=found.at,
        title=title,
        value=found.value[:, drawn],
        low=found.low[:, drawn],
        high=found.high[:, drawn],
        names=[dataset.feature_names[d] for d in drawn],
        interval="± 2 sd" if found.symmetric else "95 % intervals",
        classes=classes,
        ends=ends,
        pictures=None if shape is None else AnimatedPictures(shape, cell_range(run)),
    )
    return animation_of(curve, form)


def _rows_key(draw: GeneratedRows) -> tuple[object, ...]:
    """Key of a request, with its row numbers as bytes: quick to hash for many rows."""
    rows = None if draw.rows is None else np.array(draw.rows, dtype=np.int64).tobytes()
    return draw.n, draw.seed, draw.classes, rows, draw.origin


@cached(max_entries=4, hash_funcs={"app.analysis.map.generation.GeneratedRows": _rows_key})
def generated_rows(run: str, draw: GeneratedRows) -> pd.DataFrame:
    """Rows sampled from a run's model.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
        ConfigError: the request selects no row of the fit.
        UnsupportedError: the model cannot sample rows.
    """
    from app.analysis.map import generation

    return generation.generated_table(model(run), fitted_dataset(run), draw, model_digest(run))


def generated_csv(run: str, draw: GeneratedRows) -> bytes:
    """Sampled rows as CSV."""
    return to_csv_bytes(generated_rows(run, draw))


def generated_parquet(run: str, draw: GeneratedRows) -> bytes:
    """Sampled rows as Parquet."""
    return to_parquet_bytes(generated_rows(run, draw))


def model_digest(run: str, digits: int = 16) -> str:
    """SHA-256 of a run's model file, hexadecimal.

    Args:
        run: id of the run.
        digits: number of leading digits, at most 64.

    Raises:
        DataError: the run does not exist.
    """
    return _model_digest(run)[:digits]


@cached(max_entries=64)
def _model_digest(run: str) -> str:
    path = server.store().job_folder(run).files.model
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cell_range(run: str) -> tuple[float, float]:
    """The smallest and the largest cell of a run's fit, in the units of the data.

    Raises:
        DataError: the run or its dataset does not exist.
    """
    return _ranges(run)[:2]


def max_deviation(run: str) -> float:
    """The largest |x - mean| / sd over the cells of a run's fit, by column.

    Raises:
        DataError: the run or its dataset does not exist.
    """
    return _ranges(run)[2]


@cached(max_entries=32)
def _ranges(run: str) -> tuple[float, float, float]:
    dataset, standard = fitted_dataset(run), model(run).standardiser_
    units = dataset.original_units(dataset.X)
    ends = np.stack([np.nanmin(dataset.X, axis=0), np.nanmax(dataset.X, axis=0)])
    farthest = float((np.abs(ends - standard.mean) / standard.scale).max())
    return float(np.nanmin(units)), float(np.nanmax(units)), farthest
