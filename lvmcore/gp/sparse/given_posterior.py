"""A sparse Gaussian process with a given q(u), as the function of a predictor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.predictor import Predictor
from lvmcore.kernels.catalogue import read_kernel
from lvmcore.kernels.composite import CompositeKernel
from lvmcore.kernels.definition import KernelDefinition
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.linalg import solve_lower
from lvmcore.persistence import with_prefix

__all__ = ["GivenSparseGP"]

_KERNEL, _ARRAYS = "given.kernel.", ("Z", "factor", "mean", "root")


class GivenSparseGP:
    """f ~ GP(0, k), y = f(x) + N(0, σ²), q(u) = N(L m, L S Lᵀ) at inducing inputs Z.

    With a = L⁻¹ k(Z, x), where LLᵀ is k(Z, Z) with its jitter, E f(x) = aᵀm and
    Var f(x) = k(x, x) − aᵀa + aᵀS a (Hensman and others 2013).

    Args:
        kernel: k.
        Z: inducing inputs, standardised, [M, H].
        factor: L, [M, M].
        mean: m, [M].
        root: R, R Rᵀ = S, [M, M].
        noise: σ².
    """

    n_hidden_layers = 0

    def __init__(
        self,
        kernel: CompositeKernel,
        Z: Float[Tensor, "M H"],
        factor: Float[Tensor, "M M"],
        mean: Float[Tensor, "M"],
        root: Float[Tensor, "M M"],
        noise: float,
    ) -> None:
        self.kernel, self.noise = kernel, noise
        # In memory of their own, as in a file: the memory layout affects rounding.
        self.Z, self.factor, self.mean, self.root = (
            part.detach().clone(memory_format=torch.contiguous_format)
            for part in (Z, factor, mean, root)
        )

    @property
    def relevance(self) -> dict[str, FloatArray]:
        """α of the columns, by layer."""
        return {"layer1": to_numpy(self.kernel.relevance)}

    @property
    def n_parameters(self) -> int:
        """Number of parameters of the kernel, the noise, the inducing inputs and q(u)."""
        M = len(self.Z)
        kernel = sum(one.numel() for one in self.kernel.parameters() if one.requires_grad)
        return kernel + 1 + self.Z.numel() + M + M * (M + 1) // 2

    def hidden_units(self, X: Tensor, layer: int) -> Tensor:
        """There is no hidden layer."""
        raise NotImplementedError  # there are no hidden layers

    @torch.no_grad()
    def normals(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the target at standardised rows, noise included, [n, 1] each."""
        a = solve_lower(self.factor, self.kernel.forward(X, self.Z).mT)
        left = self.kernel.diagonal(X) - a.square().sum(0) + (self.root.mT @ a).square().sum(0)
        return (a.mT @ self.mean)[:, None], (left.clamp_min(0.0) + self.noise)[:, None]

    def weights(self) -> FloatArray | None:
        """None: there is one component."""
        return None

    def probability(self, X: Tensor) -> Tensor:
        """Only of classes."""
        raise NotImplementedError  # only of classes

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON-serialisable facts for a file."""
        arrays = {
            **{f"given.{name}": to_numpy(getattr(self, name)) for name in _ARRAYS},
            **{_KERNEL + name: to_numpy(one) for name, one in self.kernel.state_dict().items()},
        }
        return arrays, {"given": str(self.kernel.expression), "noise": self.noise}

    @classmethod
    def restore(
        cls, model: Predictor, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]
    ) -> Self:
        """The function from its ``state``."""
        Z, factor, mean, root = (model._to_tensor(arrays[f"given.{name}"]) for name in _ARRAYS)
        expression = read_kernel(facts["given"])
        kernel = KernelDefinition.of_varying(expression, model._standardiser).made(Z)
        stored = with_prefix(arrays, _KERNEL)
        kernel.load_state_dict({name: torch.as_tensor(one.copy()) for name, one in stored.items()})
        return cls(kernel.to(Z), Z, factor, mean, root, float(facts["noise"]))
