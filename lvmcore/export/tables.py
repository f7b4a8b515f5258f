"""Export of tables as CSV and Parquet."""

from __future__ import annotations

import csv
import io
import math
import numbers
import re
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

#: First characters of text that a spreadsheet would run as a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
# A number with a sign, whatever its marks, and perhaps a unit.
_SIGNED_NUMBER = re.compile(r"[+-][\d.,'’\s]*\d[\w.,'’%°/\s]*")


def to_csv_bytes(frame: pd.DataFrame) -> bytes:
    """A frame as CSV (UTF-8, commas, CRLF, header, no index), safe to open in a spreadsheet.

    Text that a spreadsheet would take for a formula (it starts with = + - @, a tab or a carriage
    return) gets a leading quote mark, headers included. Numbers stay numbers, with every digit;
    a missing cell is empty.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([safe_text(str(name)) for name in frame.columns])
    cells = [_texts(frame.iloc[:, i]) for i in range(frame.shape[1])]
    writer.writerows(zip(*cells, strict=True))
    return text.getvalue().encode()


def to_parquet_bytes(frame: pd.DataFrame) -> bytes:
    """A frame as Parquet; columns of mixed types, which Parquet does not support, become text."""
    columns = [_arrow(frame.iloc[:, i]) for i in range(frame.shape[1])]
    table = pa.table(columns, names=[str(name) for name in frame.columns])
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def _texts(column: pd.Series[Any]) -> list[str]:
    write = _writer(column)
    missing = column.isna().tolist()
    return [
        "" if gone else write(cell) for cell, gone in zip(column.tolist(), missing, strict=True)
    ]


def _writer(column: pd.Series[Any]) -> Callable[[Any], str]:
    if pd.api.types.is_float_dtype(column.dtype):
        return _float
    if pd.api.types.is_integer_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        return str
    return _cell


def _cell(value: Any) -> str:
    if isinstance(value, numbers.Integral):
        return str(value)
    if isinstance(value, numbers.Real):
        return _float(float(value))
    return safe_text(str(value))


def _float(value: float) -> str:
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(float(value))


def safe_text(text: str, *, number: bool = False) -> str:
    """A text with a leading quote mark where a spreadsheet would run it as a formula.

    Args:
        text: the text of a cell.
        number: whether it is of a column of numbers, in which a sign before digits is none.
    """
    if number and _SIGNED_NUMBER.fullmatch(text):
        return text
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def _arrow(column: pd.Series[Any]) -> Any:
    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        missing = column.isna()
        return pa.array([None if gone else str(v) for v, gone in zip(column, missing, strict=True)])
