"""What the tools read in a store: descriptions of datasets, of models and of runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from lvmcore.data.dataset import Dataset
from lvmcore.errors import ConfigError, DataError
from lvmcore.mcp.json_values import json_numbers, json_value
from lvmcore.models import REGISTRY, check_model
from lvmcore.relevance import relevance_shares
from lvmcore.results import PACE_STEPS
from lvmcore.runs.convergence import convergence_verdict
from lvmcore.runs.job import Job
from lvmcore.runs.store import Store

__all__ = [
    "MOST_COLUMNS",
    "MOST_LISTED",
    "check_page",
    "compared_runs",
    "dataset_description",
    "dataset_digest",
    "dataset_list",
    "find_run",
    "model_list",
    "model_settings",
    "run_description",
    "run_list",
    "run_progress",
]

#: Runs or datasets of one answer, columns of a description, and runs of a comparison.
MOST_LISTED, MOST_COLUMNS, MOST_COMPARED = 200, 200, 20
LAST_STEPS = 5


def check_page(limit: int, offset: int, most: int) -> None:
    """Check which part of a list is asked for.

    Raises:
        ConfigError: the limit is not from 1 to ``most``, or the offset is negative.
    """
    if not 1 <= limit <= most:
        raise ConfigError(f"limit is {limit}: expected a whole number from 1 to {most}.")
    if offset < 0:
        raise ConfigError(f"offset is {offset}: expected 0 or a positive whole number.")


def find_run(store: Store, run: str) -> Job:
    """The run, of any kind, whose id is or begins with ``run``.

    Raises:
        ConfigError: there are several.
        DataError: there is none.
    """
    found = [job for job in store.list(None) if run and job.id.startswith(run.lower())]
    if not found:
        raise DataError(f"There is no run {run!r}. list_runs lists them.")
    if len(found) > 1:
        raise ConfigError(f"The ids of {len(found)} runs begin with {run!r}: give more digits.")
    return found[0]


def dataset_digest(store: Store, dataset: str) -> str:
    """The digest of the dataset whose digest begins with, or whose name is, ``dataset``.

    Raises:
        ConfigError: there are several.
        DataError: there is none.
    """
    names = store.datasets.names()
    found = [digest for digest in names if dataset and digest.startswith(dataset.lower())]
    found = found or [digest for digest, name in names.items() if name == dataset]
    if not found:
        raise DataError(f"There is no dataset {dataset!r}. list_datasets lists them.")
    if len(found) > 1:
        raise ConfigError(f"{len(found)} datasets match {dataset!r}: give more of the digest.")
    return found[0]


def dataset_list(store: Store, limit: int, offset: int) -> dict[str, Any]:
    """Datasets by name, with their shapes.

    Raises:
        ConfigError: the limit or the offset is out of range.
    """
    check_page(limit, offset, MOST_LISTED)
    names = sorted(store.datasets.names().items(), key=lambda item: (item[1], item[0]))
    listed: list[dict[str, Any]] = []
    for digest, name in names[offset : offset + limit]:
        try:
            rows, features = store.datasets.shape(digest)
        except DataError:  # damaged, as its name says
            listed.append({"dataset": digest, "name": name, "rows": None, "features": None})
            continue
        listed.append({"dataset": digest, "name": name, "rows": rows, "features": features})
    return {"total": len(names), "datasets": listed}


def dataset_description(store: Store, dataset: str) -> dict[str, Any]:
    """The columns of a dataset with types, missing cells and ranges.

    Raises:
        ConfigError: several datasets have that name.
        DataError: there is none, or it is damaged.
    """
    digest = dataset_digest(store, dataset)
    data = store.datasets.get(digest)
    columns = [_column(data, str(name)) for name in data.frame.columns[:MOST_COLUMNS]]
    return {
        "dataset": digest,
        "name": data.name,
        "rows": len(data),
        "rows_are_a_sample": data.files is not None,
        "features": list(data.feature_names[:MOST_COLUMNS]),
        "total_features": len(data.feature_names),
        "labels": list(data.label_columns),
        "held_out_rows": int(data.held_out.sum()),
        "notes": json_value(list(data.notes)),
        "total_columns": len(data.frame.columns),
        "columns": columns,
    }


def _column(data: Dataset, name: str) -> dict[str, Any]:
    cells = data.frame[name]
    known = cells.dropna()
    found: dict[str, Any] = {
        "name": name,
        "type": str(cells.dtype),
        "missing": int(cells.isna().sum()),
        "feature": name in data.feature_names,
    }
    ordered = pd.api.types.is_numeric_dtype(cells) or pd.api.types.is_datetime64_any_dtype(cells)
    if len(known) and ordered:
        return found | {"least": json_value(known.min()), "largest": json_value(known.max())}
    counts = known.astype(str).value_counts()
    most = [{"value": json_value(text), "rows": int(n)} for text, n in counts.head(5).items()]
    return found | {"distinct": len(counts), "most_frequent": most}


def model_list() -> dict[str, Any]:
    """The models, with their tasks."""
    models = [
        {"model": key, "title": declared.title, "task": REGISTRY[key].task}
        for key, declared in REGISTRY.declarations.items()
    ]
    return {"models": models}


def model_settings(model: str) -> dict[str, Any]:
    """The settings of a model: type, default, range and meaning of each."""
    check_model(model)
    settings = [
        {
            "name": one.name,
            "type": one.kind,
            "default": json_value(one.default),
            "least": json_value(one.low),
            "largest": json_value(one.high),
            "choices": json_value(list(one.choices or ())),
            "meaning": one.doc,
        }
        for one in REGISTRY[model].parameters()
    ]
    return {"model": model, "title": REGISTRY[model].title, "settings": settings}


def run_list(store: Store, limit: int, offset: int) -> dict[str, Any]:
    """Fits, newest first."""
    check_page(limit, offset, MOST_LISTED)
    jobs = store.list()
    return {"total": len(jobs), "runs": [_short(job) for job in jobs[offset : offset + limit]]}


def _short(job: Job) -> dict[str, Any]:
    return {
        "run": job.id,
        "name": job.name,
        "model": job.spec.model,
        "dataset": job.spec.dataset,
        "dataset_name": job.spec.dataset_name,
        "target": job.spec.target or None,
        "status": job.status,
        "bound": json_value(job.elbo),
        "submitted": job.submitted.isoformat(),
    }


def _metrics(job: Job) -> dict[str, Any]:
    return {
        key: {"label": one.name, "value": json_value(one.value), "protocol": one.protocol}
        for key, one in job.metrics.items()
    }


def run_description(store: Store, run: str) -> dict[str, Any]:
    """A run: model, settings, state, metrics, notes, and the relevance of its dimensions.

    Raises:
        ConfigError: the ids of several runs begin so.
        DataError: there is no such run.
    """
    job = find_run(store, run)
    relevance = None
    if job.has_model and job.spec.kind == "fit" and not job.spec.target:
        shares = relevance_shares(store.load_model(job.id).relevance_)
        relevance = {path: json_numbers(share) for path, share in shares.items()}
    return _short(job) | {
        "kind": job.spec.kind,
        "settings": json_value(dict(job.spec.parameters)),
        "message": job.message,
        "seconds": json_value(job.seconds),
        "converged": job.converged,
        "verdict": convergence_verdict(job) if job.status == "done" else None,
        "has_model": job.has_model,
        "metrics": _metrics(job),
        "notes": json_value(list(job.notes)),
        "users_note": job.note,
        "users_tags": list(job.tags),
        "relevance_shares": relevance,
        "selections": [one.name for one in store.selections.list(job.id)],
    }


def compared_runs(store: Store, runs: list[str]) -> dict[str, Any]:
    """Metrics of several runs, side by side.

    Raises:
        ConfigError: there are fewer than 2 or more than 20 runs, or an id is not unique.
        DataError: there is no such run.
    """
    if not 2 <= len(runs) <= MOST_COMPARED:
        raise ConfigError(f"{len(runs)} runs are given: expected 2 to {MOST_COMPARED}.")
    jobs = [find_run(store, run) for run in runs]
    keys = list(dict.fromkeys(key for job in jobs for key in job.metrics))
    metrics = []
    for key in keys:
        first = next(job.metrics[key] for job in jobs if key in job.metrics)
        values = [
            json_value(job.metrics[key].value) if key in job.metrics else None for job in jobs
        ]
        metrics.append({"metric": key, "label": first.name, "values": values})
    same = len({job.spec.dataset for job in jobs}) == 1
    return {"runs": [_short(job) for job in jobs], "same_dataset": same, "metrics": metrics}


def run_progress(store: Store, run: str) -> dict[str, Any]:
    """State of a run, its last steps, and the time that is left.

    Times are in seconds, bounds in nats.

    Raises:
        ConfigError: the ids of several runs begin so.
        DataError: there is no such run.
    """
    job = find_run(store, run)
    steps = [event.step for event in store.events(job.id)]
    last = [
        {
            "step": step.iteration,
            "of": step.total,
            "seconds": json_value(step.seconds),
            "bound": json_value(step.objective),
            "held_out": json_value(step.held_out),
        }
        for step in steps[-LAST_STEPS:]
    ]
    left = None
    if steps and job.status == "running":
        before = steps[-PACE_STEPS - 1] if len(steps) > PACE_STEPS else None
        left = json_value(float(np.maximum(steps[-1].seconds_left(before), 0.0)))
    return {
        "run": job.id,
        "status": job.status,
        "stage": job.stage,
        "queue_place": job.queue_place,
        "message": job.message,
        "last_steps": last,
        "seconds_left_at_most": left,
    }
