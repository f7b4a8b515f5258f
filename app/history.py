"""Runs beside one another: a table of them, what to call them, how they differ. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from app.cards import ModelCard
from app.words import shortened
from lvmcore.runs import Job

__all__ = ["PROGRESS", "changed", "differences", "listing", "names", "size", "under_way"]

#: The column that is there only while something is under way.
PROGRESS = "Progress"
_HELD_OUT = "Held-out accuracy"
#: Keys of the figures that a column shows the first of.
_FIGURES = {
    "1-NN": ("knn_accuracy",),
    _HELD_OUT: ("held_out_accuracy", "accuracy"),
    "R²": ("r2",),
    "Trustworthiness": ("trustworthiness",),
}
_ALWAYS = ("1-NN", "Trustworthiness")
_UNITS = ("bytes", "kB", "MB", "GB", "TB")

Cards = Mapping[str, ModelCard]


def under_way(job: Job) -> bool:
    """Whether there is more to come of a run, be it only the figures about its map."""
    return job.stage != "finished"


def _title(job: Job, cards: Cards) -> str:
    """The name of a run's model; its key where this version does not know it."""
    card = cards.get(job.spec.model)
    return job.spec.model if card is None else card.title


def _settings(job: Job, cards: Cards) -> dict[str, tuple[Any, Any]]:
    """Value and default of all settings of a run, by their labels, in the model's order."""
    card = cards.get(job.spec.model)
    given = dict(job.spec.parameters)
    if card is None:
        return {name: (value, ...) for name, value in given.items()}
    return {
        setting.label: (given.get(setting.name, setting.default), setting.default)
        for setting in card.parameters
    }


def changed(job: Job, cards: Cards) -> str:
    """The settings of a run that are not the model's defaults, in a line; blank for none."""
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


def listing(jobs: Sequence[Job], cards: Cards, shares: Mapping[str, float]) -> pd.DataFrame:
    """The table of runs.

    Args:
        jobs: in the order of the table.
        cards: of the models, by key.
        shares: how far the runs under way are, from 0 to 1, by id.

    Returns:
        One row a run. Numbers stay numbers, so that the table can be sorted; what a run has not
        is missing. The column PROGRESS is there only where ``shares`` holds something, those of
        held-out accuracy, R² and notes only where there is one.
    """
    columns: dict[str, Any] = {
        "Name": [shortened(job.name, 80) for job in jobs],
        "Data": [shortened(job.spec.dataset_name) for job in jobs],
        "Model": [_title(job, cards) for job in jobs],
        "Settings": [changed(job, cards) or "defaults" for job in jobs],
        "Status": [_status(job) for job in jobs],
    }
    if shares:
        columns[PROGRESS] = pd.Series([shares.get(job.id) for job in jobs], dtype="float64")
    columns["Bound"] = pd.Series([job.elbo for job in jobs], dtype="float64")
    for title, keys in _FIGURES.items():
        values = [_figure(job, keys) for job in jobs]
        if title in _ALWAYS or any(value is not None for value in values):
            columns[title] = pd.Series(values, dtype="float64")
    columns["Seconds"] = pd.Series([job.seconds for job in jobs], dtype="float64")
    columns["When"] = pd.Series([job.submitted for job in jobs], dtype="datetime64[us, UTC]")
    if any(job.note for job in jobs):
        columns["Note"] = [shortened(job.note, 120) for job in jobs]
    return pd.DataFrame(columns)


def _figure(job: Job, keys: Sequence[str]) -> float | None:
    """The first of some figures that a run has."""
    found = (job.metrics[key].value for key in keys if key in job.metrics)
    return next(found, None)


def _status(job: Job) -> str:
    if job.status == "queued" and job.queue_place:
        return f"queued, place {job.queue_place}"
    if job.status == "done" and job.stage == "measuring":
        return "done, measuring"
    return job.status


def names(jobs: Sequence[Job], cards: Cards) -> dict[str, str]:
    """What to call each of some runs so that no two have the same name, by id.

    Runs of one name are told apart by their settings, and where these are the same by a number,
    the oldest first.
    """
    found = {job.id: job.name for job in jobs}
    for name in _repeated(found):
        group = [job for job in jobs if job.name == name]
        for job, settings in zip(group, _apart(group, cards), strict=True):
            found[job.id] = f"{name}, {settings}" if settings else name
    same = _repeated(found)
    seen: Counter[str] = Counter()
    for job in sorted(jobs, key=lambda job: (job.submitted, job.id)):
        name = found[job.id]
        if name in same:
            seen[name] += 1
            found[job.id] = f"{name} ({seen[name]})"
    return found


def _repeated(found: Mapping[str, str]) -> set[str]:
    return {name for name, times in Counter(found.values()).items() if times > 1}


def _apart(group: Sequence[Job], cards: Cards) -> list[str]:
    """The settings in which runs of one name differ, in a line for each run."""
    told = [
        {label: _text(label, value) for label, (value, _) in _settings(job, cards).items()}
        for job in group
    ]
    labels = [
        label
        for label in dict.fromkeys(label for one in told for label in one)
        if len({one.get(label) for one in told}) > 1
    ]
    return [", ".join(f"{label} {one[label]}" for label in labels if label in one) for one in told]


def differences(jobs: Sequence[Job], cards: Cards) -> pd.DataFrame:
    """What the chosen runs do not share, of their data, models and settings.

    Args:
        jobs: two or more.
        cards: of the models, by key.

    Returns:
        One row a run, its name first; no other column where nothing differs. A setting that a
        model does not have is a dash there, which alone makes no difference.
    """
    called = names(jobs, cards)
    told = [_told(job, cards) for job in jobs]
    columns = {"Run": [called[job.id] for job in jobs]}
    digests: dict[str, set[str]] = {}
    for job in jobs:
        digests.setdefault(job.spec.dataset_name, set()).add(job.spec.dataset)
    for one, job in zip(told, jobs, strict=True):
        if len(digests[job.spec.dataset_name]) > 1:  # different data of one name
            one["Data"] += f" ({job.spec.dataset[:6]})"
    for part in dict.fromkeys(part for one in told for part in one):
        if len({one[part] for one in told if part in one}) > 1:
            columns[part] = [one.get(part, "–") for one in told]
    return pd.DataFrame(columns)


def _told(job: Job, cards: Cards) -> dict[str, str]:
    """Data, model and all settings of a run, as words."""
    settings = {
        label[:1].upper() + label[1:]: _text(label, value)
        for label, (value, _) in _settings(job, cards).items()
    }
    told = {"Data": job.spec.dataset_name, "Model": _title(job, cards)}
    if job.spec.target:
        told["Target"] = job.spec.target
    return {**told, **settings}


def size(n: int) -> str:
    """A number of bytes in words: "812 bytes", "1.4 MB"."""
    value, unit = float(n), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    digits = 0 if unit == 0 or value >= 9.95 else 1
    return f"{value:.{digits}f} {_UNITS[unit]}"
