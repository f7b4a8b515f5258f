"""Paired histograms as SVG: how columns are spread among the selected rows and the others.

They change with every selection, and are there at once: a plotly figure would take longer to be
made and drawn than all that the page works out for it.
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

_WIDTH, _HEIGHT = 260, 176
_LEFT, _RIGHT, _TOP, _BOTTOM = 38, 252, 26, 146
#: Steps of the upright axis that are whole per cents.
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
_DAY = 86_400.0


def pairs_html(pairs: Sequence[Pair], distances: Sequence[float], *, dark: bool) -> str:
    """Draw columns as small histograms, the selected rows against the others.

    Args:
        pairs: at least one column.
        distances: how far each sets the selected rows apart, for its title.
        dark: whether the page is dark.

    Returns:
        HTML: a legend, and one picture a column. Pointing at a bar tells its shares.
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
    colours = ink(dark)
    most = max(float(pair.inside.max()), float(pair.outside.max()), 1e-9)
    step = next((step for step in _STEPS if step * 4 >= most), _STEPS[-1])
    top = step * np.ceil(most / step)
    title = f"{escape(shortened(pair.name, 26))} · {distance:.2f}"
    parts = [
        f'<text x="{(_LEFT + _RIGHT) / 2}" y="14" text-anchor="middle" fill="{colours.text}" '
        f'font-size="12">{title}</text>'
    ]
    for tick in np.arange(0.0, top + step / 2, step):
        y = _up(tick, top)
        parts.append(
            f'<path d="M{_LEFT} {y}H{_RIGHT}" stroke="{colours.hairline}"/>'
            f'<text x="{_LEFT - 4}" y="{y + 3.5:.1f}" text-anchor="end" fill="{colours.muted}" '
            f'font-size="10.5">{100 * tick:.3g}%</text>'
        )
    drawn = _steps(pair, top, dark) if pair.edges is not None else _bars(pair, top, dark)
    parts += drawn
    parts += _ticks(pair, colours.muted)
    alt = f"{title}: shares of the selected rows and of the others"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{alt.replace(chr(34), "")}" '
        f'font-family="Inter, sans-serif">{"".join(parts)}</svg>'
    )


def _up(share: float, top: float) -> float:
    return round(_BOTTOM - (_BOTTOM - _TOP) * share / top, 2)


def _along(edges: FloatArray) -> FloatArray:
    low, high = edges[0], edges[-1]
    share = (edges - low) / (high - low if high > low else 1.0)
    found: FloatArray = np.round(_LEFT + (_RIGHT - _LEFT) * share, 2)
    return found


def _steps(pair: Pair, top: float, dark: bool) -> Iterator[str]:
    """Both histograms as filled steps, then what pointing at a bar tells."""
    assert pair.edges is not None
    x = _along(pair.edges)
    for share, colour in ((pair.outside, ink(dark).muted), (pair.inside, accent(dark))):
        path = f"M{x[0]} {_BOTTOM}" + "".join(
            f"V{_up(one, top)}H{right}" for one, right in zip(share, x[1:], strict=True)
        )
        yield (
            f'<path d="{path}V{_BOTTOM}Z" fill="{colour}" fill-opacity="0.45" stroke="{colour}" '
            'stroke-width="1.4"/>'
        )
    names = [_written(edge, pair) for edge in pair.edges]
    for i, (left, wide) in enumerate(zip(x[:-1], np.diff(x), strict=True)):
        yield _told(pair, i, f"{names[i]} to {names[i + 1]}", left, wide)


def _bars(pair: Pair, top: float, dark: bool) -> Iterator[str]:
    """A bar for the others and one for the selected rows at each level."""
    x = _along(np.arange(len(pair.levels) + 1.0))
    for i, (left, wide) in enumerate(zip(x[:-1], np.diff(x), strict=True)):
        for share, at, colour in (
            (pair.outside[i], left + 0.1 * wide, ink(dark).muted),
            (pair.inside[i], left + 0.5 * wide, accent(dark)),
        ):
            y = _up(float(share), top)
            yield (
                f'<rect x="{at:.2f}" y="{y}" width="{0.4 * wide:.2f}" height="{_BOTTOM - y:.2f}" '
                f'fill="{colour}"/>'
            )
        yield _told(pair, i, escape(shortened(pair.levels[i], 60)), left, wide)


def _told(pair: Pair, i: int, what: str, left: float, wide: float) -> str:
    """An area that tells the shares of its bar when it is pointed at."""
    said = f"{what}: {pair.inside[i]:.1%} of the selected, {pair.outside[i]:.1%} of the others"
    return (
        f'<rect x="{left:.2f}" y="{_TOP}" width="{wide:.2f}" height="{_BOTTOM - _TOP}" '
        f'fill="transparent"><title>{said}</title></rect>'
    )


def _ticks(pair: Pair, colour: str) -> Iterator[str]:
    """What stands below: levels, or numbers or dates at round places."""
    if pair.edges is None:
        x = _along(np.arange(len(pair.levels) + 1.0))
        room = max(3, int((x[1] - x[0]) / 6))
        for level, left in zip(pair.levels, x[:-1], strict=True):
            yield _below(left + (x[1] - x[0]) / 2, escape(shortened(level, room)), colour)
        return
    places = np.linspace(pair.edges[0], pair.edges[-1], 3)
    for value, x, anchor in zip(places, _along(places), ("start", "middle", "end"), strict=True):
        yield _below(x, _written(value, pair), colour, anchor)


def _below(x: float, text: str, colour: str, anchor: str = "middle") -> str:
    return (
        f'<text x="{x:.2f}" y="{_BOTTOM + 15}" text-anchor="{anchor}" fill="{colour}" '
        f'font-size="10.5">{text}</text>'
    )


def _written(value: float, pair: Pair) -> str:
    assert pair.edges is not None
    if not pair.dates:
        return number(float(value), 3)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=float(value))
    near = pair.edges[-1] - pair.edges[0] < 3 * _DAY
    return moment.strftime("%m-%d %H:%M" if near else "%Y-%m-%d")
