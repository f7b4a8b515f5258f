"""Sweeps: the fits of a grid of settings, queued together and looked at together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.services import fits, server
from lvmcore.data import Dataset
from lvmcore.runs import Job

__all__ = ["start_sweep", "sweep_of", "sweeps", "sweeps_with"]


def sweep_of(
    key: str, parameters: Mapping[str, Any], texts: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The settings of each fit of a sweep.

    Args:
        key: of the model.
        parameters: settings that all fits share.
        texts: of each setting that is swept, its values as somebody typed them.

    Raises:
        ConfigError: a value is not allowed, or there are too few or too many fits.
    """
    from lvmcore.models import MODELS
    from lvmcore.parameters import parameters_of
    from lvmcore.runs.sweep import grid, values_of

    known = {parameter.name: parameter for parameter in parameters_of(MODELS[key])}
    axes = {name: values_of(known[name], text) for name, text in texts.items()}
    return grid(MODELS[key], parameters, axes)


def start_sweep(dataset: Dataset, key: str, settings: Sequence[Mapping[str, Any]]) -> str:
    """Put the fits of a sweep in the queue, all of them or none.

    Returns:
        The sweep's id.

    Raises:
        ConfigError: a setting is not allowed, or the queue has not that much room.
        DataError: the dataset or a run cannot be kept.
    """
    from lvmcore.runs.sweep import new_sweep

    sweep = new_sweep()
    specs = [fits.spec_of(dataset, key, one, sweep) for one in settings]
    server.store().put_dataset(dataset)
    _, cost = server.estimator().known(specs[0])
    server.store().submit_all(specs, memory=None if cost is None else cost.memory)
    server.launcher()
    return sweep


def sweeps_with(sweep: str) -> dict[str, list[Job]]:
    """A sweep by its id, with its fits in order; nothing where it is not there."""
    jobs = [job for job in server.store().list() if job.spec.sweep == sweep]
    return {sweep: jobs[::-1]} if jobs else {}


def sweeps(dataset: str) -> dict[str, list[Job]]:
    """The sweeps over a dataset by their ids, the newest first, each with its fits in order."""
    found: dict[str, list[Job]] = {}
    for job in server.store().list():
        if job.spec.sweep and job.spec.dataset == dataset:
            found.setdefault(job.spec.sweep, []).append(job)
    return {sweep: jobs[::-1] for sweep, jobs in found.items()}
