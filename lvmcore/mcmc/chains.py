"""Parallel Markov chains: sweeps, stored draws, diagnostics and checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvmcore.mcmc.diagnostics import ChainDiagnostics, chain_diagnostics
from lvmcore.mcmc.rflvm_chain import RFLVMChain
from lvmcore.numerics.array_types import FloatArray
from lvmcore.persistence import history_arrays, history_from_arrays, with_prefix
from lvmcore.results import Callback, FitStep, Snapshot
from lvmcore.training.checkpoint import Checkpoint
from lvmcore.training.outcome import FitOutcome

__all__ = ["MAX_R_HAT", "ParallelChains"]


#: R̂ up to which chains count as converged.
MAX_R_HAT = 1.05
#: Stored draws of all chains together at most.
MAX_DRAWS = 32
#: Pairs of rows whose distance on the map is monitored; it is invariant to rotations of the map.
N_PAIRS = 4
SNAPSHOT_SECONDS = 0.25
#: Stored parts of a draw, besides a² and the hyperparameters of a given kernel.
_STORED = ("X", "W", "H", "spread")


class ParallelChains:
    """Sweeps of several chains; the first half of them is a warm-up and is discarded.

    Args:
        chains: initial chains.
        max_iter: sweeps of each chain.
        snapshot: of the map, from one chain's state.

    Attributes:
        draws: stored draws of each chain: X, W, H, spread, scale and, of a given kernel,
            hyperparameters by name, [n, ...].
        history: one step for each sweep, with the mean log likelihood of the chains.
        diagnoses: of quantities that are invariant to rotations of the map, by name.
    """

    def __init__(
        self,
        chains: Sequence[RFLVMChain],
        max_iter: int,
        snapshot: Callable[[RFLVMChain], Snapshot],
    ) -> None:
        self.chains, self.max_iter, self._snapshot = chains, max_iter, snapshot
        self.warm_up = max_iter // 2
        stored = max(1, MAX_DRAWS // len(chains))
        self._thin = -(-(max_iter - self.warm_up) // stored)
        self.draws: list[dict[str, list[NDArray[Any]]]] = [_empty_draws(chain) for chain in chains]
        self.history: list[FitStep] = []
        self.diagnoses: dict[str, ChainDiagnostics] = {}
        self._traces: list[FloatArray] = []
        self._began = time.perf_counter()
        self._last_snapshot = -math.inf

    def run(self, callback: Callback | None, checkpoint: Checkpoint | None) -> FitOutcome:
        """Run all sweeps, or until the callback stops the run.

        Args:
            callback: called with each step; True stops the run.
            checkpoint: to resume from, and to save to at intervals and at a stop; a resumed run
                gives the same result as an uninterrupted one.

        Returns:
            NaN for the bound, as there is none; converged if every R̂ is at most ``MAX_R_HAT``.
        """
        done = self._restore(checkpoint)
        stopped = False
        while not stopped and done < self.max_iter:
            self._sweep(done)
            done += 1
            stopped = self._report(done, callback)
            if checkpoint is not None and (stopped or checkpoint.due()):
                checkpoint.save(*self._state(done))
        self.cut_short = not self.draws[0]["X"]
        if self.cut_short:
            self._store_draw()
        self._diagnose()
        known = [one.r_hat for one in self.diagnoses.values() if not math.isnan(one.r_hat)]
        converged = bool(known) and max(known) <= MAX_R_HAT
        return FitOutcome(math.nan, tuple(self.history), converged and not stopped, stopped)

    def _sweep(self, done: int) -> None:
        warming_up = done < self.warm_up
        for chain in self.chains:
            chain.sweep((done + 1) ** -0.6 if warming_up else 0.0)
        if warming_up:
            return
        self._traces.append(np.array([self._quantities(chain) for chain in self.chains]))
        if (self.max_iter - 1 - done) % self._thin == 0:
            self._store_draw()

    def _store_draw(self) -> None:
        for chain, draws in zip(self.chains, self.draws, strict=True):
            parts = {"X": chain.X, "W": chain.W, "H": chain.decoder_weights, "spread": chain.spread}
            for name, part in parts.items():
                draws[name].append(part.copy())
            draws["scale"].append(np.array([chain.scale]))
            if "hyperparameters" in draws:
                values = chain.mixture.hyperparameters().values()
                draws["hyperparameters"].append(np.array(list(values)))

    def _report(self, done: int, callback: Callback | None) -> bool:
        log_likelihood = float(np.mean([chain.log_likelihood() for chain in self.chains]))
        seconds = time.perf_counter() - self._began
        step = FitStep(done, self.max_iter, seconds, math.nan, {"log likelihood": log_likelihood})
        self.history.append(step)
        if callback is None:
            return False
        ends = done == self.max_iter
        if ends or seconds - self._last_snapshot >= SNAPSHOT_SECONDS:
            self._last_snapshot = seconds
            shown = self._snapshot(self.chains[0])
            step = FitStep(done, self.max_iter, seconds, math.nan, step.terms, shown, ends=ends)
        return bool(callback(step))

    # ---- diagnostics ---------------------------------------------------------------------------

    def _pairs(self) -> NDArray[np.intp]:
        """Positions of pairs of rows, spread over the table, [P, 2]."""
        N = len(self.chains[0].X)
        positions = np.unique(np.linspace(0, N - 1, 2 * N_PAIRS).astype(np.intp))
        return positions[: len(positions) // 2 * 2].reshape(-1, 2)

    def _names(self) -> list[str]:
        spread = {
            "gaussian": ["noise variance"],
            "bernoulli": [],
            "negative_binomial": ["mean log dispersion"],
        }
        pairs = [f"distance of rows {i + 1} and {j + 1}" for i, j in self._pairs()]
        return [
            "log likelihood",
            *spread[self.chains[0].likelihood],
            "variance of the weights",
            *self.chains[0].mixture.quantities(),
            *pairs,
        ]

    def _quantities(self, chain: RFLVMChain) -> list[float]:
        found = [chain.log_likelihood()]
        if chain.likelihood == "gaussian":
            found.append(float(chain.spread[0]))
        elif chain.likelihood == "negative_binomial":
            found.append(float(np.log(chain.spread).mean()))
        first, second = self._pairs().T
        distances = np.linalg.norm(chain.X[first] - chain.X[second], axis=1)
        return [*found, chain.scale, *chain.mixture.quantities().values(), *distances.tolist()]

    def _diagnose(self) -> None:
        if not self._traces:
            return
        traces = np.stack(self._traces)  # [T, C, quantities]
        for i, name in enumerate(self._names()):
            self.diagnoses[name] = chain_diagnostics(traces[:, :, i].T)

    # ---- checkpoints ---------------------------------------------------------------------------

    def _state(self, done: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays = history_arrays(self.history)
        for c, (chain, draws) in enumerate(zip(self.chains, self.draws, strict=True)):
            arrays |= {f"chain.{c}.{name}": value for name, value in chain.arrays().items()}
            if draws["X"]:
                arrays |= {f"draws.{c}.{name}": np.stack(kept) for name, kept in draws.items()}
        if self._traces:
            arrays["traces"] = np.stack(self._traces)
        facts = {
            "iteration": done,
            "seconds": time.perf_counter() - self._began,
            "chains": [chain.facts() for chain in self.chains],
        }
        return arrays, facts

    def _restore(self, checkpoint: Checkpoint | None) -> int:
        """Restore the state of the checkpoint; returns its number of sweeps."""
        found = None if checkpoint is None else checkpoint.restore()
        if found is None:
            return 0
        arrays, facts = found
        for c, (chain, draws) in enumerate(zip(self.chains, self.draws, strict=True)):
            chain.restore(with_prefix(arrays, f"chain.{c}."), facts["chains"][c])
            for name, kept in with_prefix(arrays, f"draws.{c}.").items():
                draws[name] = list(kept)
        self._traces = list(arrays["traces"]) if "traces" in arrays else []
        self.history = list(history_from_arrays(arrays))
        self._began = time.perf_counter() - facts["seconds"]
        return int(facts["iteration"])


def _empty_draws(chain: RFLVMChain) -> dict[str, list[NDArray[Any]]]:
    more = ("hyperparameters",) if chain.mixture.hyperparameters() else ()
    return {name: [] for name in (*_STORED, "scale", *more)}
