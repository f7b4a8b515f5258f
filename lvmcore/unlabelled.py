"""What Gaussian-process maps share that learn from the columns alone, every row in every step."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import ClassVar, Self

import torch
from torch import Tensor

from lvmcore.base import Problem
from lvmcore.checks import to_numpy
from lvmcore.counts import Cells
from lvmcore.gplvm import (
    LONG_TABLE,
    START_VARIANCE,
    DataTerm,
    SparseDecoder,
    SparseGPModel,
    advised_inducing,
    advised_steps,
    snapshot_of,
    spread_points,
)
from lvmcore.intervals import Settled
from lvmcore.layers import DataPath, KernelPath, LatentRows
from lvmcore.parameters import Advised
from lvmcore.restarts import Restarting
from lvmcore.results import Snapshot
from lvmcore.training import Outcome, Schedule, train

__all__ = ["MapFit", "UnlabelledMap"]


class MapFit:
    """The objective: collapsed bound less KL_X.

    Args:
        rows: q(X), where it begins.
        path: kernel, inducing inputs and noise, where they begin.
        problem: what is fitted.
    """

    def __init__(self, rows: LatentRows, path: DataPath, problem: Problem) -> None:
        self.rows, self.path, self.data = rows, path, DataTerm(problem)

    @property
    def first(self) -> KernelPath:
        """The path that the map leads into."""
        return self.path

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """All that is optimised."""
        return [*self.rows.parameters(), *self.path.parameters()]

    def held(self) -> Iterable[torch.nn.Parameter]:
        """The noise, until the map has taken shape."""
        return [self.path.log_noise]

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The bound of the columns, and −KL_X."""
        del draws
        bound = self.data.bound(self.path, self.rows)
        return {"data fit": bound, "KL of the map": -self.rows.kl()}

    def snapshot(self) -> Snapshot:
        """The map as it stands."""
        return snapshot_of(self.rows.mean, {"data": self.first.kernel.relevance})

    def decoder(self) -> SparseDecoder:
        """The path frozen at the optimal q(V)."""
        return self.data.decoder(self.path, self.rows)

    def elsewhere(self, problem: Problem) -> Self:
        """The fit as it stands, to go on with other cells; this one stays as it is."""
        return type(self)(deepcopy(self.rows), deepcopy(self.path), problem)


class UnlabelledMap(Restarting, SparseGPModel):
    """A fit of q(X), kernel, inducing inputs and noise to the columns, from a start."""

    final_draws: ClassVar[int] = 1  # that the bound in the end averages, where it is sampled

    @classmethod
    def advise(
        cls, *, n_rows: int, n_columns: int, n_classes: int = 0, cells: Cells = "any"
    ) -> dict[str, Advised]:
        """More inducing inputs for longer tables; for very long ones fewer steps instead."""
        del n_columns, cells
        if n_rows > LONG_TABLE:
            return {"max_iter": advised_steps(n_rows)}
        return {"n_inducing": advised_inducing(50, n_rows, n_classes)} if n_rows > 1000 else {}

    def _objective(self, rows: LatentRows, path: DataPath, problem: Problem) -> MapFit:
        """What is maximised."""
        return MapFit(rows, path, problem)

    def _schedule(self, cells: int) -> Schedule:
        """The course of a fit to so many cells."""
        return Schedule(self.max_iter, self.learning_rate, cells)

    def _fit_start(self, problem: Problem, X: Tensor) -> Outcome:
        Z = spread_points(X, self._inducing_count(len(X)), problem.generator)
        gaps = problem.observed is not None
        path = DataPath(Z, self._start_noise(problem), pooled=gaps)
        fit = self._objective(LatentRows(X, START_VARIANCE), path, problem)
        schedule = self._schedule(fit.data.count)
        outcome = train(
            fit,
            schedule,
            problem.callback,
            draws=self.final_draws,
            checkpoint=problem.checkpoint,
        )
        self._keep(fit)

        def go_on(fewer: Problem, steps: int) -> Settled:
            on = fit.elsewhere(fewer)
            train(on, Schedule.to_settle(steps, self.learning_rate, on.data.count), None)
            return Settled.of(on.decoder(), on.rows)

        self._calibrate_by_steps(problem, outcome, go_on)
        return outcome

    def _keep(self, fit: MapFit) -> None:
        """Take over what was fitted."""
        self._decoder = fit.decoder()
        self._keep_rows(fit.rows)
        self.relevance_ = {"data": to_numpy(fit.first.kernel.relevance)}
        self.inducing_inputs_ = {"data": to_numpy(fit.first.Z)}
