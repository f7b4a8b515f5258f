"""Compare: the trails of rows from one map to another, and what they keep on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app import chart, comparing, state
from app.colouring import Colouring
from app.comparing import Side
from app.figures.journey import journey
from app.trails import MOST, Trails, furthest, trails
from app.words import count, number, shortened, told_apart
from lvmcore.data import Dataset
from lvmcore.runs import Job

__all__ = ["show"]

#: Rows that move furthest: so many are named.
FURTHEST = 5

_key = partial(state.widget, "compare", "trails")
_view = st.components.v2.component(
    "latentboard.trails", js=(Path(__file__).parent / "static" / "trails.js").read_text("utf-8")
)


def show(
    jobs: Sequence[Job],
    maps: Mapping[str, Side],
    whole: Dataset,
    look: Colouring,
    chosen: NDArray[np.bool_] | None,
) -> None:
    """Draw the trails between two of the maps; nothing where no two lie over one another.

    Args:
        jobs: the runs side by side.
        maps: the maps that are there, by run.
        whole: all rows of the dataset.
        look: how its rows are coloured.
        chosen: which of them are selected, [N]; None without a selection.
    """
    flat = [job for job in jobs if job.id in maps and _laid_over(maps[job.id], maps)]
    if len(flat) < 2:
        return
    st.header("From one map to another")
    titles = comparing.names(flat)
    told = told_apart(shortened(titles[job.id], 60) for job in flat)
    named = {job.id: name for job, name in zip(flat, told, strict=True)}
    first, second = _ends(named)
    found = trails(maps[first], maps[second], chosen)
    if found is None:
        st.info("These two maps have too few rows in common, or all in one place: choose others.")
        return
    if not len(found.rows):
        st.info(
            "No selected row is on both maps. Select others, or clear the selection to see the "
            "rows whose neighbours change most."
        )
        return
    left, right = st.columns([1.7, 1], gap="medium")
    with left:
        _trails(found, whole, look, (named[first], named[second]), f"{first} {second}")
    with right:
        _kept(found, whole, look)
    st.caption(_about(found))


def _laid_over(side: Side, maps: Mapping[str, Side]) -> bool:
    """Whether a map lies over the first one: of others the units are their own."""
    first = next(iter(maps.values()))
    return side.axes[1] is not None and (side is first or side.alignment is not None)


def _ends(named: Mapping[str, str]) -> tuple[str, str]:
    """Ask from which map to which."""
    left, right, _ = st.columns([1, 1, 1])
    runs = list(named)
    first = left.selectbox(
        "From",
        runs,
        format_func=lambda run: named.get(run, ""),
        key=_key("from", *runs),
        help="The map on which the rows begin.",
    )
    others = [run for run in runs if run != first]
    second = right.selectbox(
        "To",
        others,
        format_func=lambda run: named.get(run, ""),
        key=_key("to", first, *others),
        help="The map on which they end, laid over the other as above.",
    )
    return first, second


def _trails(
    found: Trails, whole: Dataset, look: Colouring, ends: tuple[str, str], turn: str
) -> None:
    drawn = found.rows[found.drawn]
    lines = chart.hover(whole, look, found.place[drawn])
    for line, kept, moved in zip(lines, found.kept[found.drawn], found.moved[drawn], strict=True):
        line.append(f"moves {number(float(moved), 2)} radii, keeps {kept:.0%} of its neighbours")
    data = journey(found, look, lines, ends, turn=turn, dark=state.dark())
    _view(key=_key("view"), data=data)


def _kept(found: Trails, whole: Dataset, look: Colouring) -> None:
    """How many neighbours the rows keep, and which rows move furthest."""
    what = "all rows" if found.unasked else count(len(found.rows), "selected row")
    if found.thinned:
        what = f"{count(len(found.rows), 'row')}, evenly spaced"
    st.markdown(
        f"**{found.kept.mean():.0%}** of the {found.neighbours} nearest neighbours are kept, on "
        f"average over {what}; by chance {found.chance:.0%}."
    )
    st.markdown("**Rows that move furthest**")
    most = furthest(found, FURTHEST)
    rows = found.rows[most]
    frame = pd.DataFrame(
        {
            "row": [shortened(name, 24) for name in whole.row_ids[found.place[rows]]],
            "moved, radii": found.moved[rows],
            "kept": found.kept[most],
        }
    )
    named = whole.label_columns
    first = look.title if look is not None and look.title in named else next(iter(named), None)
    if first is not None:
        title = shortened(first, 24) if shortened(first, 24) not in frame else "label"
        cells = named[first][found.place[rows]]
        told = ["(missing)" if cell is None else shortened(cell, 24) for cell in cells]
        frame.insert(1, title, told)
    st.dataframe(
        frame,
        hide_index=True,
        column_config={
            "moved, radii": st.column_config.NumberColumn(
                format="%.2f", help="Distance between both places, in radii of the first map."
            ),
            "kept": st.column_config.NumberColumn(
                format="percent", help=f"Of its {found.neighbours} nearest rows on the first map."
            ),
        },
        key=_key("furthest"),
        alt="Rows that move furthest from one map to the other",
    )


def _about(found: Trails) -> str:
    """What is drawn and what not, in a few plain sentences."""
    drawn, looked_at = len(found.drawn), len(found.rows)
    if found.unasked:
        said = [
            f"Nothing is selected: drawn are the {count(drawn, 'row')} that keep the fewest "
            "neighbours. Encircle rows on a map above to follow those instead."
        ]
    elif drawn < looked_at or found.thinned:
        said = [f"{count(drawn, 'trail')} drawn, evenly spaced; {MOST} at most."]
    else:
        said = [f"{count(drawn, 'selected row')} drawn."]
    if found.absent:
        said.append(f"{count(found.absent, 'selected row')} not on both maps.")
    said.append(
        "The arrows end where the rows are on the second map; faint are the other rows there. "
        "Neighbours and distances are those on the maps as drawn; a radius is the root mean square "
        "distance of the rows from the middle of the first map."
    )
    return " ".join(said)
