"""Variational autoencoders: the networks' answer to the same maps, as a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from torch import Tensor

from lvmcore.base import Capabilities, LatentVariableModel, Problem
from lvmcore.checks import to_numpy
from lvmcore.counts import Cells
from lvmcore.draws import standard_draws
from lvmcore.gplvm import (
    START_NOISE,
    log_marginal,
    snapshot_of,
    thinned,
)
from lvmcore.labelled import draw_of_class
from lvmcore.labels import row_weights
from lvmcore.layers import NOISE_FLOOR
from lvmcore.networks import Encoder, Network, fit_line, network_arrays, restore_network
from lvmcore.parameters import (
    Advised,
    BatchSize,
    ClassWeight,
    Components,
    Device,
    Dtype,
    Hidden,
    LabelWeight,
    LearningRate,
    MaxIter,
    Noise,
    Seed,
)
from lvmcore.results import Posterior, Snapshot
from lvmcore.rows import HeldRows
from lvmcore.starts import pca_start
from lvmcore.stochastic import Batches
from lvmcore.training import Outcome, Schedule, train
from lvmcore.variational import LOG_2PI, kl_standard_normal

__all__ = ["VAE", "SupervisedVAE"]

FINAL_DRAWS = 8
LABEL_DRAWS = 64
ROWS_AT_A_TIME = 4096
# Rows whose slopes are averaged into the relevance.
SLOPE_ROWS = 200


class VAE(LatentVariableModel):
    """Two networks: one places a row on the map, the other makes the row of a place.

    x_n ~ N(0, I), y_nd = f_d(x_n) + ε_d with f a network and ε_d Gaussian of learned variance;
    q(x_n) = N(mean(y_n), diag variance(y_n)) from the same kind of encoder as Fast LDGD's. It
    maximises Σ_n E_{q(x_n)} log p(y_n | x_n) − KL(q(x_n) ‖ N(0, I)), with one sample of x_n a step
    (Kingma and Welling 2014). Both networks start at the principal components.

    Attributes:
        relevance_: ``data`` holds the mean squared slope of the columns along each latent
            dimension, standardised units, [Q].
        noise_variance_: σ_d² of the columns that vary, standardised units, [D].
    """

    key: ClassVar[str] = "vae"
    title: ClassVar[str] = "Variational autoencoder"
    summary: ClassVar[str] = (
        "A map by two neural networks: quick on long tables, and hungry for rows."
    )
    paper: ClassVar[str] = "Kingma and Welling 2014"
    order: ClassVar[int] = 32
    capabilities: ClassVar[Capabilities] = Capabilities(
        sampling=True, uncertainty=True, bound=True, amortised=True
    )

    noise: str
    n_hidden: int
    batch_size: int
    learning_rate: float
    max_iter: int

    _encoder: Encoder
    _network: Network
    _noise: Tensor

    def __init__(
        self,
        *,
        n_components: Components = None,
        max_iter: MaxIter = 1000,
        n_hidden: Hidden = 128,
        batch_size: BatchSize = 512,
        noise: Noise = "column",
        learning_rate: LearningRate = 0.03,
        device: Device = "auto",
        dtype: Dtype = "float64",
        random_state: Seed = 0,
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.n_hidden = n_hidden
        self.batch_size = batch_size
        self.noise = noise
        self.learning_rate = learning_rate
        self.device = device
        self.dtype = dtype
        self.random_state = random_state

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

    # ---- fitting -------------------------------------------------------------------------------

    def _fit(self, problem: Problem) -> Outcome:
        return self._train(_Fit(self, problem), problem)

    def _train(self, fit: _Fit, problem: Problem) -> Outcome:
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
        self._noise = fit.noise.detach().clone()
        mean, variance = fit.encode(fit.Y)
        self.embedding_ = Posterior(to_numpy(mean), to_numpy(variance))
        self.relevance_ = {name: to_numpy(alpha) for name, alpha in fit.relevance(mean).items()}
        self.inducing_inputs_ = {}
        return outcome

    # ---- inference and decoding ----------------------------------------------------------------

    @property
    def noise_variance_(self) -> NDArray[np.float64]:
        """σ_d² of the columns that vary, standardised units, [D]."""
        return to_numpy(self._noise)

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            mean, log_variance = self._encoder(Y)
            return mean, log_variance.exp()

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            mean = self._network(X)
            noise = self._noise.expand_as(mean)
            return mean, noise, noise

    def _metric(self, X: Tensor) -> Tensor:
        return self._network.metric(X)

    def _log_density(self, Y: Tensor) -> Tensor:
        def given(Y: Tensor, X: Tensor) -> Tensor:
            mean = self._network(X.reshape(-1, X.shape[-1])).reshape(*X.shape[:2], -1)
            return _log_normal(Y, mean, self._noise)

        with torch.no_grad():
            return log_marginal(given, Y, *self._posterior(Y))

    # ---- storage -------------------------------------------------------------------------------

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays = network_arrays(self._encoder, "encoder.")
        arrays |= network_arrays(self._network, "decoder.")
        return {**arrays, "noise": self._noise.cpu().numpy()}, {}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        del facts
        like, unused = self._to_tensor(np.zeros(1)), torch.Generator()
        self._noise = self._to_tensor(arrays["noise"].copy())
        D, Q = len(self._noise), self.embedding_.mean.shape[1]
        self._encoder = Encoder(D, self.n_hidden, Q, like, unused)
        self._network = Network(Q, self.n_hidden, D, like, unused)
        restore_network(self._encoder, arrays, "encoder.")
        restore_network(self._network, arrays, "decoder.")


class SupervisedVAE(ClassifierMixin, VAE):
    """A variational autoencoder with a classifier on the map.

    To the bound of ``VAE`` it adds w · Σ_n E_{q(x_n)} log softmax(h(x_n))_label with h a network:
    the encoder sees the columns alone, and the label shapes the map through h. A row without a
    label leaves that term only.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``data`` as in ``VAE``; ``labels`` likewise, of the classes' log-odds, [Q].
    """

    key: ClassVar[str] = "supervised_vae"
    title: ClassVar[str] = "Supervised autoencoder"
    summary: ClassVar[str] = (
        "A variational autoencoder whose map a class label shapes: a baseline for LDGD."
    )
    paper: ClassVar[str] = "Ziaei et al. 2024, as their baseline"
    order: ClassVar[int] = 35
    capabilities: ClassVar[Capabilities] = Capabilities(
        labels="required",
        missing_labels=True,
        sampling=True,
        uncertainty=True,
        bound=True,
        amortised=True,
    )

    classes_: NDArray[Any]
    _head: Network

    def __init__(
        self,
        *,
        n_components: Components = None,
        max_iter: MaxIter = 1000,
        label_weight: LabelWeight = 1.0,
        class_weight: ClassWeight = "equal",
        n_hidden: Hidden = 128,
        batch_size: BatchSize = 512,
        noise: Noise = "column",
        learning_rate: LearningRate = 0.03,
        device: Device = "auto",
        dtype: Dtype = "float64",
        random_state: Seed = 0,
    ) -> None:
        super().__init__(
            n_components=n_components,
            max_iter=max_iter,
            n_hidden=n_hidden,
            batch_size=batch_size,
            noise=noise,
            learning_rate=learning_rate,
            device=device,
            dtype=dtype,
            random_state=random_state,
        )
        self.label_weight = label_weight
        self.class_weight = class_weight

    def _fit(self, problem: Problem) -> Outcome:
        codes = np.asarray(problem.labels[0].codes)
        weights = self.label_weight * row_weights(codes, self.class_weight)
        fit = _Fit(self, problem).with_labels(problem, weights, self.n_hidden)
        outcome = self._train(fit, problem)
        assert fit.head is not None
        self._head, self._codes = fit.head, codes
        return outcome

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Class probabilities of rows, averaged over where each may lie, [N, C].

        Raises:
            DataError: the rows do not fit the model (columns, infinite or missing cells).
        """
        posterior = self.posterior(X)
        mean, sd = self._to_tensor(posterior.mean), self._to_tensor(np.sqrt(posterior.variance))
        draws = standard_draws(LABEL_DRAWS, mean.shape[1], mean)
        with torch.no_grad():
            total = sum(
                (torch.softmax(self._head(mean + sd * draw), 1) for draw in draws),
                mean.new_zeros(()),
            )
        return to_numpy(total / total.sum(1, keepdim=True))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row, [N]."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Accuracy of ``predict(X)`` against the labels y."""
        return float(ClassifierMixin.score(self, X, y))

    def _decode_labels(self, X: Tensor, column: int) -> tuple[Tensor, Tensor, Tensor]:
        del column  # there is one
        with torch.no_grad():
            p = torch.softmax(self._head(X), 1)
            return p, p, torch.zeros_like(p)

    def _sample_latent(self, n: int, label: Any, rng: np.random.Generator) -> NDArray[np.float64]:
        """From the prior, or for a label from the mixture of its rows' posteriors, [n, Q]."""
        if label is None:
            return super()._sample_latent(n, None, rng)
        return draw_of_class(self.embedding_, self._codes, self.classes_, n, label, rng)

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        return {**arrays, **network_arrays(self._head, "head."), "codes": self._codes}, facts

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._set_state(arrays, facts)
        Q, C = self.embedding_.mean.shape[1], len(self.classes_)
        self._head = Network(Q, self.n_hidden, C, self._noise, torch.Generator())
        restore_network(self._head, arrays, "head.")
        self._codes = np.asarray(arrays["codes"])


class _Fit:
    """The objective: reconstruction, the divergence, and with labels their log likelihood."""

    def __init__(self, settings: VAE, problem: Problem) -> None:
        Y, Q, generator = problem.Y, problem.n_components, problem.generator
        self.Y, self.generator = Y, generator
        columns = Y.shape[1]
        self.encoder = Encoder(columns, settings.n_hidden, Q, Y, generator)
        start = pca_start(problem)
        self.encoder.start(problem.table, start)
        self.decoder = Network(Q, settings.n_hidden, columns, Y, generator)
        self.decoder.start(*fit_line(HeldRows(start), Y))
        shape = (columns if settings.noise == "column" else 1,)
        self.log_noise = torch.nn.Parameter(Y.new_full(shape, START_NOISE).log())
        self.batches = Batches(len(Y), settings.batch_size, generator)
        self.cells = Y.numel()
        self.head: Network | None = None

    def with_labels(self, problem: Problem, weights: NDArray[np.float64], n_hidden: int) -> Self:
        """Add the classifier; a row of weight 0 has no label."""
        labels = problem.labels[0]
        Q, C = problem.n_components, len(labels.classes)
        self.head = Network(Q, n_hidden, C, self.Y, self.generator)
        self.classes = torch.as_tensor(labels.codes).to(self.Y.device)
        self.weights = torch.as_tensor(weights).to(self.Y)
        self.cells += round(weights.sum() * C)
        return self

    @property
    def noise(self) -> Tensor:
        """σ² of each column, [D]."""
        return (self.log_noise.exp() + NOISE_FLOOR).expand(self.Y.shape[1])

    def encode(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        """q(x) of many rows; no gradient."""
        with torch.no_grad():
            parts = [self.encoder(some) for some in torch.split(Y, ROWS_AT_A_TIME)]
            mean, log_variance = (torch.cat(part) for part in zip(*parts, strict=True))
            return mean, log_variance.exp()

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        networks = (self.encoder, self.decoder, *(() if self.head is None else (self.head,)))
        return [*(p for network in networks for p in network.parameters()), self.log_noise]

    def state(self) -> Iterable[Tensor]:
        return self.batches.buffers()

    def held(self) -> Iterable[torch.nn.Parameter]:
        return [self.log_noise]

    def batch_terms(self) -> dict[str, Tensor]:
        rows = self.batches.next().to(self.Y.device)
        scale = len(self.Y) / len(rows)
        return {name: scale * term for name, term in self._terms_of(rows, 1).items()}

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        rows = torch.arange(len(self.Y), device=self.Y.device)
        with torch.no_grad():
            parts = [self._terms_of(some, draws) for some in torch.split(rows, ROWS_AT_A_TIME)]
        return {name: torch.stack([part[name] for part in parts]).sum() for name in parts[0]}

    def _terms_of(self, rows: Tensor, draws: int) -> dict[str, Tensor]:
        """The terms of some rows, averaged over draws of their places."""
        Y = self.Y[rows]
        mean, log_variance = self.encoder(Y)
        noise = torch.randn((draws, *mean.shape), generator=self.generator, dtype=torch.float64)
        X = (mean + (0.5 * log_variance).exp() * noise.to(mean)).reshape(-1, mean.shape[1])
        fit = _log_normal(Y.repeat(draws, 1), self.decoder(X), self.noise)
        terms = {"data fit": fit.double().sum() / draws}
        if self.head is not None:
            log_p = torch.log_softmax(self.head(X), 1).reshape(draws, len(rows), -1).mean(0)
            chosen = log_p.gather(1, self.classes[rows].clamp_min(0)[:, None])[:, 0]
            terms["label fit"] = (self.weights[rows] * chosen).double().sum()
        terms["KL of the map"] = -kl_standard_normal(mean, log_variance.exp()).double().sum()
        return terms

    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        """Mean squared slope of each network along each dimension, at some of the rows."""
        points = mean[:: max(1, len(mean) // SLOPE_ROWS)]
        with torch.no_grad():
            found = {"data": _mean_square(self.decoder.slopes(points))}
            if self.head is not None:
                slopes = self.head.slopes(points)
                # Of the log-odds: what all classes share changes no probability.
                found["labels"] = _mean_square(slopes - slopes.mean(2, keepdim=True))
        return found

    def snapshot(self) -> Snapshot:
        rows = thinned(len(self.Y))
        mean, _ = self.encode(self.Y[rows])
        return snapshot_of(mean, self.relevance(mean), rows)


def _mean_square(slopes: Tensor) -> Tensor:
    """Σ_k slope² of each dimension, averaged over rows, a little above 0, [Q]."""
    return slopes.square().sum(2).mean(0) + 1e-12


def _log_normal(Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Σ_d log N(y_d | mean_d, variance_d) over the last dimension."""
    return -0.5 * (LOG_2PI + variance.log() + (Y - mean).square() / variance).sum(-1)
