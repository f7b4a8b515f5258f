"""The linear latent variable model of a q-exponential process."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import Capabilities, FitProblem
from lvmcore.errors import ConfigError
from lvmcore.geometry import constant_metric
from lvmcore.models.latent.pca import PrincipalComponents
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advanced, Doc, Range
from lvmcore.qep.distribution import MIN_Q, conditional_shrinkage
from lvmcore.qep.linear_map import fit_linear_map
from lvmcore.training.outcome import FitOutcome

__all__ = ["LinearQEPLVM"]


@estimator_dataclass
class LinearQEPLVM(PrincipalComponents):
    """Linear map of a q-exponential process, in closed form.

    Y ~ q-ED_{ND}(0, I_D ⊗ (X Xᵀ + σ² I)): all cells are one block with one radius. The
    positions X and σ² of the highest likelihood are closed (``lvmcore.qep.linear_map``). At q = 2
    they are those of a Gaussian process latent variable model with a linear kernel, whose map is
    that of probabilistic PCA.

    With σ² at its highest likelihood, q changes the scale of X alone: the cells of one table do not
    determine q. With a given ``noise_variance`` a smaller q changes how much the dimensions exceed
    the noise; those that do not are 0 in every row.

    A point decodes to the mean of a new row given all rows, x M with
    M = (XᵀX + σ² I)⁻¹ XᵀY, and to the variance s σ² (1 + x (XᵀX + σ² I)⁻¹ xᵀ), where s is the
    factor that the radius of the block gives to a further row. A new row gets the position x = y P
    with Y P = X. Positions are points without a posterior variance; ``elbo_`` is log p(Y | X). The
    density of a row is that of a Gaussian with the second moments of x M and the mean variance,
    the positions having those of the rows of the fit.

    Attributes:
        relevance_: ``data`` holds the variance of the columns that each dimension explains, [Q].
        noise_variance_: s σ², standardised units.
    """

    key: ClassVar[str] = "linear_qep_lvm"
    title: ClassVar[str] = "Linear Q-EP LVM"
    summary: ClassVar[str] = (
        "The linear map of a q-exponential process, at once: that of probabilistic PCA, rescaled."
    )
    paper: ClassVar[str] = "Chang, Obite, Zhou and Lan 2025"
    order: ClassVar[int] = 22
    capabilities: ClassVar[Capabilities] = Capabilities(bound=True)

    noise_variance_: float = fitted()
    _place: Tensor = fitted()
    _weights: Tensor = fitted()
    _scales: Tensor = fitted()
    _away: Tensor = fitted()  # mean of x (XᵀX + σ² I)⁻¹ xᵀ over the rows

    q: Annotated[
        float,
        Range(MIN_Q, 2.0),
        Doc(
            "2 is the Gaussian process; with the learned noise a smaller q only rescales the map.",
            "exponent q",
        ),
    ] = 1.5
    noise_variance: Annotated[
        float | None,
        Range(1e-6, 1.0),
        Doc(
            "Noise variance of the standardised columns; auto is that of the highest likelihood.",
            "noise variance",
        ),
        Advanced(),
    ] = None

    def _fit(self, problem: FitProblem) -> FitOutcome:
        began = time.perf_counter()
        values, vectors = self._eigen(problem)
        (N, D), Q = problem.Y.shape, problem.n_components
        if Q >= N:
            raise ConfigError(
                f"n_components={Q} needs more than {N} rows, so that some are left for the noise: "
                "choose fewer dimensions."
            )
        eigenvalues = N * values[: min(N, D)]
        found = fit_linear_map(eigenvalues, N, D, Q, self.q, self.noise_variance)
        squares = found.scales - found.noise  # l² = the squared norms of the columns of X
        if not bool((squares > 0).any()):
            raise ConfigError(
                f"noise_variance={self.noise_variance:g} explains all of the table, and no "
                "dimension is left: choose a smaller one, or auto."
            )
        roots = eigenvalues[:Q].clamp_min(torch.finfo(values.dtype).tiny).sqrt()
        self._place = vectors[:, :Q] * (squares.sqrt() / roots)
        self._weights = vectors[:, :Q] * (squares.sqrt() * roots / found.scales)
        self._scales = found.scales
        self._away = (squares / found.scales).sum() / N
        square = torch.tensor(found.square, dtype=torch.float64)
        shrinkage = float(conditional_shrinkage(square, D, N * D + D, self.q))
        self.noise_variance_ = shrinkage * found.noise
        explained = (squares / found.scales).square() * eigenvalues[:Q] / N
        self.relevance_ = {"data": to_numpy(explained)}
        return self._finish(problem, found.log_density, began)

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        mean = Y @ self._place
        return mean, torch.zeros_like(mean)

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = X @ self._weights.T
        away = 1 + (X.square() / self._scales).sum(1, keepdim=True)
        noise = torch.full_like(mean, self.noise_variance_)
        return mean, away * noise, noise

    def _log_density(self, Y: Tensor) -> Tensor:
        """log N(y | 0, W diag(explained) Wᵀ + variance I), W the directions of the dimensions."""
        squares = self._weights.square().sum(0)
        explained = self._to_tensor(self.relevance_["data"])
        directions = self._weights / squares.clamp_min(torch.finfo(squares.dtype).tiny).sqrt()
        variance = self.noise_variance_ * (1 + float(self._away))
        kept = explained + variance
        D = Y.shape[1]
        projected = (Y @ directions).square()
        square = (Y.square().sum(1) - (explained / kept * projected).sum(1)) / variance
        log_det = kept.log().sum() + (D - len(kept)) * math.log(variance)
        return -0.5 * (D * math.log(2 * math.pi) + log_det + square)

    def _metric(self, X: Tensor) -> Tensor:
        return constant_metric(self._weights, X)

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays = {
            "place": to_numpy(self._place),
            "weights": to_numpy(self._weights),
            "scales": to_numpy(self._scales),
            "away": to_numpy(self._away),
        }
        return arrays, {"noise_variance": self.noise_variance_}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        self._place = self._to_tensor(arrays["place"])
        self._weights = self._to_tensor(arrays["weights"])
        self._scales = self._to_tensor(arrays["scales"])
        self._away = self._to_tensor(arrays["away"])
        self.noise_variance_ = float(facts["noise_variance"])
