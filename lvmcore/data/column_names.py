"""Column names: cleaned, made unique, and generated where there is none."""

import re
from collections import Counter
from collections.abc import Sequence

from lvmcore.errors import DataError

__all__ = ["check_unique", "unique_names"]


def unique_names(
    cells: Sequence[str], second: Sequence[str] | None = None
) -> tuple[list[str], list[str]]:
    """Clean the column names and make them unique.

    White space inside a name becomes single spaces. A blank cell takes its name from the second
    header row, else from its position ("column 3"). Of several equal names the first stays and the
    others get " (2)", " (3)", ….

    Args:
        cells: The header's cells, "" where there is no name.
        second: The cells of a second header row.

    Returns:
        The names and notes on those that were changed.
    """
    wanted = [re.sub(r"\s+", " ", cell).strip() for cell in cells]
    blank = [position for position, cell in enumerate(wanted) if not cell]
    for position in blank:
        below = re.sub(r"\s+", " ", second[position]).strip() if second is not None else ""
        wanted[position] = below or f"column {position + 1}"
    names: list[str] = []
    taken = set(wanted)
    seen: Counter[str] = Counter()
    for name in wanted:
        seen[name] += 1
        unique, number = name, seen[name]
        while number > 1 and (unique == name or unique in taken):
            unique = f"{name} ({number})"
            number += 1
        taken.add(unique)
        names.append(unique)
    return names, _rename_notes(wanted, names, blank, len(cells))


def _rename_notes(wanted: list[str], names: list[str], blank: list[int], width: int) -> list[str]:
    notes = []
    if blank and len(blank) < width:
        shown = ", ".join(repr(names[position]) for position in blank[:3])
        more = f" and {len(blank) - 3} more" if len(blank) > 3 else ""
        columns = (
            "1 column without a name is"
            if len(blank) == 1
            else (f"{len(blank)} columns without a name are")
        )
        notes.append(f"{columns} called {shown}{more}.")
    renamed = [(old, new) for old, new in zip(wanted, names, strict=True) if old != new]
    if renamed:
        shown = ", ".join(repr(new) for _, new in renamed[:3])
        more = f" and {len(renamed) - 3} more" if len(renamed) > 3 else ""
        notes.append(f"Names that occur more than once were numbered: {shown}{more}.")
    return notes


def check_unique(what: str, names: Sequence[str]) -> None:
    """Check that all names are different.

    Args:
        what: Kind of the names, for the message.
        names: The names.

    Raises:
        DataError: One of them occurs twice.
    """
    if len(set(names)) == len(names):
        return
    seen: dict[str, int] = {}
    for place, name in enumerate(names):
        if name in seen:
            raise DataError(
                f"The {what} {name!r} occurs twice, at {seen[name] + 1} and {place + 1}. Expected "
                "each once."
            )
        seen[name] = place
