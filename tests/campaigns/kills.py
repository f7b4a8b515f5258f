"""A campaign of kills and cancels on one machine: nothing stuck, nothing torn, little lost.

``python -m tests.campaigns.kills [--kills 100] [--cancels 50] [--seed 0]``

Workers, servers and both are killed at random moments of fits, and fits are cancelled at random
moments. It ends with an error where a run is lost, a file is torn, a bound differs, or a process
stays.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from lvmcore.runs import Store
from tests.kill.harness import Bench, Victim, left_beyond_the_checkpoint, read_everything
from tests.unit.lvmcore.jobs.waiting import finished, until

__all__ = ["cancel_again_and_again", "kill_again_and_again", "main"]

VICTIMS: tuple[Victim, ...] = get_args(Victim)
LONGEST_WAIT = 2.0
#: A fit that is to be cancelled has begun its steps by then, and never ends by itself.
LONGEST_CANCEL_WAIT = 2.0
MOST_WAITING = 4


def kill_again_and_again(bench: Bench, kills: int, seed: int) -> None:
    """Kill so many times at random moments; each time resume, and in the end let all finish."""
    rng, store = np.random.default_rng(seed), bench.store
    names = [bench.submit()]
    bench.start()
    for number in range(kills):
        if all(store.get(name).status == "done" for name in names):
            names.append(bench.submit())
        if number % 5 == 4 and len(store.queue.ids()) < MOST_WAITING:
            names.append(bench.submit(max_iter=5))
        time.sleep(rng.uniform(0, LONGEST_WAIT))
        bench.kill(VICTIMS[number % len(VICTIMS)])
        read_everything(store.home)
        for name in names:
            job = store.get(name)
            assert job.status in ("queued", "running", "interrupted", "done"), job.message
            if job.status == "interrupted":
                assert left_beyond_the_checkpoint(store, name) <= 1
                assert job.resumable
                store.resume(name)
        bench.start()
    whole = bench.submit()
    for name in [*names, whole]:
        until(lambda name=name: store.get(name).finished, "the end of a run")  # type: ignore[misc]
        job = finished(store, name)
        assert job.status == "done", job.message
        assert [event.n for event in store.events(name)] == list(
            range(1, len(store.events(name)) + 1)
        )
        steps = [event.step.iteration for event in store.events(name)]
        assert steps == sorted(set(steps))
        if job.spec.parameters["max_iter"] != 5:
            assert job.elbo == pytest.approx(finished(store, whole).elbo, abs=1e-8, rel=0)
    assert read_everything(store.home) > 0
    assert not list(store.home.glob("jobs/*/checkpoint.safetensors"))
    print(f"{kills} kills; right states after at most {max(bench.settling):.2f} s")


def cancel_again_and_again(bench: Bench, trials: int, seed: int) -> None:
    """Cancel so many fits at random moments of their lives, each in one second or so."""
    rng, store = np.random.default_rng(seed), bench.store
    bench.start()
    took = []
    for _ in range(trials):
        name = bench.submit(n_restarts=100)  # each start converges within seconds
        time.sleep(rng.uniform(0, LONGEST_CANCEL_WAIT))
        at_work = bench.workers()
        began = time.monotonic()
        store.cancel(name)
        until(lambda name=name: store.get(name).finished, "the end of the run")  # type: ignore[misc]
        took.append(time.monotonic() - began)
        assert store.get(name).status == "cancelled"
        assert finished(store, name).status == "cancelled"
        read_everything(store.home)
        assert len(at_work) <= 2
    until(lambda: len(bench.workers()) <= 1, "the end of all but the spare worker")
    bench.stop()
    print(f"{trials} cancels; at most {max(took):.2f} s, in the middle {np.median(took):.2f} s")


def main() -> None:
    """Kill and cancel as often as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--cancels", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for again, times in (
        (kill_again_and_again, arguments.kills),
        (cancel_again_and_again, arguments.cancels),
    ):
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(Store(Path(folder) / "store"))
            try:
                again(bench, times, arguments.seed)
            finally:
                bench.stop()


if __name__ == "__main__":
    main()
