"""Analysis of the rows of a map: selections, contrasts, neighbours and residuals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from app.services import fitted_maps, server
from app.services.caching import cached
from app.state.session import session
from lvmcore.errors import DataError
from lvmcore.runs.saved_items import SavedSelection, items_stamp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.analysis.filters.column_bins import ColumnBins
    from app.analysis.filters.cross_filter import CrossFilter
    from app.analysis.map.fitted_map import FittedMap
    from app.analysis.map.map_axes import View
    from app.analysis.map.neighbours import NearestRows
    from app.analysis.map.region_probability import RegionProbability
    from app.analysis.map.regions import Region
    from app.analysis.map.residuals import Residuals
    from app.analysis.map.selection_contrast import ContrastRanking, PairedHistogram
    from app.analysis.map.selections import Selection
    from lvmcore.data import Dataset
    from lvmcore.preprocessing.standardiser import Standardiser

__all__ = [
    "LoadedSelection",
    "RowNeighbours",
    "column_bins",
    "column_smoothness",
    "cross_filter",
    "current_selection_mask",
    "delete_selection",
    "latent_weights",
    "neighbours",
    "paired_histograms",
    "probability_in_region",
    "rank_columns",
    "residuals",
    "row_disagreement",
    "save_selection",
    "saved_selections",
    "selection_mask",
]


@dataclass(frozen=True)
class RowNeighbours:
    """The nearest neighbours of a row.

    Attributes:
        on_map: by distance of the latent means.
        among_data: by distance of the standardised cells.
    """

    on_map: NearestRows
    among_data: NearestRows


@dataclass(frozen=True)
class LoadedSelection:
    """A saved selection of a run, with its number of rows.

    Attributes:
        name: name of the selection.
        selection: its criterion; None where the file cannot be read.
        rows: number of selected rows of the run's map.
    """

    name: str
    selection: Selection | None
    rows: int


@cached(max_entries=32)
def rank_columns(dataset: Dataset, selected: NDArray[np.bool_]) -> ContrastRanking | None:
    """Columns of a dataset ranked by the contrast of the selected rows with the others."""
    from app.analysis.map import selection_contrast

    return selection_contrast.rank_columns(dataset, selected)


def paired_histograms(
    dataset: Dataset, selected: NDArray[np.bool_], names: tuple[str, ...]
) -> tuple[PairedHistogram, ...]:
    """Histograms of columns over the selected rows and over the others."""
    return tuple(_paired_histogram(dataset, selected, name) for name in names)


@cached(max_entries=256)
def _paired_histogram(dataset: Dataset, selected: NDArray[np.bool_], name: str) -> PairedHistogram:
    from app.analysis.map import selection_contrast

    return selection_contrast.paired_histogram(dataset, selected, name)


@cached(max_entries=64)
def selection_mask(run: str, selection: Selection) -> NDArray[np.bool_]:
    """Boolean mask of the selected rows of a run's map, [N].

    Raises:
        DataError: the run has no model, or its dataset does not exist.
    """
    from app.analysis.map.selection_masks import selected_rows

    return selected_rows(
        selection, fitted_maps.model(run).embedding_.mean, fitted_maps.fitted_dataset(run)
    )


def current_selection_mask(fitted_map: FittedMap) -> NDArray[np.bool_] | None:
    """Boolean mask of the session's selection on a map, [N]; None without a selection."""
    selection = session.selection[fitted_map.run]
    return None if selection is None else selection_mask(fitted_map.run, selection)


def cross_filter(fitted_map: FittedMap, columns: tuple[str, ...]) -> CrossFilter:
    """Charts of columns of a map's table under the session's selection.

    Args:
        fitted_map: the run.
        columns: names of columns, ``MOST_CHARTS`` at most.

    Raises:
        KeyError: the table has no such column.
    """
    from app.analysis.filters import cross_filter

    run, dataset = fitted_map.run, fitted_map.dataset
    bins = [column_bins(dataset, name) for name in columns]
    return cross_filter.cross_filter(
        session.selection[run], bins, len(dataset), lambda term: selection_mask(run, term)
    )


@cached(max_entries=64)
def column_bins(dataset: Dataset, name: str) -> ColumnBins:
    """The bars of a column of a table, with the bar of each row.

    Raises:
        KeyError: the table has no such column.
    """
    from app.analysis.filters import column_bins

    return column_bins.column_bins(dataset, name)


def saved_selections(run: str) -> tuple[LoadedSelection, ...]:
    """The saved selections of a run, each with its number of rows.

    Cached until a selection is saved or deleted.

    Raises:
        DataError: the run, its model or its dataset does not exist.
    """
    folder = server.store().job_folder(run)
    return _saved_selections(run, items_stamp(folder.files.selections))


@cached(max_entries=32)
def _saved_selections(run: str, stamp: tuple[int, int, int] | None) -> tuple[LoadedSelection, ...]:
    from app.analysis.map.selection_masks import selected_rows
    from app.analysis.map.selections import from_json

    del stamp  # part of the key: time and size of the file
    mean, dataset = fitted_maps.model(run).embedding_.mean, fitted_maps.fitted_dataset(run)
    found = []
    for one in server.store().selections.list(run):
        try:
            selection = from_json(one.content, mean.shape[1])
        except DataError:
            found.append(LoadedSelection(one.name, None, 0))
        else:
            found.append(
                LoadedSelection(
                    one.name, selection, int(selected_rows(selection, mean, dataset).sum())
                )
            )
    return tuple(found)


def save_selection(run: str, name: str, content: Mapping[str, Any]) -> None:
    """Save a selection with a run.

    Raises:
        ConfigError: the name is blank or too long, or the run has too many selections.
        DataError: the run does not exist, or its folder cannot be written.
    """
    server.store().selections.save(run, SavedSelection(name, content))


def delete_selection(run: str, name: str) -> None:
    """Delete a saved selection of a run.

    Raises:
        DataError: the run does not exist, or its folder cannot be written.
    """
    server.store().selections.delete(run, name)


@cached(max_entries=256)
def neighbours(run: str, row: int, n_neighbors: int) -> RowNeighbours:
    """The nearest neighbours of a row; see ``app.analysis.map.neighbours``.

    Args:
        run: id of the run.
        row: position of the row in the fit.
        n_neighbors: number of neighbours.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
    """
    from app.analysis.map.neighbours import nearest_in_data, nearest_on_map

    dataset = fitted_maps.fitted_dataset(run)
    return RowNeighbours(
        nearest_on_map(fitted_maps.model(run), row, n_neighbors),
        nearest_in_data(dataset.X, _standardiser(dataset), row, n_neighbors),
    )


@cached(max_entries=8, spinner="Measuring how each row fits")
def residuals(run: str) -> Residuals:
    """Residuals of the rows of a fit; see ``app.analysis.map.residuals``.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
        UnsupportedError: the model cannot decode.
    """
    from app.analysis.map import residuals as map_residuals

    return map_residuals.residuals(fitted_maps.model(run), fitted_maps.fitted_dataset(run))


@cached(max_entries=16)
def column_smoothness(run: str, view: View) -> NDArray[np.float64]:
    """R² of each feature given the nearest rows of a displayed map, [D].

    See ``app.analysis.map.column_smoothness``.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
    """
    from app.analysis.map import column_smoothness as smoothness
    from app.analysis.map.map_axes import positions

    points = positions(fitted_maps.model(run).embedding_.mean, view)
    return smoothness.column_smoothness(points, fitted_maps.fitted_dataset(run).X)


@cached(max_entries=32)
def probability_in_region(
    run: str, region: Region, others: Selection | None = None
) -> RegionProbability:
    """Posterior probability of each row of a fit to lie in a region of the map.

    Args:
        run: id of the run.
        region: the region.
        others: the rows to consider; None considers all.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
    """
    from app.analysis.map import region_probability

    among = None if others is None else selection_mask(run, others)
    posterior = fitted_maps.model(run).embedding_
    return region_probability.probability_in_region(region, posterior, among)


def latent_weights(run: str) -> NDArray[np.float64]:
    """Weights of the latent dimensions in distances on a run's map, [Q].

    Raises:
        DataError: the run has no model.
    """
    from app.analysis.map.neighbours import weights

    return weights(fitted_maps.model(run))


def row_disagreement(runs: Sequence[str]) -> NDArray[np.float64] | None:
    """Disagreement of the maps of several runs by row, [N]; None where their rows differ.

    See ``app.analysis.comparison.map_stability.row_disagreement``.

    Raises:
        DataError: a run has no model.
    """
    return _row_disagreement(tuple(sorted(runs)))


@cached(max_entries=16)
def _row_disagreement(runs: tuple[str, ...]) -> NDArray[np.float64] | None:
    from app.analysis.comparison import map_stability

    return map_stability.row_disagreement([fitted_maps.model(run).embedding_.mean for run in runs])


@cached(max_entries=8)
def _standardiser(dataset: Dataset) -> Standardiser:
    """Means and scales of the columns of a dataset."""
    from lvmcore.preprocessing.standardiser import Standardiser

    return Standardiser.fit(dataset.X, list(dataset.feature_names))
