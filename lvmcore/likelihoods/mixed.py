"""The likelihoods of all columns of a table, each of its own kind.

The rows are standardised: cell = mean + scale · y. Gaussian and Student-t columns are modelled on
this scale, the others in the units of their cells, so that their densities are those of counts,
shares or levels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.likelihoods.catalogue import (
    LIKELIHOODS,
    Cells,
    ColumnTerm,
    LikelihoodName,
    read_likelihoods,
    write_likelihoods,
)
from lvmcore.likelihoods.category_columns import BernoulliColumns, CategoricalColumn, OrdinalColumn
from lvmcore.likelihoods.column import ColumnLikelihood
from lvmcore.likelihoods.count_columns import (
    NegativeBinomialColumns,
    PoissonColumns,
    ZeroInflatedColumns,
)
from lvmcore.likelihoods.number_columns import (
    BetaColumns,
    GaussianColumns,
    LogNormalColumns,
    StudentColumns,
)

__all__ = ["MixedLikelihood"]

#: Likelihoods by name: of a number of columns, or of a column with a number of levels.
_TYPES: Mapping[LikelihoodName, Callable[[int, Tensor], ColumnLikelihood]] = {
    "gaussian": GaussianColumns,
    "student_t": StudentColumns,
    "log_normal": LogNormalColumns,
    "beta": BetaColumns,
    "bernoulli": BernoulliColumns,
    "categorical": CategoricalColumn,
    "ordinal": OrdinalColumn,
    "poisson": PoissonColumns,
    "negative_binomial": NegativeBinomialColumns,
    "zero_inflated": ZeroInflatedColumns,
}
_STANDARDISED: tuple[LikelihoodName, ...] = ("gaussian", "student_t")


@dataclass(frozen=True)
class _Block:
    """The columns of one likelihood.

    Attributes:
        likelihood: of the columns.
        features: their positions among all features, [d].
        firsts: positions of the first feature of each column, [columns].
        functions: their functions among all functions.
        standardised: whether the likelihood is of standardised cells.
        kind: of its cells.
    """

    likelihood: ColumnLikelihood
    features: Tensor
    firsts: Tensor
    functions: slice
    standardised: bool
    kind: Cells


class MixedLikelihood(nn.Module):
    """p(y_n | f_n) = ∏ p(y_nd | f_nd) over the columns, each with its own likelihood.

    Args:
        terms: a likelihood for each column.
        mean: means of the features, [D].
        scale: their scales, [D].

    Attributes:
        n_functions: F, the number of Gaussian processes.
        n_columns: number of columns; a category is one.
    """

    def __init__(self, terms: Sequence[ColumnTerm], mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.terms, self.n_columns = tuple(terms), len(terms)
        self.mean: Tensor
        self.scale: Tensor
        self.register_buffer("mean", mean.clone())
        self.register_buffer("scale", scale.clone())
        groups = _grouped(self.terms)
        self.parts = nn.ModuleList()
        self.blocks: list[_Block] = []
        begin = 0
        for name, features in groups:
            one_hot = LIKELIHOODS[name].is_one_hot
            likelihood = _TYPES[name](len(features), mean)
            at = torch.tensor(features, device=mean.device)
            functions = slice(begin, begin + likelihood.n_functions)
            begin += likelihood.n_functions
            self.parts.append(likelihood)
            firsts = at[:1] if one_hot else at
            kind, standardised = LIKELIHOODS[name].cells, name in _STANDARDISED
            self.blocks.append(_Block(likelihood, at, firsts, functions, standardised, kind))
        self.n_functions = begin

    @property
    def text(self) -> str:
        """The likelihoods as text."""
        return write_likelihoods(self.terms)

    def _cells(self, block: _Block, Y: Tensor, *, observed: bool = True) -> Tensor:
        """Cells of a block in its units, [n, d], of standardised rows [n, D].

        Observed counts and levels are rounded to what they were before they were standardised.
        """
        some = Y[..., block.features]
        if block.standardised:
            return some
        cells = some * self.scale[block.features] + self.mean[block.features]
        return cells.round() if observed and block.likelihood.is_whole else cells

    def start(self, Y: Tensor, observed: Tensor | None) -> None:
        """Set the parameters to those of the columns' marginal distributions.

        Args:
            Y: standardised rows, 0 where a cell is missing, [N, D].
            observed: True where a cell is observed, [N, D]; None where every one is.
        """
        mask = torch.ones_like(Y) if observed is None else observed.to(Y)
        for block in self.blocks:
            seen = mask[:, block.firsts]
            cells = self._cells(block, Y)
            block.likelihood.start(cells * mask[:, block.features], seen)

    def inputs(self, Y: Tensor) -> Tensor:
        """Rows on a scale for distances, networks and initial maps, [n, D]; NaN stays NaN."""
        found = torch.empty_like(Y)
        with torch.no_grad():
            for block in self.blocks:
                cells = self._cells(block, Y, observed=False)
                found[..., block.features] = block.likelihood.inputs(cells)
        return found

    def is_gross(self, Y: Tensor) -> Tensor:
        """Mask of the cells that an initial map leaves out, [n, D]."""
        found = torch.zeros_like(Y, dtype=torch.bool)
        for block in self.blocks:
            cells = self._cells(block, Y, observed=False)
            found[..., block.features] = block.likelihood.is_gross(cells)
        return found

    def expected_log(
        self, Y: Tensor, observed: Tensor | None, mean: Tensor, variance: Tensor
    ) -> Tensor:
        """Σ_d E log p(y_nd | f_nd) over the observed cells, [n].

        Args:
            Y: standardised rows, 0 where a cell is missing, [n, D].
            observed: True where a cell is observed, [n, D]; None where every one is.
            mean: of the functions, [n, F].
            variance: [n, F].
        """
        return self._total("expected_log", Y, observed, mean, variance)

    def smooth_bound(
        self, Y: Tensor, observed: Tensor | None, mean: Tensor, variance: Tensor
    ) -> Tensor:
        """As ``expected_log``, a bound that is twice differentiable, [n]."""
        return self._total("smooth_bound", Y, observed, mean, variance)

    def log_predictive(
        self, Y: Tensor, observed: Tensor | None, mean: Tensor, variance: Tensor
    ) -> Tensor:
        """Σ_d log E p(y_nd | f_nd) over the observed cells, [n]; arguments as ``expected_log``."""
        return self._total("log_predictive", Y, observed, mean, variance)

    def number_log_predictive(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log E p(y_nd | f_nd) of numbers and counts in the data's units, [n, D]; NaN for levels.

        Args:
            Y: standardised rows, any value where a cell is missing, [n, D].
            mean: of the functions, [n, F].
            variance: [n, F].
        """
        found = torch.full_like(Y, torch.nan)
        for block in self.blocks:
            if block.kind in ("one-hot", "binary"):
                continue
            values = self._values(block, mean, variance)
            own = block.likelihood.log_predictive(self._cells(block, Y), *values)
            if block.standardised:
                own = own - self.scale[block.features].log()
            found[..., block.features] = own
        return found

    def _total(
        self, what: str, Y: Tensor, observed: Tensor | None, mean: Tensor, variance: Tensor
    ) -> Tensor:
        total = mean.new_zeros(len(mean))
        for block in self.blocks:
            found = getattr(block.likelihood, what)(
                self._cells(block, Y), *self._values(block, mean, variance)
            )
            if observed is not None:
                found = torch.where(observed[:, block.firsts], found, 0.0)
            total = total + found.sum(-1)
        return total

    def log_units(self, observed: Tensor) -> Tensor:
        """Log density of a row in standardised units less that of this likelihood, [n].

        Args:
            observed: True where a cell is observed, [n, D].
        """
        units = self.scale.log()
        for block in self.blocks:
            if block.standardised:
                units = units.index_fill(0, block.features, 0.0)
        return observed.to(units) @ units

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance and noise variance of standardised cells, [n, D] each.

        Of a category the means are the probabilities of its levels.

        Args:
            mean: of the functions, [n, F].
            variance: [n, F].
        """
        found = [mean.new_empty(len(mean), len(self.mean)) for _ in range(3)]
        for block in self.blocks:
            first, whole, noise = block.likelihood.moments(*self._values(block, mean, variance))
            at = block.features
            if not block.standardised:
                scale = self.scale[at]
                first = (first - self.mean[at]) / scale
                whole, noise = whole / scale.square(), noise / scale.square()
            found = [
                whole_table.index_copy(1, at, own)
                for whole_table, own in zip(found, (first, whole, noise), strict=True)
            ]
        return found[0], found[1], found[2]

    def draw(self, mean: Tensor, variance: Tensor, rng: np.random.Generator) -> NDArray[np.float64]:
        """Rows y ~ E p(y | f) in the data's units, [n, D]; arguments as of ``moments``."""
        rows = np.empty((len(mean), len(self.mean)))
        centre, scale = self.mean.cpu().double().numpy(), self.scale.cpu().double().numpy()
        with torch.no_grad():
            for block in self.blocks:
                m, v = self._values(block, mean, variance)
                f = m + v.sqrt() * torch.as_tensor(rng.standard_normal(m.shape)).to(m)
                at = block.features.cpu().numpy()
                own = block.likelihood.draw(f, rng)
                rows[:, at] = own * scale[at] + centre[at] if block.standardised else own
        return rows

    @staticmethod
    def _values(block: _Block, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        functions = block.functions
        return block.likelihood.values(mean[..., functions], variance[..., functions])

    def arrays(self, prefix: str = "likelihood.") -> dict[str, NDArray[Any]]:
        """The parameters for ``from_arrays``."""
        return {
            f"{prefix}{name}": np.asarray(one.detach().cpu().numpy(), dtype=np.float64)
            for name, one in self.state_dict().items()
        }

    @classmethod
    def from_arrays(
        cls,
        text: str,
        arrays: Mapping[str, NDArray[Any]],
        like: Tensor,
        prefix: str = "likelihood.",
    ) -> MixedLikelihood:
        """Rebuild from ``text`` and ``arrays``, on the device and in the dtype of ``like``."""
        mean, scale = (torch.as_tensor(arrays[f"{prefix}{x}"]).to(like) for x in ("mean", "scale"))
        found = cls(read_likelihoods(text), mean, scale)
        with torch.no_grad():
            for name, one in found.state_dict().items():
                one.copy_(torch.as_tensor(arrays[prefix + name].reshape(one.shape)))
        return found.requires_grad_(False)


def _grouped(terms: Sequence[ColumnTerm]) -> list[tuple[LikelihoodName, list[int]]]:
    """Features by likelihood: all columns of a kind together, each category alone."""
    alone: list[tuple[LikelihoodName, list[int]]] = []
    together: dict[LikelihoodName, list[int]] = {}
    at = 0
    for term in terms:
        features = list(range(at, at + term.n_features))
        if LIKELIHOODS[term.name].is_one_hot:
            alone.append((term.name, features))
        else:
            together.setdefault(term.name, []).extend(features)
        at += term.n_features
    return [*together.items(), *alone]
