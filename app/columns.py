"""The columns of a table: what each holds, and what it is used for."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import streamlit as st

from app import learning, services, state
from app.state import Roles
from app.words import count, markdown, shortened, told_apart
from lvmcore.data import ColumnType, Table

__all__ = ["editor", "listing", "preview"]

_FEATURE = "Feature"
_TYPE = "Type"
_TRANSFORM = "Transform"
_NONE = "none"
#: Up to so many columns are all in sight; more are scrolled.
_MOST_OPEN = 14
_HEIGHT = 460
#: From so many counts on, one button transforms them all.
_SEVERAL = 3


def listing(table: Table, roles: Roles, histograms: list[list[float]]) -> pd.DataFrame:
    """One row for each column, for the editor to show."""
    features = set(roles.features)
    return pd.DataFrame(
        {
            _FEATURE: [column.name in features for column in table.columns],
            "Column": [shortened(column.name, 80) for column in table.columns],
            _TYPE: [str(column.type) for column in table.columns],
            _TRANSFORM: learning.transforms(table, roles),
            "Missing": [column.missing for column in table.columns],
            "Distinct": [column.distinct for column in table.columns],
            "Values": histograms,
            "Why": [column.why for column in table.columns],
        }
    )


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
    """Draw the columns, the selectors of label and row id, and the share of rows held out.

    Args:
        table: the session's table.
        roles: as they are now.

    Returns:
        The roles as they are chosen.
    """
    st.header("Columns")
    names = [column.name for column in table.columns]
    arrived = state.value(state.widget("data", "label", table.digest)) is None
    label_place, further_place, row_place, rows_place = st.columns(4, gap="medium")
    with label_place:
        label = _selector("Label", "label", table, names, roles.label, _LABEL_HELP)
    with further_place:
        more = _further(table, names, label, roles)
    with row_place:
        row_id = _selector("Row id", "row_id", table, names, roles.row_id, _ROW_ID_HELP)
    with rows_place:
        hold_out = _hold_out(table, roles.hold_out)
    types = state.types(table.digest)
    if arrived:  # on this page again: what was refused is no longer in question
        types = replace(types, problem=None)
    if types.problem is not None:
        st.error(markdown(types.problem))
    edited = _table(table, roles, types.turn)
    now, problem = learning.chosen(
        table,
        roles,
        [bool(tick) for tick in edited[_FEATURE]],
        [str(what) for what in edited[_TRANSFORM]],
        replace(roles, label=label, row_id=row_id, hold_out=hold_out, more_labels=more),
    )
    if problem is not None:
        state.set_roles(table.digest, now)
        state.set_types(table.digest, replace(types, problem=problem, turn=types.turn + 1))
        st.rerun()
    if {*now.labels, now.row_id} & set(roles.features):  # no feature any more: without its tick
        state.set_roles(table.digest, now)
        state.set_types(table.digest, replace(types, problem=None, turn=types.turn + 1))
        st.rerun()
    change = learning.retyped(table, now, types, [str(kind) for kind in edited[_TYPE]])
    if change is not None:
        state.set_roles(table.digest, change[0])
        state.set_types(table.digest, change[1])
        st.rerun()
    if types.problem is not None and now != roles:  # something else was changed since
        state.set_roles(table.digest, now)
        state.set_types(table.digest, replace(types, problem=None))
        st.rerun()
    state.set_types(table.digest, types)
    _every_count(table, now)
    return now


def _table(table: Table, roles: Roles, turn: int) -> pd.DataFrame:
    """Draw the table of columns, and return it as it was edited."""
    frame = listing(table, roles, services.histograms(table))
    return st.data_editor(
        frame,
        key=state.widget("data", "columns", table.digest, turn),
        hide_index=True,
        disabled=[name for name in frame.columns if name not in (_FEATURE, _TYPE, _TRANSFORM)],
        column_config={
            _FEATURE: st.column_config.CheckboxColumn(
                width=96, help="Tick the columns to learn from: numbers, and categories one-hot."
            ),
            "Column": st.column_config.TextColumn(width="medium"),
            _TYPE: st.column_config.SelectboxColumn(
                options=[str(kind) for kind in ColumnType],
                required=True,
                width="small",
                help="Proposed from the cells; the last column says why. Choose another one here.",
            ),
            _TRANSFORM: st.column_config.SelectboxColumn(
                options=list(learning.TRANSFORMS), required=True, width=104, help=_TRANSFORM_HELP
            ),
            "Missing": st.column_config.NumberColumn(width="small", help="Cells without a value"),
            "Distinct": st.column_config.NumberColumn(width="small", help="Different values"),
            "Values": st.column_config.BarChartColumn(
                width="small", y_min=0, help="Histogram; of words, the most frequent first"
            ),
            "Why": st.column_config.TextColumn("Why this type", width="large"),
        },
        height="content" if len(table.columns) <= _MOST_OPEN else _HEIGHT,
    )


def _every_count(table: Table, roles: Roles) -> None:
    """Offer one transform for all counts at once, where there are several."""
    counts = learning.counts(table, roles)
    if len(counts) < _SEVERAL:
        return
    done = set(counts) <= set(roles.log1p)
    what = learning.NONE if done else learning.LOG1P
    n = count(len(counts), "count")
    st.button(
        f"No transform for the {n}" if done else f"Learn all {n} as log(1 + x)",
        key=state.widget("data", "counts", table.digest),
        on_click=_transform_counts,
        args=(table, roles, what),
        help="Changes all columns of counts at once; each can be changed in the table.",
    )


def _transform_counts(table: Table, roles: Roles, what: str) -> None:
    types = state.types(table.digest)
    state.set_roles(table.digest, learning.with_counts(table, roles, what))
    state.set_types(table.digest, replace(types, problem=None, turn=types.turn + 1))


_LABEL_HELP = "Classes to learn from, or to colour the map with. Never a feature at the same time."
_FURTHER_HELP = (
    "More columns of classes to learn from at once, each by a path of its own. LDGD and Fast LDGD "
    "learn from all of them; any other model from the first label alone."
)
_ROW_ID_HELP = "Names the rows in tables and exports. Without one they are numbered from 1."
_TRANSFORM_HELP = (
    "log(1 + x) for amounts with a long tail; one-hot for a category, which becomes a feature of "
    "0 and 1 for each of its levels."
)
_HOLD_OUT_HELP = (
    "Rows that a fit never sees and is measured with afterwards, the same share of each class. "
    "Drawn with seed 0."
)


def _further(table: Table, names: list[str], label: str | None, roles: Roles) -> tuple[str, ...]:
    """Ask for more label columns than the first."""
    others = [i for i, name in enumerate(names) if name != label]
    titles = told_apart(shortened(name, 60) for name in names)
    now = [names.index(name) for name in roles.more_labels if name != label]
    places = st.multiselect(
        "Further labels",
        others,
        default=[] if label is None else now,
        format_func=titles.__getitem__,
        placeholder="none",
        disabled=label is None,
        key=state.widget("data", "further", table.digest, label),
        help=_FURTHER_HELP,
    )
    return tuple(names[i] for i in places)


def _hold_out(table: Table, current: float) -> float:
    """Ask for the share of rows to hold out, in per cent on the page."""
    per_cent = st.number_input(
        "Hold out, % of rows",
        min_value=0,
        max_value=50,
        step=5,
        value=round(100 * current),
        key=state.widget("data", "hold_out", table.digest),
        help=_HOLD_OUT_HELP,
    )
    return int(per_cent) / 100


def _selector(
    title: str, role: str, table: Table, names: list[str], current: str | None, text: str
) -> str | None:
    titles = told_apart(shortened(name, 60) for name in (_NONE, *names))
    # By position, −1 for none: Streamlit draws an option that is None as one to be cleared.
    place = st.selectbox(
        title,
        range(-1, len(names)),
        index=0 if current is None else names.index(current) + 1,
        format_func=lambda i: titles[i + 1],
        key=state.widget("data", role, table.digest),
        help=text,
    )
    return None if place < 0 else names[place]
