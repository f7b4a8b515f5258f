"""Fitted models and the rows of their fits; heatmaps, reconstructions and exports of the map."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.services import server, tables
from app.services.caching import cached
from lvmcore.data import Dataset
from lvmcore.data.samples.samples import true_correlations
from lvmcore.errors import DataError
from lvmcore.export.anndata import embedding_to_h5ad
from lvmcore.export.tables import to_csv_bytes, to_parquet_bytes
from lvmcore.prediction.map_table import embedding_frame
from lvmcore.runs.atomic_files import read_regular_file
from lvmcore.runs.saved_items import SavedView

if TYPE_CHECKING:
    import pandas as pd

    from app.analysis.map.heatmaps import Heatmap, HeatmapRequest
    from app.analysis.map.kernel_recovery import KernelRecovery
    from app.analysis.map.reconstruction import Reconstruction
    from app.figures.pictures import PictureSheet
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.numerics.array_types import FloatArray
    from lvmcore.projection import LatentProjection

__all__ = [
    "attempt",
    "best_view",
    "delete_view",
    "density_rows",
    "embedding_csv",
    "embedding_h5ad",
    "embedding_parquet",
    "far_field_value",
    "fitted_dataset",
    "heatmap",
    "kernel_recovery",
    "model",
    "reconstruction",
    "result_table",
    "row_pictures",
    "save_view",
    "saved_views",
    "selected_start",
    "start_agreement",
    "stored_dataset",
    "thumbnail",
]

#: Width and height of the picture of a saved view, in cells, and the opacity of a cell of one row.
_THUMBNAIL, _THUMBNAIL_OPACITY = (28, 21), 0.6
#: Most pictures that mark rows of a map.
_MOST_PICTURES = 2000


@cached(max_entries=8)
def stored_dataset(digest: str) -> Dataset:
    """A dataset of the store.

    Raises:
        DataError: the store has no dataset with this digest.
    """
    return server.store().datasets.get(digest)


@cached(max_entries=16, spinner="Loading the model")
def model(run: str) -> LatentVariableModel:
    """The fitted latent variable model of a run.

    Raises:
        DataError: the run has no model.
    """
    return server.store().load_model(run)


@cached(max_entries=64)
def best_view(run: str) -> LatentProjection | None:
    """The best 2-D view of a run's map; None for a map of at most two live dimensions.

    Raises:
        DataError: the run has no model.
    """
    from lvmcore.evaluation import map_dimensions

    return map_dimensions.best_view(model(run))


@cached(max_entries=12)
def result_table(run: str, name: str) -> pd.DataFrame:
    """A table in the folder of a run.

    Args:
        run: id of the run.
        name: name of the Parquet file, without its extension.

    Raises:
        DataError: the run or the table does not exist, or the table cannot be read.
    """
    import pandas as pd

    path = server.store().job_folder(run).path / f"{name}.parquet"
    try:
        table = pd.read_parquet(io.BytesIO(read_regular_file(path)))
    except (OSError, ValueError, LookupError, NotImplementedError, TypeError) as error:
        raise DataError(f"The result {path} is damaged: {error}.") from error
    if "row_id" not in table:
        raise DataError(f"The result {path} is damaged: it has no column row_id.")
    return table


@cached(max_entries=4)
def density_rows(run: str) -> FloatArray | None:
    """Latent means that the density of a map of registered files is drawn of, [n, Q].

    Returns:
        None for a run whose dataset holds all its rows, and while the file is written.
    """
    import numpy as np

    if stored_dataset(server.store().get(run).spec.dataset).files is None:
        return None
    frame = result_table(run, "density").drop(columns="row_id")
    return frame.to_numpy(dtype=np.float64)


def attempt(run: str) -> int:
    """Number of the run's current attempt; a result of an earlier attempt is out of date."""
    return server.store().get(run).attempt


@cached(max_entries=8)
def fitted_dataset(run: str) -> Dataset:
    """The rows of a run's fit, in the order of the model's latent positions.

    Raises:
        DataError: the run or its dataset does not exist.
    """
    # Imported before the thread below, which could otherwise import the same module meanwhile.
    import lvmcore.data.dataset_storage  # noqa: F401

    server.preload_torch()  # takes seconds, in parallel with reading a large dataset
    store = server.store()
    spec = store.get(run).spec
    whole = stored_dataset(spec.dataset)
    from lvmcore.jobs.fitting import training_rows
    from lvmcore.models import model_class
    from lvmcore.prediction.map_table import rows_on_map

    rows, _ = training_rows(whole, model_class(spec.model, "map"))
    on_map = rows_on_map(store.job_folder(run).path / "embedding.parquet")
    # An older run, of a model that did not yet support missing cells, used the complete rows.
    return rows if on_map in (None, len(rows)) else rows.complete_rows()


@cached(max_entries=128)
def heatmap(run: str, ask: HeatmapRequest) -> Heatmap:
    """A heatmap over the latent space of a run.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
        UnsupportedError: the model does not support it.
    """
    from app.analysis.map import heatmaps

    return heatmaps.heatmap(model(run), fitted_dataset(run), ask)


def far_field_value(run: str, ask: HeatmapRequest) -> float | None:
    """Value of a heatmap far from all rows; None where it has no limit.

    Raises:
        DataError: the run has no model.
    """
    from app.analysis.map import heatmaps

    return heatmaps.prior_magnification(model(run), ask)


@cached(max_entries=256)
def reconstruction(run: str, latent: tuple[float, ...]) -> Reconstruction:
    """Reconstruction of a latent position, in the units of the data.

    Args:
        run: id of the run.
        latent: the position, Q coordinates.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
        UnsupportedError: the model cannot decode.
    """
    from app.analysis.map.reconstruction import reconstruct

    return reconstruct(model(run), fitted_dataset(run), latent)


@cached(max_entries=32)
def kernel_recovery(run: str, sample: str) -> KernelRecovery:
    """The kernel of a fit of random features, between its rows, beside that of a simulated sample.

    Args:
        run: id of the run.
        sample: key of the sample that it was fitted to.

    Raises:
        DataError: the run has no model, or the sample has no known kernel.
    """
    from app.analysis.map.kernel_recovery import kernel_recovery

    true = true_correlations(sample)
    if true is None:
        raise DataError(f"The true kernel of {sample!r} is not known: choose an S-curve sample.")
    return kernel_recovery(model(run), fitted_dataset(run).rows, true)


def start_agreement(run: str) -> pd.DataFrame | None:
    """Agreement between the starts of a run by row; None for a run with one start.

    Returns:
        Columns ``row_id``, ``disagreement`` and ``neighbour_agreement``, in the order of the map.
    """
    metric = server.store().get(run).metrics.get("disagreement")  # written after the table
    if metric is None or metric.value is None:
        return None
    try:
        return result_table(run, "agreement")
    except DataError:  # deleted from the run's folder
        return None


def selected_start(run: str) -> int:
    """Number of the start that a run's model comes from, from 1.

    Raises:
        DataError: the run has no model.
    """
    fitted = model(run)
    from lvmcore.gp.starts.restarts import kept_start

    return kept_start(fitted)


def embedding_csv(run: str, projection: LatentProjection | None = None) -> bytes:
    """The embedding as CSV: row id, label, latent means and sds, and positions on a projection.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
    """
    return to_csv_bytes(_embedding(run, projection))


def embedding_parquet(run: str, projection: LatentProjection | None = None) -> bytes:
    """The embedding as Parquet: row id, label, latent means and sds, and positions on a projection.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
    """
    return to_parquet_bytes(_embedding(run, projection))


def embedding_h5ad(run: str, projection: LatentProjection | None = None) -> bytes:
    """The embedding as an AnnData file, with the rows of the fit, and positions on a projection.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
    """
    spec = server.store().get(run).spec
    return embedding_to_h5ad(model(run), fitted_dataset(run), spec, projection)


def _embedding(run: str, projection: LatentProjection | None) -> pd.DataFrame:
    return embedding_frame(model(run), fitted_dataset(run), projection)


def saved_views(run: str) -> tuple[SavedView, ...]:
    """The saved views of a run, in the order of their names.

    Raises:
        DataError: the run does not exist.
    """
    return server.store().views.list(run)


def save_view(run: str, name: str, content: Mapping[str, Any]) -> None:
    """Save a view with a run.

    Raises:
        ConfigError: the name is blank or too long, or the run has too many views.
        DataError: the run does not exist, or its folder cannot be written.
    """
    server.store().views.save(run, SavedView(name, content))


def delete_view(run: str, name: str) -> None:
    """Delete a saved view of a run.

    Raises:
        DataError: the run does not exist, or its folder cannot be written.
    """
    server.store().views.delete(run, name)


@cached(max_entries=4)
def row_pictures(run: str, *, dark: bool) -> PictureSheet | None:
    """Pictures of at most 2000 rows of a run, evenly spaced; None where rows are no pictures.

    Args:
        run: id of the run.
        dark: whether the page is dark.

    Raises:
        DataError: the run or its dataset does not exist.
    """
    import numpy as np

    from app.analysis.map.subsampling import evenly_spaced
    from app.figures.pictures import picture_sheet

    dataset = fitted_dataset(run)
    if dataset.image_shape is None or np.isnan(dataset.X).all():
        return None
    limits = float(np.nanmin(dataset.X)), float(np.nanmax(dataset.X))
    rows = evenly_spaced(len(dataset), _MOST_PICTURES)
    return picture_sheet(dataset.X, dataset.image_shape, limits, rows, dark=dark)


@cached(max_entries=128)
def thumbnail(
    run: str,
    axes: tuple[int, int | None] | None,
    column: str | None,
    ranges: tuple[tuple[float, float], tuple[float, float]] | None,
    *,
    dark: bool,
) -> str:
    """A small density picture of the rows of a run's map, as a data address.

    Args:
        run: id of the run.
        axes: two latent dimensions, the second None on a map of one; None for the best view.
        column: column of the row colours; None for one colour.
        ranges: ranges of both axes; None for the whole map.
        dark: whether the page is dark.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
    """
    from app.analysis.map.map_axes import extent, positions
    from app.figures.density import density_picture

    view = axes or best_view(run)
    dataset, mean = fitted_dataset(run), model(run).embedding_.mean
    points = positions(mean, view or (0, 1))
    colouring = None if column is None else tables.row_colouring(dataset, column)
    return density_picture(
        points,
        colouring,
        ranges or extent(points, view),
        dark=dark,
        size=_THUMBNAIL,
        least=_THUMBNAIL_OPACITY,
    )
