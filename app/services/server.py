"""The server's singletons: its store, what starts queued runs, what says what a fit would cost."""

from __future__ import annotations

import os
import threading

import streamlit as st

from lvmcore.runs import Estimator, Launcher, Store

__all__ = ["close", "estimator", "home", "launcher", "store", "store_at", "warm_up"]

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


def _load(home: str | None) -> None:
    _launcher(home)
    import lvmcore.models  # noqa: F401


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
