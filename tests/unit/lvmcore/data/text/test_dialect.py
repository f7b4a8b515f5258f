"""Random tables, written in random dialects, are read back exactly."""

import csv
import gzip
import io
from dataclasses import dataclass, field

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lvmcore.data import read_table

Cells = list[float | int | str | None]

_ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252")
#: Missing cells as they are written in columns of numbers; in text only the first two mean that.
_MARKERS = ("", "NA", "NaN", "n/a", "?", "-", "#N/A")
_REAL_WORDS = ("Müller", "Straße", "déjà vu", "señor", "plain", "two words", "Ångström", "où")
_TITLES = ("Measured in May", "# instrument 7, by hand", "Report of the year 2020; a draft")

any_word = st.text(alphabet="abcxyz ,;|'\"\t-0", min_size=1, max_size=9).map(
    lambda text: f"w{text}".strip()
)
# Numbers that are whole, the lowest of their column and repeated would be taken for a marker.
reals = st.floats(min_value=-1e9, max_value=1e9).map(lambda x: x if x != round(x) else x + 0.5)
wholes = st.integers(min_value=0, max_value=2**53)


@dataclass
class Written:
    """A table, and how it is written.

    Attributes:
        columns: Cells by name; None is missing.
        delimiter: Between cells.
        decimal: The decimal mark.
        quoting: Of the csv module.
        encoding: Of the text.
        line_end: Between rows.
        header: Whether the names are written.
        titles: Lines above the header.
        marker: A missing cell.
        packed: Whether the file is a gzip.
    """

    columns: dict[str, Cells] = field(repr=True)
    delimiter: str
    decimal: str
    quoting: int
    encoding: str
    line_end: str
    header: bool
    titles: tuple[str, ...]
    marker: str
    packed: bool

    def content(self) -> bytes:
        """The bytes of the file."""
        sink = io.StringIO(newline="")
        sink.writelines(title + self.line_end for title in self.titles)
        writer = csv.writer(
            sink, delimiter=self.delimiter, quoting=self.quoting, lineterminator=self.line_end
        )
        if self.header:
            writer.writerow(self.columns)
        for row in zip(*self.columns.values(), strict=True):
            writer.writerow([self._cell(cell) for cell in row])
        data = sink.getvalue().encode(self.encoding)
        return gzip.compress(data, mtime=0) if self.packed else data

    def _cell(self, cell: float | int | str | None) -> str:
        if cell is None:
            return self.marker
        return repr(cell).replace(".", self.decimal) if isinstance(cell, float) else str(cell)


@st.composite
def tables(draw: st.DrawFn) -> Written:
    """Two to six columns, the first of decimals; missing cells anywhere but in it and in row 1."""
    delimiter = draw(st.sampled_from([",", ";", "\t", "|", " "]))
    decimal = draw(st.sampled_from([".", ","] if delimiter != "," else ["."]))
    encoding = draw(st.sampled_from(_ENCODINGS))
    header = draw(st.booleans())
    spaced = delimiter == " "
    marker = draw(st.sampled_from(_MARKERS[1:2] if spaced else _MARKERS))
    rows = draw(st.integers(min_value=5, max_value=30))
    kinds = ["real", *draw(st.lists(st.sampled_from(["real", "whole", "word"]), min_size=1))][:6]
    if spaced:
        kinds = [kind.replace("word", "whole") for kind in kinds]
    # One byte a character says little: only real words tell which encoding that is.
    words = st.sampled_from(_REAL_WORDS) if encoding == "cp1252" else any_word
    columns: dict[str, Cells] = {}
    for place, kind in enumerate(kinds):
        of_kind = {"real": reals, "whole": wholes, "word": words}[kind]
        may_miss = place > 0 and (kind != "word" or marker in _MARKERS[:2])
        some = st.one_of(st.none(), of_kind) if may_miss else of_kind
        cells: Cells = [draw(of_kind), *draw(st.lists(some, min_size=rows - 1, max_size=rows - 1))]
        if kind == "real":
            cells[0] = place + 0.5
        columns[f"{kind}_{place}"] = cells
    # A title with the delimiter in it looks like the header of a table of two or three columns.
    clear = tuple(title for title in _TITLES if delimiter not in title or len(columns) > 3)
    return Written(
        columns=columns,
        delimiter=delimiter,
        decimal=decimal,
        quoting=draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
        encoding=encoding,
        line_end=draw(st.sampled_from(["\n", "\r\n", "\r"])),
        header=header,
        titles=draw(st.sampled_from([(), clear[:1], clear])) if header and not spaced else (),
        marker=marker,
        packed=draw(st.booleans()),
    )


@pytest.mark.slow
@settings(max_examples=300)
@given(written=tables())
def test_any_table_in_any_dialect_is_read_back(written: Written) -> None:
    table = read_table(written.content())
    names = list(written.columns)
    expected = names if written.header else [f"column {i + 1}" for i in range(len(names))]
    assert list(table.frame.columns) == expected
    assert table.detected.decimal == written.decimal
    for found, name in zip(table.frame.columns, names, strict=True):
        cells = [None if pd.isna(cell) else cell for cell in table.frame[found].tolist()]
        assert cells == written.columns[name]


def test_a_marker_beside_a_decimal_comma_is_a_cell_of_its_own() -> None:
    table = read_table(b"0,5 0\n" + 4 * b"0,5 NA\n")
    assert table.detected.decimal == ","
    assert table.frame.shape == (5, 2)
    assert table.frame.iloc[:, 0].tolist() == [0.5] * 5
