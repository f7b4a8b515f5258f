"""Variational autoencoders: the networks' answer to the same maps, as a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from torch import Tensor

from lvmcore.autoencoder import Autoencoder, AutoencoderFit, mean_square, slope_points
from lvmcore.base import Capabilities, Problem
from lvmcore.checks import to_numpy
from lvmcore.draws import standard_draws
from lvmcore.gplvm import START_NOISE
from lvmcore.labelled import draw_of_class
from lvmcore.labels import row_weights
from lvmcore.layers import NOISE_FLOOR
from lvmcore.networks import Network, network_arrays, restore_network
from lvmcore.parameters import (
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
from lvmcore.training import Outcome
from lvmcore.variational import LOG_2PI

__all__ = ["VAE", "SupervisedVAE"]

LABEL_DRAWS = 64


class VAE(Autoencoder):
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

    # ---- fitting -------------------------------------------------------------------------------

    def _fit(self, problem: Problem) -> Outcome:
        return self._train(_Fit(self, problem), problem)

    def _train(self, fit: AutoencoderFit, problem: Problem) -> Outcome:
        outcome = super()._train(fit, problem)
        assert isinstance(fit, _Fit)
        self._noise = fit.noise.detach().clone()
        return outcome

    # ---- inference and decoding ----------------------------------------------------------------

    @property
    def noise_variance_(self) -> NDArray[np.float64]:
        """σ_d² of the columns that vary, standardised units, [D]."""
        return to_numpy(self._noise)

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            mean = self._network(X)
            noise = self._noise.expand_as(mean)
            return mean, noise, noise

    def _metric(self, X: Tensor) -> Tensor:
        return self._network.metric(X)

    def _log_given(self, Y: Tensor, out: Tensor) -> Tensor:
        return _log_normal(Y, out, self._noise)

    # ---- storage -------------------------------------------------------------------------------

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        return {**arrays, "noise": self._noise.cpu().numpy()}, facts

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._set_state(arrays, facts)
        self._noise = self._to_tensor(arrays["noise"].copy())


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
        fit = _LabelledFit(self, problem, weights)
        outcome = self._train(fit, problem)
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


class _Fit(AutoencoderFit):
    """The objective with Gaussian columns."""

    def __init__(self, settings: VAE, problem: Problem) -> None:
        super().__init__(settings, problem, problem.table, problem.Y)
        shape = (self.Y.shape[1] if settings.noise == "column" else 1,)
        self.log_noise = torch.nn.Parameter(self.Y.new_full(shape, START_NOISE).log())

    @property
    def noise(self) -> Tensor:
        """σ² of each column, [D]."""
        return (self.log_noise.exp() + NOISE_FLOOR).expand(self.Y.shape[1])

    def log_given(self, Y: Tensor, out: Tensor) -> Tensor:
        return _log_normal(Y, out, self.noise)

    def held(self) -> Iterable[torch.nn.Parameter]:
        return [self.log_noise]


class _LabelledFit(_Fit):
    """With the log likelihood of the labels; a row of weight 0 has no label."""

    def __init__(self, settings: VAE, problem: Problem, weights: NDArray[np.float64]) -> None:
        super().__init__(settings, problem)
        labels = problem.labels[0]
        Q, C = problem.n_components, len(labels.classes)
        self.head = Network(Q, settings.n_hidden, C, self.Y, self.generator)
        self.classes = torch.as_tensor(labels.codes).to(self.Y.device)
        self.weights = torch.as_tensor(weights).to(self.Y)
        self.cells += round(weights.sum() * C)

    def networks(self) -> list[torch.nn.Module]:
        return [*super().networks(), self.head]

    def further_terms(self, rows: Tensor, X: Tensor, draws: int) -> dict[str, Tensor]:
        log_p = torch.log_softmax(self.head(X), 1).reshape(draws, len(rows), -1).mean(0)
        chosen = log_p.gather(1, self.classes[rows].clamp_min(0)[:, None])[:, 0]
        return {"label fit": (self.weights[rows] * chosen).double().sum()}

    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        with torch.no_grad():
            slopes = self.head.slopes(slope_points(mean))
            # Of the log-odds: what all classes share changes no probability.
            labels = mean_square(slopes - slopes.mean(2, keepdim=True))
        return {**super().relevance(mean), "labels": labels}


def _log_normal(Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Σ_d log N(y_d | mean_d, variance_d) over the last dimension."""
    return -0.5 * (LOG_2PI + variance.log() + (Y - mean).square() / variance).sum(-1)
