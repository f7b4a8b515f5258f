"""The objective of a map of q-exponential processes, and q where it is learned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Annotated, Any, Literal, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base import Problem
from lvmcore.decoding import DataDecoder
from lvmcore.gplvm import SparseDecoder
from lvmcore.layers import DataPath, LatentRows
from lvmcore.parameters import Doc, Range
from lvmcore.psi import MaskedPsiSums, PsiSums, masked_psi_sums, psi_sums
from lvmcore.qep_bound import QEPBound, block_bound, qep_bound
from lvmcore.qexponential import LEAST_Q
from lvmcore.unlabelled import MapFit, UnlabelledMap

__all__ = ["Exponent", "QEPFit", "QEPMap", "Shape"]

START_Q = 1.5
# The inducing values are seen with a noise of this share of the kernel variance, times 1 − q/2.
NUGGET = 1e-5

Exponent = Annotated[
    float | Literal["learn"],
    Range(LEAST_Q, 2.0),
    Doc(
        "2 is the Gaussian process; less follows the rows more closely, and is too sure far from "
        "them.",
        "exponent q",
    ),
]


def seen(Kuu: Tensor, q: Tensor) -> Tensor:
    """K_uu of inducing values with a little noise, [M, M].

    Directions that inducing inputs near one another hardly span say nothing of the columns, and a
    Gaussian's q(V) leaves them to the prior. Here w_V is not 1, their variance is not the prior's,
    and the inverse of their part of K_uu stays in the predictions: with rounding errors as large
    as it is, which would move the places of rows.

    Args:
        Kuu: kernel matrix of the inducing inputs, [M, M].
        q: as of the fit, [].
    """
    nugget = NUGGET * (1 - q.detach() / 2).to(Kuu) * Kuu.detach().diagonal().mean()
    return Kuu + nugget * torch.eye(len(Kuu)).to(Kuu)


class Shape(torch.nn.Module):
    """q: fixed, or learned between its ends, as the logit of where it lies.

    Args:
        q: its value, or "learn".
    """

    def __init__(self, q: float | Literal["learn"]) -> None:
        super().__init__()
        self.fixed = None if q == "learn" else float(q)
        if self.fixed is None:
            share = (START_Q - LEAST_Q) / (2 - LEAST_Q)
            logit = torch.tensor(math.log(share / (1 - share)), dtype=torch.float64)
            self.logit = torch.nn.Parameter(logit)

    @property
    def q(self) -> Tensor:
        """[], float64."""
        if self.fixed is not None:
            return torch.tensor(self.fixed, dtype=torch.float64)
        return LEAST_Q + (2 - LEAST_Q) * torch.sigmoid(self.logit)


class QEPFit(MapFit):
    """The objective: the bound of the columns, and that of the map's block.

    Args:
        rows: as of ``MapFit``.
        path: likewise.
        problem: likewise.
        shape: q, where it begins.
    """

    def __init__(self, rows: LatentRows, path: DataPath, problem: Problem, shape: Shape) -> None:
        super().__init__(rows, path, problem)
        self.shape = shape

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """All that is optimised."""
        return [*super().parameters(), *self.shape.parameters()]

    def held(self) -> Iterable[torch.nn.Parameter]:
        """The noise and q, until the map has taken shape."""
        return [*super().held(), *self.shape.parameters()]

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The bound of the columns, and the part of the map."""
        del draws
        bound = self.bound(self.sums(self.rows.mean, self.rows.variance))
        return {"data fit": bound.value, "KL of the map": self.of_map()}

    def of_map(self) -> Tensor:
        """H(q(X)) + ψ(e_X), []."""
        return block_bound(self.rows.mean, self.rows.variance, self.shape.q)

    def sums(self, mean: Tensor, variance: Tensor) -> PsiSums | MaskedPsiSums:
        """Psi statistics of rows whose place before the columns is N(mean, diag variance)."""
        place = (self.path.kernel, mean, variance, self.path.Z, self.data.Y)
        cells = self.data.cells
        return psi_sums(*place) if cells is None else masked_psi_sums(*place, cells)

    def bound(self, sums: PsiSums | MaskedPsiSums) -> QEPBound:
        """The bound of the columns."""
        Z, data, q = self.path.Z, self.data, self.shape.q
        noise = self.path.noise.expand(data.Y.shape[1])
        whole = noise.new_full(noise.shape, len(data.Y))
        counts = whole if data.cells is None else data.cells.counts
        Kuu = seen(self.path.kernel(Z, Z), q)
        return qep_bound(sums, Kuu, noise, data.squares, counts, q)

    def frozen(self, sums: PsiSums | MaskedPsiSums) -> DataDecoder:
        """The path to the columns at the optimal q(V), its noise that of one more row."""
        found = self.bound(sums)
        return self.path.decoder(found.inducing, found.noise_given_all(self.path.noise))

    @torch.no_grad()
    def decoder(self) -> SparseDecoder:
        """The path frozen at the optimal q(V)."""
        return self.frozen(self.sums(self.rows.mean, self.rows.variance))

    def elsewhere(self, problem: Problem) -> Self:
        """See ``MapFit.elsewhere``."""
        rows, path = deepcopy(self.rows), deepcopy(self.path)
        return type(self)(rows, path, problem, deepcopy(self.shape))


class QEPMap(UnlabelledMap):
    """A map whose fit has a q."""

    q_: float

    def _keep(self, fit: MapFit) -> None:
        super()._keep(fit)
        self.q_ = float(fit.shape.q.detach()) if isinstance(fit, QEPFit) else 2.0

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        return arrays, {**facts, "q": self.q_}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._set_state(arrays, facts)
        self.q_ = float(facts["q"])
