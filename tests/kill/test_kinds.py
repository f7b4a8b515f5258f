"""Jobs of other kinds than maps, killed at random moments: they go on, and end the same."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from lvmcore.runs import JobSpec, Store
from tests.kill.harness import Bench, Victim, left_beyond_the_checkpoint, read_everything
from tests.kill.kinds import Jobs, results
from tests.unit.lvmcore.jobs.waiting import finished, until

VICTIMS: tuple[Victim, ...] = get_args(Victim)
#: Jobs that do their rows without a checkpoint.
ROW_KINDS = ("project", "predict")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(Store(tmp_path / "store"))
    yield made
    made.stop()


def has_checkpoint(store: Store, name: str) -> bool:
    """Whether a fit has a checkpoint, or has ended."""
    return store.job_folder(name).files.checkpoint.is_file() or store.get(name).finished


def kill_again_and_again(bench: Bench, kinds: tuple[str, ...], kills: int, seed: int) -> None:
    """Run a job of each kind once in peace and once killed so many times; the results are equal."""
    rng, store = np.random.default_rng(seed), bench.store
    bench.start()
    jobs = Jobs(store)
    jobs.fit(kinds)
    for turn, kind in enumerate(kinds):
        spec = jobs.spec(kind)
        whole = finished(store, store.submit(spec))
        assert whole.status == "done", whole.message
        assert whole.seconds is not None
        name = store.submit(spec)
        behind = store.submit(JobSpec(spec.dataset, "behind", "ppca", {"n_components": 2}))
        for kill in range(kills):
            victim = VICTIMS[(turn + kill) % len(VICTIMS)]
            until(lambda name=name: store.get(name).status != "queued", "the start")  # type: ignore[misc]
            if kind not in ROW_KINDS:
                until(lambda name=name: has_checkpoint(store, name), "a checkpoint")  # type: ignore[misc]
            time.sleep(rng.uniform(0, 0.3 * whole.seconds))
            bench.kill(victim)
            read_everything(store.home)
            # Another process that looks whether the run is alive may hold its lock for a moment.
            until(lambda name=name: store.get(name).finished, "the right state")  # type: ignore[misc]
            job = store.get(name)
            assert job.status in ("interrupted", "done"), (job.status, job.message)
            print(kind, victim, job.status, job.checkpoint_step, flush=True)
            if job.status == "done":  # before the kill
                assert results(store, job) == results(store, whole)
                name = store.submit(spec)
            else:
                assert job.resumable
                if kind not in ROW_KINDS:
                    assert left_beyond_the_checkpoint(store, name) <= 1
                store.resume(name)
            bench.start()
        job = finished(store, name)
        assert job.status == "done", job.message
        assert results(store, job) == results(store, whole)
        after = finished(store, behind)
        if after.status == "interrupted":  # it ran when the worker was killed
            store.resume(behind)
            after = finished(store, behind)
        assert after.status == "done", after.message
        steps = [event.step.iteration for event in store.events(name)]
        assert steps == sorted(set(steps))
    read_everything(store.home)
    assert not list(store.home.glob("jobs/*/checkpoint.safetensors"))
    print(f"right states after at most {max(bench.settling):.2f} s")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_job_that_is_no_map_goes_on_and_ends_the_same(bench: Bench) -> None:
    kill_again_and_again(bench, ("predict", "dsvi_regressor"), kills=1, seed=5)
