"""Waiting for what another process does."""

import time
from collections.abc import Callable

import psutil
import pytest

from lvmcore.runs import Job, Store

__all__ = ["PATIENCE", "finished", "until", "workers_of"]

# Generous: a busy machine is not a bug, and what is waited for usually comes at once.
PATIENCE = 200.0


def until(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds; fail the test if it does not within ``PATIENCE``."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {PATIENCE:.0f} s in vain for: {what}")
        time.sleep(0.02)


def finished(store: Store, name: str) -> Job:
    """The run, once it has ended and its map is measured."""
    until(lambda: store.get(name).stage == "finished", "the run's end")
    return store.get(name)


def workers_of(pid: int) -> list[psutil.Process]:
    """The worker processes that a process has started and that are alive."""
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        try:
            if "lvmcore.jobs.worker" in child.cmdline():
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found
