"""One legend for several figures, as HTML."""

from __future__ import annotations

import numpy as np

from app.colouring import MISSING, OTHER, Colouring, Numbers
from app.exploring import Grid
from app.figures.theme import category, escape, ink, ramp
from app.words import number, shortened

__all__ = ["ground", "legend"]

_GLYPHS = {"circle": "●", "diamond": "◆", "square": "■", "triangle-up": "▲"}
#: Five colours of Viridis, from low to high.
_RAMP = ("#440154", "#3B528B", "#21918C", "#5EC962", "#FDE725")


def legend(look: Colouring, *, dark: bool) -> str:
    """What the colours and shapes of rows mean; empty where all are alike.

    Args:
        look: how the rows are coloured.
        dark: whether the page is dark.
    """
    if look is None:
        return ""
    title = f'<span class="title">{escape(shortened(look.title))}</span>'
    if isinstance(look, Numbers):
        return f'<div class="legend">{title}{_scale(look)}</div>'
    grey = ink(dark).muted
    entries = [
        _entry(_GLYPHS[shape], colour, name)
        for name, (colour, shape) in (
            (name, category(code, dark)) for code, name in enumerate(look.names)
        )
    ]
    if (look.codes == OTHER).any():
        entries.append(_entry("●", grey, f"other ({look.others} more)"))
    if (look.codes == MISSING).any():
        entries.append(_entry("○", grey, "(missing)"))
    return f'<div class="legend">{title}{"".join(entries)}</div>'


def ground(grid: Grid, *, dark: bool) -> str:
    """What the colours of a heatmap mean, for a map drawn by hand; empty where it is flat.

    Args:
        grid: the heatmap.
        dark: whether the page is dark.
    """
    if grid.flat:
        return ""
    low, high = grid.limits or (float(grid.value.min()), float(grid.value.max()))
    colours = ",".join(ramp(sure_is_low=grid.sure_is_low, dark=dark))
    bar = f'<b style="background:linear-gradient(90deg,{colours})"></b>'
    title = f"behind: {grid.title} ({grid.unit})"
    return (
        f'<div class="legend"><span class="title">{escape(title)}</span>'
        f"<span>{number(low, 3)}</span>{bar}<span>{number(high, 3)}</span></div>"
    )


def _entry(glyph: str, colour: str, name: str) -> str:
    return f'<span><i style="color:{colour}">{glyph}</i>{escape(shortened(name, 24))}</span>'


def _scale(look: Numbers) -> str:
    known = look.values[np.isfinite(look.values)]
    if not len(known):
        return "<span>no value</span>"
    ramp = f"linear-gradient(90deg,{','.join(_RAMP)})"
    low, high = number(float(known.min())), number(float(known.max()))
    return f'<span>{low}</span><b style="background:{ramp}"></b><span>{high}</span>'
