"""Bayesian latent variable model of q-exponential processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import Capabilities, FitProblem
from lvmcore.base.settings import LayoutOrAuto, MapKernel
from lvmcore.gp.objective import GPLVMObjective, SparseGPLVMObjective
from lvmcore.gp.paths import DataPath, LatentRows
from lvmcore.gp.unlabelled_model import UnsupervisedGPLVM
from lvmcore.qep.objective import Exponent, QEPLVMObjective, QExponent, exponent_of

__all__ = ["QEPLVM"]


@estimator_dataclass
class QEPLVM(UnsupervisedGPLVM):
    """The Bayesian GPLVM with q-exponential processes, latent prior and noise.

    Maximises the bound of ``lvmcore.qep.collapsed_bound`` by q(X) = ∏_n N(mean_n, diag var_n),
    kernel, inducing inputs, noise and, with ``q="learn"``, q. Latent points, inducing values and
    observed cells are one block each, with one radius and the covariance of the Gaussian model:
    only the distribution of the radius differs. At q = 2 it is identical to ``BayesianGPLVM``.

    Effect of q: if the scale of a block is a parameter, as for noise and map, the weight of the
    block is near 1 and q has little effect. The scale of the inducing values is the kernel's: for
    q < 2 their prior penalises large values less, so the fitted kernel variance is smaller, less
    variance is lost between the inducing inputs, and the residuals are smaller. Far from the rows
    only that kernel variance remains, and intervals are too narrow, the more so the smaller q. A
    learned q decreases during the fit, to its minimum for low noise.

    Inference and decoding of a new row use the fitted parameters. Given all cells of the fit, a
    further row is nearly Gaussian, with noise σ_d²/w_Y and the weight w_Y of the cells' radius
    (``QEPBound.conditional_noise``); this is ``noise_variance_``. The prior of its latent point is
    N(0, I), which the radius of the map would also change by a factor near 1.

    Missing cells, intervals of imputed cells and restarts are as in ``BayesianGPLVM``.

    Attributes:
        q_: q, given or learned.
        relevance_: ``data`` holds α, [Q].
        inducing_inputs_: ``data`` holds Z, [M, Q].
        noise_variance_: σ_d²/w_Y of the columns that vary, standardised units, [D].
        interval_scale_: factor of the standard deviation of imputed cells, [D].
        restarts_: bounds, seeds and latent means of the starts; None for a single start.
    """

    key: ClassVar[str] = "qep_lvm"
    title: ClassVar[str] = "Q-EP LVM"
    summary: ClassVar[str] = (
        "The Bayesian GPLVM with a setting for how closely its curves follow the rows; no labels."
    )
    paper: ClassVar[str] = "Chang, Obite, Zhou and Lan 2025"
    order: ClassVar[int] = 11
    capabilities: ClassVar[Capabilities] = Capabilities(
        missing_cells=True, sampling=True, uncertainty=True, bound=True, gpu=True, shards=True
    )

    has_layouts: ClassVar[bool] = True

    q_: float = fitted()

    q: Exponent = 1.5
    inducing_layout: LayoutOrAuto = None
    kernel: MapKernel = "rbf"

    def _objective(
        self, rows: LatentRows, path: DataPath, problem: FitProblem
    ) -> SparseGPLVMObjective:
        if self.q == 2:
            return GPLVMObjective(rows, path, problem)
        return QEPLVMObjective(rows, path, problem, QExponent(self.q))

    def _store_fit(self, fit: SparseGPLVMObjective) -> None:
        super()._store_fit(fit)
        self.q_ = exponent_of(fit)

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        return arrays, {**facts, "q": self.q_}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._set_state(arrays, facts)
        self.q_ = float(facts["q"])
