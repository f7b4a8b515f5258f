"""Runs: jobs on disk, each with its own folder, and the store that holds them.

Importing this package is cheap: the store is loaded when it is first asked for, and neither torch
nor the models are.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lvmcore.runs.job import Job, JobSpec
    from lvmcore.runs.store import Store

__all__ = ["Job", "JobSpec", "Store"]

_HOMES = {"Job": "job", "JobSpec": "job", "Store": "store"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
