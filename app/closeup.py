"""A closer look at a table: the profile of a column, and where cells are missing."""

from __future__ import annotations

from html import escape

import streamlit as st

from app import figures, services, state
from app.learning import learned_as_log1p
from app.profiles import Missing
from app.state import Roles
from app.words import count, listed, markdown, number, shortened, told_apart
from lvmcore.data import Table

__all__ = ["missing_cells", "profile"]

_QUIET = {"displayModeBar": False}


def profile(table: Table, roles: Roles) -> None:
    """Choose a column, and see what it holds."""
    st.header("Profile of a column")
    names = [column.name for column in table.columns]
    titles = told_apart(shortened(name, 60) for name in names)
    facts, picture = st.columns([1, 2], gap="large")
    with facts:
        place = st.selectbox(
            "Column",
            range(len(names)),
            index=names.index(roles.features[0]) if roles.features else 0,
            format_func=titles.__getitem__,
            key=state.widget("data", "profile", table.digest),
            persist_state="session",
            help="The column to look at closely; this changes nothing about the fit.",
        )
        name = names[place]
        found = services.profile(table, name, log1p=learned_as_log1p(table, roles, name))
        rows = "".join(
            f"<dt>{escape(title)}</dt><dd>{escape(text)}</dd>" for title, text in found.facts
        )
        st.html(f'<dl class="facts">{rows}</dl>')
    with picture:
        if not len(found.counts):
            st.caption("Every cell is missing.")
            return
        if found.names_rows:
            st.caption("No value occurs twice.")
            return
        st.plotly_chart(
            figures.profile_figure(found, dark=state.dark()),
            theme=None,
            key=state.widget("data", "profile figure"),
            config=_QUIET,
            alt="How the cells of the column are spread",
        )
        distinct = table.column(name).distinct
        if found.levels and distinct > len(found.levels):
            more = count(distinct - len(found.levels), "level")
            st.caption(f"The {len(found.levels)} most frequent; {more} more.")


def missing_cells(table: Table) -> None:
    """A picture of the missing cells, and what there is to say about them; nothing without any."""
    found = services.missing(table)
    if found is None:
        return
    st.header("Missing cells")
    st.markdown(markdown(_summary(found)))
    st.plotly_chart(
        figures.missing_figure(found, dark=state.dark()),
        theme=None,
        key=state.widget("data", "missing figure"),
        config=_QUIET,
        alt="Missing cells by row and column",
    )
    n, d = int(found.rows[-1]), int(found.columns[-1])
    seen = "Filled cells are missing."
    if found.blocks:
        height, width = found.share.shape
        seen = f"Each of the {height} × {width} fields is the share of missing cells in its part "
        seen += f"of the {n:,} × {d:,} table.".replace(",", "\u202f")
    st.caption(markdown(f"{seen} {_patterns(found)}"))


def _summary(found: Missing) -> str:
    n, d = int(found.rows[-1]), int(found.columns[-1])
    lacking = int((found.by_column > 0).sum())
    share = number(100 * found.cells / (n * d), 2)
    return (
        f"{count(found.cells, 'cell')} of {n * d:,} ({share} %) in "
        f"{lacking} of {count(d, 'column')}. {count(found.complete, 'row')} of {n:,} "
        f"{'is' if found.complete == 1 else 'are'} complete."
    ).replace(",", "\u202f")


def _patterns(found: Missing) -> str:
    """Which columns are missing together, most often first."""
    said = [f"{listed(names, 4)} ({count(n, 'row')})" for names, n in found.patterns]
    return f"Missing together most often: {'; '.join(said)}."
