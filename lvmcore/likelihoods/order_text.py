"""The order of the levels of an ordinal column as text: ``low < mid < high``.

A level that has one of ``< > , ( ) "``, or a space at an end, is in double quotes, as in JSON:
``"<30" < 30-39``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from lvmcore.errors import ConfigError

__all__ = ["check_order", "read_order", "split_entries", "write_order"]

_QUOTED = r'"(?:[^"\\]|\\.)*"'
#: A level, and what follows it: "<", or the end.
_LEVEL = re.compile(rf'\s*({_QUOTED}|[^"<\s][^"<]*?)\s*(<|$)', re.DOTALL)
_SPECIAL = re.compile(r'[<>,()"\x00-\x1f]|^\s|\s$|^$')


def split_entries(text: str) -> list[str]:
    """The entries of a list, which commas separate; those in parentheses separate nothing."""
    found, begin, depth, at = [], 0, 0, 0
    quoted = re.compile(_QUOTED, re.DOTALL)
    while at < len(text):
        inside = quoted.match(text, at) if depth else None
        if inside is not None:
            at = inside.end()
            continue
        depth = max(0, depth + (text[at] == "(") - (text[at] == ")"))
        if text[at] == "," and not depth:
            found.append(text[begin:at])
            begin = at + 1
        at += 1
    return [*found, text[begin:]]


def read_order(text: str) -> tuple[str, ...]:
    """The levels of an order, from the lowest.

    Raises:
        ConfigError: the text is no order of at least two different levels.
    """
    levels: list[str] = []
    at, more = 0, True
    while more:
        found = _LEVEL.match(text, at)
        if found is None:
            raise ConfigError(
                f"The order of levels {text!r} cannot be read. Expected levels from the lowest, "
                'such as low < mid < high; a level with < or a comma in double quotes: "<30".'
            )
        levels.append(_unquoted(found[1]))
        at, more = found.end(), found[2] == "<"
    twice = next((level for level in levels if levels.count(level) > 1), None)
    if twice is not None:
        raise ConfigError(f"The order of levels {text!r} has {twice!r} twice. Name it once.")
    if len(levels) < 2:
        raise ConfigError(
            f"The order of levels {text!r} has one level. Expected at least two, from the lowest, "
            "such as low < high."
        )
    return tuple(levels)


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text))
    except ValueError as error:
        raise ConfigError(f"The level {text} cannot be read: {error}.") from error


def write_order(levels: Sequence[str]) -> str:
    """The text of an order of levels, from the lowest."""
    return " < ".join(
        json.dumps(level, ensure_ascii=False) if _SPECIAL.search(level) else level
        for level in levels
    )


def check_order(column: str, order: Sequence[str], levels: Sequence[str]) -> None:
    """Check that an order has each level of a column.

    Args:
        column: name of the column.
        order: the levels from the lowest.
        levels: all levels of the column.

    Raises:
        ConfigError: it lacks a level, or names an unknown one; the message names column and level.
    """
    known = write_order(levels)
    unknown = next((level for level in order if level not in levels), None)
    if unknown is not None:
        raise ConfigError(
            f"The order of the levels of column {column!r} names {unknown!r}, which is no level of "
            f"the column. Give its levels in their order: {known}."
        )
    absent = next((level for level in levels if level not in order), None)
    if absent is not None:
        raise ConfigError(
            f"The order of the levels of column {column!r} lacks {absent!r}. Name each of its "
            f"levels once: {known}."
        )
