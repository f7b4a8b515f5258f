"""Autoencoders of numbers: Gaussian columns, and the objective with a classifier on the map."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.neural.networks import Network
from lvmcore.neural.objective import (
    AutoencoderNetworks,
    AutoencoderObjective,
    AutoencoderSettings,
    OutputLikelihood,
    jacobian_points,
    mean_square,
)
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.training.label_term import LabelTerm

__all__ = ["ClassifierHead", "GaussianOutput", "SupervisedVAEObjective", "log_normal"]


class GaussianOutput(OutputLikelihood):
    """y_d ~ N(output_d, σ_d²).

    Args:
        Y: the table, [N, D]; its width, dtype and device are used.
        noise: initial σ².
        floor: added to σ², so that a column that is fitted exactly keeps a finite density.
        shared: one σ² for all columns.
    """

    def __init__(self, Y: Tensor, noise: float, floor: float, *, shared: bool) -> None:
        super().__init__()
        self.n_columns, self.floor = Y.shape[1], floor
        self.log_noise = nn.Parameter(Y.new_full((1 if shared else self.n_columns,), noise).log())

    @property
    def noise(self) -> Tensor:
        """σ² of each column, [D]."""
        return (self.log_noise.exp() + self.floor).expand(self.n_columns)

    def log_probability(self, Y: Tensor, output: Tensor) -> Tensor:
        """Σ_d log N(y_d | output_d, σ_d²), over the last dimension."""
        return log_normal(Y, output, self.noise)


class ClassifierHead(nn.Module):
    """P(class | x) = softmax(h(x)), h a network.

    Args:
        network: h.
    """

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def expected_log_likelihood(self, X: Tensor, signs: Tensor, weights: Tensor) -> Tensor:
        """Σ_n w_n log softmax(h(x_n))_label averaged over the samples, float64, [].

        Args:
            X: samples of the rows' latent positions, [S, n, Q].
            signs: +1 for a row's class and −1 otherwise, [n, C].
            weights: w, [n].
        """
        logits = self.network(X.reshape(-1, X.shape[-1]))
        log_p = torch.log_softmax(logits, 1).reshape(*X.shape[:2], -1).mean(0)
        chosen = log_p.gather(1, signs.argmax(1, keepdim=True))[:, 0]
        return (weights * chosen).double().sum()

    def relevance(self, X: Tensor) -> Tensor:
        """Mean squared slope of the log-odds of the classes at points X [n, Q], [Q].

        A slope that all classes share changes no probability and is subtracted.
        """
        slopes = self.network.slopes(X)
        return mean_square(slopes - slopes.mean(2, keepdim=True))


class SupervisedVAEObjective(AutoencoderObjective[GaussianOutput]):
    """The objective of a VAE with w · Σ_n E_q(x_n) log softmax(h(x_n))_label added.

    Args:
        settings: of the model.
        problem: the table and its labels.
        networks: encoder and decoder.
        likelihood: of the columns.
        weights: w of each row, 0 without a label, [N].
    """

    def __init__(
        self,
        settings: AutoencoderSettings,
        problem: FitProblem,
        networks: AutoencoderNetworks,
        likelihood: GaussianOutput,
        weights: ArrayLike,
    ) -> None:
        labels = problem.labels[0]
        Q, C = problem.n_components, len(labels.classes)
        network = Network(Q, settings.n_hidden, C, problem.Y, problem.generator)
        self.head = ClassifierHead(network)
        self.label = LabelTerm("label fit", self.head, labels, weights, problem.Y)
        self._label_cells = round(float(np.sum(weights)) * C)
        super().__init__(
            settings, problem, networks, likelihood, further=[self.label], modules=[self.head]
        )

    @property
    def cells(self) -> int:
        """Number of cells, those of the weighted labels included."""
        return super().cells + self._label_cells

    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        """Mean squared slopes of the decoder's output and of the classes' log-odds, [Q] each."""
        with torch.no_grad():
            own = {"labels": self.head.relevance(jacobian_points(mean))}
        return {**super().relevance(mean), **own}


def log_normal(Y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Σ_d log N(y_d | mean_d, variance_d) over the last dimension."""
    return -0.5 * (LOG_2PI + variance.log() + (Y - mean).square() / variance).sum(-1)
