"""A run with a fitted model, as the Latent page works on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app import state
from lvmcore.data import Dataset

if TYPE_CHECKING:
    from lvmcore.base import LatentVariableModel

__all__ = ["Opened"]


@dataclass(frozen=True)
class Opened:
    """A run with a fitted model, as the page works on it.

    Attributes:
        run: its id.
        model: the fitted model.
        dataset: the rows that it was fitted to, in the order of its map.
        page: the page whose widgets it keys.
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

    def key(self, name: str) -> str:
        """Key of a widget of this run's map."""
        return state.widget(self.page, self.run, name)

    def selected(self) -> NDArray[np.bool_] | None:
        """Which of all fitted rows are selected, [N]; None without a selection."""
        from app import services  # which knows maps side by side, and so this class

        selection = state.selection(self.run)
        return None if selection is None else services.selected(self.run, selection)
