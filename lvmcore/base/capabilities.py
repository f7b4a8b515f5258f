"""Capabilities of a model, declared by its class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from lvmcore.preprocessing.cell_types import Cells

__all__ = ["Capabilities", "CapableEstimator"]


@dataclass(frozen=True)
class Capabilities:
    """Capabilities of a model; other requests raise UnsupportedError.

    Attributes:
        labels: use of class labels in ``fit``: none, or required.
        several_labels: the fit accepts several label columns.
        missing_labels: rows without a label may be in the fit.
        missing_cells: NaN cells may be in the fit, and ``impute`` fills them.
        new_rows: positions of new rows on the map can be inferred.
        decoding: every latent point can be decoded to a row.
        sampling: new rows can be sampled.
        uncertainty: latent positions have a variance.
        bound: the fit maximises a likelihood or a lower bound on it.
        steps: the fit reports its steps while it runs, so that a callback can stop it.
        amortised: an encoder network infers the positions of all rows from their columns, unless a
            setting of the model asks for another posterior.
        streams: the fit reads a memory-mapped table in blocks and never holds all of it; other
            models load it.
        cells: permitted values of the cells: any number, non-negative numbers, or counts.
        gpu: the computations can run on a GPU: the setting ``device`` counts.
        shards: the rows of a fit can be in several processes, each with its part of the sums over
            rows and of their posterior.
        chains: the fit samples the posterior by Markov chains: it has a density, but no bound.
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
    gpu: bool = False
    chains: bool = False
    shards: bool = False

    @property
    def density(self) -> bool:
        """Whether rows have a predictive density, so that ``score_samples`` exists."""
        return self.bound or self.chains


class CapableEstimator(Protocol):
    """A scikit-learn estimator with a key and capabilities."""

    @property
    def key(self) -> str:
        """The key of the model."""

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the model."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name."""
