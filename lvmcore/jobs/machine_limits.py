"""Cores and memory of this machine, and the allocator of a fitting process."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

import psutil

__all__ = [
    "available_memory",
    "cores",
    "default_slots",
    "keep_freed_memory",
    "limit_threads",
    "threads_of_a_fit",
    "total_memory",
]

# M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's mallopt, and their new value in bytes.
_TRIM, _MAP, _KEPT = -1, -3, 1 << 28


def keep_freed_memory() -> bool:
    """Let glibc retain up to 256 MB of freed memory instead of returning it to the system.

    Every step of a fit allocates and frees the same arrays. Without this, those of several
    megabytes are mapped again page by page, which can take as long as their computation.

    Returns:
        Whether it was set; allocators of other systems are unchanged.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(mallopt(_MAP, _KEPT)) and bool(mallopt(_TRIM, _KEPT))


_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def limit_threads(environment: MutableMapping[str, str], threads: int) -> None:
    """Limit the threads of a process that has loaded no numerical library; idle ones sleep.

    By default a thread that waits for the others spins. While another process used one of two
    cores, 150 steps of LDGD (oil flow) took 0.9 s with one thread, 1.2 s with two that sleep, and
    1.9, 9.6 and 30 s with two that spin (``GOMP_SPINCOUNT`` 1000, 10000 and 100000).

    Args:
        environment: of the process, changed in place; what it sets already is kept.
        threads: number of threads.
    """
    for name in _THREAD_VARIABLES:
        environment.setdefault(name, str(threads))
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")


_CGROUP = Path("/sys/fs/cgroup")


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_slots() -> int:
    """Default number of concurrent fits: one per two cores."""
    return max(1, cores() // 2)


def threads_of_a_fit(slots: int = 1) -> int:
    """Threads of a fit: its share of the cores; a single fit leaves one core to the server.

    A parallel step takes as long as its slowest thread, so that a core shared with the server and
    the browser slows the fit down: on two loaded cores, one thread was twice as fast as two.

    Args:
        slots: number of concurrent fits.
    """
    return max(1, cores() // slots if slots > 1 else cores() - 1)


def available_memory() -> int:
    """Memory that a new process can allocate, bytes, within the limit of a container."""
    free = int(psutil.virtual_memory().available)
    limit = _container_limit()
    return free if limit is None else max(0, min(free, limit - _container_use()))


def total_memory() -> int:
    """Memory of this machine or container, bytes."""
    total = int(psutil.virtual_memory().total)
    limit = _container_limit()
    return total if limit is None else min(total, limit)


def _container_limit() -> int | None:
    text = _read("memory.max")
    return int(text) if text.isdecimal() else None


def _container_use() -> int:
    """Memory in use, bytes, without the reclaimable file cache."""
    used = _read("memory.current")
    pages = dict(line.split() for line in _read("memory.stat").splitlines())
    return max(0, int(used or 0) - int(pages.get("inactive_file", 0)))


def _read(name: str) -> str:
    try:
        return (_CGROUP / name).read_text(encoding="ascii").strip()
    except OSError:
        return ""
