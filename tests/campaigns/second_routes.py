"""A second route from a file to its cells, and what differs from the table that was read.

The cells of a second reader (pandas, pyarrow, NumPy, h5py) are compared with the table one by one.
A difference is a fault unless a note of the table says why: a row that was left out, a cell that
counts as missing, a number that was rounded.
"""

import gzip
import io
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from lvmcore.data import Table
from lvmcore.data.text.missing_markers import NUMBER_MARKERS, TEXT_MARKERS

__all__ = ["SecondReaderError", "differences"]

_MOST = 3


class SecondReaderError(Exception):
    """The second reader does not read the file."""


def differences(content: bytes, table: Table) -> list[str]:
    """The first differences between a table and its file by the second route.

    Args:
        content: The file.
        table: The table that was read from it.

    Raises:
        SecondReaderError: The second reader does not read the file.
    """
    if content.startswith(b"\x1f\x8b"):
        content = gzip.decompress(content)
    kind = table.detected.format.removesuffix(" (gzip)")
    route = _ROUTES[kind]
    try:
        found = route(content, table)
    except SecondReaderError:
        raise
    except Exception as error:
        raise SecondReaderError(f"{type(error).__name__}: {error}") from error
    if isinstance(found, pd.DataFrame):
        return _typed_differences(found, table)
    return _text_differences(found, table)


# ---- formats with typed cells ------------------------------------------------------------------


def _parquet(content: bytes, _: Table) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = pq.read_table(pa.BufferReader(content))
    columns = {
        place: _arrow_cells(column)
        for place, column in enumerate(found.columns)
        if _is_plain(column.type)
    }
    return pd.DataFrame(columns, dtype=object)


def _is_plain(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    return not (pa.types.is_nested(kind) or "binary" in str(kind))


def _arrow_cells(column: Any) -> list[Any]:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return list(pd.to_datetime(column.cast(pa.timestamp("us")).to_pandas()))
    if pa.types.is_duration(column.type):
        return column.cast(pa.int64()).to_pylist()
    if pa.types.is_time(column.type):
        return column.cast(pa.string()).to_pylist()
    return column.to_pylist()


def _npz(content: bytes, _: Table) -> pd.DataFrame:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        parts = []
        if "row_ids" in arrays.files:
            parts.append(pd.DataFrame(arrays["row_ids"].ravel()))
        parts.append(pd.DataFrame(arrays["X"]))
        parts += [pd.DataFrame(arrays[key].ravel()) for key in ("y", "labels") if key in arrays]
    frame = pd.concat([part.astype(object) for part in parts], axis="columns")
    return frame.map(
        lambda cell: cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell
    )


def _h5ad(content: bytes, table: Table) -> pd.DataFrame:
    import h5py
    from scipy import sparse

    title = table.detected.sheet or "X"
    with h5py.File(io.BytesIO(content), "r") as file:
        path = title.removesuffix(", highly variable")
        element = file[path]
        if isinstance(element, h5py.Group):
            parts = [element[part][:] for part in ("data", "indices", "indptr")]
            form = element.attrs.get("encoding-type", element.attrs.get("h5sparse_format"))
            kind = sparse.csc_array if str(form).startswith("csc") else sparse.csr_array
            shape = element.attrs.get("shape", element.attrs.get("h5sparse_shape"))
            matrix = kind(tuple(parts), shape=tuple(shape)).toarray()
        else:
            matrix = element[:]
        if path != title:
            names = file["raw/var" if path == "raw/X" else "var"]
            matrix = matrix[:, names["highly_variable"][:].astype(bool)]
        obs = file["obs"]
        ids = obs[obs.attrs.get("_index", "_index")].asstr(errors="replace")[:]
    return pd.concat([pd.DataFrame(ids), pd.DataFrame(matrix)], axis="columns").astype(object)


def _json(content: bytes, table: Table) -> pd.DataFrame:
    text = content.decode(table.detected.encoding or "utf-8")
    lines = table.detected.format.startswith("jsonl")
    frame = pd.read_json(
        io.StringIO(text),
        lines=lines,
        orient="records",
        dtype=False,
        convert_axes=False,
        precise_float=True,
    ).astype(object)
    nested = frame.map(lambda cell: isinstance(cell, (list, dict)))
    kept = ~(nested | frame.map(_is_missing)).all(axis=0) | ~nested.any(axis=0)
    return frame.mask(nested, None).loc[:, kept]


def _typed_differences(found: pd.DataFrame, table: Table) -> list[str]:
    columns = found.shape[1]
    if table.detected.format.startswith("h5ad"):
        frame = table.frame.iloc[:, :columns]
    else:
        frame = table.frame
    told = _told(table)
    if frame.shape[1] != columns and not told["columns"]:
        return [f"{frame.shape[1]} columns, and {columns} by the second route"]
    if len(frame) != len(found):
        return [] if told["rows"] else [f"{len(frame)} rows, and {len(found)} by the second route"]
    if frame.shape[1] != columns:
        return []
    faults = []
    for place in range(columns):
        name = str(frame.columns[place])
        pairs = zip(frame.iloc[:, place].tolist(), found.iloc[:, place].tolist(), strict=True)
        for row, (ours, theirs) in enumerate(pairs):
            if not _same_typed(ours, theirs, table) and not _is_told(name, ours, table):
                faults.append(f"row {row + 1} of {name!r}: {ours!r}, and {theirs!r}")
                break
    return faults[:_MOST]


def _same_typed(ours: Any, theirs: Any, table: Table) -> bool:
    if _is_missing(ours):
        return _is_missing(theirs) or str(theirs).strip() in _markers(table)
    if _is_missing(theirs):
        return False
    if isinstance(theirs, (bool, np.bool_)):
        return str(ours).lower() == str(theirs).lower()
    if isinstance(ours, (pd.Timestamp, np.datetime64)):
        if isinstance(theirs, str):
            return _same_date(pd.Timestamp(ours), theirs)
        return pd.Timestamp(ours) == pd.Timestamp(theirs)
    if isinstance(ours, str):
        return _same_text(ours, str(theirs), table)
    return _same_number(ours, str(theirs), table.detected.thousands, table.detected.decimal)


# ---- formats of text ---------------------------------------------------------------------------


def _csv(content: bytes, table: Table) -> list[list[str]]:
    text = content.decode(table.detected.encoding or "utf-8").removeprefix("\ufeff")
    mark = table.detected.delimiter
    quotes = '"' if '"' in text else "'"
    if mark is None:
        return [[line] for line in text.splitlines()]
    width = max((line.count(mark) + 1 for line in text.splitlines()), default=1)
    if mark == " ":
        return [line.split() for line in text.splitlines()]
    frame = pd.read_csv(
        io.StringIO(text, newline=""),
        sep=mark,
        header=None,
        names=list(range(width)),
        index_col=False,
        dtype=str,
        keep_default_na=False,
        na_filter=False,
        quotechar=quotes,
        skip_blank_lines=False,
        engine="c",
    )
    return [[str(cell) for cell in row] for row in frame.fillna("").to_numpy().tolist()]


def _xlsx(content: bytes, table: Table) -> list[list[str]]:
    frame = pd.read_excel(
        io.BytesIO(content),
        sheet_name=table.detected.sheet,
        header=None,
        dtype=object,
        keep_default_na=False,
        na_filter=False,
        engine="calamine",
    )
    return [[_excel_text(cell) for cell in row] for row in frame.to_numpy().tolist()]


def _excel_text(cell: Any) -> str:
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def _text_differences(found: list[list[str]], table: Table) -> list[str]:
    rows = [[cell.strip() for cell in row] for row in found]
    rows = [row for row in rows if any(row)]
    told = _told(table)
    header = table.detected.header_row
    notes = " ".join(table.notes)
    if "it says that the delimiter is" in notes:
        rows = rows[1:]
    titles = re.search(r"(?:Line|(\d+) lines) [^.]*?above the header w", notes)
    above = 0 if titles is None else int(titles[1] or 1)
    body = rows[header + table.detected.header_rows :] if header is not None else rows[above:]
    frame = table.frame
    if len(body) > len(frame) and told["rows"]:
        if "repeated" in notes:
            return []
        body = body[: len(frame)]  # without the footnotes
    if len(body) != len(frame):
        return [f"{len(frame)} rows, and {len(body)} by the second route"]
    faults = []
    kept = [
        place
        for place in range(max(map(len, body)))
        if any(len(row) > place and row[place] for row in body)
    ]
    ours_kept = [place for place in range(frame.shape[1]) if frame.iloc[:, place].notna().any()]
    for place, theirs_place in zip(ours_kept, kept, strict=False):
        if len(ours_kept) != len(kept):
            break  # columns of nothing but markers; they are compared by name below
        name = str(frame.columns[place])
        for row, ours in enumerate(frame.iloc[:, place].tolist()):
            theirs = body[row][theirs_place] if len(body[row]) > theirs_place else ""
            if not _same_cell(name, ours, theirs, table) and not _is_told(name, ours, table):
                faults.append(f"row {row + 1} of {name!r}: {ours!r}, and {theirs!r}")
                break
    return faults[:_MOST]


def _same_cell(name: str, ours: Any, theirs: str, table: Table) -> bool:
    if _is_missing(ours):
        return theirs in _markers(table) or _same_missing_number(theirs, table)
    if isinstance(ours, (pd.Timestamp, np.datetime64)):
        return _same_date(pd.Timestamp(ours), theirs)
    if isinstance(ours, str):
        return _same_text(ours, theirs, table)
    return any(_same_number(ours, theirs, *marks) for marks in _marks(name, table))


# ---- cells -------------------------------------------------------------------------------------


def _is_missing(cell: Any) -> bool:
    return (
        cell is None
        or cell is pd.NA
        or cell is pd.NaT
        or (isinstance(cell, float) and math.isnan(cell))
        or (isinstance(cell, str) and cell == "")
    )


def _markers(table: Table) -> set[str]:
    return {"", *TEXT_MARKERS, *NUMBER_MARKERS, *table.detected.missing}


def _same_missing_number(theirs: str, table: Table) -> bool:
    try:
        number = float(theirs.replace(",", "."))
    except ValueError:
        return False
    return f"{number:g}" in table.detected.missing


def _same_text(ours: str, theirs: str, table: Table) -> bool:
    del table
    replaced = re.sub("[\ud800-\udfff]", "\ufffd", theirs)
    same = " ".join(ours.split()) == " ".join(replaced.split())
    same = same or ours == theirs.removesuffix(" 00:00:00")  # a day without a time
    return same or re.sub(r"\.0$", "", theirs) == ours or _same_plain_number(ours, theirs)


def _same_plain_number(ours: str, theirs: str) -> bool:
    """Whether two texts are one number: a second reader may write it in another way."""
    try:
        return float(ours) == float(theirs)
    except ValueError:
        return False


def _marks(name: str, table: Table) -> list[tuple[str | None, str | None]]:
    """The separators of thousands and decimal marks that a table says it read a column with."""
    usual = table.detected.decimal
    found = [(table.detected.thousands, usual)]
    for question in table.questions:
        if question.column == name and question.taken:
            found.append(({",": ".", ".": ","}[question.taken], question.taken))
    for note in table.notes:
        group = re.match(r"""['"](.)['"] separates thousands in columns? """, note)
        if group is not None and repr(name) in note:
            found += [(group[1], mark) for mark in (".", ",") if mark != group[1]]
        if note.startswith(f"Column {name!r} has the decimal mark "):
            found.append((None, "," if usual == "." else "."))
    return found


def _same_number(ours: Any, theirs: str, group: str | None, mark: str | None) -> bool:
    text = theirs.replace("−", "-")
    if isinstance(ours, (bool, np.bool_)):
        return str(bool(ours)).lower() == text.lower()
    texts = {text}
    if group:
        text = (
            re.sub(r"[ \u00a0\u202f\u2009]", "", text) if group == " " else text.replace(group, "")
        )
    if mark == ",":
        text = text.replace(",", ".")
    texts |= {text, re.sub(r"^[^\d+\-.]*|[^\d.]*$", "", text)}
    return any(_equals(ours, one) for one in texts)


def _equals(ours: Any, text: str) -> bool:
    try:
        exact = int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    except ValueError:
        return False
    if isinstance(exact, int) and isinstance(ours, (int, np.integer)):
        return int(ours) == exact
    with np.errstate(all="ignore"):
        return math.isclose(float(ours), float(exact), rel_tol=1e-15) or float(ours) == float(exact)


def _same_date(ours: pd.Timestamp, theirs: str) -> bool:
    numbers = [int(part) for part in re.findall(r"\d+", theirs)]
    expected = {ours.day, ours.year}
    years = {ours.year, ours.year % 100}
    words = bool(re.search(r"[A-Za-z]{3}", theirs))
    month = words or ours.month in numbers
    return month and ours.day in numbers and bool(years & set(numbers)) and bool(expected)


# ---- notes -------------------------------------------------------------------------------------


def _told(table: Table) -> dict[str, bool]:
    """Which differences of the shape the notes of a table announce."""
    notes = " ".join(table.notes)
    return {
        "rows": bool(re.search(r"left out|repeated|ends? early|blank", notes)),
        "columns": bool(re.search(r"left out|not read|The name .* has half of a surr", notes)),
    }


def _is_told(name: str, ours: Any, table: Table) -> bool:
    """Whether a note says that a cell of a column is not what the file has."""
    words = ("text", "unit", "rounded", "surrogate", "missing", "more than once")
    notes = " ".join(note for note in table.notes if repr(name) in note)
    everywhere = " ".join(table.notes)
    return (
        any(word in notes for word in words)
        or ("Quotation marks are part" in everywhere and '"' in str(ours))
        or ("means missing" in everywhere and _is_missing(ours))
        or ("no character" in everywhere and "\ufffd" in str(ours))
        or ("number in cell" in everywhere and isinstance(ours, float) and abs(ours) >= 2**53)
    )


_ROUTES: dict[str, Callable[[bytes, Table], pd.DataFrame | list[list[str]]]] = {
    "parquet": _parquet,
    "npz": _npz,
    "h5ad": _h5ad,
    "json": _json,
    "jsonl": _json,
    "csv": _csv,
    "tsv": _csv,
    "text": _csv,
    "xlsx": _xlsx,
}
