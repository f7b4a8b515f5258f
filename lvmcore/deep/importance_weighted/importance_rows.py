"""Rows of a deep Gaussian process with K draws of their noise inputs each, and the draws' weights.

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py; K draws of a row's noise inputs w.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from lvmcore.deep.layer_kernel import LayerKernel
from lvmcore.deep.output_layer import InducingPosterior, OutputLayer, ProjectedRows

__all__ = ["ImportanceRows"]


@dataclass(frozen=True, kw_only=True)
class ImportanceRows(ProjectedRows):
    """R rows of the table as B = R K rows at the last layer; the draws of a row are consecutive.

    The term of a row is log (1/K) Σ_k exp(E log p(y | f⁽ᵏ⁾)) p(w⁽ᵏ⁾)/q(w⁽ᵏ⁾). It is at least
    Σ_k r_k (E log p(y | f⁽ᵏ⁾) + log p(w⁽ᵏ⁾)/q(w⁽ᵏ⁾) − log K r_k) for any shares r that add up to 1,
    with equality at those that are proportional to the summands. So the last layer's optimal q
    counts a draw as a row of weight r_k.

    Attributes:
        log_weights: log p(w)/q(w), [..., R, K].
    """

    log_weights: Float[Tensor, "... R K"]

    def combined(self, logs: Float[Tensor, "... B"]) -> Float[Tensor, "... R"]:
        """See ``ProjectedRows``."""
        return self._summands(logs).logsumexp(-1) - math.log(self.log_weights.shape[-1])

    @torch.no_grad()
    def at_posterior(
        self, last: OutputLayer, layer_kernel: LayerKernel, posterior: InducingPosterior
    ) -> ImportanceRows:
        """The rows with the shares r of their draws at a q of the last layer, as precision."""
        mean, variance = posterior.moments(layer_kernel, self.k, self.variance)
        logs = last.likelihood.expectation(self.Y, mean, variance)
        return replace(self, precision=self._summands(logs).softmax(-1).flatten(-2))

    def _summands(self, logs: Float[Tensor, "... B"]) -> Float[Tensor, "... R K"]:
        """Logarithms of the K summands of each row."""
        shape = (*logs.shape[:-1], *self.log_weights.shape[-2:])
        return logs.reshape(shape) + self.log_weights
