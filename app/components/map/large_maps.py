"""Maps with too many rows for markers: how their rows are drawn.

A browser draws all rows of a large map as a density, and those in view as markers where they are
few. Of still more rows, and of registered files, of which the dataset is a sample, it gets a
picture of the density and markers of a sample. A selection is computed over all rows, drawn or not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.analysis.map import subsampling
from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.heatmaps import MapChoices
from app.analysis.map.map_axes import is_line, positions
from app.analysis.map.row_colours import Colouring
from app.figures import density
from app.figures.canvas_scene import Ranges
from app.figures.density import AllRows
from app.formatting import count
from app.services import fitted_maps, row_analysis, tables
from lvmcore.data import Dataset
from lvmcore.data.row_numbers import RowNumbers
from lvmcore.errors import LatentboardError

__all__ = [
    "MOST_DRAWN",
    "SAMPLED",
    "SEED",
    "DensityLayer",
    "density_layer",
    "drawn_rows",
    "large_map_note",
    "layer_of_rows",
    "row_names",
    "rows_in_view",
]

#: Most rows of a map whose rows are all markers; most markers of a larger map; seed of its sample.
MOST_DRAWN, SAMPLED, SEED = 20_000, 5000, 0


@dataclass(frozen=True)
class DensityLayer:
    """What is under the markers of a large map: one of these, or nothing.

    Attributes:
        rows: all rows, for the browser.
        picture: picture of the density as a data address, and the ranges that it fills.
    """

    rows: AllRows | None = None
    picture: tuple[str, Ranges] | None = None


def drawn_rows(
    fitted_map: FittedMap, choices: MapChoices, points: NDArray[np.float64], visible: Ranges
) -> NDArray[np.intp]:
    """The rows of a map that are drawn as markers.

    A random sample is drawn for what only markers show (ellipses, sizes, shapes, pictures), and
    where the browser does not draw all rows.

    Args:
        fitted_map: the run.
        choices: what the map shows.
        points: positions of all rows, [N, 2].
        visible: visible ranges of the map.
    """
    more = choices.ellipses or choices.pictures
    more = more or choices.size is not None or choices.shape is not None
    return rows_in_view(points, visible, sample=more or not _draws_all(fitted_map))


def rows_in_view(
    points: NDArray[np.float64], visible: Ranges, among: int = 1, *, sample: bool
) -> NDArray[np.intp]:
    """The rows drawn as markers: all, or of a large map those in view where they are few.

    Args:
        points: positions of all rows, [N, 2].
        visible: visible ranges of the map.
        among: number of maps side by side, which share the number of markers.
        sample: whether a random sample is drawn of more rows in view; otherwise none is.
    """
    if len(points) <= MOST_DRAWN // among:
        return np.arange(len(points))
    inside = np.ones(len(points), dtype=np.bool_)
    for axis, (low, high) in enumerate(visible):
        inside &= (points[:, axis] >= low) & (points[:, axis] <= high)
    rows, most = np.flatnonzero(inside), SAMPLED // among
    if len(rows) > most and not sample:
        return rows[:0]
    return rows[subsampling.sampled_rows(len(rows), most, SEED)]


def density_layer(
    fitted_map: FittedMap,
    choices: MapChoices,
    points: NDArray[np.float64],
    visible: Ranges,
    colouring: Colouring,
) -> DensityLayer:
    """What a large map has under its markers; nothing for other maps.

    Args:
        fitted_map: the run.
        choices: what the map shows.
        points: positions of the rows, [N, 2].
        visible: visible ranges of the map.
        colouring: colours of the rows.
    """
    if fitted_map.dataset.files is not None:
        picture = _density_of_files(fitted_map, choices, visible)
        return DensityLayer(picture=picture)
    if len(points) <= MOST_DRAWN:
        return DensityLayer()
    rows = AllRows(
        points,
        colouring,
        selected=row_analysis.current_selection_mask(fitted_map),
        names=row_names(fitted_map.dataset),
    )
    return layer_of_rows(rows, visible, dark=choices.dark)


def layer_of_rows(rows: AllRows, visible: Ranges, *, dark: bool) -> DensityLayer:
    """All rows for the browser, or a picture of their density where they are too many for it.

    Args:
        rows: the rows.
        visible: visible ranges of the map.
        dark: whether the page is dark.
    """
    if len(rows.points) <= density.MOST_ROWS:
        return DensityLayer(rows=rows)
    picture = density.density_picture(
        rows.points, rows.colouring, visible, selected=rows.selected, dark=dark
    )
    return DensityLayer(picture=(picture, visible))


def row_names(dataset: Dataset) -> bytes | None:
    """Names of the rows for the browser; None where they are the positions, from 1."""
    names = dataset.row_ids
    if isinstance(names, RowNumbers) and names.consecutive:
        return None
    return tables.row_names(dataset)


def large_map_note(fitted_map: FittedMap, drawn: int) -> list[str]:
    """How the rows of a large map are drawn; empty for other maps.

    Args:
        fitted_map: the run.
        drawn: number of rows drawn as markers.
    """
    if fitted_map.dataset.files is not None:
        return _files_note(fitted_map)
    if len(fitted_map.mean) <= MOST_DRAWN:
        return []
    every = count(len(fitted_map.mean), "row")
    sample = (
        f"{count(drawn, 'row')} are drawn as markers, a random sample of the visible rows "
        f"(seed {SEED})."
    )
    if not _draws_all(fitted_map):
        return [
            f"The density in the background is that of all {every}.",
            sample,
            "Selections are computed over all rows.",
        ]
    found = [f"All {every} are drawn: the more rows at a place, the stronger its colour."]
    if not drawn:
        found.append(f"In a view of at most {count(SAMPLED, 'row')} each has a marker: zoom in.")
    elif drawn == SAMPLED:
        found.append(sample)
    return found


def _draws_all(fitted_map: FittedMap) -> bool:
    """Whether the browser draws all rows, of a map with too many for markers."""
    many = MOST_DRAWN < len(fitted_map.mean) <= density.MOST_ROWS
    return many and fitted_map.dataset.files is None


def _density_of_files(
    fitted_map: FittedMap, choices: MapChoices, visible: Ranges
) -> tuple[str, Ranges] | None:
    """Density picture of the rows of registered files; None for a map that has none."""
    means = _density_means(fitted_map)
    if means is None or is_line(choices.axes):
        return None
    points = positions(means, choices.axes)
    return density.density_picture(points, None, visible, dark=choices.dark), visible


def _density_means(fitted_map: FittedMap) -> NDArray[np.float64] | None:
    """Latent means that the density is drawn of, [n, Q]; None for a run without them."""
    try:
        return fitted_maps.density_rows(fitted_map.run)
    except LatentboardError:  # deleted from the run's folder, or not yet written
        return None


def _files_note(fitted_map: FittedMap) -> list[str]:
    """What the density and the markers of a map of registered files are of."""
    means = _density_means(fitted_map)
    if means is None:
        return []
    drawn = len(means)
    return [
        f"The density in the background is that of {count(drawn, 'row')} of the files (all, or a "
        f"random sample with seed 0). The markers, colours and selections are of the sample "
        f"of {count(len(fitted_map.mean), 'row')} that the Data page shows."
    ]
