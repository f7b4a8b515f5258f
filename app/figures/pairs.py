"""Paired histograms as HTML: how columns are spread among the selected rows and the others.

They change with every selection, and are there at once: a plotly figure would take longer to be
made and drawn than all that the page works out for it. (Streamlit lets no SVG through.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from app.apart import Pair
from app.figures.theme import accent, escape, ink
from app.words import number, shortened

__all__ = ["pairs_html"]

FloatArray = NDArray[np.float64]

#: Steps of the upright axis that are whole per cents.
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
_DAY = 86_400.0
#: Letters that a level's name has room for, over all of them.
_LETTERS = 40


def pairs_html(pairs: Sequence[Pair], distances: Sequence[float], *, dark: bool) -> str:
    """Draw columns as small histograms, the selected rows against the others.

    Args:
        pairs: at least one column.
        distances: how far each sets the selected rows apart, for its title.
        dark: whether the page is dark.

    Returns:
        HTML for the classes of the page's style sheet: a legend, and one picture a column.
        Pointing at a bar tells its shares.
    """
    looks = (("the others", ink(dark).muted), ("selected", accent(dark)))
    legend = "".join(
        f'<span><i style="color:{colour}">\N{BLACK SQUARE}</i>{name}</span>'
        for name, colour in looks
    )
    pictures = "".join(
        _picture(pair, distance, dark) for pair, distance in zip(pairs, distances, strict=True)
    )
    return f'<div class="legend">{legend}</div><div class="pairs">{pictures}</div>'


def _picture(pair: Pair, distance: float, dark: bool) -> str:
    most = max(float(pair.inside.max()), float(pair.outside.max()), 1e-9)
    step = next((step for step in _STEPS if step * 4 >= most), _STEPS[-1])
    top = step * float(np.ceil(most / step))
    title = f"{escape(shortened(pair.name, 26))} · {distance:.2f}"
    lines = "".join(
        f'<div class="line" style="bottom:{100 * tick / top:.2f}%"><span>{100 * tick:.3g}%</span>'
        "</div>"
        for tick in np.arange(0.0, top + step / 2, step)
    )
    bars = "".join(_bars(pair, top, dark))
    below = "".join(f"<span>{text}</span>" for text in _below(pair))
    kind = "levels" if pair.edges is None else "ends"
    return (
        f'<div class="pair"><div class="name">{title}</div><div class="plot">{lines}{bars}</div>'
        f'<div class="{kind}">{below}</div></div>'
    )


def _bars(pair: Pair, top: float, dark: bool) -> Iterator[str]:
    """Bars of both kinds of rows, one over the other or, of levels, side by side."""
    edges = np.arange(len(pair.inside) + 1.0) if pair.edges is None else pair.edges
    wide = np.diff(edges) / (edges[-1] - edges[0] if edges[-1] > edges[0] else 1.0)
    left = np.concatenate([[0.0], np.cumsum(wide)[:-1]])
    beside = pair.edges is None
    for i, (at, w) in enumerate(zip(100 * left, 100 * wide, strict=True)):
        places = ((at + 0.1 * w, 0.4 * w), (at + 0.5 * w, 0.4 * w)) if beside else ((at, w),) * 2
        shares = (pair.outside[i], ink(dark).muted), (pair.inside[i], accent(dark))
        for (share, colour), (x, room) in zip(shares, places, strict=True):
            yield (
                f'<div class="bar" style="left:{x:.2f}%;width:{room:.2f}%;'
                f"height:{100 * share / top:.2f}%;background:{colour}"
                f'{"" if beside else ";opacity:0.55"}"></div>'
            )
        said = f"{pair.inside[i]:.1%} of the selected, {pair.outside[i]:.1%} of the others"
        yield (
            f'<div class="bar told" style="left:{at:.2f}%;width:{w:.2f}%" '
            f'title="{_named(pair, i)}: {said}"></div>'
        )


def _named(pair: Pair, i: int) -> str:
    """What a bar stands for, as an attribute's text."""
    if pair.edges is None:
        return escape(shortened(pair.levels[i], 60)).replace('"', "&quot;")
    return f"{_written(pair.edges[i], pair)} to {_written(pair.edges[i + 1], pair)}"


def _below(pair: Pair) -> list[str]:
    """What stands below: the levels, or the ends and the middle of the axis."""
    if pair.edges is None:
        room = max(3, _LETTERS // len(pair.levels))
        return [escape(shortened(level, room)) for level in pair.levels]
    middle = (pair.edges[0] + pair.edges[-1]) / 2
    return [_written(value, pair) for value in (pair.edges[0], middle, pair.edges[-1])]


def _written(value: float, pair: Pair) -> str:
    assert pair.edges is not None
    if not pair.dates:
        return number(float(value), 3)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=float(value))
    near = pair.edges[-1] - pair.edges[0] < 3 * _DAY
    return moment.strftime("%m-%d %H:%M" if near else "%Y-%m-%d")
