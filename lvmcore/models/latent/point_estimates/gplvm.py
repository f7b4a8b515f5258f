"""The Gaussian process latent variable model with point estimates of the positions."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import Capabilities, FitProblem
from lvmcore.base.settings import Components, Hidden, InducingOrAuto, MapKernel, Restarts
from lvmcore.base.table_size import TableSize
from lvmcore.gp.point_estimates.model import (
    ApproximationOrAuto,
    PointGPLVM,
    advised_approximation,
    data_path,
    fitted_placement,
)
from lvmcore.gp.point_estimates.objective import PathTerm, PointObjective, PositionPrior
from lvmcore.gp.point_estimates.positions import (
    FreePositions,
    KernelPositions,
    NetworkPositions,
    Positions,
    row_inputs,
)
from lvmcore.gp.starts.restarts import RestartResult, fit_from_starts
from lvmcore.kernels.expression_kernel import map_kernel
from lvmcore.parameters import Advised, Doc
from lvmcore.training.outcome import FitOutcome

__all__ = ["GPLVM"]


@estimator_dataclass
class GPLVM(PointGPLVM):
    """Nonlinear map by maximum a posteriori: y_nd = f_d(x_n) + ε, f_d ~ GP(0, k), ε ~ N(0, σ²).

    Positions X and the parameters of kernel and noise maximise

    L = Σ_d log N(y_d | 0, K + σ² I) + Σ_n log N(x_n | 0, I)

    (Lawrence 2005), by a quasi-Newton method with gradients in closed form. As lengthscales are
    learned, L is highest where X and lengthscales vanish together; so each dimension of X is kept
    at mean 0 and sd 1 over the rows, where log p(X) is a constant. A step costs N³.

    ``approximation`` replaces K + σ² I by the covariance of M inducing inputs, whose step costs
    N M² (``lvmcore.gp.point_estimates.marginal_likelihood``; Lawrence 2007). ``back_constraint``
    makes X a function of the rows (Lawrence and Quiñonero-Candela 2006), so that rows that are
    alike have positions that are near, and a new row is placed by it: "kernel", X = k_Y(Y, Y) A
    with an RBF kernel of fixed lengthscale; "network", two hidden layers. A missing cell is 0 in
    its input, and the mask of the observed cells is a further one.

    A missing cell drops out: the columns that are observed in the same rows share a covariance. An
    exact step then costs N³ for each such set of rows, so that auto chooses "vfe" above 300 rows.

    The positions are points without a posterior variance. Filled cells and densities average over
    a Gaussian about each new position (``lvmcore.gp.point_estimates.placement``).

    Attributes:
        relevance_: ``data`` holds α = 1/ℓ², [Q].
        inducing_inputs_: ``data`` holds Z, [M, Q]; empty for "exact".
        noise_variance_: σ² of the columns that vary, standardised units, [D].
        restarts_: objectives, seeds and maps of the starts; None for a single start.
    """

    key: ClassVar[str] = "gplvm"
    title: ClassVar[str] = "GPLVM"
    summary: ClassVar[str] = (
        "A curved map of points without uncertainty, by Gaussian processes; exact or sparse."
    )
    paper: ClassVar[str] = "Lawrence 2005, 2007; Lawrence and Quiñonero-Candela 2006"
    order: ClassVar[int] = 14
    capabilities: ClassVar[Capabilities] = Capabilities(missing_cells=True, bound=True, gpu=True)

    restarts_: RestartResult | None = fitted(default=None)

    n_components: Components = 2
    approximation: ApproximationOrAuto = None
    n_inducing: InducingOrAuto = None
    back_constraint: Annotated[
        Literal["none", "kernel", "network"],
        Doc(
            "Positions of their own, or a function of the rows: a kernel regression or a network.",
            "back constraint",
        ),
    ] = "none"
    n_hidden: Hidden = 32
    kernel: MapKernel = "rbf"
    n_restarts: Restarts = 1

    @classmethod
    def advise(cls, size: TableSize) -> dict[str, Advised]:
        """Exact for short tables, else by inducing inputs."""
        return advised_approximation(size)

    def _fit(self, problem: FitProblem) -> FitOutcome:
        map_kernel(self.kernel, problem.n_components)  # what cannot be used is reported at once
        return fit_from_starts(self, problem)

    def _fit_start(self, problem: FitProblem, X: Tensor) -> FitOutcome:
        """Fit from the initial map X, [N, Q]."""
        expression = map_kernel(self.kernel, problem.n_components)
        path = data_path(self, problem, X, expression)
        positions = self._positions(problem, X)
        terms = [PathTerm("data fit", path), PositionPrior()]
        outcome = self._train(problem, PointObjective(positions, {"data": path}, terms))
        self._placement = fitted_placement(positions, masked=problem.observed is not None)
        return outcome

    def _positions(self, problem: FitProblem, X: Tensor) -> Positions:
        if self.back_constraint == "none":
            return FreePositions(X)
        observed = problem.observed
        inputs = row_inputs(problem.Y, observed, masked=observed is not None)
        if self.back_constraint == "kernel":
            return KernelPositions(inputs, X)
        return NetworkPositions(inputs, X, self.n_hidden, problem.generator)
