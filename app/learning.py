"""How the columns of a table enter a fit: which are features, and what is done to their cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from app import services
from app.state import Roles, Types
from lvmcore.data import (
    Column,
    ColumnType,
    Table,
    check_log1p,
    check_one_hot,
    why_left_out,
)
from lvmcore.errors import LatentboardError

__all__ = [
    "LOG1P",
    "NONE",
    "ONE_HOT",
    "TRANSFORMS",
    "chosen",
    "counts",
    "learned_as_log1p",
    "left_out",
    "may_be_feature",
    "retyped",
    "transforms",
    "with_counts",
]

#: What can be done to the cells of a column before a fit learns from them.
NONE, LOG1P, ONE_HOT = "none", "log(1 + x)", "one-hot"
TRANSFORMS = (NONE, LOG1P, ONE_HOT)

_UNUSED = {
    ColumnType.CATEGORY: "category, not ticked",
    ColumnType.DATE: "date",
    ColumnType.IDENTIFIER: "identifier",
    ColumnType.TEXT: "text",
}


def may_be_feature(table: Table, column: Column) -> bool:
    """Whether a fit can learn from a column as it is: numbers, or two values coded as 0 and 1."""
    numbers = pd.api.types.is_numeric_dtype(table.frame[column.name].dtype)
    return bool(numbers) or column.type is ColumnType.BINARY


def transforms(table: Table, roles: Roles) -> list[str]:
    """What is done to the cells of each column where it is a feature, in the table's order."""
    return [what for _, what in _uses(table, roles).values()]


def counts(table: Table, roles: Roles) -> list[str]:
    """Names of the features that are counts."""
    features = set(roles.features)
    return [c.name for c in table.columns if c.type is ColumnType.COUNT and c.name in features]


def with_counts(table: Table, roles: Roles, what: str) -> Roles:
    """The roles with log(1 + x), or no transform, for every feature that is a count."""
    uses = _uses(table, roles)
    return _with(roles, uses | dict.fromkeys(counts(table, roles), (True, what)))


def learned_as_log1p(table: Table, roles: Roles, name: str) -> bool:
    """Whether log(1 + x) is chosen for a column and its cells allow it."""
    if name not in roles.log1p:
        return False
    try:
        check_log1p(table, name)
    except LatentboardError:
        return False
    return True


def chosen(
    table: Table, before: Roles, ticked: Sequence[bool], transforms: Sequence[str], now: Roles
) -> tuple[Roles, str | None]:
    """The roles that the ticks and transforms stand for.

    A column that is the label or names the rows is no feature, whatever is ticked. A column whose
    cells do not allow what is wanted stays as it was.

    Args:
        table: the table.
        before: the roles as they were.
        ticked: whether each column is to be a feature, in the table's order.
        transforms: what is to be done to the cells of each.
        now: label, row id and share held out as they are chosen now.

    Returns:
        The roles, and why something was refused; None where nothing was.
    """
    wanted: dict[str, tuple[bool, str]] = {}
    problem = None
    uses = _uses(table, before)
    for column, tick, what in zip(table.columns, ticked, transforms, strict=True):
        name = column.name
        was = uses[name]
        free = name not in (*now.labels, now.row_id)
        wanted[name] = tick and free, what
        if wanted[name] == was:
            continue
        refused = _refusal(table, column, wanted[name][0], what)
        if refused is not None:
            wanted[name] = was[0] and free, was[1]
            problem = problem or refused
    return _with(now, wanted), problem


def _uses(table: Table, roles: Roles) -> dict[str, tuple[bool, str]]:
    """Whether each column is a feature, and what is done to its cells."""
    features, log1p, one_hot = set(roles.features), set(roles.log1p), set(roles.one_hot)
    return {
        column.name: (
            column.name in features,
            LOG1P if column.name in log1p else ONE_HOT if column.name in one_hot else NONE,
        )
        for column in table.columns
    }


def _with(roles: Roles, wanted: dict[str, tuple[bool, str]]) -> Roles:
    return replace(
        roles,
        features=tuple(name for name, (tick, _) in wanted.items() if tick),
        log1p=tuple(name for name, (_, what) in wanted.items() if what == LOG1P),
        one_hot=tuple(name for name, (_, what) in wanted.items() if what == ONE_HOT),
    )


def _refusal(table: Table, column: Column, ticked: bool, what: str) -> str | None:
    """Why a column cannot be used so; None where it can."""
    try:
        if what == LOG1P:
            check_log1p(table, column.name)
        elif what == ONE_HOT and (ticked or column.type is not ColumnType.CATEGORY):
            check_one_hot(table, column.name)
    except LatentboardError as error:
        return str(error)
    if what != NONE or not ticked or may_be_feature(table, column):
        return None
    if column.type is ColumnType.CATEGORY:
        return (
            f"Column {column.name!r} cannot be a feature as it is: its cells are no numbers. "
            "Choose one-hot as its transform."
        )
    return f"Column {column.name!r} cannot be a feature: {why_left_out(column)}."


def retyped(
    table: Table, roles: Roles, before: Types, wanted: Sequence[str]
) -> tuple[Roles, Types] | None:
    """What a choice of column types comes to.

    A column whose new type is one to learn from becomes a feature, and ceases to be one otherwise.
    Its transform starts anew: one-hot for a category, none for anything else.

    Args:
        table: as it is now.
        roles: of its columns as they are now.
        before: the types chosen so far.
        wanted: the type of each column, in the table's order.

    Returns:
        The roles and types from now on, with the reason where the cells do not allow what is
        wanted; None where nothing else is wanted.
    """
    changed = {
        column.name: kind
        for column, kind in zip(table.columns, wanted, strict=True)
        if kind != column.type
    }
    if not changed:
        return None
    try:
        table.with_types(changed)
    except LatentboardError as error:
        return roles, Types(before.chosen, str(error), before.turn + 1)
    uses = _uses(table, roles)
    for name, kind in changed.items():
        learnt = kind in services.FEATURE_TYPES and name not in (*roles.labels, roles.row_id)
        uses[name] = learnt, ONE_HOT if kind == ColumnType.CATEGORY else NONE
    types = tuple((dict(before.chosen) | changed).items())
    return _with(roles, uses), Types(types, None, before.turn + 1)


def left_out(table: Table, roles: Roles) -> dict[str, list[str]]:
    """Names of the columns that the fit does not use, by the reason."""
    used = {*roles.features, *roles.labels, roles.row_id}
    found: dict[str, list[str]] = {}
    for column in table.columns:
        if column.name not in used:
            other = "about the row, not ticked" if column.about_row else "not ticked"
            found.setdefault(_UNUSED.get(column.type, other), []).append(column.name)
    return found
