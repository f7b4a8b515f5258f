"""Files that people really upload and that are hard to read, or no tables at all."""

import gzip
import io
import json
import struct
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tests.unit.lvmcore.data.readers.workbooks import sheet_xml, workbook

__all__ = ["CASES", "Case", "gz", "npz", "parquet", "repeated_text", "shared_text", "zipped"]

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
NAN = None


@dataclass(frozen=True)
class Case:
    """One file, and what has to become of it.

    Attributes:
        name: What is odd about it.
        make: Makes its bytes.
        refused: Words of the message (a regular expression) where it is no table.
        columns: Where it is one: the names and cells of its first columns, None for missing.
        shape: Its rows and columns.
        note: Words of a note that the table has to carry.
        heavy: Whether it is large enough to count memory with.
    """

    name: str
    make: Callable[[], bytes] = field(repr=False)
    refused: str = ""
    columns: dict[str, list[Any]] = field(default_factory=dict)
    shape: tuple[int, int] | None = None
    note: str = ""
    heavy: bool = False


def gz(content: bytes) -> bytes:
    """The gzip of a content, always the same."""
    return gzip.compress(content, mtime=0)


def npz(**arrays: Any) -> bytes:
    """The bytes of an NPZ file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def parquet(frame: pd.DataFrame) -> bytes:
    """The bytes of a Parquet file."""
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    return buffer.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    """A ZIP archive of some members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _text(text: str, encoding: str = "utf-8") -> Callable[[], bytes]:
    return lambda: text.encode(encoding)


def _wide(columns: int) -> bytes:
    header = ",".join(f"c{i}" for i in range(columns))
    return (header + "\n" + (",".join(["1.5"] * columns) + "\n") * 3).encode()


def _gaps(empty_rows: tuple[int, ...]) -> bytes:
    rng = np.random.default_rng(5)
    values = rng.standard_normal((50, 6))
    values[rng.random(values.shape) < 0.6] = np.nan
    values[:, 0] = np.where(np.isnan(values).all(1), 1.0, values[:, 0])
    values[list(empty_rows)] = np.nan
    return pd.DataFrame(values).add_prefix("c").to_csv(index=False).encode()


def _labels(count: int, rows: int) -> bytes:
    lines = "".join(f"{i}.5,class {i % count}\n" for i in range(rows))
    return f"x,label\n{lines}".encode()


def _protected() -> bytes:
    start = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(300_000)
    return start + "EncryptedPackage".encode("utf-16-le") + bytes(500)


def _laughs() -> bytes:
    first = b'<!ENTITY a "' + b"a" * 40 + b'">'
    more = b"".join(b'<!ENTITY %c "%s">' % (98 + i, (b"&%c;" % (97 + i)) * 30) for i in range(8))
    book = b"<!DOCTYPE l [" + first + more + b"]><workbook>&i;</workbook>"
    return zipped({"xl/workbook.xml": book, "xl/_rels/workbook.xml.rels": b"<a/>"})


def _stray_cell() -> str:
    far = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    return sheet_xml([["a"], [1]]).replace("</sheetData>", f"{far}</sheetData>")


def _scattered() -> str:
    far = "".join(f'<row r="{i * 997}"><c r="Z{i * 997}"><v>1</v></c></row>' for i in range(1, 200))
    return sheet_xml([["a"], [1]]).replace("</sheetData>", f"{far}</sheetData>")


def _far_cell(place: str) -> Callable[[], bytes]:
    """A workbook with a cell at a place, in the marks of an unusual writer."""
    cell = f"<row><c r = '{place}'><v>1</v></c></row>"
    sheet = sheet_xml([["a"], [1]]).replace("</sheetData>", f"{cell}</sheetData>")
    return lambda: workbook({"a": sheet})


def _with_members(content: bytes, members: dict[str, bytes]) -> bytes:
    """An archive with members added, or written a second time."""
    buffer = io.BytesIO(content)
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # a name that is there already
        for name, text in members.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def shared_text(length: int, cells: int) -> bytes:
    """A workbook of one text, which many cells share."""
    rows = "".join(f'<row r="{i}"><c r="A{i}" t="s"><v>0</v></c></row>' for i in range(3, cells))
    sheet = sheet_xml([["a"], [1]]).replace("</sheetData>", f"{rows}</sheetData>")
    texts = f'<sst xmlns="{_MAIN}"><si><t>{"x" * length}</t></si></sst>'.encode()
    return _with_members(workbook({"a": sheet}), {"xl/sharedStrings.xml": texts})


def _lying_member() -> bytes:
    """A workbook whose texts are longer than their archive says."""
    texts = b"<sst><si><t>" + b" " * 100_000_000 + b"</t></si></sst>"
    content = _with_members(workbook({"a": [["a"], [1]]}), {"xl/sharedStrings.xml": texts})
    return content.replace(struct.pack("<I", len(texts)), struct.pack("<I", 20_000))


def repeated_text(length: int, rows: int) -> bytes:
    """A Parquet file of one text, which is stored once."""
    column = pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), ["x" * length])
    buffer = io.BytesIO()
    pq.write_table(pa.table({"x": column}), buffer)
    return buffer.getvalue()


def _long_parquet(rows: int) -> bytes:
    """A Parquet file of zeros, a few bytes for each million."""
    buffer = io.BytesIO()
    zeros = pa.table({"x": pa.array(np.zeros(1_000_000, dtype=bool))})
    with pq.ParquetWriter(buffer, zeros.schema) as writer:
        for _ in range(rows // 1_000_000):
            writer.write_table(zeros)
    return buffer.getvalue()


def _bad_zip_member() -> bytes:
    content = bytearray(workbook({"s": [["a", "b"], *([i, i * i] for i in range(500))]}))
    place = content.find(b"xl/worksheets/sheet1.xml") + 60
    content[place : place + 40] = bytes(40)
    return bytes(content)


def _bad_parquet() -> bytes:
    content = parquet(pd.DataFrame({"x": np.arange(1000.0)}))
    return content[:20] + bytes(20) + content[40:]


def _parquet_of_lists() -> bytes:
    return parquet(pd.DataFrame({"x": [[1, 2], [3]]}))


def _lying_npz() -> bytes:
    member = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**2)}
    np.lib.format.write_array_header_1_0(member, header)
    return zipped({"X.npy": member.getvalue() + bytes(80)})


def _npz_header() -> bytes:
    member = io.BytesIO()
    np.save(member, np.eye(2))
    return zipped({"X.npy": member.getvalue().replace(b"'shape': (", b"'shape': [")})


def _unknown_encoding() -> bytes:
    book = b"<?xml version='1.0' encoding='WTF-8'?><workbook/>"
    return zipped({"xl/workbook.xml": book, "xl/_rels/workbook.xml.rels": b"<a/>"})


_BOMB = "unpacks to more than 200 times its size"
_DAMAGED_ZIP = "begins like a workbook or ZIP archive.*damaged or cut off"
_RECORDS = json.dumps([{"a": 1.5, "b": "x"}, {"a": 2.5, "b": "y"}]).encode()

TEXTS = (
    Case("nul bytes", lambda: b"a,b\n1,2\n\x00\x00\x00,4\n", "not a text file"),
    Case(
        "nul bytes late",
        lambda: b"a,b\n" + b"1,2\n" * 100_000 + b"\x00\x00,3\n",
        "zero bytes, the first in line 100,002",
    ),
    Case("20 001 columns", lambda: _wide(20_001), "20,001 columns, more than the 20,000"),
    Case("30 000 columns", lambda: _wide(30_000), "is the table turned on its side"),
    Case("a line of 50 MB", lambda: b"1.5,2.5," * 6_250_000, "text in one line", heavy=True),
    Case("a cell of 5 MB", lambda: b"a,b\n1," + b"x" * 5_000_000 + b"\n2,y\n", "split into cells"),
    Case("three million commas", lambda: b"," * 3_000_000 + b"\n1", "split into cells"),
    Case("unclosed quote", _text('a,b\n"1,2\n3,4\n5,6\n'), "opened in line 2 and never closed"),
    Case(
        "unclosed quote at the end",
        _text("n,w\n" + "".join(f'{i},"text {i}"\n' for i in range(40)) + '41,"text\n42,"x"\n'),
        "do not pair up in the row that begins at line",
    ),
    Case(
        "quotation marks that are no quotes",
        _text('name,n,pipe\n"Big" Jim,1,2" wide\n"Lil" Ann,2,3" wide\nBob,3,4" wide\n'),
        columns={
            "name": ['"Big" Jim', '"Lil" Ann', "Bob"],
            "pipe": ['2" wide', '3" wide', '4" wide'],
        },
        note="Quotation marks are part of the cells",
    ),
    Case(
        "1e309",
        _text("a,b\n1e309,1\n2,2\n-1e309,3\n"),
        columns={"a": [float("inf"), 2.0, float("-inf")]},
        note="2 infinite values",
    ),
    Case(
        "numbers with units",
        _text("weight,n\n12 kg,1\n15.5 kg,2\n,3\n"),
        columns={"weight": [12.0, 15.5, NAN], "n": [1, 2, 3]},
        note="has the unit 'kg'",
    ),
    Case(
        "numbers with different units",
        _text("weight,n\n12 kg,1\n1550 g,2\n9 kg,3\n"),
        columns={"weight": ["12 kg", "1550 g", "9 kg"]},
    ),
    Case(
        "percent signs",
        _text("share,n\n12%,1\n15.5 %,2\nNA,3\n"),
        columns={"share": [12.0, 15.5, NAN]},
        note="has the unit '%'",
    ),
    Case(
        "currency",
        _text('price,n\n$12.50,1\n"$1,250",2\n"$12,250",3\n'),
        columns={"n": [1, 2, 3]},
        shape=(3, 2),
    ),
    Case(
        "thousands in one column only",
        _text('pop,x\n"1,234",0.5\n"12,345",1.5\n999,2.5\n'),
        columns={"pop": [1234, 12345, 999], "x": [0.5, 1.5, 2.5]},
        note="separates thousands",
    ),
    Case(
        "mixed dates",
        _text("day,x\n2020-01-31,1\n31/01/2020,2\nJan 5 2020,3\n"),
        columns={"day": ["2020-01-31", "31/01/2020", "Jan 5 2020"]},
    ),
    Case(
        "duplicate and empty headers",
        _text("a,a,,a (2),\n1,2,3,4,5\n6,7,8,9,10\n"),
        columns={"a": [1, 6], "a (3)": [2, 7], "column 3": [3, 8], "a (2)": [4, 9]},
        note="more than once",
    ),
    Case("no name at all", _text(",,\n1,2,3\n4,5,6\n"), shape=(2, 3), note="no header row"),
    Case(
        "header repeated",
        _text("a,b\n1,2\na,b\n3,4\na,b\n5,6\n"),
        columns={"a": [1, 3, 5], "b": [2, 4, 6]},
        note="repeated 2 times",
    ),
    Case("trailing commas", _text("a,b,\n1,2,\n3,4,\n"), columns={"b": [2, 4]}, shape=(2, 2)),
    Case("trailing commas in rows", _text("a,b\n1,2,\n3,4,\n"), shape=(2, 2)),
    Case(
        "windows-1252 quotes",
        _text("word,n\n“smart”,1\n‘single’,2\nit’s – fine…,3\n", "cp1252"),
        columns={"word": ["“smart”", "‘single’", "it’s – fine…"]},
        note="read as cp1252",
    ),
    Case(
        "right-to-left headers",
        _text("שם,גובה,السن\nאברהם,1.5,3\nשרה,1.6,4\nמשה,1.7,5\n"),
        columns={"שם": ["אברהם", "שרה", "משה"], "גובה": [1.5, 1.6, 1.7], "السن": [3, 4, 5]},
    ),
    Case(
        "emoji headers",
        _text("🎉,👨\u200d👩\u200d👧,x 😀\n1,2,3\n4,5,6\n"),
        columns={"🎉": [1, 4], "👨\u200d👩\u200d👧": [2, 5], "x 😀": [3, 6]},
    ),
    Case(
        "html and markdown names",
        _text("<script>alert(1)</script>,![i](http://e.org/x.png)\n1,2\n4,5\n"),
        columns={"<script>alert(1)</script>": [1, 4], "![i](http://e.org/x.png)": [2, 5]},
    ),
    Case(
        "formulas for names and cells",
        _text("=1+1,+cmd|' /C calc'!A0,@SUM(A1)\n1,=A1,3\n4,-x,6\n"),
        columns={"=1+1": [1, 4], "+cmd|' /C calc'!A0": ["=A1", "-x"], "@SUM(A1)": [3, 6]},
    ),
    Case("a label with 500 classes", lambda: _labels(500, 2000), shape=(2000, 2)),
    Case("a class with one row", lambda: _labels(9, 73), shape=(73, 2)),
    Case("60 % missing", lambda: _gaps(()), shape=(50, 6)),
    Case("rows missing", lambda: _gaps((3, 7)), shape=(48, 6), note="2 blank rows were left out"),
    Case("a header alone", _text("a,b,c\n"), "no rows below it"),
    Case("nothing but quotes", lambda: b'"' * 100_000, "no rows below it"),
    Case("carriage returns", _text("a,b\r1,2\r3,4\r"), columns={"a": [1, 3], "b": [2, 4]}),
    Case("mixed line ends", _text("a,b\n1,2\r\n3,4\n5,6\r\n"), columns={"b": [2, 4, 6]}),
    Case("two byte order marks", _text("\ufeff\ufeffa,b\n1,2\n3,4\n"), shape=(2, 2)),
    Case("utf-16 cut in a character", lambda: "a,b\n1,2\n".encode("utf-16")[:-1], "does not fit"),
    Case("an xml file", _text("<?xml version='1.0'?><a/>"), "an XML file"),
)

WORKBOOKS = (
    Case("empty workbook", lambda: workbook({"a": [], "b": []}), "is empty: none of its sheets"),
    Case("header alone in a sheet", lambda: workbook({"a": [["x", "y"]]}), "no rows below it"),
    Case("workbook cut off", lambda: workbook({"a": [[1, 2], [3, 4]]})[:-40], _DAMAGED_ZIP),
    Case("workbook with bytes overwritten", _bad_zip_member, _DAMAGED_ZIP),
    Case("workbook without its parts", lambda: zipped({"xl/workbook.xml": b"<a/>"}), _DAMAGED_ZIP),
    Case(
        "sheet that is no XML",
        lambda: workbook({"a": "<worksheet><sheetData><row r='1'><c r='A1'><v>1</v></c>"}),
        _DAMAGED_ZIP,
    ),
    Case("protected workbook", _protected, "protected with a password"),
    Case("a billion laughs", _laughs, _DAMAGED_ZIP),
    Case(
        "a stray cell far out", lambda: workbook({"a": _stray_cell()}), "1,048,576 rows of 16,384"
    ),
    Case("a far cell in other marks", _far_cell("XFD1048576"), "1,048,576 rows of 16,384"),
    Case("a far cell in small letters", _far_cell("xfd999999"), "999,999 rows of 16,384"),
    Case("a cell at no place", _far_cell("ZZZZZZ99999999999"), "columns, more than the 20,000"),
    Case(
        "a row beyond all rows", _far_cell("A99999999999999999"), "rows, more than the 50,000,000"
    ),
    Case(
        "a long text in many cells",
        lambda: shared_text(32_000, 80_000),
        "cells of .* take .* MB in memory or more",
        heavy=True,
    ),
    Case("a member that is longer than it says", _lying_member, _DAMAGED_ZIP, heavy=True),
    Case(
        "a member that is there twice",
        lambda: _with_members(workbook({"a": [[1]]}), {"xl/Workbook.xml": b"<a/>"}),
        _DAMAGED_ZIP,
    ),
    Case("scattered cells", lambda: workbook({"a": _scattered()}), "scattered over"),
    Case(
        "a workbook that unpacks to 60 MB of blanks",
        lambda: workbook({"a": sheet_xml([["a"], [1]]) + " " * 60_000_000}),
        _BOMB,
        heavy=True,
    ),
    Case("a zip bomb", lambda: zipped({"t.csv": b"0,0\n" * (1 << 24)}), _BOMB, heavy=True),
    Case("a zip of a csv", lambda: zipped({"t.csv": b"a,b\n1,2\n"}), "is a ZIP archive"),
    Case("a word document", lambda: zipped({"word/document.xml": b"<a/>"}), "is a Word document"),
    Case("xlsx that is csv", _text("a,b\n1,2\n3,4\n"), columns={"a": [1, 3], "b": [2, 4]}),
    Case("xlsx that is html", _text("\n<html><table><tr><td>1</td></tr></html>"), "is a web page"),
)

OTHERS = (
    Case(
        "json lines with mixed keys",
        _text('{"a":1}\n{"b":2.5}\n{"a":3,"c":"x"}\n'),
        columns={"a": [1, NAN, 3], "b": [NAN, 2.5, NAN], "c": [NAN, NAN, "x"]},
    ),
    Case("nested json", _text('{"a":{"b":1}}\n{"a":{"b":2}}\n'), "values are all nested"),
    Case("json of columns", _text('{"a":[1,2],"b":[3,4]}'), "Expected flat records"),
    Case("pretty json", _text('{\n  "a": 1\n}\n'), "line 1 is not a whole JSON value"),
    Case("json lines cut off", _text('{"a":1}\n{"a":2}\n{"a":'), "line 3 is not a whole JSON"),
    Case("json lines of numbers", _text('{"a":1}\n5\n'), "line 2 is a number or a word"),
    Case("json array", lambda: _RECORDS, columns={"a": [1.5, 2.5], "b": ["x", "y"]}),
    Case("json array of arrays", _text("[[1,2],[3,4]]"), "entry 1 is a list"),
    Case("json nested deeply", lambda: b'{"a":' + b"[" * 100_000, "nested too deeply"),
    Case(
        "json with a key a line",
        lambda: b"\n".join(b'{"k%d":%d}' % (i, i) for i in range(9000)),
        "names that change from row to row",
        heavy=True,
    ),
    Case(
        "json with infinities",
        _text('{"a":NaN}\n{"a":Infinity}\n{"a":2.5}\n'),
        columns={"a": [NAN, float("inf"), 2.5]},
        note="1 infinite value",
    ),
    Case("npz of objects", lambda: npz(X=np.array([[1, "a"]], dtype=object)), "Python objects"),
    Case("npz of sequences of pictures", lambda: npz(X=np.zeros((2, 3, 4, 5, 3))), "5 dimensions"),
    Case("npz of pictures of two channels", lambda: npz(X=np.zeros((2, 3, 4, 2))), "2 channels"),
    Case(
        "npz of texts that are none",
        lambda: npz(X=np.eye(2), y=np.array([0x110000, 65], dtype=np.uint32).view("<U1")),
        "codes that are no characters",
    ),
    Case(
        "npz of halves of surrogate pairs",
        lambda: npz(X=np.eye(2), y=np.array([0xD800, 65], dtype=np.uint32).view("<U1")),
        "codes that are no characters",
    ),
    Case("npz with a damaged header", _npz_header, _DAMAGED_ZIP),
    Case("a workbook in an unknown encoding", _unknown_encoding, _DAMAGED_ZIP),
    Case("npz without X", lambda: npz(data=np.zeros((2, 2))), "none called 'X'"),
    Case("npz bomb", lambda: npz(X=np.zeros((5000, 5000))), _BOMB, heavy=True),
    Case("npz that lies about its size", _lying_npz, "damaged or cut off"),
    Case(
        "parquet cut off",
        lambda: parquet(pd.DataFrame({"x": [1.0, 2.0]}))[:-30],
        "damaged or cut off",
    ),
    Case("parquet with bytes overwritten", _bad_parquet, "damaged or cut off"),
    Case(
        "parquet of a long text in many cells",
        lambda: repeated_text(2_000, 2_000_000),
        "cells of .* take .* MB in memory or more",
        heavy=True,
    ),
    Case(
        "parquet of very many rows",
        lambda: _long_parquet(60_000_000),
        "60,000,000 rows, more than the 50,000,000 that are read.*memory_mapped",
        heavy=True,
    ),
    Case("parquet of lists", _parquet_of_lists, "No column of .* holds numbers"),
    Case("gzip cut off", lambda: gz(b"a,b\n1,2\n" * 5000)[:-20], "damaged or cut off"),
    Case("gzip bomb", lambda: gz(b"0,0\n" * (1 << 25)), _BOMB, heavy=True),
    Case("gzip of zero bytes", lambda: gz(bytes(1 << 25)), "zero bytes", heavy=True),
    Case("gzip in a gzip", lambda: gz(gz(b"a,b\n1,2\n")), "gzip inside a gzip"),
)

CASES = (*TEXTS, *WORKBOOKS, *OTHERS)
