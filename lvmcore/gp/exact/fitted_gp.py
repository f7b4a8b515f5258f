"""The posterior of an exact Gaussian process as the function of a predictor.

Notation: lvmcore/README.md.
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.gp.conjugate_gradients.posterior import BlockPosterior
from lvmcore.gp.exact.hyperparameter_posterior import HyperparameterDraws, IntegratedPosterior
from lvmcore.gp.exact_regression import ExactGP, ExactRows, GPPosterior
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy

__all__ = ["FittedExactGP", "split_known"]


def split_known(X: Float[Tensor, "n H1"], scale: float) -> tuple[Tensor, Tensor]:
    """Rows [n, H], and the variances of their noise [n], from rows whose last column is its sd."""
    return X[:, :-1], (X[:, -1] / scale).square()


class FittedExactGP:
    """The posterior of an exact Gaussian process as the function of a predictor.

    Args:
        gp: at its current parameters.
        rows: on which it is conditioned.
        posterior: of many rows; None to condition by a Cholesky factor.
        seconds_left: time of the computations that a stop of the fit left out.
        draws: points of the posterior of the parameters; None to predict by the parameters alone.
    """

    n_hidden_layers = 0

    def __init__(
        self,
        gp: ExactGP,
        rows: ExactRows,
        posterior: BlockPosterior | None = None,
        seconds_left: float = 0.0,
        draws: HyperparameterDraws | None = None,
    ) -> None:
        self.gp, self.rows, self.seconds_left, self.draws = gp, rows, seconds_left, draws
        self.posterior: GPPosterior | BlockPosterior
        self.integrated: IntegratedPosterior | None = None
        if posterior is None:
            self.update()
        else:
            self.posterior = posterior

    def update(self) -> None:
        """Condition on the rows under the current kernel."""
        posterior = GPPosterior(self.gp, self.X, self.Y, self.rows.known)
        self.posterior, self.integrated = posterior, None
        if self.draws is not None:
            self.integrated = IntegratedPosterior(posterior, self.draws, self.rows.known)

    @property
    def X(self) -> Tensor:
        """The rows, standardised, [N, H]."""
        return self.rows.X

    @property
    def Y(self) -> Tensor:
        """Their targets, standardised, [N, 1]."""
        return self.rows.Y

    @property
    def relevance(self) -> dict[str, FloatArray]:
        """α of the columns, by layer."""
        return {"layer1": to_numpy(self.gp.relevance)}

    @property
    def n_parameters(self) -> int:
        """Number of optimised parameters."""
        return sum(parameter.numel() for parameter in self.gp.parameters())

    def hidden_units(self, X: Tensor, layer: int) -> Tensor:
        """There is no hidden layer."""
        raise NotImplementedError  # there are no hidden layers

    def normals(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the target at standardised rows, noise included, [n, 1] each."""
        posterior = self.integrated or self.posterior
        if self.rows.known is None:
            return posterior.moments(X)
        features, known = split_known(X, self.rows.scale)
        mean, variance = posterior.moments(features)
        return mean, variance + known[:, None]

    def weights(self) -> FloatArray | None:
        """None: there is one component."""
        return None

    def probability(self, X: Tensor) -> Tensor:
        """Only of classes."""
        raise NotImplementedError  # only of classes

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON-serialisable facts for a file."""
        arrays = {f"gp.{name}": to_numpy(one) for name, one in self.gp.state_dict().items()}
        if self.rows.known is not None:
            arrays["known_noise"] = to_numpy(self.rows.known)
        if isinstance(self.posterior, BlockPosterior):
            arrays |= self.posterior.solution.arrays()
        if self.draws is not None:
            arrays["draws.points"] = to_numpy(self.draws.points)
            arrays["draws.weights"] = to_numpy(self.draws.weights)
        facts = {"kernel": str(self.gp.kernel.expression)}
        return {**arrays, "X": to_numpy(self.X), "Y": to_numpy(self.Y)}, facts
