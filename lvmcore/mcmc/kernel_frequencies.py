"""Frequencies of a given kernel in a Markov chain, functions of its hyperparameters.

The base samples of ``SpectralFrequencies`` are fixed; the state is u, the distance of the
unconstrained hyperparameters from their usual values: logarithms of lengthscales and of the
variances of summands, and gpytorch's raw parameters. Its prior is N(0, I).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lvmcore.kernels.expression import KernelExpression, kernel_terms
from lvmcore.kernels.expression_kernel import map_kernel_module
from lvmcore.kernels.spectral_frequencies import SpectralFrequencies
from lvmcore.numerics.array_types import FloatArray

__all__ = ["KernelFrequencies"]


class KernelFrequencies:
    """The frequencies w(u), [L, Q], and their amplitudes a(u), [L], of mean square 1.

    Args:
        expression: of the kernel, over the dimensions z1, z2, ….
        n_frequencies: L; fewer where the kernel has fewer frequencies.
        n_dimensions: Q.
        rng: of the base samples: chains of one model have the same.

    Raises:
        ConfigError: there are fewer frequencies than summands.
    """

    def __init__(
        self,
        expression: KernelExpression,
        n_frequencies: int,
        n_dimensions: int,
        rng: np.random.Generator,
    ) -> None:
        like = torch.zeros(1, n_dimensions, dtype=torch.float64)
        self.kernel = map_kernel_module(expression, like)
        self.names_dimensions = any(term.columns for term in kernel_terms(expression))
        self._spectral = SpectralFrequencies(self.kernel, n_frequencies, rng)
        self._parameters = [p for p in self._spectral.parameters() if p.requires_grad]
        self._start = [parameter.detach().clone() for parameter in self._parameters]
        self.size = sum(parameter.numel() for parameter in self._parameters)
        # Coordinates beyond the last hyperparameter have no effect
        self._coordinates = np.zeros((-(-self.size // n_dimensions), n_dimensions))
        self.colour(self._coordinates)

    @property
    def n_frequencies(self) -> int:
        """L."""
        return self._spectral.n_points

    @property
    def amplitudes(self) -> FloatArray:
        """a(u) of the last ``colour``, [L]."""
        return np.asarray(self._amplitudes.detach().numpy())

    def whiten(self, W: FloatArray) -> FloatArray:
        """u, in rows of Q, [⌈m/Q⌉, Q]; it determines the frequencies W."""
        del W
        return self._coordinates

    def colour(self, U: FloatArray) -> FloatArray:
        """The frequencies w(u), [L, Q], of u in rows of Q, which becomes the state."""
        self._coordinates = U.copy()
        parts = torch.as_tensor(U.ravel()[: self.size]).split(  # type: ignore[no-untyped-call]
            [parameter.numel() for parameter in self._parameters]
        )
        with torch.no_grad():
            for parameter, start, part in zip(self._parameters, self._start, parts, strict=True):
                parameter.copy_(start + part.reshape(start.shape))
        self._points = self._spectral.points()
        self._amplitudes = self._spectral.amplitudes()
        return np.asarray(self._points.detach().numpy())

    def pulled_back(self, slope_W: FloatArray, slope_a: FloatArray) -> FloatArray:
        """The gradient by u from those by w(u) [L, Q] and a(u) [L], at the last ``colour``."""
        made = [
            (value, torch.as_tensor(slope))
            for value, slope in ((self._points, slope_W), (self._amplitudes, slope_a))
            if value.requires_grad
        ]
        gradients = torch.autograd.grad(
            [value for value, _ in made],
            self._parameters,
            [slope for _, slope in made],
            retain_graph=True,
            materialize_grads=True,
        )
        found = np.zeros_like(self._coordinates)
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        found.reshape(-1)[: self.size] = flat.numpy()
        return found

    def sweep(self, W: FloatArray, rng: np.random.Generator) -> None:
        """Nothing is drawn given the frequencies."""
        del W, rng

    def hyperparameters(self) -> dict[str, float]:
        """The hyperparameters by name, and the shares of summands in the variance."""
        summands = self.kernel.summands
        total = sum(float(summand.variance.detach()) for summand in summands)
        found = {}
        for summand in summands:
            if len(summands) > 1:
                found[f"share of {summand.expression}"] = float(summand.variance.detach()) / total
            for term, values in summand.terms():
                for one in values:
                    of = (
                        "" if one.column is None or one.column in term.columns else f" {one.column}"
                    )
                    found[f"{one.name} of {term}{of}"] = one.value
        return found

    def quantities(self) -> dict[str, float]:
        """Quantities for diagnoses: hyperparameters, unless the map may turn against them."""
        if self.names_dimensions:
            return self.hyperparameters()
        relevance = self.kernel.relevance.detach().clamp_min(1e-12)
        return {"mean log relevance": float(relevance.log().mean())}

    # ---- checkpoints ---------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of the state, for ``restore``."""
        return {"coordinates": self._coordinates}

    def facts(self) -> dict[str, Any]:
        """The rest of the state, for JSON: nothing."""
        return {}

    def restore(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Restore the state of ``arrays``."""
        del facts
        self.colour(arrays["coordinates"])
