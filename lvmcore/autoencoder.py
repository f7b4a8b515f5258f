"""What variational autoencoders share: an encoder and a decoder network, their objective, storage.

A model supplies log p(y | x) as a function of what its decoder puts out, and what its encoder sees.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base import LatentVariableModel, Problem
from lvmcore.checks import to_numpy
from lvmcore.counts import Cells
from lvmcore.gplvm import log_marginal, snapshot_of, thinned
from lvmcore.networks import Encoder, Network, fit_line, network_arrays, restore_network
from lvmcore.parameters import Advised
from lvmcore.results import Posterior, Snapshot
from lvmcore.rows import HeldRows, TableRows
from lvmcore.starts import pca_start
from lvmcore.stochastic import Batches
from lvmcore.training import Outcome, Schedule, train
from lvmcore.variational import kl_standard_normal

__all__ = ["Autoencoder", "AutoencoderFit", "mean_square", "slope_points"]

FINAL_DRAWS = 8
ROWS_AT_A_TIME = 4096
# Rows whose slopes are averaged into the relevance.
SLOPE_ROWS = 200


class Autoencoder(LatentVariableModel):
    """Base of the models that are two networks: one places a row, the other makes the row."""

    n_hidden: int
    batch_size: int
    learning_rate: float
    max_iter: int

    _encoder: Encoder
    _network: Network

    @classmethod
    def advise(
        cls, *, n_rows: int, n_columns: int, n_classes: int = 0, cells: Cells = "any"
    ) -> dict[str, Advised]:
        """More steps and hidden units for longer tables."""
        del n_columns, n_classes, cells
        if n_rows <= 5000:
            return {}
        return {
            "max_iter": Advised(4000, f"a step sees one batch, and {n_rows:,} rows take many"),
            "n_hidden": Advised(256, f"{n_rows:,} rows can teach a larger network"),
        }

    def _train(self, fit: AutoencoderFit, problem: Problem) -> Outcome:
        outcome = train(
            fit,
            Schedule.for_batches(
                self.max_iter,
                self.learning_rate,
                fit.cells,
                n_rows=len(fit.Y),
                size=fit.batches.size,
            ),
            problem.callback,
            draws=FINAL_DRAWS,
            checkpoint=problem.checkpoint,
        )
        self._encoder, self._network = fit.encoder, fit.decoder
        mean, variance = fit.encode()
        self.embedding_ = Posterior(to_numpy(mean), to_numpy(variance))
        self.relevance_ = {name: to_numpy(alpha) for name, alpha in fit.relevance(mean).items()}
        self.inducing_inputs_ = {}
        return outcome

    def _seen(self, Y: Tensor) -> Tensor:
        """Rows as the encoder sees them, [N, D]."""
        return Y

    @abstractmethod
    def _log_given(self, Y: Tensor, out: Tensor) -> Tensor:
        """Σ_d log p(y_d | what the decoder puts out), over the last dimension."""

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


class AutoencoderFit(ABC):
    """The objective: reconstruction and the divergence, by batches of rows.

    Args:
        settings: the model that is fitted.
        problem: what it is fitted to.
        seen: the rows as the encoder sees them; the map starts from their principal components.
        lines: what the decoder starts with the straight lines of, [N, D].
    """

    def __init__(
        self, settings: Autoencoder, problem: Problem, seen: TableRows, lines: Tensor
    ) -> None:
        Y, Q, generator = problem.Y, problem.n_components, problem.generator
        self.Y, self.generator = Y, generator
        self.seen = seen.take(slice(None))[0]
        columns = Y.shape[1]
        self.encoder = Encoder(columns, settings.n_hidden, Q, Y, generator)
        start = pca_start(replace(problem, table=seen))
        self.encoder.start(seen, start)
        self.decoder = Network(Q, settings.n_hidden, columns, Y, generator)
        self.decoder.start(*fit_line(HeldRows(start), lines))
        self.batches = Batches(len(Y), settings.batch_size, generator)
        self.cells = Y.numel()

    @abstractmethod
    def log_given(self, Y: Tensor, out: Tensor) -> Tensor:
        """Σ_d log p(y_d | what the decoder puts out), over the last dimension."""

    @abstractmethod
    def held(self) -> Iterable[torch.nn.Parameter]:
        """What log p(y | x) learns beside the networks."""

    def networks(self) -> list[torch.nn.Module]:
        """All that is trained from the first step on."""
        return [self.encoder, self.decoder]

    def further_terms(self, rows: Tensor, X: Tensor, draws: int) -> dict[str, Tensor]:
        """What else the bound holds, at places X [draws · n, Q] of rows [n]."""
        del rows, X, draws
        return {}

    def encode(self, rows: NDArray[np.intp] | None = None) -> tuple[Tensor, Tensor]:
        """q(x) of rows of the fit, all of them where none are given; no gradient."""
        seen = self.seen if rows is None else self.seen[rows]
        with torch.no_grad():
            parts = [self.encoder(some) for some in torch.split(seen, ROWS_AT_A_TIME)]
            mean, log_variance = (torch.cat(part) for part in zip(*parts, strict=True))
            return mean, log_variance.exp()

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """See ``training.Objective``."""
        return [*(p for network in self.networks() for p in network.parameters()), *self.held()]

    def state(self) -> Iterable[Tensor]:
        """See ``training.InBatches``: where the order of the rows stands."""
        return self.batches.buffers()

    def batch_terms(self) -> dict[str, Tensor]:
        """See ``training.InBatches``."""
        rows = self.batches.next().to(self.Y.device)
        scale = len(self.Y) / len(rows)
        return {name: scale * term for name, term in self._terms_of(rows, 1).items()}

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """See ``training.Objective``."""
        rows = torch.arange(len(self.Y), device=self.Y.device)
        with torch.no_grad():
            parts = [self._terms_of(some, draws) for some in torch.split(rows, ROWS_AT_A_TIME)]
        return {name: torch.stack([part[name] for part in parts]).sum() for name in parts[0]}

    def _terms_of(self, rows: Tensor, draws: int) -> dict[str, Tensor]:
        """The terms of some rows, averaged over draws of their places."""
        mean, log_variance = self.encoder(self.seen[rows])
        noise = torch.randn((draws, *mean.shape), generator=self.generator, dtype=torch.float64)
        X = (mean + (0.5 * log_variance).exp() * noise.to(mean)).reshape(-1, mean.shape[1])
        fit = self.log_given(self.Y[rows].repeat(draws, 1), self.decoder(X))
        divergence = kl_standard_normal(mean, log_variance.exp())
        return {
            "data fit": fit.double().sum() / draws,
            **self.further_terms(rows, X, draws),
            "KL of the map": -divergence.double().sum(),
        }

    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        """Mean squared slope of what is put out along each dimension, at some of the rows."""
        with torch.no_grad():
            return {"data": mean_square(self.decoder.slopes(slope_points(mean)))}

    def snapshot(self) -> Snapshot:
        """The map as it stands."""
        rows = thinned(len(self.Y))
        mean, _ = self.encode(rows)
        return snapshot_of(mean, self.relevance(mean), rows)


def slope_points(mean: Tensor) -> Tensor:
    """Some of the rows' places, where slopes are averaged."""
    return mean[:: max(1, len(mean) // SLOPE_ROWS)]


def mean_square(slopes: Tensor) -> Tensor:
    """Σ_k slope² of each dimension, averaged over rows, a little above 0, [Q]."""
    return slopes.square().sum(2).mean(0) + 1e-12
