"""Colours of rows where a figure is drawn by hand: a palette, and which of it each row takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from plotly.colors import hex_to_rgb, sample_colorscale

from app.colouring import MISSING, OTHER, Categories, Colouring, Numbers
from app.figures.theme import NUMBERS, category, ink

__all__ = ["LEVELS", "of_rows", "steps"]

#: Colours of numeric columns: so many steps.
LEVELS = 64


def of_rows(look: Colouring, n: int, *, dark: bool) -> tuple[list[tuple[str, str]], list[int]]:
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
        return [*(category(code, dark) for code in range(C)), other, missing], codes.tolist()
    if isinstance(look, Numbers):
        known = np.isfinite(look.values)
        found = np.full(n, LEVELS)
        if known.any():
            low, high = look.values[known].min(), look.values[known].max()
            share = (look.values[known] - low) / max(float(high - low), 1e-300)
            found[known] = (share * (LEVELS - 1)).round().astype(int)
        ramp = sample_colorscale(NUMBERS, np.linspace(0, 1, LEVELS).tolist())
        return [*((colour, "circle") for colour in ramp), missing], found.tolist()
    return [category(0, dark)], [0] * n


def steps(colours: Sequence[str], n: int) -> list[list[int]]:
    """A ramp of colours #RRGGBB as n colours of three numbers from 0 to 255."""
    known = np.array([hex_to_rgb(colour) for colour in colours], dtype=np.float64)
    at = np.linspace(0, len(known) - 1, n)
    parts = [np.interp(at, np.arange(len(known)), known[:, i]) for i in range(3)]
    found: list[list[int]] = np.column_stack(parts).round().astype(int).tolist()
    return found
