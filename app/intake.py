"""How a table comes in: uploads and samples, what was detected, reading it in another way."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from html import escape
from typing import TypeVar

import streamlit as st

from app import matrices, services, state, working
from app.state import Failed, Reading, Upload
from app.words import shortened
from lvmcore.data import Table
from lvmcore.errors import LatentboardError

__all__ = [
    "DELIMITERS",
    "FORMATS",
    "HEADERS",
    "TYPES",
    "form",
    "found",
    "has_choices",
    "read",
    "reading_of",
    "uploaded",
]

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "spaces"}
#: What can be uploaded, in words and by the endings of files.
FORMATS = "Table: CSV, TSV, JSON lines (gzipped or not), XLSX, NPZ, Parquet or H5AD"
DECIMALS = {".": "point", ",": "comma"}
_DETECTED = "detected"
THOUSANDS = {"": "none", ",": "comma", ".": "point", " ": "space", "'": "apostrophe"}
TYPES = [
    *("csv", "tsv", "txt", "gz", "xlsx", "xlsm"),
    *("jsonl", "ndjson", "json", "npz", "parquet", "h5ad"),
]
_UPLOAD = state.widget("data", "upload")
_SAMPLE = state.widget("data", "sample")
_WIDTH = 128
T = TypeVar("T")
ENCODINGS = ("utf-8", "latin-1", "cp1252", "utf-16", "mac_roman", "shift_jis", "gb18030")
_LAST_HEADER = 10
#: What the form offers for the header, and what each stands for.
HEADERS: dict[str, int | bool] = {
    "there is one": True,
    "there is none": False,
    **{f"row {number}": number - 1 for number in range(1, _LAST_HEADER + 1)},
}
_WORKBOOKS = (".xlsx", ".xlsm")
_FIXED = (".parquet", ".pq", ".npz", ".h5ad", ".h5ad.gz")
#: Formats whose cells are all there is to choose: they hold no header and no delimiters.
_RECORDS = ("jsonl", "json")


def choose() -> None:
    """Upload a file, or pick a sample."""
    file, sample = st.columns([2, 1], gap="medium")
    with file:
        st.file_uploader(
            FORMATS,
            type=TYPES,
            key=_UPLOAD,
            on_change=_uploaded,
            help="A table in any of these formats; how it is read is shown and can be changed.",
        )
    with sample:
        titles = services.sample_titles()
        current = state.source()
        keys = list(titles)
        if current is None and not working.following():
            current = state.Sample(state.DEFAULT_SAMPLE)
        index = keys.index(current.key) if isinstance(current, state.Sample) else None
        st.selectbox(
            "Or a sample",
            keys,
            index=index,
            format_func=lambda key: titles[key],
            placeholder="Pick a sample",
            key=f"{_SAMPLE}:{index}",
            on_change=_picked,
            args=(f"{_SAMPLE}:{index}",),
            help="Small tables that come with the dashboard.",
        )


def _uploaded() -> None:
    upload = uploaded(_UPLOAD)
    if upload is None:
        state.set_failed(None)
    else:
        read(upload, Reading())


def uploaded(key: str) -> Upload | None:
    """The file that an uploader holds; None where it holds none."""
    file = state.value(key)
    if file is None:
        return None
    content = file.getvalue()
    return Upload(file.name, hashlib.sha256(content).hexdigest(), content)


def _picked(key: str) -> None:
    chosen = state.value(key)
    if chosen is not None:
        state.choose(state.Sample(chosen))


def read(upload: Upload, reading: Reading) -> None:
    """Work on an upload from now on, or remember why it cannot be read."""
    try:
        services.table(upload, reading)
    except LatentboardError as error:
        state.set_failed(Failed(upload, str(error)))
    else:
        state.choose(upload, reading)


def found(table: Table) -> None:
    """What was detected about a table's file."""
    detected = table.detected
    rows: dict[str, str | None] = {
        "Format": detected.format,
        "Matrix" if matrices.holds_matrices(table) else "Sheet": _sheet(table),
        "Delimiter": _named(detected.delimiter, DELIMITERS),
        "Encoding": detected.encoding,
        "Decimal mark": _named(detected.decimal, DECIMALS),
        "Thousands mark": detected.thousands,
        "Header": _header(table) if _has_header(detected.format) else None,
        "Missing": ", ".join(marker or "empty cell" for marker in detected.missing) or None,
    }
    facts = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(shortened(value, 60))}</dd>"
        for name, value in rows.items()
        if value is not None
    )
    st.html(f'<dl class="facts">{facts}</dl>')


def _named(mark: str | None, names: dict[str, str]) -> str | None:
    return None if mark is None else names.get(mark, mark)


def _header(table: Table) -> str:
    row = table.detected.header_row
    return "none" if row is None else f"row {row + 1}"


def _sheet(table: Table) -> str | None:
    sheet, sheets = table.detected.sheet, table.detected.sheets
    return sheet if len(sheets) < 2 else f"{sheet} (one of {len(sheets)})"


def _has_header(kind: str) -> bool:
    return kind.startswith(("csv", "tsv", "text", "xlsx"))


def has_choices(upload: Upload, table: Table | None) -> bool:
    """Whether a file can be read in more than one way.

    Args:
        upload: the file.
        table: as it is read now; None where it could not be.
    """
    if table is None:
        return not upload.name.lower().endswith(_FIXED)
    if matrices.holds_matrices(table):
        return len(table.detected.sheets) > 1
    return _has_header(table.detected.format) or table.detected.format.startswith(_RECORDS)


def form(
    upload: Upload,
    table: Table | None,
    *,
    current: Reading | None = None,
    take: Callable[[Upload, Reading], None] = read,
) -> None:
    """Ask how to read an upload; what is left open is detected.

    Args:
        upload: the file.
        table: as it is read now; None where it could not be.
        current: how it is read now; None takes the session's way.
        take: told of the way that was chosen.
    """
    current = (current or state.reading()) if table is not None else Reading()
    if table is not None and matrices.holds_matrices(table):
        matrices.form(upload, table, current, take)
        return
    ending = upload.name.lower()
    kind = table.detected.format if table is not None else ""
    workbook = kind == "xlsx" if kind else ending.endswith(_WORKBOOKS)
    with (
        st.form(state.widget("data", "reading", upload.digest), border=False),
        st.container(horizontal=True, vertical_alignment="bottom"),
    ):
        sheet = delimiter = encoding = header = None
        if workbook:
            sheet = _ask_sheet(table, current.sheet)
        elif not kind.startswith(_RECORDS):
            delimiter = _choice(
                "Delimiter",
                DELIMITERS,
                current.delimiter,
                "What stands between the cells of a row.",
            )
        if not workbook:
            encoding = _choice(
                "Encoding",
                {name: name for name in ENCODINGS},
                current.encoding,
                "How the text is stored; try another one where letters look wrong.",
            )
        decimal = _choice(
            "Decimal mark",
            DECIMALS,
            current.decimal,
            "What stands before the decimals of a number.",
        )
        thousands = _choice(
            "Thousands mark",
            THOUSANDS,
            current.thousands,
            "What groups the digits of a large number, if anything does.",
        )
        if not kind.startswith(_RECORDS):
            header = _choice(
                "Header",
                {name: name for name in HEADERS},
                _header_name(current),
                "The row that names the columns.",
            )
        missing = st.text_input(
            "Also missing",
            value=", ".join(current.missing or ()),
            placeholder="-999, n/d",
            help="Separated by commas. Empty cells and the usual ones (NA, NaN) count anyway.",
            width=_WIDTH,
        )
        if st.form_submit_button(
            "Read again", help="Reads the same file in the way that is chosen here."
        ):
            chosen = reading_of(delimiter, encoding, decimal, header, missing, thousands, sheet)
            take(upload, chosen)
            st.rerun()


def _ask_sheet(table: Table | None, current: str | None) -> str | None:
    """Which sheet of a workbook; its name where the sheets are not known."""
    if table is not None:
        return _choice(
            "Sheet",
            {name: name for name in table.detected.sheets},
            current,
            "The sheet of the workbook that holds the table.",
        )
    help_text = "The name on its tab. Left empty: the first sheet that holds something."
    return st.text_input("Sheet", value=current or "", help=help_text, width=_WIDTH) or None


def _choice(title: str, names: dict[T, str], current: T | None, about: str) -> T | None:
    options: list[T | None] = [None, *names]
    return st.selectbox(
        title,
        options,
        index=options.index(current) if current in options else 0,
        format_func=lambda option: _DETECTED if option is None else names[option],
        help=about,
        width=_WIDTH,
    )


def _header_name(reading: Reading) -> str | None:
    """What the form calls the header of a reading: 0 is a row's number, False is none at all."""
    chosen = reading.header
    same = (name for name, header in HEADERS.items() if header == chosen)
    return next(
        (name for name in same if isinstance(HEADERS[name], bool) == isinstance(chosen, bool)), None
    )


def reading_of(
    delimiter: str | None,
    encoding: str | None,
    decimal: str | None,
    header: str | None,
    missing: str,
    thousands: str | None = None,
    sheet: str | None = None,
) -> Reading:
    """The way of reading that the form's fields stand for."""
    markers = tuple(marker.strip() for marker in missing.split(",") if marker.strip())
    return Reading(
        delimiter=delimiter,
        encoding=encoding,
        decimal=decimal,
        header=None if header is None else HEADERS[header],
        missing=markers or None,
        thousands=thousands,
        sheet=sheet,
    )
