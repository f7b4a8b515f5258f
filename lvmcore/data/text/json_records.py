"""Parsing of JSON lines, and of a JSON array of records, to columns of strings."""

import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lvmcore.data.size_limits import check_density, check_size
from lvmcore.data.text.csv_text import TextTable
from lvmcore.data.text.dialect import NO_DELIMITER, Dialect
from lvmcore.data.text.encoding import replace_surrogates
from lvmcore.data.text.header_and_footer import TableLayout
from lvmcore.errors import DataError

__all__ = ["is_json", "parse_json"]

_BATCH = 2000
_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(rb'[-0-9"\]tfnNI]')


def is_json(data: bytes) -> bool:
    """Whether the bytes start like JSON lines or a JSON array of records, or are a JSON array."""
    start = data[:512].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] != b"[":
        return start[:1] == b"{"
    first = start[1:].lstrip()[:1]
    return first in {b"{", b"["} or (_SCALAR.match(first) is not None and _is_array(data))


def _is_array(data: bytes) -> bool:
    """Whether a text, or its first line, is a JSON array; names in brackets can begin a CSV."""
    start = data.lstrip()
    line, _, rest = start.partition(b"\n")
    alone = rest[:512].lstrip()[:1] in {b"", b"["}  # else a CSV file with such a header
    for text in (line, start) if alone else (start,):
        try:
            for _ in _array_records(text, ""):
                pass
        except DataError:
            continue
        return True
    return False


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
        if not isinstance(record, _Record):
            raise DataError(
                f"{name!r} is JSON, and {place} is {_kind_name(record)}. Expected records: one "
                'object like {"height": 1.5, "name": "a"} a line.'
            )
        columns.add(record, place)
    return columns.table(), kind


def _array_records(data: bytes, name: str) -> Iterator[tuple[str, Any]]:
    """The entries one after another, as all of them at once would take many times the memory."""
    text = data.decode("utf-8")
    place = _after_space(text, _after_space(text, 0) + 1)
    number, mark = 0, text[place : place + 1]
    while mark != "]" or number:
        number += 1
        record, place = _parse(text, place, name, "the file")
        yield f"entry {number}", record
        place = _after_space(text, place)
        mark = text[place : place + 1]
        if mark == "]":
            break
        if mark != ",":
            raise _syntax_error(name, "the file", "a comma or a bracket is absent")
        place = _after_space(text, place + 1)
    if text[_after_space(text, place + 1) :]:
        raise _syntax_error(name, "the file", "there is more text below the array")


def _line_records(data: bytes, name: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(io.BytesIO(data), start=1):
        text = line.decode("utf-8").strip()
        if text:
            record, end = _parse(text, 0, name, f"line {number}")
            if end < len(text):
                raise _syntax_error(name, f"line {number}", "Extra data")
            yield f"line {number}", record


def _after_space(text: str, place: int) -> int:
    """Position after any blank characters."""
    found = _SPACE.match(text, place)
    return place if found is None else found.end()


def _parse(text: str, start: int, name: str, place: str) -> tuple[Any, int]:
    """The JSON value that begins at a position, and the position of its end."""
    try:
        return _DECODER.raw_decode(text, start)
    except RecursionError as error:
        raise DataError(
            f"{name!r} is JSON whose values are nested too deeply. Expected one flat object a line."
        ) from error
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise _syntax_error(name, place, reason) from error


def _syntax_error(name: str, place: str, reason: str) -> DataError:
    return DataError(
        f"{name!r} begins like JSON, but {place} is not a whole JSON value ({reason}). "
        "Expected JSON lines, one object on each line, or one array of objects."
    )


class _Record(dict[str, Any]):
    """A JSON object, and the names that occur twice in it."""

    repeated: tuple[str, ...] = ()


def _record(pairs: list[tuple[str, Any]]) -> _Record:
    record = _Record(pairs)
    if len(record) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        record.repeated = tuple(key for key, count in counts.items() if count > 1)
    return record


class _Decimal(str):
    """The text of a JSON number with decimals."""


# Numbers stay text, so that no digit is lost before the conversion of the column.
_DECODER = json.JSONDecoder(
    parse_float=_Decimal, parse_int=str, parse_constant=str, object_pairs_hook=_record
)


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
        self.repeated: dict[str, tuple[int, str]] = {}
        self.halves: dict[str, int] = {}
        self.numbers: set[str] = set()

    def add(self, record: _Record, place: str) -> None:
        """Append one record, which stands at a place of the file."""
        for key in record.repeated:
            count, first = self.repeated.get(key, (0, place))
            self.repeated[key] = count + 1, first
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
            if isinstance(value, _Decimal):
                self.numbers.add(key)
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
            self.done[key].append(self._strings(key, cells))
            cells.clear()

    def table(self) -> TextTable:
        """Build the table, without columns whose cells are all lists or records."""
        if self.rows % _BATCH:
            self._flush(self.rows % _BATCH)
        if not self.rows:
            raise DataError(
                f"{self.name!r} is JSON without a record. Expected flat records, one object like "
                '{"height": 1.5, "name": "a"} a line.'
            )
        notes = []
        for key, count in self.nested.items():
            if count == self.rows or self._empty(key):
                del self.done[key]
                notes.append(f"Column {_shown(key)} left out: its cells are lists or records.")
            else:
                cells = "1 cell is a list or a record and counts"
                many = f"{count} cells are lists or records and count"
                notes.append(f"Column {_shown(key)}: {cells if count == 1 else many} as missing.")
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
        notes += self._notes()
        stored = frozenset(place for place, key in enumerate(names) if key in self.numbers)
        header = tuple(replace_surrogates(key)[0] for key in names)
        layout = TableLayout(header, len(names), 0, None, (False,) * len(names))
        return TextTable(cells, layout, Dialect(NO_DELIMITER), notes, stored)

    def _strings(self, key: str, cells: list[str]) -> Any:
        try:
            return pa.array(cells, pa.string())
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON can write
            found = [replace_surrogates(cell) for cell in cells]
            self.halves[key] = self.halves.get(key, 0) + sum(count > 0 for _, count in found)
            return pa.array([cell for cell, _ in found], pa.string())

    def _notes(self) -> list[str]:
        """Notes on names that occur twice in a record, and on halves of surrogate pairs."""
        notes = []
        for key, (count, first) in self.repeated.items():
            more = "" if count == 1 else f", and so do {count - 1:,} further ones"
            notes.append(
                f"The name {_shown(key)} occurs more than once in the record at {first}{more}; the "
                "last value was read."
            )
        halves = {key: count for key, count in self.halves.items() if key in self.done}
        for key in self.done:
            if replace_surrogates(key)[1]:
                notes.append(
                    f"The name {_shown(key)} has half of a surrogate pair, which is no character; "
                    "'\ufffd' stands there instead."
                )
        for key, count in halves.items():
            cells = "1 cell has" if count == 1 else f"{count:,} cells have"
            notes.append(
                f"Column {_shown(key)}: {cells} half of a surrogate pair, which is no character; "
                "'\ufffd' stands there instead."
            )
        return notes

    def _empty(self, key: str) -> bool:
        return all(set(part.unique().to_pylist()) <= {""} for part in self.done[key])


def _shown(key: str) -> str:
    return repr(replace_surrogates(key)[0])
