"""Colours of rows where a figure is drawn by hand: a palette, and which of it each row takes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from plotly.colors import hex_to_rgb, sample_colorscale, unlabel_rgb

from app.colouring import MISSING, OTHER, Categories, Colouring, Numbers
from app.figures.theme import NUMBERS, category, ink

__all__ = ["LEVELS", "numbers", "of_rows", "rgb", "steps"]

#: Colours of numeric columns: so many steps.
LEVELS = 64


def of_rows(
    look: Colouring, n: int, *, dark: bool
) -> tuple[list[tuple[str, str]], NDArray[np.intp]]:
    """Colours with their markers, and the position among them of each of n rows.

    Args:
        look: how the rows are coloured.
        n: how many there are.
        dark: whether the page is dark.
    """
    grey = ink(dark).muted
    other, missing = (grey, "circle"), (grey, "circle-open")
    if isinstance(look, Categories):
        C = len(look.names)
        codes = np.where(look.codes == OTHER, C, np.where(look.codes == MISSING, C + 1, look.codes))
        return [*(category(code, dark) for code in range(C)), other, missing], codes
    if isinstance(look, Numbers):
        known = np.isfinite(look.values)
        found = np.full(n, LEVELS)
        if look.ends is not None:
            low, high = look.ends
            share = ((look.values[known] - low) / max(high - low, 1e-300)).clip(0, 1)
            found[known] = (share * (LEVELS - 1)).round().astype(int)
        return [*((colour, "circle") for colour in numbers(LEVELS)), missing], found
    return [category(0, dark)], np.zeros(n, dtype=np.intp)


@cache
def numbers(n: int) -> tuple[str, ...]:
    """The ramp of numeric columns as n colours, from its low end."""
    return tuple(sample_colorscale(NUMBERS, np.linspace(0, 1, n).tolist()))


def rgb(colours: Sequence[str]) -> NDArray[np.float64]:
    """Numbers from 0 to 255 for colours: hexadecimal ones, or plotly's own, [n, 3]."""
    return np.array(
        [unlabel_rgb(one) if one.startswith("rgb") else hex_to_rgb(one) for one in colours],
        dtype=np.float64,
    )


def steps(colours: Sequence[str], n: int) -> list[list[int]]:
    """A ramp of colours #RRGGBB as n colours of three numbers from 0 to 255."""
    known = rgb(colours)
    at = np.linspace(0, len(known) - 1, n)
    parts = [np.interp(at, np.arange(len(known)), known[:, i]) for i in range(3)]
    found: list[list[int]] = np.column_stack(parts).round().astype(int).tolist()
    return found
