"""The process that runs one job: ``python -m lvmcore.jobs.worker``.

It imports torch and the models, warms up, then waits for one line of JSON on its standard input,
``{"home": …, "id": …, "gpu": …}``. When its standard input is closed, because the server closed it
or died, the fit stops at its next step, and the fit so far is kept.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from pathlib import Path

import numpy as np
from filelock import Timeout

from lvmcore.devices import use_gpu
from lvmcore.distributed.choice import chosen_shards, shards_in_actors
from lvmcore.distributed.independent_calls import chosen_caller
from lvmcore.distributed.shards import ShardLostError
from lvmcore.errors import LatentboardError
from lvmcore.jobs.executors.cluster_address import connect
from lvmcore.jobs.executors.cluster_caller import ClusterCaller
from lvmcore.jobs.executors.cluster_state import ADDRESS
from lvmcore.jobs.executors.executor import NODE_LOST
from lvmcore.jobs.executors.requirements import requirements
from lvmcore.jobs.machine_limits import keep_freed_memory
from lvmcore.jobs.parent_process import ParentWatch, has_request, read_request
from lvmcore.jobs.run_job import run_job
from lvmcore.models import MODELS
from lvmcore.runs.job import Job
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.run_files import private_opener
from lvmcore.runs.store import Store

__all__ = ["main"]

# A process that checks whether a run is alive holds its lock for a moment.
_LOCK_WAITS_SECONDS = 5.0
# Times that a run is started at most where it loses shards: one without memory loses them always.
_MOST_ATTEMPTS = 5


def _warm_up() -> None:
    """Fit models to a few rows, because torch loads many of its modules on first use.

    Models whose own library takes seconds to load are left out. A request ends it.
    """
    rng = np.random.default_rng(0)
    rows, labels = rng.standard_normal((12, 3)), ["a", "b"] * 6
    for key, declared in MODELS.declarations.items():
        if has_request():
            return
        if not declared.quick_to_load:
            continue
        model = MODELS[key]
        named = {parameter.name for parameter in model.parameters()}
        short = {"max_iter": 2} if "max_iter" in named else {}
        # A fit with the same error reports it.
        with contextlib.suppress(Exception):
            model().set_params(**short).fit(rows, labels)
    with contextlib.suppress(Exception):
        importlib.import_module("lvmcore.evaluation.map_quality")


def _redirect_output(path: Path) -> None:
    """Redirect standard output and error, including warnings, to the log of the run."""
    with contextlib.suppress(OSError), open(path, "ab", opener=private_opener) as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())


def _after_loss(folder: JobFolder, why: str) -> int:
    """The exit status of a run that lost a shard; it is in the queue again, unless too often."""
    state = folder.state()
    if state.attempt < _MOST_ATTEMPTS:
        folder.requeue()
        return NODE_LOST
    folder.write_state(state.ending("interrupted", message=why))
    folder.clear_up()
    return 0


def _join_cluster() -> None:
    """Connect to the cluster on which the shards of the fit are to be, if they are on one."""
    if shards_in_actors():
        connect(os.environ[ADDRESS])


def _caller(job: Job, watch: ParentWatch) -> contextlib.AbstractContextManager[None]:
    """Have the cluster of the run make independent calls of it, if it is on one."""
    address = os.environ.get(ADDRESS, "")
    if not address:
        return contextlib.nullcontext()
    needs = requirements(job)
    return chosen_caller(
        ClusterCaller(
            address,
            lambda: watch.should_stop() is not None,
            gpus=needs.gpus,
            memory=needs.memory,
        )
    )


def main() -> int:
    """Wait for a request and execute the run.

    Returns:
        The exit status: ``NODE_LOST`` where a shard of the fit was lost, so that the run is in the
        queue again; else 0, unless there was an unexpected error outside the fit.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep_freed_memory()
    if not has_request():
        with chosen_shards(0):
            _warm_up()
    request = read_request()
    if request is None:
        return 0
    home, name, gpu = request
    use_gpu(gpu)
    _join_cluster()
    try:
        store = Store(home)
        folder = store.job_folder(name)
        with folder.lock(_LOCK_WAITS_SECONDS):
            if folder.state().status != "queued":
                return 0
            _redirect_output(folder.files.log)
            watch = ParentWatch(folder)
            watch.start()
            spec = folder.spec()
            try:
                with _caller(folder.job(name), watch):
                    run_job(
                        folder,
                        lambda: store.datasets.get(spec.dataset),
                        watch.should_stop,
                        store=store,
                    )
            except ShardLostError as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
                return _after_loss(folder, str(error))
            watch.finish()
    except (Timeout, LatentboardError) as error:
        # Another process executes the run, or it was deleted.
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
