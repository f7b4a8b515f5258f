"""Parsing of JSON lines, and of a JSON array of records, to columns of strings."""

import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lvmcore.data.source import check_density, check_size
from lvmcore.data.text.csv_text import TextTable
from lvmcore.data.text.dialect import NO_DELIMITER, Dialect
from lvmcore.data.text.header_and_footer import TableLayout
from lvmcore.data.text.number_format import NumberFormat
from lvmcore.errors import DataError

__all__ = ["is_json", "parse_json"]

_BATCH = 2000


def is_json(data: bytes) -> bool:
    """Whether the bytes start like JSON lines or a JSON array of records."""
    start = data[:512].removeprefix(b"\xef\xbb\xbf").lstrip()
    return start[:1] == b"{" or (start[:1] == b"[" and start[1:].lstrip()[:1] in {b"{", b"["})


def parse_json(data: bytes, name: str) -> tuple[TextTable, str]:
    """Parse records: one JSON object a line, or one array of objects.

    Args:
        data: UTF-8 without a byte order mark.
        name: Name of the file in messages.

    Returns:
        The table, with a column for each key in the order of first occurrence, and the format:
        "jsonl" or "json".

    Raises:
        DataError: It is not JSON, or not records.
    """
    columns = _ColumnCollector(name)
    kind = "json" if data.lstrip()[:1] == b"[" else "jsonl"
    records = _array_records(data, name) if kind == "json" else _line_records(data, name)
    for place, record in records:
        if not isinstance(record, dict):
            raise DataError(
                f"{name!r} is JSON, and {place} is {_kind_name(record)}. Expected records: one "
                'object like {"height": 1.5, "name": "a"} a line.'
            )
        columns.add(record)
    return columns.table(), kind


def _array_records(data: bytes, name: str) -> Iterator[tuple[str, Any]]:
    for number, record in enumerate(_parse(data, name, "the file"), start=1):
        yield f"entry {number}", record


def _line_records(data: bytes, name: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(io.BytesIO(data), start=1):
        if line.strip():
            yield f"line {number}", _parse(line, name, f"line {number}")


def _parse(text: bytes, name: str, place: str) -> Any:
    try:  # numbers stay text, so that no digit is lost before the conversion of the column
        return json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
    except RecursionError as error:
        raise DataError(
            f"{name!r} is JSON whose values are nested too deeply. Expected one flat object a line."
        ) from error
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "it is not UTF-8"
        raise DataError(
            f"{name!r} begins like JSON, but {place} is not a whole JSON value ({reason}). "
            "Expected JSON lines, one object on each line, or one array of objects."
        ) from error


def _kind_name(value: Any) -> str:
    if isinstance(value, list):
        return "a list"
    return "a number or a word" if value is not None else "null"


class _ColumnCollector:
    """Collects the values of each key, a batch of records at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows = self.filled = 0
        self.batch: dict[str, list[str]] = {}
        self.done: dict[str, list[Any]] = {}
        self.nested: dict[str, int] = {}

    def add(self, record: dict[str, Any]) -> None:
        """Append one record."""
        size = self.rows % _BATCH
        for key, value in record.items():
            cells = self.batch.get(key)
            if cells is None:
                cells = self.batch[key] = []
                check_size(1, len(self.batch), self.name)
            cells.extend([""] * (size - len(cells)))
            cells.append(self._cell(key, value))
        self.rows += 1
        self.filled += len(record)
        if self.rows % _BATCH == 0:
            self._flush(_BATCH)

    def _cell(self, key: str, value: Any) -> str:
        if isinstance(value, str):
            return value
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        self.nested[key] = self.nested.get(key, 0) + 1
        return ""

    def _flush(self, size: int) -> None:
        check_size(self.rows, len(self.batch), self.name)
        check_density(self.rows, len(self.batch), self.filled, self.name)
        for key, cells in self.batch.items():
            cells.extend([""] * (size - len(cells)))
            missing = self.rows - size - sum(map(len, self.done.setdefault(key, [])))
            if missing:
                self.done[key].append(pa.repeat(pa.scalar(""), missing))
            self.done[key].append(_strings(cells))
            cells.clear()

    def table(self) -> TextTable:
        """Build the table, without columns whose cells are all lists or records."""
        if self.rows % _BATCH:
            self._flush(self.rows % _BATCH)
        notes = []
        for key, count in self.nested.items():
            if count == self.rows or self._empty(key):
                del self.done[key]
                notes.append(f"Column {key!r} left out: its cells are lists or records.")
            else:
                cells = "1 cell is a list or a record and counts"
                many = f"{count} cells are lists or records and count"
                notes.append(f"Column {key!r}: {cells if count == 1 else many} as missing.")
        if not self.done:
            raise DataError(
                f"{self.name!r} is JSON whose values are all nested (lists or records), so no "
                "column of numbers, words or dates is left. Expected flat records, one object "
                'like {"height": 1.5, "name": "a"} a line.'
            )
        names = list(self.done)
        cells = pa.table(
            [pa.chunked_array(self.done[key], pa.string()) for key in names],
            names=[str(position) for position in range(len(names))],
        )
        header = tuple(_replace_surrogates(key) for key in names)
        layout = TableLayout(header, len(names), 0, None, (False,) * len(names))
        return TextTable(cells, layout, Dialect(NO_DELIMITER), NumberFormat(), notes)

    def _empty(self, key: str) -> bool:
        return all(set(part.unique().to_pylist()) <= {""} for part in self.done[key])


def _strings(cells: list[str]) -> Any:
    try:
        return pa.array(cells, pa.string())
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can write
        return pa.array([_replace_surrogates(cell) for cell in cells], pa.string())


def _replace_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
