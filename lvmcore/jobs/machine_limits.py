"""How a process that fits keeps its memory."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path

import psutil

__all__ = ["keep_freed_memory"]

# glibc's numbers for its two thresholds, and bytes.
_TRIM, _MAP, _KEPT = -1, -3, 1 << 28


def keep_freed_memory() -> bool:
    """Let glibc keep up to 256 MB that were freed, in place of handing them back at once.

    A step makes and frees the same arrays as the one before. Those of some megabytes would each be
    fetched from the system anew, page by page, which can take as long as what is computed in them.

    Returns:
        Whether it is so; other systems' allocators are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(mallopt(_MAP, _KEPT)) and bool(mallopt(_TRIM, _KEPT))


__all__ = ["available_memory", "default_slots", "has_gpu", "threads_of_a_fit", "total_memory"]

_CGROUP = Path("/sys/fs/cgroup")


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_slots() -> int:
    """How many fits run at once: one for every two cores."""
    return max(1, cores() // 2)


def threads_of_a_fit(slots: int = 1) -> int:
    """How many threads a fit gets: its share of the cores; a lone fit leaves one to the server.

    A parallel step is as slow as its slowest thread, so a fit that shares a core with the server
    and the browser loses more than that core is worth: on two cores under load, one thread was
    measured at twice the speed of two.
    """
    return max(1, cores() // slots if slots > 1 else cores() - 1)


def available_memory() -> int:
    """Bytes that a new process can take, a container's limit included."""
    free = int(psutil.virtual_memory().available)
    limit = _container_limit()
    return free if limit is None else max(0, min(free, limit - _container_use()))


def total_memory() -> int:
    """Bytes that this machine, or this container, has."""
    total = int(psutil.virtual_memory().total)
    limit = _container_limit()
    return total if limit is None else min(total, limit)


def _container_limit() -> int | None:
    text = _read("memory.max")
    return int(text) if text.isdecimal() else None


def _container_use() -> int:
    """Bytes in use that could not be had back: what only caches files can."""
    used = _read("memory.current")
    pages = dict(line.split() for line in _read("memory.stat").splitlines())
    return max(0, int(used or 0) - int(pages.get("inactive_file", 0)))


def _read(name: str) -> str:
    try:
        return (_CGROUP / name).read_text(encoding="ascii").strip()
    except OSError:
        return ""


@cache
def has_gpu() -> bool:
    """Whether there is a GPU that torch could use; found without loading torch."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1"):
        return False
    return Path("/dev/nvidia0").exists()
