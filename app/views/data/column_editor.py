"""Editor of the columns of a table: their types, roles and transforms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pandas as pd
import streamlit as st

from app.components.undo_buttons import heading_line, undo_buttons
from app.formatting import count, distinct_titles, markdown, shortened
from app.services import tables
from app.state.choices import ColumnChoices, RoleChoices, TypeChoices
from app.state.session import session
from app.state.widgets import set_first_value, set_widget_value, widget_key, widget_value
from app.views.data import column_roles
from app.views.data.level_order import level_order_editor
from lvmcore.data import ColumnType, Table

__all__ = ["column_editor", "column_table", "record_choices", "table_preview"]

_FEATURE = "Feature"
_TYPE = "Type"
_TRANSFORM = "Transform"
_LIKELIHOOD = "Likelihood"
_NONE = "none"
_EDITED = (_FEATURE, _TYPE, _TRANSFORM, _LIKELIHOOD)
#: Most columns shown without scrolling.
_MOST_OPEN = 14
_HEIGHT = 460
#: Fewest count columns for the button that transforms them all.
_SEVERAL = 3


def column_table(table: Table, roles: RoleChoices, histograms: list[list[float]]) -> pd.DataFrame:
    """The table of the editor, one row per column."""
    features = set(roles.features)
    reasons = column_roles.likelihood_reasons(table)
    return pd.DataFrame(
        {
            _FEATURE: [column.name in features for column in table.columns],
            "Column": [shortened(column.name, 80) for column in table.columns],
            _TYPE: [str(column.type) for column in table.columns],
            _TRANSFORM: column_roles.transforms(table, roles),
            _LIKELIHOOD: column_roles.likelihoods(table, roles),
            "Missing": [column.missing for column in table.columns],
            "Distinct": [column.distinct for column in table.columns],
            "Values": histograms,
            "Why": [
                f"{column.reason} {reasons.get(column.name, '')}".strip()
                for column in table.columns
            ],
        }
    )


def table_preview(frame: pd.DataFrame, rows: int) -> None:
    """Draw the first rows; dates without a time of day as dates."""
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
        key=widget_key("data", "preview"),
    )


def column_editor(table: Table, roles: RoleChoices) -> RoleChoices:
    """Draw the columns, the choice of labels and row id, and the share of held-out rows.

    Args:
        table: the table of the session.
        roles: the current roles.

    Returns:
        The chosen roles.
    """
    heading = heading_line(st.header, "Columns")
    page_opened = widget_value(widget_key("data", "label", table.digest)) is None
    chosen = _choose_roles(table, roles)
    types = session.type_choices[table.digest]
    if page_opened:  # an earlier error is not relevant any more
        types = replace(types, problem=None)
    if types.problem is not None:
        st.error(markdown(types.problem))
    edited = _table(table, roles, types.turn)
    now, problem = _edited_roles(table, roles, edited, chosen)
    if problem is not None:
        session.role_choices[table.digest] = now
        session.type_choices[table.digest] = replace(types, problem=problem, turn=types.turn + 1)
        st.rerun()
    if {*now.labels, now.row_id} & set(roles.features):  # removes the tick of the feature
        session.role_choices[table.digest] = now
        session.type_choices[table.digest] = replace(types, problem=None, turn=types.turn + 1)
        st.rerun()
    change = column_roles.retyped_columns(table, now, types, [str(kind) for kind in edited[_TYPE]])
    if change is not None:
        session.role_choices[table.digest] = change[0]
        session.type_choices[table.digest] = change[1]
        st.rerun()
    if types.problem is not None and now != roles:  # another change was made since
        session.role_choices[table.digest] = now
        session.type_choices[table.digest] = replace(types, problem=None)
        st.rerun()
    session.type_choices[table.digest] = types
    with heading:  # after the editor, so that the last change can be undone
        _undo_buttons(table, now)
    with st.container(horizontal=True):
        _count_transform_button(table, now)
        level_order_editor(table, now)
    return now


def _choose_roles(table: Table, roles: RoleChoices) -> RoleChoices:
    """Draw the choice of labels and row id, and the share of held-out rows."""
    names = [column.name for column in table.columns]
    label_column, further_column, row_id_column, hold_out_column = st.columns(4, gap="medium")
    with label_column:
        label = _selector("Label", "label", table, names, roles.label, _LABEL_HELP)
    with further_column:
        more = _further_labels(table, names, label, roles)
    with row_id_column:
        row_id = _selector("Row id", "row_id", table, names, roles.row_id, _ROW_ID_HELP)
    with hold_out_column:
        hold_out = _hold_out(table, roles.hold_out)
    return replace(roles, label=label, row_id=row_id, hold_out=hold_out, more_labels=more)


def record_choices(table: Table, roles: RoleChoices) -> None:
    """Record the shown roles and types as a step that can be undone.

    Args:
        table: the table of the session.
        roles: the roles that its page shows.
    """
    types = session.type_choices[table.digest].chosen
    session.columns[table.digest] = ColumnChoices(roles, types)


def _undo_buttons(table: Table, roles: RoleChoices) -> None:
    """Draw the buttons that undo and redo changes of the columns."""
    types = session.type_choices[table.digest].chosen
    digest, history = table.digest, session.columns
    shown = history[digest]
    changed = shown is not None and shown != ColumnChoices(roles, types)  # a step in this run
    undo_buttons(
        lambda name: widget_key("data", name, digest),
        partial(_move, table, history.undo) if changed or history.can_undo(digest) else None,
        partial(_move, table, history.redo) if not changed and history.can_redo(digest) else None,
        "Takes back the last change of the columns: types, roles, transforms, likelihoods.",
    )


def _move(table: Table, step: Callable[[str], ColumnChoices | None]) -> None:
    """Undo or redo a change: the editor and the choices above it open anew with its values."""
    found = step(table.digest)
    if found is None:
        return
    digest, roles = table.digest, found.roles
    turn = session.type_choices[digest].turn + 1
    session.role_choices[digest] = roles
    session.type_choices[digest] = TypeChoices(found.types, turn=turn)
    places = {column.name: place for place, column in enumerate(table.columns)}
    for role, name in (("label", roles.label), ("row_id", roles.row_id)):
        set_widget_value(widget_key("data", role, digest), -1 if name is None else places[name])
    set_widget_value(
        widget_key("data", "further", digest, roles.label),
        [places[name] for name in roles.more_labels],
    )
    set_widget_value(widget_key("data", "hold_out", digest), round(100 * roles.hold_out))


def _edited_roles(
    table: Table, before: RoleChoices, edited: pd.DataFrame, now: RoleChoices
) -> tuple[RoleChoices, str | None]:
    """The roles with the edits of the table of columns, and the reason of a refusal or None."""
    chosen, problem = column_roles.chosen_features(
        table,
        before,
        [bool(tick) for tick in edited[_FEATURE]],
        [str(transform) for transform in edited[_TRANSFORM]],
        now,
    )
    if problem is not None:
        return chosen, problem
    titles = [None if pd.isna(one) else str(one) for one in edited[_LIKELIHOOD]]
    return column_roles.chosen_likelihoods(table, before, chosen, titles)


def _table(table: Table, roles: RoleChoices, turn: int) -> pd.DataFrame:
    """Draw the table of columns, and return it with the edits."""
    frame = column_table(table, roles, tables.histograms(table))
    return st.data_editor(
        frame,
        key=widget_key("data", "columns", table.digest, turn),
        hide_index=True,
        disabled=[name for name in frame.columns if name not in _EDITED],
        column_config={
            _FEATURE: st.column_config.CheckboxColumn(
                width=96, help="The columns to learn from: numbers, dates, and one-hot categories."
            ),
            "Column": st.column_config.TextColumn(width="medium"),
            _TYPE: st.column_config.SelectboxColumn(
                options=[str(kind) for kind in ColumnType],
                required=True,
                width="small",
                help="Proposed from the cells, for the reason in the last column; can be changed.",
            ),
            _TRANSFORM: st.column_config.SelectboxColumn(
                options=list(column_roles.TRANSFORMS),
                required=True,
                width=104,
                help=_TRANSFORM_HELP,
            ),
            _LIKELIHOOD: st.column_config.SelectboxColumn(
                options=list(column_roles.LIKELIHOOD_TITLES.values()),
                width=128,
                help=_LIKELIHOOD_HELP,
            ),
            "Missing": st.column_config.NumberColumn(width="small", help="Number of missing cells"),
            "Distinct": st.column_config.NumberColumn(
                width="small", help="Number of distinct values"
            ),
            "Values": st.column_config.BarChartColumn(
                width="small", y_min=0, help="Histogram; for texts by frequency"
            ),
            "Why": st.column_config.TextColumn("Why", width="large"),
        },
        height="content" if len(table.columns) <= _MOST_OPEN else _HEIGHT,
    )


def _count_transform_button(table: Table, roles: RoleChoices) -> None:
    """Draw a button that sets the transform of all count columns."""
    counts = column_roles.counts(table, roles)
    if len(counts) < _SEVERAL:
        return
    done = set(counts) <= set(roles.log1p)
    transform = column_roles.NONE if done else column_roles.LOG1P
    n = count(len(counts), "count")
    st.button(
        f"No transform for the {n}" if done else f"log(1 + x) for all {n}",
        key=widget_key("data", "counts", table.digest),
        on_click=_transform_counts,
        args=(table, roles, transform),
        help="Sets the transform of all count columns; each can be changed in the table.",
    )


def _transform_counts(table: Table, roles: RoleChoices, transform: str) -> None:
    types = session.type_choices[table.digest]
    session.role_choices[table.digest] = column_roles.with_counts(table, roles, transform)
    session.type_choices[table.digest] = replace(types, problem=None, turn=types.turn + 1)


_LABEL_HELP = "Classes to learn from, or for the colours of the map. A label is never a feature."
_FURTHER_HELP = (
    "Further columns of classes, each with a path of its own. LDGD and Fast LDGD learn from all "
    "labels; other models only from the first."
)
_ROW_ID_HELP = "Names of the rows in tables and exports. Without one, rows are numbered from 1."
_TRANSFORM_HELP = (
    "log(1 + x) for skewed amounts; one-hot for a category, which becomes a 0/1 feature for each "
    "of its levels."
)
_LIKELIHOOD_HELP = (
    "Distribution of the column's cells in a fit with the likelihood of columns set to by column; "
    "otherwise all are Gaussian. Proposed from the cells, for the reason in the last column."
)
_HOLD_OUT_HELP = (
    "Rows that the fit does not use, for its scores; the same share of each class, sampled with "
    "seed 0."
)


def _further_labels(
    table: Table, names: list[str], label: str | None, roles: RoleChoices
) -> tuple[str, ...]:
    """Choice of further label columns."""
    others = [i for i, name in enumerate(names) if name != label]
    titles = distinct_titles(shortened(name, 60) for name in names)
    now = [names.index(name) for name in roles.more_labels if name != label]
    key = widget_key("data", "further", table.digest, label)
    set_first_value(key, [] if label is None else now)
    positions = st.multiselect(
        "Further labels",
        others,
        format_func=titles.__getitem__,
        placeholder="none",
        disabled=label is None,
        key=key,
        help=_FURTHER_HELP,
    )
    return tuple(names[i] for i in positions)


def _hold_out(table: Table, current: float) -> float:
    """Choice of the share of held-out rows, in per cent on the page."""
    key = widget_key("data", "hold_out", table.digest)
    set_first_value(key, round(100 * current))
    per_cent = st.number_input(
        "Hold out, % of rows",
        min_value=0,
        max_value=50,
        step=5,
        key=key,
        help=_HOLD_OUT_HELP,
    )
    return int(per_cent) / 100


def _selector(
    title: str, role: str, table: Table, names: list[str], current: str | None, text: str
) -> str | None:
    titles = distinct_titles(shortened(name, 60) for name in (_NONE, *names))
    # By position, −1 for none: Streamlit treats the option None as no choice.
    key = widget_key("data", role, table.digest)
    set_first_value(key, -1 if current is None else names.index(current))
    position = st.selectbox(
        title,
        range(-1, len(names)),
        format_func=lambda i: titles[i + 1],
        key=key,
        help=text,
    )
    return None if position < 0 else names[position]
