"""A table whose missing cells were filled: how far to trust it, the table, and its files."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from app import downloads, figures, services, state
from app.words import count, markdown, number, shortened, told_apart
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job
from lvmcore.runs.labels import label_cells

__all__ = ["FIGURES", "check", "table"]

#: Rows of the table that the page shows; the files hold all.
_MOST_SHOWN = 200
#: Columns that the page shows unless somebody asks for others, and at most.
_SHOWN_AT_FIRST, _MOST_COLUMNS = 10, 30
#: Digits of a known and of a filled cell in the table.
_DIGITS, _DIGITS_FILLED = 6, 3
#: Hidden cells of a column that the figure shows.
_MOST_DRAWN = 400
#: A fill with a larger share of the column means' error is hardly better than these.
_HARDLY_BETTER = 0.95
_WITH_GAPS, _ALL = "with filled cells", "all"
#: Figures of a check, and what the page calls them; those of the column means end in "_means".
FIGURES = {
    "cells_coverage_50": "inside their 50 % interval",
    "cells_coverage_90": "inside their 90 % interval",
    "cells_coverage_95": "inside their 95 % interval",
    "impute_rmse": "error (RMSE), in sd",
    "cells_nlpd": "NLPD, in nats",
}
_AIMS = {
    "cells_coverage_50": "50 %",
    "cells_coverage_90": "90 %",
    "cells_coverage_95": "95 %",
    "impute_rmse": "low",
    "cells_nlpd": "low",
}
_WIDTHS = {
    "narrow": "The intervals are too narrow: filled cells are off by more than their sd says.",
    "wide": "The intervals are wider than they need be: filled cells are off by less than their "
    "sd says.",
}


def _key(job: Job, name: str) -> str:
    return state.widget("impute", job.id, name)


# ---- how far to trust it ---------------------------------------------------------------------


def check(job: Job, gaps: services.Gaps) -> None:
    """What came of hiding known cells.

    Args:
        job: what filled the table, done.
        gaps: the cells that it filled.
    """
    from lvmcore.runs.hidden import width

    st.header("How far to trust the filled cells")
    value = {key: metric.value for key, metric in job.metrics.items()}
    covered, error = value.get("cells_coverage_90"), value.get("impute_rmse")
    try:
        cells = services.hidden_cells(job.id)
    except LatentboardError as problem:
        st.error(markdown(problem))
        return
    if covered is None or error is None:
        st.info("There was no known cell to hide, so nothing says how good the filled cells are.")
        return
    by_means = value["impute_rmse_means"]
    st.markdown(
        f"**90 % intervals held {_share(covered)} of {count(len(cells), 'hidden known cell')}**; "
        f"typical error **{number(error, 3)}** against **{number(by_means, 3)}** for column means, "
        "in standard deviations of each column."
    )
    found = width(covered, 0.9, len(cells))
    if found != "fair":
        st.warning(_WIDTHS[found])
    if by_means is not None and error > _HARDLY_BETTER * by_means:
        st.warning(
            "Column means would have done about as well: here the columns say little about each "
            "other, or the model is too small to learn it."
        )
    numbers, picture = st.columns([2, 3], gap="large")
    with numbers:
        _numbers(job)
    with picture:
        _hidden(job, cells, gaps)


def _share(value: float | None) -> str:
    """A share of cells in per cent."""
    return "–" if value is None else f"{100 * value:.0f} %"


def _numbers(job: Job) -> None:
    """Coverage, error and density beside those of the column means."""

    def texts(suffix: str) -> list[str]:
        values = {key: job.metrics[key + suffix].value for key in FIGURES}
        return [
            _share(value) if "coverage" in key else number(value, 3)
            for key, value in values.items()
        ]

    st.dataframe(
        pd.DataFrame(
            {
                "hidden cells": list(FIGURES.values()),
                "model": texts(""),
                "means": texts("_means"),
                "aim": list(_AIMS.values()),
            }
        ),
        hide_index=True,
        column_config={
            "hidden cells": st.column_config.TextColumn(width=178),
            "model": st.column_config.TextColumn(alignment="right", width=54),
            "means": st.column_config.TextColumn(
                alignment="right", width=58, help="Mean and sd of each column in place of a model"
            ),
            "aim": st.column_config.TextColumn(alignment="right", width=50),
        },
        key=_key(job, "figures"),
        alt="The check in numbers",
    )
    protocol = job.metrics["impute_rmse"].protocol
    st.caption(
        f"{markdown(protocol)} NLPD is minus the log predictive density of a hidden cell, mean "
        "over cells, on that scale."
    )


def _hidden(job: Job, cells: pd.DataFrame, gaps: services.Gaps) -> None:
    """What was filled in against the truth, for one column."""
    from lvmcore.runs.filling import CHECK_LEVEL

    hidden = cells["feature"].value_counts(sort=False)
    names = [str(name) for name in hidden.index]
    titles = told_apart(f"{shortened(name, 50)} ({hidden[name]} hidden)" for name in names)
    most = max(range(len(names)), key=lambda i: gaps.missing.get(names[i], 0))
    place = st.selectbox(
        "Column",
        range(len(names)),
        index=most,
        format_func=titles.__getitem__,
        key=_key(job, "column"),
        help="The column whose hidden cells are compared with what the model expected.",
    )
    ours = cells[cells["feature"] == names[place]]
    drawn = ours.iloc[figures.evenly(len(ours), _MOST_DRAWN)]
    st.plotly_chart(
        figures.hidden_figure(
            figures.Hidden(
                drawn["row_id"].tolist(),
                *(drawn[part].to_numpy() for part in ("truth", "mean", "lower", "upper")),
            ),
            names[place],
            CHECK_LEVEL,
            dark=state.dark(),
        ),
        theme=None,
        key=_key(job, "hidden"),
        config={"displayModeBar": False},
        alt="Hidden cells, as they were and as filled in",
    )
    said = "A bar is the 90 % interval of a cell; on the dotted line it is filled in exactly."
    if len(drawn) < len(ours):
        said += f" {len(drawn)} of {count(len(ours), 'cell')} are drawn, evenly spaced."
    st.caption(said)


# ---- the table and the files -----------------------------------------------------------------


def table(job: Job) -> None:
    """The filled table, and the files of it.

    Args:
        job: what filled it; the check may be under way still.
    """
    try:
        frame = services.completed(job.id)
        columns = services.filled_columns(job.spec.dataset)
    except LatentboardError as error:
        st.error(markdown(error))
        return
    title, files = st.columns([2, 3], vertical_alignment="bottom")
    title.header("The filled table")
    with files, st.container(horizontal=True, horizontal_alignment="right"):
        _files(job)
    flags = {names.value: names.imputed for names in columns}
    filled = frame[[flag for flag in flags.values() if flag]].to_numpy()
    some = np.asarray(filled.any(axis=1))
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="bottom"
    ):
        groups = {_WITH_GAPS: some, _ALL: np.ones(len(frame), dtype=np.bool_)}
        group = st.segmented_control(
            "Rows",
            list(groups),
            default=_WITH_GAPS,
            required=True,
            format_func=lambda name: f"{name} ({int(groups[name].sum())})",
            key=_key(job, "group"),
            help="Which rows the table below shows.",
        )
        shown = _columns(job, flags)
    rows = frame.loc[groups[group]]
    names = ["row_id", *label_cells(services.stored_dataset(job.spec.dataset)), *shown]
    _cells(job, rows.head(_MOST_SHOWN), names, flags)
    said = [
        "Tinted cells were filled in, shown with three digits; the files hold all, and their sd."
    ]
    if len(rows) > _MOST_SHOWN:
        said.insert(0, f"The first {_MOST_SHOWN} of {count(len(rows), 'row')}.")
    st.caption(" ".join(said))


def _columns(job: Job, flags: dict[str, str]) -> list[str]:
    """The columns to show: all of a few, else those that lacked cells first."""
    first = [*filter(flags.get, flags), *(name for name in flags if not flags[name])]
    if len(first) <= _SHOWN_AT_FIRST:
        return list(flags)
    with st.popover("Columns"):
        return st.multiselect(
            f"Columns, {_MOST_COLUMNS} at most",
            first,
            default=first[:_SHOWN_AT_FIRST],
            max_selections=_MOST_COLUMNS,
            key=_key(job, "columns"),
            help="Which columns the table below shows.",
        )


def _cells(job: Job, rows: pd.DataFrame, names: list[str], flags: dict[str, str]) -> None:
    """Some rows with the chosen columns, the filled cells marked.

    Args:
        job: what filled them.
        rows: of the filled table.
        names: of the columns to show.
        flags: name of the flags of each column that may have been filled; "" without any.
    """
    none = np.zeros(len(rows), dtype=np.bool_)
    filled = np.column_stack(
        [rows[flags[name]] if flags.get(name) else none for name in names],
    )
    marker = told_apart([*names, "filled"])[-1]
    shown = rows[names].reset_index(drop=True)
    texts = [", ".join(np.array(names, dtype=object)[row]) for row in filled]
    css = np.where(filled, f"background-color: {figures.veil(state.dark())}", "").astype(object)
    css = np.insert(css, 1, "", axis=1)
    shown.insert(1, marker, texts)
    styler = shown.style.apply(lambda _: css, axis=None)
    for name, rows_filled in zip(names, filled.T, strict=True):
        if name in flags:
            for digits, chosen in ((_DIGITS, ~rows_filled), (_DIGITS_FILLED, rows_filled)):
                places = (np.flatnonzero(chosen), [name])
                styler = styler.format(partial(_figure, digits=digits), subset=places)
    st.dataframe(
        styler,
        hide_index=True,
        height=320,
        column_config={
            "row_id": st.column_config.TextColumn("row"),
            marker: st.column_config.TextColumn(
                width=130, help="Which of the shown columns were filled in"
            ),
        },
        key=_key(job, "rows"),
        alt="The filled table",
    )


def _figure(value: object, *, digits: int) -> str:
    """A cell with so many digits, less the zeros at its end."""
    if not isinstance(value, float):
        return str(value)
    text = number(value, digits)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def _files(job: Job) -> None:
    downloads.offer(
        "Filled table",
        "completed",
        csv=partial(services.completed_csv, job.id),
        parquet=partial(services.completed_parquet, job.id),
        about="Row id, label and every column; for each that lacked cells also '… sd', the "
        "standard deviation of what was filled in, and '… imputed', which cells these are.",
        key=lambda ending: _key(job, f"file {ending}"),
    )
