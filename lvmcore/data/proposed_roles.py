"""Proposed roles of columns: the label and the row id."""

from typing import TYPE_CHECKING

from lvmcore.data.column_types import ColumnDescription, ColumnType, is_id_name, label_like_names

if TYPE_CHECKING:
    from lvmcore.data.table import Table

__all__ = ["propose_label", "propose_row_id"]

_CLASS_TYPES = {ColumnType.CATEGORY, ColumnType.BINARY}
_MAX_CLASSES = 30
_MAX_TEXT_COLUMNS = 3
_FIRST_NAMES = ("label", "labels", "class", "target", "species")


def propose_label(table: "Table") -> str | None:
    """Propose the column of classes.

    First choice is a column with a usual name (label, class, target, species, …) and 2 to 30
    distinct values that repeat; second a text column of such values that is the last or the first
    column among few of its kind, or the only one.

    Returns:
        Its name, or None without a candidate.
    """
    fit = [column for column in table.columns if _can_be_label(column)]
    likely = label_like_names([column.name for column in table.columns])
    named = [column for column in fit if column.name in likely]
    if named:
        ranks = {name: rank for rank, name in enumerate(_FIRST_NAMES)}
        return min(named, key=lambda c: ranks.get(c.name.strip().lower(), len(ranks))).name
    texts = [column for column in fit if table.frame[column.name].dtype.kind not in "iufb"]
    if len(texts) <= _MAX_TEXT_COLUMNS:
        for end in (table.columns[-1], table.columns[0]):
            if end in texts:
                return end.name
    return texts[0].name if len(texts) == 1 else None


def _can_be_label(column: ColumnDescription) -> bool:
    return column.type in _CLASS_TYPES and 2 <= column.distinct <= _MAX_CLASSES


def propose_row_id(table: "Table") -> str | None:
    """Propose the column that identifies rows: an identifier with a distinct value in every row.

    Returns:
        Its name, or None when there is none.
    """
    first = 1 if table.detected.second_header else 0
    rows = len(table.frame) - first
    fit = [
        column
        for column in table.columns
        if column.type is ColumnType.IDENTIFIER
        and table.frame[column.name].iloc[first:].nunique(dropna=True) == rows
    ]
    named = [column for column in fit if is_id_name(column.name)]
    return (named or fit)[0].name if fit else None
