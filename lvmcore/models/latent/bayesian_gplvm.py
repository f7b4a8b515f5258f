"""Bayesian Gaussian process latent variable model."""

from __future__ import annotations

from typing import ClassVar

from lvmcore.base.advice import (
    LONG_TABLE,
    advised_incomplete_map_steps,
    advised_map_steps,
)
from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.latent_variable_model import Capabilities, FitProblem
from lvmcore.base.settings import ColumnLikelihood, LayoutOrAuto, MapKernel
from lvmcore.base.table_size import TableSize
from lvmcore.gp.model import chosen_kernel, fit_likelihoods
from lvmcore.gp.rows.placement import refuse_shards
from lvmcore.gp.unlabelled_model import UnsupervisedGPLVM
from lvmcore.parameters import Advised
from lvmcore.training.outcome import FitOutcome

__all__ = ["BayesianGPLVM"]


@estimator_dataclass
class BayesianGPLVM(UnsupervisedGPLVM):
    """Nonlinear map with uncertainty: x_n ~ N(0, I), y_nd = f_d(x_n) + ε, f_d ~ GP(0, RBF-ARD).

    Maximises the collapsed bound F(q(X)) − KL(q(X) ‖ N(0, I)), q(X) = ∏_n N(mean_n, diag var_n),
    with M inducing inputs whose outputs are integrated out at their optimum (Titsias and Lawrence
    2010, eq. 14). With ``n_components="ard"`` the relevance α_q = 1/ℓ_q² shows which dimensions the
    data need; the advised map of a complete table has two, and one noise variance. A missing cell
    only drops out of the bound; with missing cells, no column's noise falls below half of the
    columns' average. Such a fit is then continued for some steps without a tenth of the cells of
    some rows, and the intervals of imputed cells are widened to cover these. With another
    ``kernel`` expectations are means over fixed draws (``lvmcore.kernels.expression_kernel``).

    Attributes:
        relevance_: ``data`` holds α, [Q].
        inducing_inputs_: ``data`` holds Z, [M, Q].
        noise_variance_: σ_d² of the columns that vary, standardised units, [D].
        interval_scale_: factor of the standard deviation of imputed cells, [D].
        restarts_: bounds, seeds and latent means of the starts; None for a single start.
    """

    key: ClassVar[str] = "bayesian_gplvm"
    title: ClassVar[str] = "Bayesian GPLVM"
    summary: ClassVar[str] = (
        "A curved map with uncertainty, of two dimensions or as many as the data need; no labels."
    )
    paper: ClassVar[str] = "Titsias and Lawrence 2010"
    order: ClassVar[int] = 10
    capabilities: ClassVar[Capabilities] = Capabilities(
        missing_cells=True, sampling=True, uncertainty=True, bound=True, gpu=True, shards=True
    )
    has_layouts: ClassVar[bool] = True

    inducing_layout: LayoutOrAuto = None
    column_likelihood: ColumnLikelihood = "gaussian"
    kernel: MapKernel = "rbf"

    @classmethod
    def advise(cls, size: TableSize) -> dict[str, Advised]:
        """As ``UnsupervisedGPLVM.advise``, with more steps for a long table."""
        found = super().advise(size)
        if size.n_rows > LONG_TABLE:
            steps = advised_incomplete_map_steps if size.incomplete else advised_map_steps
            found["max_iter"] = steps(size.n_rows)
        return found

    def _fit(self, problem: FitProblem) -> FitOutcome:
        if self._column_terms is None:
            return super()._fit(problem)
        chosen_kernel(self, problem)
        refuse_shards()
        return fit_likelihoods(self, problem, self._column_terms).outcome
