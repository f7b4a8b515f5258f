"""Compare: trajectories of rows from one map to another, with the neighbours that they keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.resources import files

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.analysis.comparison import map_alignment
from app.analysis.comparison.map_alignment import AlignedMap
from app.analysis.comparison.trajectories import MOST, Trajectories, largest_moves, trajectories
from app.analysis.map.row_colours import Colouring
from app.components.map import row_texts
from app.formatting import count, distinct_titles, number, shortened
from app.state.session import session
from app.state.widgets import widget_key
from app.views.compare.figures import trajectory_figure
from lvmcore.data import Dataset
from lvmcore.runs import Job

__all__ = ["trajectories_panel"]

#: Number of rows with the largest displacement in the table.
MOST_LISTED = 5

_key = partial(widget_key, "compare", "trails")
_view = st.components.v2.component(
    "latentboard.trails",
    js="".join(
        files("app").joinpath("static", name).read_text("utf-8")
        for name in ("markers.js", "trails.js")
    ),
)


def trajectories_panel(
    jobs: Sequence[Job],
    maps: Mapping[str, AlignedMap],
    full_dataset: Dataset,
    colouring: Colouring,
    chosen: NDArray[np.bool_] | None,
) -> None:
    """Draw the trajectories between two of the maps; nothing without two aligned maps.

    Args:
        jobs: the compared runs.
        maps: the aligned maps, by run.
        full_dataset: the dataset with all rows.
        colouring: colours of its rows.
        chosen: mask of the selected rows, [N]; None without a selection.
    """
    aligned_jobs = [job for job in jobs if job.id in maps and _is_aligned(maps[job.id], maps)]
    if len(aligned_jobs) < 2:
        return
    st.header("From one map to another")
    titles = map_alignment.map_names(aligned_jobs)
    shown = distinct_titles(shortened(titles[job.id], 60) for job in aligned_jobs)
    named = {job.id: name for job, name in zip(aligned_jobs, shown, strict=True)}
    first, second = _ends(named)
    found = trajectories(maps[first], maps[second], chosen)
    if found is None:
        st.info(
            "These two maps have too few common rows, or all rows are at one point. Choose others."
        )
        return
    if not len(found.rows):
        st.info(
            "No selected row is on both maps. Select others, or clear the selection to see the "
            "rows whose neighbours change most."
        )
        return
    left, right = st.columns([1.7, 1], gap="medium")
    with left:
        _trajectory_view(
            found, full_dataset, colouring, (named[first], named[second]), f"{first} {second}"
        )
    with right:
        _displacement_table(found, full_dataset, colouring)
    st.caption(_caption(found))


def _is_aligned(aligned: AlignedMap, maps: Mapping[str, AlignedMap]) -> bool:
    """Whether a map is aligned to the first one; other maps have units of their own."""
    first = next(iter(maps.values()))
    return aligned.axes[1] is not None and (aligned is first or aligned.alignment is not None)


def _ends(named: Mapping[str, str]) -> tuple[str, str]:
    """Choice of the two maps."""
    left, right, _ = st.columns([1, 1, 1])
    runs = list(named)
    first = left.selectbox(
        "From",
        runs,
        format_func=lambda run: named.get(run, ""),
        key=_key("from", *runs),
        help="The map with the starting positions.",
    )
    others = [run for run in runs if run != first]
    second = right.selectbox(
        "To",
        others,
        format_func=lambda run: named.get(run, ""),
        key=_key("to", first, *others),
        help="The map with the end positions, aligned to the other one as above.",
    )
    return first, second


def _trajectory_view(
    found: Trajectories, full_dataset: Dataset, colouring: Colouring, ends: tuple[str, str], id: str
) -> None:
    drawn = found.rows[found.drawn]
    lines = row_texts.hover(full_dataset, colouring, found.row_positions[drawn])
    for line, kept, moved in zip(lines, found.kept[found.drawn], found.moved[drawn], strict=True):
        line.append(f"moves {number(float(moved), 2)} radii, keeps {kept:.0%} of its neighbours")
    data = trajectory_figure(found, colouring, lines, ends, id=id, dark=session.is_dark)
    _view(key=_key("view"), data=data)


def _displacement_table(found: Trajectories, full_dataset: Dataset, colouring: Colouring) -> None:
    """Share of kept neighbours, and the rows with the largest displacement."""
    compared = "all rows" if found.without_selection else count(len(found.rows), "selected row")
    if found.subsampled:
        compared = f"{count(len(found.rows), 'row')}, evenly spaced"
    st.markdown(
        f"**{found.kept.mean():.0%}** of the {found.neighbours} nearest neighbours are kept, on "
        f"average over {compared}; by chance {found.chance:.0%}."
    )
    st.markdown("**Largest displacements**")
    most = largest_moves(found, MOST_LISTED)
    rows = found.rows[most]
    frame = pd.DataFrame(
        {
            "row": [
                shortened(name, 24) for name in full_dataset.row_ids[found.row_positions[rows]]
            ],
            "moved, radii": found.moved[rows],
            "kept": found.kept[most],
        }
    )
    named = full_dataset.label_columns
    first = (
        colouring.title
        if colouring is not None and colouring.title in named
        else next(iter(named), None)
    )
    if first is not None:
        title = shortened(first, 24) if shortened(first, 24) not in frame else "label"
        cells = named[first][found.row_positions[rows]]
        labels = ["(missing)" if cell is None else shortened(cell, 24) for cell in cells]
        frame.insert(1, title, labels)
    st.dataframe(
        frame,
        hide_index=True,
        column_config={
            "moved, radii": st.column_config.NumberColumn(
                format="%.2f", help="Distance between both positions, in radii of the first map."
            ),
            "kept": st.column_config.NumberColumn(
                format="percent",
                help=f"Share of its {found.neighbours} nearest rows on the first map.",
            ),
        },
        key=_key("furthest"),
        alt="Rows with the largest displacement between the maps",
    )


def _caption(found: Trajectories) -> str:
    """What is drawn and what is left out."""
    drawn, compared = len(found.drawn), len(found.rows)
    if found.without_selection:
        sentences = [
            f"No selection: the {count(drawn, 'row')} that keep the fewest neighbours are drawn. "
            "Select rows on a map above to draw those instead."
        ]
    elif drawn < compared or found.subsampled:
        sentences = [
            f"{count(drawn, 'trajectory', 'trajectories')} drawn, evenly spaced; at most {MOST}."
        ]
    else:
        sentences = [f"{count(drawn, 'selected row')} drawn."]
    if found.absent:
        sentences.append(f"{count(found.absent, 'selected row')} not on both maps.")
    sentences.append(
        "The arrows end at the positions on the second map; its other rows are faint. Neighbours "
        "and distances are those of the maps as drawn. A radius is the root mean square distance "
        "of the rows from the centre of the first map."
    )
    return " ".join(sentences)
