"""Exact Gaussian process regression."""

from __future__ import annotations

from typing import ClassVar

from sklearn.utils.validation import check_is_fitted

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.predictor import FitMethod
from lvmcore.base.regressor_classifier import Regressor
from lvmcore.base.settings import MaxIter
from lvmcore.deep.settings import SmoothnessOrAuto
from lvmcore.gp.exact_method import ExactGPMethod, FittedExactGP
from lvmcore.kernels.stationary import StationaryName

__all__ = ["GPRegressor"]


@estimator_dataclass
class GPRegressor(Regressor):
    """Gaussian process regression on all rows (Rasmussen and Williams 2006).

    f ~ GP(0, v κ(d)), d² = Σ_h (x_h − x'_h)²/ℓ_h², y_n = f(x_n) + N(0, σ²). Lengthscales, v and σ²
    maximise the marginal likelihood

    log p(y | X) = log N(y | 0, K + σ²I)

    by the limited-memory quasi-Newton method, and a prediction conditions on all rows. κ is the
    RBF or a Matérn correlation; ``kernel="auto"`` is the one with the highest marginal likelihood,
    of at most 1000 rows. A step costs N³ operations, so a table has at most 5000 rows.

    Rows with equal columns and target count once where equal columns always have equal targets, as
    the copies would put σ² to 0.

    Attributes:
        kernel_: the kernel that was chosen.
        relevance_: ``layer1`` holds α = 1/ℓ² of the columns that vary, [H].
        n_parameters_: number of optimised parameters.
        elbo_: log p(y | X), nats, the target standardised; no bound below it but itself.
    """

    key: ClassVar[str] = "gp_regressor"
    title: ClassVar[str] = "Gaussian process (exact)"
    summary: ClassVar[str] = (
        "One Gaussian process to a number, on all rows without approximation: the first choice for "
        "up to 2000 rows."
    )
    paper: ClassVar[str] = "Rasmussen and Williams 2006"
    order: ClassVar[int] = 105
    most_rows: ClassVar[int | None] = 5000

    method: ClassVar[FitMethod] = ExactGPMethod()

    _function: FittedExactGP = fitted()

    kernel: SmoothnessOrAuto = "auto"
    max_iter: MaxIter = 200

    @property
    def kernel_(self) -> StationaryName:
        """The kernel that was chosen."""
        check_is_fitted(self)
        return self._function.gp.kernel
