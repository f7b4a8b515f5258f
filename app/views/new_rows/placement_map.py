"""The map of a fit with new rows on it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.map_axes import Axes, positions
from app.analysis.map.row_colours import OTHER, group_of_rows
from app.analysis.map.subsampling import evenly_spaced
from app.components.map import map_chart, row_texts
from app.figures import canvas_scene
from app.figures.row_traces import MapRows
from app.formatting import count, number, shortened
from app.services import run_colours
from app.state.session import session
from app.views.new_rows.figures import NewRowsLayer, placements_figure
from app.views.new_rows.placed_rows import PlacedRows

__all__ = ["BY_CLASS", "BY_LABEL", "BY_UNUSUAL", "percentage", "placement_map"]

#: Most rows drawn of the fit and of the new rows each.
MOST_DRAWN = 4000
#: Colours of the new rows.
BY_CLASS, BY_UNUSUAL, BY_LABEL = "predicted class", "how unusual", "own label"
_CONFIG = {"scrollZoom": False, "modeBarButtonsToRemove": ["autoScale2d"]}


def placement_map(
    fitted_map: FittedMap, placed: PlacedRows, axes: Axes, colour: str, *, ellipses: bool
) -> None:
    """Draw the map with new rows over the rows of the fit.

    Args:
        fitted_map: the run.
        placed: the new rows.
        axes: the latent dimensions.
        colour: colour of the new rows.
        ellipses: whether posterior ellipses are drawn.
    """
    st.plotly_chart(
        placements_figure(
            _rows_of_fit(fitted_map, axes, colour, placed.label),
            _layer(fitted_map, placed, axes, colour, ellipses=ellipses),
            axes,
            dark=session.is_dark,
        ),
        theme=None,
        key=placed.key("map"),
        config=_CONFIG,
        alt="Map of the fit with the new rows",
    )
    st.caption(_caption(fitted_map, placed, ellipses=ellipses))


def _rows_of_fit(fitted_map: FittedMap, axes: Axes, colour: str, label: str | None) -> MapRows:
    chosen = evenly_spaced(len(fitted_map.mean), MOST_DRAWN)
    classes = (
        run_colours.class_style(fitted_map.run, label) if colour in (BY_CLASS, BY_LABEL) else None
    )
    return MapRows(
        points=positions(fitted_map.mean, axes)[chosen],
        number=chosen,
        hover=row_texts.hover(fitted_map.dataset, classes, chosen),
        colouring=group_of_rows(classes, chosen),
    )


def _layer(
    fitted_map: FittedMap, placed: PlacedRows, axes: Axes, colour: str, *, ellipses: bool
) -> NewRowsLayer:
    drawn = evenly_spaced(len(placed.frame), MOST_DRAWN)
    classes = run_colours.class_style(fitted_map.run, placed.label)
    names = classes.names if classes is not None else ()
    codes, unusual = None, None
    if colour == BY_CLASS:
        codes = _codes(placed.frame["predicted"], names)
        codes[placed.undecided] = -1
    elif colour == BY_LABEL:
        codes = _codes(placed.frame["label"], names)
    elif colour == BY_UNUSUAL:
        unusual = placed.frame["unusual"].to_numpy()[drawn]
    sd = None
    if ellipses and placed.sd is not None and axes[1] is not None:
        sd = placed.sd[drawn][:, [axes[0], axes[1]]]
        without_ellipse = np.ones(len(drawn), dtype=np.bool_)
        without_ellipse[evenly_spaced(len(drawn), map_chart.MOST_ELLIPSES)] = False
        sd[without_ellipse] = np.nan
    return NewRowsLayer(
        points=positions(placed.mean, axes)[drawn],
        hover=[_lines(placed.frame.iloc[i], undecided=bool(placed.undecided[i])) for i in drawn],
        classes=classes,
        codes=None if codes is None else codes[drawn],
        unusual=unusual,
        flagged=placed.unusual[drawn],
        sd=sd,
    )


def _codes(cells: pd.Series, classes: tuple[str, ...]) -> NDArray[np.intp]:
    """Position of each cell among the classes; OTHER for a cell that is no class."""
    code = {name: position for position, name in enumerate(classes)}
    return np.array([code.get(str(cell), OTHER) for cell in cells], dtype=np.intp)


def _lines(row: pd.Series, *, undecided: bool) -> list[str]:
    """Lines of the hover text of a new row."""
    lines = [f"new row {shortened(row['row_id'], 60)}"]
    if "predicted" in row:
        title = "not decided, most probable" if undecided else "predicted"
        lines.append(f"{title}: {shortened(row['predicted'])} ({number(row['probability'], 3)})")
    if "label" in row:
        own = row["label"]
        lines.append(f"own label: {'(missing)' if pd.isna(own) else shortened(own)}")
    if "unusual" in row and not pd.isna(row["unusual"]):
        lines.append(f"more unusual than {percentage(row['unusual'])} of the rows of the fit")
    return lines


def percentage(value: float) -> str:
    """A share in per cent, rounded down, so that a share below 1 is never 100 %."""
    return f"{np.floor(1000 * value) / 10:g} %"


def _caption(fitted_map: FittedMap, placed: PlacedRows, *, ellipses: bool) -> str:
    sentences = [
        "Diamonds are the new rows, at positions inferred from their columns without labels; "
        "faint dots are the rows of the fit."
    ]
    if ellipses:
        n = min(len(placed.frame), map_chart.MOST_ELLIPSES)
        rows = "each new row" if n == len(placed.frame) else f"{n} new rows, evenly spaced"
        sentences.append(f"Ellipses: posterior of {rows}, {canvas_scene.ELLIPSE_SD:g} sd.")
    if placed.unusual.any():
        sentences.append("A ring marks rows that are more unusual than 99 % of those of the fit.")
    if max(len(placed.frame), len(fitted_map.mean)) > MOST_DRAWN:
        sentences.append(f"At most {count(MOST_DRAWN, 'row')} of each are drawn, evenly spaced.")
    if fitted_map.model.capabilities.labels != "none":
        sentences.append("The positions of the rows of the fit are those of the fit with labels.")
    return " ".join(sentences)
