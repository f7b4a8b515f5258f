"""Scalable random-feature latent variable model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.initial_map import start_map
from lvmcore.base.latent_variable_model import Capabilities, FitProblem
from lvmcore.base.settings import (
    ColumnLikelihood,
    Components,
    DtypeOrMixed,
    LearningRate,
    MaxIter,
    Noise,
    Restarts,
    Start,
)
from lvmcore.base.table_size import TableSize
from lvmcore.base.validation import random_seed
from lvmcore.errors import DataError
from lvmcore.gp.imputation_intervals import scale_by_steps
from lvmcore.gp.model import GPLatentVariableModel
from lvmcore.gp.paths import FullRows, LatentRows
from lvmcore.gp.starts.restarts import derived_seeds, fit_from_starts
from lvmcore.kernels.composite import CompositeKernel
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advised, is_array
from lvmcore.preprocessing.cell_types import check_binary, check_counts
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.random_features.advice import advised_settings
from lvmcore.random_features.columns.decoder import FeatureColumnDecoder
from lvmcore.random_features.columns.fit import (
    feature_column_map,
    fit_feature_columns,
    read_column_decoder,
)
from lvmcore.random_features.construction import (
    MOST_AT_ONCE,
    check_further_fits,
    column_term,
    fitted_spectrum,
    have_one_scale,
    initial_objective,
    initial_spectrum,
    refit,
    spectral_kernel,
    spectrum_arrays,
    spectrum_from_arrays,
    standardised_counts,
)
from lvmcore.random_features.count_decoder import CountFeatureDecoder
from lvmcore.random_features.decoder import FeatureDecoder
from lvmcore.random_features.gaussian_decoder import GaussianFeatureDecoder
from lvmcore.random_features.mixture_spectrum import MixtureSpectrum
from lvmcore.random_features.objective import RandomFeatureObjective
from lvmcore.random_features.sampled_spectrum import SampledSpectrum
from lvmcore.random_features.settings import (
    BatchRows,
    ColumnScale,
    FeatureCount,
    MixtureSize,
    RowCovariance,
    SpectralForm,
    SpectralKernel,
    SpectralNoise,
    TableLikelihood,
    Trials,
    WeightForm,
)
from lvmcore.random_features.spectrum import SpectralDensity
from lvmcore.random_features.variational_weights import check_variational_weights
from lvmcore.training.loop import train
from lvmcore.training.outcome import FitOutcome
from lvmcore.training.schedule import Schedule
from lvmcore.training.snapshots import thinned

__all__ = ["SRFLVM"]

FINAL_DRAWS = 16
# Initial variance of q(X): with a larger one the map unfolds less.
START_VARIANCE = 0.01
# Fall below the maximum, in nats a cell, at which a bound from some of the columns has collapsed.
COLLAPSE_THRESHOLD = 10.0


@estimator_dataclass
class SRFLVM(GPLatentVariableModel):
    """Nonlinear map with a learned spectral density of the kernel, for numbers and counts.

    x_n ~ N(0, I), f_d = φ(x)ᵀh_d, h_d ~ N(0, I), φ the sines and cosines of R/2 spectral points
    w_l, which follow a Dirichlet-process mixture of Gaussians (Li et al. 2024). It maximises
    E log p(Y | X, W) − KL(q(X) ‖ N(0, I)) − the divergences of W, z, v and α, with h integrated
    out: in closed form for Gaussian columns, by Pólya–gamma mean field, with its divergence, for
    counts and 0/1, by Gaussian sites for Poisson and for large counts; or, with
    ``weights="variational"``, under a learned Gaussian q(h_d). With ``spectral="free"`` every w_l
    has its own Gaussian; the paper samples it from the mixture (``"mixture"``) or from one Gaussian
    with its moments (``"moment"``, with the variance between components that the paper's eq. 26
    lacks; its divergence is missing, so the objective is no bound). A missing cell drops out of the
    bound; in a large table of numbers it has a Gaussian q instead, which is still a bound, at the
    cost of a complete table. In a large table of counts a step uses a scaled subset of the columns;
    the final bound uses all.

    With a kernel in place of ``"learned"`` the w_l are a quasi-random sample of its spectrum, fixed
    but for the hyperparameters, and the model is that of the kernel φ(x)ᵀφ(x'). Columns with
    likelihoods of their own have q(h) apart from q(W) (``lvmcore.random_features.columns.path``).

    Attributes:
        relevance_: ``data`` holds the mean of w_lq², which is 1/ℓ_q² of an RBF kernel, [Q].
        spectral_: the spectral density.
        kernel_: the given kernel at its learned hyperparameters; None where it is learned.
        noise_variance_: σ_d² of the columns that vary, in the fit's units, [D] (Gaussian).
        dispersion_: r of the columns that vary, [D] (negative binomial).
        interval_scale_: factor of the standard deviation of imputed cells, [D].
        restarts_: bounds, seeds and latent means of the starts; None for a single start.
    """

    key: ClassVar[str] = "srflvm"
    title: ClassVar[str] = "SRFLVM"
    summary: ClassVar[str] = (
        "A curved map that learns its own kernel from random features: for numbers, counts and 0/1."
    )
    paper: ClassVar[str] = "Li et al. 2024"
    order: ClassVar[int] = 15
    capabilities: ClassVar[Capabilities] = Capabilities(
        missing_cells=True, sampling=True, uncertainty=True, bound=True, gpu=True
    )

    spectral_: SpectralDensity = fitted()
    kernel_: CompositeKernel | None = fitted(default=None)

    _decoder: FeatureDecoder | FeatureColumnDecoder = fitted()
    # The previous fit of an ensemble, during the fit of the next.
    _previous_fit: SRFLVM | None = fitted(default=None)

    n_components: Components = None
    likelihood: TableLikelihood = "gaussian"
    column_likelihood: ColumnLikelihood = "gaussian"
    n_features: FeatureCount = 100
    kernel: SpectralKernel = "learned"
    max_iter: MaxIter = 500
    n_mixture: MixtureSize = 10
    spectral: SpectralForm = "free"
    spectral_noise: SpectralNoise = "auto"
    weights: WeightForm = "marginal"
    covariance: RowCovariance = "diagonal"
    n_trials: Trials = None
    scaling: ColumnScale = "auto"
    noise: Noise = "shared"
    batch_size: BatchRows = None
    learning_rate: LearningRate = 0.05
    start: Start = "pca"
    n_restarts: Restarts = 1
    dtype: DtypeOrMixed = "float64"  # type: ignore[assignment] # one precision more

    @classmethod
    def advise(cls, size: TableSize) -> dict[str, Advised]:
        """See ``advised_settings``."""
        return advised_settings(size)

    # ---- checks --------------------------------------------------------------------------------

    def _scaling(self, measured: Standardiser) -> Standardiser:
        if _table_likelihood(self) != "gaussian":
            return measured.unscaled()
        one = have_one_scale(measured) if self.scaling == "auto" else self.scaling == "shared"
        return measured.shared() if one and self._column_terms is None else measured

    def _check_values(self, data: NDArray[Any]) -> None:
        kind = _table_likelihood(self)
        if kind != "gaussian":
            check = check_binary if kind == "bernoulli" else check_counts
            check(data, self._column_names(), f"Likelihood {kind}")

    def _decide_components(self, shape: tuple[int, ...]) -> int:
        """Two dimensions, unless ``n_components`` or ``start`` is set."""
        given = is_array(self.start) and np.ndim(self.start) == 2
        found = super()._decide_components(shape)
        return min(2, found) if self.n_components is None and not given else found

    # ---- fitting -------------------------------------------------------------------------------

    def ensemble(self, X: ArrayLike, n_fits: int = 8, *, max_iter: int = 150) -> list[SRFLVM]:
        """This fit and a sequence of further fits, each with a new sample of the spectrum.

        Each fit starts at the map of the previous one, with spectral points sampled from its
        learned mixture. q(W) is concentrated at one of the many spectra that explain the rows;
        p(y) = (1/M) Σ_m p(y | fit m) approximates the posterior predictive density better than
        one fit, in fewer steps than independent fits. The maps differ: densities of rows may be
        averaged over the fits, positions may not.

        Args:
            X: the rows of this fit, in their order, [N, D].
            n_fits: total number of fits, at least 1.
            max_iter: steps of each further fit.

        Returns:
            The fits, this one first.

        Raises:
            ConfigError: the kernel is given, ``spectral`` is not "free", the columns have
                likelihoods of their own, or ``n_fits`` is less than 1.
            DataError: the number of rows or columns differs from this fit.
        """
        check_is_fitted(self)
        check_further_fits(self.get_params(deep=False), n_fits)
        rows, own = len(self._check_rows(X, reset=False)), len(self.embedding_.mean)
        if rows != own:
            raise DataError(f"X has {rows:,} rows: expected the {own:,} of this fit.")
        fits: list[SRFLVM] = [self]
        for seed in derived_seeds(random_seed(self.random_state), n_fits)[1:]:
            further = clone(self).set_params(random_state=seed, max_iter=max_iter, n_restarts=1)
            further._previous_fit = fits[-1]
            try:
                fits.append(further.fit(X))
            finally:
                further._previous_fit = None
        return fits

    def _fit(self, problem: FitProblem) -> FitOutcome:
        spectral_kernel(self.kernel, problem.n_components)
        if self._column_terms is not None:
            return fit_from_starts(self, problem, feature_column_map(self, problem))
        check_variational_weights(self.settings_)
        if self._previous_fit is None:
            binary, gaussian = (_table_likelihood(self) == k for k in ("bernoulli", "gaussian"))
            start_problem = problem if gaussian else standardised_counts(problem, binary=binary)
            return fit_from_starts(
                self, problem, partial(start_map, start_problem, self.start, self._note)
            )
        self.restarts_ = None
        return self._fit_start(problem, self._previous_fit._fitted_rows()[0].to(problem.table.like))

    def _fit_start(self, problem: FitProblem, X: Tensor) -> FitOutcome:
        """Fit from the initial map X, [N, Q]."""
        self._interval_scale = None
        if self._column_terms is not None:
            outcome, spectrum = fit_feature_columns(self, problem, X)
            self.spectral_, self.kernel_ = fitted_spectrum(spectrum, torch.ones(()))
            return outcome
        rows = (FullRows if self.covariance == "full" else LatentRows)(X, START_VARIANCE)
        spectrum = initial_spectrum(
            problem,
            self.spectral,
            kernel=spectral_kernel(self.kernel, problem.n_components),
            n_features=self.n_features,
            n_mixture=self.n_mixture,
            frozen=self.spectral_noise != "fresh",
        )
        columns = column_term(
            problem,
            _table_likelihood(self),
            n_features=self.n_features,
            shared_noise=self.noise == "shared",
            n_trials=self.n_trials,
            names=self._standardiser.varying_names,
            weights=self.weights,
        )
        fit = initial_objective(
            rows,
            spectrum,
            columns,
            problem.generator,
            n_features=self.n_features,
            batch_size=self.batch_size,
            plain=(self.noise, self.covariance, self.weights) == ("shared", "diagonal", "marginal"),
            note=self._note,
        )

        outcome = self._train(fit, problem)
        self._decoder = fit.decoder()
        self.embedding_ = rows.posterior()
        self.relevance_ = {"data": to_numpy(spectrum.relevance())}
        self.inducing_inputs_ = {}
        variance = columns.log_scale.detach().exp().square()
        self.spectral_, self.kernel_ = fitted_spectrum(spectrum, variance)
        if _table_likelihood(self) == "gaussian":
            steps = len(outcome.history)
            on = partial(refit, fit, learning_rate=self.learning_rate)
            self._calibrate(problem, outcome, lambda g: scale_by_steps(problem, g, steps, on))
        return outcome

    def _train(self, fit: RandomFeatureObjective, problem: FitProblem) -> FitOutcome:
        """Take the steps of a fit, with a warm start from the previous fit of an ensemble."""
        whole, part = fit.batch_share
        schedule = Schedule.for_batches(
            self.max_iter, self.learning_rate, fit.columns.count, n_rows=whole, size=part
        )
        if self._previous_fit is not None:
            assert isinstance(fit.spectrum, SampledSpectrum)
            fit.spectrum.resample_spectrum(self._previous_fit.spectral_)
            assert isinstance(self._previous_fit._decoder, FeatureDecoder)
            fit.columns.warm_start_from(self._previous_fit._decoder, fit.rows.mean.detach())
            fit.rows.log_variance.data.copy_(self._previous_fit._fitted_rows()[1].log())
            schedule = replace(schedule, hold=0)
        if fit.columns.at_a_time < fit.columns.Y.shape[1]:  # the terms of columns differ widely
            schedule = replace(schedule, collapse=COLLAPSE_THRESHOLD)
        draws = FINAL_DRAWS if part == whole else FINAL_DRAWS // 4
        outcome = train(fit, schedule, problem.callback, draws=draws, checkpoint=problem.checkpoint)
        if isinstance(fit.spectrum, MixtureSpectrum) and fit.spectrum.frozen:
            outcome = replace(outcome, objective=fit.fresh_bound(draws))
        return outcome

    # ---- fitted parameters ---------------------------------------------------------------------

    @property
    def dispersion_(self) -> NDArray[np.float64]:
        """r of the columns that vary, variance = mean + mean²/r, [D]."""
        if _table_likelihood(self) != "negative_binomial" or not isinstance(
            self._decoder, CountFeatureDecoder
        ):
            raise AttributeError("Only the negative binomial has a dispersion.")
        return to_numpy(self._decoder.family.size)

    def latent_kernel(self, distances: ArrayLike) -> NDArray[np.float64]:
        """The kernel along each latent dimension, 1 at distance 0.

        k(δ e_q)/k(0) = (2/R) Σ_l a_l² cos(w_lq δ), the amplitudes a_l 1 if it is learned.

        Args:
            distances: δ, [n].

        Returns:
            [Q, n].
        """
        check_is_fitted(self)
        return self.spectral_.correlation(np.asarray(distances, dtype=float))

    # ---- inference and decoding ----------------------------------------------------------------

    def _cast(self, tensor: Tensor) -> Tensor:
        """A tensor in float64: in float32 the optima would be lost in rounding errors."""
        return tensor.double()

    def _fitted_rows(self) -> tuple[Tensor, Tensor]:
        """The rows of the fit, or a subset of many, at which the inference of new rows starts."""
        mean, variance = (self._cast(part) for part in super()._fitted_rows())
        some = thinned(len(mean)) if len(mean) > MOST_AT_ONCE else slice(None)
        return mean[some], variance[some]

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        self._decoder.check_rows(Y, self._standardiser.varying_names)
        return super()._posterior(Y)

    def _impute(self, Y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self._decoder.check_rows(Y, self._standardiser.varying_names)
        return super()._impute(Y)

    def _metric(self, X: Tensor) -> Tensor:
        if isinstance(self._decoder, FeatureColumnDecoder):
            return super()._metric(self._cast(X))
        units = (self._measured.scale / self._standardiser.scale)[~self._measured.constant]
        return self._decoder.metric(self._cast(X), self._cast(self._to_tensor(units)))

    def _sample_rows(self, latent: NDArray[np.float64], rng: np.random.Generator) -> Any:
        if isinstance(self._decoder, FeatureColumnDecoder):
            return super()._sample_rows(latent, rng)
        with torch.no_grad():
            drawn = self._decoder.sample(self._cast(self._to_tensor(latent)), rng)
        return self._standardiser.inverse_transform(drawn)

    # ---- storage -------------------------------------------------------------------------------

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        return {**arrays, **spectrum_arrays(self.spectral_, self.kernel_)}, facts

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._set_state(arrays, facts)
        self._standardiser = self._scaling(self._measured)
        if self._interval_scale is not None:
            self._interval_scale = self._cast(self._interval_scale)
        like = self._to_tensor(np.zeros(1))
        self.spectral_, self.kernel_ = spectrum_from_arrays(arrays, like)

    def _read_decoder(
        self, arrays: Mapping[str, NDArray[Any]], like: Tensor
    ) -> FeatureDecoder | FeatureColumnDecoder:
        if self._column_terms is not None:
            return read_column_decoder(self, arrays, self._cast(like))
        if (kind := _table_likelihood(self)) == "gaussian":
            return GaussianFeatureDecoder.from_arrays(arrays, self._cast(like))
        return CountFeatureDecoder.from_arrays(arrays, self._cast(like), kind)


def _table_likelihood(model: SRFLVM) -> TableLikelihood:
    """The likelihood of the whole table; Gaussian where each column has its own."""
    return "gaussian" if model.column_likelihood != "gaussian" else model.likelihood
