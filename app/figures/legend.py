"""One legend for several figures, as HTML."""

from __future__ import annotations

from app.colouring import MISSING, OTHER, Colouring, Numbers
from app.figures.theme import category, escape, ink
from app.words import number, shortened

__all__ = ["legend"]

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


def _entry(glyph: str, colour: str, name: str) -> str:
    return f'<span><i style="color:{colour}">{glyph}</i>{escape(shortened(name, 24))}</span>'


def _scale(look: Numbers) -> str:
    if look.ends is None:
        return "<span>no value</span>"
    ramp = f"linear-gradient(90deg,{','.join(_RAMP)})"
    low, high = map(number, look.ends)
    return f'<span>{low}</span><b style="background:{ramp}"></b><span>{high}</span>'
