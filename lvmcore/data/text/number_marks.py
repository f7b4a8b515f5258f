"""Marks in the cells of a column: which of them show the decimal mark, and which allow two."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from lvmcore.data.text.units_and_signs import split_unit

__all__ = [
    "MARKS",
    "OTHER_MARK",
    "SPACES",
    "ColumnMarks",
    "column_marks",
    "looks_numeric",
]

SPACES = "\u0020\u00a0\u202f\u2009"
#: The two decimal marks. Either can separate thousands where the other is the decimal mark.
MARKS = (".", ",")
OTHER_MARK = {",": ".", ".": ","}
_WHOLE = re.compile(r"[+-]?\d+(?:[eE][+-]?\d+)?")
_MARKED = re.compile(r"([+-]?)(\d*)([.,])(\d*)([eE][+-]?\d+)?")
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_GROUPED = re.compile(
    rf"[+-]?(?:[1-9]\d{{0,2}}|0)([,.'’{SPACES}])\d{{3}}(?:\1\d{{3}})*(?:([.,])\d+)?"
)
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{3}){3}")
_MAX_ADDRESS = 255
#: A whole number that often stands for missing cells.
_SENTINEL = "999"
#: A version such as 1.10: a zero at the end that a number would not have.
_VERSION = re.compile(r"\d{1,3}[.,]\d{1,3}")


@dataclass
class ColumnMarks:
    """What the cells of a column show of the format of its numbers.

    Attributes:
        cells: Number of different cells.
        numeric: Number of these that are numbers in some format.
        decisive: For each decimal mark, the first cell that allows no other one.
        counts: For each decimal mark, the number of such cells.
        strong: The decimal marks of cells that are numbers beyond doubt, unlike "1.10": with a
            minus sign, an exponent, three decimals, or groups and decimals.
        ambiguous: For each mark, the first cell such as "1.234", with thousands or three decimals.
        groups: Number of cells with each separator of groups; that of ambiguous cells left out.
        hundreds: Whether there is a whole number of three digits, but for 999 (missing cells).
        thousands: Whether there is a larger whole number without groups.
        version: A cell such as "1.10" of a column that has "1.2" too; "" without one.
        typed: Whether the file stores the numbers as such, with the decimal mark ".".
    """

    cells: int = 0
    numeric: int = 0
    decisive: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    strong: set[str] = field(default_factory=set)
    ambiguous: dict[str, str] = field(default_factory=dict)
    groups: Counter[str] = field(default_factory=Counter)
    hundreds: bool = False
    thousands: bool = False
    version: str = ""
    typed: bool = False

    @property
    def is_numeric(self) -> bool:
        """Whether at least half of the cells are numbers in some format."""
        return self.numeric > 0 and 2 * self.numeric >= self.cells

    @property
    def decimal(self) -> str | None:
        """The decimal mark of most cells that show one; None if no cell does.

        "1,234" beside "875" and without "1000" has groups: as a decimal, 875 would be "875,000".
        """
        if self.typed:
            return "."
        if self.counts:
            return self.counts.most_common(1)[0][0]
        return OTHER_MARK[next(iter(self.ambiguous))] if self.has_groups else None

    @property
    def has_groups(self) -> bool:
        """Whether cells such as "1,234" have groups: only whole numbers below 1000 have none."""
        return len(self.ambiguous) == 1 and self.hundreds and not self.thousands

    def separator(self, decimal: str) -> str | None:
        """The separator of groups that goes with a decimal mark; None without one.

        Args:
            decimal: The decimal mark of the column.
        """
        found = Counter({mark: n for mark, n in self.groups.items() if mark != decimal})
        other = OTHER_MARK[decimal]
        if other in self.ambiguous:
            found[other] += 1
        return found.most_common(1)[0][0] if found else None

    def add(self, cell: str) -> None:
        """Count one cell."""
        self.cells += 1
        if self._add_number(cell):
            return
        unit = split_unit(cell)
        bare = (cell if unit is None else unit[0]).replace("−", "-")
        if bare != cell:
            self._add_number(bare)

    def _add_number(self, cell: str) -> bool:
        """Count a cell if it is a number in some format; whether it is."""
        if _WHOLE.fullmatch(cell):
            digits = cell.lstrip("+-0")
            self.thousands |= len(digits) > 3
            self.hundreds |= len(digits) == 3 and digits != _SENTINEL
        elif (marked := _MARKED.fullmatch(cell)) is not None:
            if not self._add_marked(cell, *marked.groups(default="")):
                return False
        elif not self._add_grouped(cell):
            return False
        self.numeric += 1
        return True

    def _add_grouped(self, cell: str) -> bool:
        grouped = _GROUPED.fullmatch(cell)
        if grouped is None or grouped[1] == grouped[2] or is_address(cell):
            return False
        separator = " " if grouped[1] in SPACES else "'" if grouped[1] == "’" else grouped[1]
        self.groups[separator] += 1
        shown = grouped[2] or OTHER_MARK.get(separator)
        if shown is not None:
            self._decide(shown, cell, strong=True)
        return True

    def _add_marked(self, cell: str, sign: str, whole: str, mark: str, rest: str, e: str) -> bool:
        if not (rest or (whole and mark == ".")):
            return False
        if len(rest) == 3 and 1 <= len(whole) <= 3 and whole[0] != "0" and not e:
            self.ambiguous.setdefault(mark, cell)
        else:
            self._decide(mark, cell, strong=sign == "-" or bool(e) or len(rest) >= 3)
        return True

    def _decide(self, mark: str, cell: str, strong: bool) -> None:
        self.decisive.setdefault(mark, cell)
        self.counts[mark] += 1
        if strong:
            self.strong.add(mark)


def column_marks(cells: Sequence[str], typed: bool = False, plain: bool = False) -> ColumnMarks:
    """The marks in the cells of a column.

    Args:
        cells: Cells, stripped; the missing ones left out.
        typed: Whether the file stores the numbers of the column as numbers.
        plain: Whether all cells are numbers without groups and with the decimal mark ".".
    """
    marks = ColumnMarks(typed=typed)
    for cell in cells:
        marks.add(cell)
        if plain and marks.strong:
            break
    if not typed and marks.numeric == len(cells) and not marks.strong:
        marks.version = _version(cells)
    return marks


def is_address(cell: str) -> bool:
    """Whether a cell is a network address of three-digit parts, such as 192.168.100.200."""
    return _ADDRESS.fullmatch(cell) is not None and all(
        int(part) <= _MAX_ADDRESS for part in cell.split(".")
    )


def looks_numeric(cell: str) -> bool:
    """Whether a cell is a number in any usual format."""
    return (
        _PLAIN.fullmatch(cell) is not None
        or _COMMA.fullmatch(cell) is not None
        or _GROUPED.fullmatch(cell) is not None
    )


def _version(cells: Sequence[str]) -> str:
    """A cell with a zero at its end, in a column whose other cells have fewer decimals."""
    if not all(map(_VERSION.fullmatch, cells)):
        return ""
    decimals = [re.split("[.,]", cell)[1] for cell in cells]
    long = [cell for cell, rest in zip(cells, decimals, strict=True) if re.fullmatch(r"\d+0", rest)]
    return long[0] if long and min(map(len, decimals)) == 1 else ""
