"""Table of runs, their distinct names, and the differences of their settings. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from app.analysis.tables.model_cards import ModelCard
from app.formatting import shortened
from lvmcore.runs import Job

__all__ = [
    "PROGRESS",
    "changed_settings",
    "in_progress",
    "matching_runs",
    "readable_size",
    "run_names",
    "run_table",
    "setting_differences",
]

#: Title of the column that exists only while a run is in progress.
PROGRESS = "Progress"
_HELD_OUT = "Held-out accuracy"
#: Keys of metrics; a column shows the first that a run has.
_METRICS = {
    "1-NN": ("knn_accuracy", "held_out_knn_accuracy"),
    _HELD_OUT: ("held_out_accuracy", "accuracy"),
    "R²": ("r2",),
    "Trustworthiness": ("trustworthiness",),
}
_ALWAYS = ("1-NN", "Trustworthiness")
_UNITS = ("bytes", "kB", "MB", "GB", "TB")

Cards = Mapping[str, ModelCard]


def in_progress(job: Job) -> bool:
    """Whether a run is in progress, its scores included."""
    return job.stage != "finished"


def _title(job: Job, cards: Cards) -> str:
    """Title of the model of a run; its key if this version has no such model."""
    card = cards.get(job.spec.model)
    return job.spec.model if card is None else card.title


def _settings(job: Job, cards: Cards) -> dict[str, tuple[Any, Any]]:
    """Values and defaults of all settings of a run, by their labels, in the model's order."""
    card = cards.get(job.spec.model)
    given = dict(job.spec.parameters)
    if card is None:
        return {name: (value, ...) for name, value in given.items()}
    return {
        setting.label: (given.get(setting.name, setting.default), setting.default)
        for setting in card.parameters
    }


def changed_settings(job: Job, cards: Cards) -> str:
    """The settings of a run that differ from the defaults, in one line; blank for none."""
    found = [
        f"{label} {_text(label, value)}"
        for label, (value, default) in _settings(job, cards).items()
        if value != default
    ]
    return ", ".join(found)


def _text(label: str, value: object) -> str:
    if value is None:
        return "none" if label == "seed" else "auto"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def run_table(jobs: Sequence[Job], cards: Cards, shares: Mapping[str, float]) -> pd.DataFrame:
    """The table of runs.

    Args:
        jobs: the runs in the order of the table.
        cards: cards of the models, by key.
        shares: progress of the runs that are not finished, from 0 to 1, by id.

    Returns:
        One row per run. Numbers stay numbers, so that the table can be sorted; a value that a run
        does not have is missing. The column PROGRESS exists only if ``shares`` is not empty, those
        of held-out accuracy, R², tags and notes only if a run has one, and that of the device only
        if a run was on a GPU.
    """
    columns: dict[str, Any] = {"Name": [shortened(job.name, 80) for job in jobs]}
    if any(job.tags for job in jobs):
        columns["Tags"] = [list(job.tags) for job in jobs]
    columns |= {
        "Data": [shortened(job.spec.dataset_name) for job in jobs],
        "Model": [_title(job, cards) for job in jobs],
        "Settings": [changed_settings(job, cards) or "defaults" for job in jobs],
        "Status": [_status(job) for job in jobs],
    }
    if shares:
        columns[PROGRESS] = pd.Series([shares.get(job.id) for job in jobs], dtype="float64")
    columns["Bound"] = pd.Series([job.elbo for job in jobs], dtype="float64")
    for title, keys in _METRICS.items():
        values = [_first_metric(job, keys) for job in jobs]
        if title in _ALWAYS or any(value is not None for value in values):
            columns[title] = pd.Series(values, dtype="float64")
    if any(job.computation is not None and job.computation.device != "cpu" for job in jobs):
        columns["Device"] = ["" if j.computation is None else j.computation.place for j in jobs]
    columns["Seconds"] = pd.Series([job.seconds for job in jobs], dtype="float64")
    columns["When"] = pd.Series([job.submitted for job in jobs], dtype="datetime64[us, UTC]")
    if any(job.note for job in jobs):
        columns["Note"] = [shortened(job.note, 120) for job in jobs]
    return pd.DataFrame(columns)


def matching_runs(jobs: Sequence[Job], cards: Cards, text: str, tags: Sequence[str]) -> list[Job]:
    """The runs that have all words of a text, and all of some tags.

    Args:
        jobs: the runs.
        cards: cards of the models, by key.
        text: words, each a part of a run's name, data, model, settings, status, tags or note;
            upper and lower case are the same.
        tags: the tags.
    """
    words, wanted = text.casefold().split(), set(tags)
    found = []
    for job in jobs:
        parts = (
            job.name,
            job.spec.dataset_name,
            _title(job, cards),
            changed_settings(job, cards) or "defaults",
            _status(job),
            *job.tags,
            job.note,
        )
        content = "\n".join(parts).casefold()
        if wanted <= set(job.tags) and all(word in content for word in words):
            found.append(job)
    return found


def _first_metric(job: Job, keys: Sequence[str]) -> float | None:
    """The first of some metrics that a run has."""
    found = (job.metrics[key].value for key in keys if key in job.metrics)
    return next(found, None)


def _status(job: Job) -> str:
    if job.status == "queued" and job.queue_place:
        return f"queued, position {job.queue_place}"
    if job.status == "done" and job.stage == "measuring":
        return "done, measuring"
    return job.status


def run_names(jobs: Sequence[Job], cards: Cards) -> dict[str, str]:
    """Distinct names of runs, by id.

    Runs of the same name get the settings in which they differ; runs of the same settings get a
    number, the oldest first.
    """
    found = {job.id: job.name for job in jobs}
    for name in _repeated(found):
        group = [job for job in jobs if job.name == name]
        for job, settings in zip(group, _differing_settings(group, cards), strict=True):
            found[job.id] = f"{name}, {settings}" if settings else name
    same = _repeated(found)
    numbered: Counter[str] = Counter()
    for job in sorted(jobs, key=lambda job: (job.submitted, job.id)):
        name = found[job.id]
        if name in same:
            numbered[name] += 1
            found[job.id] = f"{name} ({numbered[name]})"
    return found


def _repeated(found: Mapping[str, str]) -> set[str]:
    return {name for name, times in Counter(found.values()).items() if times > 1}


def _differing_settings(group: Sequence[Job], cards: Cards) -> list[str]:
    """The settings in which runs of the same name differ, one line per run."""
    settings = [
        {label: _text(label, value) for label, (value, _) in _settings(job, cards).items()}
        for job in group
    ]
    labels = [
        label
        for label in dict.fromkeys(label for one in settings for label in one)
        if len({one.get(label) for one in settings}) > 1
    ]
    return [
        ", ".join(f"{label} {one[label]}" for label in labels if label in one) for one in settings
    ]


def setting_differences(jobs: Sequence[Job], cards: Cards) -> pd.DataFrame:
    """Differences of runs in their data, models and settings.

    Args:
        jobs: two or more runs.
        cards: cards of the models, by key.

    Returns:
        One row per run, its name first; no other column if nothing differs. A setting that a model
        does not have is a dash, which does not count as a difference.
    """
    names = run_names(jobs, cards)
    parts = [_run_parts(job, cards) for job in jobs]
    columns = {"Run": [names[job.id] for job in jobs]}
    digests: dict[str, set[str]] = {}
    for job in jobs:
        digests.setdefault(job.spec.dataset_name, set()).add(job.spec.dataset)
    for one, job in zip(parts, jobs, strict=True):
        if len(digests[job.spec.dataset_name]) > 1:  # different data of the same name
            one["Data"] += f" ({job.spec.dataset[:6]})"
    for part in dict.fromkeys(part for one in parts for part in one):
        if len({one[part] for one in parts if part in one}) > 1:
            columns[part] = [one.get(part, "–") for one in parts]
    return pd.DataFrame(columns)


def _run_parts(job: Job, cards: Cards) -> dict[str, str]:
    """Data, model, target and all settings of a run, as texts."""
    settings = {
        label[:1].upper() + label[1:]: _text(label, value)
        for label, (value, _) in _settings(job, cards).items()
    }
    parts = {"Data": job.spec.dataset_name, "Model": _title(job, cards)}
    if job.spec.target:
        parts["Target"] = job.spec.target
    return {**parts, **settings}


def readable_size(n: int) -> str:
    """A number of bytes with its unit: "812 bytes", "1.4 MB"."""
    value, unit = float(n), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    digits = 0 if unit == 0 or value >= 9.95 else 1
    return f"{value:.{digits}f} {_UNITS[unit]}"
