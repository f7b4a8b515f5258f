"""The mini-batch objective of variational autoencoders.

A model defines the likelihood of the columns given the decoder's output.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.base.initial_map import pca_start
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.neural.latent_batch import LatentBatch, LatentKLTerm, draw_positions
from lvmcore.neural.networks import Encoder, Network, fit_linear_layer
from lvmcore.preprocessing.table_rows import InMemoryRows, TableRows
from lvmcore.training.batches import Batches
from lvmcore.training.objective import Objective, Term, total_values

__all__ = [
    "AutoencoderNetworks",
    "AutoencoderObjective",
    "OutputLikelihood",
    "jacobian_points",
    "mean_square",
]

ROWS_AT_A_TIME = 4096
# Rows over which squared slopes are averaged for the relevance.
JACOBIAN_ROWS = 200


class AutoencoderSettings(Protocol):
    """The settings of a model that its objective uses."""

    n_hidden: int
    batch_size: int


class AutoencoderNetworks:
    """Encoder and decoder, initialised at the principal components of the table.

    Args:
        n_hidden: units of each hidden layer.
        problem: the table.
        inputs: input rows of the encoder.
        targets: columns whose linear fit initialises the decoder, [N, D].
    """

    def __init__(
        self, n_hidden: int, problem: FitProblem, inputs: TableRows, targets: Tensor
    ) -> None:
        Y, Q, generator = problem.Y, problem.n_components, problem.generator
        self.inputs = inputs.take(slice(None))[0]
        columns = Y.shape[1]
        self.encoder = Encoder(columns, n_hidden, Q, Y, generator)
        start = pca_start(replace(problem, table=inputs))
        self.encoder.start(inputs, start)
        self.decoder = Network(Q, n_hidden, columns, Y, generator)
        self.decoder.start(*fit_linear_layer(InMemoryRows(start), targets))

    def encode(self, rows: NDArray[np.intp] | None = None) -> tuple[Tensor, Tensor]:
        """Mean and variance of q(x) of some rows of the fit, or of all; no gradient."""
        inputs = self.inputs if rows is None else self.inputs[rows]
        with torch.no_grad():
            parts = [self.encoder(some) for some in torch.split(inputs, ROWS_AT_A_TIME)]
            mean, log_variance = (torch.cat(part) for part in zip(*parts, strict=True))
            return mean, log_variance.exp()


class OutputLikelihood(nn.Module):
    """log p(y | x) of the columns given the decoder's output; its parameters are learned."""

    def log_probability(self, Y: Tensor, output: Tensor) -> Tensor:
        """Σ_d log p(y_d | output), over the last dimension."""
        raise NotImplementedError


Likelihood = TypeVar("Likelihood", bound=OutputLikelihood)


class ReconstructionTerm(Term[LatentBatch]):
    """Σ_n E_q(x_n) log p(y_n | x_n), estimated from a batch.

    Args:
        decoder: from latent positions to the likelihood's parameters.
        likelihood: of the columns.
        Y: the table, [N, D].
    """

    name = "data fit"

    def __init__(self, decoder: Network, likelihood: OutputLikelihood, Y: Tensor) -> None:
        self.decoder, self.likelihood, self.Y = decoder, likelihood, Y

    def frozen_in_warm_up(self) -> Iterable[nn.Parameter]:
        """Parameters of the likelihood."""
        return self.likelihood.parameters()

    def value(self, sample: LatentBatch) -> Tensor:
        """The estimate, averaged over the samples of the batch, []."""
        draws, Q = len(sample.X), sample.X.shape[-1]
        output = self.decoder(sample.X.reshape(-1, Q))
        logs = self.likelihood.log_probability(self.Y[sample.rows].repeat(draws, 1), output)
        return sample.scale * (logs.double().sum() / draws)


class AutoencoderObjective(Objective[LatentBatch], Generic[Likelihood]):
    """Σ_n E_q(x_n) log p(y_n | x_n) − KL(q(x_n) ‖ N(0, I)), and further terms of a model.

    Args:
        settings: of the model.
        problem: the table.
        networks: encoder and decoder.
        likelihood: of the columns.
        further: other terms, between the reconstruction and the KL term.
        modules: other networks, whose parameters are optimised too.
    """

    def __init__(
        self,
        settings: AutoencoderSettings,
        problem: FitProblem,
        networks: AutoencoderNetworks,
        likelihood: Likelihood,
        *,
        further: Sequence[Term[LatentBatch]] = (),
        modules: Sequence[nn.Module] = (),
    ) -> None:
        self.Y, self.generator = problem.Y, problem.generator
        self.networks, self.likelihood = networks, likelihood
        self.encoder, self.decoder = networks.encoder, networks.decoder
        self.batches = Batches(len(self.Y), settings.batch_size, self.generator)
        super().__init__(
            [self.encoder, self.decoder, *modules, likelihood],
            [ReconstructionTerm(self.decoder, likelihood, self.Y), *further, LatentKLTerm()],
        )

    @property
    def cells(self) -> int:
        """Number of cells that the bound sums over."""
        return self.Y.numel()

    def state(self) -> Iterable[Tensor]:
        """The order of the batches."""
        return self.batches.buffers()

    def batch_terms(self) -> dict[str, Tensor]:
        """The terms estimated from the next batch."""
        rows = self.batches.next().to(self.Y.device)
        return self.values(self._batch(rows, 1, len(self.Y) / len(rows)))

    @torch.no_grad()
    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The terms of all rows."""
        rows = torch.arange(len(self.Y), device=self.Y.device)
        blocks = torch.split(rows, ROWS_AT_A_TIME)
        return total_values(self.summands, (self._batch(some, draws, 1.0) for some in blocks))

    def _batch(self, rows: Tensor, draws: int, scale: float) -> LatentBatch:
        """Some rows with q(x) and samples of it."""
        mean, log_variance = self.encoder(self.networks.inputs[rows])
        X = draw_positions(mean, (0.5 * log_variance).exp(), draws, self.generator)
        return LatentBatch(rows, mean, log_variance.exp(), X, scale)

    @property
    def n_rows(self) -> int:
        """N."""
        return len(self.Y)

    def latent_mean(self, rows: NDArray[np.intp]) -> Tensor:
        """Means of q(x) of some rows, [n, Q]."""
        return self.networks.encode(rows)[0]

    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        """Mean squared slope of the decoder's output along each latent dimension, [Q]."""
        with torch.no_grad():
            return {"data": mean_square(self.decoder.slopes(jacobian_points(mean)))}


def jacobian_points(mean: Tensor) -> Tensor:
    """A subset of latent means at which slopes are averaged."""
    return mean[:: max(1, len(mean) // JACOBIAN_ROWS)]


def mean_square(slopes: Tensor) -> Tensor:
    """Σ_k slope² of each dimension, averaged over rows, a little above 0, [Q]."""
    return slopes.square().sum(2).mean(0) + 1e-12
