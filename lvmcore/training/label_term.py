"""The label term of an objective: expected log likelihood of class labels under q(X)."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Protocol, Self

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from lvmcore.preprocessing.class_labels import ClassLabels
from lvmcore.training.objective import Term

__all__ = ["LabelModel", "LabelTerm", "LabelledSample", "label_signs"]


class LabelModel(Protocol):
    """A classifier of latent positions."""

    def expected_log_likelihood(self, X: Tensor, signs: Tensor, weights: Tensor) -> Tensor:
        """Σ_n w_n E log P(label_n | x_n), averaged over the samples, [].

        Args:
            X: samples of the rows' latent positions, [S, n, Q].
            signs: +1 for a row's class and −1 otherwise, [n, C].
            weights: w, [n].
        """


class LabelledSample(Protocol):
    """Samples of latent positions, as a label term needs them."""

    def labelled_positions(self, term: LabelTerm) -> Iterable[tuple[Tensor, Tensor, float]]:
        """Labelled rows and samples of their latent positions.

        Args:
            term: says which rows have a label.

        Yields:
            Row numbers [n], positions X [S, n, Q], and the factor by which a sum over these rows
            estimates the sum over all labelled rows without bias. The term averages what is
            yielded.
        """


class LabelTerm(Term[LabelledSample]):
    """Σ_n w_n E_q(x_n) log P(label_n | x_n) of one label column.

    Args:
        name: of the term.
        model: the classifier.
        labels: classes and codes of the column; code −1 marks a missing label.
        weights: w of each row, [N].
        like: dtype and device of the weights.
    """

    def __init__(
        self, name: str, model: LabelModel, labels: ClassLabels, weights: ArrayLike, like: Tensor
    ) -> None:
        self.name, self.model = name, model
        self.n_classes = len(labels.classes)
        self.codes = torch.as_tensor(labels.codes).to(like.device)
        self.weights = torch.as_tensor(weights).to(like)
        #: Row numbers of the labelled rows, [n].
        self.rows = torch.nonzero(self.codes >= 0)[:, 0]

    def part(self, rows: slice) -> Self:
        """The term of consecutive rows, numbered from 0, with the same model."""
        found = copy(self)
        found.codes, found.weights = self.codes[rows].clone(), self.weights[rows].clone()
        found.rows = torch.nonzero(found.codes >= 0)[:, 0]
        return found

    def value(self, sample: LabelledSample) -> Tensor:
        """The term, averaged over the samples of the latent positions, []."""
        values = [
            self.model.expected_log_likelihood(
                X, label_signs(self.codes[rows], self.n_classes, X), scale * self.weights[rows]
            )
            for rows, X, scale in sample.labelled_positions(self)
        ]
        return torch.stack(values).sum() / len(values)


def label_signs(codes: Tensor, n_classes: int, like: Tensor) -> Tensor:
    """+1 for the class of each row and −1 otherwise, [n, C], in the dtype of ``like``."""
    return 2 * torch.nn.functional.one_hot(codes, n_classes).to(like) - 1
