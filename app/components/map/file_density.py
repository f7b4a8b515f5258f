"""The density picture of a map of registered files, of which the dataset is a sample."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.heatmaps import MapChoices
from app.analysis.map.map_axes import is_line, positions
from app.figures import canvas_scene, density
from app.formatting import count
from app.services import fitted_maps
from lvmcore.errors import LatentboardError

__all__ = ["density_means", "density_of_files", "files_note"]


def density_of_files(
    fitted_map: FittedMap, choices: MapChoices, visible: canvas_scene.Ranges
) -> tuple[str, canvas_scene.Ranges] | None:
    """Density picture of the rows of registered files; None for a map that has none."""
    means = density_means(fitted_map)
    if means is None:
        return None
    points = positions(means, choices.axes)
    if is_line(choices.axes):
        return None
    return density.density_picture(points, None, visible, dark=choices.dark), visible


def density_means(fitted_map: FittedMap) -> NDArray[np.float64] | None:
    """Latent means that the density is drawn of, [n, Q]; None for a run without them."""
    try:
        return fitted_maps.density_rows(fitted_map.run)
    except LatentboardError:  # deleted from the run's folder, or not yet written
        return None


def files_note(fitted_map: FittedMap) -> list[str]:
    """What the density and the markers of a map of registered files are of; empty for others."""
    means = density_means(fitted_map)
    if means is None:
        return []
    drawn = len(means)
    return [
        f"The density in the background is that of {count(drawn, 'row')} of the files (all, or a "
        f"random sample with seed 0). The markers, colours and selections are of the sample "
        f"of {count(len(fitted_map.mean), 'row')} that the Data page shows."
    ]
