"""Preconditioned conjugate gradients of several right-hand sides, and Lanczos quadrature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.numerics.conversion import to_numpy

__all__ = ["ConjugateGradients"]

Product = Callable[[Tensor], Tensor]
#: Below this share of its start, rᵀP⁻¹r of a right-hand side is rounding: its solution stays.
ROUNDING = 1e-26
#: Least ‖b‖ by which an error is divided.
LEAST_SIZE = 1e-300
_STATE = ("solution", "residual", "direction", "inner")


class ConjugateGradients:
    """Solves A X = B with a preconditioner P, each column of B on its own.

    The coefficients of the iterations are the Lanczos matrix of P^(−1/2) A P^(−1/2) from
    P^(−1/2) b, by which a quadratic form of its logarithm follows (Golub and Meurant 2010;
    Gardner and others 2018).

    Args:
        product: V ↦ A V, [N, R].
        solve: V ↦ P⁻¹ V, [N, R].
        B: right-hand sides, [N, R].

    Attributes:
        solution: X, [N, R].
    """

    def __init__(self, product: Product, solve: Product, B: Float[Tensor, "N R"]) -> None:
        self.product, self.solve = product, solve
        self.size = B.norm(dim=0)
        self.solution, self.residual = torch.zeros_like(B), B.clone()
        self.direction = solve(B)
        self.inner = (B * self.direction).sum(0)  # rᵀP⁻¹r
        self.start = self.inner.clone()
        self.steps: list[Tensor] = []  # α of each iteration, [R]; 0 where it rests
        self.ratios: list[Tensor] = []  # β likewise

    @property
    def iterations(self) -> int:
        """Number of iterations done."""
        return len(self.steps)

    @property
    def error(self) -> Float[Tensor, "R"]:
        """‖b − A x‖ / ‖b‖ of each column, as the iterations follow it; 0 where b is 0."""
        found: Tensor = self.residual.norm(dim=0) / self.size.clamp_min(LEAST_SIZE)
        return found

    def iterate(self) -> None:
        """One iteration: one product with A and one with P⁻¹."""
        along = self.product(self.direction)
        curvature = (self.direction * along).sum(0)
        works = (self.inner > ROUNDING * self.start) & (curvature > 0)
        alpha = torch.where(works, self.inner / curvature.where(works, 1.0), 0.0)
        self.solution += alpha * self.direction
        self.residual -= alpha * along
        z = self.solve(self.residual)
        inner = torch.where(works, (self.residual * z).sum(0), self.inner)
        beta = torch.where(works, inner / self.inner.where(works, 1.0), 0.0)
        self.direction = torch.where(works, z + beta * self.direction, self.direction)
        self.inner = inner
        self.steps.append(alpha)
        self.ratios.append(beta)

    def log_quadratic_forms(self) -> Float[Tensor, "R"]:
        """wᵀ log(P^(−1/2) A P^(−1/2)) w / wᵀw, w = P^(−1/2) b, of each column b, [R]."""
        alpha, beta = torch.stack(self.steps).cpu(), torch.stack(self.ratios).cpu()
        found = []
        for a, b in zip(alpha.T, beta.T, strict=True):
            n = int((a > 0).sum())
            diagonal = 1 / a[:n]
            diagonal[1:] += b[: n - 1] / a[: n - 1]
            beside = b[: n - 1].clamp_min(0).sqrt() / a[: n - 1]
            T = torch.diag(diagonal) + torch.diag(beside, 1) + torch.diag(beside, -1)
            values, vectors = torch.linalg.eigh(T)
            found.append((vectors[0].square() * values.clamp_min(1e-300).log()).sum())
        return torch.stack(found).to(self.size)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state, for a checkpoint."""
        found = {f"solver.{name}": to_numpy(getattr(self, name)) for name in _STATE}
        if self.steps:
            found["solver.steps"] = to_numpy(torch.stack(self.steps))
            found["solver.ratios"] = to_numpy(torch.stack(self.ratios))
        return found

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state of ``arrays``."""

        def tensor(name: str) -> Tensor:
            return torch.from_numpy(arrays[f"solver.{name}"].copy()).to(self.size)

        for name in _STATE:
            setattr(self, name, tensor(name))
        if "solver.steps" in arrays:
            self.steps, self.ratios = (
                [row.clone() for row in tensor(name)] for name in ("steps", "ratios")
            )
