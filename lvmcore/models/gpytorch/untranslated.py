"""Models of gpytorch that are used as they are: they predict in memory and cannot be saved."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.errors import UnsupportedError
from lvmcore.models.gpytorch.parts import predicted
from lvmcore.numerics.array_types import FloatArray

__all__ = ["UntranslatedDecoder", "UntranslatedFunction"]


class UntranslatedFunction:
    """A regression model of gpytorch as the function of a predictor.

    Args:
        model: of gpytorch.
        likelihood: its likelihood.
        reason: why it cannot be stored.
    """

    n_hidden_layers = 0

    def __init__(self, model: Any, likelihood: Any, reason: str) -> None:
        self.model, self.likelihood, self.reason = model, likelihood, reason

    @property
    def relevance(self) -> dict[str, FloatArray]:
        """Nothing: it is not known of any kernel."""
        return {}

    @property
    def n_parameters(self) -> int:
        """Number of parameters."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def hidden_units(self, X: Tensor, layer: int) -> Tensor:
        """There is no hidden layer."""
        raise NotImplementedError  # there are no hidden layers

    def normals(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """gpytorch's mean and variance at standardised rows, noise included, [n, 1] each."""
        mean, variance = predicted(self.model, self.likelihood, X)
        return mean[:, None], variance[:, None]

    def weights(self) -> FloatArray | None:
        """None: there is one component."""
        return None

    def probability(self, X: Tensor) -> Tensor:
        """Only of classes."""
        raise NotImplementedError  # only of classes

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """There is none.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(self.reason)


class UntranslatedDecoder:
    """A map of gpytorch as the path from the latent space to the columns.

    Args:
        model: of gpytorch.
        likelihood: its likelihood.
        reason: why it cannot be stored.
        n_columns: D.
    """

    def __init__(self, model: Any, likelihood: Any, reason: str, n_columns: int) -> None:
        self.model, self.likelihood, self.reason = model, likelihood, reason
        self.n_columns = n_columns

    def decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """gpytorch's mean, variance with noise and noise variance at points X [N, Q], [N, D]."""
        mean, variance = predicted(self.model, self.likelihood, X)
        noise = self.noise.expand(len(X), self.n_columns)
        return mean.mT, variance.mT, torch.minimum(noise, variance.mT)

    @property
    def noise(self) -> Tensor:
        """σ_d², [D]; 0 where the likelihood has none."""
        noise = getattr(self.likelihood, "noise", torch.zeros(1))
        return noise.detach().double().reshape(-1).expand(self.n_columns)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """There are none.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(self.reason)

    def __getattr__(self, name: str) -> Any:
        """Everything else needs the kernel.

        Raises:
            UnsupportedError: for the name of a method of a path.
        """
        if name.startswith("_"):
            raise AttributeError(name)
        raise UnsupportedError(f"Only decode is possible. {self.reason}")
