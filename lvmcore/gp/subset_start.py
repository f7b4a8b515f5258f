"""A start from subsets of the rows, for long tables whose steps are slow.

The kernel, the inducing inputs and the noise are known well from some thousand rows. Steps of all
rows then only have to place the others and to make small corrections.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor, nn

from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.gp.latent_inference import refine_rows
from lvmcore.gp.objective import GPLVMObjective
from lvmcore.gp.paths import DataPath, LatentRows
from lvmcore.gp.row_relocation import best_positions
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.results import Snapshot
from lvmcore.training.snapshots import thinned

__all__ = ["SubsetStartObjective", "subset_start_objective"]

# Evaluations that improve the position of each row outside the subset when it is placed.
PLACEMENT_STEPS = 5


def subset_start_objective(
    rows: LatentRows, path: DataPath, problem: FitProblem, subsets: Sequence[Tensor]
) -> GPLVMObjective:
    """The objective of a fit that starts with nested subsets of the rows, if there are any.

    Args:
        rows: initial q(X).
        path: initial kernel, inducing inputs and noise.
        problem: the problem to fit.
        subsets: the rows of each subset, smallest first, by their positions in the next one, and of
            the last in the table.
    """
    if not subsets:
        return GPLVMObjective(rows, path, problem)
    return SubsetStartObjective(rows, path, problem, subsets)


class SubsetStartObjective(GPLVMObjective):
    """F(q(X)) − KL(q(X) ‖ N(0, I)), at first of a subset of the rows, with the terms times N/n.

    ``place_rows`` adds the other rows: each at the position of the row of the subset where its own
    cells have the highest expected density, improved by a few steps with all else fixed.

    Args:
        rows: as of ``subset_start_objective``, and so are the others.
        path: initial kernel, inducing inputs and noise.
        problem: the problem to fit.
        subsets: at least one.

    Attributes:
        subset: the rows of the largest subset, [n].
        start: its objective.
        placed: 1 where the bound is that of all rows, else 0, [].
    """

    def __init__(
        self, rows: LatentRows, path: DataPath, problem: FitProblem, subsets: Sequence[Tensor]
    ) -> None:
        super().__init__(rows, path, problem)
        *smaller, self.subset = subsets
        own = deepcopy(rows)
        for parameter in own.parameters():
            parameter.data = parameter.data[self.subset]
        part = replace(problem, table=InMemoryRows(*problem.table.take(self.subset)))
        self.start = subset_start_objective(own, path, part, smaller)
        self.placed = torch.zeros(())

    def parameters(self) -> list[nn.Parameter]:
        """Those of the rows in the bound, and of the path."""
        return list(super().parameters() if self.placed else self.start.parameters())

    def parameter_scales(self) -> list[Tensor]:
        """As of ``GPLVMObjective``; the curvature by a row of the subset is N/n times as large."""
        if self.placed:
            return super().parameter_scales()
        return [scale * self._weight**-0.5 for scale in self.start.parameter_scales()]

    def state(self) -> Iterable[Tensor]:
        """Whether the rows are placed, and those in the bound later; then those of the subset."""
        optimised = set(self.parameters())
        moved = [*self.rows.parameters(), *self.start.rows.parameters()]
        later = [parameter for parameter in moved if parameter not in optimised]
        return self.placed, *later, *self.start.state()

    @property
    def row_share(self) -> float:
        """Share of the rows in the bound."""
        return 1.0 if self.placed else self.start.row_share / self._weight

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The terms of all rows; before they are placed, those of the subset times N/n."""
        if self.placed:
            return super().terms(draws)
        return {name: self._weight * term for name, term in self.start.terms(draws).items()}

    def relocate_rows(self) -> None:
        """Move rows in the bound, as in ``SparseGPLVMObjective.relocate_rows``."""
        if self.placed:
            super().relocate_rows()
        else:
            self.start.relocate_rows()

    def snapshot(self) -> Snapshot:
        """The current map, of at most 2000 rows in the bound."""
        if self.placed:
            return super().snapshot()
        found = self.start.snapshot()
        return replace(found, rows=self.subset.numpy()[found.rows])

    @torch.no_grad()
    def place_rows(self) -> bool:
        """Place the rows of the next larger subset, or of the table."""
        if self.placed or self.start.place_rows():
            return not self.placed
        rows, decoder = self.rows, self.start.data.decoder(self.start.rows)
        for parameter, own in zip(rows.parameters(), self.start.rows.parameters(), strict=True):
            parameter[self.subset] = own
        Y, cells = self.data.Y.double(), self.data.cells
        observed = None if cells is None else cells.mask.to(Y)
        candidates = self.subset[torch.as_tensor(thinned(len(self.subset)))].to(Y.device)
        mean, variance = rows.mean.double(), rows.variance.double()
        best = best_positions(decoder, Y, observed, mean, variance, candidates)
        others = torch.ones(len(Y), dtype=torch.bool)
        others[self.subset] = False
        at, table = best[others], Y if cells is None else torch.where(cells.mask, Y, torch.nan)
        mean, variance = refine_rows(
            decoder, table[others], mean[at], variance[at], max_iter=PLACEMENT_STEPS
        )
        rows.mean[others] = mean.to(rows.mean)
        rows.log_variance[others] = variance.log().to(rows.mean)
        self.placed.fill_(1)
        return True

    @property
    def _weight(self) -> float:
        """N/n."""
        return self.n_rows / len(self.subset)
