"""One legend for several figures, as HTML."""

from __future__ import annotations

from typing import NamedTuple

from app.analysis.map.row_colours import MISSING, OTHER, CategoryStyle, Colouring, NumericColours
from app.figures.palette import numeric_palette
from app.figures.theme import page_colours
from app.templates import render

__all__ = ["legend_html"]

_GLYPHS = {"circle": "●", "diamond": "◆", "square": "■", "triangle-up": "▲"}
_RAMP_COLOURS = 8


class _Entry(NamedTuple):
    """A category in the legend."""

    glyph: str
    colour: str
    name: str


def legend_html(colouring: Colouring, *, dark: bool, titled: bool = True) -> str:
    """The legend of the colours and shapes of rows; empty if all rows look alike.

    Args:
        colouring: how the rows are coloured.
        dark: whether the page is dark.
        titled: whether it begins with the title of the colours.
    """
    if colouring is None:
        return ""
    if isinstance(colouring, NumericColours):
        ramp = numeric_palette(_RAMP_COLOURS, colouring.colours.shown_scale)
        scale = {"ends": colouring.ends, "colours": ramp}
        return render(
            "legend.html", title=colouring.full_title if titled else None, scale=scale, entries=[]
        )
    entries = _category_entries(colouring, dark)
    return render(
        "legend.html", title=colouring.title if titled else None, scale=None, entries=entries
    )


def _category_entries(style: CategoryStyle, dark: bool) -> list[_Entry]:
    entries = []
    looks = style.looks(dark=dark)
    for code in style.in_order:
        colour, shape = looks[code]
        entries.append(_Entry(_GLYPHS[shape], colour, style.names[code]))
    grey = page_colours(dark).muted
    if (style.codes == OTHER).any():
        entries.append(_Entry("●", grey, f"other ({style.others} more)"))
    if (style.codes == MISSING).any():
        entries.append(_Entry("○", grey, "(missing)"))
    return entries
