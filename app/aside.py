"""Beside the map: relevance bars, what a point looks like, and what is selected."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app import agreeing, chart, figures, services, state
from app.atlas import put_on_axis
from app.axes import Axes
from app.exploring import INTERVAL_SD, Apart, Choices, Point, Reconstruction, apart
from app.opened import Opened
from app.words import count, markdown, number, shortened, told_apart
from lvmcore.data import Dataset
from lvmcore.relevance import shares
from lvmcore.runs import to_csv_bytes
from lvmcore.runs.labels import LabelColumn, label_columns

__all__ = ["point", "relevance", "selected_rows", "selection"]

#: Up to so many rows can be looked up in a list; more by typing a row's name.
MOST_LISTED = 5000
#: Rows of a selection that the page shows; the file holds all.
MOST_SHOWN = 1000
#: Up to so many columns the values are open from the start.
MOST_OPEN = 20
_CLASSES_NAMED = 3


# ---- relevance -------------------------------------------------------------------------------


def relevance(opened: Opened, choices: Choices) -> None:
    """Bars of relevance per path; a click puts a dimension on the map."""
    st.subheader("Relevance")
    key = opened.key("relevance")
    share = shares(opened.model.relevance_)
    st.plotly_chart(
        figures.relevance_figure(share, choices.axes, dark=choices.dark),
        theme=None,
        key=key,
        on_select=partial(_take_bar, opened, choices.axes, key),
        selection_mode="points",
        config={"displayModeBar": False},
        alt="Relevance of each latent dimension",
    )
    if choices.axes[1] is not None:
        st.caption(
            "A click on a bar puts that dimension on the horizontal axis; the one that was there "
            "moves to the vertical."
        )


def _take_bar(opened: Opened, axes: Axes, key: str) -> None:
    points = state.value(key).selection.points
    if points:
        put_on_axis(opened, axes, int(points[0]["customdata"][0]))


# ---- the point -------------------------------------------------------------------------------


def point(opened: Opened, choices: Choices) -> None:
    """What the chosen point looks like in the data's units."""
    st.subheader("The point")
    _lookup(opened)
    chosen = state.point(opened.run)
    if chosen is None:
        st.caption("Click a row, or any place on the map, to see what it looks like.")
        return
    _coordinates(opened, choices.axes, chosen)
    dataset = opened.dataset
    if not opened.model.capabilities.decoding:
        _observed(opened, chosen)
        return
    decoded = services.reconstruction(opened.run, chosen.latent)
    observed = None if chosen.row is None else dataset.in_units(dataset.X[chosen.row])
    if chosen.row is None:
        st.markdown("A place on the map, no row:")
    else:
        st.markdown(markdown(_named(dataset, chosen.row)))
        agree = agreeing.about(opened.run, chosen.row)
        if agree is not None:
            st.caption(markdown(agree))
    for column, probability in zip(label_columns(opened.model), decoded.probability, strict=True):
        st.caption(markdown(_classes(column, probability)))
    st.plotly_chart(
        _picture(dataset, decoded, observed, dark=choices.dark),
        theme=None,
        key=opened.key("reconstruction"),
        config={"displayModeBar": False},
        alt="Reconstruction and observed row",
    )
    logs = bool(decoded.log1p.any())
    if logs:
        st.caption(_logarithms(decoded, image=dataset.image_shape is not None))
    few = len(dataset.feature_names) <= MOST_OPEN
    with st.container() if few else st.expander("Values"):
        st.dataframe(
            _table(dataset, decoded, observed),
            hide_index=True,
            column_config={
                "column": st.column_config.TextColumn(width=68 if logs else 96),
                "observed": st.column_config.NumberColumn(format="%.4g", width=69 if logs else 72),
                "reconstruction": st.column_config.NumberColumn(
                    "decoded", format="%.4g", width=65 if logs else 70
                ),
                "± 2 sd": st.column_config.NumberColumn(format="%.2g", width=56),
                "2 sd interval": st.column_config.TextColumn(width=92, alignment="right"),
            },
            key=opened.key("values"),
        )


def _named(dataset: Dataset, row: int) -> str:
    """A row by its name and labels."""
    said = [f"Row {shortened(dataset.row_ids[row], 60)}"]
    for name, labels in dataset.label_columns.items():
        label = labels[row]
        said.append(f"{shortened(name)}: {'(missing)' if label is None else label}")
    return ", ".join(said)


def _observed(opened: Opened, chosen: Point) -> None:
    """A point of a map that cannot be decoded: the row itself, where it is one."""
    title = markdown(opened.model.title)
    if chosen.row is None:
        st.caption(
            f"A place on the map, no row. {title} turns no place of the map back into a row: "
            "that needs a model that decodes, such as the Bayesian GPLVM."
        )
        return
    dataset = opened.dataset
    st.markdown(markdown(_named(dataset, chosen.row)))
    st.dataframe(
        pd.DataFrame({"column": list(dataset.feature_names), "observed": dataset.X[chosen.row]}),
        hide_index=True,
        column_config={"observed": st.column_config.NumberColumn(format="%.4g")},
        key=opened.key("values"),
    )
    st.caption(f"{title} decodes no rows, so there is no reconstruction to compare with.")


def _lookup(opened: Opened) -> None:
    """Find a row by its name."""
    ids = opened.dataset.row_ids
    key = opened.key("row")
    look_up = partial(_look_up, opened, key)
    if len(ids) <= MOST_LISTED:
        titles = told_apart(shortened(name, 60) for name in ids)
        st.selectbox(
            "Row",
            range(len(ids)),
            index=None,
            format_func=titles.__getitem__,
            placeholder="Find a row by its name",
            key=key,
            on_change=look_up,
            help="Choose a row by its name to see it beside what the model makes of it.",
        )
        return
    name = st.text_input(
        "Row",
        placeholder="A row's name",
        key=key,
        on_change=look_up,
        help="Choose a row by its name to see it beside what the model makes of it.",
    )
    if name and not (ids == name).any():
        st.caption(markdown(f"There is no row named {shortened(name)}."))


def _look_up(opened: Opened, key: str) -> None:
    asked = state.value(key)
    rows = np.flatnonzero(opened.dataset.row_ids == asked) if isinstance(asked, str) else [asked]
    if asked is not None and len(rows):
        row = int(rows[0])
        chart.mark(opened.run, Point(tuple(opened.mean[row].tolist()), row))


def _coordinates(opened: Opened, axes: Axes, chosen: Point) -> None:
    """The point's two coordinates, to be read and typed.

    The fields belong to the point that was clicked: what a browser that lags behind still reports
    of an earlier point's fields moves nothing.
    """
    start = hash(chosen.start or chosen.latent)
    for dimension, column in zip(axes, st.columns(2), strict=True):
        if dimension is None:
            continue
        key = opened.key(f"at {dimension} {start}")
        state.set_value(key, round(chosen.latent[dimension], 4))
        column.number_input(
            figures.axis_title(dimension).capitalize(),
            step=0.1,
            format="%.4f",
            key=key,
            on_change=_move,
            args=(opened, dimension, key),
            help="Where the point lies along this dimension; type another place to decode it.",
        )


def _move(opened: Opened, dimension: int, key: str) -> None:
    chosen = state.point(opened.run)
    if chosen is not None:
        chart.mark(opened.run, chosen.moved(dimension, float(state.value(key))))


def _classes(column: LabelColumn, probability: NDArray[np.float64]) -> str:
    """The most probable classes at the point."""
    which = f" of {shortened(column.name)}" if column.several else ""
    order = np.argsort(-probability, kind="stable")[:_CLASSES_NAMED]
    parts = [f"{shortened(column.classes[k], 24)}: {probability[k]:.3f}" for k in order]
    return f"Class probability{which} here, {', '.join(parts)}."


def _picture(
    dataset: Dataset,
    decoded: Reconstruction,
    observed: NDArray[np.float64] | None,
    *,
    dark: bool,
) -> object:
    if dataset.image_shape is None:
        return figures.reconstruction_figure(dataset.feature_names, decoded, observed, dark=dark)
    pixels = dataset.in_units(dataset.X)
    limits = float(np.nanmin(pixels)), float(np.nanmax(pixels))
    return figures.image_figure(dataset.image_shape, decoded, observed, limits, dark=dark)


def _table(
    dataset: Dataset, decoded: Reconstruction, observed: NDArray[np.float64] | None
) -> pd.DataFrame:
    columns: dict[str, object] = {"column": list(dataset.feature_names)}
    if observed is not None:
        columns["observed"] = observed
    columns["reconstruction"] = decoded.value
    if decoded.log1p.any():  # where the interval is longer upwards
        ends = zip(decoded.low.tolist(), decoded.high.tolist(), strict=True)
        columns["2 sd interval"] = [f"{number(low, 2)} to {number(high, 2)}" for low, high in ends]
    else:
        columns["± 2 sd"] = INTERVAL_SD * decoded.sd
    return pd.DataFrame(columns)


def _logarithms(decoded: Reconstruction, *, image: bool) -> str:
    """How to read columns that were learned as log(1 + x)."""
    n = int(decoded.log1p.sum())
    which = f"{count(n, 'column')} of these {'was' if n == 1 else 'were'}"
    if n == len(decoded.log1p):
        which = "Every column was"
    if image:
        return (
            f"{which} learned as log(1 + x). In the data's units its reconstruction is a median, "
            "and the interval width is that of ± 2 sd on the scale of the logarithm."
        )
    return (
        f"{which} learned as log(1 + x), and placed so in the figure. In the data's units the "
        "decoded value of such a column is a median, and its interval of 2 sd is longer upwards."
    )


# ---- the selection ---------------------------------------------------------------------------


def selection(opened: Opened) -> None:
    """The selected rows: how many, what sets them apart, their table and a file of them."""
    chosen = opened.selected()
    if chosen is None:
        return
    st.subheader("The selection")
    region = state.region(opened.run)
    assert region is not None
    drawn_on = " and ".join(str(q + 1) for q in region.axes if q is not None)
    selected_rows(
        opened.dataset,
        chosen,
        f"drawn on dimensions {drawn_on}",
        key=opened.key,
        clear=partial(state.set_region, opened.run, None),
    )


def selected_rows(
    dataset: Dataset,
    chosen: NDArray[np.bool_],
    drawn_on: str,
    *,
    key: Callable[[str], str],
    clear: Callable[[], None],
) -> None:
    """Selected rows: how many, a file of them, what sets them apart, and their table.

    Args:
        dataset: all rows.
        chosen: which of them are selected, [N].
        drawn_on: where the selection was drawn, in words for Markdown.
        key: gives the keys of the widgets.
        clear: forgets the selection.
    """
    n = int(chosen.sum())
    st.markdown(f"{count(n, 'row')} of {count(len(dataset), 'row')}, {drawn_on}.")
    frame = _listing(dataset, chosen)
    with st.container(horizontal=True):
        st.download_button(
            "Selection as CSV",
            partial(to_csv_bytes, frame),
            file_name="selection.csv",
            mime="text/csv",
            on_click="ignore",
            disabled=n == 0,
            key=key("selection csv"),
            help="The selected rows with all their columns.",
        )
        st.button(
            "Clear the selection",
            on_click=clear,
            key=key("clear"),
            help="Selects nothing; the map stays as it is.",
        )
    found = apart(dataset, chosen)
    if found:
        st.caption("What sets them apart: " + markdown("; ".join(map(_difference, found))) + ".")
    if n > MOST_SHOWN:
        st.caption(f"The first {MOST_SHOWN} of them; the file holds all.")
    st.dataframe(frame.head(MOST_SHOWN), hide_index=True, height=320, key=key("rows"))


def _difference(column: Apart) -> str:
    sign = "+" if column.difference > 0 else "−"
    return (
        f"{shortened(column.name, 30)} {number(column.inside, 3)} against "
        f"{number(column.outside, 3)} ({sign}{abs(column.difference):.1f} sd)"
    )


def _listing(dataset: Dataset, chosen: NDArray[np.bool_]) -> pd.DataFrame:
    """The selected rows with all columns of the table, their names first."""
    frame = dataset.frame[chosen]
    names = "row_id" if "row_id" not in frame else "row id on the map"
    return pd.concat(
        [pd.Series(dataset.row_ids[chosen], index=frame.index, name=names), frame], axis="columns"
    )
