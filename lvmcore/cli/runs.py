"""The command ``lvmcore runs``: list, show, delete, resume and continue runs of the store."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table as Grid
from rich.text import Text

from lvmcore.cli.console import CommandConsole, ExitCode, short_number
from lvmcore.errors import ConfigError, DataError
from lvmcore.evaluation.target_scores import (
    TargetComparison,
    read_comparison,
    target_comparison_to_json,
)
from lvmcore.runs.continuation import propose_continuation
from lvmcore.runs.convergence import convergence_verdict
from lvmcore.runs.job import Job
from lvmcore.runs.store import Store

__all__ = ["continue_run", "delete_run", "list_runs", "resume_run", "run_by_id", "show_run"]

_ID_DIGITS = 8
# Least width of the column of names, and the gap between columns, characters.
_SHORTEST_NAME, _GAP = 8, 3


def list_runs(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """List all runs, newest first.

    Args:
        arguments: the parsed command line.
        console: the output.

    Returns:
        The exit status, 0.
    """
    store = Store()
    jobs, damaged = store.list(), store.damaged()
    if arguments.json:
        console.write_json([_run_json(job) for job in jobs])
    elif jobs:
        console.show(_runs_grid(jobs, console.width))
    elif not damaged:
        console.say(f"There are no runs in {store.home}.")
    for run in damaged:
        console.error(f"The run {run.id} is damaged. {run.reason}")
    return ExitCode.OK


def show_run(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """Print the description, state and metrics of a run.

    Args:
        arguments: the parsed command line.
        console: the output.

    Returns:
        The exit status, 0.

    Raises:
        DataError: there is no such run.
    """
    store = Store()
    job = run_by_id(store, arguments.id)
    comparison = _comparison(store, job)
    if arguments.json:
        stored = None if comparison is None else target_comparison_to_json(comparison)
        console.write_json({**_run_json(job), "comparison": stored})
        return ExitCode.OK
    settings = ", ".join(f"{name}={value}" for name, value in job.spec.parameters.items())
    lines = {
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
    if job.computation is not None:
        lines["device"] = job.computation.text
    if job.spec.target:
        lines["target"] = job.spec.target
    if job.spec.origin:
        lines["fitted by"] = job.spec.origin
    if job.spec.continues:
        lines["continues"] = job.spec.continues
    for name, text in lines.items():
        console.say(f"{name:<10}{text}")
    console.say_metrics(job.metrics)
    console.say_comparison(comparison)
    for line in (*job.notes, job.message, job.note):
        if line:
            console.say(f"  {line}")
    return ExitCode.OK


def delete_run(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """Delete a run: its folder goes to the bin.

    Args:
        arguments: the parsed command line.
        console: the output.

    Returns:
        The exit status, 0.

    Raises:
        ConfigError: it is running.
        DataError: there is no such run.
    """
    store = Store()
    damaged = [run for run in store.damaged() if run.id.startswith(arguments.id.lower())]
    if len(damaged) == 1 and arguments.id and not _matching(store, arguments.id):
        deleted, what = damaged[0].id, "which was damaged"
    else:
        job = run_by_id(store, arguments.id)
        deleted, what = job.id, job.name
    store.delete(deleted)
    command = f"lvmcore runs restore {deleted[:_ID_DIGITS]}"
    console.say(f"Deleted {deleted}, {what}. `{command}` undoes it.")
    return ExitCode.OK


def resume_run(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """Put a run that was stopped early back in the queue.

    Args:
        arguments: the parsed command line.
        console: the output.

    Returns:
        The exit status, 0.

    Raises:
        ConfigError: it cannot be resumed.
        DataError: there is no such run.
    """
    store = Store()
    job = run_by_id(store, arguments.id)
    store.resume(job.id)
    text = f"Queued {job.id}, {job.name}. It resumes as soon as the dashboard runs."
    console.say(text)
    return ExitCode.OK


def continue_run(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """Put the continuation of a fit with more steps in the queue.

    Args:
        arguments: the parsed command line.
        console: the output.

    Returns:
        The exit status, 0.

    Raises:
        ConfigError: its bound was not rising at its end, or the steps are not more than before.
        DataError: there is no such run.
    """
    store = Store()
    job = run_by_id(store, arguments.id)
    more = propose_continuation(store, job)
    steps = arguments.steps or (0 if more is None else more.total)
    name = store.continue_fit(job.id, steps)
    start = "the start" if job.branch_step is None else f"step {job.branch_step}"
    text = f"Queued {name}, {job.name}, with {steps:,} steps."
    console.say(f"{text} It begins from {start}, once the dashboard runs.")
    return ExitCode.OK


def _comparison(store: Store, job: Job) -> TargetComparison | None:
    """The comparison of a fit to a target with baselines; None for another run, or without one."""
    if job.spec.kind != "fit" or not job.spec.target:
        return None
    return read_comparison(store.job_folder(job.id).files.comparison)


def _runs_grid(jobs: list[Job], width: int) -> Grid:
    """The table of runs; on a narrow terminal the names are shortened."""
    columns: dict[str, list[str]] = {
        "id": [job.id[:_ID_DIGITS] for job in jobs],
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
    columns["name"] = [_shortened(name, max(left, _SHORTEST_NAME)) for name in columns["name"]]
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False)
    for title in columns:
        grid.add_column(title, no_wrap=True)
    for row in zip(*columns.values(), strict=True):
        grid.add_row(*[Text(cell) for cell in row])
    return grid


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def _matching(store: Store, name: str) -> list[Job]:
    """The runs whose ids begin with ``name``."""
    return [job for job in store.list() if job.id.startswith(name.lower())]


def run_by_id(store: Store, name: str) -> Job:
    """The run whose id begins with ``name``.

    Raises:
        ConfigError: there are several.
        DataError: there is none.
    """
    found = _matching(store, name)
    if not found or not name:
        raise DataError(f"There is no run {name!r} in {store.home}. `lvmcore runs` lists them.")
    if len(found) > 1:
        raise ConfigError(
            f"The ids of {len(found)} runs begin with {name!r}: give more of its digits."
        )
    return found[0]


def _run_json(job: Job) -> dict[str, Any]:
    """A run in the form of the JSON output."""
    moments = {
        name: None if moment is None else moment.isoformat()
        for name, moment in (
            ("submitted", job.submitted),
            ("started", job.started),
            ("ended", job.ended),
        )
    }
    figures = {
        key: {"label": metric.name, "value": metric.value, "protocol": metric.protocol}
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
        "origin": job.spec.origin or None,
        "status": job.status,
        "stage": job.stage,
        "bound": job.elbo,
        "converged": job.converged,
        "verdict": convergence_verdict(job) if job.status == "done" else None,
        "metrics": figures,
        "seconds": job.seconds,
        "computation": None if job.computation is None else asdict(job.computation),
        **moments,
        "message": job.message,
        "notes": list(job.notes),
        "has_model": job.has_model,
    }


def _number(value: float | None) -> str:
    return "-" if value is None else short_number(value)
