"""The completed table with its imputed cells marked, and its downloads."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.components.download_buttons import table_downloads
from app.figures import theme
from app.formatting import count, distinct_titles, markdown, shortened
from app.services import fitted_maps, imputation
from app.state.session import session
from app.state.widgets import widget_key
from lvmcore.errors import LatentboardError
from lvmcore.export.filled_table import FilledTable
from lvmcore.runs import Job

__all__ = ["completed_table_panel"]

#: Most rows of the table on the page; the files hold all.
_MOST_SHOWN = 200
#: Number of columns shown by default, and at most.
_DEFAULT_COLUMNS, _MOST_COLUMNS = 10, 30
#: Most characters of a cell on the page.
_MOST_CHARACTERS = 200
_WITH_GAPS, _ALL = "with imputed cells", "all"


def _key(job: Job, name: str) -> str:
    return widget_key("impute", job.id, name)


def completed_table_panel(job: Job) -> None:
    """Draw the filled table and its downloads.

    Args:
        job: the imputation, whose check may be unfinished.
    """
    try:
        filled = imputation.filled_table(job.id)
        dataset = fitted_maps.stored_dataset(job.spec.dataset)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    title, downloads = st.columns([2, 3], vertical_alignment="bottom")
    title.header("The completed table")
    with downloads, st.container(horizontal=True, horizontal_alignment="right"):
        _downloads(job)
    none = np.zeros(len(filled.frame), dtype=np.bool_)
    with_gaps = np.logical_or.reduce([none, *filled.imputed.values()])
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="bottom"
    ):
        groups = {_WITH_GAPS: with_gaps, _ALL: ~none}
        group = st.segmented_control(
            "Rows",
            list(groups),
            default=_WITH_GAPS,
            required=True,
            format_func=lambda name: f"{name} ({int(groups[name].sum())})",
            key=_key(job, "group"),
            help="The rows of the table below.",
        )
        names = _choose_columns(job, filled)
    rows = np.flatnonzero(groups[group])
    _table(job, filled, dataset.row_ids[rows[:_MOST_SHOWN]].tolist(), rows[:_MOST_SHOWN], names)
    sentences = [
        "Shaded cells are imputed and written as the observed cells of their column; all others "
        "are as in the file. The sd of each filled cell is in the file with details."
    ]
    if len(rows) > _MOST_SHOWN:
        sentences.insert(0, f"The first {_MOST_SHOWN} of {count(len(rows), 'row')}.")
    st.caption(" ".join(sentences))


def _choose_columns(job: Job, filled: FilledTable) -> list[str]:
    """The shown columns: all of a few, or a choice with columns with imputed cells first."""
    names = list(filled.texts)
    first = [
        *(name for name in names if name in filled.imputed),
        *(name for name in names if name not in filled.imputed),
    ]
    if len(first) <= _DEFAULT_COLUMNS:
        return names
    with st.popover("Columns"):
        return st.multiselect(
            f"Columns, at most {_MOST_COLUMNS}",
            first,
            default=first[:_DEFAULT_COLUMNS],
            max_selections=_MOST_COLUMNS,
            key=_key(job, "columns"),
            help="The columns of the table below.",
        )


def _table(
    job: Job, filled: FilledTable, row_ids: list[str], rows: NDArray[np.intp], names: list[str]
) -> None:
    """Draw rows of the filled table with their imputed cells marked.

    Args:
        job: the imputation.
        filled: the filled table.
        row_ids: names of the rows to show.
        rows: their positions.
        names: names of the columns to show.
    """
    *shown_names, row_title, marker = distinct_titles([*names, "row", "imputed"])
    columns = {
        title: [shortened(filled.texts[name][row], _MOST_CHARACTERS) for row in rows]
        for title, name in zip(shown_names, names, strict=True)
    }
    none = np.zeros(len(rows), dtype=np.bool_)
    imputed = [filled.imputed[name][rows] if name in filled.imputed else none for name in names]
    flags = np.column_stack([none, none, *imputed])
    marks = [
        ", ".join(name for name, one in zip(names, row[2:], strict=True) if one) for row in flags
    ]
    shown = pd.DataFrame({row_title: row_ids, marker: marks, **columns})
    css = np.where(flags, f"background-color: {theme.interval_colour(session.is_dark)}", "").astype(
        object
    )
    numeric = [
        title
        for title, name in zip(shown_names, names, strict=True)
        if filled.frame[name].dtype.kind in "iuf"
    ]
    st.dataframe(
        shown.style.apply(lambda _: css, axis=None),
        hide_index=True,
        height=320,
        column_config={
            row_title: st.column_config.TextColumn("row"),
            marker: st.column_config.TextColumn(
                width=130, help="The shown columns with an imputed cell"
            ),
            **dict.fromkeys(numeric, st.column_config.TextColumn(alignment="right")),
        },
        key=_key(job, "rows"),
        alt="The completed table",
    )


def _downloads(job: Job) -> None:
    details = st.checkbox(
        "With details",
        key=_key(job, "details"),
        help="Adds for each column with filled cells their predictive sd (of a category the "
        "probability of the filled level) and a flag of these cells.",
    )
    table_downloads(
        "Completed table with details" if details else "Completed table",
        "completed",
        csv=partial(imputation.filled_csv, job.id, details=details),
        parquet=partial(imputation.filled_parquet, job.id, details=details),
        about="Every column of the table in its order; observed cells are as in the file, but text "
        "that a spreadsheet would run as a formula gets a quote mark.",
        key=lambda ending: _key(job, f"file {ending} {details}"),
    )
