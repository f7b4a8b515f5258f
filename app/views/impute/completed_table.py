"""The completed table with its imputed cells marked, and its downloads."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from app.components.download_buttons import table_downloads
from app.figures import theme
from app.formatting import count, distinct_titles, markdown, number
from app.services import fitted_maps, imputation
from app.state.session import session
from app.state.widgets import widget_key
from lvmcore.errors import LatentboardError
from lvmcore.prediction.label_columns import label_cells
from lvmcore.runs import Job

__all__ = ["completed_table_panel"]

#: Most rows of the table on the page; the files hold all.
_MOST_SHOWN = 200
#: Number of columns shown by default, and at most.
_DEFAULT_COLUMNS, _MOST_COLUMNS = 10, 30
#: Digits of an observed and of an imputed cell in the table.
_DIGITS, _DIGITS_IMPUTED = 6, 3
_WITH_GAPS, _ALL = "with imputed cells", "all"


def _key(job: Job, name: str) -> str:
    return widget_key("impute", job.id, name)


def completed_table_panel(job: Job) -> None:
    """Draw the completed table and its downloads.

    Args:
        job: the imputation, whose check may be unfinished.
    """
    try:
        frame = imputation.completed_table(job.id)
        columns = imputation.imputed_columns(job.spec.dataset)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    title, downloads = st.columns([2, 3], vertical_alignment="bottom")
    title.header("The completed table")
    with downloads, st.container(horizontal=True, horizontal_alignment="right"):
        _downloads(job)
    flags = {names.value: names.imputed for names in columns}
    imputed = frame[[flag for flag in flags.values() if flag]].to_numpy()
    with_gaps = np.asarray(imputed.any(axis=1))
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="bottom"
    ):
        groups = {_WITH_GAPS: with_gaps, _ALL: np.ones(len(frame), dtype=np.bool_)}
        group = st.segmented_control(
            "Rows",
            list(groups),
            default=_WITH_GAPS,
            required=True,
            format_func=lambda name: f"{name} ({int(groups[name].sum())})",
            key=_key(job, "group"),
            help="The rows of the table below.",
        )
        shown = _choose_columns(job, flags)
    rows = frame.loc[groups[group]]
    names = ["row_id", *label_cells(fitted_maps.stored_dataset(job.spec.dataset)), *shown]
    _table(job, rows.head(_MOST_SHOWN), names, flags)
    sentences = [
        "Shaded cells are imputed, shown with three digits; the files hold all digits and the sd."
    ]
    if len(rows) > _MOST_SHOWN:
        sentences.insert(0, f"The first {_MOST_SHOWN} of {count(len(rows), 'row')}.")
    st.caption(" ".join(sentences))


def _choose_columns(job: Job, flags: dict[str, str]) -> list[str]:
    """The shown columns: all of a few, or a choice with columns with missing cells first."""
    first = [*filter(flags.get, flags), *(name for name in flags if not flags[name])]
    if len(first) <= _DEFAULT_COLUMNS:
        return list(flags)
    with st.popover("Columns"):
        return st.multiselect(
            f"Columns, at most {_MOST_COLUMNS}",
            first,
            default=first[:_DEFAULT_COLUMNS],
            max_selections=_MOST_COLUMNS,
            key=_key(job, "columns"),
            help="The columns of the table below.",
        )


def _table(job: Job, rows: pd.DataFrame, names: list[str], flags: dict[str, str]) -> None:
    """Draw rows of the completed table with their imputed cells marked.

    Args:
        job: the imputation.
        rows: rows of the completed table.
        names: names of the columns to show.
        flags: name of the flag column of each column; "" for a column without missing cells.
    """
    none = np.zeros(len(rows), dtype=np.bool_)
    imputed = np.column_stack(
        [rows[flags[name]] if flags.get(name) else none for name in names],
    )
    marker = distinct_titles([*names, "imputed"])[-1]
    shown = rows[names].reset_index(drop=True)
    texts = [", ".join(np.array(names, dtype=object)[row]) for row in imputed]
    css = np.where(
        imputed, f"background-color: {theme.interval_colour(session.is_dark)}", ""
    ).astype(object)
    css = np.insert(css, 1, "", axis=1)
    shown.insert(1, marker, texts)
    styler = shown.style.apply(lambda _: css, axis=None)
    for name, rows_imputed in zip(names, imputed.T, strict=True):
        if name in flags:
            for digits, chosen in ((_DIGITS, ~rows_imputed), (_DIGITS_IMPUTED, rows_imputed)):
                subset = (np.flatnonzero(chosen), [name])
                styler = styler.format(partial(_cell_text, digits=digits), subset=subset)
    st.dataframe(
        styler,
        hide_index=True,
        height=320,
        column_config={
            "row_id": st.column_config.TextColumn("row"),
            marker: st.column_config.TextColumn(
                width=130, help="The shown columns with an imputed cell"
            ),
        },
        key=_key(job, "rows"),
        alt="The completed table",
    )


def _cell_text(value: object, *, digits: int) -> str:
    """A cell with ``digits`` significant digits, without trailing zeros."""
    if not isinstance(value, float):
        return str(value)
    text = number(value, digits)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def _downloads(job: Job) -> None:
    table_downloads(
        "Completed table",
        "completed",
        csv=partial(imputation.completed_csv, job.id),
        parquet=partial(imputation.completed_parquet, job.id),
        about="Row id, label and every column; for each column with missing cells also '… sd', "
        "the predictive sd of its imputed cells, and '… imputed', a flag of these cells.",
        key=lambda ending: _key(job, f"file {ending}"),
    )
