"""Tables as spreadsheets of several locales write them, each with its true cells.

The writer shares no code with the reader: it puts digits, marks, quotation marks and header rows
together from the true values.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product

__all__ = ["AMBIGUOUS", "LOCALES", "TABLES", "Column", "Locale", "LocaleTable"]

Value = float | int | str | dt.date | None


@dataclass(frozen=True)
class Locale:
    """Marks of a locale: the decimal mark, the mark between groups, the form of a date."""

    name: str
    decimal: str
    group: str
    date: str


LOCALES = {
    locale.name: locale
    for locale in (
        Locale("German", ",", ".", "%d.%m.%Y"),
        Locale("French", ",", "\u202f", "%d/%m/%Y"),
        Locale("French, no-break spaces", ",", "\u00a0", "%d/%m/%Y"),
        Locale("French, plain spaces", ",", " ", "%d/%m/%Y"),
        Locale("Swiss", ".", "'", "%d.%m.%Y"),
        Locale("Swiss, typographic", ".", "\u2019", "%d.%m.%Y"),
        Locale("English", ".", ",", "%m/%d/%Y"),
    )
}


def _number(value: Value, locale: Locale, digits: int | None, group: bool) -> str:
    """A number in the marks of a locale; ``digits`` fixed decimals, None for as many as it has."""
    if value is None:
        return ""
    assert isinstance(value, (int, float))
    text = f"{abs(value):.{digits}f}" if digits is not None else repr(abs(value))
    whole, _, rest = text.partition(".")
    if group:
        parts = []
        while len(whole) > 3:
            parts.insert(0, whole[-3:])
            whole = whole[:-3]
        whole = locale.group.join([whole, *parts])
    return "-" * (value < 0) + whole + (locale.decimal + rest if rest else "")


@dataclass(frozen=True)
class Column:
    """A column: its name (and those of the groups above it), its values, and how it is written."""

    name: str
    values: tuple[Value, ...]
    write: Callable[[Value, Locale], str] = field(repr=False)
    groups: tuple[str, ...] = ()


def _numbers(
    name: str,
    values: Sequence[Value],
    digits: int | None = None,
    group: bool = False,
    tail: str = "",
) -> Column:
    def write(value: Value, locale: Locale) -> str:
        return _number(value, locale, digits, group) + (tail if value is not None else "")

    return Column(name, tuple(values), write)


def _texts(name: str, values: Sequence[str]) -> Column:
    return Column(name, tuple(values), lambda value, _: str(value))


def _dates(name: str, values: Sequence[dt.date]) -> Column:
    def write(value: Value, locale: Locale) -> str:
        assert isinstance(value, dt.date)
        return value.strftime(locale.date)

    return Column(name, tuple(values), write)


DECIMALS = _numbers("weight", (0.5, 12.25, 3.75, 101.5, 7.125, 66.0, 0.25, 9.5))
SIGNED = _numbers("change", (-0.5, 1.25, None, -3.75, 2.5, -10.125, 0.0, 4.5))
AMOUNTS = _numbers(
    "amount", (1234.5, 999.25, 12345.75, 1234567.5, 8.25, 450.0, 1000.5, 77.75), 2, True
)
LARGE = _numbers("people", (1234, 12345, 999, 1234567, 56, 10500, 2000, 310), None, True)
GROUPS = _numbers("visits", (1234, 2345, 15678, 3456, 120345, 7890, 1111, 2222), None, True)
THREE = _numbers("density", (1.234, 2.345, 15.678, 3.456, 120.345, 7.891, 1.111, 2.222), 3)
SHORT = _numbers("ratio", (1.5, 2.5, 3.5, 1.5, 4.5, 2.0, 6.5, 3.5), 1)
WHOLE = _numbers("count", (3, 14, 15, 92, 65, 35, 89, 79))
PERCENT = _numbers("share", (12.5, 0.25, 33.75, 100.0, 5.5, 6.25, 7.75, 8.5), 2, tail=" %")
RANGES = _texts("age", ("0-4", "5-9", "10-14", "15-19", "5-9", "10-14", "0-4", "1-2"))
DASHES = _texts("band", ("0–4", "5–9", "10–14", "15–19", "20–24", "25–29", "30–34", "35–39"))
WORDS = _texts(
    "remark", ("z. B. rot", "approx. 3.", "S. aureus", "n. s.", "e.g. 1.5", "...a", "M.", "St. 2")
)
VERSIONS = _texts("version", ("1.2", "1.10", "2.0", "1.11", "3.1", "2.10", "1.1", "4.0"))
RELEASES = _texts(
    "release", ("1.2.0", "1.10.1", "2.0.0", "1.11.3", "3.1.4", "2.10.1", "1.1.0", "4.0.2")
)
HOSTS = _texts(
    "host",
    (
        *("192.168.100.200", "10.0.0.1", "172.160.120.101", "192.168.1.1"),
        *("100.200.101.102", "8.8.8.8", "9.9.9.9", "127.0.0.1"),
    ),
)
DAYS = _dates("day", tuple(dt.date(2024, 1 + i, 3 + 4 * i) for i in range(8)))
EARLY = _dates("visit", tuple(dt.date(2024, 1 + i, 12 - i) for i in range(8)))

#: Columns of which nothing in the file tells groups from decimals.
AMBIGUOUS = {"visits", "density"}

COLUMNS: dict[str, tuple[Column, ...]] = {
    "decimals and remarks": (WORDS, DECIMALS, SIGNED),
    "decimals, dates": (EARLY, DECIMALS, WHOLE),
    "one decimal beside versions": (VERSIONS, SHORT, RANGES),
    "decimals, releases and hosts": (HOSTS, RELEASES, DECIMALS),
    "amounts and ranges": (RANGES, AMOUNTS, LARGE),
    "large numbers only": (DASHES, LARGE, WHOLE),
    "groups only": (WORDS, GROUPS, WHOLE),
    "three decimals only": (RANGES, THREE),
    "groups and three decimals": (GROUPS, THREE, DAYS),
    "groups beside decimals": (GROUPS, DECIMALS, VERSIONS),
    "everything": (WORDS, DAYS, AMOUNTS, LARGE, GROUPS, THREE, SIGNED, PERCENT, RANGES, HOSTS),
}


@dataclass(frozen=True)
class LocaleTable:
    """A table: its columns, its locale, the delimiter, quoting, and the number of header rows."""

    title: str
    columns: tuple[Column, ...]
    locale: Locale
    delimiter: str
    quoted: bool
    header_rows: int = 1

    @property
    def names(self) -> list[str]:
        """The true names of the columns."""
        return [" / ".join((*column.groups, column.name)) for column in self.columns]

    def content(self) -> bytes:
        """The bytes of the file."""
        lines = [self._line(row) for row in (*self._header(), *self._rows())]
        return ("\r\n".join(lines) + "\r\n").encode("utf-8-sig" if self.quoted else "utf-8")

    def _rows(self) -> list[list[str]]:
        rows = range(len(self.columns[0].values))
        return [
            [column.write(column.values[row], self.locale) for column in self.columns]
            for row in rows
        ]

    def _header(self) -> list[list[str]]:
        """The header rows; a merged cell is blank but for its first column."""
        rows = []
        for level in range(self.header_rows):
            before: tuple[str, ...] | None = None
            row = []
            for column in self.columns:
                path = (*column.groups, column.name)
                above = path[: level + 1]
                shown = path[level] if level < len(path) and above != before else ""
                row.append(shown)
                before = above
            rows.append(row)
        return rows

    def _line(self, cells: Sequence[str]) -> str:
        return self.delimiter.join(map(self._cell, cells))

    def _cell(self, text: str) -> str:
        if self.quoted or self.delimiter in text or '"' in text:
            return '"' + text.replace('"', '""') + '"'
        return text


def _grouped(column: Column, *groups: str) -> Column:
    return Column(column.name, column.values, column.write, groups)


NESTED: dict[str, tuple[int, tuple[Column, ...]]] = {
    "two header rows": (
        2,
        (
            WORDS,
            _grouped(DECIMALS, "Blood"),
            _grouped(SIGNED, "Blood"),
            _grouped(AMOUNTS, "Urine"),
            _grouped(WHOLE, "Urine"),
        ),
    ),
    "two header rows, groups first": (
        2,
        (
            _grouped(DECIMALS, "Left"),
            _grouped(SIGNED, "Left"),
            _grouped(DECIMALS, "Right"),
            _grouped(SIGNED, "Right"),
        ),
    ),
    "three header rows": (
        3,
        (
            RANGES,
            _grouped(DECIMALS, "Blood", "fasting"),
            _grouped(SIGNED, "Blood", "fasting"),
            _grouped(DECIMALS, "Blood", "fed"),
            _grouped(SIGNED, "Blood", "fed"),
            _grouped(AMOUNTS, "Urine", "fed"),
            _grouped(WHOLE, "Urine", "fed"),
        ),
    ),
}


def _tables() -> list[LocaleTable]:
    found = []
    for number, (locale, (title, columns)) in enumerate(product(LOCALES.values(), COLUMNS.items())):
        delimiters = (";", "\t") if locale.decimal == "," else (",", ";", "\t")
        for turn, delimiter in enumerate(delimiters):
            quoted = (number + turn) % 2 == 1
            found.append(LocaleTable(title, columns, locale, delimiter, quoted))
    quoted_commas = (LOCALES["German"], LOCALES["French"])
    for locale, (title, columns) in product(quoted_commas, COLUMNS.items()):
        found.append(LocaleTable(title, columns, locale, ",", quoted=True))
    for locale, (title, (rows, columns)) in product(LOCALES.values(), NESTED.items()):
        delimiter = ";" if locale.decimal == "," else ","
        found.append(LocaleTable(title, columns, locale, delimiter, False, rows))
    return found


def _key(table: LocaleTable) -> str:
    quoted = "quoted" if table.quoted else "bare"
    return f"{table.locale.name}, {table.title}, {table.delimiter!r}, {quoted}"


TABLES = {_key(table): table for table in _tables()}
