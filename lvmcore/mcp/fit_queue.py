"""Start and stop of fits through the queue of a store."""

from __future__ import annotations

from typing import Any

from lvmcore.data.column_likelihoods import check_dataset_likelihoods
from lvmcore.jobs.launcher import Launcher
from lvmcore.likelihoods.catalogue import GAUSSIAN
from lvmcore.mcp.store_reader import dataset_digest, find_run
from lvmcore.models import model_class
from lvmcore.prediction.target_rows import target_features
from lvmcore.runs.job import JobSpec
from lvmcore.runs.store import Store

__all__ = ["FitQueue"]


class FitQueue:
    """Fits of a store, each in a process of its own; the launcher starts with the first fit.

    Args:
        store: the store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._launcher: Launcher | None = None

    def start(
        self, dataset: str, model: str, settings: dict[str, Any], target: str
    ) -> dict[str, Any]:
        """Put a fit in the queue, checked as a fit of the pages is.

        Raises:
            ConfigError: the model or a setting cannot be used, or the queue is full.
            DataError: there is no such dataset, or its cells do not suit the settings.
        """
        from lvmcore.runs.model_of_job import check_spec

        digest = dataset_digest(self._store, dataset)
        cls = model_class(model)
        data = self._store.datasets.get(digest)
        subject = f"{target[:60]} of {data.name}" if target else data.name
        spec = JobSpec(
            dataset=digest,
            dataset_name=data.name,
            model=model,
            parameters=settings,
            name=f"{cls.title} on {subject}",
            target=target,
        )
        check_spec(spec)
        features = target_features(data, target) if target else data
        check_spec(spec, features.transformed_names)
        check_dataset_likelihoods(data, str(settings.get("column_likelihood", GAUSSIAN)))
        run = self._store.submit(spec)
        if self._launcher is None:
            self._launcher = Launcher(self._store, spare=False)
        self._launcher.ensure_running()
        return {"run": run, "name": spec.name, "status": self._store.get(run).status}

    def stop(self, run: str) -> dict[str, Any]:
        """Cancel a run; one that has ended is unchanged.

        Raises:
            DataError: there is no such run.
        """
        job = find_run(self._store, run)
        self._store.cancel(job.id)
        return {"run": job.id, "status_before": job.status, "already_ended": job.finished}

    def close(self) -> None:
        """Stop the launcher; active fits are interrupted and keep their results so far."""
        if self._launcher is not None:
            self._launcher.close()
