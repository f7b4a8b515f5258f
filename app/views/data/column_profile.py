"""The profile of a column, and the pattern of missing cells."""

from __future__ import annotations

import streamlit as st

from app.analysis.tables.column_profiles import MissingCells
from app.formatting import count, distinct_titles, listed, markdown, number, shortened
from app.services import tables
from app.state.choices import RoleChoices
from app.state.session import session
from app.state.widgets import widget_key
from app.templates import render
from app.views.data.column_roles import learned_as_log1p
from app.views.data.profile_figures import missing_figure, profile_figure
from lvmcore.data import Table

__all__ = ["column_profile_panel", "missing_cells_panel"]

_NO_TOOLBAR = {"displayModeBar": False}


def column_profile_panel(table: Table, roles: RoleChoices) -> None:
    """Draw the choice of a column, and its profile."""
    st.header("Profile of a column")
    names = [column.name for column in table.columns]
    titles = distinct_titles(shortened(name, 60) for name in names)
    facts, picture = st.columns([1, 2], gap="large")
    with facts:
        position = st.selectbox(
            "Column",
            range(len(names)),
            index=names.index(roles.features[0]) if roles.features else 0,
            format_func=titles.__getitem__,
            key=widget_key("data", "profile", table.digest),
            persist_state="session",
            help="The column of the profile; it has no effect on the fit.",
        )
        name = names[position]
        found = tables.column_profile(table, name, log1p=learned_as_log1p(table, roles, name))
        st.html(render("facts.html", facts=found.facts))
    with picture:
        if not len(found.counts):
            st.caption("Every cell is missing.")
            return
        if found.names_rows:
            st.caption("No value occurs twice.")
            return
        st.plotly_chart(
            profile_figure(found, dark=session.is_dark),
            theme=None,
            key=widget_key("data", "profile figure"),
            config=_NO_TOOLBAR,
            alt="Histogram of the column",
        )
        distinct = table.column(name).distinct
        if found.levels and distinct > len(found.levels):
            more = count(distinct - len(found.levels), "level")
            st.caption(f"The {len(found.levels)} most frequent; {more} more.")


def missing_cells_panel(table: Table) -> None:
    """Draw the missing cells with a summary; nothing without missing cells."""
    found = tables.missing_cells(table)
    if found is None:
        return
    st.header("Missing cells")
    st.markdown(markdown(_summary(found)))
    st.plotly_chart(
        missing_figure(found, dark=session.is_dark),
        theme=None,
        key=widget_key("data", "missing figure"),
        config=_NO_TOOLBAR,
        alt="Missing cells by row and column",
    )
    n, d = int(found.rows[-1]), int(found.columns[-1])
    legend = "Coloured cells are missing."
    if found.blocks:
        height, width = found.share.shape
        legend = f"Each of the {height} × {width} fields is the share of missing cells in a block "
        legend += f"of the {n:,} × {d:,} table.".replace(",", "\u202f")
    st.caption(markdown(f"{legend} {_patterns(found)}"))


def _summary(found: MissingCells) -> str:
    n, d = int(found.rows[-1]), int(found.columns[-1])
    with_missing = int((found.by_column > 0).sum())
    share = number(100 * found.cells / (n * d), 2)
    return (
        f"{count(found.cells, 'cell')} of {n * d:,} ({share} %) in "
        f"{with_missing} of {count(d, 'column')}. {count(found.complete, 'row')} of {n:,} "
        f"{'is' if found.complete == 1 else 'are'} complete."
    ).replace(",", "\u202f")


def _patterns(found: MissingCells) -> str:
    """The sets of columns that are missing together most often."""
    patterns = [f"{listed(names, 4)} ({count(n, 'row')})" for names, n in found.patterns]
    return f"Missing together most often: {'; '.join(patterns)}."
