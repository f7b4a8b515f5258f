"""Exact Gaussian process regression and classification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.predictor import FitMethod
from lvmcore.base.regressor_classifier import Classifier, Regressor
from lvmcore.base.settings import DoubleDtype, KernelOrAuto, MaxIter
from lvmcore.base.validation import check_cells, read_rows
from lvmcore.errors import ConfigError, DataError
from lvmcore.gp.classification.dirichlet_method import DirichletMethod, FittedDirichletGP
from lvmcore.gp.exact.fitted_gp import FittedExactGP
from lvmcore.gp.exact_method import ExactGPMethod
from lvmcore.gp.structure.decomposition import (
    ComponentSummary,
    Decomposition,
    component_summaries,
    decompose,
)
from lvmcore.gp.structure.kernel_sentence import kernel_sentence
from lvmcore.kernels.catalogue import read_kernel
from lvmcore.kernels.expression import kernel_terms
from lvmcore.parameters import Advanced, Doc, Range, Syntax
from lvmcore.preprocessing.noise_column import (
    check_noise_sds,
    noise_column_place,
    with_noise_column,
    without_noise_column,
)
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.preprocessing.target_transform import TargetTransform

__all__ = ["GPClassifier", "GPRegressor"]

TargetTransformSetting = Annotated[
    Literal["auto", "none", "log", "yeo-johnson"],
    Doc(
        "Monotone transform of the target: auto takes that of the highest marginal likelihood; log "
        "needs numbers above 0.",
        "transform of the target",
    ),
]

NoiseColumn = Annotated[
    str,
    Doc(
        "Column with the standard deviation of each row's error, in units of the target; it is "
        "then no feature. Empty for none.",
        "column of known noise",
    ),
    Advanced(),
]


Priors = Annotated[
    str,
    Syntax("lvmcore.kernels.hyperpriors:check_priors", "lengthscale: log_normal(0, 1)"),
    Doc(
        "Priors of lengthscale, period, sd and noise, such as period(month): normal(12, 1), noise: "
        "half_cauchy(0.1). Empty for none.",
        "priors of the kernel",
    ),
    Advanced(),
]


ParameterUncertainty = Annotated[
    bool,
    Doc(
        "Include the uncertainty of the kernel's parameters in sds and intervals, in tables of up "
        "to about 1000 rows.",
        "uncertainty of the parameters",
    ),
    Advanced(),
]


@estimator_dataclass
class GPRegressor(Regressor):
    """Gaussian process regression on all rows (Rasmussen and Williams 2006).

    f ~ GP(0, k), y_n = f(x_n) + N(0, σ²). The parameters of k and σ² maximise the marginal
    likelihood

    log p(y | X) = log N(y | 0, K + σ²I)

    by the limited-memory quasi-Newton method, and a prediction conditions on all rows. A step costs
    N³ operations.

    Of more than 5000 rows (at most 30,000) 3000 that are drawn at random give the parameters. All
    rows are then solved for by conjugate gradients with a pivoted Cholesky preconditioner (Gardner
    and others 2018), without the matrix in memory: the mean is that of all rows, to a relative
    residual of 1e-6. The variance is that of a partially independent conditional: 500 inducing
    inputs for all rows, and the 48 nearest rows exactly, raised to a power that makes it agree with
    the exact one at 24 rows, each given the others (``lvmcore.gp.conjugate_gradients``).

    ``kernel="auto"`` starts from v κ(d), d² = Σ_h (x_h − x'_h)²/ℓ_h², κ the RBF or the Matérn
    correlation with the highest marginal likelihood, of at most 1000 rows, and adds summands and
    factors while they gain in the Bayesian information criterion: linear and periodic ones of a
    series, linear ones of other tables (``lvmcore.gp.structure.search``). Any sum or product of the
    kernels of ``lvmcore.kernels.catalogue`` can be given as text, each of some columns or of all,
    such as ``"linear + periodic(month) * rbf(month)"``. Each summand has a variance. A period is in
    the unit of its column; one that is not given is fitted, from several likely ones.

    ``target_transform`` models z = t(y) in place of y, t increasing: the logarithm or a Yeo-Johnson
    transform, whose exponent is estimated (a warped Gaussian process, Snelson and others 2004).
    "auto" takes the one of the highest log p(y | X), which has the Jacobian Σ_n log t'(y_n), where
    it gains two nats, and half the logarithm of N for an exponent. Predictions are in the target's
    own units: quantiles are those of z mapped back, and the mean is that of y.

    ``noise_sd`` names a column with the known standard deviation s_n of each row's error, in units
    of the target: y_n = f(x_n) + N(0, s_n² + σ²), σ² fitted beside it. The column is no feature,
    and the target has no transform. A new row has its own s_n in the prediction; where the column
    is missing, or not in the table, that of f(x_n) + N(0, σ²).

    ``priors`` gives lengthscales, periods, the sds of summands and the noise priors, whose log
    density is added to log p(y | X): the parameters are those of the highest posterior density
    (``lvmcore.kernels.hyperpriors``). The search of structures compares marginal likelihoods
    without them.

    ``parameter_uncertainty`` adds the uncertainty of the parameters to the variances: along each
    eigenvector of the Hessian of log p(y | X) the posterior of the parameters is integrated by
    three points (``lvmcore.gp.exact.hyperparameter_posterior``). Means stay those at the optimum.
    With P parameters a prediction holds 2P factors of N² numbers; where these are more than 4e7 the
    parameters count as known.

    Rows with equal columns and target count once where equal columns always have equal targets, as
    the copies would put σ² to 0.

    Attributes:
        kernel_: the kernel of the fit.
        components_: the summands of the kernel and the noise: the share of the target's variance
            that each explains, and its parameters in the units of the table.
        relevance_: ``layer1`` holds α of the columns that vary, [H]: 1/ℓ² of a stationary kernel,
            the sum over the factors of a product, and the mean over the summands of a sum,
            weighted by their variances.
        n_parameters_: number of optimised parameters.
        elbo_: log p(y | X), nats, the target standardised, with the Jacobian of a transform and
            the log density of priors; no bound below it but itself. Above 5000 rows an estimate
            for all rows by stochastic Lanczos quadrature, while ``history_`` is that of 3000.
    """

    key: ClassVar[str] = "gp_regressor"
    title: ClassVar[str] = "Gaussian process (exact)"
    summary: ClassVar[str] = (
        "One Gaussian process to a number, on all rows without approximation: the first choice for "
        "up to 2000 rows."
    )
    paper: ClassVar[str] = "Rasmussen and Williams 2006"
    order: ClassVar[int] = 105
    most_rows: ClassVar[int | None] = 30_000

    method: ClassVar[FitMethod] = ExactGPMethod(searches=True)
    earlier_settings: ClassVar[Mapping[str, Any]] = {
        "target_transform": "none",
        "parameter_uncertainty": False,
    }

    _function: FittedExactGP = fitted()

    kernel: KernelOrAuto = "auto"
    target_transform: TargetTransformSetting = "auto"
    noise_sd: NoiseColumn = ""
    priors: Priors = ""
    parameter_uncertainty: ParameterUncertainty = True
    max_iter: MaxIter = 200
    dtype: DoubleDtype = "float64"

    # ---- known noise ---------------------------------------------------------------------------

    def _check_rows(self, X: ArrayLike, *, reset: bool) -> NDArray[Any]:
        name = self.noise_sd if reset else self.settings_["noise_sd"]
        if not name:
            return super()._check_rows(X, reset=reset)
        if not reset:
            X = with_noise_column(X, name, self._column_names())
        data = np.array(read_rows(self, X, reset=reset))
        columns = self._column_names()
        place = noise_column_place(name, columns)
        sds = data[:, place].copy()
        check_noise_sds(sds, name, missing_allowed=not reset)
        data[:, place] = 0.0
        check_cells(data, columns, type(self).__name__, missing_allowed=False)
        data[:, place] = sds
        if reset:
            self._check_noise_settings()
        return data

    def _check_noise_settings(self) -> None:
        """Check the other settings beside a column of known noise."""
        if self.target_transform not in ("auto", "none"):
            raise ConfigError(
                f"target_transform={self.target_transform!r} cannot be used with noise_sd: known "
                "errors are those of the target itself. Choose none."
            )
        if self.kernel != "auto":
            named = {
                name for term in kernel_terms(read_kernel(self.kernel)) for name in term.columns
            }
            if self.noise_sd in named:
                raise ConfigError(
                    f"The kernel {self.kernel!r} names the column {self.noise_sd!r}, which holds "
                    "the noise and is no feature: leave it out of the kernel."
                )

    def _scaling(self, measured: Standardiser) -> Standardiser:
        name = self.settings_["noise_sd"]
        return without_noise_column(measured, name) if name else measured

    @property
    def optional_columns_(self) -> tuple[str, ...]:
        """The column of known noise, if there is one."""
        check_is_fitted(self)
        name = self.settings_["noise_sd"]
        return (name,) if name else ()

    @property
    def standardiser_(self) -> Standardiser:
        """Means and sds of the columns of the fit; a column of known noise is set aside."""
        check_is_fitted(self)
        return self._standardiser

    def _inputs(self, data: NDArray[Any]) -> Tensor:
        """Standardised rows; with known noise, its sd as the last column, 0 where it is missing."""
        rows = super()._inputs(data)
        name = self.settings_["noise_sd"]
        if not name:
            return rows
        sds = np.nan_to_num(data[:, noise_column_place(name, self._column_names())])
        return torch.cat([rows, self._to_tensor(sds)[:, None]], 1)

    # ---- the target ----------------------------------------------------------------------------

    def _read_target(self, y: Any, n_rows: int) -> NDArray[Any]:
        target = super()._read_target(y, n_rows)
        if self.target_transform == "log" and not (target > 0).all():
            row = int(np.argmax(target <= 0))
            raise DataError(
                f"target_transform='log' needs numbers above 0, and the target of row {row + 1} is "
                f"{target[row]:g}: choose yeo-johnson or none."
            )
        return target

    @property
    def kernel_(self) -> str:
        """The kernel of the fit: the expression that was given, or the kernel that was chosen."""
        check_is_fitted(self)
        return str(self._function.gp.kernel.expression)

    @property
    def target_transform_(self) -> TargetTransform:
        """The transform of the target: the one that was given, or chosen."""
        check_is_fitted(self)
        return self._target.transformed

    @property
    def components_(self) -> tuple[ComponentSummary, ...]:
        """The summands of the kernel, and the noise last, on the scale of ``target_transform_``."""
        return self.components()

    def components(self, units: Mapping[str, str] | None = None) -> tuple[ComponentSummary, ...]:
        """The summands as ``components_`` has them, with units of columns in their phrases.

        Args:
            units: units in the plural, by column, such as months; None where none is known.
        """
        check_is_fitted(self)
        return component_summaries(self._function.posterior, self._target.scale, units)

    def notes_in_units(self, units: Mapping[str, str]) -> tuple[str, ...]:
        """The notes of the fit, with units of columns in the sentence on the kernel."""
        check_is_fitted(self)
        kernel = self._function.gp.kernel
        plain, said = kernel_sentence(kernel), kernel_sentence(kernel, units)
        return tuple(said if note == plain else note for note in self.notes_)

    def decompose(self, X: ArrayLike) -> Decomposition:
        """The posterior of each summand of the function at rows, in units of the target.

        With ``target_transform_`` the summands add up on its scale, and are in its units.

        Args:
            X: rows in the data's units, [n, H].

        Raises:
            DataError: the rows do not fit the model.
        """
        check_is_fitted(self)
        rows = super()._inputs(self._check_rows(X, reset=False))
        return decompose(self._function.posterior, rows, self._target.mean, self._target.scale)


AlphaEpsilon = Annotated[
    float | None,
    Range(1e-6, 1.0, log=True),
    Doc(
        "Count that each class has in every row beside its own: smaller is surer of the classes; "
        "auto takes the best of three.",
        "count of other classes",
    ),
    Advanced(),
]


@estimator_dataclass
class GPClassifier(Classifier):
    """Gaussian process classification on all rows by Dirichlet labels (Milios and others 2018).

    A row of class y has Dirichlet parameters α_c = α_ε + [c = y]. Their Gamma variables, taken as
    log-normal, make each class a regression with known noise s_c² = log(1/α_c + 1),

        ỹ_c = log α_c − s_c²/2 = f_c(x) + N(0, s_c² + σ²),   f_c ~ GP(m_c, k),

    so that the parameters of k, σ² and m maximise a marginal likelihood in closed form, and
    P(class c | x) = E softmax(f(x))_c by fixed quasi-random draws. A step costs C N³ operations, so
    a table has at most 2000 rows.

    ``kernel="auto"`` takes the RBF or Matérn correlation of the highest likelihood, of at most 300
    rows, and ``alpha_epsilon=None`` the α_ε of 0.001, 0.01 and 0.1 with the least log loss of each
    of these rows given the others.

    Attributes:
        classes_: the classes, sorted, [C].
        kernel_: the kernel of the fit, one for all classes.
        alpha_epsilon_: α_ε of the fit.
        relevance_: ``layer1`` holds α of the columns that vary, [H], as of ``GPRegressor``.
        n_parameters_: number of optimised parameters.
        elbo_: log p(ỹ | X) of all classes, nats, ỹ divided by its sd; not of the classes.
    """

    key: ClassVar[str] = "gp_classifier"
    title: ClassVar[str] = "Gaussian process (exact)"
    summary: ClassVar[str] = (
        "One Gaussian process a class, on all rows, in closed form: smooth probabilities for up to "
        "2000 rows."
    )
    paper: ClassVar[str] = "Milios et al. 2018"
    order: ClassVar[int] = 106
    most_rows: ClassVar[int | None] = 2000

    method: ClassVar[FitMethod] = DirichletMethod()

    _function: FittedDirichletGP = fitted()

    kernel: KernelOrAuto = "auto"
    alpha_epsilon: AlphaEpsilon = None
    max_iter: MaxIter = 200
    dtype: DoubleDtype = "float64"

    @property
    def kernel_(self) -> str:
        """The kernel of the fit: the expression that was given, or the kernel that was chosen."""
        check_is_fitted(self)
        return str(self._function.model.gp.kernel.expression)

    @property
    def alpha_epsilon_(self) -> float:
        """α_ε of the fit."""
        check_is_fitted(self)
        return self._function.rows.alpha
