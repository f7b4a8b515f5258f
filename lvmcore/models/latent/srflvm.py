"""Scalable random-feature latent variable model."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lvmcore import persistence
from lvmcore.base.advice import LONG_TABLE, WIDE_TABLE, advised_likelihood, advised_steps
from lvmcore.base.latent_variable_model import Capabilities, FitProblem
from lvmcore.base.validation import random_seed
from lvmcore.errors import ConfigError, DataError
from lvmcore.gp.imputation_intervals import ConditionedRows, scale_by_steps
from lvmcore.gp.model import GPLatentVariableModel
from lvmcore.gp.paths import FullRows, LatentRows
from lvmcore.gp.restarts import derived_seeds, fit_from_starts
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import (
    Advanced,
    Advised,
    Components,
    Device,
    Doc,
    Dtype,
    LearningRate,
    MaxIter,
    Noise,
    Range,
    Restarts,
    Seed,
    Start,
    is_array,
)
from lvmcore.preprocessing.cell_types import Cells, check_binary, check_counts
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.random_features.count_decoder import CountFeatureDecoder, CountKind
from lvmcore.random_features.count_terms import (
    LARGE_COUNTS,
    LargeCountTerm,
    LogisticTerm,
    PoissonTerm,
)
from lvmcore.random_features.decoder import FeatureDecoder
from lvmcore.random_features.gaussian_decoder import GaussianFeatureDecoder
from lvmcore.random_features.gaussian_term import ColumnTerm, GaussianTerm
from lvmcore.random_features.minibatch_objective import MinibatchRandomFeatureObjective
from lvmcore.random_features.mixture_spectrum import MixtureSpectrum
from lvmcore.random_features.objective import RandomFeatureObjective
from lvmcore.random_features.sampled_spectrum import SampledSpectrum
from lvmcore.random_features.spectrum import SpectralDensity, Spectrum
from lvmcore.training.loop import FitOutcome, train
from lvmcore.training.schedule import Schedule
from lvmcore.training.snapshots import thinned

__all__ = ["SRFLVM"]

FINAL_DRAWS = 16
# From so many counts on, single precision is advised.
MANY_COUNTS = 200_000
# Steps advised for them: from 500 to so many, bounds rise by 0.02 nats a cell and more.
STEPS_OF_COUNTS = 1000
# Of q(X) at the start: of a larger one the map does not unfold as far.
START_VARIANCE = 0.01
# Columns share a scale where none spreads so many times as much as the median one.
MOST_SPREAD = 10.0
# Rows of a step where there are more than so many.
BATCH, MOST_AT_ONCE = 4000, 10_000
# Rows of a step for each feature, at least: half of them give the weights of all.
ROWS_PER_FEATURE = 4
# Nats a cell below its best from which on a bound by some of the columns has collapsed.
FARTHEST_BELOW = 10.0
# How often a row is to be seen, and the most steps that are advised for it.
PASSES, MOST_STEPS = 20, 3000


class SRFLVM(GPLatentVariableModel):
    """Curved map whose kernel is learned through its spectrum, for numbers and for counts.

    x_n ~ N(0, I), f_d = φ(x)ᵀh_d, h_d ~ N(0, I), φ the sines and cosines of R/2 spectral points
    w_l, which follow a Dirichlet-process mixture of Gaussians (Li et al. 2024). It maximises
    E log p(Y | X, W) − KL(q(X) ‖ N(0, I)) − the divergences of W, z, v and α, with h integrated
    out: in closed form for Gaussian columns, by Pólya–gamma mean field for counts and 0/1, its
    divergence kept, by Gaussian sites for Poisson and for large counts. ``spectral="free"`` gives
    every w_l a Gaussian of its own, where the paper draws it from the mixture (``"mixture"``) or
    from one Gaussian with its moments (``"moment"``, with the spread between components that the
    paper's eq. 26 lacks; its own divergence is missing, so what it reports is no bound). A missing
    cell leaves the bound; in a large table of numbers it is filled by a Gaussian of its own
    instead: still a bound, at the cost of a complete table's. In a large table of counts a step
    takes some of the columns, scaled up; the bound in the end, all.

    Attributes:
        relevance_: ``data`` holds the mean of w_lq², which is 1/ℓ_q² of an RBF kernel, [Q].
        spectral_: the learned spectral density.
        noise_variance_: σ_d² of the columns that vary, in units of the fit's scale, [D] (Gaussian).
        dispersion_: r of the columns that vary, [D] (negative binomial).
        interval_scale_: factor of the standard deviation of filled cells, [D].
        restarts_: bounds, seeds and latent means of the starts; None after a single one.
    """

    key: ClassVar[str] = "srflvm"
    title: ClassVar[str] = "SRFLVM"
    summary: ClassVar[str] = (
        "A curved map that learns its own kernel from random features: for numbers, counts and 0/1."
    )
    paper: ClassVar[str] = "Li et al. 2024"
    order: ClassVar[int] = 15
    capabilities: ClassVar[Capabilities] = Capabilities(
        missing_cells=True, sampling=True, uncertainty=True, bound=True
    )

    likelihood: Literal["gaussian"] | CountKind
    spectral: Literal["free", "mixture", "moment"]
    spectral_: SpectralDensity

    _decoder: FeatureDecoder
    # The fit that this one goes on from, while it is fitted.
    _before: SRFLVM | None = None

    def __init__(
        self,
        *,
        n_components: Components = None,
        likelihood: Annotated[
            Literal["gaussian", "bernoulli", "binomial", "negative_binomial", "poisson"],
            Doc(
                "What the columns hold: numbers (gaussian), 0 and 1 (bernoulli), counts out of so "
                "many trials (binomial), or counts without a limit, that scatter more than by "
                "chance (negative_binomial) or just so (poisson)."
            ),
        ] = "gaussian",
        n_features: Annotated[
            int,
            Range(4, 2000),
            Doc("Sines and cosines that make up a column: more follow finer detail.", "features"),
        ] = 100,
        max_iter: MaxIter = 500,
        n_mixture: Annotated[
            int,
            Range(2, 100),
            Doc("Most Gaussians in the mixture that the kernel's spectrum is.", "mixture"),
            Advanced(),
        ] = 10,
        spectral: Annotated[
            Literal["free", "mixture", "moment"],
            Doc(
                "Each spectral point with a Gaussian of its own (free), drawn from the mixture, or "
                "from one Gaussian with the mixture's moments."
            ),
            Advanced(),
        ] = "free",
        spectral_noise: Annotated[
            Literal["auto", "frozen", "fresh"],
            Doc(
                "Whether every step uses the same draws from the mixture (frozen, as auto does) or "
                "new ones; a free spectrum is drawn anew whatever is said here.",
                "draws of the spectrum",
            ),
            Advanced(),
        ] = "auto",
        covariance: Annotated[
            Literal["diagonal", "full"],
            Doc(
                "Whether a row's uncertainty may be tilted against the map's axes while it is "
                "fitted (full); what is kept of it is its size along each axis."
            ),
            Advanced(),
        ] = "diagonal",
        n_trials: Annotated[
            int | None,
            Range(1, 10**9),
            Doc("Trials of the binomial; auto is each column's largest count.", "trials"),
            Advanced(),
        ] = None,
        scaling: Annotated[
            Literal["auto", "column", "shared"],
            Doc(
                "Each column in units of its own spread, or all by one scale, as for pixels; auto "
                "takes one scale for many columns of much the same spread.",
                "scale of the columns",
            ),
            Advanced(),
        ] = "auto",
        noise: Noise = "shared",
        batch_size: Annotated[
            int | None,
            Range(10, 100_000),
            Doc(
                "Rows looked at in one step, for complete tables of numbers with one noise and a "
                f"diagonal covariance; auto takes all, or {BATCH:,} of more than {MOST_AT_ONCE:,}.",
                "rows a step",
            ),
            Advanced(),
        ] = None,
        learning_rate: LearningRate = 0.05,
        start: Start = "pca",
        n_restarts: Restarts = 1,
        device: Device = "auto",
        dtype: Dtype = "float64",
        random_state: Seed = 0,
    ) -> None:
        self.n_components = n_components
        self.likelihood = likelihood
        self.n_features = n_features
        self.max_iter = max_iter
        self.n_mixture = n_mixture
        self.spectral = spectral
        self.spectral_noise = spectral_noise
        self.covariance = covariance
        self.n_trials = n_trials
        self.scaling = scaling
        self.noise = noise
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.start = start
        self.n_restarts = n_restarts
        self.device = device
        self.dtype = dtype
        self.random_state = random_state

    @classmethod
    def advise(
        cls, *, n_rows: int, n_columns: int, n_classes: int = 0, cells: Cells = "any"
    ) -> dict[str, Advised]:
        """The likelihood that the cells ask for; for counts fewer features and more steps.

        A table of counts has a precision for each cell, so its steps cost N × D × R² where those of
        numbers cost N × R (R + D).
        """
        del n_classes
        found = advised_likelihood(cells)
        if found:
            reason = f"each of {n_rows * n_columns:,} cells weighs by itself, which takes time"
            found["n_features"] = Advised(50, f"{reason} with the square of the features")
        if cells == "counts":
            why = "after 500 steps the bound of a table of counts often still rises"
            found["max_iter"] = Advised(STEPS_OF_COUNTS, why)
        if found and n_rows * n_columns > MANY_COUNTS:
            found["dtype"] = Advised("float32", f"{reason}, half of it in single precision")
        elif found and n_rows > LONG_TABLE:
            found["max_iter"] = advised_steps(n_rows)
        elif PASSES * n_rows > 500 * BATCH:
            steps = min(MOST_STEPS, PASSES * n_rows // BATCH)
            seen = f"a step sees {BATCH:,} of {n_rows:,} rows, if they are complete"
            why = f"{seen}, and each is to be seen {PASSES} times"
            found["max_iter"] = Advised(steps, why)
        return found

    # ---- checks --------------------------------------------------------------------------------

    def _scaling(self, measured: Standardiser) -> Standardiser:
        if self.likelihood != "gaussian":
            return measured.unscaled()
        return measured.shared() if self._shares_a_scale(measured) else measured

    def _shares_a_scale(self, measured: Standardiser) -> bool:
        """Whether the columns are divided by one number, as they seem to be of one unit."""
        if self.scaling != "auto":
            return self.scaling == "shared"
        sd = measured.scale[~measured.constant]
        return len(sd) > WIDE_TABLE and bool(sd.max() < MOST_SPREAD * np.median(sd))

    def _check_values(self, data: NDArray[Any]) -> None:
        if self.likelihood == "gaussian":
            return
        check = check_binary if self.likelihood == "bernoulli" else check_counts
        check(data, self._column_names(), f"Likelihood {self.likelihood}")

    def _decide_components(self, shape: tuple[int, ...]) -> int:
        """Two dimensions where nothing else was said."""
        given = is_array(self.start) and np.ndim(self.start) == 2
        if self.n_components is None and not given:
            return min(2, super()._decide_components(shape))
        return super()._decide_components(shape)

    # ---- fitting -------------------------------------------------------------------------------

    def _start_problem(self, problem: FitProblem) -> FitProblem:
        """Counts start from log(1 + count), standardised."""
        if self.likelihood == "gaussian":
            return problem
        Y, observed = problem.Y, problem.observed
        Y = Y if self.likelihood == "bernoulli" else torch.log1p(Y)
        known = torch.ones_like(Y) if observed is None else observed.to(Y)
        Y = Y - (Y * known).sum(0) / known.sum(0)
        sd = ((Y.square() * known).sum(0) / known.sum(0)).sqrt().clamp_min(1e-12)
        return replace(problem, table=InMemoryRows(Y / sd * known, observed))

    def ensemble(self, X: ArrayLike, n_fits: int = 8, *, max_iter: int = 150) -> list[SRFLVM]:
        """This fit and others that go on from it, one from the other, with kernels drawn anew.

        Each begins on the map of the one before it, its spectral points drawn from the mixture that
        was learned. q(W) stays narrow around one of the many spectra that explain the rows;
        p(y) = (1/M) Σ_m p(y | fit m) stands for their posterior better than the density of one fit,
        and in a part of the steps of as many fits. The maps differ: densities of rows may be
        averaged over the fits, places may not.

        Args:
            X: the rows of this fit, in their order, [N, D].
            n_fits: how many in all, at least 1.
            max_iter: steps of each of the others.

        Returns:
            The fits, this one first.

        Raises:
            ConfigError: ``spectral`` is not "free": nothing is drawn anew; or no fit is asked for.
            DataError: not as many rows or columns as in this fit.
        """
        check_is_fitted(self)
        if self.spectral != "free":
            raise ConfigError(
                f"spectral={self.spectral!r} cannot be used: further fits draw a free spectrum "
                "anew. Fit with spectral='free'."
            )
        if n_fits < 1:
            raise ConfigError(f"n_fits={n_fits!r} cannot be used: expected 1 or more.")
        rows, fitted = len(self._check_rows(X, reset=False)), len(self.embedding_.mean)
        if rows != fitted:
            raise DataError(f"X has {rows:,} rows: expected the {fitted:,} of this fit.")
        fits: list[SRFLVM] = [self]
        for seed in derived_seeds(random_seed(self.random_state), n_fits)[1:]:
            further = clone(self).set_params(random_state=seed, max_iter=max_iter, n_restarts=1)
            further._before = fits[-1]
            try:
                fits.append(further.fit(X))
            finally:
                further._before = None
        return fits

    def _fit(self, problem: FitProblem) -> FitOutcome:
        if self._before is None:
            return fit_from_starts(self, problem, self._start_problem(problem))
        self.restarts_ = None
        return self._fit_start(problem, self._before._fitted_rows()[0].to(problem.table.like))

    def _fit_start(self, problem: FitProblem, X: Tensor) -> FitOutcome:
        self._interval_scale = None
        rows = (FullRows if self.covariance == "full" else LatentRows)(X, START_VARIANCE)
        spectrum, columns = self._spectrum(problem), self._columns(problem)
        fit = self._objective(rows, spectrum, columns, problem)
        whole, part = fit.batch_share
        schedule = Schedule.for_batches(
            self.max_iter, self.learning_rate, fit.columns.count, n_rows=whole, size=part
        )
        if self._before is not None:
            assert isinstance(spectrum, SampledSpectrum)
            spectrum.resample_spectrum(self._before.spectral_)
            columns.warm_start_from(self._before._decoder, rows.mean.detach())
            rows.log_variance.data.copy_(self._before._fitted_rows()[1].log())
            schedule = replace(schedule, hold=0)
        if fit.columns.at_a_time < fit.columns.Y.shape[1]:  # some columns lie far below others
            schedule = replace(schedule, collapse=FARTHEST_BELOW)
        draws = FINAL_DRAWS if part == whole else FINAL_DRAWS // 4
        outcome = train(fit, schedule, problem.callback, draws=draws, checkpoint=problem.checkpoint)
        if isinstance(spectrum, MixtureSpectrum) and spectrum.frozen:
            outcome = replace(outcome, objective=fit.fresh_bound(draws))
        self._decoder = fit.decoder()
        self.embedding_ = rows.posterior()
        self.relevance_ = {"data": to_numpy(fit.spectral_relevance)}
        self.inducing_inputs_ = {}
        self.spectral_ = spectrum.density()
        if self.likelihood == "gaussian":
            steps = len(outcome.history)
            go_on = partial(self._go_on, fit)
            self._calibrate(problem, outcome, lambda g: scale_by_steps(problem, g, steps, go_on))
        return outcome

    def _objective(
        self, rows: LatentRows, spectrum: Spectrum, columns: ColumnTerm, problem: FitProblem
    ) -> RandomFeatureObjective:
        N, generator = len(rows.mean), problem.generator
        size = max(self.batch_size or BATCH, ROWS_PER_FEATURE * self.n_features)
        if size >= N or (self.batch_size is None and N <= MOST_AT_ONCE):
            return RandomFeatureObjective(rows, spectrum, columns, generator)
        plain = self.noise == "shared" and self.covariance == "diagonal"
        if plain and isinstance(columns, GaussianTerm) and columns.observed is None:
            return MinibatchRandomFeatureObjective(rows, spectrum, columns, generator, size)
        self._note(
            f"Each step takes all {N:,} rows: only complete tables of numbers, with one noise for "
            "all columns and a diagonal covariance, go some rows at a time."
        )
        return RandomFeatureObjective(rows, spectrum, columns, generator)

    def _spectrum(self, problem: FitProblem) -> Spectrum:
        L, like = self.n_features // 2, problem.table.like
        K = min(self.n_mixture, L)
        if self.spectral == "free":
            return SampledSpectrum(L, problem.n_components, K, like, problem.generator)
        return MixtureSpectrum(
            self.spectral,
            self.spectral_noise != "fresh",
            L,
            problem.n_components,
            K,
            like,
            problem.generator,
        )

    def _columns(self, problem: FitProblem) -> ColumnTerm:
        if self.likelihood == "gaussian":
            return GaussianTerm(problem, n_features=self.n_features, shared=self.noise == "shared")
        if self.likelihood == "poisson":
            return PoissonTerm(problem, self.n_features)
        if self.likelihood == "negative_binomial" and _mean(problem) > LARGE_COUNTS:
            return LargeCountTerm(problem, self.n_features)
        if self.likelihood != "binomial":
            return LogisticTerm(problem, self.n_features, self.likelihood)
        most = problem.Y.amax(0)
        if self.n_trials is None:
            return LogisticTerm(problem, self.n_features, "binomial", most)
        if self.n_trials < float(most.max()):
            column = int(most.argmax())
            raise ConfigError(
                f"n_trials={self.n_trials} cannot be used: column {self._name_of(column)} holds a "
                f"count of {float(most.max()):g}. Choose at least that."
            )
        return LogisticTerm(
            problem, self.n_features, "binomial", torch.full_like(most, float(self.n_trials))
        )

    def _go_on(self, fit: RandomFeatureObjective, fewer: FitProblem, steps: int) -> ConditionedRows:
        """The fit gone on with fewer cells, for some steps."""
        columns = GaussianTerm(fewer, n_features=self.n_features, shared=self.noise == "shared")
        columns.load_state_dict(fit.columns.state_dict())
        assert isinstance(fit.columns, GaussianTerm)
        columns.fill_from(fit.columns)
        spectrum = deepcopy(fit.spectrum)
        on = RandomFeatureObjective(deepcopy(fit.rows), spectrum, columns, fewer.generator)
        train(on, Schedule.cooling_only(steps, self.learning_rate, columns.count), None)
        mean, variance = on.rows.mean.detach(), on.rows.variance.detach()
        return ConditionedRows(on.decoder(), mean.double(), variance.double())

    # ---- what was learned ----------------------------------------------------------------------

    @property
    def dispersion_(self) -> NDArray[np.float64]:
        """r of the columns that vary, variance = mean + mean²/r, [D]."""
        if self.likelihood != "negative_binomial" or not isinstance(
            self._decoder, CountFeatureDecoder
        ):
            raise AttributeError("Only the negative binomial has a dispersion.")
        return to_numpy(self._decoder.family.size)

    def latent_kernel(self, distances: ArrayLike) -> NDArray[np.float64]:
        """The learned kernel along each latent dimension, 1 at distance 0.

        k(δ e_q)/k(0) = (2/R) Σ_l cos(w_lq δ).

        Args:
            distances: δ, [n].

        Returns:
            [Q, n].
        """
        check_is_fitted(self)
        angle = self.spectral_.points.T[:, None, :] * np.ravel(distances)[:, None]
        return np.asarray(np.cos(angle).mean(axis=2))

    # ---- rows and places: in double precision, or the optima drown in rounding ------------------

    def _fitted_rows(self) -> tuple[Tensor, Tensor]:
        """Those of the fit, or some of very many, from which rows to be placed start."""
        mean, variance = super()._fitted_rows()
        if len(mean) > MOST_AT_ONCE:
            some = thinned(len(mean))
            mean, variance = mean[some], variance[some]
        return mean.double(), variance.double()

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        self._check_trials(Y)
        return super()._posterior(Y.double())

    def _impute(self, Y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self._check_trials(Y)
        return super()._impute(Y.double())

    def _check_trials(self, Y: Tensor) -> None:
        """Refuse counts of new rows that are more than their trials."""
        if self.likelihood != "binomial" or not isinstance(self._decoder, CountFeatureDecoder):
            return
        trials = self._decoder.family.size
        over = (trials < Y).any(0)
        if bool(over.any()):
            column = int(over.nonzero()[0])
            raise DataError(
                f"A count of {float(Y[:, column].nan_to_num(0).max()):g} in column "
                f"{self._name_of(column)} is more than the {float(trials[column]):g} trials that "
                "the model was fitted with. Leave such rows out, or fit with n_trials set."
            )

    def _name_of(self, column: int) -> str:
        """A column that varies, by its name."""
        return str(np.array(self._column_names())[~self._standardiser.constant][column])

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return super()._decode(X.double())

    def _prior_variance_share(self, X: Tensor) -> Tensor:
        return super()._prior_variance_share(X.double())

    def _log_density(self, Y: Tensor) -> Tensor:
        return super()._log_density(Y.double())

    def _metric(self, X: Tensor) -> Tensor:
        scale = self._decoder.weights.share.new_ones(())
        if self._measured is not self._standardiser:
            varying = ~self._measured.constant
            ratio = (self._measured.scale / self._standardiser.scale)[varying]
            scale = self._to_tensor(ratio).to(scale)
        shape = self._decoder.weights.share
        return self._decoder.metric(X.double(), scale.expand_as(shape))

    def _sample_rows(self, latent: NDArray[np.float64], rng: np.random.Generator) -> Any:
        with torch.no_grad():
            drawn = self._decoder.sample(self._to_tensor(latent).double(), rng)
        return self._standardiser.inverse_transform(drawn)

    # ---- storage -------------------------------------------------------------------------------

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        parts = ("points", "weights", "means", "covariances", "shares")
        density = {f"spectral.{name}": getattr(self.spectral_, name) for name in parts}
        return {**arrays, **density}, facts

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._set_state(arrays, facts)
        if self._interval_scale is not None:
            self._interval_scale = self._interval_scale.double()
        self.spectral_ = SpectralDensity(**persistence.with_prefix(arrays, "spectral."))

    def _read_decoder(self, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> FeatureDecoder:
        if self.likelihood == "gaussian":
            return GaussianFeatureDecoder.from_arrays(arrays, like.double())
        return CountFeatureDecoder.from_arrays(arrays, like.double(), self.likelihood)


def _mean(problem: FitProblem) -> float:
    """Mean of the observed cells."""
    Y, observed = problem.Y, problem.observed
    return float(Y.mean() if observed is None else Y.sum() / observed.sum())
