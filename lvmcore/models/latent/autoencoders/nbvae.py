"""Negative-binomial variational autoencoder: a map of counts by an encoder and a decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import Capabilities, FitProblem
from lvmcore.base.settings import (
    BatchSize,
    Components,
    Hidden,
    LearningRate,
    MaxIter,
)
from lvmcore.likelihoods.polya_gamma import MAX_LOG_MEAN, LogisticLikelihood, bounded_size
from lvmcore.neural.autoencoder import Autoencoder
from lvmcore.neural.objective import (
    AutoencoderNetworks,
    AutoencoderObjective,
    OutputLikelihood,
)
from lvmcore.numerics.conversion import to_numpy
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.training.outcome import FitOutcome

__all__ = ["NBVAE"]

# Range of the initial dispersions.
START_SIZES = (0.1, 500.0)
# Slopes of points × dimensions × columns in a block; bounds memory, does not change results.
SLOPES_AT_A_TIME = 1 << 24


@estimator_dataclass
class NBVAE(Autoencoder):
    """A variational autoencoder of counts with negative binomial columns.

    x_n ~ N(0, I), y_nd ~ NB with log mean f_d(x_n), f a network, and variance
    mean + mean²/r_d, r_d learned (Zhao et al. 2020); q(x_n) = N(mean, diag variance) from a
    network with input log(1 + y_n), standardised. It maximises
    Σ_n E_{q(x_n)} log p(y_n | x_n) − KL(q(x_n) ‖ N(0, I)), one sample of x_n a step, in nats of
    the untransformed counts. Both networks are initialised at the principal components of
    log(1 + y).

    The paper's decoder returns r and the probability of every cell. Here each column has an r, as
    in models of gene counts (Lopez et al. 2018), and the decoder returns the mean, as the two are
    hardly identifiable from a single count. A row's total has no parameter; the map represents it.

    Attributes:
        relevance_: ``data`` holds the mean squared slope of the columns' log means along each
            latent dimension, [Q].
        dispersion_: r of the columns that vary, [D].
    """

    key: ClassVar[str] = "nbvae"
    title: ClassVar[str] = "Autoencoder of counts (NBVAE)"
    summary: ClassVar[str] = (
        "A map of counts by two neural networks, for words, species or genes in many rows."
    )
    paper: ClassVar[str] = "Zhao, Rai, Du, Buntine and Zhou 2020"
    order: ClassVar[int] = 33
    capabilities: ClassVar[Capabilities] = Capabilities(
        sampling=True, uncertainty=True, bound=True, amortised=True, cells="counts", gpu=True
    )

    _family: LogisticLikelihood = fitted()
    # Mean and sd of log(1 + y) of the columns that vary, [D] each.
    _log_counts: tuple[Tensor, Tensor] = fitted()

    n_components: Components = None
    max_iter: MaxIter = 1000
    n_hidden: Hidden = 128
    batch_size: BatchSize = 512
    learning_rate: LearningRate = 0.01

    @property
    def dispersion_(self) -> NDArray[np.float64]:
        """r of the columns that vary, variance = mean + mean²/r, [D]."""
        return to_numpy(self._family.size)

    def _scaling(self, measured: Standardiser) -> Standardiser:
        return measured.unscaled()

    # ---- fitting -------------------------------------------------------------------------------

    def _fit(self, problem: FitProblem) -> FitOutcome:
        logs = torch.log1p(problem.Y)
        self._log_counts = (logs.mean(0), logs.std(0, correction=0))
        inputs = InMemoryRows(self._seen(problem.Y))
        networks = AutoencoderNetworks(self.n_hidden, problem, inputs, logs)
        likelihood = NegativeBinomialOutput(networks, problem.Y)
        fit = AutoencoderObjective(self, problem, networks, likelihood)
        outcome = self._train(fit, problem)
        self._family = likelihood.family.to(problem.Y)
        return outcome

    def _seen(self, Y: Tensor) -> Tensor:
        mean, sd = self._log_counts
        return (torch.log1p(Y) - mean) / sd

    # ---- decoding ------------------------------------------------------------------------------

    def _log_given(self, Y: Tensor, out: Tensor) -> Tensor:
        return _log_counts_given(self._family, Y, out)

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            psi = self._log_odds(X)
            return self._family.moments(psi, torch.zeros_like(psi))

    def _log_odds(self, X: Tensor) -> Tensor:
        """ψ = log mean − log r at points [N, Q], [N, D]."""
        psi: Tensor = self._network(X) - self._family.size.log()
        return psi

    def _metric(self, X: Tensor) -> Tensor:
        varying = ~self._measured.constant
        sd = self._to_tensor(self._measured.scale[varying])
        found = []
        for some in torch.split(X, max(1, SLOPES_AT_A_TIME // (X.shape[1] * len(sd)))):
            mean = self._network(some).clamp_max(MAX_LOG_MEAN).exp()
            slopes = self._network.slopes(some) * (mean / sd)[:, None, :]
            found.append(slopes @ slopes.transpose(1, 2))
        return torch.cat(found)

    def _sample_rows(
        self, latent: NDArray[np.float64], rng: np.random.Generator
    ) -> NDArray[np.float64]:
        with torch.no_grad():
            drawn = self._family.draw(self._log_odds(self._to_tensor(latent)), rng)
        return self._standardiser.inverse_transform(drawn)

    # ---- storage -------------------------------------------------------------------------------

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        own = {
            "dispersion": self._family.size,
            "log_counts.mean": self._log_counts[0],
            "log_counts.sd": self._log_counts[1],
        }
        return {**arrays, **{name: part.cpu().numpy() for name, part in own.items()}}, facts

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._set_state(arrays, facts)
        size, mean, sd = (
            self._to_tensor(arrays[name].copy())
            for name in ("dispersion", "log_counts.mean", "log_counts.sd")
        )
        self._family = LogisticLikelihood("negative_binomial", size)
        self._log_counts = (mean, sd)


class NegativeBinomialOutput(OutputLikelihood):
    """y_d ~ NB with log mean output_d and dispersion r_d.

    Args:
        networks: the decoder's bias is changed in place so that its means meet the columns'.
        Y: the counts, [N, D].
    """

    def __init__(self, networks: AutoencoderNetworks, Y: Tensor) -> None:
        super().__init__()
        decoder = networks.decoder
        with torch.no_grad():
            log_mean = decoder(networks.encode()[0])
            shift = Y.sum(0).log() - log_mean.logsumexp(0)
            decoder.line.bias.add_(shift)
            mean = (log_mean + shift).exp()
            # r = Σ mean²/(Σ (y − mean)² − mean), by the columns' moments
            excess = ((Y - mean).square() - mean).sum(0)
            size = mean.square().sum(0) / excess.clamp_min(1e-3)
        self.log_size = nn.Parameter(size.clamp(*START_SIZES).log())

    @property
    def family(self) -> LogisticLikelihood:
        """The likelihood at the current dispersion."""
        return LogisticLikelihood("negative_binomial", bounded_size(self.log_size))

    def log_probability(self, Y: Tensor, output: Tensor) -> Tensor:
        """Σ_d log NB(y_d), over the last dimension."""
        return _log_counts_given(self.family, Y, output)


def _log_counts_given(family: LogisticLikelihood, Y: Tensor, log_mean: Tensor) -> Tensor:
    """Σ_d log NB(y_d) of counts [..., D] with these log means, over the last dimension."""
    return family.log_probability(Y, log_mean - family.size.log()).sum(-1)
