"""Several chains side by side: their sweeps, what is kept of them, and how to go on from there."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvmcore import persistence
from lvmcore.checkpoint import Checkpoint
from lvmcore.results import Callback, FitStep, Snapshot
from lvmcore.sampling_chain import Chain
from lvmcore.sampling_diagnostics import Diagnosis, diagnose
from lvmcore.training import Outcome

__all__ = ["AGREED", "ChainsRun"]

FloatArray = NDArray[np.float64]

#: R̂ up to which chains count as agreeing.
AGREED = 1.05
#: Draws that are kept, of all chains together.
MOST_DRAWS = 32
#: Pairs of rows whose distance on the map is watched: it does not change as the map turns.
PAIRS = 4
SECONDS_BETWEEN_SNAPSHOTS = 0.25
#: What is kept of a draw, besides a².
_KEPT = ("X", "W", "H", "spread")


class ChainsRun:
    """The sweeps of several chains, the first half of them a warm-up that is forgotten.

    Args:
        chains: at their starts.
        max_iter: sweeps of each.
        snapshot: of the map, from one chain's state.

    Attributes:
        draws: what is kept of each chain: draws of X, W, H, spread and scale by name, [n, ...].
        history: a step a sweep, with the mean log likelihood of the chains.
        diagnoses: of quantities that do not change as the map turns, by name.
    """

    def __init__(
        self, chains: Sequence[Chain], max_iter: int, snapshot: Callable[[Chain], Snapshot]
    ) -> None:
        self.chains, self.max_iter, self._snapshot = chains, max_iter, snapshot
        self.warm_up = max_iter // 2
        kept = max(1, MOST_DRAWS // len(chains))
        self._thin = -(-(max_iter - self.warm_up) // kept)
        self.draws: list[dict[str, list[NDArray[Any]]]] = [_nothing() for _ in chains]
        self.history: list[FitStep] = []
        self.diagnoses: dict[str, Diagnosis] = {}
        self._traces: list[FloatArray] = []
        self._began = time.perf_counter()
        self._last_snapshot = -math.inf

    def run(self, callback: Callback | None, checkpoint: Checkpoint | None) -> Outcome:
        """Sweep until the end, or until the callback says so.

        Args:
            callback: called with each step; True stops the run.
            checkpoint: where to go on from, and where to leave the state now and then and at a
                stop; a run that goes on ends exactly as if it had never stopped.

        Returns:
            NaN for the bound, as there is none; converged where every R̂ is at most ``AGREED``.
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
            self._keep()
        self._diagnose()
        told = [one.r_hat for one in self.diagnoses.values() if not math.isnan(one.r_hat)]
        agreed = bool(told) and max(told) <= AGREED
        return Outcome(math.nan, tuple(self.history), agreed and not stopped, stopped)

    def _sweep(self, done: int) -> None:
        warm = done < self.warm_up
        for chain in self.chains:
            chain.sweep((done + 1) ** -0.6 if warm else 0.0)
        if warm:
            return
        self._traces.append(np.array([self._quantities(chain) for chain in self.chains]))
        if (self.max_iter - 1 - done) % self._thin == 0:
            self._keep()

    def _keep(self) -> None:
        for chain, draws in zip(self.chains, self.draws, strict=True):
            for name in _KEPT:
                draws[name].append(getattr(chain, name).copy())
            draws["scale"].append(np.array([chain.scale]))

    def _report(self, done: int, callback: Callback | None) -> bool:
        reached = float(np.mean([chain.log_likelihood() for chain in self.chains]))
        seconds = time.perf_counter() - self._began
        step = FitStep(done, self.max_iter, seconds, math.nan, {"log likelihood": reached})
        self.history.append(step)
        if callback is None:
            return False
        ends = done == self.max_iter
        if ends or seconds - self._last_snapshot >= SECONDS_BETWEEN_SNAPSHOTS:
            self._last_snapshot = seconds
            shown = self._snapshot(self.chains[0])
            step = FitStep(done, self.max_iter, seconds, math.nan, step.terms, shown, ends=ends)
        return bool(callback(step))

    # ---- diagnostics ---------------------------------------------------------------------------

    def _pairs(self) -> NDArray[np.intp]:
        """Positions of pairs of rows, spread over the table, [P, 2]."""
        N = len(self.chains[0].X)
        places = np.unique(np.linspace(0, N - 1, 2 * PAIRS).astype(np.intp))
        return places[: len(places) // 2 * 2].reshape(-1, 2)

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
            "concentration",
            "components used",
            *pairs,
        ]

    def _quantities(self, chain: Chain) -> list[float]:
        found = [chain.log_likelihood()]
        if chain.likelihood == "gaussian":
            found.append(float(chain.spread[0]))
        elif chain.likelihood == "negative_binomial":
            found.append(float(np.log(chain.spread).mean()))
        first, second = self._pairs().T
        apart = np.linalg.norm(chain.X[first] - chain.X[second], axis=1)
        mixture = chain.mixture
        return [*found, chain.scale, mixture.concentration, float(mixture.used), *apart.tolist()]

    def _diagnose(self) -> None:
        if not self._traces:
            return
        traces = np.stack(self._traces)  # [T, C, quantities]
        for i, name in enumerate(self._names()):
            self.diagnoses[name] = diagnose(traces[:, :, i].T)

    # ---- checkpoints ---------------------------------------------------------------------------

    def _state(self, done: int) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays = persistence.history_arrays(self.history)
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
        """Go back to where the checkpoint was left; returns how many sweeps were done by then."""
        found = None if checkpoint is None else checkpoint.restore()
        if found is None:
            return 0
        arrays, facts = found
        for c, (chain, draws) in enumerate(zip(self.chains, self.draws, strict=True)):
            chain.restore(persistence.with_prefix(arrays, f"chain.{c}."), facts["chains"][c])
            for name, kept in persistence.with_prefix(arrays, f"draws.{c}.").items():
                draws[name] = list(kept)
        self._traces = list(arrays["traces"]) if "traces" in arrays else []
        self.history = list(persistence.history_from(arrays))
        self._began = time.perf_counter() - facts["seconds"]
        return int(facts["iteration"])


def _nothing() -> dict[str, list[NDArray[Any]]]:
    return {name: [] for name in (*_KEPT, "scale")}
