"""Types of a table's columns: proposals, each with its reason."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd

__all__ = ["ColumnDescription", "ColumnType", "describe_column", "is_id_name", "label_like_names"]

_ID_NAME = re.compile(
    r"(^|[\s_.\-])(id|ids|uuid|guid|index|idx|key|accession|barcode|row ?(id|no|number|name)?|"
    r"record ?(id|no|number)?|serial|sample ?(id|no|name))$|^unnamed: 0$",
    re.IGNORECASE,
)
_CAMEL_ID = re.compile(r"[a-z]I[Dd]$")
_LABEL_NAME = re.compile(
    r"^(labels?|class(es)?|targets?|y|species|categor(y|ies)|groups?|diagnosis|outcome|"
    r"cell[ _]?types?|phenotype|cluster|class[ _]?(label|name)|digit|party|newsgroup|variety|"
    r"cultivar|default|response)$",
    re.IGNORECASE,
)
# Of a column along which the rows are a series: it numbers them, and is what they depend on.
_SERIES_NAME = re.compile(
    r"^(t|x|times?|dates?|years?|quarters?|months?|weeks?|days?|hours?|minutes?|seconds?|steps?|"
    r"epochs?|cycles?)(?![a-z])",
    re.IGNORECASE,
)
_MAX_LABELS = 2
_MAX_CLASSES = 30
_MAX_CATEGORIES = 100
_LONG_TEXT = 60


class ColumnType(StrEnum):
    """Type of a column."""

    NUMERIC = "numeric"
    COUNT = "count"
    BINARY = "binary"
    CATEGORY = "category"
    DATE = "date"
    IDENTIFIER = "identifier"
    TEXT = "text"


@dataclass(frozen=True)
class ColumnDescription:
    """One column of a table.

    Attributes:
        name: Its name, unique in the table.
        type: The proposed type.
        missing: Number of missing cells.
        distinct: Number of different values among the others.
        reason: Why this type was proposed, in one sentence.
        unparsed: Number of cells that were text among numbers; they count as missing.
        examples: The first few different ones of these.
        is_annotation: Whether it is an annotation of the row rather than a measurement (obs of an
            H5AD file): used as a colour or label, and as a feature only on request.
    """

    name: str
    type: ColumnType
    missing: int
    distinct: int
    reason: str
    unparsed: int = 0
    examples: tuple[str, ...] = ()
    is_annotation: bool = False


def label_like_names(names: Sequence[str]) -> frozenset[str]:
    """The names that are usual for a column of classes.

    A table has one such column, at most two. Where more names match (word counts with columns
    called class, group, label and target), the names are no evidence, and none is returned.
    """
    found = [name for name in names if _LABEL_NAME.search(name.strip())]
    return frozenset(found if len(found) <= _MAX_LABELS else ())


def is_id_name(name: str) -> bool:
    """Whether a name is usual for a column that identifies rows."""
    return _ID_NAME.search(name.strip()) is not None or _CAMEL_ID.search(name) is not None


def describe_column(
    name: str,
    values: pd.Series,
    *,
    position: int = 1,
    named: bool = True,
    label_like: bool = False,
    hint: str = "",
    unparsed: int = 0,
    examples: tuple[str, ...] = (),
    is_annotation: bool = False,
) -> ColumnDescription:
    """Propose a type for a column.

    Args:
        name: Its name.
        values: Its cells.
        position: Its position in the table, from 0.
        named: Whether the name comes from the table.
        label_like: Whether its name is usual for a label.
        hint: What the conversion of the cells found.
        unparsed: See `ColumnDescription`.
        examples: See `ColumnDescription`.
        is_annotation: See `ColumnDescription`.
    """
    known = values.dropna() if values.hasnans else values
    distinct = len(pd.unique(known))
    if known.empty:
        kind, reason = ColumnType.NUMERIC, "Every cell is missing."
    elif pd.api.types.is_bool_dtype(values.dtype):
        kind, reason = ColumnType.BINARY, "Its cells are true or false."
    elif pd.api.types.is_datetime64_any_dtype(values.dtype):
        kind, reason = ColumnType.DATE, _sentence(hint or "its cells are dates")
    elif pd.api.types.is_numeric_dtype(values.dtype):
        kind, reason = _describe_numbers(
            name,
            values,
            known,
            distinct,
            in_front=position == 0,
            named=named,
            label_like=label_like,
        )
    else:
        kind, reason = _describe_text(name, known, distinct, len(values), hint)
    if unparsed:
        shown = ", ".join(repr(example) for example in examples)
        cells = "cell is" if unparsed == 1 else "cells are"
        reason += f" {unparsed} {cells} text and count{'s' * (unparsed == 1)} as missing: {shown}."
    if is_annotation:
        reason += " It is an annotation of the row, and a feature only if it is chosen as one."
    absent = len(values) - len(known)
    return ColumnDescription(
        name, kind, absent, distinct, reason, unparsed, examples, is_annotation
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _describe_numbers(
    name: str,
    values: pd.Series,
    known: pd.Series,
    distinct: int,
    *,
    in_front: bool,
    named: bool,
    label_like: bool,
) -> tuple[ColumnType, str]:
    numbers = known.to_numpy(dtype=np.float64)
    whole = values.dtype.kind in "iu" or bool(np.all(numbers == np.round(numbers)))
    if distinct == 1:
        kind = ColumnType.COUNT if whole and numbers[0] >= 0 else ColumnType.NUMERIC
        return kind, f"Every known cell is {numbers[0]:g}: the column is constant."
    if whole and distinct == len(known) >= len(values) - 1 and len(known) > 2:
        in_order = bool(np.all(np.diff(numbers) == 1)) and numbers[0] in {0.0, 1.0}
        counts = in_front and len(values) > 20 and _SERIES_NAME.search(name.strip()) is None
        if is_id_name(name) or (in_order and (not named or counts)):
            reason = "the rows numbered in order" if in_order else "a different number in each row"
            return ColumnType.IDENTIFIER, f"It holds {reason}, so it identifies rows."
    if distinct == 2 and len(known) > 2:
        low, high = numbers.min(), numbers.max()
        return ColumnType.BINARY, f"It has exactly two values, {low:g} and {high:g}."
    if whole and label_like and distinct <= min(_MAX_CLASSES, len(known) // 2):
        return ColumnType.CATEGORY, f"It is called {name!r} and has {distinct} whole numbers."
    if whole and numbers.min() >= 0:
        return ColumnType.COUNT, "Its cells are whole numbers, none below zero."
    if whole:
        return ColumnType.NUMERIC, "Its cells are whole numbers, some below zero."
    return ColumnType.NUMERIC, "Its cells are decimal numbers."


def _describe_text(
    name: str, known: pd.Series, distinct: int, rows: int, hint: str
) -> tuple[ColumnType, str]:
    if hint.startswith(("its cells are dates", "its cells are times")):
        return ColumnType.DATE, _sentence(hint)
    reason = f" ({hint})" if hint else ""
    if distinct == 2 and len(known) > 2:
        first, second = sorted(map(str, pd.unique(known)))
        return ColumnType.BINARY, f"It has exactly two values, {first!r} and {second!r}{reason}."
    text = known.astype("str")
    length = float(text.str.len().mean())
    written = hint.startswith(("its cells are ranges", "its cells may be numbers"))
    if distinct == rows and rows > 2 and not written and (is_id_name(name) or length < _LONG_TEXT):
        return ColumnType.IDENTIFIER, f"It has a different value in each row{reason}."
    if distinct <= min(_MAX_CATEGORIES, max(1, len(known) // 2)):
        values = "1 value" if distinct == 1 else f"{distinct} values"
        return ColumnType.CATEGORY, f"It has {values} that repeat{'s' * (distinct == 1)}{reason}."
    return ColumnType.TEXT, f"It has {distinct} different texts in {len(known)} cells{reason}."
