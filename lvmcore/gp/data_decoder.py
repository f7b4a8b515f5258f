"""Fitted paths: predictions of the columns or of functions at latent points and under q(x)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.kernels.expression_kernel import (
    ExpressionKernel,
    MapKernel,
    kernel_arrays,
    kernel_from_arrays,
)
from lvmcore.kernels.expression_psi_sums import expression_psi_pairs
from lvmcore.kernels.psi_statistics import (
    expected_diagonal,
    pair_weights,
    psi1,
    psi2_contraction,
    psi2_products,
    psi2_row_contraction,
)
from lvmcore.numerics.gaussians import LOG_2PI

__all__ = ["DataDecoder", "FunctionDecoder", "ObservedRows"]

# Columns in a block of second moments; bounds memory, does not change results.
COLUMNS_AT_A_TIME = 64


@dataclass(frozen=True)
class DataDecoder:
    """Predictions of the columns at latent points, f(x) | data.

    Attributes:
        kernel: RBF or of an expression.
        Z: inducing inputs, [M, Q].
        basis: T, so that b = k(x, Z) T is whitened, [M, M]; or [K, M, M], one per column group.
            Of columns with few inducing inputs each among the M it has as many columns, [K, M, m].
        weights: W, E f(x) = k(x, Z) W, [M, D].
        shrinkage: s, Var f_d(x) = k(x, x) − Σ_m b_m² s_md, [M, D] or [m, D].
        noise: σ_d², [D].
        groups: index of each column's basis among the K, [D]; None for a single basis.
    """

    kernel: MapKernel
    Z: Tensor
    basis: Tensor
    weights: Tensor
    shrinkage: Tensor
    noise: Tensor
    groups: Tensor | None = None

    def __post_init__(self) -> None:
        """Make the arrays contiguous, as in a file: the memory layout affects rounding."""
        for name in ("Z", "basis", "weights", "shrinkage", "noise"):
            object.__setattr__(self, name, getattr(self, name).contiguous())

    def predict(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of f(x) (noise not included) at points X [N, Q], each [N, D]."""
        K = self.kernel(X, self.Z)
        known = K.new_empty(len(K), self.weights.shape[1])
        for basis, columns in self._bases():
            known[:, columns] = (K @ basis).square() @ self.shrinkage[:, columns]
        return K @ self.weights, (self.kernel.diagonal(X)[:, None] - known).clamp_min(0)

    def _bases(self) -> list[tuple[Tensor, Tensor | slice]]:
        """Each basis with its columns."""
        if self.groups is None:
            return [(self.basis, slice(None))]
        order = torch.argsort(self.groups, stable=True)
        sizes = torch.bincount(self.groups, minlength=len(self.basis)).tolist()
        return list(zip(self.basis, torch.split(order, sizes), strict=True))

    @cached_property
    def _spread(self) -> Tensor:
        """P with Σ_d Var f_d(x) = D k(x, x) − k(x, Z) P k(Z, x), [M, M]."""
        spread = self.basis.new_zeros(len(self.Z), len(self.Z))
        for basis, columns in self._bases():
            spread = spread + (basis * self.shrinkage[:, columns].sum(1)) @ basis.T
        return spread

    def metric(self, X: Tensor) -> Tensor:
        """G(x) = Σ_d E[∂f_d ∂f_dᵀ] at points X [N, Q], [N, Q, Q].

        With J = ∂k(x, Z)/∂x [Q, M], the mean slopes J W and the covariance of the slopes of f_d,
        diag(v/ℓ²) − J T diag(s_d) Tᵀ Jᵀ: G = J (W Wᵀ − P) Jᵀ + D diag(v/ℓ²). Of a kernel of an
        expression ∂²k(x, x')/∂x ∂x' at x' = x takes the place of diag(v/ℓ²); where its functions
        have no derivatives, G is that of the mean.
        """
        kernel, D = self.kernel, self.weights.shape[1]
        moment = self.weights @ self.weights.T - self._spread
        if isinstance(kernel, ExpressionKernel):
            J, moment = kernel.slopes(X, self.Z), moment.double()
            if not kernel.is_smooth:  # the mean alone has slopes
                moment = moment + self._spread.double()
            return (J @ moment @ J.mT + D * kernel.slope_covariance(X)).to(X)
        square = kernel.lengthscales.square()
        away = (X[:, None, :] - self.Z) / square
        J = -kernel(X, self.Z)[:, None, :] * away.transpose(1, 2)
        return (J @ moment) @ J.transpose(1, 2) + torch.diag(D * kernel.variance / square)

    def prior_variance_share(self, X: Tensor) -> Tensor:
        """Mean of Var f_d(x)/k(x, x) over columns: ratio of posterior to prior variance, [N]."""
        K = self.kernel(X, self.Z)
        known = ((K @ self._spread) * K).sum(1) / self.weights.shape[1]
        prior = self.kernel.variance
        if isinstance(self.kernel, ExpressionKernel):
            prior = self.kernel.diagonal(X).clamp_min(1e-12)
        return (1 - known / prior).clamp(0, 1)

    @cached_property
    def _second_moment(self) -> Tensor:
        """S with Σ_d E f_d²/σ_d² = Σ_d k/σ_d² + tr[psi2_n S], [M, M]."""
        moment = (self.weights / self.noise) @ self.weights.T
        for basis, columns in self._bases():
            spread = basis * (self.shrinkage / self.noise)[:, columns].sum(1)
            moment = moment - spread @ basis.T
        return moment

    @cached_property
    def _second_moments(self) -> Tensor:
        """S_d with E f_d² = k + tr[psi2_n S_d], as ``pair_weights``, [D, M(M+1)/2]."""
        M, D = self.weights.shape
        moments = self.weights.new_empty(D, M * (M + 1) // 2)
        for basis, columns in self._bases():
            chosen = torch.arange(D, device=moments.device)[columns]
            for block in torch.split(chosen, COLUMNS_AT_A_TIME):
                W = self.weights[:, block].T
                spread = (basis * self.shrinkage[:, block].T[:, None, :]) @ basis.T
                moments[block] = pair_weights(W[:, :, None] * W[:, None, :] - spread)
        return moments

    def moments(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``decode`` for x ~ N(mean, diag variance), in closed form, each [N, D].

        E f_d = psi1 w_d and E f_d² = k + tr[psi2 S_d]: the variance includes that of x.
        """
        first = psi1(self.kernel, mean, variance, self.Z) @ self.weights
        second = psi2_products(self.kernel, mean, variance, self.Z, self._second_moments)
        own = expected_diagonal(self.kernel, mean, variance)[..., None]
        spread = (own + second - first.square()).clamp_min(0)
        noise = self.noise.expand_as(first)
        return first, spread + noise, noise

    @property
    def complete_row_size(self) -> int:
        """See ``RowDecoder``; of an RBF kernel small enough for any block of rows."""
        kernel = self.kernel
        return len(kernel.draws) * len(self.Z) if isinstance(kernel, ExpressionKernel) else 1

    @property
    def incomplete_row_size(self) -> int:
        """See ``RowDecoder``."""
        return max(len(self.Z), self.complete_row_size // len(self.Z)) * len(self.Z)

    def reconstruct(self, X: Tensor) -> Tensor:
        """Means of the columns at points X [N, Q], [N, D]."""
        return self.predict(X)[0]

    def distance_features(self, Y: Tensor) -> Tensor:
        """The standardised rows, unchanged."""
        return Y

    def decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance with noise and noise variance of y at points X [N, Q], each [N, D]."""
        mean, variance = self.predict(X)
        noise = self.noise.expand_as(mean)
        return mean, variance + noise, noise

    def complete_rows(self, Y: Tensor) -> CompleteRows:
        """Likelihood of complete rows Y [B, D] as a function of their positions."""
        return CompleteRows(self, Y)

    def observed_rows(self, Y: Tensor) -> ObservedRows:
        """Likelihood of rows Y [B, D], NaN where missing, as a function of their positions."""
        observed = ~torch.isnan(Y)
        precision = observed / self.noise
        known = torch.where(observed, Y, 0.0)
        constant = (observed * (LOG_2PI + self.noise.log())).sum(1) + (
            known.square() * precision
        ).sum(1)
        return ObservedRows(
            self.kernel,
            self.Z,
            constant,
            precision.sum(1),
            (known * precision) @ self.weights.T,
            precision @ self._second_moments,
        )

    def expected_log_density(self, Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log N(y_n | f(x_n), diag σ²) for x_n ~ N(mean, diag variance), in closed form, [N]."""
        if isinstance(self.kernel, ExpressionKernel):
            return self._expected_log_density(self.kernel, Y, mean, variance)
        prediction = psi1(self.kernel, mean, variance, self.Z) @ self.weights
        square = (
            (Y * (Y - 2 * prediction) / self.noise).sum(1)
            + self.kernel.variance * (1 / self.noise).sum()
            + psi2_contraction(self.kernel, mean, variance, self.Z, self._second_moment)
        )
        return -0.5 * ((LOG_2PI + self.noise.log()).sum() + square)

    def _expected_log_density(
        self, kernel: ExpressionKernel, Y: Tensor, mean: Tensor, variance: Tensor
    ) -> Tensor:
        """``expected_log_density`` over the draws of the kernel, [N]."""
        K, own = kernel.rows(mean, variance, self.Z)
        precision = 1 / self.noise.double()
        fitted = (K.mean(1) * ((Y * precision) @ self.weights.double().T)).sum(1)
        square = (Y.double().square() * precision).sum(1) - 2 * fitted + own * precision.sum()
        second = ((K @ self._second_moment.double()) * K).sum(-1).mean(1)
        constant = (LOG_2PI - precision.log()).sum()
        return (-0.5 * (constant + square + second)).to(mean)

    def log_density(self, Y: Tensor, X: Tensor) -> Tensor:
        """Σ_d log N(y_nd | E f_d(x_n), Var f_d(x_n) + σ_d²) at points X [S, N, Q], [S, N].

        The sum is over the cells that are not NaN.
        """
        mean, variance = self.predict(X.reshape(-1, X.shape[-1]))
        shape = (*X.shape[:2], Y.shape[1])
        total = variance.reshape(shape) + self.noise
        square = (Y - mean.reshape(shape)).square()
        cells = LOG_2PI + total.log() + square / total
        return -0.5 * torch.where(torch.isnan(Y), 0.0, cells).sum(-1)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays for ``from_arrays``."""
        return {
            **kernel_arrays(self.kernel, "data."),
            "data.Z": _numpy(self.Z),
            "data.basis": _numpy(self.basis),
            "data.weights": _numpy(self.weights),
            "data.shrinkage": _numpy(self.shrinkage),
            "data.noise": _numpy(self.noise),
            **({} if self.groups is None else {"data.groups": self.groups.cpu().numpy()}),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> Self:
        """Rebuild from ``arrays()``, on the device and in the dtype of ``like``."""
        get = _getter(arrays, "data.", like)
        kernel = kernel_from_arrays(arrays, "data.", like)
        groups = None
        if "data.groups" in arrays:
            groups = torch.as_tensor(arrays["data.groups"].copy()).to(like.device)
        return cls(
            kernel,
            Z=get("Z"),
            basis=get("basis"),
            weights=get("weights"),
            shrinkage=get("shrinkage"),
            noise=get("noise"),
            groups=groups,
        )


@dataclass(frozen=True)
class CompleteRows:
    """Likelihood of complete rows as a function of their positions."""

    decoder: DataDecoder
    Y: Tensor

    def expected_log_density(self, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """See ``DataDecoder.expected_log_density``, for some of the rows."""
        return self.decoder.expected_log_density(self.Y[rows], mean, variance)


@dataclass(frozen=True)
class ObservedRows:
    """Likelihood of rows with missing cells as a function of their positions.

    Attributes:
        kernel: RBF or of an expression.
        Z: inducing inputs, [M, Q].
        constant: Σ_d log 2πσ_d² + y_d²/σ_d² over a row's observed cells, [B].
        precision: Σ_d 1/σ_d² over them, [B].
        first: Σ_d y_d w_d/σ_d², [B, M].
        second: Σ_d S_d/σ_d² with S_d as in ``DataDecoder``, [B, M(M+1)/2].
    """

    kernel: MapKernel
    Z: Tensor
    constant: Tensor
    precision: Tensor
    first: Tensor
    second: Tensor

    def expected_log_density(self, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log N(observed cells | f(x), σ²) of ``rows`` for x ~ N(mean, diag variance), [n]."""
        place = (self.kernel, mean, variance, self.Z)
        if isinstance(self.kernel, ExpressionKernel):
            own, first, second = expression_psi_pairs(self.kernel, mean, variance, self.Z)
            square = self.constant[rows] + own * self.precision[rows]
            square = square + (second * self.second[rows]).sum(1)
            return ((first * self.first[rows]).sum(1) - 0.5 * square).to(mean)
        fit = (psi1(*place) * self.first[rows]).sum(1)
        prior = self.kernel.variance * self.precision[rows]
        constant = self.constant[rows] + prior
        return fit - 0.5 * (constant + psi2_row_contraction(*place, self.second[rows]))


@dataclass(frozen=True)
class FunctionDecoder:
    """Predictions of functions with a q(V) each at latent points.

    Attributes:
        kernel: RBF or of an expression.
        Z: inducing inputs, [M, Q].
        weights: E f_c(x) = k(x, Z) weights_c, [M, C].
        reduction: Var f_c(x) = k(x, x) − k(x, Z) reduction_c k(Z, x), [C, M, M].
    """

    kernel: MapKernel
    Z: Tensor
    weights: Tensor
    reduction: Tensor

    def __post_init__(self) -> None:
        """Make the arrays contiguous, as in a file: the memory layout affects rounding."""
        for name in ("Z", "weights", "reduction"):
            object.__setattr__(self, name, getattr(self, name).contiguous())

    def predict(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of f_c(x), each [N, C]."""
        K = self.kernel(X, self.Z)
        spread = ((K @ self.reduction) * K).sum(-1).T
        return K @ self.weights, (self.kernel.diagonal(X)[:, None] - spread).clamp_min(1e-12)

    def arrays(self, prefix: str = "labels.") -> dict[str, NDArray[Any]]:
        """The arrays for ``from_arrays``, under names that begin with ``prefix``."""
        return {
            **kernel_arrays(self.kernel, prefix),
            f"{prefix}Z": _numpy(self.Z),
            f"{prefix}weights": _numpy(self.weights),
            f"{prefix}reduction": _numpy(self.reduction),
        }

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], like: Tensor, prefix: str = "labels."
    ) -> Self:
        """Rebuild from ``arrays(prefix)``, on the device and in the dtype of ``like``."""
        get = _getter(arrays, prefix, like)
        kernel = kernel_from_arrays(arrays, prefix, like)
        return cls(kernel, get("Z"), get("weights"), get("reduction"))


def _numpy(tensor: Tensor) -> NDArray[Any]:
    return np.asarray(tensor.detach().cpu().numpy(), dtype=np.float64)


def _getter(arrays: Mapping[str, NDArray[Any]], prefix: str, like: Tensor) -> Any:
    return lambda name: torch.as_tensor(arrays[prefix + name].copy()).to(like)
