"""The importance-weighted bound of a deep Gaussian process with noise inputs.

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py; E noise inputs, K draws of them.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.deep.deep_gp import FunctionDraw
from lvmcore.deep.importance_weighted.importance_rows import ImportanceRows
from lvmcore.deep.importance_weighted.noise_input_gp import NoiseInputDeepGP
from lvmcore.deep.objective import DeepGPObjective
from lvmcore.numerics.quasi_random import standard_normal

__all__ = ["ImportanceWeightedObjective"]


class ImportanceWeightedObjective(DeepGPObjective):
    """Σ_n E log (1/K) Σ_k exp(E log p(y_n | f⁽ᵏ⁾)) p(w⁽ᵏ⁾)/q(w⁽ᵏ⁾) − Σ_l KL of layer l.

    The outer expectation is over w⁽ᵏ⁾ ~ q(w_n) and the hidden layers, the inner one over the last
    layer's functions, in closed form. The K draws of a row share a draw of the layers' values at
    the inducing inputs, as the bound is on E log p(y_n | these values). It rises with K (Burda,
    Grosse and Salakhutdinov 2016); K = 1 is the evidence lower bound with −KL(q(w_n) ‖ N(0, I)).

    Args:
        model: initial model; fitted in place.
        X: inputs, standardised, [N, H].
        Y: targets: standardised numbers, or signs of classes, [N, P].
        n_importance: K.
        n_samples: S, draws of the functions in a step, each with K draws of the noise inputs.
        batch_size: B.
        generator: draws functions, noise inputs and batches.
    """

    model: NoiseInputDeepGP

    def __init__(
        self,
        model: NoiseInputDeepGP,
        X: Tensor,
        Y: Tensor,
        *,
        n_importance: int,
        n_samples: int,
        batch_size: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__(
            model, X, Y, n_samples=n_samples, batch_size=batch_size, generator=generator
        )
        self.copies = n_importance

    def _project(
        self, draw: FunctionDraw, X: Tensor, Y: Tensor, weight: float, generator: torch.Generator
    ) -> ImportanceRows:
        """Rows with K draws of their noise inputs at the last layer, under a draw."""
        model, S, K = self.model, draw.samples, self.copies
        mean, log_variance = model.noise_posterior(X, Y)
        mean, log_variance = mean[:, None], log_variance[:, None]  # [B, 1, E]
        e = standard_normal((S, len(X), K, model.n_noise), X, generator)
        w = mean + (0.5 * log_variance).exp() * e
        log_weights = 0.5 * (e.square() - w.square() + log_variance).sum(-1)  # log p(w)/q(w)
        noise = [w.flatten(1, 2), *model.layer_noise(S, len(X) * K, generator)]
        inputs = model.inputs(draw, X.repeat_interleave(K, 0), noise)
        return ImportanceRows(
            k=draw.last.cross(inputs),
            variance=draw.last.diagonal(inputs),
            Y=Y.repeat_interleave(K, 0),
            weight=weight,
            log_weights=log_weights,
        )

    def latent_mean(self, rows: NDArray[np.intp]) -> Tensor:
        """See ``DeepGPObjective``; without hidden layers the columns alone."""
        if len(self.model.hidden):
            return super().latent_mean(rows)
        return self.X[torch.as_tensor(rows)]

    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        """α of the last layer's kernel; without hidden layers that of the columns alone."""
        return {name: alpha[: mean.shape[1]] for name, alpha in super().relevance(mean).items()}
