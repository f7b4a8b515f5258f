"""Processes that have calls made by a cluster, or keep its core from it."""

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial
from pathlib import Path

from lvmcore.distributed.independent_calls import IndependentCalls, Look, chosen_caller, make_calls
from lvmcore.errors import CancelledError
from lvmcore.jobs.executors.cluster_address import connect
from lvmcore.jobs.executors.cluster_caller import ClusterCaller

__all__ = ["hold", "main"]


def call(folder: Path, seconds: float, item: int) -> tuple[int, int]:
    """A square, and the process that computed it; a file says that it has begun."""
    if item < 0:
        raise ValueError(f"{item} is negative.")
    (folder / f"{item} by {os.getpid()}").touch()
    time.sleep(seconds)
    return item * item, os.getpid()


def own_call(folder: Path, seconds: float, item: int, look: Look) -> tuple[int, int]:
    """The same, with looks in between."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if look():
            raise CancelledError("Stopped in a call.")
        time.sleep(0.05)
    return call(folder, 0.0, item)


def show(place: int, result: tuple[int, int]) -> None:
    """Print the end of a call."""
    print(json.dumps({"place": place, "value": result[0], "pid": result[1]}), flush=True)


def main() -> None:
    """Make calls: address, seconds of a call here and elsewhere, folder of files, items."""
    address, own, elsewhere, folder, *items = sys.argv[1:]
    files = Path(folder)
    caller = ClusterCaller(address, (files / "stop").exists, patience=0.0)
    calls = IndependentCalls(
        [int(item) for item in items],
        partial(own_call, files, float(own)),
        lambda: partial(call, files, float(elsewhere)),
        show,
    )
    print(json.dumps({"pid": os.getpid()}), flush=True)
    try:
        with chosen_caller(caller):
            make_calls(calls)
    except (CancelledError, ValueError) as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
    ray = sys.modules.get("ray")
    print(json.dumps({"connected": ray is not None and ray.is_initialized()}), flush=True)


class Holder:
    """An actor that has a core."""

    def ready(self) -> bool:
        """True."""
        return True


def hold() -> None:
    """Have the only core of a cluster until standard input is closed: address."""
    ray = connect(sys.argv[1])
    holder = ray.remote(Holder).options(num_cpus=1).remote()
    ray.get(holder.ready.remote())
    print("held", flush=True)
    sys.stdin.read()
