"""Psi statistics: time of a bound with its gradient, compared with GPy and the machine's limit."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from lvmcore.bench.harness.machine import matrix_product_seconds
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.latent.gpy_race import share_of_gpy
from lvmcore.gp.paths import DataPath, GridDataPath, LatentRows
from lvmcore.jobs.machine_limits import cores
from lvmcore.kernels.grid_psi_sums import grid_inputs
from lvmcore.models.latent.bayesian_gplvm import BayesianGPLVM

__all__ = ["rows"]

N, D, Q, M = 1000, 12, 7, 50
# Nodes of each dimension of a grid, as in a default map of so many rows.
SIDE = 10
VARIANCE = 0.1
REPEATS, ROUNDS = 35, 5
LARGE = {"rows": 100_000, "columns": 20, "n_components": 10, "n_inducing": 50, "steps": 3}
GROWTH_ROWS = (1_000, 10_000, 100_000, 1_000_000)
GROWTH = {"columns": 50, "n_components": 5, "n_inducing": 25}


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    yield _milliseconds
    yield _ratio
    yield _grid_ratio
    yield _share_of_ceiling
    yield _memory
    yield _slope
    yield _growth_memory
    for n_inducing in (25, 50):
        yield partial(share_of_gpy, n_inducing)


@dataclass(frozen=True)
class _Inputs:
    """q(X), inducing inputs and data; the variances of q(X) and of the noise are 0.1.

    Attributes:
        Y: [N, D].
        mean: [N, Q].
        points: inducing inputs, [M, Q], or the nodes of their grid, [m, 2].
        on_grid: whether they are on a grid.
    """

    Y: NDArray[np.float64]
    mean: NDArray[np.float64]
    points: NDArray[np.float64]
    on_grid: bool

    @property
    def Z(self) -> NDArray[np.float64]:
        """The inducing inputs, [M, Q]."""
        return grid_inputs(torch.as_tensor(self.points)).numpy() if self.on_grid else self.points


@cache
def _inputs(*, on_grid: bool) -> _Inputs:
    rng = np.random.default_rng(0)
    shape = (SIDE, 2) if on_grid else (M, Q)
    Y, mean = rng.standard_normal((N, D)), rng.standard_normal((N, shape[1]))
    return _Inputs(Y, mean, rng.standard_normal(shape), on_grid)


@cache
def _evaluation_seconds(*, on_grid: bool = False) -> tuple[float, float | None]:
    """Median seconds of a bound with its gradient: ours, and GPy's or None without GPy.

    They take turns, so that a machine whose speed changes changes it for both. GPy's matrix
    products take one thread, or all cores where that is faster; ours the threads of the process.
    """
    given = _inputs(on_grid=on_grid)
    ours, theirs = _our_evaluation(given), _gpy_evaluation(given)
    blas = ThreadpoolController()
    seconds: defaultdict[int, list[float]] = defaultdict(list)
    for _ in range(ROUNDS):
        seconds[0].extend(_seconds(ours, REPEATS // ROUNDS))
        if theirs is None:
            continue
        for threads in {1, cores()}:
            with blas.limit(limits=threads, user_api="blas"):
                seconds[threads].extend(_seconds(theirs, REPEATS // ROUNDS))
    medians = {threads: statistics.median(values) for threads, values in seconds.items()}
    return medians.pop(0), min(medians.values(), default=None)


def _our_evaluation(given: _Inputs) -> Callable[[], object]:
    """Our evaluation of a bound with its gradient, with one noise variance as in GPy."""
    Y = torch.as_tensor(given.Y)
    rows_ = LatentRows(torch.as_tensor(given.mean), VARIANCE)
    path_type = GridDataPath if given.on_grid else DataPath
    path = path_type(torch.as_tensor(given.points), torch.full((1,), VARIANCE).double())
    return partial(_evaluate, rows_, path, Y, Y.square().sum(0))


def _gpy_evaluation(given: _Inputs) -> Callable[[], object] | None:
    """GPy's evaluation of the bound; None if GPy is not installed."""
    try:
        import GPy
    except ImportError:
        return None
    dimensions = given.mean.shape[1]
    model = GPy.models.BayesianGPLVM(
        given.Y,
        dimensions,
        X=given.mean,
        X_variance=np.full(given.mean.shape, VARIANCE),
        Z=given.Z,
        num_inducing=len(given.Z),
        kernel=GPy.kern.RBF(dimensions, ARD=True),
    )
    start = model.optimizer_array.copy()
    return lambda: model._objective_grads(start)


def _median(evaluate: Callable[[], object], repeats: int = REPEATS) -> float:
    return statistics.median(_seconds(evaluate, repeats))


def _seconds(evaluate: Callable[[], object], repeats: int) -> list[float]:
    """Seconds of each evaluation, after three warm-up evaluations."""
    for _ in range(3):
        evaluate()
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        evaluate()
        seconds.append(time.perf_counter() - began)
    return seconds


def _settings(Q: int = Q, M: int = M) -> dict[str, object]:
    return {
        "N": N,
        "D": D,
        "Q": Q,
        "M": M,
        "dtype": "float64",
        "repeats": REPEATS,
        "rounds": ROUNDS,
        "threads": torch.get_num_threads(),
    }


def _milliseconds() -> BenchmarkRow:
    ours, theirs = _evaluation_seconds()
    return BenchmarkRow(
        f"one bound and gradient, median of {REPEATS}, in turns with GPy",
        1e3 * ours,
        "ms",
        reference="GPy is not installed" if theirs is None else f"GPy 1.15: {1e3 * theirs:.0f} ms",
        settings=_settings(),
    )


def _ratio() -> BenchmarkRow:
    ours, theirs = _evaluation_seconds()
    return BenchmarkRow(
        "times faster than GPy in the same run",
        float("nan") if theirs is None else theirs / ours,
        "x",
        reference="GPy is not installed" if theirs is None else "GPy 1.15",
        floor=30.0,
        settings=_settings(),
    )


def _grid_ratio() -> BenchmarkRow:
    ours, theirs = _evaluation_seconds(on_grid=True)
    return BenchmarkRow(
        "inducing inputs on a grid of two dimensions: times faster than GPy with the same",
        float("nan") if theirs is None else theirs / ours,
        "x",
        reference="GPy is not installed"
        if theirs is None
        else f"{1e3 * ours:.1f} ms, GPy 1.15: {1e3 * theirs:.0f} ms",
        floor=30.0,
        settings=_settings(2, SIDE**2),
    )


def _share_of_ceiling() -> BenchmarkRow:
    """Time of the exponentials and matrix products alone, as a share of our time.

    Psi1 and psi2 have N (M + P) exponentials. They serve the gradient too, so each counts once.
    Their exponents are one product of 2Q + 1 features, the gradients by the rows' and the points'
    features one each; psi1ᵀY and its gradient are two products with the data. An exponential takes
    the time of the faster of exp and exp2, on cells that stay in the cache of a core.
    """
    pairs = M * (M + 1) // 2
    exponentials = N * (M + pairs)
    operations = 3 * 2 * N * (2 * Q + 1) * (M + pairs) + 2 * 2 * N * M * D
    cells = torch.linspace(-3, 0, 1 << 16, dtype=torch.float64)
    out = torch.empty_like(cells)
    functions = (partial(torch.exp, cells, out=out), partial(torch.exp2, cells, out=out))
    exponential = min(_median(function) for function in functions) / len(cells)
    product = matrix_product_seconds(threads=torch.get_num_threads()) / (2 * 2048**3)
    ideal = exponentials * exponential + operations * product
    return BenchmarkRow(
        "share of the machine's ceiling (exponentials and matrix products alone)",
        ideal / _evaluation_seconds()[0],
        reference="aim 0.6",
        settings={
            **_settings(),
            "exponentials a second": 1 / exponential,
            "operations a second": 1 / product,
        },
    )


def _memory() -> BenchmarkRow:
    peak = _run_in_process(_fit_large)
    return BenchmarkRow(
        "peak memory of a fit, 100 000 rows x 20 columns",
        peak,
        "GB",
        ceiling=2.0,
        settings=LARGE,
    )


@cache
def _growth() -> tuple[list[float], float]:
    """Seconds of a bound with its gradient at each number of rows, and the peak memory, GB."""
    seconds, peak = _run_in_process(_time_growth)
    return seconds, peak


def _slope() -> BenchmarkRow:
    seconds, _ = _growth()
    slope = np.polyfit(np.log(GROWTH_ROWS), np.log(seconds), 1)[0]
    return BenchmarkRow(
        "growth of a bound and gradient with the rows, 1e3 to 1e6: log-log slope",
        float(slope),
        ceiling=1.1,
        settings={**GROWTH, "rows": list(GROWTH_ROWS), "seconds": seconds},
    )


def _growth_memory() -> BenchmarkRow:
    _, peak = _growth()
    name = "peak memory of a bound and gradient, 1 000 000 rows x 50 columns"
    return BenchmarkRow(name, peak, "GB", ceiling=8.0, settings={**GROWTH, "rows": GROWTH_ROWS[-1]})


def _run_in_process(work: Callable[[Any], None]) -> Any:
    """The result of ``work``, run in a separate process to measure its memory."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(sender,))
    process.start()
    try:
        return receiver.recv()
    finally:
        process.join()


def _peak_memory() -> float:
    """Peak memory of this process, GB."""
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e9 if sys.platform == "darwin" else 1e6)


def _time_growth(sender: Any) -> None:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    seconds = []
    for n_rows in GROWTH_ROWS:
        Y = normal(n_rows, GROWTH["columns"])
        rows_ = LatentRows(normal(n_rows, GROWTH["n_components"]), 0.1)
        path = DataPath(
            normal(GROWTH["n_inducing"], GROWTH["n_components"]), torch.full((1,), 0.1).double()
        )
        squares = Y.square().sum(0)
        repeats = max(3, min(REPEATS, 2_000_000 // n_rows))
        seconds.append(_median(partial(_evaluate, rows_, path, Y, squares), repeats))
    sender.send((seconds, _peak_memory()))


def _evaluate(rows_: LatentRows, path: DataPath, Y: torch.Tensor, squares: torch.Tensor) -> None:
    """A bound with its gradient, as in a step of a fit."""
    bound = path.bound(rows_, Y, squares)
    torch.autograd.grad(bound - rows_.kl(), [*rows_.parameters(), *path.parameters()])


def _fit_large(sender: Any) -> None:
    """Fit a large table."""
    rng = np.random.default_rng(0)
    latent = rng.standard_normal((LARGE["rows"], 3))
    data = np.sin(latent @ rng.standard_normal((3, LARGE["columns"])))
    BayesianGPLVM(
        n_components=LARGE["n_components"],
        n_inducing=LARGE["n_inducing"],
        max_iter=LARGE["steps"],
        noise="column",
        start="pca",
    ).fit(data)
    sender.send(_peak_memory())
