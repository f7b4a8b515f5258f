"""Axes of columns of dates, which models take as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from lvmcore.data import DateScale

__all__ = ["date_format", "date_ticks"]

_FORMATS = {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d", "hour": "%Y-%m-%d %H:%M"}
_TICKS = 6


def date_format(scale: DateScale) -> str:
    """The d3 format of dates of a scale, for hover texts on an axis of dates."""
    return _FORMATS[scale.unit]


def date_ticks(scale: DateScale, low: float, high: float) -> dict[str, Any]:
    """Ticks of an axis of numbers with dates as their texts.

    Args:
        scale: unit and origin of the numbers.
        low: first number of the axis.
        high: last number.

    Returns:
        ``tickvals`` and ``ticktext`` of a plotly axis, at whole units.
    """
    at = np.unique(np.round(np.linspace(low, high, _TICKS)))
    return {"tickvals": at, "ticktext": scale.texts(at)}
