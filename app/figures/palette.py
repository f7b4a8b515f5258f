"""Palettes of row colours for the canvas and pictures, with the code of each row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from plotly.colors import hex_to_rgb, sample_colorscale, unlabel_rgb

from app.analysis.map.row_colours import MISSING, OTHER, CategoryStyle, Colouring, NumericColours
from app.figures.theme import PLOTLY_SCALES, category, page_colours

__all__ = ["LEVELS", "numeric_palette", "ramp_steps", "rgb", "row_layers", "row_palette"]

#: Number of colours of the colour scale of numeric columns.
LEVELS = 64


def row_palette(
    colouring: Colouring, n: int, *, dark: bool
) -> tuple[list[tuple[str, str]], NDArray[np.intp]]:
    """Colours with their markers, and the position of each of n rows among them.

    Args:
        colouring: how the rows are coloured.
        n: number of rows.
        dark: whether the page is dark.
    """
    grey = page_colours(dark).muted
    other, missing = (grey, "circle"), (grey, "circle-open")
    if isinstance(colouring, CategoryStyle):
        C = len(colouring.names)
        codes = np.where(
            colouring.codes == OTHER,
            C,
            np.where(colouring.codes == MISSING, C + 1, colouring.codes),
        )
        return [*colouring.looks(dark=dark), other, missing], codes
    if isinstance(colouring, NumericColours):
        shares = colouring.shares()
        found = np.full(n, LEVELS)
        known = np.isfinite(shares)
        found[known] = (shares[known] * (LEVELS - 1)).round().astype(int)
        ramp = numeric_palette(LEVELS, colouring.colours.shown_scale)
        return [*((colour, "circle") for colour in ramp), missing], found
    return [category(0, dark)], np.zeros(n, dtype=np.intp)


def row_layers(colouring: Colouring) -> list[int] | None:
    """Positions in the palette of ``row_palette``, from the lowest layer; None without layers."""
    if not isinstance(colouring, CategoryStyle) or colouring.layers is None:
        return None
    C = len(colouring.names)
    grey = {OTHER: C, MISSING: C + 1}
    return [grey.get(code, code) for code in colouring.layers]


@cache
def numeric_palette(n: int, scale: str) -> tuple[str, ...]:
    """A colour scale of numbers as n colours, from its low end.

    Args:
        n: number of colours.
        scale: a name of ``lvmcore.export.column_colours.SCALES``.
    """
    return tuple(sample_colorscale(PLOTLY_SCALES[scale], np.linspace(0, 1, n).tolist()))


def rgb(colours: Sequence[str]) -> NDArray[np.float64]:
    """RGB values from 0 to 255 of colours, hexadecimal or in plotly's form, [n, 3]."""
    return np.array(
        [unlabel_rgb(one) if one.startswith("rgb") else hex_to_rgb(one) for one in colours],
        dtype=np.float64,
    )


def ramp_steps(colours: Sequence[str], n: int) -> list[list[int]]:
    """A colour scale of colours #RRGGBB as n RGB triples from 0 to 255."""
    known = rgb(colours)
    at = np.linspace(0, len(known) - 1, n)
    parts = [np.interp(at, np.arange(len(known)), known[:, i]) for i in range(3)]
    found: list[list[int]] = np.column_stack(parts).round().astype(int).tolist()
    return found
