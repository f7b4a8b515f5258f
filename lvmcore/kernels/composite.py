"""Trainable sums and products of kernels, made from a kernel expression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lvmcore.kernels.components import NATIVE_COMPONENTS, KernelComponent
from lvmcore.kernels.expression import KernelExpression, KernelProduct, KernelSum, KernelTerm
from lvmcore.kernels.gpytorch_components import GPYTORCH_COMPONENTS

__all__ = ["CompositeKernel", "Hyperparameter", "Summand", "TermOfColumns"]

_COMPONENTS = {**NATIVE_COMPONENTS, **GPYTORCH_COMPONENTS}


@dataclass(frozen=True)
class Hyperparameter:
    """A fitted parameter of a kernel in an expression.

    Attributes:
        kernel: name of the kernel.
        name: such as "lengthscale" or "period".
        value: in the unit of the column.
        column: the column; None for a number without a unit.
    """

    kernel: str
    name: str
    value: float
    column: str | None


class _Node(nn.Module):
    """A part of a kernel expression, as a function of all columns."""

    def forward(
        self, X: Float[Tensor, "*S n H"], X2: Float[Tensor, "*S2 N H"]
    ) -> Float[Tensor, "... n N"]:
        """k(x, x') of rows X [..., n, H] and X2 [..., N, H], [..., n, N]."""
        raise NotImplementedError

    def diagonal(self, X: Float[Tensor, "*S n H"]) -> Float[Tensor, "*S n"]:
        """k(x, x), [..., n]."""
        raise NotImplementedError

    @property
    def relevance(self) -> Float[Tensor, "H"]:
        """α of each column, [H], 0 for those that it does not act on."""
        raise NotImplementedError


class CompositeKernel(_Node):
    """k(x, x') = Σ_i v_i k_i(x, x'), the k_i components or products of components and sums.

    Args:
        expression: the sum; another expression is the only summand.
        columns: names of the columns of the rows, in their order.
        scales: what a unit of each standardised column is in the column's own units, [H].

    Attributes:
        summands: v_i k_i, in the order of the expression.

    Raises:
        KeyError: the expression names a column or a kernel that does not exist.
    """

    def __init__(
        self, expression: KernelExpression, columns: Sequence[str], scales: Float[Tensor, "H"]
    ) -> None:
        super().__init__()
        self.expression, self.columns = expression, tuple(columns)
        parts = expression.parts if isinstance(expression, KernelSum) else (expression,)
        self.summands = [Summand(part, self.columns, scales) for part in parts]
        self.parts = nn.ModuleList(self.summands)
        for summand in self.summands:
            summand.log_variance.data.fill_(-math.log(len(parts)))

    def forward(
        self, X: Float[Tensor, "*S n H"], X2: Float[Tensor, "*S2 N H"]
    ) -> Float[Tensor, "... n N"]:
        """k(x, x') of rows X [..., n, H] and X2 [..., N, H], [..., n, N]."""
        total, *rest = (summand.forward(X, X2) for summand in self.summands)
        for further in rest:
            total = total + further
        return total

    def diagonal(self, X: Float[Tensor, "*S n H"]) -> Float[Tensor, "*S n"]:
        """k(x, x), [..., n]."""
        return torch.stack([summand.diagonal(X) for summand in self.summands]).sum(0)

    @property
    def relevance(self) -> Float[Tensor, "H"]:
        """α of each column, [H]: the mean of the summands', weighted by their variances.

        Of an RBF kernel it is 1/ℓ², of a product the sum over its factors.
        """
        variances = torch.stack([summand.variance for summand in self.summands])
        found = torch.stack([summand.relevance for summand in self.summands])
        return variances @ found / variances.sum()

    @property
    def only_component(self) -> KernelComponent:
        """The component of a kernel that is one.

        Raises:
            ValueError: it is a sum or a product.
        """
        (found,) = self._terms()
        return found.component

    def components(self) -> list[tuple[KernelTerm, KernelComponent]]:
        """The kernels of the expression and their components, in the order of the text."""
        return [(term.term, term.component) for term in self._terms()]

    def columns_of_free_periods(self) -> list[int]:
        """Position of the column of each component with a period that is fitted."""
        return [int(term.at[0]) for term in self._terms() if term.component.has_free_period]

    def set_free_period(self, number: int, period: float) -> None:
        """Set such a period, in units of the standardised column.

        Args:
            number: of the component, in the order of ``columns_of_free_periods``.
            period: the period.
        """
        free = [term for term in self._terms() if term.component.has_free_period]
        free[number].component.set_period(period)

    def components_with_spectrum(self) -> list[tuple[KernelComponent, list[int]]]:
        """The components whose frequencies are fitted, and the positions of their columns."""
        return [
            (term.component, term.at.tolist())
            for term in self._terms()
            if term.component.n_frequencies
        ]

    def parameters_of_columns(self, name: str) -> list[tuple[str, Tensor, Tensor]]:
        """The parameters of a name: column, value in its units, and its unit's scale, [] each."""
        found = []
        for term in self._terms():
            values = term.component.hyperparameters().get(name)
            if values is not None and values.ndim:
                found += list(zip(term.names, values, term.component.scales, strict=True))
        return found

    def _terms(self) -> list[TermOfColumns]:
        return [part for part in self.modules() if isinstance(part, TermOfColumns)]


class Summand(_Node):
    """v k(x, x'), k a component or a product.

    Args:
        expression: of k.
        columns: as of ``CompositeKernel``.
        scales: likewise, [H].
    """

    def __init__(
        self, expression: KernelExpression, columns: Sequence[str], scales: Float[Tensor, "H"]
    ) -> None:
        super().__init__()
        self.expression, self._columns = expression, tuple(columns)
        factors = expression.parts if isinstance(expression, KernelProduct) else (expression,)
        self.factors = [_factor(one, columns, scales) for one in factors]
        self.parts = nn.ModuleList(self.factors)
        self.log_variance = nn.Parameter(scales.new_zeros(()))

    @property
    def variance(self) -> Float[Tensor, ""]:
        """v, []."""
        return self.log_variance.exp()

    def forward(
        self, X: Float[Tensor, "*S n H"], X2: Float[Tensor, "*S2 N H"]
    ) -> Float[Tensor, "... n N"]:
        """v k(x, x') of rows X [..., n, H] and X2 [..., N, H], [..., n, N]."""
        first, *rest = (factor.forward(X, X2) for factor in self.factors)
        product = self.variance * first
        for further in rest:
            product = product * further
        return product

    def diagonal(self, X: Float[Tensor, "*S n H"]) -> Float[Tensor, "*S n"]:
        """v k(x, x), [..., n]."""
        product = self.variance.expand(X.shape[:-1])
        for factor in self.factors:
            product = product * factor.diagonal(X)
        return product

    @property
    def relevance(self) -> Float[Tensor, "H"]:
        """α of each column, [H]: the sum over the factors."""
        return torch.stack([factor.relevance for factor in self.factors]).sum(0)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that k acts on, in their order in the rows."""
        named = {name for term in self._terms() for name in term.names}
        return tuple(name for name in self._columns if name in named)

    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        """Those of the kernels of k, without the variances, in the order of the expression."""
        return tuple(one for _, own in self.terms() for one in own)

    def terms(self) -> tuple[tuple[KernelTerm, tuple[Hyperparameter, ...]], ...]:
        """The kernels of k with their hyperparameters, in the order of the expression."""
        return tuple((part.term, part.hyperparameters()) for part in self._terms())

    def _terms(self) -> list[TermOfColumns]:
        return [part for part in self.modules() if isinstance(part, TermOfColumns)]


class TermOfColumns(_Node):
    """A component of some of the columns of the rows.

    Args:
        term: kernel and columns.
        columns: as of ``CompositeKernel``.
        scales: likewise, [H].

    Attributes:
        at: positions of its columns, in their order in the component.
        component: of these columns.
    """

    def __init__(
        self, term: KernelTerm, columns: Sequence[str], scales: Float[Tensor, "H"]
    ) -> None:
        super().__init__()
        place = {name: i for i, name in enumerate(columns)}
        at = [place[name] for name in term.columns] if term.columns else range(len(columns))
        self.at: Tensor
        self.register_buffer("at", torch.tensor(list(at), device=scales.device), persistent=False)
        self.component = _COMPONENTS[term.name](scales[self.at], dict(term.options))
        self.term, self.names = term, tuple(columns[i] for i in self.at.tolist())
        self.n_columns = len(columns)

    def forward(
        self, X: Float[Tensor, "*S n H"], X2: Float[Tensor, "*S2 N H"]
    ) -> Float[Tensor, "... n N"]:
        """k(x, x') of rows X [..., n, H] and X2 [..., N, H], [..., n, N]."""
        return self.component.forward(X[..., self.at], X2[..., self.at])

    def diagonal(self, X: Float[Tensor, "*S n H"]) -> Float[Tensor, "*S n"]:
        """k(x, x), [..., n]."""
        return self.component.diagonal(X[..., self.at])

    @property
    def relevance(self) -> Float[Tensor, "H"]:
        """α of each column, [H], 0 for those that it does not act on."""
        own = self.component.relevance
        return own.new_zeros(self.n_columns).index_copy(0, self.at, own)

    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        """Those of the component, one for each column or one alone."""
        found = []
        for name, value in self.component.hyperparameters().items():
            columns = self.names if value.ndim else (None,)
            each: list[float] = value.detach().reshape(-1).tolist()
            for column, one in zip(columns, each, strict=True):
                found.append(Hyperparameter(self.component.name, name, one, column))
        return tuple(found)


def _factor(
    expression: KernelExpression, columns: Sequence[str], scales: Float[Tensor, "H"]
) -> _Node:
    """A factor of a product: a component, or a sum whose first summand has v = 1."""
    if isinstance(expression, KernelTerm):
        return TermOfColumns(expression, columns, scales)
    inner = CompositeKernel(expression, columns, scales)
    inner.summands[0].log_variance.data.zero_()
    inner.summands[0].log_variance.requires_grad = False
    return inner
