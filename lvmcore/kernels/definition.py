"""Definitions of kernels: an expression, its inputs, and the parameters of a start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from lvmcore.errors import ConfigError
from lvmcore.kernels.catalogue import KERNEL_TYPES, check_kernel_columns
from lvmcore.kernels.composite import CompositeKernel
from lvmcore.kernels.expression import KernelExpression, kernel_terms
from lvmcore.kernels.periodogram import likely_periods
from lvmcore.numerics.conversion import to_numpy
from lvmcore.preprocessing.standardiser import Standardiser

__all__ = ["KernelDefinition"]

# Likely periods from which a fit starts.
PERIOD_STARTS = 3


@dataclass(frozen=True)
class KernelDefinition:
    """A kernel expression over given inputs, from which trainable kernels are made.

    Attributes:
        expression: the expression.
        columns: names of the inputs.
        scales: what a unit of each standardised input is in its own units, H numbers.
        start: parameters of the kernels that are made; None for the initial ones.
    """

    expression: KernelExpression
    columns: tuple[str, ...]
    scales: tuple[float, ...]
    start: Mapping[str, Tensor] | None = None

    @classmethod
    def of_columns(cls, expression: KernelExpression, measured: Standardiser) -> Self:
        """The kernel of an expression over the columns of a table that vary.

        Args:
            expression: the expression.
            measured: of the columns of the fit.

        Raises:
            ConfigError: it names a column that is not in the fit, or does not vary.
        """
        named = {name for term in kernel_terms(expression) for name in term.columns}
        same = named & set(measured.names) - set(measured.varying_names)
        if same:
            raise ConfigError(
                f"The kernel {str(expression)!r} names the column {min(same)!r}, which has one "
                "value in all rows of the fit."
            )
        check_kernel_columns(expression, measured.varying_names)
        return cls.of_varying(expression, measured)

    @classmethod
    def of_varying(cls, expression: KernelExpression, measured: Standardiser) -> Self:
        """``of_columns`` of an expression whose columns are known to vary."""
        scales = tuple(map(float, measured.scale[~measured.constant]))
        return cls(expression, tuple(measured.varying_names), scales)

    @classmethod
    def of_units(cls, expression: KernelExpression, n_units: int) -> Self:
        """The kernel of an expression without columns over units of a layer, of scale 1."""
        names = tuple(str(unit) for unit in range(1, n_units + 1))
        check_kernel_columns(expression, names)
        return cls(expression, names, (1.0,) * n_units)

    @property
    def fits_units(self) -> bool:
        """Whether it can be the kernel of units of a layer too.

        A kernel of a named column, of few columns alone, or with a period in the unit of a column
        cannot.
        """
        return not any(
            term.columns or KERNEL_TYPES[term.name].most_columns or "period" in dict(term.options)
            for term in kernel_terms(self.expression)
        )

    def for_units(self, n_units: int) -> KernelDefinition | None:
        """The kernel over units of a layer; None where it does not fit them.

        A start is kept where there are as many units as inputs.
        """
        if not self.fits_units:
            return None
        found = KernelDefinition.of_units(self.expression, n_units)
        return replace(found, start=self.start) if n_units == len(self.columns) else found

    def with_inputs(self, names: Sequence[str]) -> KernelDefinition:
        """The kernel over further inputs of scale 1 too, which parts without columns act on.

        A start is kept for the inputs that there were; the weights of a linear part, whose average
        is 1, in proportion to one another.
        """
        wider = replace(
            self,
            columns=(*self.columns, *names),
            scales=(*self.scales, *(1.0 for _ in names)),
            start=None,
        )
        if self.start is None:
            return wider
        start = wider.made(torch.zeros((), dtype=torch.float64)).state_dict()
        for name, value in self.start.items():
            part = start[name]
            (part if part.shape == value.shape else part[..., : value.shape[-1]]).copy_(value)
        return replace(wider, start=start)

    def made(self, like: Tensor) -> CompositeKernel:
        """A trainable kernel at its start, of the dtype and on the device of ``like``."""
        scales = torch.tensor(self.scales, dtype=torch.float64)
        kernel = CompositeKernel(self.expression, self.columns, scales)
        if self.start is not None:
            kernel.load_state_dict(dict(self.start))
        return kernel.to(like)

    def starts(self, X: Float[Tensor, "N H"], y: Float[Tensor, "N"]) -> list[CompositeKernel]:
        """Kernels from which a fit starts: one, or of free periods one for each likely period.

        The marginal likelihood has an optimum beside each of them. A spectral mixture starts at
        several likely periods of each of its columns.

        Args:
            X: inputs, standardised, [N, H].
            y: target, [N].
        """
        periods = [
            likely_periods(to_numpy(X[:, h]), to_numpy(y), PERIOD_STARTS)
            for h in self.made(X).columns_of_free_periods()
        ]
        starts = []
        for i in range(max((len(found) for found in periods), default=1) or 1):
            kernel = self.made(X)
            for k, found in enumerate(periods):
                if found:
                    kernel.set_free_period(k, found[(i + k) % len(found)])
            for component, at in kernel.components_with_spectrum():
                component.set_spectrum(
                    [
                        likely_periods(to_numpy(X[:, h]), to_numpy(y), component.n_frequencies)
                        for h in at
                    ]
                )
            starts.append(kernel)
        return starts

    def starting_at(self, kernel: CompositeKernel) -> KernelDefinition:
        """The same kernel, made at the parameters of a fitted one."""
        state = {name: value.detach().clone() for name, value in kernel.state_dict().items()}
        return replace(self, start=state)
