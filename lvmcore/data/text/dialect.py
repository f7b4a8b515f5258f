"""Dialect of delimited text: the delimiter and the quotation mark, and their detection."""

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lvmcore.data.text.missing_markers import is_marker
from lvmcore.data.text.number_marks import looks_numeric
from lvmcore.errors import ConfigError

__all__ = [
    "NO_DELIMITER",
    "Dialect",
    "ParsedRow",
    "count_filled",
    "delimiter_line",
    "detect_dialect",
    "find_unpaired_quote",
    "split_rows",
]

#: Delimiter of a table of one column: a character that does not occur in text files.
NO_DELIMITER = "\x1f"
_CANDIDATES = (",", ";", "\t", "|", " ")
_MAX_ROWS = 200
_MAX_CELLS = 100_000
#: Scores closer than this are decided by clevercsv.
_CLOSE_SCORES = 0.08
#: Below this score no delimiter fits the lines.
_MIN_SCORE = 0.2
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([ T]\d{1,2}[:.]\d{2}([:.]\d{2})?.*)?")
_TIME = re.compile(r"\d{1,2}[:.]\d{2}([:.]\d{2})?")
_MARK = r"[^\w\s'\"=]|\t|\x20"
#: Programs that save the file again add delimiters at the end of the line, or quotation marks.
_DELIMITER_LINE = re.compile(
    rf"(?i:sep)=(?:(?P<plain>{_MARK})[,;|\t]*)(?=\r|\n)|"
    rf"\"(?i:sep)=(?P<quoted>{_MARK})\"[,;|\t]*(?=\r|\n)".encode(),
)
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")


@dataclass(frozen=True)
class Dialect:
    """Delimiter and quotation mark of a text.

    Attributes:
        delimiter: One character; a space stands for any run of spaces; `NO_DELIMITER` for a
            table of one column.
        quote: The quotation mark, or None when quotation marks are ordinary characters.
    """

    delimiter: str
    quote: str | None = '"'

    @property
    def shown(self) -> str | None:
        """The delimiter; None for a table of one column."""
        return None if self.delimiter == NO_DELIMITER else self.delimiter


@dataclass(frozen=True)
class ParsedRow:
    """One record of the text: its cells, stripped, and its position.

    Attributes:
        line: Number of its first line in the file, from 1.
        start: Index of that line among the split lines.
        end: Index after its last line.
        cells: The cells.
    """

    line: int
    start: int
    end: int
    cells: tuple[str, ...]


def count_filled(cells: Sequence[str]) -> int:
    """Number of non-empty cells."""
    return sum(cell != "" for cell in cells)


def delimiter_line(data: bytes) -> tuple[int, str] | None:
    """The line "sep=;" that tells Excel the delimiter, above the header.

    Args:
        data: UTF-8 without a byte order mark.

    Returns:
        Its length without the line end, in bytes, and the delimiter; None without such a line.
    """
    found = _DELIMITER_LINE.match(data)
    if found is None:
        return None
    return found.end(), found["quoted" if found["plain"] is None else "plain"].decode("ascii")


def split_rows(
    lines: Sequence[str], dialect: Dialect, *, first_line: int = 1, limit: int | None = None
) -> Iterator[ParsedRow]:
    """Split lines into records, blank ones included.

    Args:
        lines: Lines with their line ends.
        dialect: Delimiter and quotation mark.
        first_line: Number of the first line in the file.
        limit: Maximal number of records.
    """
    spaced = dialect.delimiter == " "
    reader = csv.reader(
        (line.strip() + "\n" for line in lines) if spaced else lines,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote,
        quoting=csv.QUOTE_NONE if dialect.quote is None else csv.QUOTE_MINIMAL,
        skipinitialspace=spaced,
    )
    begin = 0
    for number, cells in enumerate(reader):
        end = reader.line_num
        stripped = tuple(cell.strip() for cell in cells)
        yield ParsedRow(first_line + begin, begin, end, stripped)
        begin = end
        if limit is not None and number + 1 >= limit:
            return


def detect_dialect(lines: Sequence[str], delimiter: str | None = None) -> Dialect:
    """Detect the dialect from the first lines of a table.

    The score of a candidate is c² √s q k/(k + 1), where s is the share of rows that it splits
    (titles and remarks have no delimiter), c the share of these with the modal number k of cells,
    and q the mean quality of their cells (numbers, dates, empty cells and words score higher than
    cells that contain another delimiter). If two candidates are close, clevercsv decides.

    Args:
        lines: The first lines of the text.
        delimiter: The delimiter, or None to detect it.

    Raises:
        ConfigError: The given delimiter is not one character.
    """
    if delimiter is not None:
        if delimiter in {"\\t", "tab"}:
            delimiter = "\t"
        if len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii():
            raise ConfigError(
                f"The delimiter is {delimiter!r}. Expected one character such as ',' ';' '|' or a "
                "tab, and a space for columns separated by spaces."
            )
        return Dialect(delimiter, _detect_quote(lines, delimiter))
    sample = list(lines[: 2 * _MAX_ROWS])
    scores = {
        mark: _score(sample, Dialect(mark, _detect_quote(sample, mark))) for mark in _CANDIDATES
    }
    ranked = sorted(scores, key=lambda mark: scores[mark], reverse=True)
    best = ranked[0]
    if scores[best] < _MIN_SCORE or _is_one_column_of_decimals(sample, best):
        best = _majority_delimiter(sample)
    elif scores[best] - scores[ranked[1]] < _CLOSE_SCORES and not _is_spaced_numbers(sample, best):
        best = _clevercsv_delimiter(sample, ranked[:2])
    return Dialect(best, _detect_quote(sample, best))


def _detect_quote(lines: Sequence[str], delimiter: str) -> str | None:
    """The quotation mark: '"', or "'" if only single quotes enclose cells."""
    text = "".join(lines[:_MAX_ROWS])
    mark = re.escape(delimiter)
    if '"' in text:
        opening = len(re.findall(rf'(?:^|{mark})\s*"', text, re.MULTILINE))
        closing = len(re.findall(rf'"\s*(?:{mark}|$)', text, re.MULTILINE))
        return '"' if opening and closing else None
    borders = re.findall(rf"(?:^|{mark})'[^'\n]*'(?=\s*(?:{mark}|$))", text, re.MULTILINE)
    return "'" if len(borders) >= max(2, len(lines[:_MAX_ROWS]) // 2) else '"'


def find_unpaired_quote(lines: Sequence[str], dialect: Dialect) -> int | None:
    """Number of the first line with an unclosed quotation mark, from 1; None without one."""
    mark = re.escape(dialect.delimiter)
    if dialect.quote is not None or re.search(rf'"\s*(?:{mark}|$)', "".join(lines), re.MULTILINE):
        return None
    for number, line in enumerate(lines, start=1):
        cells = line.split(dialect.delimiter) if '"' in line else ()
        if any(cell.lstrip().startswith('"') and cell.count('"') % 2 for cell in cells):
            return number
    return None


def _score(lines: Sequence[str], dialect: Dialect) -> float:
    try:
        rows = [row.cells for row in split_rows(lines, dialect, limit=_MAX_ROWS)]
    except csv.Error:
        return 0.0
    rows = [cells for cells in rows if count_filled(cells)]
    if not rows:
        return 0.0
    split = [cells for cells in rows if len(cells) > 1]
    if 2 * len(split) < len(rows):
        return 0.0
    width, count = Counter(len(cells) for cells in split).most_common(1)[0]
    usual = [cells for cells in rows if len(cells) == width]
    cells = [cell for row in usual[1:] or usual for cell in row][:_MAX_CELLS]
    quality = sum(_cell_quality(cell) for cell in cells) / len(cells)
    if dialect.delimiter == " " and not _mostly_numbers(cells):
        return 0.0
    consistency = (count / len(split)) ** 2 * math.sqrt(len(split) / len(rows))
    return consistency * quality * width / (width + 1)


def _mostly_numbers(cells: Sequence[str]) -> bool:
    """Whether at least half of the cells are numbers or missing, unlike words of prose."""
    numbers = sum(map(looks_numeric, cells))
    return numbers > 0 and numbers + sum(map(is_marker, cells)) >= 0.5 * len(cells)


def _cell_quality(cell: str) -> float:
    if cell == "" or is_marker(cell) or looks_numeric(cell):
        return 1.0
    if _DATE.fullmatch(cell) or _TIME.fullmatch(cell):
        return 1.0
    return 0.2 if any(mark in cell for mark in ";\t|,") else 0.85


def _is_one_column_of_decimals(lines: Sequence[str], best: str) -> bool:
    """Whether the lines are a name and decimal commas: one column, not two of whole numbers."""
    rows = [line for line in lines if line.strip()]
    if best != "," or len(rows) < 2 or "," in rows[0] or looks_numeric(rows[0].strip()):
        return False
    return all(_DECIMAL_COMMA.fullmatch(line) for line in rows[1:-1]) and (
        _DECIMAL_COMMA.fullmatch(rows[1]) is not None
    )


def _is_spaced_numbers(lines: Sequence[str], best: str) -> bool:
    """Whether all cells between spaces are numbers or missing: "0,5 NA" is not "0" and "5 NA"."""
    if best != " ":
        return False
    rows = split_rows(lines, Dialect(best, None), limit=_MAX_ROWS)
    cells = [cell for row in rows for cell in row.cells if cell]
    return all(looks_numeric(cell) or is_marker(cell) for cell in cells)


def _majority_delimiter(lines: Sequence[str]) -> str:
    """The delimiter that occurs in most lines; none (one column) without a majority."""
    rows = [line for line in lines if line.strip()]
    if not rows or _is_one_column_of_decimals(lines, ","):
        return NO_DELIMITER
    share = {mark: sum(mark in line for line in rows) for mark in _CANDIDATES if mark != " "}
    best = max(share, key=lambda mark: share[mark])
    believable = best == "\t" or best in rows[0]
    return best if 2 * share[best] > len(rows) and believable else NO_DELIMITER


def _clevercsv_delimiter(lines: Sequence[str], candidates: Sequence[str]) -> str:
    import clevercsv

    text = "".join(lines[:100])[:10_000]
    try:
        opinion = clevercsv.Detector().detect(text, delimiters=list(candidates))
    except clevercsv.Error:
        return candidates[0]
    if opinion is not None and opinion.delimiter in candidates:
        return str(opinion.delimiter)
    return candidates[0]
