"""Kernels of gpytorch as kernel expressions with their parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from lvmcore.errors import ConfigError, UnsupportedError
from lvmcore.kernels.catalogue import KERNEL_TYPES, check_kernel_columns, read_kernel
from lvmcore.kernels.components import KernelComponent, LinearComponent, StationaryComponent
from lvmcore.kernels.composite import CompositeKernel, TermOfColumns
from lvmcore.kernels.expression import (
    KernelExpression,
    KernelProduct,
    KernelSum,
    KernelTerm,
)
from lvmcore.kernels.gpytorch_components import GPyTorchComponent, gpytorch_kernels

__all__ = ["translated_kernel"]

_MATERN = {0.5: "matern12", 1.5: "matern32", 2.5: "matern52"}


@dataclass(frozen=True)
class _Leaf:
    """A kernel of some columns.

    Attributes:
        name: in an expression.
        dims: positions of its columns.
        options: of the expression.
        parameters: of the component, by gpytorch's names.
    """

    name: str
    dims: tuple[int, ...]
    options: tuple[tuple[str, float], ...] = ()
    parameters: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class _Summand:
    """v times a product, whose factors are kernels or sums of at least two summands."""

    variance: float
    factors: tuple[_Leaf | tuple[_Summand, ...], ...]

    def times(self, factor: float) -> _Summand:
        """The summand times a positive number."""
        return _Summand(self.variance * factor, self.factors)


@torch.no_grad()
def translated_kernel(
    kernel: Any, columns: Sequence[str], scales: Float[Tensor, "H"]
) -> CompositeKernel:
    """A kernel of gpytorch as a kernel of this package, with the same values.

    Translated are the kernels of ``KERNEL_TYPES``, ``ScaleKernel``, sums and products, each with
    ``active_dims``. Not translated are kernels with a batch of parameters, which the message of the
    error names too.

    Args:
        kernel: of gpytorch.
        columns: names of the columns of its inputs.
        scales: what a unit of each input is in the column's own units, [H], float64.

    Raises:
        UnsupportedError: a kernel has no counterpart; the message names it.
    """
    summands = _summands(kernel, tuple(range(len(columns))))
    expression = _expression(summands, columns)
    try:
        read_kernel(str(expression))
        check_kernel_columns(expression, columns)
    except ConfigError as error:
        raise UnsupportedError(f"The kernel cannot be translated: {error}") from error
    found = CompositeKernel(expression, columns, scales)
    _copy(summands, found)
    return found


# ---- reading -----------------------------------------------------------------------------------


def _summands(kernel: Any, dims: tuple[int, ...], *, scaled: bool = False) -> tuple[_Summand, ...]:
    """The kernel as a sum.

    Args:
        kernel: of gpytorch.
        dims: positions of its inputs among all columns.
        scaled: whether it is in a ``ScaleKernel``, which has its ``active_dims`` too and selects
            them for it.
    """
    kernels = gpytorch_kernels()
    if kernel.active_dims is not None and not scaled:
        dims = tuple(dims[int(d)] for d in kernel.active_dims)
    if tuple(kernel.batch_shape):
        raise UnsupportedError(
            f"{type(kernel).__name__} has parameters for a batch of {tuple(kernel.batch_shape)}: "
            "only kernels without a batch_shape are translated."
        )
    if type(kernel) is kernels.ScaleKernel:
        v = _number(kernel.outputscale)
        return tuple(part.times(v) for part in _summands(kernel.base_kernel, dims, scaled=True))
    if type(kernel) is kernels.AdditiveKernel:
        return tuple(part for one in kernel.kernels for part in _summands(one, dims))
    if type(kernel) is kernels.ProductKernel:
        return _product([_summands(one, dims) for one in kernel.kernels])
    read = _READERS.get(type(kernel).__name__)
    if read is None or type(kernel) is not getattr(kernels, type(kernel).__name__, None):
        raise UnsupportedError(
            f"The kernel {type(kernel).__name__} of gpytorch cannot be stored: expected sums and "
            f"products of {', '.join(_READERS)}."
        )
    v, leaf = read(kernel, dims)
    return (_Summand(v, (leaf,)),)


def _product(parts: Sequence[tuple[_Summand, ...]]) -> tuple[_Summand, ...]:
    """The product of sums."""
    if len(parts) == 1:
        return parts[0]
    v, factors = 1.0, list[_Leaf | tuple[_Summand, ...]]()
    for part in parts:
        v *= part[0].variance
        if len(part) == 1:
            factors += part[0].factors
        else:  # a sum as a factor has 1 as its first variance
            factors.append(tuple(one.times(1 / part[0].variance) for one in part))
    return (_Summand(v, tuple(factors)),)


def _number(value: Tensor) -> float:
    return float(value.detach().double().reshape(()))


def _expression(summands: Sequence[_Summand], columns: Sequence[str]) -> KernelExpression:
    parts = tuple(_product_expression(part, columns) for part in summands)
    return parts[0] if len(parts) == 1 else KernelSum(parts)


def _product_expression(summand: _Summand, columns: Sequence[str]) -> KernelExpression:
    parts = tuple(
        _term(factor, columns) if isinstance(factor, _Leaf) else _expression(factor, columns)
        for factor in summand.factors
    )
    return parts[0] if len(parts) == 1 else KernelProduct(parts)


def _term(leaf: _Leaf, columns: Sequence[str]) -> KernelTerm:
    everything = leaf.dims == tuple(range(len(columns)))
    if everything and KERNEL_TYPES[leaf.name].most_columns is None:
        return KernelTerm(leaf.name, (), leaf.options)
    return KernelTerm(leaf.name, tuple(columns[d] for d in leaf.dims), leaf.options)


# ---- kernels of gpytorch -----------------------------------------------------------------------


def _parameters(kernel: Any, *names: str) -> dict[str, Tensor]:
    return {name: getattr(kernel, name).detach().double() for name in names}


def _rbf(kernel: Any, dims: tuple[int, ...]) -> tuple[float, _Leaf]:
    return 1.0, _Leaf("rbf", dims, (), _parameters(kernel, "lengthscale"))


def _matern(kernel: Any, dims: tuple[int, ...]) -> tuple[float, _Leaf]:
    return 1.0, _Leaf(_MATERN[kernel.nu], dims, (), _parameters(kernel, "lengthscale"))


def _linear(kernel: Any, dims: tuple[int, ...]) -> tuple[float, _Leaf]:
    variances = kernel.variance.detach().double().reshape(-1).expand(len(dims))
    mean = float(variances.mean())
    return mean, _Leaf("linear", dims, (), {"weights": variances / mean})


def _constant(kernel: Any, dims: tuple[int, ...]) -> tuple[float, _Leaf]:
    return _number(kernel.constant), _Leaf("constant", dims)


def _periodic(kernel: Any, dims: tuple[int, ...]) -> tuple[float, _Leaf]:
    return 1.0, _Leaf("periodic", dims, (), _parameters(kernel, "lengthscale", "period_length"))


def _cosine(kernel: Any, dims: tuple[int, ...]) -> tuple[float, _Leaf]:
    return 1.0, _Leaf("cosine", dims, (), _parameters(kernel, "period_length"))


def _rational_quadratic(kernel: Any, dims: tuple[int, ...]) -> tuple[float, _Leaf]:
    return 1.0, _Leaf("rational_quadratic", dims, (), _parameters(kernel, "lengthscale", "alpha"))


def _polynomial(kernel: Any, dims: tuple[int, ...]) -> tuple[float, _Leaf]:
    degree = (("degree", float(kernel.power)),)
    return 1.0, _Leaf("polynomial", dims, degree, _parameters(kernel, "offset"))


def _piecewise_polynomial(kernel: Any, dims: tuple[int, ...]) -> tuple[float, _Leaf]:
    smoothness = (("smoothness", float(kernel.q)),)
    return 1.0, _Leaf("piecewise_polynomial", dims, smoothness, _parameters(kernel, "lengthscale"))


def _spectral_mixture(kernel: Any, dims: tuple[int, ...]) -> tuple[float, _Leaf]:
    """Divided by its value at 0, (Σ w)^H."""
    names = ("mixture_weights", "mixture_means", "mixture_scales")
    found = _parameters(kernel, *names)
    number = (("n", float(kernel.num_mixtures)),)
    v = float(found["mixture_weights"].sum() ** len(dims))
    return v, _Leaf("spectral_mixture", dims, number, found)


_READERS: Mapping[str, Callable[[Any, tuple[int, ...]], tuple[float, _Leaf]]] = {
    "RBFKernel": _rbf,
    "MaternKernel": _matern,
    "LinearKernel": _linear,
    "ConstantKernel": _constant,
    "PeriodicKernel": _periodic,
    "CosineKernel": _cosine,
    "RQKernel": _rational_quadratic,
    "PolynomialKernel": _polynomial,
    "PiecewisePolynomialKernel": _piecewise_polynomial,
    "SpectralMixtureKernel": _spectral_mixture,
}


# ---- writing -----------------------------------------------------------------------------------


def _copy(summands: Sequence[_Summand], kernel: CompositeKernel) -> None:
    """Set the parameters of a kernel that was made from the expression of a sum."""
    for read, made in zip(summands, kernel.summands, strict=True):
        made.log_variance.fill_(math.log(read.variance))
        for factor, node in zip(read.factors, made.factors, strict=True):
            if isinstance(node, CompositeKernel):
                assert not isinstance(factor, _Leaf)
                _copy(factor, node)
            else:
                assert isinstance(factor, _Leaf)
                assert isinstance(node, TermOfColumns)
                _set_component(node.component, factor.parameters)


def _set_component(component: KernelComponent, parameters: Mapping[str, Tensor]) -> None:
    H = len(component.scales)
    if isinstance(component, StationaryComponent):
        component.log_lengthscales.copy_(parameters["lengthscale"].reshape(-1).expand(H).log())
    elif isinstance(component, LinearComponent):
        component.logits.copy_(parameters["weights"].log())
    elif isinstance(component, GPyTorchComponent):
        for name, value in parameters.items():
            shape = getattr(component.kernel, name).shape
            component.kernel.initialize(**{name: value.expand(shape)})
