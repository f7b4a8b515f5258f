"""Bayesian latent variable model of q-exponential processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import Capabilities, FitProblem
from lvmcore.gp.objective import GPLVMObjective, SparseGPLVMObjective
from lvmcore.gp.paths import DataPath, LatentRows
from lvmcore.gp.unlabelled_model import UnsupervisedGPLVM
from lvmcore.qep.objective import Exponent, QEPLVMObjective, QExponent, exponent_of

__all__ = ["QEPLVM"]


@estimator_dataclass
class QEPLVM(UnsupervisedGPLVM):
    """The Bayesian GPLVM with q-exponential processes, and such laws of X and of the noise.

    Maximises the bound of ``lvmcore.qep.collapsed_bound`` by q(X) = ∏_n N(mean_n, diag var_n),
    kernel, inducing inputs, noise and, with ``q="learn"``, q. Latent points, inducing values and
    observed cells are one block each, of one radius, whose covariance is that of the Gaussian
    model: only how large a block may be is another law. At q = 2 it is
    ``BayesianGPLVM``, step for step.

    What q does: where a fit is free to choose the scale of a block, as it is with noise and map,
    the weight of the block comes out near 1 and q hardly shows. The inducing values are not free,
    as their scale is the kernel's: below 2 they are held back less, so the fit takes a smaller
    kernel variance, less is lost between the inducing inputs, and the rows are followed more
    closely. Far from the rows only that kernel variance is left, and intervals there are too
    narrow, the more so the smaller q is. A learned q falls, to its least where noise is low.

    A new row is placed and decoded by what was fitted. Given all the cells of a fit, one more row
    is all but Gaussian, its noise σ_d²/w_Y with the weight w_Y of the cells' radius
    (``QEPBound.conditional_noise``): ``noise_variance_`` is that. Its latent point is taken as
    N(0, I), although the radius of the map says that to a factor near 1 too.

    Missing cells, intervals of filled ones and restarts: as in ``BayesianGPLVM``.

    Attributes:
        q_: q, as given or as learned.
        relevance_: ``data`` holds α, [Q].
        inducing_inputs_: ``data`` holds Z, [M, Q].
        noise_variance_: σ_d²/w_Y of the columns that vary, standardised units, [D].
        interval_scale_: factor of the standard deviation of filled cells, [D].
        restarts_: bounds, seeds and latent means of the starts; None after a single one.
    """

    key: ClassVar[str] = "qep_lvm"
    title: ClassVar[str] = "Q-EP LVM"
    summary: ClassVar[str] = (
        "The Bayesian GPLVM with a setting for how closely its curves follow the rows; no labels."
    )
    paper: ClassVar[str] = "Chang, Obite, Zhou and Lan 2025"
    order: ClassVar[int] = 11
    capabilities: ClassVar[Capabilities] = Capabilities(
        missing_cells=True, sampling=True, uncertainty=True, bound=True
    )

    q_: float = fitted()

    q: Exponent = 1.5

    def _objective(
        self, rows: LatentRows, path: DataPath, problem: FitProblem
    ) -> SparseGPLVMObjective:
        if self.q == 2:
            return GPLVMObjective(rows, path, problem)
        return QEPLVMObjective(rows, path, problem, QExponent(self.q))

    def _keep(self, fit: SparseGPLVMObjective) -> None:
        super()._keep(fit)
        self.q_ = exponent_of(fit)

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        return arrays, {**facts, "q": self.q_}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._set_state(arrays, facts)
        self.q_ = float(facts["q"])
