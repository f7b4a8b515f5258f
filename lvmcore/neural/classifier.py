"""A network as a classifier: the softmax of a linear function of its features, and its objective.

P(class c | x) = softmax(a + Wᵀ g(x))_c, with g a network of columns or of pictures. All weights θ
have a prior around their initial values, so that the objective is the log posterior

Σ_n log P(y_n | x_n) − ‖θ − θ₀‖²/(2τ²).

Notation: H non-constant columns, U features, C classes, B rows of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.neural.convolutional import ConvolutionalNetwork
from lvmcore.neural.networks import DenseLayer, Network
from lvmcore.training.batches import Batches
from lvmcore.training.objective import Objective, Term, total_values

__all__ = ["ClassifierNetwork", "ClassifierObjective", "class_codes"]

# Rows in one pass through the network, other than those of a step.
BLOCK_ROWS = 1024


def class_codes(signs: Tensor) -> Tensor:
    """Codes [N] of classes from their signs [N, C]; of two classes from those of the second."""
    if signs.shape[1] == 1:
        return (signs[:, 0] > 0).long()
    return signs.argmax(1)


class ClassifierNetwork(nn.Module):
    """log P(class | x), initially the shares of the classes.

    Args:
        features: g, initialised.
        n_features: U.
        n_classes: C.
        like: dtype and device of the rows.
    """

    column_relevance: Tensor

    def __init__(
        self,
        features: Network | ConvolutionalNetwork,
        n_features: int,
        n_classes: int,
        like: Tensor,
    ) -> None:
        super().__init__()
        self.features = features
        self.last = DenseLayer(n_features, n_classes, like, None)
        self.register_buffer("column_relevance", like.new_zeros(like.shape[1]))

    @torch.no_grad()
    def start(self, codes: Tensor) -> None:
        """Set a to the log shares of the classes among codes [N]."""
        counts = torch.bincount(codes, minlength=len(self.last.bias))
        self.last.bias.copy_((counts / counts.sum()).log())

    def forward(self, X: Tensor) -> Tensor:
        """log P(class | x) of rows X [B, H], [B, C]."""
        return torch.log_softmax(self.last(self.features(X)), 1)

    @torch.no_grad()
    def feature_values(self, X: Tensor) -> Tensor:
        """g of rows X [N, H], in blocks, [N, U]."""
        return torch.cat([self.features(rows) for rows in torch.split(X, BLOCK_ROWS)])

    @torch.no_grad()
    def probability(self, X: Tensor) -> Tensor:
        """P(class | x) of rows X [N, H], in blocks, [N, C]."""
        return torch.cat([self(rows).exp() for rows in torch.split(X, BLOCK_ROWS)])

    @property
    def _contrasts(self) -> Tensor:
        """W without what all classes share, which changes no probability, [U, C]."""
        slope = self.last.slope
        return slope - slope.mean(1, keepdim=True)

    @property
    def feature_relevance(self) -> Tensor:
        """Σ_c (w_uc − w̄_u)² of each feature, W with its scale, [U]."""
        return self._contrasts.square().sum(1)

    @torch.no_grad()
    def measure_relevance(self, X: Tensor) -> None:
        """Set ``column_relevance``, [H], from the gradients at rows X [N, H].

        α_h = 1/N Σ_n Σ_c (∂f_c/∂x_h − mean over c)², f = Wᵀ g(x): of the log odds of the classes.
        """
        total = torch.zeros_like(self.column_relevance)
        for rows in torch.split(X, BLOCK_ROWS):
            total += (self.features.slopes(rows) @ self._contrasts).square().sum((0, 2))
        self.column_relevance.copy_(total / len(X))


@dataclass(frozen=True)
class ClassBatch:
    """log P of all classes for some rows.

    Attributes:
        rows: row numbers, [B].
        log_probability: [B, C].
        scale: N/B, by which a sum over these rows estimates that over all.
    """

    rows: Tensor
    log_probability: Tensor
    scale: float


class ClassFitTerm(Term[ClassBatch]):
    """Σ_n log P(y_n | x_n), estimated from a batch.

    Args:
        codes: classes of the rows, [N].
    """

    name = "data fit"

    def __init__(self, codes: Tensor) -> None:
        self.codes = codes

    def value(self, sample: ClassBatch) -> Tensor:
        """The estimate, []."""
        chosen = sample.log_probability.gather(1, self.codes[sample.rows][:, None])
        return sample.scale * chosen.sum()


class ClassifierObjective(Objective[ClassBatch]):
    """Σ_n log P(y_n | x_n) − ‖θ − θ₀‖²/(2τ²).

    Args:
        network: initialised; its weights are θ₀.
        X: inputs, standardised, [N, H].
        codes: classes, [N].
        scale: τ.
        batch_size: B.
        generator: of the order of the batches.
    """

    def __init__(
        self,
        network: ClassifierNetwork,
        X: Tensor,
        codes: Tensor,
        *,
        scale: float,
        batch_size: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__([network], [ClassFitTerm(codes)])
        self.network, self.X, self.scale = network, X, scale
        self.batches = Batches(len(X), batch_size, generator)
        self.start = self._weights().detach().clone()

    def _weights(self) -> Tensor:
        return nn.utils.parameters_to_vector(self.parameters())

    def _prior(self) -> dict[str, Tensor]:
        """−‖θ − θ₀‖²/(2τ²)."""
        moved = (self._weights() - self.start).square().sum()
        return {"prior of the network": -0.5 * moved / self.scale**2}

    def state(self) -> Iterable[Tensor]:
        """The order of the batches."""
        return self.batches.buffers()

    def values(self, sample: ClassBatch) -> dict[str, Tensor]:
        """The terms at a batch, by name."""
        return super().values(sample) | self._prior()

    def batch_terms(self) -> dict[str, Tensor]:
        """The terms estimated from the next batch."""
        rows = self.batches.next().to(self.X.device)
        return self.values(self._batch(rows, len(self.X) / len(rows)))

    @torch.no_grad()
    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The terms of all rows; nothing is drawn."""
        del draws
        rows = torch.arange(len(self.X), device=self.X.device)
        blocks = torch.split(rows, BLOCK_ROWS)
        fit = total_values(self.summands, (self._batch(some, 1.0) for some in blocks))
        return fit | self._prior()

    def _batch(self, rows: Tensor, scale: float) -> ClassBatch:
        return ClassBatch(rows, self.network(self.X[rows]), scale)

    @property
    def n_rows(self) -> int:
        """N."""
        return len(self.X)

    def latent_mean(self, rows: NDArray[np.intp]) -> Tensor:
        """Features of some rows, [n, U]."""
        return self.network.feature_values(self.X[torch.as_tensor(rows)])

    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        """Relevance of the features."""
        del mean
        return {"layer2": self.network.feature_relevance.detach()}
