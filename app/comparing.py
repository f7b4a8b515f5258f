"""Maps side by side: which rows they share, how they are laid over one another, how they do.

Pure functions of runs and their maps: no streamlit.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app.axes import Axes, positions
from app.opened import Opened
from app.regions import Polygon, Region
from app.words import duration, number, shortened
from lvmcore.data import Dataset
from lvmcore.errors import DataError
from lvmcore.relevance import leading_dimensions
from lvmcore.runs import Job, Metric

if TYPE_CHECKING:
    from lvmcore.base import Capabilities
    from lvmcore.metrics import Alignment

__all__ = ["COLUMNS", "Measured", "Side", "measured", "names", "sides", "table"]


@dataclass(frozen=True)
class Side:
    """A map among others.

    Attributes:
        opened: the run.
        axes: the two latent dimensions that are shown.
        place: position of each of its rows in the whole dataset, [n].
        points: where they are drawn, [n, 2].
        alignment: what moved them there; None where they are in the map's own units.
        about: how they lie with respect to the first map, in words.
    """

    opened: Opened
    axes: Axes
    place: NDArray[np.intp]
    points: NDArray[np.float64]
    alignment: Alignment | None
    about: str

    def own(self, region: Region) -> Region:
        """A region that was drawn on the aligned map, on the map's own axes and in its units."""
        return replace(region, axes=self.axes, polygons=self._moved(region, undo=True))

    def outlines(self, region: Region) -> tuple[Polygon, ...]:
        """A region of the map's own units where it is drawn; nothing on other axes."""
        return self._moved(region, undo=False) if region.axes == self.axes else ()

    def selected(self, region: Region, rows: int) -> NDArray[np.bool_]:
        """Which rows of the whole dataset lie in a region of this map, [rows]."""
        found = np.zeros(rows, dtype=np.bool_)
        found[self.place[region.members(positions(self.opened.mean, region.axes))]] = True
        return found

    def _moved(self, region: Region, *, undo: bool) -> tuple[Polygon, ...]:
        if self.alignment is None:
            return region.polygons
        move = self.alignment.undo if undo else self.alignment.apply
        return tuple(
            tuple((float(x), float(y)) for x, y in move(polygon)) for polygon in region.polygons
        )


def sides(maps: Sequence[Opened], whole: Dataset) -> list[Side]:
    """Lay maps over the first of them.

    Each map shows its two most relevant dimensions. All but the first are rotated (or mirrored),
    scaled and shifted to lie as near as can be to the first, over the rows that both have.

    Args:
        maps: runs of one dataset.
        whole: that dataset, all rows.
    """
    found: list[Side] = []
    for opened in maps:
        axes = leading_dimensions(opened.model.relevance_)
        place = _among(opened.dataset.row_ids, whole.row_ids)
        side = Side(opened, axes, place, positions(opened.mean, axes), None, _dimensions(axes))
        found.append(_aligned(found[0], side) if found else side)
    return found


def _among(names: NDArray[np.str_], everything: NDArray[np.str_]) -> NDArray[np.intp]:
    """The position of each row in the whole dataset, [n]: by far the most often all of them."""
    if np.array_equal(names, everything):
        return np.arange(len(names))
    order = {name: i for i, name in enumerate(everything.tolist())}
    return np.array([order[name] for name in names.tolist()], dtype=np.intp)


def _aligned(first: Side, side: Side) -> Side:
    from lvmcore.metrics import procrustes

    if first.axes[1] is None or side.axes[1] is None:
        return replace(side, about=f"{side.about}; not aligned: a map has one dimension")
    _, ours, theirs = np.intersect1d(first.place, side.place, return_indices=True)
    try:
        alignment = procrustes(first.points[ours], side.points[theirs])
    except DataError:
        return replace(side, about=f"{side.about}; not aligned: too few rows in common")
    about = f"{side.about}; aligned to the first map, disparity {number(alignment.disparity, 2)}"
    return replace(side, points=alignment.apply(side.points), alignment=alignment, about=about)


def _dimensions(axes: Axes) -> str:
    if axes[1] is None:
        return "dimension 1 against the row"
    return f"dimensions {axes[0] + 1} and {axes[1] + 1}"


def names(jobs: Sequence[Job]) -> dict[str, str]:
    """What to call runs, by id: those of one name are told apart by the settings that differ."""
    found = {}
    for job in jobs:
        alike = [other.spec.parameters for other in jobs if other.name == job.name]
        told = [
            f"{name} {value}"
            for name, value in job.spec.parameters.items()
            if any(other.get(name, value) != value for other in alike)
        ]
        found[job.id] = f"{job.name} ({', '.join(told)})" if told else job.name
    return found


# ---- the table -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A figure of the table.

    Attributes:
        key: of the metric.
        title: of the column.
        better: whether more or less is better; None where neither is.
        means: what it is, for a person who meets it for the first time.
    """

    key: str
    title: str
    better: int | None
    means: str


COLUMNS = (
    Column("knn_accuracy", "1-NN accuracy", 1, "how often the nearest row has the same label"),
    Column("trustworthiness", "trustworthiness", 1, "map neighbours that are data neighbours"),
    Column("continuity", "continuity", 1, "data neighbours that are map neighbours"),
    Column("silhouette", "silhouette", 1, "how well the classes keep apart, −1 to 1"),
    Column("held_out_nlpd", "held-out NLPD", -1, "surprise at rows not seen, nats a row"),
    Column(
        "cells_coverage_90",
        "90 % intervals",
        None,
        "hidden cells inside them; 0.9 is right",
    ),
    Column("held_out_ece", "calibration error", -1, "of label probabilities, rows not seen"),
    Column("seconds", "seconds", None, "from start to end of the fit"),
)


@dataclass(frozen=True)
class Measured:
    """What is known of how well a map does.

    Attributes:
        figures: by key, one for each of COLUMNS; without a value where its protocol says why.
        anew: keys of the figures that come from a fit anew to 80 % of the rows.
        unscored: whether figures wait for somebody to ask for a fit anew to 80 % of the rows.
        under_way: whether figures are still being measured.
    """

    figures: Mapping[str, Metric]
    anew: frozenset[str]
    unscored: bool
    under_way: bool


#: Figures that say nothing where the fit has seen the labels.
_FROM_LABELS = ("knn_accuracy", "silhouette")


def measured(job: Job, score: Job | None, can: Capabilities) -> Measured:
    """The figures of a run, each with its protocol or the reason why it is missing.

    What labels are worth is taken from a scoring run where the model has seen them; so is the
    density of rows not seen, unless the dataset itself holds rows out.

    Args:
        job: the run.
        score: its scoring on held-out rows; None where there is none.
        can: what its model can do.
    """
    wanted = set(_FROM_LABELS) if can.labels != "none" else set()
    defined = {
        "held_out_nlpd": can.density and can.new_rows,
        "cells_coverage_90": can.missing_cells and can.new_rows,
        "held_out_ece": can.labels != "none" and can.new_rows,
    }
    wanted |= {key for key, holds in defined.items() if holds and key not in job.metrics}
    found: dict[str, Metric] = {}
    for column in COLUMNS[:-1]:
        scored = column.key in wanted
        metrics = (score.metrics if score is not None else {}) if scored else job.metrics
        reason = _unscored(score) if scored else _why_missing(job, column.key)
        found[column.key] = metrics.get(column.key, Metric(column.title, None, reason))
    took = "Wall-clock time of the run, on the machine that it ran on."
    found["seconds"] = Metric("seconds", job.seconds, took)
    scoring = score is not None and not score.finished
    return Measured(
        figures=found,
        anew=frozenset(wanted),
        unscored=bool(wanted) and score is None,
        under_way=scoring or job.stage == "measuring",
    )


def _unscored(score: Job | None) -> str:
    if score is None:
        return "Not measured yet: it takes a fit anew to 80 % of the rows. The button does it."
    if not score.finished:
        return "Being measured on rows held out."
    return score.message or "The rows held out did not allow it."


#: Why a figure of rows not seen is not there.
_UNDEFINED = {
    "held_out_nlpd": "The method has no density, or places no new rows.",
    "cells_coverage_90": "The method takes no missing cells, so it predicts no hidden ones.",
    "held_out_ece": "The method tells no probabilities of labels, or the data have none.",
}


def _why_missing(job: Job, key: str) -> str:
    if job.stage == "measuring" or not job.finished:
        return "Being measured."
    if key in _UNDEFINED:
        return _UNDEFINED[key]
    if key in _FROM_LABELS:
        return "The data have no label column, or the run is older than this figure."
    return "Not measured in this run."


def table(rows: Sequence[tuple[str, Measured]]) -> str:
    """The figures of several maps as an HTML table, the best of each column marked.

    Args:
        rows: the name of each map, and how well it does.

    Returns:
        HTML in which all text is escaped. Titles of cells say how each figure was measured; those
        of a fit anew to 80 % of the rows carry a dagger.
    """
    head = "".join(
        f'<th scope="col" title="{_text(column.means)}">{_text(column.title)}</th>'
        for column in COLUMNS
    )
    best = {
        column.key: _best([one.figures[column.key] for _, one in rows], column.better)
        for column in COLUMNS
    }
    body = "".join(
        f'<tr><th scope="row">{_text(shortened(name, 60))}</th>'
        + "".join(_cell(column, one, best[column.key]) for column in COLUMNS)
        + "</tr>"
        for name, one in rows
    )
    return (
        '<div class="comparison-box" role="region" aria-label="How well the maps do" tabindex="0">'
        '<table class="comparison"><thead><tr><th scope="col">map</th>'
        f"{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(column: Column, one: Measured, best: str | None) -> str:
    metric = one.figures[column.key]
    shown = _shown(column, metric)
    title = _text(metric.protocol)
    if shown is None:
        return f'<td title="{title}">–</td>'
    dagger = "<sup>†</sup>" if column.key in one.anew else ""
    mark = ' class="best"' if shown == best else ""
    return f'<td{mark} title="{title}">{shown}{dagger}</td>'


def _shown(column: Column, metric: Metric) -> str | None:
    if metric.value is None:
        return None
    return duration(metric.value) if column.key == "seconds" else number(metric.value, 3)


def _best(metrics: Sequence[Metric], better: int | None) -> str | None:
    """What the best value of a column looks like; None where nothing is better than anything."""
    values = [metric.value for metric in metrics if metric.value is not None]
    if better is None or len(values) < 2:
        return None
    return number(max(values, key=lambda value: better * value), 3)


def _text(text: str) -> str:
    return html.escape(text, quote=True)
