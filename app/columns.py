"""The columns of a table: what each holds, and what it is used for."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import services, state
from app.state import Roles, Types
from app.words import markdown, shortened
from lvmcore.data import Column, ColumnType, Table
from lvmcore.errors import LatentboardError

__all__ = ["chosen", "editor", "left_out", "listing", "may_be_feature", "preview", "retyped"]

_FEATURE = "Feature"
_TYPE = "Type"
_NONE = "none"
#: Up to so many columns are all in sight; more are scrolled.
_MOST_OPEN = 14
_HEIGHT = 460


def may_be_feature(table: Table, column: Column) -> bool:
    """Whether a fit can learn from a column: numbers, or two values that are coded as 0 and 1."""
    numbers = pd.api.types.is_numeric_dtype(table.frame[column.name].dtype)
    return bool(numbers) or column.type is ColumnType.BINARY


def listing(table: Table, roles: Roles, histograms: list[list[float]]) -> pd.DataFrame:
    """One row for each column, for the editor to show."""
    features = set(roles.features)
    return pd.DataFrame(
        {
            _FEATURE: [column.name in features for column in table.columns],
            "Column": [shortened(column.name, 80) for column in table.columns],
            _TYPE: [str(column.type) for column in table.columns],
            "Missing": [column.missing for column in table.columns],
            "Distinct": [column.distinct for column in table.columns],
            "Values": histograms,
            "Why": [column.why for column in table.columns],
        }
    )


def chosen(table: Table, ticked: list[bool], label: str | None, row_id: str | None) -> Roles:
    """The roles that the ticks and the two selectors stand for.

    A column that is the label or names the rows is no feature, and neither is one without numbers.
    """
    features = tuple(
        column.name
        for column, tick in zip(table.columns, ticked, strict=True)
        if tick and column.name not in (label, row_id) and may_be_feature(table, column)
    )
    return Roles(features, label, row_id)


def retyped(
    table: Table, roles: Roles, before: Types, wanted: list[str]
) -> tuple[Roles, Types] | None:
    """What a choice of column types comes to.

    A column whose new type is one to learn from becomes a feature, and ceases to be one otherwise.

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
    learnt = {name for name, kind in changed.items() if kind in services.FEATURE_TYPES}
    features = {*roles.features, *learnt} - (set(changed) - learnt)
    ticked = [column.name in features for column in table.columns]
    types = tuple((dict(before.chosen) | changed).items())
    return chosen(table, ticked, roles.label, roles.row_id), Types(types, None, before.turn + 1)


def left_out(table: Table, roles: Roles) -> list[str]:
    """Names of the columns that the fit does not use."""
    used = {*roles.features, roles.label, roles.row_id}
    return [column.name for column in table.columns if column.name not in used]


def preview(frame: pd.DataFrame, rows: int) -> None:
    """Show the first rows; dates without a time of day as dates."""
    dates = [
        name
        for name in frame.columns
        if pd.api.types.is_datetime64_any_dtype(frame[name].dtype)
        and (frame[name].dropna() == frame[name].dropna().dt.normalize()).all()
    ]
    st.dataframe(
        frame.head(rows),
        hide_index=True,
        column_config={name: st.column_config.DateColumn(format="YYYY-MM-DD") for name in dates},
        key=state.widget("data", "preview"),
    )


def editor(table: Table, roles: Roles) -> Roles:
    """Draw the columns and the selectors of label and row id.

    Args:
        table: the session's table.
        roles: as they are now.

    Returns:
        The roles as they are chosen.
    """
    st.subheader("Columns")
    names = [column.name for column in table.columns]
    label_place, row_place = st.columns(2, gap="medium")
    with label_place:
        label = _selector("Label", "label", table, names, roles.label, _LABEL_HELP)
    with row_place:
        row_id = _selector("Row id", "row_id", table, names, roles.row_id, _ROW_ID_HELP)
    frame = listing(table, roles, services.histograms(table))
    types = state.types(table.digest)
    if types.problem is not None:
        st.error(markdown(types.problem))
    edited = st.data_editor(
        frame,
        key=state.widget("data", "columns", table.digest, types.turn),
        hide_index=True,
        disabled=[name for name in frame.columns if name not in (_FEATURE, _TYPE)],
        column_config={
            _FEATURE: st.column_config.CheckboxColumn(
                width=96, help="Tick the columns to learn from: numbers only."
            ),
            "Column": st.column_config.TextColumn(width="medium"),
            _TYPE: st.column_config.SelectboxColumn(
                options=[str(kind) for kind in ColumnType],
                required=True,
                width="small",
                help="Proposed from the cells; the last column says why. Choose another one here.",
            ),
            "Missing": st.column_config.NumberColumn(width="small", help="Cells without a value"),
            "Distinct": st.column_config.NumberColumn(width="small", help="Different values"),
            "Values": st.column_config.BarChartColumn(
                width="small", y_min=0, help="Histogram; of words, the most frequent first"
            ),
            "Why": st.column_config.TextColumn("Why this type", width="large"),
        },
        height="content" if len(names) <= _MOST_OPEN else _HEIGHT,
    )
    ticked = [bool(tick) for tick in edited[_FEATURE]]
    now = chosen(table, ticked, label, row_id)
    change = retyped(table, now, types, [str(kind) for kind in edited[_TYPE]])
    if change is not None:
        state.set_roles(table.digest, change[0])
        state.set_types(table.digest, change[1])
        st.rerun()
    return now


_LABEL_HELP = "Classes to learn from, or to colour the map with. Never a feature at the same time."
_ROW_ID_HELP = "Names the rows in tables and exports. Without one they are numbered from 1."


def _selector(
    title: str, role: str, table: Table, names: list[str], current: str | None, text: str
) -> str | None:
    # By position, −1 for none: Streamlit draws an option that is None as one to be cleared.
    place = st.selectbox(
        title,
        range(-1, len(names)),
        index=0 if current is None else names.index(current) + 1,
        format_func=lambda i: _NONE if i < 0 else shortened(names[i], 60),
        key=state.widget("data", role, table.digest),
        help=text,
    )
    return None if place < 0 else names[place]
