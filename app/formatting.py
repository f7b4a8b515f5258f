"""Formatting of texts and numbers for the pages. Pure: no streamlit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

__all__ = [
    "count",
    "distinct_titles",
    "duration",
    "file_size",
    "grouped",
    "listed",
    "markdown",
    "number",
    "shortened",
    "size",
    "when",
]

_THIN = "\u202f"  # narrow no-break space: groups digits
_PUNCTUATION = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&^=@/])")
_ADDRESS = re.compile(r"https?(?=:)|www(?=\.)|@(?=[\w-])", re.IGNORECASE)
_JOINER = "\u2060"
_BLANK = re.compile(r"\s+")


def markdown(text: object) -> str:
    """Escape ``text`` for Markdown, so that it is shown literally.

    Names of columns, labels and files come from the user: unescaped, ``![](http://…)`` would make
    the browser fetch an address. Markdown also links addresses that are escaped; an invisible word
    joiner inside the address prevents this.
    """
    line = _ADDRESS.sub(_broken_address, _BLANK.sub(" ", str(text)).strip())
    return _PUNCTUATION.sub(r"\\\1", line)


def _broken_address(start: re.Match[str]) -> str:
    return f"{start[0]}{_JOINER}"


def shortened(text: object, length: int = 40) -> str:
    """``text`` on one line, cut to ``length`` characters with an ellipsis."""
    line = _BLANK.sub(" ", str(text)).strip()
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def distinct_titles(texts: Iterable[str]) -> list[str]:
    """Distinct texts for a selector: repeated ones get a number.

    Streamlit identifies an option by its text: of two equal options the first would be chosen.
    """
    titles: list[str] = []
    taken: set[str] = set()
    for text in texts:
        different, n = text, 1
        while different in taken:
            n += 1
            different = f"{text} ({n})"
        taken.add(different)
        titles.append(different)
    return titles


def count(n: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun: "1 row", "1 000 rows", "3 classes"."""
    digits = f"{n:,}".replace(",", _THIN)
    return f"{digits} {noun if n == 1 else plural or noun + 's'}"


def grouped(text: str) -> str:
    """A sentence of the engine with digits grouped as on the pages: "10 000" for "10,000"."""
    return re.sub(r"(?<=\d),(?=\d{3}\b)", _THIN, text)


def listed(names: Sequence[str], most: int = 5) -> str:
    """A list of names; "and 3 more" after the first ``most``."""
    shown = [shortened(name) for name in names[:most]]
    left = len(names) - len(shown)
    return ", ".join(shown) + (f" and {left} more" if left > 0 else "")


def number(value: float | None, digits: int = 4) -> str:
    """A number with ``digits`` significant digits, a minus sign and grouped thousands."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if value != 0 and not 1e-4 <= size < 1e9:
        text = f"{value:.{digits - 1}e}"
    else:
        whole = math.floor(math.log10(size)) + 1 if value else 1
        text = f"{value:,.{max(0, digits - whole)}f}"
    return text.replace(",", _THIN).replace("-", "−")


def duration(seconds: float | None) -> str:
    """A duration: "0.4 s", "12 s", "3 min 05 s", "2 h 10 min"."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    if seconds < 9.95:
        return f"{max(seconds, 0):.1f} s"
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60:02d} s"
    return f"{total // 3600} h {total % 3600 // 60:02d} min"


def file_size(count: int) -> str:
    """Size of a file in kB or MB: "9 kB", "11.6 MB"."""
    return f"{count / 1e6:.1f} MB" if count > 999_499 else f"{max(1, round(count / 1e3))} kB"


def size(count: int) -> str:
    """A number of bytes in GB: "0.4 GB"."""
    return f"{count / 1e9:.1f} GB"


def when(seconds_ago: float) -> str:
    """Elapsed time: "just now", "5 min ago", "3 h ago", "2 days ago"."""
    if seconds_ago < 60:
        return "just now"
    if seconds_ago < 3600:
        return f"{int(seconds_ago // 60)} min ago"
    if seconds_ago < 86400:
        return f"{int(seconds_ago // 3600)} h ago"
    return f"{count(int(seconds_ago // 86400), 'day')} ago"
