"""Values of tables and results as JSON."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["LONGEST_TEXT", "json_numbers", "json_value"]

#: Characters of a text of a table; a longer one is cut.
LONGEST_TEXT = 500


def json_value(value: Any) -> Any:
    """A cell or a setting as JSON: None where missing or not finite, a long text cut.

    Args:
        value: a number, a text, a time, None, or a list, tuple, array or mapping of these.
    """
    if isinstance(value, np.ndarray | list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, datetime):
        return value.isoformat()
    text = str(value)
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


def json_numbers(values: Any) -> list[float | None]:
    """Numbers, [n], as JSON: None where not finite."""
    return [float(value) if math.isfinite(value) else None for value in values]
