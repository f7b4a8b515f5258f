"""The charts of a fit under way, as ECharts options. Pure: no streamlit.

ECharts, as it is the chart that Streamlit updates in place while a page polls. User text (names of
classes) appears only in legends, which draw plain text; no tooltip is built from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from app.colouring import MISSING, OTHER, Categories
from app.figures.theme import accent, category, ink, path_colours
from app.words import shortened, told_apart

if TYPE_CHECKING:
    from lvmcore.results import FitStep, Snapshot

__all__ = [
    "MAX_POINTS",
    "bound_chart",
    "decimate",
    "held_out_chart",
    "map_chart",
    "overlay_chart",
    "relevance_chart",
    "steps_shown",
    "term_chart",
    "terms_chart",
]

Options = dict[str, Any]

#: The most points that a curve is drawn with.
MAX_POINTS = 1000

#: Lines of several runs: so many colours, then the next kind of dash.
ROUND, DASHES = 8, ("solid", "dashed", "dotted")

#: What ECharts calls the markers of the figures' categories.
SYMBOLS = {"circle": "circle", "diamond": "diamond", "square": "rect", "triangle-up": "triangle"}


def decimate(values: NDArray[np.float64], limit: int = MAX_POINTS) -> NDArray[np.intp]:
    """Positions to draw so that a curve of at most ``limit`` points keeps its extremes.

    The curve is cut into equal stretches, and each keeps its smallest and its largest value; the
    first and the last point always stay.

    Args:
        values: the curve, finite, [n].
        limit: the most positions, at least 4.

    Returns:
        Increasing positions, [min(n, limit)] at most.
    """
    n = len(values)
    if n <= limit:
        return np.arange(n)
    edges = np.linspace(1, n - 1, (limit - 2) // 2 + 1).astype(np.intp)
    kept = [0, n - 1]
    for start, stop in itertools.pairwise(edges):
        stretch = values[start:stop]
        kept += [int(start + stretch.argmin()), int(start + stretch.argmax())]
    return np.unique(np.array(kept, dtype=np.intp))


def steps_shown(steps: Sequence[FitStep], window: tuple[int, int] | None) -> list[FitStep]:
    """The steps that can be drawn inside a window of iterations (both ends included).

    Those are the steps with a finite bound; where no step has one, those that tell a term.
    """
    low, high = window or (0, np.iinfo(np.int64).max)
    inside = [step for step in steps if low <= step.iteration <= high]
    bounded = [step for step in inside if np.isfinite(step.objective)]
    return bounded or [step for step in inside if step.terms]


def bound_chart(steps: Sequence[FitStep], *, dark: bool = False) -> Options:
    """The bound at each step.

    Args:
        steps: with finite bounds, in order.
        dark: whether the page is dark.

    Returns:
        ECharts options.
    """
    values = np.array([step.objective for step in steps])
    line = _line("bound", steps, values) | {"color": accent(dark)}
    options = _curves([line])
    options["yAxis"]["name"] = "bound (ELBO), nats"
    return options


def terms_chart(steps: Sequence[FitStep], *, dark: bool = False) -> Options:
    """The named parts of the bound at each step: they add up to it.

    Args:
        steps: with finite bounds, in order.
        dark: whether the page is dark.

    Returns:
        ECharts options.
    """
    names = list(steps[-1].terms) if steps else []
    titles = told_apart(shortened(name, 60) for name in names)
    lines = []
    for name, title, colour in zip(names, titles, path_colours(len(names), dark), strict=True):
        values = np.array([step.terms.get(name, np.nan) for step in steps])
        lines.append(_line(title, steps, values) | {"color": colour})
    options = _curves(lines)
    options["yAxis"]["name"] = "part of the bound, nats"
    options["legend"] = _legend()
    return options


def held_out_chart(steps: Sequence[FitStep], *, dark: bool = False) -> Options:
    """The loss on rows that the fit does not see, where it was measured: lower is better.

    Args:
        steps: in order; those without such a figure are passed over.
        dark: whether the page is dark.

    Returns:
        ECharts options.
    """
    values = np.array([step.held_out for step in steps])
    options = _curves([_line("held out", steps, values) | {"color": category(1, dark)[0]}])
    options["yAxis"]["name"] = "−log density a row, nats"
    options["tooltip"]["valueFormatter"] = "%.3f"
    return options


def overlay_chart(
    curves: Mapping[str, Sequence[FitStep]],
    *,
    by_seconds: bool = False,
    dark: bool = False,
) -> Options:
    """The bounds of several runs.

    Args:
        curves: steps of each run with finite bounds, in order, by what to call the run.
        by_seconds: whether the horizontal axis shows seconds since the fit began, not steps.
        dark: whether the page is dark.

    Returns:
        ECharts options.
    """
    lines = []
    for code, (name, steps) in enumerate(curves.items()):
        values = np.array([step.objective for step in steps])
        line = _line(shortened(name, 60), steps, values, by_seconds=by_seconds)
        dash = DASHES[code // ROUND % len(DASHES)]
        lines.append(
            line
            | {
                "color": category(code % ROUND, dark)[0],
                "lineStyle": {"width": 2, "type": dash},
                "showSymbol": len(line["data"]) == 1,
            }
        )
    options = _curves(lines)
    if by_seconds:
        options["xAxis"] = _axis("seconds since the fit began", grid=False) | {"min": 0}
    options["yAxis"]["name"] = "bound (ELBO), nats"
    options["legend"] = _legend()
    return options


def term_chart(steps: Sequence[FitStep], *, dark: bool = False) -> Options:
    """What a method without a bound tells of each step.

    Args:
        steps: in order, each with that one term.
        dark: whether the page is dark.

    Returns:
        ECharts options.
    """
    (name,) = steps[-1].terms
    values = np.array([step.terms.get(name, np.nan) for step in steps])
    options = _curves([_line(name, steps, values) | {"color": accent(dark)}])
    options["yAxis"]["name"] = f"{name}, nats"
    return options


def map_chart(snapshot: Snapshot, labels: Categories | None, *, dark: bool = False) -> Options:
    """The map forming: latent means on the two most relevant dimensions.

    Args:
        snapshot: the map as it stands.
        labels: the class of every row of the fit, [N]; None without labels.
        dark: whether the page is dark.

    Returns:
        ECharts options.
    """
    first, second = (dimension + 1 for dimension in snapshot.dimensions)
    series = []
    for look in _looks(snapshot, labels, dark):
        style = {"color": look.colour}
        if look.hollow:
            style = {"color": "transparent", "borderColor": look.colour}
        series.append(
            {
                "type": "scatter",
                "name": look.name,
                "data": np.round(snapshot.mean[look.rows], 6).tolist(),
                "symbol": look.symbol,
                "symbolSize": 6,
                "itemStyle": {**style, "opacity": 0.85},
                "silent": True,
            }
        )
    return {
        "animation": False,
        "grid": _grid(),
        "legend": _legend() if labels is not None else {"show": False},
        "tooltip": {"show": False},
        "xAxis": _axis(f"latent dimension {first}", grid=False),
        "yAxis": _axis(f"latent dimension {second}", grid=False, upright=True),
        "series": series,
    }


def relevance_chart(snapshot: Snapshot, *, dark: bool = False) -> Options:
    """How much each latent dimension matters, in per cent, for each path of the model.

    Args:
        snapshot: the map as it stands.
        dark: whether the page is dark.

    Returns:
        ECharts options.
    """
    paths = list(snapshot.relevance)
    titles = told_apart(shortened(path, 60) for path in paths)
    size = max((len(share) for share in snapshot.relevance.values()), default=0)
    bars = [
        {
            "type": "bar",
            "name": title,
            "data": [float(f"{100 * value:.3g}") for value in snapshot.relevance[path]],
            "color": colour,
            "barMaxWidth": 28,
        }
        for path, title, colour in zip(paths, titles, path_colours(len(paths), dark), strict=True)
    ]
    category = {**_axis("latent dimension", grid=False), "type": "category"}
    category["data"] = [str(dimension + 1) for dimension in range(size)]
    return {
        "animation": False,
        "grid": _grid(),
        "legend": _legend() if len(paths) > 1 else {"show": False},
        "tooltip": {"trigger": "axis", "valueFormatter": "%.3g %%"},
        "xAxis": category,
        "yAxis": {**_axis("share of relevance, %", upright=True), "min": 0, "max": 100},
        "series": bars,
    }


@dataclass(frozen=True)
class _Look:
    """Rows of a snapshot that are drawn alike: their positions in it, [n], and how."""

    name: str
    rows: NDArray[np.intp]
    colour: str
    symbol: str = "circle"
    hollow: bool = False


def _looks(snapshot: Snapshot, labels: Categories | None, dark: bool) -> Iterator[_Look]:
    """The groups of rows, each class with the look that it has on the finished map."""
    if labels is None:
        yield _Look("rows", np.arange(len(snapshot.rows)), category(0, dark)[0])
        return
    codes, grey = labels.codes[snapshot.rows], ink(dark).muted
    for code, name in enumerate(labels.names):
        colour, shape = category(code, dark)
        rows = np.flatnonzero(codes == code)
        yield _Look(shortened(name, 24), rows, colour, SYMBOLS[shape])
    for code, name, hollow in ((OTHER, "other", False), (MISSING, "(missing)", True)):
        if (labels.codes == code).any():
            yield _Look(name, np.flatnonzero(codes == code), grey, hollow=hollow)


def _line(
    name: str,
    steps: Sequence[FitStep],
    values: NDArray[np.float64],
    *,
    by_seconds: bool = False,
) -> Options:
    usable = np.flatnonzero(np.isfinite(values))
    kept = usable[decimate(values[usable])]
    data: list[list[float | None]] = []
    for before, i in zip([kept[0], *kept] if len(kept) else [], kept, strict=False):
        at = steps[i].seconds if by_seconds else steps[i].iteration
        if steps[i].start != steps[before].start:  # the line of the next start begins anew
            data.append([at, None])
        data.append([at, float(values[i])])
    return {
        "type": "line",
        "name": name,
        "showSymbol": len(kept) == 1,
        "lineStyle": {"width": 2},
        "data": data,
    }


def _curves(lines: list[Options]) -> Options:
    return {
        "animation": False,
        "grid": _grid(),
        "legend": {"show": False},
        "tooltip": {"trigger": "axis", "valueFormatter": "%.2f"},
        "xAxis": {**_axis("step", grid=False), "min": "dataMin", "max": "dataMax"},
        "yAxis": {**_axis("", upright=True), "scale": True},
        "series": lines,
    }


def _axis(name: str, *, grid: bool = True, upright: bool = False) -> Options:
    return {
        "type": "value",
        "name": name,
        "nameLocation": "middle",
        "nameGap": 56 if upright else 28,
        "axisLabel": {"formatter": "{value}"},
        "scale": True,
        "axisLine": {"onZero": False},
        "splitLine": {"show": grid},
    }


def _grid() -> Options:
    return {"left": 76, "right": 20, "top": 36, "bottom": 48, "outerBoundsMode": "none"}


def _legend() -> Options:
    return {"type": "scroll", "top": 0, "left": 64, "right": 8, "itemHeight": 10, "itemWidth": 14}
