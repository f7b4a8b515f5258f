"""The process that measures a few steps of a fit: ``python -m lvmcore.jobs.cost_probe``.

It reads one line of JSON from its standard input, ``{"dataset": folder, "spec": …, "limit": bytes,
"out": file}``, writes the measurement to the file, and ends. It also ends when its standard input
is closed. Its memory is restricted to the limit.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pandas as pd
import psutil

from lvmcore.base.predictor import Predictor
from lvmcore.data.dataset import Dataset
from lvmcore.data.dataset_storage import load_dataset
from lvmcore.devices import peak_memory
from lvmcore.jobs.fitting import describe_error, training_rows
from lvmcore.jobs.machine_limits import keep_freed_memory
from lvmcore.models import AnyModel
from lvmcore.prediction.target_rows import split_for_target
from lvmcore.results import FitStep
from lvmcore.runs.atomic_files import write_json
from lvmcore.runs.job import JobSpec
from lvmcore.runs.model_of_job import make_model

__all__ = ["main", "probe"]

_STEPS = 12
_ENOUGH_SECONDS = 2.0


def probe(spec: JobSpec, dataset: Dataset) -> dict[str, Any]:
    """Measure a few steps of a fit, about two seconds at most.

    Args:
        spec: description of the fit.
        dataset: its dataset.

    Returns:
        "step": seconds per step; "rest": seconds before the first and after the last one; "memory":
        peak memory of this process, bytes; "gpu_memory": that on a GPU, None for a fit on the CPU.
    """
    model = make_model(spec)
    X, y = _rows(model, spec, dataset)
    marks: list[float] = []
    steps: list[FitStep] = []

    def mark(step: FitStep) -> bool:
        steps.append(step)
        marks.append(time.perf_counter())
        return len(marks) > _STEPS or marks[-1] - marks[0] > _ENOUGH_SECONDS

    began = time.perf_counter()
    model.fit(X, y, callback=mark)
    whole = time.perf_counter() - began
    course = marks[-1] - marks[0] if marks else 0.0
    step = course / max(1, len(marks) - 1)
    if steps:  # the later ones may take longer
        step *= (steps[-1].iteration + steps[-1].steps_left) / steps[-1].total
    # computations after the last step that the early stop left out
    left = float(getattr(getattr(model, "_function", None), "seconds_left", 0.0))
    device = "cpu" if model.computation_ is None else model.computation_.device
    return {
        "step": step,
        "rest": max(0.0, whole - course) + left,
        "memory": _peak_memory(),
        "gpu_memory": peak_memory(device),
    }


def _rows(model: AnyModel, spec: JobSpec, dataset: Dataset) -> tuple[pd.DataFrame, Any]:
    """X and y of the fit."""
    if isinstance(model, Predictor):
        chosen = split_for_target(dataset, model.task, spec)
        return chosen.X[~chosen.held_out], chosen.y[~chosen.held_out]
    rows, _ = training_rows(dataset, type(model))
    X = pd.DataFrame(rows.X, columns=list(rows.transformed_names))
    return X, None if model.capabilities.labels == "none" else rows.y


def _peak_memory() -> int:
    """Peak memory of this process, bytes; its current memory if the system reports no peak."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return int(psutil.Process().memory_info().rss)


def _limit_memory(limit: int) -> None:
    """Make allocations beyond the limit fail, on systems that support it."""
    try:
        import resource

        held = psutil.Process().memory_info()
        # RLIMIT_DATA counts mapped data, which may exceed resident memory: add the remainder to it.
        limit = int(getattr(held, "data", held.rss)) + max(0, limit - held.rss)
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    except (ImportError, OSError, ValueError):
        return


def _exit_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(1)


def main() -> int:
    """Read the request, measure the fit, and write the result.

    Returns:
        The exit status: 0 if there is a result.
    """
    keep_freed_memory()  # as a fit does
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(5)  # lower priority than the page and the fits
    try:
        dataset = load_dataset(Path(request["dataset"]))
        _limit_memory(int(request["limit"]))
        found = probe(JobSpec.from_json(request["spec"]), dataset)
    except Exception as error:  # the fit itself fails likewise, and explains it
        _, kind = describe_error(error)
        found = {"error": kind}
    write_json(Path(request["out"]), found)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the thread that reads standard input holds its lock
