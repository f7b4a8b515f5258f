"""A mini-batch fit over several processes: seconds of a step, and bytes of its messages."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Literal

import numpy as np
import torch

from lvmcore.base.fit_problem import FitProblem
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.latent.shard_messages import CountingConnection, seconds_of
from lvmcore.distributed.process_shard import ProcessConnection
from lvmcore.distributed.row_block import RowBlock, split_rows
from lvmcore.distributed.shards import Connection, Shards
from lvmcore.gp.minibatch.label_terms import LabelSettings
from lvmcore.gp.minibatch.objective import MinibatchObjective
from lvmcore.gp.minibatch.sharded_batches import ShardedBatches
from lvmcore.models.latent.fast_ldgd import FastLDGD
from lvmcore.numerics.threads import torch_threads
from lvmcore.preprocessing.class_labels import ClassLabels
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.training.parameter_state import ParameterState

__all__ = ["rows"]

N_ROWS, D, Q, M, N_CLASSES, HIDDEN = 200_000, 20, 2, 50, 4, 128
BATCHES = (512, 8192)
# Steps in a turn of each of the fits that are compared, and turns.
STEPS, ROUNDS = 6, 7
# Rows with which messages are counted: these depend on the batch alone.
FEW_ROWS = 20_000

Kind = Literal["fast_ldgd", "stochastic_gplvm"]
TITLES: dict[Kind, str] = {
    "fast_ldgd": "Fast LDGD",
    "stochastic_gplvm": "GPLVM-SVI with a q(x) of each row",
}


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    for kind in TITLES:
        for batch in BATCHES:
            yield partial(_speed_row, kind, batch)
    for kind in TITLES:
        yield partial(_bytes_row, kind)


class BatchFit:
    """A mini-batch fit at its start, whose steps one process or several compute.

    Args:
        kind: of the model.
        n_rows: N.
        batch: B.
    """

    def __init__(self, kind: Kind, n_rows: int, batch: int) -> None:
        draw = np.random.default_rng(0)
        X = draw.standard_normal((n_rows, Q))
        Y = np.sin(X @ draw.standard_normal((Q, D))) + 0.2 * draw.standard_normal((n_rows, D))
        codes = np.digitize(X[:, 0], np.linspace(-0.8, 0.8, N_CLASSES - 1))
        classes = np.array(list("abcd"), dtype=object)
        column = ClassLabels(name="y", classes=classes, codes=codes)
        local = kind == "stochastic_gplvm"
        problem = FitProblem(
            InMemoryRows(torch.as_tensor(Y)),
            () if local else (column,),
            Q,
            torch.Generator().manual_seed(0),
            None,
        )
        self.objective = MinibatchObjective(
            FastLDGD(batch_size=batch, n_hidden=HIDDEN),
            problem,
            torch.full((D,), 0.1, dtype=torch.float64),
            M,
            None if local else LabelSettings("probit", 1.0, "equal"),
            local=local,
        )
        self._state = ParameterState(list(self.objective.parameters()))

    def sharded(self, parts: int, connect: Callable[[RowBlock], Connection]) -> ShardedBatches:
        """Its rows in so many shards, which end with the object."""
        fit = self.objective

        def opened(make_block: Callable[[slice], RowBlock], n_rows: int) -> Shards:
            blocks = split_rows(n_rows, parts)
            return Shards([connect(make_block(block)) for block in blocks], blocks)

        return ShardedBatches(fit.table, fit.rows, fit.data, fit.labels, opened)

    def step(self, shards: ShardedBatches | None) -> None:
        """A bound of a batch with its gradient, and a step of each optimiser."""
        fit = self.objective
        self._state.zero_grad()
        if shards is None:
            terms = fit.batch_terms()
        else:
            kl = {term.name: term.value(None) for term in fit.label_kl}
            terms = shards.batch_terms(fit.batches.next(), fit.generator) | kl
        (-torch.stack(list(terms.values())).sum()).backward()  # type: ignore[no-untyped-call]
        self._state.step(1e-9)
        fit.step_rows(1e-9)


@cache
def _seconds(kind: Kind, batch: int) -> dict[int, float]:
    """Median seconds of a step with one process (0), with one shard and with two.

    They take turns, so that a machine whose speed changes changes it for all.
    """
    found: dict[int, list[float]] = {}
    with torch_threads(1):
        fit = BatchFit(kind, N_ROWS, batch)
        ways = {0: None, 1: fit.sharded(1, ProcessConnection), 2: fit.sharded(2, ProcessConnection)}
        for turn in range(ROUNDS + 1):
            for parts, shards in ways.items():
                seconds = seconds_of(partial(fit.step, shards), STEPS)
                if turn:  # the first turn starts the processes
                    found.setdefault(parts, []).extend(seconds)
    return {parts: statistics.median(seconds) for parts, seconds in found.items()}


def _settings(batch: int) -> dict[str, object]:
    return {
        "N": N_ROWS,
        "D": D,
        "Q": Q,
        "M": M,
        "batch": batch,
        "hidden": HIDDEN,
        "classes": N_CLASSES,
        "dtype": "float64",
        "threads a shard": 1,
    }


def _speed_row(kind: Kind, batch: int) -> BenchmarkRow:
    seconds = _seconds(kind, batch)
    return BenchmarkRow(
        f"a step of {TITLES[kind]}, batches of {batch}: two shards on two cores against one "
        "process",
        seconds[0] / seconds[2],
        "x",
        reference=f"{1e3 * seconds[0]:.1f} ms in one process, {1e3 * seconds[1]:.1f} ms with one "
        f"shard, {1e3 * seconds[2]:.1f} ms with two",
        settings={**_settings(batch), "seconds": seconds},
    )


@cache
def _bytes(kind: Kind, batch: int) -> dict[str, float]:
    """Bytes to and from one of two shards in a step."""
    made: list[CountingConnection] = []

    def connect(block: RowBlock) -> CountingConnection:
        made.append(CountingConnection(block))
        return made[-1]

    with torch_threads(1):
        fit = BatchFit(kind, FEW_ROWS, batch)
        shards = fit.sharded(2, connect)
        fit.step(shards)
        one = made[0]
        before = one.sent, one.received, one.messages
        fit.step(shards)
        after = one.sent, one.received, one.messages
    sent, received, messages = (b - a for a, b in zip(before, after, strict=True))
    return {"sent": sent, "received": received, "exchanges": messages}


def _bytes_row(kind: Kind) -> BenchmarkRow:
    found = {batch: _bytes(kind, batch) for batch in BATCHES}
    sizes = [(one["sent"] + one["received"]) / 1e3 for one in found.values()]
    return BenchmarkRow(
        f"bytes to and from each of two shards in a step of {TITLES[kind]}, batches of "
        f"{BATCHES[0]}",
        sizes[0],
        "kB",
        reference=f"{sizes[-1]:.0f} kB with batches of {BATCHES[-1]}",
        settings={**_settings(BATCHES[0]), "bytes": found},
    )
