"""Alignment of maps of one dataset by Procrustes analysis, over their common rows.

Pure functions of runs and their maps: no streamlit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.map_axes import Axes, positions
from app.analysis.map.regions import Polygon, Region
from app.formatting import number
from lvmcore.data import Dataset
from lvmcore.data.row_numbers import RowNames
from lvmcore.errors import DataError
from lvmcore.relevance import leading_dimensions
from lvmcore.runs import Job

if TYPE_CHECKING:
    from lvmcore.metrics.scores import Alignment


@dataclass(frozen=True)
class AlignedMap:
    """A map aligned to a first one.

    Attributes:
        fitted_map: the run.
        axes: the two displayed latent dimensions.
        row_positions: position of each of its rows in the whole dataset, [n].
        points: displayed positions of the rows, [n, 2].
        alignment: the transform to the first map; None in the map's own units.
        description: description of the alignment.
    """

    fitted_map: FittedMap
    axes: Axes
    row_positions: NDArray[np.intp]
    points: NDArray[np.float64]
    alignment: Alignment | None
    description: str

    def to_own_axes(self, region: Region) -> Region:
        """A region drawn on the aligned map, transformed to the map's own axes and units."""
        return replace(region, axes=self.axes, polygons=self._moved(region, undo=True))

    def outlines(self, region: Region) -> tuple[Polygon, ...]:
        """Displayed polygons of a region in the map's own units; none for other axes."""
        return self._moved(region, undo=False) if region.axes == self.axes else ()

    def selected(self, region: Region, rows: int) -> NDArray[np.bool_]:
        """Mask of the rows of the whole dataset inside a region of this map, [rows]."""
        found = np.zeros(rows, dtype=np.bool_)
        found[self.row_positions[region.members(positions(self.fitted_map.mean, region.axes))]] = (
            True
        )
        return found

    def _moved(self, region: Region, *, undo: bool) -> tuple[Polygon, ...]:
        if self.alignment is None:
            return region.polygons
        move = self.alignment.inverse if undo else self.alignment.apply
        return tuple(
            tuple((float(x), float(y)) for x, y in move(polygon)) for polygon in region.polygons
        )


def align_maps(maps: Sequence[FittedMap], full_dataset: Dataset) -> list[AlignedMap]:
    """Align maps to the first of them.

    Each map shows its two most relevant dimensions. All but the first are rotated (or reflected),
    scaled and shifted to the least squared distance from the first, over the common rows.

    Args:
        maps: runs of one dataset.
        full_dataset: that dataset with all rows.
    """
    found: list[AlignedMap] = []
    for fitted_map in maps:
        axes = leading_dimensions(fitted_map.model.variance_shares())
        row_positions = _row_positions(fitted_map.dataset.row_ids, full_dataset.row_ids)
        aligned_map = AlignedMap(
            fitted_map,
            axes,
            row_positions,
            positions(fitted_map.mean, axes),
            None,
            _dimensions(axes),
        )
        found.append(_aligned(found[0], aligned_map) if found else aligned_map)
    return found


def _row_positions(names: RowNames, everything: RowNames) -> NDArray[np.intp]:
    """Position of each row in the whole dataset, [n]; most maps have all rows."""
    if np.array_equal(names, everything):
        return np.arange(len(names))
    order = {name: i for i, name in enumerate(everything.tolist())}
    return np.array([order[name] for name in names.tolist()], dtype=np.intp)


def _aligned(first: AlignedMap, second: AlignedMap) -> AlignedMap:
    from lvmcore.metrics.scores import procrustes

    if first.axes[1] is None or second.axes[1] is None:
        return replace(
            second, description=f"{second.description}; not aligned: a map has one dimension"
        )
    _, ours, theirs = np.intersect1d(first.row_positions, second.row_positions, return_indices=True)
    try:
        alignment = procrustes(first.points[ours], second.points[theirs])
    except DataError:
        return replace(
            second, description=f"{second.description}; not aligned: too few common rows"
        )
    disparity = number(alignment.disparity, 2)
    description = f"{second.description}; aligned to the first map, disparity {disparity}"
    return replace(
        second, points=alignment.apply(second.points), alignment=alignment, description=description
    )


def _dimensions(axes: Axes) -> str:
    if axes[1] is None:
        return "dimension 1 against the row"
    return f"dimensions {axes[0] + 1} and {axes[1] + 1}"


def map_names(jobs: Sequence[Job]) -> dict[str, str]:
    """Titles of runs, by id: runs of the same name get the settings in which they differ."""
    found = {}
    for job in jobs:
        alike = [other.spec.parameters for other in jobs if other.name == job.name]
        differing = [
            f"{name} {value}"
            for name, value in job.spec.parameters.items()
            if any(other.get(name, value) != value for other in alike)
        ]
        found[job.id] = f"{job.name} ({', '.join(differing)})" if differing else job.name
    return found
