"""Sparse variational Gaussian processes (SVGP), regression and classification."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, ClassVar, cast, get_args

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.capabilities import Capabilities
from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.predictor import (
    FitMethod,
    FittedFunction,
    Predictor,
    SupervisedFitProblem,
)
from lvmcore.base.regressor_classifier import Classifier, Regressor
from lvmcore.base.settings import BatchSize, BatchSizeOrAuto, LearningRate, MaxIter
from lvmcore.base.table_size import TableSize
from lvmcore.deep.dsvi import InducedDeepGP
from lvmcore.deep.fit_method import DeepGPOptions, InducedMethod
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.objective import CollapsedObjective, DeepGPObjective
from lvmcore.deep.rows.sharded_objective import (
    ShardedSVGPObjective,
    check_shards_of_batches,
    rows_in_shards,
)
from lvmcore.deep.settings import (
    InducingCountOrAuto,
    Kernel,
    KernelOrChosen,
    Validation,
)
from lvmcore.deep.warm_start import exact_process
from lvmcore.errors import NumericalError
from lvmcore.gp.exact_method import ExactGPMethod
from lvmcore.gp.exact_regression import ExactGP, choose_kernel, direct_schedule, distinct_rows
from lvmcore.gp.inducing_points import inducing_count
from lvmcore.gp.sparse.given_posterior import GivenSparseGP
from lvmcore.kernels.components import StationaryComponent
from lvmcore.kernels.definition import KernelDefinition
from lvmcore.kernels.expression import KernelExpression
from lvmcore.kernels.stationary import StationaryName
from lvmcore.parameters import Advised
from lvmcore.training.outcome import FitOutcome
from lvmcore.training.schedule import Schedule

# Inducing inputs for up to so many rows, and at most in steps that do not use all rows.
SPARSE = 200
INDUCING = ((2000, 2000), (10_000, SPARSE), (sys.maxsize, 100))
# Multiples of the noise of the exact process from which the sparse one starts.
NOISE_FACTORS = tuple(4.0**k for k in range(9))
_CAPABILITIES = Capabilities(decoding=False, bound=True, gpu=True, shards=True)
# Rows up to which a step uses all of them, and rows of a mini-batch.
WHOLE_ROWS, BATCH_ROWS = 10_000, 2000


@dataclass(frozen=True)
class _SparseMethod(InducedMethod):
    """Fit by mini-batches, whose rows may be in shards."""

    def objective(
        self,
        gp: InducedDeepGP,
        X: Tensor,
        Y: Tensor,
        options: DeepGPOptions,
        generator: torch.Generator,
    ) -> DeepGPObjective:
        """See ``DeepGPMethod``."""
        if not rows_in_shards(X):
            return super().objective(gp, X, Y, options, generator)
        return ShardedSVGPObjective(gp, X, Y, batch_size=options.batch_size, generator=generator)


@dataclass(frozen=True)
class _RegressionMethod(_SparseMethod):
    """Fit of the collapsed bound by a quasi-Newton method, from an exact process on some rows."""

    def advise(self, size: TableSize) -> dict[str, Advised]:
        """Inducing points by the rows, and all rows in a step unless there are very many.

        Up to 2000 rows one at every row: the exact process takes seconds, and on kin8nm predicts
        better than 200 inducing points, by 0.13 nats a row.
        """
        N = size.n_rows
        M = next(M for most, M in INDUCING if most >= N)
        return {
            "n_inducing": Advised(max(2, min(M, N))),
            "batch_size": Advised(max(1, N if N <= WHOLE_ROWS else BATCH_ROWS)),
        }

    def fit(self, model: Predictor, problem: SupervisedFitProblem) -> FitOutcome:
        """Fit; with an inducing input at every row the model is the exact process."""
        options = DeepGPOptions.from_settings(model.settings_, model._standardiser)
        given = model.get_params(deep=False)["n_inducing"]
        if not _is_direct(options, len(problem.X)):
            if given is None:  # Adam takes many steps, each of M³ operations
                model.settings_["n_inducing"] = min(SPARSE, options.n_inducing)
            return super().fit(model, problem)
        check_shards_of_batches(options.batch_size, len(problem.X))
        rows = len(torch.unique(problem.X, dim=0))
        # The matrix of all rows is factorised in double precision alone.
        if options.n_inducing >= rows and problem.X.dtype == torch.float64:
            if given is not None:
                inducing_count(options.n_inducing, rows, model._note)
            return ExactGPMethod().fit(model, problem)
        return super().fit(model, problem)

    def restore(  # type: ignore[override] # or the exact process
        self, model: Predictor, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]
    ) -> FittedFunction:
        """The function of a sparse or of an exact process, from its state."""
        if "given" in facts:  # translated from another library
            return GivenSparseGP.restore(model, arrays, facts)
        exact = "inducing" not in facts
        method: FitMethod = ExactGPMethod() if exact else InducedMethod(self.each_draw)
        return method.restore(model, arrays, facts)

    def initial(
        self,
        X: Tensor,
        Y: Tensor,
        likelihood: GaussianNoise | SoftmaxClasses,
        options: DeepGPOptions,
        generator: torch.Generator,
    ) -> InducedDeepGP:
        """Inducing inputs at centroids; kernel and noise of an exact process on 1000 rows.

        Where a step uses all rows, see ``_best_start``.
        """
        if options.definition is not None:
            single = exact_process(options.definition, X.double(), Y.double(), options.max_iter)
            blank = ExactGP(options.definition.made(X), X)
        else:
            single = _stationary_process(X.double(), Y.double(), options)
            name = cast(StationaryName, str(single.kernel.expression))
            options = replace(options, kernel=name)
            blank = ExactGP.stationary(X.shape[1], name, X)
        gp = super().initial(X, Y, likelihood, options, generator).to(X)
        if _is_direct(options, len(X)):
            fit = self.objective(gp, X, Y, options, torch.Generator().manual_seed(0))
            _best_start(gp, fit, single, blank)
        else:
            _copy_exact(single, gp)
        return gp

    def with_kernel(
        self, expression: KernelExpression, options: DeepGPOptions, X: Tensor, Y: Tensor
    ) -> DeepGPOptions:
        """Without a start: ``initial`` chooses it."""
        del X, Y
        definition = KernelDefinition.of_columns(expression, options.standardiser)
        return replace(options, definition=definition)

    def objective(
        self,
        gp: InducedDeepGP,
        X: Tensor,
        Y: Tensor,
        options: DeepGPOptions,
        generator: torch.Generator,
    ) -> DeepGPObjective:
        """The collapsed bound where a step uses all rows and the fit does not stop early."""
        if not _is_direct(options, len(X)):
            return super().objective(gp, X, Y, options, generator)
        return CollapsedObjective(
            gp, X, Y, n_samples=1, batch_size=options.batch_size, generator=generator
        )

    def schedule(self, fit: DeepGPObjective, options: DeepGPOptions) -> Schedule:
        """Quasi-Newton steps of the collapsed bound, else those of Adam."""
        if isinstance(fit, CollapsedObjective):
            return direct_schedule(options.max_iter, len(fit.Y))
        return super().schedule(fit, options)


def _is_direct(options: DeepGPOptions, n_rows: int) -> bool:
    return options.batch_size >= n_rows and not options.given["validation"]


def _stationary_process(X: Tensor, Y: Tensor, options: DeepGPOptions) -> ExactGP:
    """The exact process of the stationary kernel that is given or, of all of them, the best."""
    rows = distinct_rows(X, Y)
    names: tuple[StationaryName, ...] = (
        get_args(StationaryName) if options.given["kernel"] == "auto" else (options.kernel,)
    )
    starts = [ExactGP.stationary(X.shape[1], one, X).kernel for one in names]
    return choose_kernel(X[rows], Y[rows], starts, options.max_iter)


@torch.no_grad()
def _copy_exact(single: ExactGP, gp: InducedDeepGP) -> None:
    """Copy kernel and noise of an exact process."""
    assert isinstance(gp.last.likelihood, GaussianNoise)
    if gp.last.composite is not None:
        gp.last.composite.load_state_dict(single.kernel.state_dict())
    else:
        component = single.kernel.only_component
        assert isinstance(component, StationaryComponent)
        gp.last.log_lengthscales.copy_(component.log_lengthscales)
        gp.last.log_variance.copy_(single.kernel.summands[0].log_variance)
    gp.last.likelihood.log_noise.copy_(single.log_noise)
    gp.pretrained = True


@torch.no_grad()
def _best_start(gp: InducedDeepGP, fit: DeepGPObjective, *singles: ExactGP) -> None:
    """Set kernel and noise to those of the highest bound: of each process, its noise raised or not.

    Few inducing inputs leave some of f unexplained, and from the noise of the exact process the
    first steps would explain the target as noise alone. So would they from the kernel of an exact
    process that tells the values of a column apart, with a lengthscale below their distance: no
    centroid is near any row then.

    Args:
        gp: the model, which is set.
        fit: its objective.
        singles: the exact process, and a further one with the initial kernel.
    """
    likelihood = gp.last.likelihood
    assert isinstance(likelihood, GaussianNoise)
    starts: list[tuple[float, ExactGP, Tensor]] = []
    for single in singles:
        _copy_exact(single, gp)
        for factor in NOISE_FACTORS:
            noise = single.log_noise + math.log(factor)
            likelihood.log_noise.copy_(noise)
            with suppress(NumericalError):
                bound = float(torch.stack(list(fit.terms().values())).sum())
                starts.append((bound, single, noise))
    if starts:  # else the first step reports why the bound cannot be computed
        _, single, noise = max(starts, key=itemgetter(0))
        _copy_exact(single, gp)
        likelihood.log_noise.copy_(noise)


@estimator_dataclass
class SVGPRegressor(Regressor):
    """Sparse Gaussian process regression (Hensman and others 2013; Titsias 2009).

    f ~ GP(0, k), y_n = f(x_n) + N(0, σ²), and at M inducing inputs Z q(f(Z)) = N(C m, C V Cᵀ),
    CCᵀ = K(Z):

    ELBO = Σ_n E log N(y_n | f(x_n), σ²) − KL(N(m, V) ‖ N(0, I)).

    k is v κ(d), d² = Σ_h (x_h − x'_h)²/ℓ_h², or any sum or product of kernels as of
    ``GPRegressor``. k and σ² start at those of the exact process on at most 1000 rows;
    ``kernel="auto"`` takes the RBF or Matérn correlation κ of its highest marginal likelihood.
    Where a step uses all rows, q is its optimum and a quasi-Newton method maximises the bound over
    Z, the kernel and the noise. With as many inducing inputs as different rows the model is the
    exact process, ``GPRegressor``. With mini-batches, or with ``validation``, q follows by natural
    gradients and the rest by Adam; q is optimal for all rows at the end.

    Attributes:
        relevance_: ``layer1`` holds α = 1/ℓ² of the columns that vary, [H].
        n_parameters_: number of optimised parameters; q of the last layer is not among them.
    """

    key: ClassVar[str] = "svgp_regressor"
    title: ClassVar[str] = "Sparse GP (SVGP)"
    summary: ClassVar[str] = "One Gaussian process to a number: quick and smooth."
    paper: ClassVar[str] = "Hensman et al. 2013"
    order: ClassVar[int] = 110

    capabilities: ClassVar[Capabilities] = _CAPABILITIES

    method: ClassVar[FitMethod] = _RegressionMethod()
    earlier_settings: ClassVar[Mapping[str, Any]] = {"kernel": "rbf"}

    n_inducing: InducingCountOrAuto = None
    kernel: KernelOrChosen = "auto"
    max_iter: MaxIter = 1000
    learning_rate: LearningRate = 0.04
    batch_size: BatchSizeOrAuto = None
    validation: Validation = 0.0


@estimator_dataclass
class SVGPClassifier(Classifier):
    """Sparse Gaussian process classification (Hensman and others 2015).

    As ``SVGPRegressor``, with one function per class and P(class c | f) = softmax(f)_c; two classes
    have one function and P = Φ(f). The kernel, by default the RBF, serves all functions; one that
    is not stationary starts at that of the exact process to the signs of the classes. q is updated
    by natural gradients with the likelihood's slope and curvature, and is optimal for all rows at
    the end.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``layer1`` holds α = 1/ℓ² of the columns that vary, [H].
        n_parameters_: number of optimised parameters; q of the last layer is not among them.
    """

    key: ClassVar[str] = "svgp_classifier"
    title: ClassVar[str] = "Sparse GP (SVGP)"
    summary: ClassVar[str] = "One Gaussian process a class: quick and smooth."
    paper: ClassVar[str] = "Hensman et al. 2015"
    order: ClassVar[int] = 111

    capabilities: ClassVar[Capabilities] = _CAPABILITIES

    method: ClassVar[FitMethod] = _SparseMethod()

    n_inducing: InducingCountOrAuto = None
    kernel: Kernel = "rbf"
    max_iter: MaxIter = 1000
    learning_rate: LearningRate = 0.04
    batch_size: BatchSize = 2000
    validation: Validation = 0.0
