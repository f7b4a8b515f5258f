"""Beside the map: relevance bars, and what a point looks like."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app import agreeing, figures, looking, services, state
from app.atlas import put_on_axis
from app.axes import Axes
from app.exploring import INTERVAL_SD, Choices, Point, Reconstruction
from app.opened import Opened
from app.words import count, markdown, number, shortened, told_apart
from lvmcore.data import Dataset
from lvmcore.relevance import shares
from lvmcore.runs.labels import LabelColumn, label_columns

__all__ = [
    "class_probabilities",
    "logarithms",
    "point",
    "relevance",
    "values_table",
]

#: Up to so many rows can be looked up in a list; more by typing a row's name.
MOST_LISTED = 5000
#: Up to so many columns the values are open from the start.
MOST_OPEN = 20
#: Up to so many columns are all drawn; of more, so many that tell most.
MOST_DRAWN, MOST_TELLING = 400, 30
_CLASSES_NAMED = 3


# ---- relevance -------------------------------------------------------------------------------


def relevance(opened: Opened, choices: Choices) -> None:
    """Bars of relevance per path; a click puts a dimension on the map."""
    st.header("Relevance")
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
    st.header("The point")
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
        st.caption(markdown(class_probabilities(column, probability)))
    st.plotly_chart(
        _picture(opened, decoded, observed, dark=choices.dark),
        theme=None,
        key=opened.key("reconstruction"),
        config={"displayModeBar": False},
        alt="Reconstruction and observed row",
    )
    if dataset.image_shape is None and len(dataset.feature_names) > MOST_DRAWN:
        st.caption(_drawn(len(dataset.feature_names), alone=observed is None))
    logs = bool(decoded.log1p.any())
    if logs:
        st.caption(logarithms(decoded, image=dataset.image_shape is not None))
    few = len(dataset.feature_names) <= MOST_OPEN
    with st.container() if few else st.expander("Values"):
        st.dataframe(
            values_table(dataset, decoded, observed),
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
            alt="Values of the point",
        )


def _drawn(columns: int, *, alone: bool) -> str:
    """Which of many columns the figure shows."""
    away = "from their means" if alone else "from the row, in sd of a new observation"
    return (
        f"The {MOST_TELLING} of {count(columns, 'column')} that lie farthest {away}. "
        "The values below are of all."
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
        alt="Values of the point",
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
        looking.look_at(opened, int(rows[0]))
        # The field is for looking up: it does not say which row is looked at.
        state.set_value(key, "" if isinstance(asked, str) else None)


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
        state.set_point(opened.run, chosen.moved(dimension, float(state.value(key))))


def class_probabilities(column: LabelColumn, probability: NDArray[np.float64]) -> str:
    """The most probable classes at the point."""
    which = f" of {shortened(column.name)}" if column.several else ""
    order = np.argsort(-probability, kind="stable")[:_CLASSES_NAMED]
    parts = [f"{shortened(column.classes[k], 24)}: {probability[k]:.3f}" for k in order]
    return f"Class probability{which} here, {', '.join(parts)}."


def _picture(
    opened: Opened,
    decoded: Reconstruction,
    observed: NDArray[np.float64] | None,
    *,
    dark: bool,
) -> object:
    dataset = opened.dataset
    if dataset.image_shape is None:
        names = dataset.feature_names
        if len(names) > MOST_DRAWN:
            told = decoded.telling(observed, MOST_TELLING)
            names = tuple(names[d] for d in told)
            decoded, observed = decoded.of(told), None if observed is None else observed[told]
        return figures.reconstruction_figure(names, decoded, observed, dark=dark)
    limits = services.cell_range(opened.run)
    return figures.image_figure(dataset.image_shape, decoded, observed, limits, dark=dark)


def values_table(
    dataset: Dataset, decoded: Reconstruction, observed: NDArray[np.float64] | None
) -> pd.DataFrame:
    """What a place decodes to as a table, a column of the data a line."""
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


def logarithms(decoded: Reconstruction, *, image: bool) -> str:
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
