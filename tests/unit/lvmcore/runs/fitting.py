"""Runs that are fitted in the test's own process: no launcher, no worker."""

from typing import Any

from lvmcore.data import Dataset
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import JobSpec, Store

__all__ = ["ran"]


def ran(store: Store, dataset: Dataset, model: str, name: str = "", **parameters: Any) -> str:
    """Run a fit in this process.

    Returns:
        Its id.
    """
    spec = JobSpec(store.datasets.put(dataset), dataset.name, model, parameters, name)
    with store.own(spec) as folder:
        run_job(folder, lambda: store.datasets.get(dataset.digest), lambda: None)
        return folder.path.name
