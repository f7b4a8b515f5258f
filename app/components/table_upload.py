"""Upload of a table, choice of a sample, detected format, and reading options."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import streamlit as st

from app.components import current_dataset
from app.components.anndata_upload import holds_matrices, matrix_form
from app.components.paper_data import choose_paper_data
from app.formatting import markdown, shortened
from app.services import tables
from app.state import choices
from app.state.choices import FailedSource, FileSource, ReadingChoices, Upload
from app.state.session import session
from app.state.widgets import widget_key, widget_value
from app.templates import render
from lvmcore.data import Table
from lvmcore.errors import LatentboardError

__all__ = [
    "DELIMITERS",
    "FORMATS",
    "HEADERS",
    "TYPES",
    "choose_files",
    "current_upload",
    "detected_format",
    "has_reading_choices",
    "read_source",
    "reading_choices",
    "reading_form",
]

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "spaces"}
#: Label of the uploader; the extensions are in TYPES.
FORMATS = "Table: CSV, TSV, JSON lines (gzipped or not), XLSX, NPZ, Parquet or H5AD"
DECIMALS = {".": "point", ",": "comma"}
_DETECTED = "detected"
THOUSANDS = {"": "none", ",": "comma", ".": "point", " ": "space", "'": "apostrophe"}
TYPES = [
    *("csv", "tsv", "txt", "gz", "xlsx", "xlsm"),
    *("jsonl", "ndjson", "json", "npz", "parquet", "h5ad"),
]
_UPLOAD = widget_key("data", "upload")
_SAMPLE = widget_key("data", "sample")
_WIDTH = 128
T = TypeVar("T")
ENCODINGS = ("utf-8", "latin-1", "cp1252", "utf-16", "mac_roman", "shift_jis", "gb18030")
_LAST_HEADER = 10
#: Options of the header, with their values.
HEADERS: dict[str, int | bool | tuple[int, ...]] = {
    "there is one": True,
    "there is none": False,
    "rows 1 and 2": (0, 1),
    "rows 1 to 3": (0, 1, 2),
    "rows 2 and 3": (1, 2),
    "rows 2 to 4": (1, 2, 3),
    **{f"row {number}": number - 1 for number in range(1, _LAST_HEADER + 1)},
}
_WORKBOOKS = (".xlsx", ".xlsm")
_FIXED = (".parquet", ".pq", ".npz", ".h5ad", ".h5ad.gz")
#: The format of a table that was not read from one file.
_NO_FILE = "frame"
#: Formats without header and delimiters.
_RECORDS = ("jsonl", "json")


def choose_table() -> None:
    """Draw the uploader, and the choice of a sample or of a dataset of the papers."""
    file, sample = st.columns([3, 2], gap="medium")
    with file:
        st.file_uploader(
            FORMATS,
            type=TYPES,
            key=_UPLOAD,
            on_change=_handle_upload,
            help="A table in any of these formats; the detected format can be changed.",
        )
    with sample, st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        titles = tables.sample_titles()
        current = session.source
        keys = list(titles)
        if current is None and not current_dataset.uses_run_data():
            current = choices.SampleChoice(choices.DEFAULT_SAMPLE)
        index = (
            keys.index(current.key)
            if isinstance(current, choices.SampleChoice) and current.key in keys
            else None
        )
        st.selectbox(
            "Or a sample",
            keys,
            index=index,
            format_func=lambda key: titles[key],
            placeholder="Choose a sample",
            key=f"{_SAMPLE}:{index}",
            on_change=_handle_sample,
            args=(f"{_SAMPLE}:{index}",),
            help="Small tables of the dashboard.",
        )
        choose_paper_data()


def choose_files(page: str, on_choice: Callable[[FileSource, ReadingChoices], None]) -> None:
    """Draw the choice of files of the server's machine, which stay in place.

    Args:
        page: page of the widget keys.
        on_choice: called with the chosen files.
    """
    if not tables.offers_files():
        return
    with (
        st.expander("A table larger than memory: files on the machine of this server"),
        st.form(widget_key(page, "files"), border=False),
    ):
        text = st.text_area(
            "Paths of Parquet files, of a CSV file, or of a folder of either, one a line",
            key=widget_key(page, "paths"),
            height=110,
            placeholder="/data/measurements",
            help="The files stay where they are: a sample is read now, and all rows in a fit.",
        )
        if st.form_submit_button("Register", help="Reads a sample and proposes column types."):
            try:
                chosen = tables.files_choice(text)
            except LatentboardError as error:
                st.error(markdown(error))
                return
            on_choice(chosen, ReadingChoices())
            st.rerun()


def _handle_upload() -> None:
    upload = current_upload(_UPLOAD)
    if upload is None:
        session.failed_source = None
    else:
        read_source(upload, ReadingChoices())


def current_upload(key: str) -> Upload | None:
    """The file of an uploader; None without one."""
    file = widget_value(key)
    if file is None:
        return None
    content = file.getvalue()
    return Upload(file.name, hashlib.sha256(content).hexdigest(), content)


def _handle_sample(key: str) -> None:
    chosen = widget_value(key)
    if chosen is not None:
        session.choose_source(choices.SampleChoice(chosen))


def read_source(upload: FileSource, reading: ReadingChoices) -> None:
    """Make an upload the source of the session, or store why it cannot be read."""
    try:
        tables.table(upload, reading)
    except LatentboardError as error:
        session.failed_source = FailedSource(upload, str(error))
    else:
        session.choose_source(upload, reading)


def detected_format(table: Table) -> None:
    """Draw the detected format of a table."""
    detected = table.detected
    rows: dict[str, str | None] = {
        "Format": None if detected.format == _NO_FILE else detected.format,
        "Matrix" if holds_matrices(table) else "Sheet": _sheet_text(table),
        "Delimiter": _name(detected.delimiter, DELIMITERS),
        "Encoding": detected.encoding,
        "Decimal mark": _name(detected.decimal, DECIMALS),
        "Thousands mark": detected.thousands,
        "Header": _header_text(table) if _has_header(detected.format) else None,
        "Missing": ", ".join(marker or "empty cell" for marker in detected.missing) or None,
    }
    facts = [(name, shortened(value, 60)) for name, value in rows.items() if value is not None]
    if facts:
        st.html(render("facts.html", facts=facts))


def _name(mark: str | None, names: dict[str, str]) -> str | None:
    return None if mark is None else names.get(mark, mark)


def _header_text(table: Table) -> str:
    row, rows = table.detected.header_row, table.detected.header_rows
    if row is None:
        return "none"
    return f"row {row + 1}" if rows == 1 else f"rows {row + 1} to {row + rows}, joined"


def _sheet_text(table: Table) -> str | None:
    sheet, sheets = table.detected.sheet, table.detected.sheets
    return sheet if len(sheets) < 2 else f"{sheet} (one of {len(sheets)})"


def _has_header(kind: str) -> bool:
    return kind.startswith(("csv", "tsv", "text", "xlsx"))


def has_reading_choices(upload: FileSource, table: Table | None) -> bool:
    """Whether a file has reading options.

    Args:
        upload: the file.
        table: the table as it is read now; None if it cannot be read.
    """
    if table is None:
        return not upload.name.lower().endswith(_FIXED)
    if holds_matrices(table):
        return len(table.detected.sheets) > 1
    return _has_header(table.detected.format) or table.detected.format.startswith(_RECORDS)


def reading_form(
    upload: FileSource,
    table: Table | None,
    *,
    current: ReadingChoices | None = None,
    on_submit: Callable[[FileSource, ReadingChoices], None] = read_source,
) -> None:
    """Draw the form of the reading options; options that are not set are detected.

    Args:
        upload: the file.
        table: the table as it is read now; None if it cannot be read.
        current: the current reading choices; None for those of the session.
        on_submit: called with the chosen options.
    """
    current = (current or session.reading) if table is not None else ReadingChoices()
    if table is not None and holds_matrices(table):
        matrix_form(upload, table, current, on_submit)
        return
    ending = upload.name.lower()
    kind = table.detected.format if table is not None else ""
    workbook = kind == "xlsx" if kind else ending.endswith(_WORKBOOKS)
    with (
        st.form(widget_key("data", "reading", upload.digest), border=False),
        st.container(horizontal=True, vertical_alignment="bottom"),
    ):
        sheet = delimiter = encoding = header = None
        if workbook:
            sheet = _choose_sheet(table, current.sheet)
        elif not kind.startswith(_RECORDS):
            delimiter = _choice(
                "Delimiter",
                DELIMITERS,
                current.delimiter,
                "The separator of the cells of a row.",
            )
        if not workbook:
            encoding = _choice(
                "Encoding",
                {name: name for name in ENCODINGS},
                current.encoding,
                "The encoding of the text; try another one if letters are wrong.",
            )
        decimal = _choice(
            "Decimal mark",
            DECIMALS,
            current.decimal,
            "The decimal mark of numbers.",
        )
        thousands = _choice(
            "Thousands mark",
            THOUSANDS,
            current.thousands,
            "The mark that groups the digits of large numbers, if any.",
        )
        if not kind.startswith(_RECORDS):
            header = _choice(
                "Header",
                {name: name for name in HEADERS},
                _header_name(current),
                "The row that names the columns, or the rows: their cells are joined to one name.",
            )
        missing = st.text_input(
            "Also missing",
            value=", ".join(current.missing or ()),
            placeholder="-999, n/d",
            help="Markers of missing cells, separated by commas, beside empty cells, NA and NaN.",
            width=_WIDTH,
        )
        if st.form_submit_button("Read again", help="Reads the same file with these options."):
            chosen = reading_choices(
                delimiter, encoding, decimal, header, missing, thousands, sheet
            )
            on_submit(upload, _with_same_columns(chosen, current))
            st.rerun()


def _with_same_columns(chosen: ReadingChoices, before: ReadingChoices) -> ReadingChoices:
    """The choices, with the decimal marks of columns where the columns stay the same."""
    layout = (chosen.sheet, chosen.delimiter, chosen.header)
    same = layout == (before.sheet, before.delimiter, before.header)
    return replace(chosen, column_decimals=before.column_decimals) if same else chosen


def _choose_sheet(table: Table | None, current: str | None) -> str | None:
    """Choice of the sheet of a workbook, or its name if the sheets are not known."""
    if table is not None:
        return _choice(
            "Sheet",
            {name: name for name in table.detected.sheets},
            current,
            "The sheet of the table.",
        )
    help_text = "The name of the sheet. Empty: the first sheet with cells."
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


def _header_name(reading: ReadingChoices) -> str | None:
    """Option of the header of a reading: 0 is a row number, False is no header."""
    chosen = reading.header
    same = (name for name, header in HEADERS.items() if header == chosen)
    return next(
        (name for name in same if isinstance(HEADERS[name], bool) == isinstance(chosen, bool)), None
    )


def reading_choices(
    delimiter: str | None,
    encoding: str | None,
    decimal: str | None,
    header: str | None,
    missing: str,
    thousands: str | None = None,
    sheet: str | None = None,
) -> ReadingChoices:
    """The reading choices of the fields of the form."""
    markers = tuple(marker.strip() for marker in missing.split(",") if marker.strip())
    return ReadingChoices(
        delimiter=delimiter,
        encoding=encoding,
        decimal=decimal,
        header=None if header is None else HEADERS[header],
        missing=markers or None,
        thousands=thousands,
        sheet=sheet,
    )
