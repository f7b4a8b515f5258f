"""Bayesian latent variable model of q-exponential processes with hidden layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import Capabilities, FitProblem
from lvmcore.base.settings import MaxIter, Start
from lvmcore.deep.initialisation import principal_axes
from lvmcore.gp.model import PathDecoder, start_noise
from lvmcore.gp.objective import SparseGPLVMObjective
from lvmcore.gp.paths import DataPath, LatentRows
from lvmcore.gp.unlabelled_model import UnsupervisedGPLVM
from lvmcore.parameters import Doc, Range
from lvmcore.qep.deep_decoder import DeepDataPath, DeepDecoder
from lvmcore.qep.deep_objective import FINAL_DRAWS, DeepQEPLVMObjective
from lvmcore.qep.objective import Exponent, QExponent, exponent_of
from lvmcore.training.schedule import Schedule

__all__ = ["DeepQEPLVM"]


@estimator_dataclass
class DeepQEPLVM(UnsupervisedGPLVM):
    """Map with hidden layers of q-exponential processes: h_i(x_n) and y_nd = f_d(h(x_n)) + ε.

    With one hidden layer it is the bound of ``QEPLVM`` with one further block, the whitened
    inducing values of the hidden layer with a Gaussian q(V_h):

    E_q(X)[ψ(e_Y) − ½ Σ_d n_d log σ_d² + H(q(V)) + ψ(e_V)] + H(q(V_h)) + ψ(e_h) + H(q(X)) + ψ(e_X).

    The expectation is estimated by one draw of X per step. Given it and the hidden layer's inducing
    values, a hidden row is Gaussian by the model (for a block that is summed over, not only
    measured, more than the covariance matters); its mean and variance replace those of q(x) in the
    psi statistics of the path to the columns, so that nothing else is sampled and the columns' q(V)
    stays at its optimum. That optimum depends on the draw; with q(V | X) the objective is still a
    lower bound. Predictions use the q(V) that is optimal for 16 draws jointly. The hidden layer has
    no linear mean, so that its lengthscales show the relevant dimensions of the map; its initial
    function is linear in the map. With several hidden layers each has such a block, and the rows of
    all but the last are drawn too.

    Attributes:
        q_: q, given or learned.
        relevance_: ``data`` holds α of the first hidden layer's kernel, [Q].
        inducing_inputs_: ``data`` holds the first hidden layer's Z, [M, Q].
        noise_variance_: noise variance of a further row, standardised units, [D]; see ``QEPLVM``.
        interval_scale_: factor of the standard deviation of imputed cells, [D].
        restarts_: bounds, seeds and latent means of the starts; None for a single start.
    """

    key: ClassVar[str] = "deep_qep_lvm"
    title: ClassVar[str] = "Deep Q-EP LVM"
    summary: ClassVar[str] = (
        "The Q-EP LVM with hidden layers, for maps that bend unevenly; slower, and no labels."
    )
    paper: ClassVar[str] = "Chang, Obite, Zhou and Lan 2025"
    order: ClassVar[int] = 12
    capabilities: ClassVar[Capabilities] = Capabilities(
        missing_cells=True, sampling=True, uncertainty=True, bound=True, gpu=True
    )
    final_draws: ClassVar[int] = FINAL_DRAWS

    q_: float = fitted()

    q: Exponent = 1.5
    max_iter: MaxIter = 500
    start: Start = "pca"  # a step takes so long that a second start would be felt
    n_layers: Annotated[
        int,
        Range(1, 5),
        Doc("Hidden layers between the map and the columns; each makes a step slower.", "layers"),
    ] = 1
    hidden_dim: Annotated[
        int | None,
        Range(1, 100),
        Doc("Dimensions of each hidden layer; auto is as many as the map has.", "hidden layer"),
    ] = None

    def _objective(
        self, rows: LatentRows, path: DataPath, problem: FitProblem
    ) -> DeepQEPLVMObjective:
        X, Z = rows.mean.detach(), path.Z.detach()
        W = principal_axes(X, self.hidden_dim or X.shape[1])
        gaps = problem.observed is not None
        beyond = DataPath(Z @ W, start_noise(problem, self.settings_["noise"]), pooled=gaps)
        layers = [DeepDataPath(Z, X, X @ W)]
        layers += [DeepDataPath(Z @ W, X @ W, X @ W) for _ in range(self.n_layers - 1)]
        return DeepQEPLVMObjective(rows, beyond, problem, QExponent(self.q), layers)

    def _schedule(self, cells: int) -> Schedule:
        """A larger fall counts as a collapse, as the bound is estimated from one draw."""
        usual = super()._schedule(cells)
        return replace(usual, window=2 * usual.window, collapse=10 * usual.collapse, finishes=False)

    def _read_decoder(self, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> PathDecoder:
        return DeepDecoder.from_arrays(arrays, like)

    def _store_fit(self, fit: SparseGPLVMObjective) -> None:
        super()._store_fit(fit)
        self.q_ = exponent_of(fit)

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        return arrays, {**facts, "q": self.q_}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._set_state(arrays, facts)
        self.q_ = float(facts["q"])
