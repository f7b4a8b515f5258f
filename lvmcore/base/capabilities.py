"""What a model supports, as its class declares it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from lvmcore.preprocessing.cell_types import Cells

__all__ = ["Capabilities", "CapableEstimator"]


@dataclass(frozen=True)
class Capabilities:
    """What a model supports; asking for the rest raises UnsupportedError.

    Attributes:
        labels: whether ``fit`` uses class labels: not at all, or needs some.
        several_labels: the fit takes several label columns at once.
        missing_labels: rows without a label may take part in the fit.
        missing_cells: NaN cells may take part in the fit, and ``impute`` fills them.
        new_rows: rows that were not in the fit can be placed on the map.
        decoding: any point of the latent space can be turned back into a row.
        sampling: new rows can be drawn.
        uncertainty: latent positions carry a variance.
        bound: the fit maximises a likelihood or a bound on it, so there is a curve to watch.
        steps: the fit reports its steps while it runs, so that a callback can stop it.
        amortised: a network places rows by their columns alone, those of the fit too.
        streams: the fit reads a memory-mapped table some rows at a time and never holds all of it;
            other models load it.
        cells: what the cells have to be: any number, nothing below 0, or counts.
        chains: the fit draws from the posterior by Markov chains: it has a density, and no bound
            that rises.
    """

    labels: Literal["none", "required"] = "none"
    several_labels: bool = False
    missing_labels: bool = False
    missing_cells: bool = False
    new_rows: bool = True
    decoding: bool = True
    sampling: bool = False
    uncertainty: bool = False
    bound: bool = False
    steps: bool = True
    amortised: bool = False
    streams: bool = False
    cells: Cells = "any"
    chains: bool = False

    @property
    def density(self) -> bool:
        """Whether rows have a predictive density, so that ``score_samples`` is there."""
        return self.bound or self.chains


class CapableEstimator(Protocol):
    """An estimator of scikit-learn with a key and capabilities."""

    @property
    def key(self) -> str:
        """The key of the model."""

    @property
    def capabilities(self) -> Capabilities:
        """What it supports."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name."""
