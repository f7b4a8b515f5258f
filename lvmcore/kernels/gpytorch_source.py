"""Kernels as kernels of gpytorch: the object at its fitted parameters, and its Python source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from lvmcore.kernels.components import KernelComponent, LinearComponent, StationaryComponent
from lvmcore.kernels.composite import CompositeKernel, Summand, TermOfColumns
from lvmcore.kernels.gpytorch_components import (
    GPyTorchComponent,
    SpectralMixtureComponent,
    gpytorch_kernels,
)
from lvmcore.kernels.stationary import StationaryName

__all__ = ["DENSE_LINEAR", "GPyTorchKernel", "composite_source", "stationary_source"]

#: The class of linear kernels in a source. gpytorch's own returns a root of the matrix, for which a
#: sum with another kernel factorises that kernel alone, whose matrix can be singular.
DENSE_LINEAR = '''class DenseLinearKernel(gpytorch.kernels.LinearKernel):
    """A linear kernel whose matrices are dense."""

    def forward(self, x1, x2, **params):
        """k(x, x') of rows x1 and x2."""
        found = super().forward(x1, x2, **params)
        return found if torch.is_tensor(found) else found.to_dense()
'''
_INDENT = "    "
_SMOOTHNESS = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
#: gpytorch's class of each component that wraps one, and its options by those of the expression.
_WRAPPED: Mapping[str, tuple[str, Mapping[str, tuple[str, int]]]] = {
    "periodic": ("PeriodicKernel", {}),
    "cosine": ("CosineKernel", {}),
    "rational_quadratic": ("RQKernel", {}),
    "polynomial": ("PolynomialKernel", {"power": ("degree", 2)}),
    "piecewise_polynomial": ("PiecewisePolynomialKernel", {"q": ("smoothness", 2)}),
    "spectral_mixture": ("SpectralMixtureKernel", {"num_mixtures": ("n", 4)}),
}
#: Of these, the kernels without parameters of their own for each column.
_NO_ARD = frozenset({"cosine", "polynomial"})


@dataclass(frozen=True)
class GPyTorchKernel:
    """A kernel of gpytorch.

    Attributes:
        source: the Python expression that makes it, at gpytorch's initial parameters; it names
            ``gpytorch.kernels`` and, if it has a linear kernel, the class of ``DENSE_LINEAR``.
        module: the kernel at its fitted parameters, float64; its ``state_dict`` is that of the
            kernel that ``source`` makes.
    """

    source: str
    module: Any

    @classmethod
    def made(cls, name: str, *parts: GPyTorchKernel, **options: Any) -> GPyTorchKernel:
        """The kernel of gpytorch with this class name, of other kernels and with options."""
        given = [part.source for part in parts]
        given += [f"{option}={value!r}" for option, value in options.items()]
        inside = ",\n".join(given)
        called = "DenseLinearKernel" if name == "LinearKernel" else f"gpytorch.kernels.{name}"
        text = f"{called}({', '.join(given)})"
        if parts:
            indented = "".join(f"{_INDENT}{line}\n" for line in f"{inside},".splitlines())
            text = f"{called}(\n{indented})"
        modules = [part.module for part in parts]
        return cls(text, getattr(gpytorch_kernels(), name)(*modules, **options).double())

    def initialised(self, **values: Tensor | float) -> GPyTorchKernel:
        """The same kernel at other parameters."""
        self.module.initialize(
            **{
                name: value.detach().double() if isinstance(value, Tensor) else value
                for name, value in values.items()
            }
        )
        return self

    def scaled(self, variance: Tensor | float) -> GPyTorchKernel:
        """The kernel times a variance."""
        return GPyTorchKernel.made("ScaleKernel", self).initialised(outputscale=variance)


def stationary_source(
    name: StationaryName, variance: Float[Tensor, ""], lengthscales: Float[Tensor, "H"]
) -> GPyTorchKernel:
    """v κ(d), d² = Σ_h (x_h − x'_h)²/ℓ_h², κ the correlation of that name."""
    return _correlation(name, lengthscales, {}).scaled(variance)


def composite_source(kernel: CompositeKernel) -> GPyTorchKernel:
    """A sum or product of kernels; every kernel of the catalogue is one of gpytorch.

    Columns of a kernel are its ``active_dims``.
    """
    parts = [_summand_source(summand) for summand in kernel.summands]
    return parts[0] if len(parts) == 1 else GPyTorchKernel.made("AdditiveKernel", *parts)


def _summand_source(summand: Summand) -> GPyTorchKernel:
    factors = [
        composite_source(factor) if isinstance(factor, CompositeKernel) else _term_source(factor)
        for factor in summand.factors
    ]
    product = factors[0] if len(factors) == 1 else GPyTorchKernel.made("ProductKernel", *factors)
    return product.scaled(summand.variance)


def _term_source(term: Any) -> GPyTorchKernel:
    """A component of some columns."""
    assert isinstance(term, TermOfColumns)
    at = tuple(term.at.tolist())
    dims = {} if at == tuple(range(term.n_columns)) else {"active_dims": at}
    component = term.component
    if isinstance(component, StationaryComponent):
        return _correlation(component.name, component.log_lengthscales.exp(), dims)
    if isinstance(component, GPyTorchComponent):
        return _wrapped_source(component, dims)
    return _NATIVE[component.name](component, dims)


def _correlation(
    name: str, lengthscales: Float[Tensor, "H"], dims: Mapping[str, Any]
) -> GPyTorchKernel:
    H = len(lengthscales)
    if name == "rbf":
        made = GPyTorchKernel.made("RBFKernel", ard_num_dims=H, **dims)
    else:
        made = GPyTorchKernel.made("MaternKernel", nu=_SMOOTHNESS[name], ard_num_dims=H, **dims)
    return made.initialised(lengthscale=lengthscales)


def _linear(component: KernelComponent, dims: Mapping[str, Any]) -> GPyTorchKernel:
    assert isinstance(component, LinearComponent)
    made = GPyTorchKernel.made("LinearKernel", ard_num_dims=len(component.weights), **dims)
    return made.initialised(variance=component.weights[None])


def _constant(component: KernelComponent, dims: Mapping[str, Any]) -> GPyTorchKernel:
    del component
    made = GPyTorchKernel.made("ConstantKernel", **dims)
    return made.initialised(constant=torch.ones(1))


_NATIVE: Mapping[str, Callable[[KernelComponent, Mapping[str, Any]], GPyTorchKernel]] = {
    "linear": _linear,
    "constant": _constant,
}


def _wrapped_source(component: GPyTorchComponent, dims: Mapping[str, Any]) -> GPyTorchKernel:
    """A component that wraps a kernel of gpytorch, which has the same parameters."""
    name, options = _WRAPPED[component.name]
    given: dict[str, Any] = {
        theirs: int(component.options.get(ours, usual)) for theirs, (ours, usual) in options.items()
    }
    if component.name not in _NO_ARD:
        given["ard_num_dims"] = len(component.scales)
    made = GPyTorchKernel.made(name, **given, **dims)
    made.module.load_state_dict(component.kernel.state_dict(), strict=False)
    if isinstance(component, SpectralMixtureComponent):  # which is 1 at distance 0
        return made.scaled(1 / component.at_zero)
    return made
