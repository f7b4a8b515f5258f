"""The command ``lvmcore runs``: the runs of the dashboard's store, listed and looked after."""

from __future__ import annotations

import argparse
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table as Grid
from rich.text import Text

from lvmcore.cli.console import CommandConsole, ExitCode, short_number
from lvmcore.errors import ConfigError, DataError
from lvmcore.runs.continuation import propose_continuation
from lvmcore.runs.job import Job
from lvmcore.runs.store import Store

__all__ = ["continue_run", "delete_run", "list_runs", "resume_run", "show_run"]

_SHORT = 8  # digits of an id
_SHORTEST_NAME, _GAP = 8, 3  # characters


def list_runs(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """List all runs, newest first.

    Args:
        arguments: what ``lvmcore.cli.parser`` parsed.
        console: where it prints.

    Returns:
        The exit status, 0.
    """
    store = Store()
    jobs = store.list()
    if arguments.json:
        console.write_json([_facts(job) for job in jobs])
        return ExitCode.OK
    if not jobs:
        console.say(f"There are no runs in {store.home}.")
        return ExitCode.OK
    console.show(_grid(jobs, console.width))
    return ExitCode.OK


def show_run(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """Say what there is to know of one run.

    Args:
        arguments: what ``lvmcore.cli.parser`` parsed.
        console: where it prints.

    Returns:
        The exit status, 0.

    Raises:
        DataError: there is no such run.
    """
    store = Store()
    job = _find(store, arguments.id)
    if arguments.json:
        console.write_json(_facts(job))
        return ExitCode.OK
    settings = ", ".join(f"{name}={value}" for name, value in job.spec.parameters.items())
    told = {
        "run": job.id,
        "name": job.name,
        "model": job.spec.model,
        "data": job.spec.dataset_name,
        "settings": settings or "defaults",
        "status": job.status,
        "bound": _number(job.elbo),
        "seconds": _number(job.seconds),
        "submitted": f"{job.submitted.astimezone():%Y-%m-%d %H:%M:%S}",
        "folder": str(store.job_folder(job.id).path),
    }
    if job.spec.target:
        told["target"] = job.spec.target
    if job.spec.continues:
        told["continues"] = job.spec.continues
    for name, text in told.items():
        console.say(f"{name:<10}{text}")
    console.say_metrics(job.metrics)
    for line in (*job.notes, job.message, job.note):
        if line:
            console.say(f"  {line}")
    return ExitCode.OK


def delete_run(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """Delete a run with everything in its folder.

    Args:
        arguments: what ``lvmcore.cli.parser`` parsed.
        console: where it prints.

    Returns:
        The exit status, 0.

    Raises:
        ConfigError: it is under way.
        DataError: there is no such run.
    """
    store = Store()
    job = _find(store, arguments.id)
    store.delete(job.id)
    console.say(f"Deleted {job.id}, {job.name}.")
    return ExitCode.OK


def resume_run(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """Put a run that stopped early back in the queue.

    Args:
        arguments: what ``lvmcore.cli.parser`` parsed.
        console: where it prints.

    Returns:
        The exit status, 0.

    Raises:
        ConfigError: it has nothing to go on from.
        DataError: there is no such run.
    """
    store = Store()
    job = _find(store, arguments.id)
    store.resume(job.id)
    text = f"Queued {job.id}, {job.name}. It goes on as soon as the dashboard runs."
    console.say(text)
    return ExitCode.OK


def continue_run(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """Put a fit in the queue with more steps than one that ended with its bound still rising.

    Args:
        arguments: what ``lvmcore.cli.parser`` parsed.
        console: where it prints.

    Returns:
        The exit status, 0.

    Raises:
        ConfigError: the run did not end so, or the steps are no more than it had.
        DataError: there is no such run.
    """
    store = Store()
    job = _find(store, arguments.id)
    more = propose_continuation(store, job)
    steps = arguments.steps or (0 if more is None else more.total)
    name = store.continue_fit(job.id, steps)
    begins = "It begins anew" if job.branch_step is None else f"It goes on after {job.branch_step}"
    text = f"Queued {name}, {job.name}, with {steps:,} steps. {begins}, once the dashboard runs."
    console.say(text)
    return ExitCode.OK


def _grid(jobs: list[Job], width: int) -> Grid:
    """The list; where the terminal is narrow, names are cut, and nothing else."""
    columns: dict[str, list[str]] = {
        "id": [job.id[:_SHORT] for job in jobs],
        "name": [job.name for job in jobs],
        "model": [job.spec.model for job in jobs],
        "status": [job.status for job in jobs],
        "bound": [_number(job.elbo) for job in jobs],
        "submitted": [f"{job.submitted.astimezone():%m-%d %H:%M}" for job in jobs],
    }
    others = sum(
        max(map(len, [title, *cells])) for title, cells in columns.items() if title != "name"
    )
    left = width - others - _GAP * len(columns)
    columns["name"] = [_cut(name, max(left, _SHORTEST_NAME)) for name in columns["name"]]
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False)
    for title in columns:
        grid.add_column(title, no_wrap=True)
    for row in zip(*columns.values(), strict=True):
        grid.add_row(*[Text(cell) for cell in row])
    return grid


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def _find(store: Store, name: str) -> Job:
    """The run whose id begins so.

    Raises:
        ConfigError: several do.
        DataError: none does.
    """
    found = [job for job in store.list() if job.id.startswith(name.lower())]
    if not found or not name:
        raise DataError(f"There is no run {name!r} in {store.home}. `lvmcore runs` lists them.")
    if len(found) > 1:
        raise ConfigError(
            f"The ids of {len(found)} runs begin with {name!r}: give more of its digits."
        )
    return found[0]


def _facts(job: Job) -> dict[str, Any]:
    """A run as JSON gives it to other programs."""
    moments = {
        name: None if moment is None else moment.isoformat()
        for name, moment in (
            ("submitted", job.submitted),
            ("started", job.started),
            ("ended", job.ended),
        )
    }
    figures = {
        key: {"label": metric.label, "value": metric.value, "protocol": metric.protocol}
        for key, metric in job.metrics.items()
    }
    return {
        "id": job.id,
        "name": job.name,
        "note": job.note,
        "dataset": job.spec.dataset,
        "dataset_name": job.spec.dataset_name,
        "model": job.spec.model,
        "parameters": dict(job.spec.parameters),
        "target": job.spec.target or None,
        "continues": job.spec.continues or None,
        "status": job.status,
        "stage": job.stage,
        "bound": job.elbo,
        "converged": job.converged,
        "metrics": figures,
        "seconds": job.seconds,
        **moments,
        "message": job.message,
        "notes": list(job.notes),
        "has_model": job.has_model,
    }


def _number(value: float | None) -> str:
    return "-" if value is None else short_number(value)
