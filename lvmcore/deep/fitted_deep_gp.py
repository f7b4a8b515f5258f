"""A fitted deep Gaussian process as the function of a predictor.

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.deep.deep_gp import DeepGP
from lvmcore.deep.hidden_layer import InducingValues
from lvmcore.deep.kept_draws import DeepGPDraws
from lvmcore.deep.likelihoods import GaussianNoise, QExponentialNoise, SoftmaxClasses
from lvmcore.errors import DataError
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.persistence import with_prefix

__all__ = ["FittedDeepGP"]

Model = TypeVar("Model", bound=DeepGP)


class FittedDeepGP(Generic[Model]):
    """A deep Gaussian process with the draws of its functions that predictions average.

    Args:
        gp: the deep Gaussian process, fitted or during the fit.

    Attributes:
        kept: draws of its functions.
    """

    kept: DeepGPDraws

    def __init__(self, gp: Model) -> None:
        self.gp = gp

    @torch.no_grad()
    def keep(
        self, draws: int, generator: torch.Generator, rows: tuple[Tensor, Tensor] | None
    ) -> None:
        """Draw the functions for predictions, given rows X and Y; None for the current q."""
        given = rows if self.gp.posterior_per_draw else None
        samples = draws if self.gp.sampled else 1
        self.kept = DeepGPDraws.from_model(self.gp, samples, generator, given)

    # ---- fitted parameters ---------------------------------------------------------------------

    @property
    def relevance(self) -> dict[str, FloatArray]:
        """α = 1/ℓ² of the inputs of each layer, by name."""
        layers = [*self.gp.hidden, self.gp.last]
        return {
            f"layer{number}": to_numpy(layer.relevance)
            for number, layer in enumerate(layers, start=1)
        }

    @property
    def n_parameters(self) -> int:
        """Number of optimised parameters."""
        idle = sum(v.unused_entries for v in self.gp.modules() if isinstance(v, InducingValues))
        return sum(p.numel() for p in self.gp.parameters() if p.requires_grad) - idle

    @property
    def n_hidden_layers(self) -> int:
        """Number of hidden layers."""
        return len(self.gp.hidden)

    # ---- predictions ---------------------------------------------------------------------------

    def hidden_units(self, X: Tensor, layer: int) -> Tensor:
        """Means of a hidden layer's units at standardised rows, [n, width]."""
        return self.kept.hidden_means(X, layer)

    def normals(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances, noise included, under each draw, standardised, [n, S] each."""
        (mean, variance), likelihood = self.kept.predict(X), self.gp.last.likelihood
        assert isinstance(likelihood, GaussianNoise)
        # [K]: a mixture of S K components, those of a draw consecutive
        noise = likelihood.noise_mixture[0].detach()
        total = variance[..., 0].T[:, :, None] + noise
        return mean[..., 0].T.repeat_interleave(len(noise), 1), total.flatten(1)

    def weights(self) -> FloatArray | None:
        """Weights of the draws, [S]; None if all are equal."""
        likelihood = self.gp.last.likelihood
        if not isinstance(likelihood, QExponentialNoise):
            return None
        weights, samples = to_numpy(likelihood.noise_mixture[1]), self.kept.draw.samples
        return np.tile(weights, samples) / samples

    def probability(self, X: Tensor) -> Tensor:
        """Probabilities at standardised rows, [n, C]; [n, 1], of the second, for two classes."""
        likelihood = self.gp.last.likelihood
        assert isinstance(likelihood, SoftmaxClasses)
        return self.gp.average(likelihood.probability(*self.kept.predict(X)))

    # ---- storage -------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON-serialisable facts for a file."""
        parts = {"gp": self.gp.state_dict(), "kept": self.kept.tensors()}
        arrays = {
            f"{part}.{name}": np.asarray(tensor.detach().cpu().numpy())
            for part, tensors in parts.items()
            for name, tensor in tensors.items()
        }
        facts = {
            "widths": [layer.width for layer in self.gp.hidden],
            "inducing": self.gp.n_inducing,
            "outputs": self.kept.posterior.mean.shape[-2],
            "exponent": self.gp.last.q.exponent,
            "kernel": self.gp.last.kernel,
        }
        first = next(iter(self.gp.hidden), self.gp.last).composite
        return arrays, facts if first is None else {**facts, "expression": str(first.expression)}

    def load(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Restore the state of ``state``.

        Raises:
            DataError: the file has draws of an earlier, unsupported version.
        """
        del facts
        if "kept.mean" not in arrays:
            raise DataError("The model was saved by an earlier version: fit it again.")
        stored = {
            part: {name: torch.as_tensor(a.copy()) for name, a in with_prefix(arrays, part).items()}
            for part in ("gp.", "kept.")
        }
        self.gp.load_state_dict(stored["gp."])
        device = next(self.gp.parameters()).device
        self.kept = DeepGPDraws.from_tensors(
            self.gp, {name: tensor.to(device) for name, tensor in stored["kept."].items()}
        )
