"""Time to GPy's final bound: ours compared with GPy's."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from lvmcore.bench.harness.report import BenchmarkRow
from lvmcore.data.samples.paper_datasets import load_paper
from lvmcore.models.latent.bayesian_gplvm import BayesianGPLVM
from lvmcore.results import FitStep

__all__ = ["share_of_gpy"]

N_COMPONENTS, GPY_ITERATIONS = 7, 300
MAX_SHARE = 0.1
# Limit of our steps, which may exceed GPy's 300 since they are cheaper.
MAX_STEPS = 1500


@dataclass(frozen=True)
class _BoundTime:
    """A bound in nats, and the seconds until it was reached."""

    bound: float
    seconds: float


def share_of_gpy(n_inducing: int) -> BenchmarkRow:
    """Seconds until our bound reaches GPy's final one, as a share of GPy's; infinite if never.

    Both fit the 1000 rows of the oil flow data, standardised, Q = 7, one noise variance for all
    columns, initialised by principal components; GPy runs 300 iterations of its default optimiser,
    its matrix products in one thread, which at these sizes is its fastest.
    """
    Y = load_paper("oil_flow_train").dataset(label="label").X
    Y = (Y - Y.mean(0)) / Y.std(0)
    settings = {
        "data": "oil_flow_train",
        "Q": N_COMPONENTS,
        "M": n_inducing,
        "GPy iterations": GPY_ITERATIONS,
    }
    name = f"oil flow, M={n_inducing}: seconds to GPy's final bound, share of GPy's"
    theirs = _fit_gpy(Y, n_inducing)
    if theirs is None:
        return BenchmarkRow(name, float("nan"), reference="GPy is not installed", settings=settings)
    ours = _fit_ours(Y, n_inducing, theirs.bound)
    return BenchmarkRow(
        name,
        ours.seconds / theirs.seconds,
        ceiling=MAX_SHARE,
        reference=f"GPy 1.15: {theirs.bound:.0f} nats in {theirs.seconds:.1f} s",
        settings={**settings, "our bound": ours.bound, "our seconds": ours.seconds},
    )


def _fit_ours(Y: NDArray[np.float64], n_inducing: int, target: float) -> _BoundTime:
    reached = _BoundTime(float("-inf"), float("inf"))

    def watch(step: FitStep) -> bool:
        nonlocal reached
        if step.objective >= target:
            reached = _BoundTime(step.objective, time.perf_counter() - start)
            return True
        return False

    model = BayesianGPLVM(
        n_components=N_COMPONENTS, n_inducing=n_inducing, noise="shared", max_iter=MAX_STEPS
    )
    start = time.perf_counter()
    model.fit(Y, callback=watch)
    return reached


def _fit_gpy(Y: NDArray[np.float64], n_inducing: int) -> _BoundTime | None:
    """GPy's fit; None where GPy is not installed."""
    try:
        import GPy
    except ImportError:
        return None
    np.random.seed(0)  # noqa: NPY002 - GPy draws its inducing inputs from the global generator
    with threadpool_limits(1, user_api="blas"):
        start = time.perf_counter()
        kernel = GPy.kern.RBF(N_COMPONENTS, ARD=True)
        model = GPy.models.BayesianGPLVM(Y, N_COMPONENTS, num_inducing=n_inducing, kernel=kernel)
        model.optimize(max_iters=GPY_ITERATIONS)
        seconds = time.perf_counter() - start
    return _BoundTime(float(np.squeeze(model.log_likelihood())), seconds)
