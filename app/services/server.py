"""The server's singletons: its store, what starts queued runs, what says what a fit would cost."""

from __future__ import annotations

import gc
import os
import sys
import threading
from importlib import import_module
from typing import TYPE_CHECKING

import streamlit as st

from lvmcore.runs import Estimator, Job, JobSpec, Launcher, Store

if TYPE_CHECKING:
    pass

__all__ = [
    "close",
    "estimator",
    "home",
    "import_models_ahead",
    "launcher",
    "start_once",
    "store",
    "store_at",
    "uses_model_of",
    "warm_up",
]

_WARM_UP_AFTER_SECONDS = 1.0


def home() -> str | None:
    """Where the store lives, as the environment says; None for the user's data folder."""
    return os.environ.get("LATENTBOARD_HOME")


def store() -> Store:
    """Where datasets and runs are kept."""
    return store_at(home())


@st.cache_resource(show_spinner=False)
def store_at(home: str | None) -> Store:
    """The store in a folder, put right at the first time."""
    found = Store(home)
    found.reconcile()
    return found


def launcher() -> Launcher:
    """What starts queued runs, with a warm spare worker; one for the server."""
    found = _launcher(home())
    found.ensure_running()
    return found


@st.cache_resource(show_spinner=False)
def _launcher(home: str | None) -> Launcher:
    return Launcher(store_at(home))


def start_once(fit: Job, spec: JobSpec) -> str:
    """Put what uses a fitted run's model in the queue, unless that was done or is under way.

    Args:
        fit: the fitted run.
        spec: what to do with its model.

    Returns:
        The id of what does it.

    Raises:
        ConfigError: the queue is full.
        DataError: the disk is full.
    """
    found = store().find(spec)
    if found is not None and uses_model_of(fit, found):
        return found.id
    run = store().submit(spec)
    launcher()
    return run


def uses_model_of(fit: Job, job: Job) -> bool:
    """Whether a run used the model that a fitted run has now: one that went on has another."""
    return job.spec.run == fit.id and fit.ended is not None and job.submitted > fit.ended


def warm_up() -> None:
    """Make a spare worker and import the models, once and in the background.

    Both load torch, which keeps a core busy for seconds: it begins when the first page is there.
    """
    _warm_up(home())


@st.cache_resource(show_spinner=False)
def _warm_up(home: str | None) -> threading.Timer:
    timer = threading.Timer(_WARM_UP_AFTER_SECONDS, _load, [home])
    timer.daemon = True
    timer.start()
    return timer


def import_models_ahead() -> None:
    """Begin to import the models, and torch with them, beside what the caller does next."""
    if "lvmcore.models" not in sys.modules:
        threading.Thread(target=import_module, args=["lvmcore.models"], daemon=True).start()


def _load(home: str | None) -> None:
    """Import what pages need, and spare the collector of garbage from going through all of it.

    Streamlit collects garbage after every run of a page, with the interpreter's lock held: with
    torch and plotly in memory that is a quarter of a second in which nobody is served. What is
    there now stays, so it is set apart.
    """
    _launcher(home)
    import app.exploring
    import app.figures  # noqa: F401
    import lvmcore.models  # noqa: F401

    gc.collect()
    gc.freeze()


def estimator() -> Estimator:
    """What measures a few steps of a fit in a process of its own; one for the server."""
    return _estimator(home())


@st.cache_resource(show_spinner=False)
def _estimator(home: str | None) -> Estimator:
    return Estimator(store_at(home))


def close() -> None:
    """End what this server has started: its workers and what estimates fits."""
    _estimator(home()).close()
    _launcher(home()).close()
