"""Papers: the figures of the papers beside those measured here, and the fits behind them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import streamlit as st

from app.analysis.papers.catalogue import Paper, PaperTable, papers
from app.analysis.papers.measured_figures import (
    Comparison,
    Measurement,
    compare,
    comparison_table,
    figure_text,
    read_measurements,
    short_title,
    summary,
)
from app.formatting import listed, markdown
from app.state.session import session
from app.state.widgets import widget_key, widget_value
from app.views.papers.figure_panel import figures_panel
from app.views.papers.fit_recipes import fit_panel
from lvmcore.models import REGISTRY

_DIGITS = 4
#: Rows of a table that is drawn whole, and height in pixels of a longer one.
_MOST_ROWS, _HEIGHT = 16, 562
_COLUMNS = {
    "Data": st.column_config.TextColumn(width=140),
    "Model": st.column_config.TextColumn(width=186),
    "Paper": st.column_config.NumberColumn(format=f"%.{_DIGITS}g", width=58),
    "Here": st.column_config.TextColumn(
        width=130, help="Mean and sd over folds or seeds, as the table's protocol says"
    ),
    "Verdict": st.column_config.TextColumn(
        width=98, help="Here against the paper; the sd is the larger of ours and the paper's"
    ),
}


def page() -> None:
    """Draw the page."""
    st.title("Papers")
    known = {paper.key: paper for paper in papers()}
    paper = known.get(session.paper or "", papers()[0])
    key = widget_key("papers", "paper")
    st.segmented_control(
        "Paper",
        list(known),
        default=paper.key,
        format_func=lambda one: known[one].title,
        key=key,
        on_change=partial(_choose_paper, key),
        label_visibility="collapsed",
        required=True,
        help="The paper whose figures are shown.",
    )
    titles = {key: declared.title for key, declared in REGISTRY.declarations.items()}
    left, right = st.columns([2.4, 1], gap="large")
    measurements = read_measurements()
    found = [compare(table, measurements) for table in paper.tables]
    with left:
        _introduction(paper, titles)
        in_tables, in_figures = st.tabs(["Tables", "Figures"])
        with in_tables:
            for position, (table, figures) in enumerate(zip(paper.tables, found, strict=True)):
                _table(paper, position, table, figures, titles)
        with in_figures:
            figures_panel(paper)
    with right, st.container(key="papers-panel"):  # stays in view beside the tables
        _panel(paper, found, titles, measurements)


def _choose_paper(key: str) -> None:
    session.paper = widget_value(key)


def _introduction(paper: Paper, titles: Mapping[str, str]) -> None:
    st.markdown(markdown(paper.claim))
    st.caption(markdown(f"{paper.name}. {paper.authors}."))
    models = list(dict.fromkeys(short_title(titles[key]) for key in paper.models if key in titles))
    st.caption(markdown(f"Models here: {listed(models, len(models))}."))


def _table(
    paper: Paper,
    position: int,
    table: PaperTable,
    figures: tuple[Comparison, ...],
    titles: Mapping[str, str],
) -> None:
    """A table of a paper with our figures; a click on a row selects its figure."""
    st.header(table.title)
    selected = session.paper_row[paper.key]
    chosen = selected[1] if selected is not None and selected[0] == position else None
    # A table whose selection moved to another is drawn anew, without a selection.
    key = widget_key("papers", "table", paper.key, position, chosen is not None)
    st.dataframe(
        comparison_table(figures, titles),
        hide_index=True,
        key=key,
        on_select=partial(_select, paper.key, position, key),
        selection_mode="single-row",
        selection_default={"selection": {"rows": [] if chosen is None else [chosen]}},
        placeholder="–",
        height="content" if len(figures) <= _MOST_ROWS else _HEIGHT,
        column_config=_COLUMNS,
        alt=table.title,
    )
    st.caption(markdown(f"{summary(figures)} Here: {table.protocol}"))


def _select(paper: str, position: int, key: str) -> None:
    rows = widget_value(key).selection.rows
    session.paper_row[paper] = (position, rows[0]) if rows else None


def _panel(
    paper: Paper,
    found: list[tuple[Comparison, ...]],
    titles: Mapping[str, str],
    measurements: Mapping[tuple[str, str], Measurement],
) -> None:
    """The selected figure: both protocols, and the fit behind it."""
    selected = session.paper_row[paper.key]
    if selected is None:
        st.info(
            "Select a row of a table to see how both figures were measured, and to fit its model "
            "to its data."
        )
        if not measurements:
            st.warning(
                "The stored measurements (assets/benchmarks.json) are not part of this "
                "installation. `lvmcore bench all` measures them."
            )
        return
    table, figure = paper.tables[selected[0]], found[selected[0]][selected[1]]
    st.header(markdown(f"{titles.get(figure.row.model, figure.row.model)}, {figure.row.data}"))
    fit_panel(figure.row)
    st.markdown(_both(table, figure))
    if figure.row.remark:
        st.markdown(markdown(figure.row.remark))
    st.markdown(markdown(f"Paper: {table.paper_protocol}"))
    st.markdown(markdown(f"Here: {table.protocol}"))
    if figure.measured is not None:
        _provenance(table, figure, figure.measured)


def _both(table: PaperTable, figure: Comparison) -> str:
    sd = "" if figure.row.paper_sd is None else f" ± {figure.row.paper_sd:g}"
    text = f"{table.measure}: {figure.row.paper:.{_DIGITS}g}{sd} in the paper"
    if figure.measured is None:
        return f"{text}, not measured here."
    return f"{text}, {figure_text(figure.measured)} here: **{figure.verdict}**."


def _provenance(table: PaperTable, figure: Comparison, measured: Measurement) -> None:
    """Settings, machine and commit of a measurement, folded."""
    with st.expander("Settings, machine and commit"):
        rows = [f"{name}: {value}" for name, value in measured.settings.items()]
        st.caption(markdown(f"Benchmark {table.benchmark}: {figure.row.measured}."))
        if measured.reference:
            st.caption(markdown(f"Beside it: {measured.reference}."))
        st.caption(markdown("; ".join(rows)))
        st.caption(markdown(f"Machine: {measured.machine or 'not noted'}."))
        st.caption(markdown(f"Commit: {measured.commit or 'not noted'}."))


if __name__ == "__main__":  # as the navigation runs it
    page()
