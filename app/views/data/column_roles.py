"""Roles and transforms of columns: the features of a fit, and log(1 + x) or one-hot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from app.services import tables
from app.state.choices import RoleChoices, TypeChoices
from lvmcore.data import (
    ColumnDescription,
    ColumnType,
    Table,
    check_likelihood,
    check_log1p,
    check_one_hot,
    exclusion_reason,
)
from lvmcore.errors import LatentboardError
from lvmcore.likelihoods.catalogue import LIKELIHOODS, read_column_likelihood

__all__ = [
    "LIKELIHOOD_TITLES",
    "LOG1P",
    "NONE",
    "ONE_HOT",
    "TRANSFORMS",
    "chosen_features",
    "chosen_likelihoods",
    "columns_left_out",
    "counts",
    "learned_as_log1p",
    "likelihood_reasons",
    "likelihoods",
    "may_be_feature",
    "ordinal_columns",
    "retyped_columns",
    "transforms",
    "with_counts",
]

#: Transforms of a column before the fit.
NONE, LOG1P, ONE_HOT = "none", "log(1 + x)", "one-hot"
TRANSFORMS = (NONE, LOG1P, ONE_HOT)

#: Titles of the likelihoods by name.
LIKELIHOOD_TITLES: dict[str, str] = {name: kind.title for name, kind in LIKELIHOODS.items()}

_UNUSED = {
    ColumnType.CATEGORY: "category, not ticked",
    ColumnType.DATE: "date, not ticked",
    ColumnType.IDENTIFIER: "identifier",
    ColumnType.TEXT: "text",
}


def may_be_feature(table: Table, column: ColumnDescription) -> bool:
    """Whether a column can be a feature without a transform: numbers, dates, or two values."""
    cells = table.frame[column.name].dtype
    numbers = pd.api.types.is_numeric_dtype(cells)
    dates = column.type is ColumnType.DATE and pd.api.types.is_datetime64_any_dtype(cells)
    return bool(numbers or dates) or column.type is ColumnType.BINARY


def transforms(table: Table, roles: RoleChoices) -> list[str]:
    """Transform of each column, in the order of the table."""
    return [transform for _, transform in _uses(table, roles).values()]


def counts(table: Table, roles: RoleChoices) -> list[str]:
    """Names of the features that are counts."""
    features = set(roles.features)
    return [c.name for c in table.columns if c.type is ColumnType.COUNT and c.name in features]


def with_counts(table: Table, roles: RoleChoices, transform: str) -> RoleChoices:
    """The roles with a transform for every feature that is a count."""
    uses = _uses(table, roles)
    return _with_uses(roles, uses | dict.fromkeys(counts(table, roles), (True, transform)))


def learned_as_log1p(table: Table, roles: RoleChoices, name: str) -> bool:
    """Whether log(1 + x) is chosen for a column and its cells allow it."""
    if name not in roles.log1p:
        return False
    try:
        check_log1p(table, name)
    except LatentboardError:
        return False
    return True


def chosen_features(
    table: Table,
    before: RoleChoices,
    ticked: Sequence[bool],
    transforms: Sequence[str],
    now: RoleChoices,
) -> tuple[RoleChoices, str | None]:
    """The roles of the ticks and transforms in the editor.

    A label or row id is never a feature. A column whose cells do not allow the chosen transform
    keeps its previous role.

    Args:
        table: the table.
        before: the previous roles.
        ticked: whether each column is ticked as a feature, in the order of the table.
        transforms: the chosen transform of each column.
        now: the chosen labels, row id and share of held-out rows.

    Returns:
        The roles, and the reason of a refusal; None without one.
    """
    wanted: dict[str, tuple[bool, str]] = {}
    problem = None
    uses = _uses(table, before)
    for column, tick, transform in zip(table.columns, ticked, transforms, strict=True):
        name = column.name
        previous = uses[name]
        available = name not in (*now.labels, now.row_id)
        wanted[name] = tick and available, transform
        if wanted[name] == previous:
            continue
        refusal = _refusal(table, column, wanted[name][0], transform)
        if refusal is not None:
            wanted[name] = previous[0] and available, previous[1]
            problem = problem or refusal
    return _with_uses(now, wanted), problem


def _uses(table: Table, roles: RoleChoices) -> dict[str, tuple[bool, str]]:
    """Whether each column is a feature, and its transform."""
    features, log1p, one_hot = set(roles.features), set(roles.log1p), set(roles.one_hot)
    return {
        column.name: (
            column.name in features,
            LOG1P if column.name in log1p else ONE_HOT if column.name in one_hot else NONE,
        )
        for column in table.columns
    }


def _with_uses(roles: RoleChoices, wanted: dict[str, tuple[bool, str]]) -> RoleChoices:
    return replace(
        roles,
        features=tuple(name for name, (tick, _) in wanted.items() if tick),
        log1p=tuple(name for name, (_, transform) in wanted.items() if transform == LOG1P),
        one_hot=tuple(name for name, (_, transform) in wanted.items() if transform == ONE_HOT),
    )


def _refusal(table: Table, column: ColumnDescription, ticked: bool, transform: str) -> str | None:
    """Why a column cannot have a role and transform; None if it can."""
    try:
        if transform == LOG1P:
            check_log1p(table, column.name)
        elif transform == ONE_HOT and (ticked or column.type is not ColumnType.CATEGORY):
            check_one_hot(table, column.name)
    except LatentboardError as error:
        return str(error)
    if transform != NONE or not ticked or may_be_feature(table, column):
        return None
    if column.type is ColumnType.CATEGORY:
        return (
            f"Column {column.name!r} cannot be a feature without a transform: its cells are not "
            "numbers. Choose one-hot as its transform."
        )
    return f"Column {column.name!r} cannot be a feature: {exclusion_reason(column)}."


def retyped_columns(
    table: Table, roles: RoleChoices, before: TypeChoices, wanted: Sequence[str]
) -> tuple[RoleChoices, TypeChoices] | None:
    """The roles and types after a change of column types.

    A column becomes a feature if its new type is one to learn from, and no feature otherwise. Its
    transform is reset: one-hot for a category, none for another type; so is its likelihood.

    Args:
        table: the table.
        roles: the current roles of its columns.
        before: the types chosen so far.
        wanted: the chosen type of each column, in the order of the table.

    Returns:
        The new roles and types, with the reason if the cells do not allow a type; None without a
        change.
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
        return roles, TypeChoices(before.chosen, str(error), before.turn + 1)
    uses = _uses(table, roles)
    for name, kind in changed.items():
        is_feature = kind in tables.FEATURE_TYPES and name not in (*roles.labels, roles.row_id)
        uses[name] = is_feature, ONE_HOT if kind == ColumnType.CATEGORY else NONE
    types = tuple((dict(before.chosen) | changed).items())
    kept = tuple(pair for pair in roles.likelihoods if pair[0] not in changed)
    retyped = replace(_with_uses(roles, uses), likelihoods=kept)
    return retyped, TypeChoices(types, None, before.turn + 1)


def likelihoods(table: Table, roles: RoleChoices) -> list[str | None]:
    """Title of the likelihood of each column, in the order of the table; None where it has none.

    A feature that is learned as a logarithm is Gaussian.
    """
    proposed, chosen = tables.proposed_likelihoods(table), dict(roles.likelihoods)
    found: list[str | None] = []
    for column in table.columns:
        name = column.name
        if name not in proposed:
            found.append(None)
        elif name in roles.log1p:
            found.append(LIKELIHOOD_TITLES["gaussian"])
        else:
            own = read_column_likelihood(chosen.get(name, proposed[name].name))[0]
            found.append(LIKELIHOOD_TITLES[own])
    return found


def ordinal_columns(table: Table, roles: RoleChoices) -> list[str]:
    """Names of the columns with the ordinal likelihood."""
    titles = zip(table.columns, likelihoods(table, roles), strict=True)
    return [column.name for column, title in titles if title == LIKELIHOOD_TITLES["ordinal"]]


def likelihood_reasons(table: Table) -> dict[str, str]:
    """Why a likelihood is proposed for a column, a sentence for each that has one, by name."""
    return {
        name: f"{LIKELIHOOD_TITLES[found.name]}: {found.reason}."
        for name, found in tables.proposed_likelihoods(table).items()
    }


def chosen_likelihoods(
    table: Table, before: RoleChoices, now: RoleChoices, titles: Sequence[str | None]
) -> tuple[RoleChoices, str | None]:
    """The roles with the likelihoods of the editor.

    Args:
        table: the table.
        before: the roles that the editor showed.
        now: the roles of its other columns.
        titles: title of the likelihood of each column, in the order of the table; None for the
            proposed one.

    Returns:
        The roles, and the reason of a refusal; None without one.
    """
    names = {title: name for name, title in LIKELIHOOD_TITLES.items()}
    chosen = dict(before.likelihoods)
    shown = likelihoods(table, before)
    proposed = tables.proposed_likelihoods(table)
    for column, title, earlier in zip(table.columns, titles, shown, strict=True):
        if title == earlier:
            continue
        chosen.pop(column.name, None)
        if title is None or column.name not in proposed:
            continue
        try:
            check_likelihood(table, column.name, names[title])
        except LatentboardError as error:
            return replace(now, likelihoods=before.likelihoods), str(error)
        if names[title] != proposed[column.name].name:
            chosen[column.name] = names[title]
    return replace(now, likelihoods=tuple(sorted(chosen.items()))), None


def columns_left_out(table: Table, roles: RoleChoices) -> dict[str, list[str]]:
    """Names of the columns that the fit does not use, by reason."""
    used = {*roles.features, *roles.labels, roles.row_id}
    texts = {question.column for question in table.questions if question.taken == ""}
    found: dict[str, list[str]] = {}
    for column in table.columns:
        if column.name not in used:
            other = "about the row, not ticked" if column.is_annotation else "not ticked"
            reason = _UNUSED.get(column.type, other)
            if column.name in texts:
                reason += ", may be numbers"
            found.setdefault(reason, []).append(column.name)
    return found
