"""Sweeps: the fits of a grid of settings, submitted and shown together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.services import runs, server
from lvmcore.data import Dataset
from lvmcore.runs import Job

__all__ = ["dataset_sweeps", "start_sweep", "sweep_by_id", "sweep_settings"]


def sweep_settings(
    key: str, parameters: Mapping[str, Any], texts: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The settings of each fit of a sweep.

    Args:
        key: key of the model.
        parameters: settings that all fits share.
        texts: values of each swept setting, as typed.

    Raises:
        ConfigError: a value is not allowed, or the number of fits is too small or too large.
    """
    from lvmcore.models import MODELS
    from lvmcore.parameters import parameters_of
    from lvmcore.runs.sweep import sweep_grid, values_of

    known = {parameter.name: parameter for parameter in parameters_of(MODELS[key])}
    axes = {name: values_of(known[name], text) for name, text in texts.items()}
    return sweep_grid(MODELS[key], parameters, axes)


def start_sweep(dataset: Dataset, key: str, settings: Sequence[Mapping[str, Any]]) -> str:
    """Submit the fits of a sweep, all of them or none.

    Returns:
        Id of the sweep.

    Raises:
        ConfigError: a setting is not allowed, or the queue has too little room.
        DataError: the dataset or a run cannot be stored.
    """
    from lvmcore.runs.sweep import new_sweep

    sweep = new_sweep()
    specs = [runs.fit_spec(dataset, key, one, sweep) for one in settings]
    server.store().datasets.put(dataset)
    _, cost = server.estimator().known(specs[0])
    server.store().submit_all(specs, memory=None if cost is None else cost.memory)
    server.launcher()
    return sweep


def sweep_by_id(sweep: str) -> dict[str, list[Job]]:
    """A sweep by its id, with its fits in order; empty where it does not exist."""
    jobs = [job for job in server.store().list() if job.spec.sweep == sweep]
    return {sweep: jobs[::-1]} if jobs else {}


def dataset_sweeps(dataset: str) -> dict[str, list[Job]]:
    """The sweeps of a dataset by their ids, newest first, each with its fits in order."""
    found: dict[str, list[Job]] = {}
    for job in server.store().list():
        if job.spec.sweep and job.spec.dataset == dataset:
            found.setdefault(job.spec.sweep, []).append(job)
    return {sweep: jobs[::-1] for sweep, jobs in found.items()}
