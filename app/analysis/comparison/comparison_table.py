"""Scores of several maps in one table, each with its protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from app.formatting import duration, number
from app.templates import render
from lvmcore.metrics.metric import Metric, shown_key
from lvmcore.runs import Job

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import Capabilities

__all__ = ["COLUMNS", "MapScores", "ScoreColumn", "map_scores", "score_table_html"]


@dataclass(frozen=True)
class ScoreColumn:
    """A column of the table.

    Attributes:
        key: key of the metric.
        title: title of the column.
        better: 1 if higher values are better, −1 if lower values are, None if neither.
        description: the definition of the metric, in plain words.
    """

    key: str
    title: str
    better: int | None
    description: str


COLUMNS = (
    ScoreColumn(
        "knn_accuracy", "1-NN accuracy", 1, "share of rows whose nearest row has the same label"
    ),
    ScoreColumn(
        "trustworthiness", "trustworthiness", 1, "share of map neighbours that are data neighbours"
    ),
    ScoreColumn("continuity", "continuity", 1, "share of data neighbours that are map neighbours"),
    ScoreColumn("silhouette", "silhouette", 1, "separation of the classes, −1 to 1"),
    ScoreColumn(
        "held_out_nlpd",
        "held-out NLPD",
        -1,
        "negative log predictive density of held-out rows, nats per row",
    ),
    ScoreColumn(
        "cells_coverage_90",
        "90 % intervals",
        None,
        "share of hidden cells inside their 90 % interval; 0.9 is calibrated",
    ),
    ScoreColumn(
        "held_out_ece", "calibration error", -1, "of the label probabilities of held-out rows"
    ),
    ScoreColumn("seconds", "seconds", None, "duration of the fit"),
)


@dataclass(frozen=True)
class MapScores:
    """The scores of a map.

    Attributes:
        metrics: one for each of COLUMNS, by key, in the two dimensions of the picture; the protocol
            of one without a value says why.
        overall: the same in all dimensions, by key, if the map has more than two.
        refitted: keys of the metrics that come from a fit to 80 % of the rows.
        unscored: whether metrics need a fit to 80 % of the rows that nobody has started.
        in_progress: whether metrics are being measured.
    """

    metrics: Mapping[str, Metric]
    overall: Mapping[str, Metric]
    refitted: frozenset[str]
    unscored: bool
    in_progress: bool


#: Metrics without meaning on a map that was fitted with the labels.
_FROM_LABELS = ("knn_accuracy", "silhouette")


def map_scores(
    job: Job, score: Job | None, can: Capabilities, shown: Mapping[str, Metric] | None = None
) -> MapScores:
    """The scores of a run, each with its protocol or the reason why it is missing.

    Metrics of the labels come from held-out rows if the model uses the labels: from those of the
    dataset, or else from a scoring run. So does the density of held-out rows.

    Args:
        job: the run.
        score: its scoring run on held-out rows; None if there is none.
        can: capabilities of its model.
        shown: metrics in the two dimensions of the picture that the run does not store, as runs of
            earlier versions do not.
    """
    own = {**job.metrics, **(shown or {})}
    sees_labels = can.labels != "none"
    defined = dict.fromkeys(_FROM_LABELS, sees_labels) | {
        "held_out_nlpd": can.density and can.new_rows,
        "cells_coverage_90": can.missing_cells and can.new_rows,
        "held_out_ece": sees_labels and can.new_rows,
    }
    stored = {c.key: _stored_key(c.key) if sees_labels else c.key for c in COLUMNS}
    wanted = {key for key, holds in defined.items() if holds and stored[key] not in own}
    found: dict[str, Metric] = {}
    overall: dict[str, Metric] = {}
    for column in COLUMNS[:-1]:
        key, scored = stored[column.key], column.key in wanted
        metrics = own
        if scored:
            metrics = {} if score is None else dict(score.metrics)
            key = key if key in metrics else column.key  # as in scores of earlier versions
        reason = _score_status(score) if scored else _missing_reason(job, column.key)
        complete = metrics.get(key, Metric(column.title, None, reason))
        found[column.key] = metrics.get(shown_key(key), complete)
        if shown_key(key) in metrics:
            overall[column.key] = complete
    protocol = "Wall-clock time of the run on its machine."
    found["seconds"] = Metric("seconds", job.seconds, protocol)
    scoring = score is not None and not score.finished
    return MapScores(
        metrics=found,
        overall=overall,
        refitted=frozenset(wanted),
        unscored=bool(wanted) and score is None,
        in_progress=scoring or job.stage == "measuring",
    )


def _stored_key(key: str) -> str:
    """Key of a metric in a run of a model that uses the labels."""
    return f"held_out_{key}" if key in _FROM_LABELS else key


def _score_status(score: Job | None) -> str:
    if score is None:
        return "Not measured yet: this needs a fit to 80 % of the rows. The button starts it."
    if not score.finished:
        return "Being measured on held-out rows."
    return score.message or "The held-out rows do not allow it."


#: Why a metric of held-out rows is undefined.
_UNDEFINED = {
    "held_out_nlpd": "The method has no density, or cannot infer the positions of new rows.",
    "cells_coverage_90": "The method takes no missing cells, so it cannot predict hidden cells.",
    "held_out_ece": "The method gives no probabilities of labels, or the data have none.",
}


def _missing_reason(job: Job, key: str) -> str:
    if job.stage == "measuring" or not job.finished:
        return "Being measured."
    if key in _UNDEFINED:
        return _UNDEFINED[key]
    if key in _FROM_LABELS:
        return "The data have no label column, or the run is older than this score."
    return "Not measured in this run."


class _Cell(NamedTuple):
    """A cell of the table.

    Attributes:
        text: the score as it is shown; a dash without a value.
        protocol: how it was measured, or why it is missing.
        best: whether it is the best of its column.
        refitted: whether it comes from a fit to 80 % of the rows.
        overall: the same score in all dimensions, with their name; "" if there is none.
        overall_protocol: how that was measured.
    """

    text: str
    protocol: str
    best: bool = False
    refitted: bool = False
    overall: str = ""
    overall_protocol: str = ""


def score_table_html(rows: Sequence[tuple[str, MapScores]]) -> str:
    """The scores of several maps as an HTML table, the best of each column marked.

    Args:
        rows: the name of each map, and its scores.

    Returns:
        HTML. A cell has the score in the dimensions of the picture, and below it that in all
        dimensions, each with its protocol in a tooltip; scores of a fit to 80 % of the rows carry a
        dagger.
    """
    best = {
        column.key: _best([scores.metrics[column.key] for _, scores in rows], column.better)
        for column in COLUMNS
    }
    return render(
        "score_table.html",
        columns=COLUMNS,
        rows=[
            (name, [_cell(column, scores, best[column.key]) for column in COLUMNS])
            for name, scores in rows
        ],
    )


def _cell(column: ScoreColumn, scores: MapScores, best: str | None) -> _Cell:
    metric, overall = scores.metrics[column.key], scores.overall.get(column.key)
    if metric.value is None:
        return _Cell("–", metric.protocol)
    text = duration(metric.value) if column.key == "seconds" else number(metric.value, 3)
    below, protocol = "", ""
    if overall is not None and overall.value is not None:
        every = overall.dimensions.removesuffix(" dimensions")
        below, protocol = f"{every}: {number(overall.value, 3)}", overall.protocol
    elif metric.dimensions.startswith("all "):  # of a run that has no other
        below, protocol = metric.dimensions, metric.protocol
    return _Cell(
        text, metric.protocol, text == best, column.key in scores.refitted, below, protocol
    )


def _best(metrics: Sequence[Metric], better: int | None) -> str | None:
    """The text of the best value of a column; None if no value is better than another."""
    values = [metric.value for metric in metrics if metric.value is not None]
    if better is None or len(values) < 2:
        return None
    return number(max(values, key=lambda value: better * value), 3)
