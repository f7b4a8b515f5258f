"""Jobs of every kind that are long enough to be killed, and what each leaves when it is done."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pandas as pd

from lvmcore.data import Dataset
from lvmcore.jobs.impute import imputation_of
from lvmcore.jobs.predict import prediction_of
from lvmcore.jobs.project import projection_of
from lvmcore.runs import Job, JobSpec, Store
from tests.unit.lvmcore.jobs.waiting import finished

__all__ = ["TARGETS", "Jobs", "results"]

#: Settings of the fits to a target, by model: a second or more each.
TARGETS = {
    "svgp_regressor": {"n_inducing": 30, "max_iter": 700, "batch_size": 64},
    "dsvi_regressor": {"n_inducing": 15, "max_iter": 300, "batch_size": 64},
}
_TABLES = ("embedding", "predictions", "hidden", "completed", "check")


def surface(n: int, seed: int) -> Dataset:
    """Rows on a curved surface, six columns, of which the first is a function of the others."""
    rng = np.random.default_rng(seed)
    latent = rng.standard_normal((n, 2))
    mixing = np.random.default_rng(11).standard_normal((2, 6))
    X = np.sin(latent @ mixing) + 0.1 * rng.standard_normal((n, 6))
    frame = pd.DataFrame(X, columns=[f"c{d}" for d in range(6)])
    frame["aim"] = latent[:, 0]
    return dataclasses.replace(
        Dataset.from_arrays(X, feature_names=list(frame.columns[:6]), name="surface"), frame=frame
    )


@dataclass
class Jobs:
    """The descriptions of jobs on one store, whose fitted runs are there.

    Attributes:
        store: the store.
        map_run: a fitted map.
        target_run: a fit to a target.
    """

    store: Store
    map_run: str = ""
    target_run: str = ""

    def spec(self, kind: str) -> JobSpec:
        """A job: "project", "impute", "predict", or the model of a fit to a target."""
        store = self.store
        if kind in TARGETS:
            digest = store.datasets.put(surface(400, 12))
            return JobSpec(digest, "surface", kind, dict(TARGETS[kind]), target="aim")
        if kind == "impute":
            return imputation_of(store.get(self.map_run))
        rows = surface(2_000 if kind == "project" else 60_000, 13)
        store.datasets.put(rows)
        if kind == "project":
            return projection_of(store.get(self.map_run), rows)
        return prediction_of(store.get(self.target_run), rows)

    def fit(self, kinds: tuple[str, ...]) -> None:
        """Fit the map and the model of a target that these kinds use; a server must be up."""
        store, table = self.store, surface(200, 14)
        gaps = np.random.default_rng(15).random(table.X.shape) < 0.1
        holed = dataclasses.replace(table, X=np.where(gaps, np.nan, table.X))
        settings = {"n_components": 2, "n_inducing": 12, "max_iter": 600, "learning_rate": 0.02}
        spec = JobSpec(store.datasets.put(holed), "surface", "bayesian_gplvm", settings)
        if {"project", "impute"} & set(kinds):
            self.map_run = store.submit(spec)
        digest = store.datasets.put(table)
        spec = JobSpec(digest, "surface", "svgp_regressor", {"max_iter": 40}, target="aim")
        self.target_run = store.submit(spec)
        for run in filter(None, (self.map_run, self.target_run)):
            assert finished(store, run).status == "done"


def results(store: Store, job: Job) -> dict[str, object]:
    """All numbers that a finished job has left, to be compared bit by bit."""
    folder = store.job_folder(job.id)
    found: dict[str, object] = {"elbo": job.elbo, "converged": job.converged}
    found |= {key: metric.value for key, metric in job.metrics.items()}
    for name in _TABLES:
        path = folder.path / f"{name}.parquet"
        if path.is_file():
            found[name] = path.read_bytes()
    return found
