"""The selected rows: how many, what sets them apart, their table and a file of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app import figures, looking, services, state
from app.apart import Apart, Ranking
from app.lying import SEED, Lying
from app.opened import Opened
from app.regions import Region
from app.selections import Selection, said
from app.words import count, markdown, number, shortened
from lvmcore.data import Dataset
from lvmcore.runs import to_csv_bytes

__all__ = ["MOST_SHOWN", "selected_rows", "selection"]

#: Rows, and cells, of a selection that the page shows at most, and characters of a cell; the file
#: holds all.
MOST_SHOWN, MOST_CELLS, MOST_CHARACTERS = 1000, 200_000, 200
#: The column with the probability of each row to lie inside.
INSIDE = "P(inside)"
#: Columns that are drawn unasked, and how many more at a click.
FIRST_PAIRS, MORE_PAIRS = 3, 6
#: The most columns that are drawn.
MOST_PAIRS = 45


def selection(opened: Opened) -> None:
    """The selected rows of the map; nothing without a selection."""
    made = state.selection(opened.run)
    if made is None:
        return
    st.header("The selection")
    selected_rows(
        opened.dataset,
        services.selected(opened.run, made),
        markdown(said(made)),
        key=opened.key,
        clear=partial(state.set_selection, opened.run, None),
        lying=_lying(opened, made),
        look=partial(looking.look_at, opened),
    )


def selected_rows(
    dataset: Dataset,
    chosen: NDArray[np.bool_],
    made: str,
    *,
    key: Callable[[str], str],
    clear: Callable[[], None],
    lying: Lying | None = None,
    look: Callable[[int], None] | None = None,
) -> None:
    """Selected rows: how many, a file of them, what sets them apart, and their table.

    Args:
        dataset: all rows.
        chosen: which of them are selected, [N].
        made: how the selection was made, in words for Markdown.
        key: gives the keys of the widgets.
        clear: forgets the selection.
        lying: how probable it is that each row lies inside; None where that is not known.
        look: looks at a row, given its position; None where there is nothing to see.
    """
    n = int(chosen.sum())
    st.markdown(f"{count(n, 'row')} of {count(len(dataset), 'row')}, {made}.")
    if lying is not None:
        st.caption(_expected(lying))
    frame = _listing(dataset, chosen, lying)
    with st.container(horizontal=True):
        st.download_button(
            "Selection as CSV",
            partial(to_csv_bytes, frame),
            file_name="selection.csv",
            mime="text/csv",
            on_click="ignore",
            disabled=n == 0,
            help="The selected rows with all columns of the table.",
            key=key("selection csv"),
        )
        st.button(
            "Clear the selection",
            on_click=clear,
            help="Select nothing; the Esc key does it too.",
            shortcut="Esc",
            key=key("clear"),
        )
    if n == 0:
        st.info("No row lies there. Draw around some rows, or clear the selection.")
        return
    _apart(dataset, chosen, key)
    most = max(1, min(MOST_SHOWN, MOST_CELLS // frame.shape[1]))
    if n > most:
        st.caption(f"The first {most} of them; the file holds all.")
    _table(_cut(frame.head(most)), np.flatnonzero(chosen), key("rows"), look)


def _cut(frame: pd.DataFrame) -> pd.DataFrame:
    """The same rows, with long texts cut short."""
    found = frame.copy()
    for name, dtype in frame.dtypes.items():
        if dtype.kind == "O":
            found[name] = frame[name].map(_short)
    return found


def _short(cell: object) -> object:
    if not isinstance(cell, str) or len(cell) <= MOST_CHARACTERS:
        return cell
    return shortened(cell, MOST_CHARACTERS)


def _table(
    frame: pd.DataFrame,
    rows: NDArray[np.intp],
    key: str,
    look: Callable[[int], None] | None,
) -> None:
    """The selected rows; where there is something to see, a click on one looks at it."""
    alike: dict[str, Any] = {"hide_index": True, "height": 320, "alt": "Selected rows"}
    if look is None:
        st.dataframe(frame, key=key, **alike)
        return
    # Keyed on its rows: the cell that was clicked belongs to them.
    key = f"{key} {hash(rows.tobytes())}"
    take = partial(looking.clicked, rows, key, look)
    st.dataframe(frame, key=key, on_select=take, selection_mode="single-cell", **alike)


def _listing(
    dataset: Dataset, chosen: NDArray[np.bool_], lying: Lying | None = None
) -> pd.DataFrame:
    """The selected rows with all columns of the table, their names first."""
    frame = dataset.frame[chosen]
    names = "row_id" if "row_id" not in frame else "row id on the map"
    first = [pd.Series(dataset.row_ids[chosen], index=frame.index, name=names)]
    if lying is not None:
        probable = INSIDE if INSIDE not in frame else f"{INSIDE} on the map"
        first.append(pd.Series(lying.probability[chosen], index=frame.index, name=probable))
    return pd.concat([*first, frame], axis="columns")


def _lying(opened: Opened, made: Selection) -> Lying | None:
    """How probable it is that rows lie in a region that was drawn, where the model says so."""
    if not isinstance(made, Region) or not opened.model.capabilities.uncertainty:
        return None
    return services.lying(opened.run, made)


def _expected(lying: Lying) -> str:
    """How many rows lie inside, as far as the model knows where they are."""
    said = (
        f"Each row's place is uncertain: by the fit's posterior {lying.expected:.1f} ± "
        f"{lying.sd:.1f} rows lie inside (expected number ± sd; {lying.draws} draws of each "
        f"row near an edge, seed {SEED}). The column {INSIDE} of the table and the file has each "
        "row's probability."
    )
    without = int(np.isnan(lying.probability).sum())
    if without:
        said += f" It was worked out for rows evenly spaced; {count(without, 'row')} have none."
    return said


# ---- what sets them apart --------------------------------------------------------------------


def _apart(dataset: Dataset, chosen: NDArray[np.bool_], key: Callable[[str], str]) -> None:
    """The columns in which selected rows differ most from the others, as paired histograms."""
    ranking = services.ranking(dataset, chosen)
    if ranking is None:
        st.caption("Every row is selected, so there are no others to set them apart from.")
        return
    st.markdown("**What sets them apart**")
    if not ranking.columns:
        st.caption("No column varies among both the selected rows and the others.")
        return
    st.caption(_reading(ranking, len(dataset)))
    asked = key("pairs")
    shown = ranking.columns[: state.value(asked) or FIRST_PAIRS]
    st.html(
        figures.pairs_html(
            services.pairs(dataset, chosen, tuple(column.name for column in shown)),
            [column.distance for column in shown],
            dark=state.dark(),
        )
    )
    left = min(MOST_PAIRS, len(ranking.columns)) - len(shown)
    if left > 0:
        more = min(left, MORE_PAIRS)
        st.button(
            f"Show {count(more, 'more column', 'more columns')}",
            on_click=state.set_value,
            args=(asked, len(shown) + more),
            help="The columns that come next in the ranking.",
            key=key("more pairs"),
        )
    with st.expander(f"All {count(len(ranking.columns), 'column')}, ranked"):
        st.dataframe(
            _ranked(ranking.columns),
            hide_index=True,
            column_config={
                "distance": st.column_config.NumberColumn(format="%.2f"),
                "mean, selected": st.column_config.NumberColumn(format="%.4g"),
                "mean, the others": st.column_config.NumberColumn(format="%.4g"),
            },
            key=key("ranking"),
            alt="Columns by how far they set the selection apart",
        )


def _reading(ranking: Ranking, rows: int) -> str:
    """What the ranking measures, and what not to read into it."""
    said = (
        "Columns by Kolmogorov–Smirnov distance: the largest gap between the shares of selected "
        "and of other rows up to any one value, or with any one category. 0 is alike, 1 fully "
        f"apart. Of rows picked at random, about one column in twenty would come "
        f"to {number(min(1.0, ranking.by_chance), 2)} or more."
    )
    first = ranking.columns[0]
    if first.distance < ranking.by_chance:
        said += " No column here goes beyond that."
    inside, outside = ranking.looked_at
    if inside + outside < rows:
        said += (
            f" Looked at: {count(inside, 'selected row')} and {count(outside, 'other')}, evenly "
            "spaced."
        )
    return said


def _ranked(columns: tuple[Apart, ...]) -> pd.DataFrame:
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
