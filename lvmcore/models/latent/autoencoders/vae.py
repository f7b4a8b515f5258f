"""Variational autoencoders as baselines, without and with class labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import Capabilities, FitProblem
from lvmcore.base.settings import (
    BatchSize,
    ClassWeight,
    Components,
    Hidden,
    LabelWeight,
    LearningRate,
    MaxIter,
    Noise,
)
from lvmcore.gp.label_predictions import draw_of_class
from lvmcore.gp.model import START_NOISE
from lvmcore.gp.paths import NOISE_FLOOR
from lvmcore.neural.autoencoder import Autoencoder
from lvmcore.neural.gaussian_objective import GaussianOutput, SupervisedVAEObjective, log_normal
from lvmcore.neural.networks import Network, network_arrays, restore_network
from lvmcore.neural.objective import AutoencoderNetworks, AutoencoderObjective
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.quasi_random import sobol_draws
from lvmcore.preprocessing.class_labels import row_weights
from lvmcore.training.outcome import FitOutcome

__all__ = ["VAE", "SupervisedVAE"]

LABEL_DRAWS = 64


@estimator_dataclass
class VAE(Autoencoder):
    """Variational autoencoder: an encoder network to the map and a decoder network to the columns.

    x_n ~ N(0, I), y_nd = f_d(x_n) + ε_d with f a network and ε_d Gaussian of learned variance;
    q(x_n) = N(mean(y_n), diag variance(y_n)) from the same kind of encoder as Fast LDGD's. It
    maximises Σ_n E_{q(x_n)} log p(y_n | x_n) − KL(q(x_n) ‖ N(0, I)), with one sample of x_n a step
    (Kingma and Welling 2014). Both networks are initialised at the principal components.

    Attributes:
        relevance_: ``data`` holds the mean squared slope of the columns along each latent
            dimension, standardised units, [Q].
        noise_variance_: σ_d² of the columns that vary, standardised units, [D].
    """

    key: ClassVar[str] = "vae"
    title: ClassVar[str] = "Variational autoencoder"
    summary: ClassVar[str] = (
        "A map by two neural networks: quick on long tables; it needs many rows."
    )
    paper: ClassVar[str] = "Kingma and Welling 2014"
    order: ClassVar[int] = 32
    capabilities: ClassVar[Capabilities] = Capabilities(
        sampling=True, uncertainty=True, bound=True, amortised=True, gpu=True
    )

    _noise: Tensor = fitted()

    n_components: Components = None
    max_iter: MaxIter = 1000
    n_hidden: Hidden = 128
    batch_size: BatchSize = 512
    noise: Noise = "column"
    learning_rate: LearningRate = 0.03

    # ---- fitting -------------------------------------------------------------------------------

    def _fit(self, problem: FitProblem) -> FitOutcome:
        fit = AutoencoderObjective(self, problem, *self._parts(problem))
        return self._train(fit, problem)

    def _parts(self, problem: FitProblem) -> tuple[AutoencoderNetworks, GaussianOutput]:
        """Initial encoder and decoder, and the likelihood of the columns."""
        shared = self.noise == "shared"
        networks = AutoencoderNetworks(self.n_hidden, problem, problem.table, problem.Y)
        return networks, GaussianOutput(problem.Y, START_NOISE, NOISE_FLOOR, shared=shared)

    def _train(self, fit: AutoencoderObjective[GaussianOutput], problem: FitProblem) -> FitOutcome:
        outcome = super()._train(fit, problem)
        self._noise = fit.likelihood.noise.detach().clone()
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
        return log_normal(Y, out, self._noise)

    # ---- storage -------------------------------------------------------------------------------

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        return {**arrays, "noise": self._noise.cpu().numpy()}, facts

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._set_state(arrays, facts)
        self._noise = self._to_tensor(arrays["noise"].copy())


@estimator_dataclass
class SupervisedVAE(ClassifierMixin, VAE):
    """A variational autoencoder with a classifier network from the map.

    The objective is the bound of ``VAE`` plus w · Σ_n E_{q(x_n)} log softmax(h(x_n))_label with h a
    network: the input of the encoder is the columns alone, and the labels affect the map through h.
    A row without a label drops out of that term only.

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
        gpu=True,
    )

    classes_: NDArray[Any] = fitted()
    _head: Network = fitted()

    n_components: Components = None
    max_iter: MaxIter = 1000
    label_weight: LabelWeight = 1.0
    class_weight: ClassWeight = "equal"

    def _fit(self, problem: FitProblem) -> FitOutcome:
        codes = np.asarray(problem.labels[0].codes)
        weights = self.label_weight * row_weights(codes, self.class_weight)
        fit = SupervisedVAEObjective(self, problem, *self._parts(problem), weights)
        outcome = self._train(fit, problem)
        self._head, self._codes = fit.head.network, codes
        return outcome

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Class probabilities of rows, averaged over q(x), [N, C].

        Raises:
            DataError: the rows do not fit the model (columns, infinite or missing cells).
        """
        posterior = self.posterior(X)
        mean, sd = self._to_tensor(posterior.mean), self._to_tensor(np.sqrt(posterior.variance))
        draws = sobol_draws(LABEL_DRAWS, mean.shape[1], mean)
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
        del column  # there is only one
        with torch.no_grad():
            p = torch.softmax(self._head(X), 1)
            return p, p, torch.zeros_like(p)

    def _sample_latent(self, n: int, label: Any, rng: np.random.Generator) -> NDArray[np.float64]:
        """From the prior, or for a label from the mixture of the posteriors of its rows, [n, Q]."""
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
