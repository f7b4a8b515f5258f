"""The selected rows: their number, contrast to the other rows, table and CSV download."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.analysis.filters.selection_terms import region_and_others, terms_of, with_region
from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.region_probability import SEED, RegionProbability
from app.analysis.map.regions import Region
from app.analysis.map.selection_contrast import ColumnContrast, ContrastRanking
from app.analysis.map.selections import Selection, describe_selection
from app.components.map.row_focus import focus_row, on_row_click
from app.components.map.side_panel import COLUMNS, SELECTION, is_open, open_tab
from app.figures import paired_histograms
from app.formatting import count, markdown, number, shortened
from app.services import row_analysis
from app.state.session import session
from app.state.widgets import map_widget_key, set_widget_value, widget_value
from lvmcore.data import Dataset
from lvmcore.export.tables import to_csv_bytes

__all__ = [
    "MOST_SHOWN",
    "contrast_panel",
    "select_region",
    "selected_rows_panel",
    "selection_panel",
]

#: Most rows and cells of a selection on the page, and most characters of a cell; the file holds
#: all.
MOST_SHOWN, MOST_CELLS, MOST_CHARACTERS = 1000, 200_000, 200
#: Title of the column of posterior probabilities to lie inside the region.
INSIDE = "P(inside)"
#: Number of columns drawn by default, and of further columns per click.
FIRST_PAIRS, MORE_PAIRS = 3, 6
#: Most columns that are drawn.
MOST_PAIRS = 45


@dataclass(frozen=True)
class _SelectedRows:
    """Selected rows, as the page shows them.

    Attributes:
        dataset: all rows.
        chosen: mask of the selected rows, [N].
        description: description of the selection, as Markdown.
        key: gives the widget keys.
        clear: clears the selection.
        inside: posterior probability of each row to lie inside; None if it is not known.
        focus: puts a row in focus, given its position; None for a table without clicks.
    """

    dataset: Dataset
    chosen: NDArray[np.bool_]
    description: str
    key: Callable[[str], str]
    clear: Callable[[], None]
    inside: RegionProbability | None = None
    focus: Callable[[int], None] | None = None

    def frame(self, most: int) -> pd.DataFrame:
        """The first of the rows with all columns of the table."""
        first = np.flatnonzero(self.chosen)[:most]
        return _selection_table(self.dataset, first, self.inside)


def select_region(fitted_map: FittedMap, region: Region) -> None:
    """Select the rows of a region that was drawn on the map, and show them; for callbacks."""
    run = fitted_map.run
    session.selection[run] = with_region(session.selection[run], region)
    if not is_open(fitted_map, COLUMNS):  # whose charts show the selection, too
        open_tab(fitted_map, SELECTION)


def selection_panel(fitted_map: FittedMap) -> None:
    """Draw the selected rows of the map, with the columns that differ most."""
    rows = _rows_of(fitted_map)
    if rows is None:
        st.caption(
            "No rows are selected. Draw a box or a lasso on the map, find rows here, or filter by "
            "columns under Columns."
        )
        return
    _head(rows)
    if rows.chosen.any():
        ranking = row_analysis.rank_columns(rows.dataset, rows.chosen)
        if ranking is not None and ranking.columns:
            st.markdown(_largest_contrasts(ranking))
        _table_of(rows)


def contrast_panel(fitted_map: FittedMap) -> None:
    """Draw the columns of the selected rows against those of the others."""
    rows = _rows_of(fitted_map)
    if rows is None or not rows.chosen.any():
        st.caption("Select rows on the map to compare their columns with those of the others.")
        return
    _contrast(rows.dataset, rows.chosen, rows.key)


def _rows_of(fitted_map: FittedMap) -> _SelectedRows | None:
    """The selected rows of a map; None without a selection."""
    selection = session.selection[fitted_map.run]
    if selection is None:
        return None
    return _SelectedRows(
        fitted_map.dataset,
        row_analysis.selection_mask(fitted_map.run, selection),
        markdown(_description(selection)),
        key=partial(map_widget_key, fitted_map),
        clear=partial(session.selection.set, fitted_map.run, None),
        inside=_region_probability(fitted_map, selection),
        focus=partial(focus_row, fitted_map),
    )


def _description(selection: Selection) -> str:
    """The condition of a selection; of several conditions their number, as the chips show them."""
    terms = terms_of(selection)
    return describe_selection(selection) if len(terms) == 1 else f"by {len(terms)} conditions"


def selected_rows_panel(
    dataset: Dataset,
    chosen: NDArray[np.bool_],
    description: str,
    *,
    key: Callable[[str], str],
    clear: Callable[[], None],
) -> None:
    """Draw selected rows: number, download, contrast to the other rows, and table.

    Args:
        dataset: all rows.
        chosen: mask of the selected rows, [N].
        description: description of the selection, as Markdown.
        key: gives the widget keys.
        clear: clears the selection.
    """
    rows = _SelectedRows(dataset, chosen, description, key, clear)
    _head(rows)
    if chosen.any():
        _contrast(dataset, chosen, key)
        _table_of(rows)


def _head(rows: _SelectedRows) -> None:
    """Number and description of the rows, their file, and the button that clears the selection."""
    n, dataset = int(rows.chosen.sum()), rows.dataset
    st.markdown(f"{count(n, 'row')} of {count(len(dataset), 'row')}, {rows.description}.")
    with st.container(horizontal=True):
        st.download_button(
            "Selection as CSV",
            lambda: to_csv_bytes(rows.frame(len(dataset))),
            file_name="selection.csv",
            mime="text/csv",
            on_click="ignore",
            disabled=n == 0,
            help="The selected rows with all columns of the table.",
            key=rows.key("selection csv"),
        )
        st.button(
            "Clear the selection",
            on_click=rows.clear,
            help="Clears the selection; the Esc key does too.",
            shortcut="Esc",
            key=rows.key("clear"),
        )
    if n == 0:
        st.info("No row is selected. Draw around some rows, or remove a condition.")


def _table_of(rows: _SelectedRows) -> None:
    """The table of the rows, and what is expected of their positions."""
    columns = rows.frame(0).shape[1]
    places, most = np.flatnonzero(rows.chosen), max(1, min(MOST_SHOWN, MOST_CELLS // columns))
    if len(places) > most:
        st.caption(f"The first {most} of them; the file holds all.")
    _table(_truncated(rows.frame(most)), places, rows.key("rows"), rows.focus)
    if rows.inside is not None:
        st.caption(_expected_rows(rows.inside, len(rows.dataset)))


def _largest_contrasts(ranking: ContrastRanking) -> str:
    """The columns that differ most, in a line."""
    named = ", ".join(
        f"{markdown(shortened(column.name, 24))} {column.distance:.2f}"
        for column in ranking.columns[:FIRST_PAIRS]
    )
    return f"**Contrast to the other rows**: {named}. All of them are under Columns."


def _truncated(frame: pd.DataFrame) -> pd.DataFrame:
    """The same rows, with truncated texts."""
    found = frame.copy()
    for name, dtype in frame.dtypes.items():
        if dtype.kind == "O":
            found[name] = frame[name].map(_truncated_cell)
    return found


def _truncated_cell(cell: object) -> object:
    if not isinstance(cell, str) or len(cell) <= MOST_CHARACTERS:
        return cell
    return shortened(cell, MOST_CHARACTERS)


def _table(
    frame: pd.DataFrame,
    rows: NDArray[np.intp],
    key: str,
    focus: Callable[[int], None] | None,
) -> None:
    """The table of selected rows; with ``focus``, a click on a line puts its row in focus."""
    options: dict[str, Any] = {"hide_index": True, "height": 320, "alt": "Selected rows"}
    if focus is None:
        st.dataframe(frame, key=key, **options)
        return
    # The key depends on the rows, since a clicked cell refers to them.
    key = f"{key} {hash(rows.tobytes())}"
    on_select = partial(on_row_click, rows, key, focus)
    st.dataframe(frame, key=key, on_select=on_select, selection_mode="single-cell", **options)


def _selection_table(
    dataset: Dataset, chosen: NDArray[np.intp], inside: RegionProbability | None = None
) -> pd.DataFrame:
    """Some rows with all columns of the table, their names first."""
    frame = dataset.frame.iloc[chosen]
    names = "row_id" if "row_id" not in frame else "row id on the map"
    first = [pd.Series(dataset.row_ids[chosen], index=frame.index, name=names)]
    if inside is not None:
        probable = INSIDE if INSIDE not in frame else f"{INSIDE} on the map"
        first.append(pd.Series(inside.probability[chosen], index=frame.index, name=probable))
    return pd.concat([*first, frame], axis="columns")


def _region_probability(fitted_map: FittedMap, selection: Selection) -> RegionProbability | None:
    """Posterior probability of rows to lie in the region of a selection, if it has one."""
    parts = region_and_others(selection)
    if parts is None or not fitted_map.model.capabilities.uncertainty:
        return None
    return row_analysis.probability_in_region(fitted_map.run, *parts)


def _expected_rows(inside: RegionProbability, n: int) -> str:
    """Expected number of rows inside the region, by the posterior."""
    others = n > inside.considered
    text = (
        f"Latent positions are uncertain: by the posterior, {inside.expected:.1f} ± "
        f"{inside.sd:.1f} rows {'that meet the other conditions ' if others else ''}lie inside "
        f"(expected number ± sd; {inside.draws} draws of each row near an edge, seed {SEED}). The "
        f"column {INSIDE} of the table and the file is the probability of each row."
    )
    without = int(np.isnan(inside.probability).sum()) - (n - inside.considered)
    if without:
        text += f" It was computed for evenly spaced rows; {count(without, 'row')} have none."
    return text


def _contrast(dataset: Dataset, chosen: NDArray[np.bool_], key: Callable[[str], str]) -> None:
    """The columns with the largest contrast to the other rows, as paired histograms."""
    ranking = row_analysis.rank_columns(dataset, chosen)
    if ranking is None:
        st.caption("Every row is selected, so there are no other rows to compare with.")
        return
    st.markdown("**Contrast to the other rows**")
    if not ranking.columns:
        st.caption("No column varies among both the selected and the other rows.")
        return
    st.caption(_ranking_note(ranking, len(dataset)))
    number_key = key("pairs")
    shown = ranking.columns[: widget_value(number_key) or FIRST_PAIRS]
    st.html(
        paired_histograms.paired_histograms_html(
            row_analysis.paired_histograms(dataset, chosen, tuple(column.name for column in shown)),
            [column.distance for column in shown],
            dark=session.is_dark,
        )
    )
    left = min(MOST_PAIRS, len(ranking.columns)) - len(shown)
    if left > 0:
        more = min(left, MORE_PAIRS)
        st.button(
            f"Show {count(more, 'more column', 'more columns')}",
            on_click=set_widget_value,
            args=(number_key, len(shown) + more),
            help="The next columns of the ranking.",
            key=key("more pairs"),
        )
    with st.expander(f"All {count(len(ranking.columns), 'column')}, ranked"):
        st.dataframe(
            _ranking_table(ranking.columns),
            hide_index=True,
            column_config={
                "distance": st.column_config.NumberColumn(format="%.2f"),
                "mean, selected": st.column_config.NumberColumn(format="%.4g"),
                "mean, the others": st.column_config.NumberColumn(format="%.4g"),
            },
            key=key("ranking"),
            alt="Columns by their contrast between the selection and the other rows",
        )


def _ranking_note(ranking: ContrastRanking, rows: int) -> str:
    """Definition of the ranking, with the distance by chance."""
    text = (
        "Columns by Kolmogorov–Smirnov distance: the largest difference between the shares of "
        "selected and of other rows up to any value, or with any category. 0 means equal "
        "distributions, 1 disjoint ones. For rows picked at random, one column in twenty reaches "
        f"{number(min(1.0, ranking.by_chance), 2)} or more."
    )
    first = ranking.columns[0]
    if first.distance < ranking.by_chance:
        text += " No column here exceeds that."
    inside, outside = ranking.compared
    if inside + outside < rows:
        text += (
            f" Compared: {count(inside, 'selected row')} and {count(outside, 'other')}, evenly "
            "spaced."
        )
    return text


def _ranking_table(columns: tuple[ColumnContrast, ...]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "column": [shortened(column.name, 60) for column in columns],
            "distance": [column.distance for column in columns],
            "mean, selected": [column.inside for column in columns],
            "mean, the others": [column.outside for column in columns],
            "category that differs most": [
                None if column.level is None else shortened(column.level) for column in columns
            ],
        }
    )
