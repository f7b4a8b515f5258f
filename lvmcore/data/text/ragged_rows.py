"""Ragged rows (too few or too many cells): repaired where that is safe, else an error."""

import csv
import io
from collections.abc import Iterable, Sequence
from itertools import groupby

from lvmcore.data.text.dialect import NO_DELIMITER, Dialect, ParsedRow, count_filled, split_rows
from lvmcore.data.text.header_and_footer import TableLayout
from lvmcore.errors import DataError

__all__ = ["check_quotes", "repair_ragged_rows"]

#: Short rows are padded with missing cells if they are at most this share.
_MAX_SHORT = 0.2


def repair_ragged_rows(
    lines: Sequence[str], dialect: Dialect, layout: TableLayout, name: str, first_line: int
) -> tuple[bytes, list[str]]:
    """Give every row the width of the table.

    Empty cells beyond the last column are cut off. Short rows are padded with missing cells if they
    are few. Other ragged rows cannot be repaired without guessing.

    Args:
        lines: All lines of data, without header and footnotes.
        dialect: Delimiter and quotation mark.
        layout: The table's columns.
        name: Name of the file in messages.
        first_line: Number of the first line in the file.

    Returns:
        The table as CSV, separated by `NO_DELIMITER`, and notes on the repairs.

    Raises:
        DataError: Several tables are stacked, or rows cannot be repaired.
    """
    width = layout.width
    try:
        rows = list(split_rows(lines, dialect, first_line=first_line))
    except csv.Error as error:
        raise DataError(
            f"{name!r} cannot be split into cells: {error}. A quotation mark may be left open."
        ) from error
    if any(row.end - row.start > 1 for row in rows):
        check_quotes(lines, dialect, name, first_line)
    written = [row for row in rows if count_filled(row.cells)]
    _check_stacked_tables(written, layout, name, blank=len(rows) > len(written))
    long = [row for row in written if count_filled(row.cells[width:])]
    short = [row for row in written if len(row.cells) < width]
    few = len(short) <= max(1, _MAX_SHORT * len(written))
    if long or not (few or _lacks_only_empty_cells(written, width)):
        raise _ragged_error(sorted(long + short, key=lambda row: row.line), layout, name)
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=NO_DELIMITER, lineterminator="\n")
    for row in written:
        writer.writerow((row.cells + ("",) * width)[:width])
    return buffer.getvalue().encode("utf-8"), _repair_notes(rows, written, short, width)


def check_quotes(lines: Iterable[str], dialect: Dialect, name: str, first_line: int) -> None:
    """Check that quotation marks are paired, for cells of several lines.

    Args:
        lines: All lines of data.
        dialect: Delimiter and quotation mark.
        name: Name of the file in messages.
        first_line: Number of the first line in the file.

    Raises:
        DataError: A quotation mark is unclosed, or not doubled inside a quoted cell.
    """
    if dialect.quote is None:
        return
    reader = csv.reader(
        lines,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        skipinitialspace=dialect.delimiter == " ",
        strict=True,
    )
    before = 0
    try:
        for _ in reader:
            before = reader.line_num
    except csv.Error as error:
        raise DataError(
            f"In {name!r} the quotation marks do not pair up in the row that begins at line "
            f"{first_line + before}: one is left open, or stands inside a quoted cell without "
            "being doubled. Correct that row."
        ) from error


def _lacks_only_empty_cells(rows: list[ParsedRow], width: int) -> bool:
    """Whether the cells that short rows lack are empty in all complete rows."""
    least = min(len(row.cells) for row in rows)
    complete = [row for row in rows if len(row.cells) >= width]
    return (
        least > width // 2
        and bool(complete)
        and not any(count_filled(row.cells[least:]) for row in complete)
    )


def _repair_notes(
    rows: list[ParsedRow], written: list[ParsedRow], short: list[ParsedRow], width: int
) -> list[str]:
    notes = []
    blank = len(rows) - len(written)
    if blank:
        notes.append(f"{blank} blank line{'s were' if blank > 1 else ' was'} left out.")
    if short:
        notes.append(
            f"{len(short)} row{'s end' if len(short) > 1 else ' ends'} early, the first at line "
            f"{short[0].line} with {len(short[0].cells)} of {width} cells: the cells that are not "
            "there count as missing."
        )
    wide = sum(len(row.cells) > width for row in written)
    if wide:
        notes.append(f"Empty cells beyond the last column were left out in {wide} rows.")
    return notes


def _check_stacked_tables(
    rows: list[ParsedRow], layout: TableLayout, name: str, blank: bool
) -> None:
    """Check for stacked tables: blocks of different width, or a narrower block with a header."""
    blocks = [list(block) for _, block in groupby(rows, key=lambda row: len(row.cells))]
    solid = [block for block in blocks if len(block) >= 2 and len(block[0].cells) >= 2]
    widths = sorted({len(block[0].cells) for block in solid})
    share = sum(map(len, solid)) / max(1, len(rows))
    many = len(widths) >= 2 and len(solid) >= 3 and share < 0.98 and len(blocks) >= 6
    headed = [
        block
        for block in solid
        if len(block[0].cells) != layout.width and _is_header_like(block[0], layout)
    ]
    if not many and not headed and not (len(widths) >= 2 and blank):
        return
    starts = ", ".join(
        f"line {block[0].line}: {len(block[0].cells)} cells" for block in (solid or blocks)[:4]
    )
    raise DataError(
        f"{name!r} is not one table but several stacked under each other: the number of cells in "
        f"a row changes from block to block ({starts}, ...). Expected one header and rows of the "
        "same width below it. Save the one block you want as a file of its own."
    )


def _is_header_like(row: ParsedRow, layout: TableLayout) -> bool:
    """Whether a row has words in the numeric columns."""
    cells = [c for c, number in zip(row.cells, layout.numeric, strict=False) if number and c]
    return bool(cells) and not any(any(char.isdigit() for char in cell) for cell in cells)


def _ragged_error(bad: list[ParsedRow], layout: TableLayout, name: str) -> DataError:
    shown = ", ".join(f"line {row.line} has {len(row.cells)}" for row in bad[:5])
    more = f", and {len(bad) - 5} more" if len(bad) > 5 else ""
    origin = "as the header has" if layout.header_row is not None else "as most rows have"
    return DataError(
        f"{name!r} has rows of different length: {shown}{more}. Expected {layout.width} cells in "
        f"each row, {origin}. Check these lines for a missing or an extra delimiter, or for text "
        "with the delimiter in it that is not in quotation marks; or set another delimiter."
    )
