"""A block of rows with class labels: what a shard of LDGD computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.gp.rows.label_draws import drawn_rows, standard_noise
from lvmcore.gp.rows.latent_block import LatentBlock
from lvmcore.gp.rows.latent_rows import LatentRows
from lvmcore.gp.rows.sharded_rows import ShardedRows
from lvmcore.training.label_term import LabelledSample, LabelModel, LabelTerm, label_signs

__all__ = ["BlockLabels", "LabelFacts", "LabelledBlock", "ShardedLabelTerm", "label_facts"]


@dataclass(frozen=True)
class BlockLabels:
    """One label column in a block of rows.

    Attributes:
        labelled: numbers of all labelled rows of the table, [n].
        codes: class of each row of the block, −1 for a missing label.
        weights: weight of each row of the block.
        n_classes: C.
    """

    labelled: NDArray[np.int64]
    codes: NDArray[np.int64]
    weights: NDArray[np.float64]
    n_classes: int


@dataclass(frozen=True)
class LabelFacts:
    """What a step says of the samples of q(X): all shards then draw the same numbers.

    Attributes:
        state: of the generator.
        draws: number of samples of q(X).
        samples: samples of each row's position per draw.
    """

    state: NDArray[np.uint8]
    draws: int
    samples: int


class LabelledBlock(LatentBlock):
    """Rows with labels: its sums are those of ``LatentBlock``, then the term of each label column.

    Args:
        path: the path to the columns.
        rows: q(X) of the block.
        Y: the rows, [n, D].
        first: number of the first row in the table.
        label_paths: the Gaussian processes of each label column.
        columns: the label columns.
    """

    def __init__(
        self,
        path: nn.Module,
        rows: LatentRows,
        Y: Tensor,
        first: int,
        label_paths: Sequence[nn.Module],
        columns: Sequence[BlockLabels],
    ) -> None:
        super().__init__(path, rows, Y, first, label_paths)
        self.columns = list(columns)

    def sums(self, facts: Any) -> tuple[Tensor, ...]:
        """Psi statistics and moments; with facts of samples also the label terms."""
        found = super().sums(None)
        if facts is None:
            return found
        generator = torch.Generator()
        generator.set_state(torch.from_numpy(facts.state.copy()))
        models: Any = list(self.shared.children())[1:]
        terms = [
            self._label_term(model, column, facts, generator)
            for model, column in zip(models, self.columns, strict=True)
        ]
        return *found, *terms

    def _label_term(
        self, model: LabelModel, column: BlockLabels, facts: LabelFacts, generator: torch.Generator
    ) -> Tensor:
        """Σ_n w_n E log P(label_n) of the block's rows, averaged over the samples, []."""
        Q = self.rows.shape[1]
        codes = torch.from_numpy(column.codes)
        weights = torch.from_numpy(column.weights).to(self.Y)
        total, count = self.Y.new_zeros(()), 0
        drawn = drawn_rows(torch.from_numpy(column.labelled), facts.draws, facts.samples, generator)
        for rows, samples, scale in drawn:
            noise = standard_noise(samples, len(rows), Q, generator)
            at = rows - self.first
            here = (at >= 0) & (at < len(self.Y))
            own, count = at[here], count + 1
            if len(own):
                X = self.rows.displaced(own, noise[:, here])
                signs = label_signs(codes[own], column.n_classes, X)
                total = total + model.expected_log_likelihood(X, signs, scale * weights[own])
        return total / max(1, count)


class ShardedLabelTerm(LabelTerm):
    """The label term of rows in shards, from their last evaluation.

    Args:
        rows: the rows.
        place: position of the label column.
        term: the arguments of ``LabelTerm``.
    """

    def __init__(self, rows: ShardedRows, place: int, *term: Any) -> None:
        super().__init__(*term)
        self._rows, self._place = rows, place

    def value(self, sample: LabelledSample) -> Tensor:
        """The term, averaged over the samples of the latent positions, []."""
        del sample
        return self._rows.further[self._place]


def label_facts(
    terms: Sequence[LabelTerm], draws: int, samples: int, Q: int, generator: torch.Generator
) -> LabelFacts:
    """The facts of an evaluation; the generator goes on as far as the shards' go.

    Args:
        terms: the label terms.
        draws: number of samples of q(X).
        samples: samples of each row's position per draw.
        Q: number of latent dimensions.
        generator: generator of the samples.
    """
    facts = LabelFacts(generator.get_state().numpy(), draws, samples)
    for term in terms:
        for rows, count, _ in drawn_rows(term.rows, draws, samples, generator):
            standard_noise(count, len(rows), Q, generator)
    return facts
