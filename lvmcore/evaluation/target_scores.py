"""Scores of a model of a target and of baselines on the same held-out rows, and who is best."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lvmcore.errors import DataError
from lvmcore.runs.atomic_files import read_json

if TYPE_CHECKING:
    from lvmcore.base.predictor import Task

__all__ = [
    "BASELINES",
    "COLUMNS",
    "MODEL",
    "MethodScores",
    "TargetComparison",
    "read_comparison",
    "target_comparison_from_json",
    "target_comparison_to_json",
    "verdict",
]

#: Key of the model among the methods.
MODEL = "model"
#: Baselines by key, with their names in sentences; the quick ones first.
BASELINES = {
    "linear": "a linear model",
    "boosting": "histogram boosting",
    "forest": "a random forest",
}
#: Scores of each task by the keys of ``target_metrics``, with their names.
COLUMNS: Mapping[Task, Mapping[str, str]] = {
    "number": {"rmse": "RMSE", "nlpp": "NLPP", "coverage_90": "coverage", "width_90": "width"},
    "class": {
        "accuracy": "accuracy",
        "log_loss": "log loss",
        "calibration_error": "ECE",
    },
}
#: The scores by which methods are ranked: of the point prediction, and of the distribution.
_CRITERIA: Mapping[Task, Mapping[str, str]] = {
    "number": {"error": "rmse", "density": "nlpp"},
    "class": {"error": "accuracy", "density": "log_loss"},
}
_HIGH = ("accuracy",)


@dataclass(frozen=True)
class MethodScores:
    """Scores of a method on the held-out rows.

    Attributes:
        method: ``MODEL``, or a key of ``BASELINES``.
        values: scores by the keys of ``COLUMNS``; None where one cannot be computed.
        better: "error" or "density", or both: where its loss is below that of the model by more
            than two standard errors of their difference on these rows.
        worse: where it is above it by as much.
    """

    method: str
    values: Mapping[str, float | None]
    better: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()


@dataclass(frozen=True)
class TargetComparison:
    """A model of a target and baselines on the same held-out rows.

    Attributes:
        task: kind of target.
        rows: number of rows.
        methods: scores of the model, and of each baseline whose fit ended in time.
        protocol: how the methods were compared.
    """

    task: Task
    rows: int
    methods: tuple[MethodScores, ...]
    protocol: str


def target_comparison_to_json(comparison: TargetComparison) -> dict[str, Any]:
    """A comparison as JSON values."""
    return asdict(comparison)


def target_comparison_from_json(content: Any) -> TargetComparison:
    """A comparison from ``target_comparison_to_json``.

    Raises:
        DataError: the content is no such comparison.
    """
    try:
        task: Task = "class" if content["task"] == "class" else "number"
        methods = tuple(_method_from_json(one, task) for one in content["methods"])
        if not methods or methods[0].method != MODEL:
            raise ValueError("no scores of the model")
        return TargetComparison(task, int(content["rows"]), methods, str(content["protocol"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"The comparison with baselines is damaged: {error!r}.") from error


def _method_from_json(content: Any, task: Task) -> MethodScores:
    method = str(content["method"])
    if method != MODEL and method not in BASELINES:
        raise ValueError(f"unknown method {method!r}")
    values = {
        key: None if content["values"].get(key) is None else float(content["values"][key])
        for key in COLUMNS[task]
    }
    better, worse = (tuple(map(str, content[part])) for part in ("better", "worse"))
    return MethodScores(method, values, better, worse)


def read_comparison(path: Path) -> TargetComparison | None:
    """The comparison that a run stores; None for a run without one, as of earlier versions.

    Args:
        path: the file, ``RunFiles.comparison`` of the run.

    Raises:
        DataError: the file cannot be read.
    """
    return target_comparison_from_json(read_json(path)) if path.is_file() else None


# ---- who is best -------------------------------------------------------------------------------


class _Lead(NamedTuple):
    """The best method by a score, and the one it is compared with."""

    score: str
    best: str
    value: float
    other: str
    other_value: float
    clear: bool


def verdict(comparison: TargetComparison, number: Callable[[float], str]) -> str:
    """Which method predicts the held-out rows best, in one or two sentences.

    The best baseline is compared with the model, the model with the next best method. A difference
    within two of its standard errors is called that.

    Args:
        comparison: the scores.
        number: format of a score.

    Returns:
        "" where there is no baseline to compare with.
    """
    leads = [
        lead
        for criterion in ("error", "density")
        if (lead := _lead(comparison, criterion)) is not None
    ]
    if not leads:
        return ""
    names = {MODEL: "the model", **BASELINES}
    rows = f"{comparison.rows:,} held-out row{'' if comparison.rows == 1 else 's'}"
    winners = {lead.best for lead in leads}
    if winners == {MODEL}:
        parts = [
            f"{lead.score} {number(lead.value)}, next {names[lead.other]} with "
            f"{number(lead.other_value)}"
            for lead in leads
        ]
        text = f"The model predicts the {rows} best: {'; '.join(parts)}."
    elif len(winners) == 1:
        parts = [
            f"{lead.score} {number(lead.value)} against {number(lead.other_value)}"
            for lead in leads
        ]
        name = names[leads[0].best]
        text = (
            f"{name[0].upper()}{name[1:]} predicts the {rows} better than the model: "
            f"{', '.join(parts)}."
        )
    else:
        parts = [
            f"{names[lead.best]} has the best {lead.score}, {number(lead.value)} against "
            f"{number(lead.other_value)} of {names[lead.other]}"
            for lead in leads
        ]
        text = f"On the {rows} {', and '.join(parts)}."
    unclear = [lead.score for lead in leads if not lead.clear]
    if not unclear:
        return text
    which = "Both differences are" if len(unclear) > 1 else f"The difference in {unclear[0]} is"
    return f"{text} {which} within two standard errors."


def _lead(comparison: TargetComparison, criterion: str) -> _Lead | None:
    key = _CRITERIA[comparison.task][criterion]
    sign = -1.0 if key in _HIGH else 1.0
    methods = {one.method: one for one in comparison.methods}
    values = {
        name: value for name, one in methods.items() if (value := one.values.get(key)) is not None
    }
    if MODEL not in values or len(values) < 2:
        return None
    best, following = sorted(values, key=lambda name: sign * values[name])[:2]  # ties: the model
    other = following if best == MODEL else MODEL
    clear = criterion in (methods[other].worse if best == MODEL else methods[best].better)
    title = COLUMNS[comparison.task][key]
    return _Lead(title, best, values[best], other, values[other], clear)
