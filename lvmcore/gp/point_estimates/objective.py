"""Objectives of point estimates: log p(columns | X), log p(X) and further terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.gp.point_estimates.paths import PointPath
from lvmcore.gp.point_estimates.positions import Positions
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.numerics.linalg import cholesky
from lvmcore.training.objective import Objective, Term
from lvmcore.training.schedule import Schedule

__all__ = [
    "ClassScatterTerm",
    "PathTerm",
    "PointObjective",
    "PositionPrior",
    "direct_schedule",
    "scatter_ratio",
]

# Steps of which the last gain hardly anything at an optimum; share of the within-class scatter's
# mean diagonal that is added to it.
WINDOW, RIDGE = 20, 1e-3


class PathTerm(Term[Tensor]):
    """log p(columns | X) of the Gaussian processes of a path.

    Args:
        name: of the term.
        path: the path.
    """

    def __init__(self, name: str, path: PointPath) -> None:
        self.name, self.path = name, path

    def value(self, sample: Tensor) -> Tensor:
        """log p(columns | X) at X [N, Q], []."""
        return self.path.log_likelihood(sample)


class PositionPrior(Term[Tensor]):
    """log p(X) = Σ_n log N(x_n | 0, I)."""

    name = "prior of the map"

    def value(self, sample: Tensor) -> Tensor:
        """log p(X), []."""
        return -0.5 * (sample.square().sum() + sample.numel() * LOG_2PI)


class ClassScatterTerm(Term[Tensor]):
    """−λ / tr(S_w⁻¹ S_b), S_w and S_b the scatter of X within and between classes.

    Args:
        codes: class of each row, −1 if it has no label, [N].
        strength: λ, nats.
        like: device.
    """

    name = "prior of the classes"

    def __init__(self, codes: NDArray[np.int64], strength: float, like: Tensor) -> None:
        self.rows = torch.as_tensor(np.flatnonzero(codes >= 0), device=like.device)
        self.codes = torch.as_tensor(codes[codes >= 0], device=like.device)
        self.strength = strength

    def value(self, sample: Tensor) -> Tensor:
        """The log prior of the classes at X [N, Q], []."""
        return -self.strength / scatter_ratio(sample[self.rows], self.codes)


def scatter_ratio(X: Tensor, codes: Tensor) -> Tensor:
    """tr(S_w⁻¹ S_b), with 0.001 of its mean diagonal added to that of S_w, [].

    S_w = Σ_n (x_n − m_c)(x_n − m_c)ᵀ/N, m_c the mean of the row's class, and S_b = Σ_c n_c/N
    (m_c − m)(m_c − m)ᵀ.

    Args:
        X: positions, [N, Q].
        codes: class of each, [N].
    """
    N, C = len(X), int(codes.max()) + 1
    member = nn.functional.one_hot(codes, C).to(X)
    sizes = member.sum(0)
    means = (member.T @ X) / sizes.clamp_min(1)[:, None]
    away = X - means[codes]
    within = away.T @ away / N
    middle = means - X.mean(0)
    between = (middle * (sizes / N)[:, None]).T @ middle
    ridge = RIDGE * within.diagonal().mean() + 1e-12
    L, _ = cholesky(
        within + ridge * torch.eye(len(within)).to(X), "The scatter within classes", exact=True
    )
    return torch.cholesky_solve(between, L).diagonal().sum()


class PointObjective(Objective[Tensor]):
    """Σ terms at the positions X.

    Args:
        positions: of the rows.
        paths: from the positions to columns, by name.
        terms: the terms.
        fixed: X that is kept, so that the paths alone are optimised, [N, Q]; None for none.
    """

    def __init__(
        self,
        positions: Positions,
        paths: Mapping[str, PointPath],
        terms: Sequence[Term[Tensor]],
        *,
        fixed: Tensor | None = None,
    ) -> None:
        modules: list[nn.Module] = list(paths.values())
        super().__init__([positions, *modules] if fixed is None else modules, terms)
        self.positions, self.paths, self.fixed = positions, dict(paths), fixed

    def draw_sample(self, draws: int) -> Tensor:
        """X, [N, Q]."""
        del draws
        found: Tensor = self.positions() if self.fixed is None else self.fixed
        return found

    @property
    def n_rows(self) -> int:
        """N."""
        return len(self.draw_sample(1))

    def latent_mean(self, rows: NDArray[np.intp]) -> Tensor:
        """Positions of some rows, [n, Q]."""
        return self.draw_sample(1)[torch.as_tensor(rows)]

    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        """α of the kernel of each path, [Q]."""
        del mean
        return {name: path.kernel.relevance for name, path in self.paths.items()}

    @torch.no_grad()
    def parameter_scales(self) -> list[Tensor]:
        """The expected scale of each parameter: parameters shared by n values about √(2/n)."""
        scales, shared = self.positions.scales(), (2 / self.n_rows) ** 0.5
        return [scales.get(p, torch.full_like(p, shared)) for p in self.parameters()]


def direct_schedule(max_iter: int, cells: int) -> Schedule:
    """Quasi-Newton steps from the first on."""
    window = min(WINDOW, max_iter)
    return Schedule(max_iter, 0.1, cells, finishes=True, direct=True, optimum_window=window)
