"""A run with its fitted model and the rows of its map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lvmcore.data import Dataset

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel

__all__ = ["FittedMap"]


@dataclass(frozen=True)
class FittedMap:
    """A run with its fitted model and the rows of its map.

    Attributes:
        run: id of the run.
        model: the fitted model.
        dataset: the rows of the fit, in the order of the map.
        page: the page whose widget keys it is for.
    """

    run: str
    model: LatentVariableModel
    dataset: Dataset
    page: str = "latent"

    @property
    def mean(self) -> NDArray[np.float64]:
        """Latent means, [N, Q]."""
        return self.model.embedding_.mean

    @property
    def dimensions(self) -> int:
        """Q, the number of latent dimensions."""
        return int(self.mean.shape[1])
