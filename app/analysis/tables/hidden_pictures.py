"""Pictures with hidden pixels: what they show, what was hidden, and how it was filled. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data import Dataset
from lvmcore.export.filled_table import ImputedFeature

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel

__all__ = ["HiddenPictures", "ReconstructedPictures", "hidden_pictures", "reconstructed_pictures"]

# Half the width of a 90 % interval of a Gaussian, in sd.
_HALF_WIDTH = 1.6448536269514722


@dataclass(frozen=True)
class HiddenPictures:
    """Rows whose pixels were hidden, in the data's units, each [n, D].

    Attributes:
        names: of the rows, [n].
        truth: their observed pixels, NaN where one is missing in the table.
        seen: the pixels that were neither hidden nor missing, NaN elsewhere.
        filled: the seen pixels, and the others as they were imputed.
        width: width of the 90 % interval of an imputed pixel, 0 for a seen one.
    """

    names: list[str]
    truth: NDArray[np.float64]
    seen: NDArray[np.float64]
    filled: NDArray[np.float64]
    width: NDArray[np.float64]


def hidden_pictures(
    dataset: Dataset, cells: pd.DataFrame, imputed: Mapping[str, ImputedFeature], most: int
) -> HiddenPictures:
    """The rows with the most hidden pixels.

    Args:
        dataset: the rows that were imputed.
        cells: the hidden cells of the check; see ``evaluation.hidden_cells.hidden_frame``.
        imputed: the features of the completed table with missing cells.
        most: most rows.
    """
    hidden = cells["row_id"].astype(str).value_counts(sort=False)
    names = list(hidden.sort_values(ascending=False, kind="stable").index[:most])
    number = {str(name): row for row, name in enumerate(dataset.row_ids.tolist())}
    rows = [number[name] for name in names]
    column = {name: d for d, name in enumerate(dataset.feature_names)}
    truth = dataset.original_units(dataset.X[rows])
    filled, width = truth.copy(), np.zeros(truth.shape)
    for name, feature in imputed.items():
        gaps = feature.imputed[rows]
        filled[gaps, column[name]] = feature.values[rows][gaps]
        width[gaps, column[name]] = 2 * _HALF_WIDTH * feature.sd[rows][gaps]
    own = cells[cells["row_id"].astype(str).isin(names)]
    at = (
        [names.index(name) for name in own["row_id"].astype(str)],
        [column[name] for name in own["feature"]],
    )
    seen = truth.copy()
    seen[at] = np.nan
    filled[at] = own["mean"]
    width[at] = own["upper"] - own["lower"]
    return HiddenPictures(names, truth, seen, filled, width)


@dataclass(frozen=True)
class ReconstructedPictures:
    """Rows that were fitted with hidden pixels, in the data's units, each [n, D].

    Attributes:
        truth: their observed pixels.
        seen: the pixels of the fit, NaN where one was hidden.
        mean: all pixels as the model reconstructs them.
    """

    truth: NDArray[np.float64]
    seen: NDArray[np.float64]
    mean: NDArray[np.float64]


def reconstructed_pictures(
    model: LatentVariableModel, fitted: Dataset, truth: Dataset, most: int
) -> ReconstructedPictures:
    """Rows of a fit, evenly spaced, decoded at the mean of their latent positions.

    Args:
        model: the fitted model.
        fitted: the rows of its fit.
        truth: the same table without hidden pixels.
        most: most rows.
    """
    rows = np.linspace(0, len(fitted) - 1, min(most, len(fitted))).round().astype(np.intp)
    order = {row: position for position, row in enumerate(truth.rows.tolist())}
    same = [order[row] for row in fitted.rows[rows].tolist()]
    column = {name: d for d, name in enumerate(truth.feature_names)}
    kept = [column[name] for name in fitted.feature_names]
    mean = model.decode(model.embedding_.mean[rows]).mean
    return ReconstructedPictures(
        truth.original_units(truth.X)[same][:, kept],
        fitted.original_units(fitted.X)[rows],
        fitted.original_units(mean),
    )
