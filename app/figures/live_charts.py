"""Training curves of running and finished fits, as ECharts options. Pure: no streamlit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app.figures.echarts_options import Options, plot_grid, scrolling_legend, value_axis
from app.figures.theme import accent, category, path_colours
from app.formatting import distinct_titles, shortened

if TYPE_CHECKING:
    from lvmcore.results import FitStep

__all__ = [
    "MAX_POINTS",
    "bound_chart",
    "decimate",
    "held_out_chart",
    "overlay_chart",
    "steps_shown",
    "term_chart",
    "terms_chart",
]

#: Most points of a curve.
MAX_POINTS = 1000

# Least span of the vertical axis, as a share of the largest value.
_LEAST_SPAN = 1e-5

#: Lines of several runs: number of colours, and the dash of each further round of colours.
ROUND, DASHES = 8, ("solid", "dashed", "dotted")


def decimate(values: NDArray[np.float64], limit: int = MAX_POINTS) -> NDArray[np.intp]:
    """Positions of at most ``limit`` points of a curve, its extremes included.

    The curve is divided into equal segments, and the smallest and largest value of each segment are
    drawn, with the first and the last point.

    Args:
        values: finite values of the curve, [n].
        limit: most positions, at least 4.

    Returns:
        Increasing positions, [min(n, limit)] at most.
    """
    n = len(values)
    if n <= limit:
        return np.arange(n)
    edges = np.linspace(1, n - 1, (limit - 2) // 2 + 1).astype(np.intp)
    positions = [0, n - 1]
    for start, stop in itertools.pairwise(edges):
        segment = values[start:stop]
        positions += [int(start + segment.argmin()), int(start + segment.argmax())]
    return np.unique(np.array(positions, dtype=np.intp))


def steps_shown(steps: Sequence[FitStep], window: tuple[int, int] | None) -> list[FitStep]:
    """The steps to draw inside a window of iterations (both ends included).

    These are the steps with a finite bound; if no step has one, the steps with a term.
    """
    low, high = window or (0, np.iinfo(np.int64).max)
    inside = [step for step in steps if low <= step.iteration <= high]
    bounded = [step for step in inside if np.isfinite(step.objective)]
    return bounded or [step for step in inside if step.terms]


def bound_chart(steps: Sequence[FitStep], *, dark: bool = False) -> Options:
    """The bound at each step.

    Args:
        steps: steps with finite bounds, in order.
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
    """The named terms of the bound at each step; their sum is the bound.

    Args:
        steps: steps with finite bounds, in order.
        dark: whether the page is dark.

    Returns:
        ECharts options.
    """
    names = list(steps[-1].terms) if steps else []
    titles = distinct_titles(shortened(name, 60) for name in names)
    lines = []
    for name, title, colour in zip(names, titles, path_colours(len(names), dark), strict=True):
        values = np.array([step.terms.get(name, np.nan) for step in steps])
        lines.append(_line(title, steps, values) | {"color": colour})
    options = _curves(lines)
    options["yAxis"]["name"] = "part of the bound, nats"
    options["legend"] = scrolling_legend()
    return options


def held_out_chart(steps: Sequence[FitStep], *, dark: bool = False) -> Options:
    """Negative log density of held-out rows at each step that measured it; lower is better.

    Args:
        steps: steps in order; steps without a held-out loss are left out.
        dark: whether the page is dark.

    Returns:
        ECharts options.
    """
    values = np.array([step.held_out for step in steps])
    options = _curves([_line("held-out", steps, values) | {"color": category(1, dark)[0]}])
    options["yAxis"]["name"] = "−log density per row, nats"
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
        curves: steps of each run with finite bounds, in order, by the name of the run.
        by_seconds: whether the horizontal axis shows seconds since the start of the fit, not steps.
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
        options["xAxis"] = value_axis("seconds since the start of the fit", grid=False) | {"min": 0}
    options["yAxis"]["name"] = "bound (ELBO), nats"
    options["legend"] = scrolling_legend()
    return options


def term_chart(steps: Sequence[FitStep], *, dark: bool = False) -> Options:
    """The term that a method without a bound reports at each step, or the terms of its loss.

    Args:
        steps: steps in order, each with the same terms.
        dark: whether the page is dark.

    Returns:
        ECharts options.
    """
    if len(steps[-1].terms) > 1:
        options = terms_chart(steps, dark=dark)
        options["yAxis"]["name"] = "term of the loss"
        return options
    (name,) = steps[-1].terms
    values = np.array([step.terms.get(name, np.nan) for step in steps])
    options = _curves([_line(name, steps, values) | {"color": accent(dark)}])
    options["yAxis"]["name"] = f"{name}, nats"
    return options


def _line(
    name: str,
    steps: Sequence[FitStep],
    values: NDArray[np.float64],
    *,
    by_seconds: bool = False,
) -> Options:
    finite = np.flatnonzero(np.isfinite(values))
    drawn = finite[decimate(values[finite])]
    data: list[list[float | None]] = []
    for before, i in zip([drawn[0], *drawn] if len(drawn) else [], drawn, strict=False):
        at = steps[i].seconds if by_seconds else steps[i].iteration
        if steps[i].start != steps[before].start:  # a gap before the next restart
            data.append([at, None])
        data.append([at, float(values[i])])
    return {
        "type": "line",
        "name": name,
        "showSymbol": len(drawn) == 1,
        "lineStyle": {"width": 2},
        "data": data,
    }


def _vertical_range(lines: list[Options]) -> Options:
    """Ends of the vertical axis where the values hardly differ; none where they do.

    The labels of an axis of less than 1e-5 of the values have more digits than there is room for.
    """
    values = [y for line in lines for _, y in line["data"] if y is not None]
    most = max(map(abs, values), default=0.0)
    least = 10.0 ** math.ceil(math.log10(_LEAST_SPAN * most)) if most else 0.0
    if not least or max(values) - min(values) >= least:
        return {}
    low = math.floor(min(values) / least)
    return {"min": low * least, "max": max(low + 1, math.ceil(max(values) / least)) * least}


def _curves(lines: list[Options]) -> Options:
    return {
        "animation": False,
        "grid": plot_grid(),
        "legend": {"show": False},
        "tooltip": {"trigger": "axis", "valueFormatter": "%.2f"},
        "xAxis": {**value_axis("step", grid=False), "min": "dataMin", "max": "dataMax"},
        "yAxis": {**value_axis("", vertical=True), "scale": True, **_vertical_range(lines)},
        "series": lines,
    }
