"""Singletons of the server: the store, the launcher of queued runs, the cost estimator."""

from __future__ import annotations

import gc
import os
import sys
import threading
from importlib import import_module

import streamlit as st

from app.web.activity import wait_until_quiet
from lvmcore.jobs.cost_estimate import CostEstimator
from lvmcore.jobs.executors.cluster import RayExecutor, chosen_cluster
from lvmcore.jobs.launcher import Launcher
from lvmcore.runs import Job, JobSpec, Store

__all__ = [
    "close",
    "cluster",
    "estimator",
    "import_scikit_learn",
    "launcher",
    "preload_torch",
    "store",
    "store_at",
    "store_home",
    "submit_anew",
    "submit_once",
    "uses_model_of",
    "warm_up",
]

#: A warm-up begins so long after the first page, once its files have been fetched.
_WARM_UP_DELAY_SECONDS, _QUIET_SECONDS, _MOST_WAIT_SECONDS = 0.5, 1.2, 10.0


def store_home() -> str | None:
    """Folder of the store, from LATENTBOARD_HOME; None for the user's data folder."""
    return os.environ.get("LATENTBOARD_HOME")


def store() -> Store:
    """The store of datasets and runs."""
    return store_at(store_home())


@st.cache_resource(show_spinner=False)
def store_at(home: str | None) -> Store:
    """The store in a folder, reconciled once with the workers that still run."""
    found = Store(home)
    found.reconcile()
    return found


def launcher() -> Launcher:
    """The launcher of queued runs, with a warm spare worker; one per server."""
    found = _launcher(store_home())
    found.ensure_running()
    return found


@st.cache_resource(show_spinner=False)
def _launcher(home: str | None) -> Launcher:
    return Launcher(store_at(home), executor=cluster())


@st.cache_resource(show_spinner=False)
def cluster() -> RayExecutor | None:
    """The cluster that this server was started with; None for this machine alone."""
    return chosen_cluster()


def submit_once(fit: Job, spec: JobSpec) -> str:
    """Submit a job that uses the model of a fitted run, unless it exists.

    Args:
        fit: the fitted run.
        spec: the job.

    Returns:
        Id of the job.

    Raises:
        ConfigError: the queue is full.
        DataError: the disk is full.
    """
    found = store().find(spec)
    if found is not None and uses_model_of(fit, found):
        return found.id
    return submit_anew(fit, spec)


def submit_anew(fit: Job, spec: JobSpec) -> str:
    """Submit a job that uses the model of a fitted run, whether or not it exists.

    Raises:
        ConfigError: the queue is full.
        DataError: the disk is full.
    """
    assert spec.run == fit.id
    run = store().submit(spec)
    launcher()
    return run


def uses_model_of(fit: Job, job: Job) -> bool:
    """Whether a job used the current model of a fitted run; a resumed run has another model."""
    return job.spec.run == fit.id and fit.ended is not None and job.submitted > fit.ended


def warm_up() -> None:
    """Start a spare worker and import the models, once and in the background.

    Both load torch, which takes seconds of a core and holds the interpreter lock, so they start
    once the browser has all files of the first page.
    """
    _warm_up(store_home())


@st.cache_resource(show_spinner=False)
def _warm_up(home: str | None) -> threading.Timer:
    timer = threading.Timer(_WARM_UP_DELAY_SECONDS, _load_when_quiet, [home])
    timer.daemon = True
    timer.start()
    return timer


def preload_torch() -> None:
    """Import torch in a background thread."""
    if "torch" not in sys.modules:
        threading.Thread(target=import_module, args=["torch"], daemon=True).start()


def import_scikit_learn() -> None:
    """Import scikit-learn by the name of the package, before any module of it.

    The package imports its own modules. Of two threads, one that imports ``sklearn`` and one that
    imports ``sklearn.base``, each may hold the lock that the other waits for: Python then gives one
    of them a module that is not complete, and its import fails. Where every thread imports the
    package first, the second one waits for the first.
    """
    import_module("sklearn")


def _load_when_quiet(home: str | None) -> None:
    wait_until_quiet(_QUIET_SECONDS, _MOST_WAIT_SECONDS)
    _load(home)


def _load(home: str | None) -> None:
    """Import the modules of the pages, and exclude them from garbage collection.

    Streamlit collects garbage after every run of a page, with the interpreter's lock held. With
    torch and plotly in memory that blocks the server for a quarter of a second. Modules stay in
    memory, so ``gc.freeze`` excludes them.
    """
    _launcher(home)
    import_scikit_learn()
    import app.analysis.map.heatmaps
    import app.figures  # noqa: F401
    from lvmcore.models import REGISTRY

    REGISTRY.import_all()
    gc.collect()
    gc.freeze()


def estimator() -> CostEstimator:
    """The cost estimator, which times a few steps of a fit in another process; one per server."""
    return _estimator(store_home())


@st.cache_resource(show_spinner=False)
def _estimator(home: str | None) -> CostEstimator:
    return CostEstimator(store_at(home))


def close() -> None:
    """Stop the workers and the cost estimator of this server."""
    _estimator(store_home()).close()
    _launcher(store_home()).close()
    found = cluster()
    if found is not None:
        found.monitor.close()
