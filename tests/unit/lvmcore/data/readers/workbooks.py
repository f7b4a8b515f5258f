"""Workbooks written by hand, so that a test can also write what no spreadsheet program would."""

import datetime as dt
import io
import zipfile
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

__all__ = ["Cell", "sheet_xml", "workbook"]

Cell = str | int | float | bool | dt.date | dt.datetime | None

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_STYLES = (
    f'<styleSheet xmlns="{_MAIN}"><fonts count="1"><font/></fonts><fills count="1"><fill/></fills>'
    '<borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs>'
    '<cellXfs count="3"><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="22"/></cellXfs>'
    "</styleSheet>"
)
_DAY_ZERO = dt.datetime(1899, 12, 30)


def workbook(
    sheets: Mapping[str, Sequence[Sequence[Cell]] | str], *, hidden: Sequence[str] = ()
) -> bytes:
    """The bytes of an XLSX file.

    Args:
        sheets: The rows of each sheet by its name, or the XML of the sheet.
        hidden: Names of hidden sheets.
    """
    names = list(sheets)
    numbers = range(1, len(names) + 1)
    states = ['state="hidden" ' if name in hidden else "" for name in names]
    entries = "".join(
        f'<sheet name={quoteattr(name)} sheetId="{n}" {state}r:id="rId{n}"/>'
        for n, name, state in zip(numbers, names, states, strict=True)
    )
    links = "".join(
        f'<Relationship Id="rId{n}" Type="{_OFFICE}/worksheet" Target="worksheets/sheet{n}.xml"/>'
        for n in numbers
    )
    parts = "".join(
        f'<Override PartName="/xl/worksheets/sheet{n}.xml" ContentType="{_TYPE}.worksheet+xml"/>'
        for n in numbers
    )
    files = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="xml" ContentType="application/xml"/>'
        '<Override PartName="/xl/workbook.xml" '
        f'ContentType="{_TYPE}.sheet.main+xml"/>{parts}</Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" '
        f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}">'
        f"<sheets>{entries}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
        f'{links}<Relationship Id="rId0" Type="{_OFFICE}/styles" Target="styles.xml"/>'
        "</Relationships>",
        "xl/styles.xml": _STYLES,
    }
    for n, content in zip(numbers, sheets.values(), strict=True):
        files[f"xl/worksheets/sheet{n}.xml"] = (
            content if isinstance(content, str) else sheet_xml(content)
        )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, '<?xml version="1.0" encoding="UTF-8"?>\n' + text)
    return buffer.getvalue()


def sheet_xml(rows: Sequence[Sequence[Cell]]) -> str:
    """The XML of a sheet; a cell of None is not written at all."""
    lines = []
    for number, row in enumerate(rows, start=1):
        cells = "".join(
            _cell(f"{_letters(position)}{number}", value)
            for position, value in enumerate(row)
            if value is not None
        )
        lines.append(f'<row r="{number}">{cells}</row>')
    return f'<worksheet xmlns="{_MAIN}"><sheetData>{"".join(lines)}</sheetData></worksheet>'


def _cell(place: str, value: Cell) -> str:
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, (int, float)):
        return f'<c r="{place}"><v>{value!r}</v></c>'
    if isinstance(value, dt.datetime):
        return f'<c r="{place}" s="2"><v>{(value - _DAY_ZERO) / dt.timedelta(days=1)!r}</v></c>'
    if isinstance(value, dt.date):
        return f'<c r="{place}" s="1"><v>{(value - _DAY_ZERO.date()).days}</v></c>'
    if str(value).startswith("#"):
        return f'<c r="{place}" t="e"><v>{escape(str(value))}</v></c>'
    text = escape(str(value))
    return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'


def _letters(position: int) -> str:
    text = ""
    position += 1
    while position:
        position, rest = divmod(position - 1, 26)
        text = chr(65 + rest) + text
    return text
