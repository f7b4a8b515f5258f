"""The psi statistics: one bound and gradient beside GPy's, and the memory of a large table."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import torch

from lvmcore.bench.report import Options, Row
from lvmcore.layers import DataPath, LatentRows
from lvmcore.models.bayesian_gplvm import BayesianGPLVM

__all__ = ["rows"]

N, D, Q, M = 1000, 12, 7, 50
REPEATS = 21
LARGE = {"rows": 100_000, "columns": 20, "n_components": 10, "n_inducing": 50, "steps": 3}


def rows(options: Options) -> Iterator[Callable[[], Row]]:
    """The rows of the benchmark."""
    del options
    yield _milliseconds
    yield _ratio
    yield _memory


@cache
def _inputs() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "Y": rng.standard_normal((N, D)),
        "mean": rng.standard_normal((N, Q)),
        "Z": rng.standard_normal((M, Q)),
        "variance": 0.1,
        "noise": 0.1,
    }


@cache
def _ours() -> float:
    """Median seconds of a bound with its gradient, shared noise as in GPy."""
    given = _inputs()
    Y = torch.as_tensor(given["Y"])
    rows_ = LatentRows(torch.as_tensor(given["mean"]), given["variance"])
    path = DataPath(torch.as_tensor(given["Z"]), torch.full((1,), given["noise"]).double())
    parameters = [*rows_.parameters(), *path.parameters()]
    squares = Y.square().sum(0)

    def evaluate() -> None:
        bound, _ = path.bound(rows_, Y, squares)
        torch.autograd.grad(bound - rows_.kl(), parameters)

    return _median(evaluate)


@cache
def _gpy() -> float | None:
    """Median seconds of the same in GPy; None where GPy is not installed."""
    try:
        import GPy
    except ImportError:
        return None
    given = _inputs()
    kernel = GPy.kern.RBF(Q, ARD=True)
    model = GPy.models.BayesianGPLVM(
        given["Y"],
        Q,
        X=given["mean"],
        X_variance=np.full((N, Q), given["variance"]),
        Z=given["Z"],
        num_inducing=M,
        kernel=kernel,
    )
    start = model.optimizer_array.copy()
    return _median(lambda: model._objective_grads(start))


def _median(evaluate: Callable[[], object]) -> float:
    for _ in range(3):
        evaluate()
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        evaluate()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _settings() -> dict[str, object]:
    return {"N": N, "D": D, "Q": Q, "M": M, "dtype": "float64", "repeats": REPEATS}


def _milliseconds() -> Row:
    theirs = _gpy()
    return Row(
        "one bound and gradient, median of 21",
        1e3 * _ours(),
        "ms",
        reference="GPy is not installed" if theirs is None else f"GPy 1.15: {1e3 * theirs:.0f} ms",
        settings=_settings(),
    )


def _ratio() -> Row:
    theirs = _gpy()
    return Row(
        "times faster than GPy in the same run",
        float("nan") if theirs is None else theirs / _ours(),
        "x",
        reference="GPy is not installed" if theirs is None else "GPy 1.15",
        floor=8.0,
        settings=_settings(),
    )


def _memory() -> Row:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_fit_large, args=(sender,))
    process.start()
    peak = receiver.recv() if receiver.poll(600) else float("nan")
    process.join()
    return Row(
        "peak memory of a fit, 100 000 rows x 20 columns",
        peak,
        "GB",
        ceiling=2.0,
        settings=LARGE,
    )


def _fit_large(sender: Any) -> None:
    """Fit a large table in a process of its own and send that process's peak memory, GB."""
    import resource
    import sys

    rng = np.random.default_rng(0)
    latent = rng.standard_normal((LARGE["rows"], 3))
    data = np.sin(latent @ rng.standard_normal((3, LARGE["columns"])))
    BayesianGPLVM(
        n_components=LARGE["n_components"], n_inducing=LARGE["n_inducing"], max_iter=LARGE["steps"]
    ).fit(data)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sender.send(peak / (1e9 if sys.platform == "darwin" else 1e6))
