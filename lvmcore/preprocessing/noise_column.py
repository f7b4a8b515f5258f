"""A column that holds the standard deviation of each row's measurement error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.errors import ConfigError, DataError
from lvmcore.numerics.array_types import FloatArray
from lvmcore.preprocessing.standardiser import Standardiser

__all__ = ["check_noise_sds", "noise_column_place", "with_noise_column", "without_noise_column"]


def noise_column_place(name: str, columns: Sequence[str]) -> int:
    """Position of the column among those of a fit.

    Raises:
        ConfigError: there is no such column.
    """
    if name not in columns:
        shown = ", ".join(map(repr, columns[:10]))
        raise ConfigError(
            f"noise_sd={name!r} cannot be used: the fit has no such column. It has {shown}."
        )
    return list(columns).index(name)


def check_noise_sds(sds: FloatArray, name: str, *, missing_allowed: bool) -> None:
    """Check the standard deviations of rows, [N].

    Raises:
        DataError: one is negative, infinite, or missing where that is not allowed.
    """
    wrong = ~(sds >= 0) | np.isinf(sds)
    if missing_allowed:
        wrong &= ~np.isnan(sds)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"Column {name} holds the standard deviation of each row's error, and that of row "
            f"{row + 1} is {sds[row]:g}: expected a number of at least 0. Leave the row out, or "
            "choose another column."
        )


def with_noise_column(X: Any, name: str, columns: Sequence[str]) -> Any:
    """New rows with the column, empty where a table has all others of the fit but not this one."""
    if not isinstance(X, pd.DataFrame) or name in X.columns or len(X.columns) + 1 != len(columns):
        return X
    found = X.copy()
    found.insert(list(columns).index(name), name, np.nan)
    return found


def without_noise_column(measured: Standardiser, name: str) -> Standardiser:
    """A standardiser that sets the column aside.

    Raises:
        DataError: no other column varies.
    """
    gone: NDArray[np.bool_] = measured.constant | (np.array(measured.names) == name)
    if gone.all():
        raise DataError(
            f"No column is left to learn from beside {name!r}, which holds the noise: choose "
            "further columns."
        )
    return replace(measured, constant=gone)
