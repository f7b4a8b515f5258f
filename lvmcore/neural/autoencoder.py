"""Base class of autoencoders: encoder and decoder, training, inference, storage.

A subclass defines the encoder's input, and if it has a density log p(y | x) as a function of the
decoder's output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import FitProblem, LatentVariableModel
from lvmcore.base.marginal_likelihood import log_marginal
from lvmcore.base.table_size import TableSize
from lvmcore.neural.networks import (
    Encoder,
    Network,
    network_arrays,
    restore_network,
)
from lvmcore.neural.objective import AutoencoderObjective
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advised
from lvmcore.results import Posterior
from lvmcore.training.loop import train
from lvmcore.training.outcome import FitOutcome
from lvmcore.training.schedule import Schedule

__all__ = ["Autoencoder"]

FINAL_DRAWS = 8


@estimator_dataclass
class Autoencoder(LatentVariableModel):
    """Base class of models with an encoder q(x | y) and a decoder p(y | x), both networks."""

    n_hidden: int
    batch_size: int
    learning_rate: float
    max_iter: int

    _encoder: Encoder = fitted()
    _network: Network = fitted()

    @classmethod
    def advise(cls, size: TableSize) -> dict[str, Advised]:
        """More steps and hidden units for longer tables."""
        n_rows = size.n_rows
        if n_rows <= 5000:
            return {}
        return {
            "max_iter": Advised(4000, f"a step sees one batch, and {n_rows:,} rows take many"),
            "n_hidden": Advised(256, f"{n_rows:,} rows can teach a larger network"),
        }

    def _train(self, fit: AutoencoderObjective[Any], problem: FitProblem) -> FitOutcome:
        outcome = train(
            fit,
            Schedule.for_batches(
                self.max_iter,
                self.learning_rate,
                fit.cells,
                n_rows=fit.n_rows,
                size=fit.batches.size,
            ),
            problem.callback,
            draws=FINAL_DRAWS,
            checkpoint=problem.checkpoint,
        )
        self._encoder, self._network = fit.encoder, fit.decoder
        mean, variance = fit.networks.encode()
        self.embedding_ = Posterior(to_numpy(mean), to_numpy(variance))
        self.relevance_ = {name: to_numpy(alpha) for name, alpha in fit.relevance(mean).items()}
        self.inducing_inputs_ = {}
        return outcome

    def _seen(self, Y: Tensor) -> Tensor:
        """Input of the encoder for rows Y [N, D], [N, D]."""
        return Y

    def _log_given(self, Y: Tensor, out: Tensor) -> Tensor:
        """Σ_d log p(y_d | output of the decoder), over the last dimension; of models with one."""
        raise NotImplementedError

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            mean, log_variance = self._encoder(self._seen(Y))
            return mean, log_variance.exp()

    def _log_density(self, Y: Tensor) -> Tensor:
        def given(Y: Tensor, X: Tensor) -> Tensor:
            out = self._network(X.reshape(-1, X.shape[-1])).reshape(*X.shape[:2], -1)
            return self._log_given(Y, out)

        with torch.no_grad():
            return log_marginal(given, Y, *self._posterior(Y))

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays = network_arrays(self._encoder, "encoder.")
        return {**arrays, **network_arrays(self._network, "decoder.")}, {}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        del facts
        like, unused = self._to_tensor(np.zeros(1)), torch.Generator()
        D, Q = int((~self._standardiser.constant).sum()), self.embedding_.mean.shape[1]
        self._encoder = Encoder(D, self.n_hidden, Q, like, unused)
        self._network = Network(Q, self.n_hidden, D, like, unused)
        restore_network(self._encoder, arrays, "encoder.")
        restore_network(self._network, arrays, "decoder.")
