"""The order of the levels of categories: chosen by the user for the ordinal likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from app.formatting import distinct_titles, markdown, shortened
from app.services import tables
from app.state.choices import RoleChoices
from app.state.session import session
from app.state.widgets import set_widget_value, widget_key
from app.views.data import column_roles
from lvmcore.data import Table
from lvmcore.likelihoods.catalogue import ColumnTerm, read_column_likelihood

__all__ = ["level_order_editor", "level_orders", "moved", "with_level_order"]

#: Height of the list of levels where there are more than so many.
_MOST_OPEN, _HEIGHT = 10, 320


def level_orders(table: Table, roles: RoleChoices) -> dict[str, tuple[str, ...]]:
    """The levels of each one-hot feature in their present order, by column."""
    chosen, used = dict(roles.likelihoods), {*roles.features} & {*roles.one_hot}
    return {
        name: read_column_likelihood(chosen.get(name, ""))[1] or levels
        for name, levels in tables.category_levels(table).items()
        if name in used
    }


def with_level_order(
    table: Table, roles: RoleChoices, name: str, order: Sequence[str]
) -> RoleChoices:
    """The roles with an order of the levels of a column, whose likelihood is then ordinal.

    Args:
        table: the table.
        roles: the current roles.
        name: of the column.
        order: its levels from the lowest.
    """
    likelihoods = dict(roles.likelihoods)
    likelihoods.pop(name, None)
    if tuple(order) != tables.category_levels(table)[name]:
        likelihoods[name] = str(ColumnTerm("ordinal", len(order), tuple(order)))
    elif tables.proposed_likelihoods(table)[name].name != "ordinal":
        likelihoods[name] = "ordinal"
    return replace(roles, likelihoods=tuple(sorted(likelihoods.items())))


def moved(order: Sequence[str], level: str, step: int) -> list[str]:
    """An order after a level was moved by some places, as far as there are any."""
    others = [one for one in order if one != level]
    place = min(max(order.index(level) + step, 0), len(others))
    return [*others[:place], level, *others[place:]]


def level_order_editor(table: Table, roles: RoleChoices) -> None:
    """Draw the choice of the order of levels, for a table with categories among its features."""
    orders = level_orders(table, roles)
    if not orders:
        return
    with (
        st.popover(
            "Order of levels",
            key=widget_key("data", "orders", table.digest),
            width="content",
            help="Sets which level of a category is the lowest and which the highest.",
        ),
        st.container(width=410),
    ):
        names = [*orders]
        titles = _titles(table, roles, names)
        position = st.selectbox(
            "Category",
            range(len(names)),
            index=_first_ordinal(table, roles, names),
            format_func=titles.__getitem__,
            key=widget_key("data", "ordered", table.digest),
            help="A category whose levels are given an order has the ordinal likelihood.",
        )
        _levels(table, roles, names[position], orders[names[position]])


def _titles(table: Table, roles: RoleChoices, names: Sequence[str]) -> list[str]:
    """Names of columns with their likelihoods."""
    columns = [column.name for column in table.columns]
    likelihoods = dict(zip(columns, column_roles.likelihoods(table, roles), strict=True))
    return distinct_titles(f"{shortened(name, 40)} ({likelihoods[name]})" for name in names)


def _first_ordinal(table: Table, roles: RoleChoices, names: Sequence[str]) -> int:
    ordinal = column_roles.ordinal_columns(table, roles)
    return next((i for i, name in enumerate(names) if name in ordinal), 0)


def _levels(table: Table, roles: RoleChoices, name: str, order: Sequence[str]) -> None:
    """Draw the levels of a column, and the buttons that move the chosen one."""
    key = widget_key("data", "level", table.digest, name)
    titles = dict(zip(order, distinct_titles(shortened(one, 40) for one in order), strict=True))
    with st.container(height=_HEIGHT if len(order) > _MOST_OPEN else "content", border=False):
        level = st.radio(
            "Levels, the lowest first",
            order,
            format_func=lambda one: markdown(titles[one]),
            key=key,
            help="The level that the buttons below move.",
        )
    proposed = tables.category_levels(table)[name]
    steps = {
        "Move up": (moved(order, level, -1), "Exchange the level with the one above it."),
        "Move down": (moved(order, level, 1), "Exchange the level with the one below it."),
        "Reverse": ([*reversed(order)], "Put the highest level first."),
        "Proposed order": (list(proposed), "Take the order that was proposed for the column."),
    }
    # None is ever disabled: a button that is, loses the focus of the keyboard.
    with st.container(horizontal=True, gap="xsmall"):
        for title, (wanted, text) in steps.items():
            st.button(
                title,
                key=widget_key("data", title, table.digest, name),
                help=text,
                on_click=_set_order,
                args=(table, roles, name, wanted, level),
            )


def _set_order(
    table: Table, roles: RoleChoices, name: str, order: Sequence[str], level: str
) -> None:
    """Keep an order; the editor of columns opens anew where the likelihood changes."""
    now = with_level_order(table, roles, name, order)
    # Titles and places of the options change, and the choices stay.
    set_widget_value(widget_key("data", "level", table.digest, name), level)
    place = [*level_orders(table, roles)].index(name)
    set_widget_value(widget_key("data", "ordered", table.digest), place)
    if column_roles.likelihoods(table, now) != column_roles.likelihoods(table, roles):
        types = session.type_choices[table.digest]
        session.type_choices[table.digest] = replace(types, problem=None, turn=types.turn + 1)
    session.role_choices[table.digest] = now
