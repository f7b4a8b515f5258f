"""Bayesian latent variable model of q-exponential processes with a hidden layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import Capabilities, FitProblem
from lvmcore.deep.initialisation import principal_axes
from lvmcore.gp.model import PathDecoder, start_noise
from lvmcore.gp.objective import SparseGPLVMObjective
from lvmcore.gp.paths import DataPath, LatentRows
from lvmcore.gp.unlabelled_model import UnsupervisedGPLVM
from lvmcore.parameters import (
    Components,
    Doc,
    Range,
)
from lvmcore.qep.deep_decoder import DeepDataPath, DeepDecoder
from lvmcore.qep.deep_objective import FINAL_DRAWS, DeepQEPLVMObjective
from lvmcore.qep.objective import Exponent, QExponent, exponent_of
from lvmcore.training.schedule import Schedule

__all__ = ["DeepQEPLVM"]


@estimator_dataclass
class DeepQEPLVM(UnsupervisedGPLVM):
    """A map with a hidden layer: h_i(x_n) and y_nd = f_d(h(x_n)) + ε, q-exponential processes all.

    The bound of ``QEPLVM`` with one block more, the whitened inducing values of the hidden layer,
    whose q(V) is a Gaussian of its own:

    E_q(X)[ψ(e_Y) − ½ Σ_d n_d log σ_d² + H(q(V)) + ψ(e_V)] + H(q(V_h)) + ψ(e_h) + H(q(X)) + ψ(e_X).

    The expectation is over one draw of X a step. Given it and the hidden layer's inducing values, a
    hidden row is Gaussian by the model (of a block that is summed over, not only measured, more
    than the covariance matters); its mean and variance take the place of q(x) in the psi statistics
    of the path to the columns, so that nothing else is drawn and the columns' q(V) stays at its
    optimum. That optimum depends on the draw, which leaves the bound one, q(V | X) being as good a
    q as any; predictions are made with the q(V) that is best for 16 draws at once. The hidden layer
    has no linear mean, so that its lengthscales say which dimensions of the map matter; it begins
    as a straight image of the map.

    Attributes:
        q_: q, as given or as learned.
        relevance_: ``data`` holds α of the hidden layer's kernel, [Q].
        inducing_inputs_: ``data`` holds the hidden layer's Z, [M, Q].
        noise_variance_: of one more row, standardised units, [D]; see ``QEPLVM``.
        interval_scale_: factor of the standard deviation of filled cells, [D].
        restarts_: bounds, seeds and latent means of the starts; None after a single one.
    """

    key: ClassVar[str] = "deep_qep_lvm"
    title: ClassVar[str] = "Deep Q-EP LVM"
    summary: ClassVar[str] = (
        "The Q-EP LVM with a hidden layer, for maps that bend unevenly; slower, and no labels."
    )
    paper: ClassVar[str] = "Chang, Obite, Zhou and Lan 2025"
    order: ClassVar[int] = 12
    capabilities: ClassVar[Capabilities] = Capabilities(
        missing_cells=True, sampling=True, uncertainty=True, bound=True
    )
    final_draws: ClassVar[int] = FINAL_DRAWS

    q_: float = fitted()

    q: Exponent = 1.5
    n_components: Components = None
    hidden_dim: Annotated[
        int | None,
        Range(1, 100),
        Doc("Dimensions of the hidden layer; auto is as many as the map has.", "hidden layer"),
    ] = None

    def _objective(
        self, rows: LatentRows, path: DataPath, problem: FitProblem
    ) -> DeepQEPLVMObjective:
        X, Z = rows.mean.detach(), path.Z.detach()
        W = principal_axes(X, self.hidden_dim or X.shape[1])
        gaps = problem.observed is not None
        beyond = DataPath(Z @ W, start_noise(problem, self.noise), pooled=gaps)
        return DeepQEPLVMObjective(
            rows, beyond, problem, QExponent(self.q), DeepDataPath(Z, X, X @ W)
        )

    def _schedule(self, cells: int) -> Schedule:
        """A bound that is estimated by one draw has to fall further to count as collapsed."""
        usual = super()._schedule(cells)
        return replace(usual, window=2 * usual.window, collapse=10 * usual.collapse)

    def _read_decoder(self, arrays: Mapping[str, NDArray[Any]], like: Tensor) -> PathDecoder:
        return DeepDecoder.from_arrays(arrays, like)

    def _keep(self, fit: SparseGPLVMObjective) -> None:
        super()._keep(fit)
        self.q_ = exponent_of(fit)

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        return arrays, {**facts, "q": self.q_}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._set_state(arrays, facts)
        self.q_ = float(facts["q"])
