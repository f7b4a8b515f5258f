"""The clicked point beside the map: its row, reconstruction and class probabilities."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from numpy.typing import NDArray

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.heatmaps import MapChoices
from app.analysis.map.map_axes import View, latent_position, positions, shown_dimensions
from app.analysis.map.reconstruction import INTERVAL_SD, MapPoint, Reconstruction
from app.components.map.measured_colours import describe_disagreement
from app.components.map.row_focus import focus_row
from app.figures import latent_map, row_panels
from app.figures.pictures import channel_note
from app.formatting import count, distinct_titles, markdown, shortened
from app.services import fitted_maps, generation, placement
from app.state.session import session
from app.state.widgets import map_widget_key, set_widget_value, widget_value
from lvmcore.data import Dataset
from lvmcore.prediction.label_columns import LabelColumn, label_columns
from lvmcore.projection import LatentProjection

__all__ = [
    "MOST_CATEGORIES",
    "class_probabilities",
    "log_scale_note",
    "point_panel",
    "values_table",
]

#: Most rows in the list to choose from; with more rows, a row name is typed.
MOST_LISTED = 5000
#: Most columns for which the table of values is not folded.
MOST_OPEN = 20
#: Most columns that are all drawn; of more columns, the number of those that deviate most.
MOST_DRAWN, MOST_DEVIATING = 400, 30
_MOST_CLASSES = 3
#: Most categories whose levels are drawn.
MOST_CATEGORIES = 20


def point_panel(fitted_map: FittedMap, choices: MapChoices) -> None:
    """Draw the reconstruction of the clicked point in data units."""
    _row_search(fitted_map)
    chosen = session.point[fitted_map.run]
    if chosen is None:
        st.caption("Click a row, or any point of the map, to see its reconstruction.")
        return
    _coordinates(fitted_map, choices.axes, chosen)
    dataset, row = _row_of_point(fitted_map, chosen)
    if not fitted_map.model.capabilities.decoding:
        _observed_row(fitted_map, chosen)
        return
    decoded = fitted_maps.reconstruction(fitted_map.run, chosen.latent)
    observed = None if row is None else dataset.original_units(dataset.X[row])
    if row is None:
        st.markdown("A point of the map, not a row:")
    else:
        st.markdown(markdown(_row_title(dataset, row, held_out=chosen.row is None)))
    disagreement = None
    if chosen.row is not None:
        disagreement = describe_disagreement(fitted_map.run, chosen.row)
    if disagreement is not None:
        st.caption(markdown(disagreement))
    for column, probability in zip(
        label_columns(fitted_map.model), decoded.probability, strict=True
    ):
        st.caption(markdown(class_probabilities(column, probability)))
    if len(decoded.numbers):
        st.plotly_chart(
            _figure(fitted_map, decoded, observed, dark=choices.dark),
            theme=None,
            key=map_widget_key(fitted_map, "reconstruction"),
            config={"displayModeBar": False},
            alt="Reconstruction and observed row",
        )
    note = _figure_note(dataset, len(decoded.numbers), without_row=observed is None)
    if note:
        st.caption(note)
    if decoded.categories:
        cells = None if row is None else dataset.X[row]
        _levels(fitted_map, decoded, cells, dark=choices.dark)
    logs = not decoded.symmetric
    if decoded.log1p.any():
        st.caption(log_scale_note(decoded, image=dataset.image_shape is not None))
    if not len(decoded.numbers):
        return
    few = len(decoded.numbers) <= MOST_OPEN
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
                "95 % interval": st.column_config.TextColumn(width=92, alignment="right"),
            },
            key=map_widget_key(fitted_map, "values"),
            alt="Values of the point",
        )


def _figure_note(dataset: Dataset, columns: int, *, without_row: bool) -> str:
    """Which of many columns the figure shows, or what the sd of a pixel in colour is; or ""."""
    if dataset.image_shape is not None:
        return channel_note(dataset.image_shape)
    if columns <= MOST_DRAWN:
        return ""
    reference = "from their means" if without_row else "from the row, in predictive sd"
    return (
        f"The {MOST_DEVIATING} of {count(columns, 'column')} that deviate most {reference}. "
        "The table of values holds all columns."
    )


def _row_of_point(fitted_map: FittedMap, chosen: MapPoint) -> tuple[Dataset, int | None]:
    """The row at the point, and the rows that it is one of; None for a point without a row."""
    if chosen.held_out is not None:
        held = placement.held_out_rows(fitted_map.run)
        if held is not None:
            return held.dataset, chosen.held_out
    return fitted_map.dataset, chosen.row


def _row_title(dataset: Dataset, row: int, *, held_out: bool) -> str:
    """Name and labels of a row."""
    kind = "Held-out row" if held_out else "Row"
    parts = [f"{kind} {shortened(dataset.row_ids[row], 60)}"]
    for name, labels in dataset.label_columns.items():
        label = labels[row]
        parts.append(f"{shortened(name)}: {'(missing)' if label is None else label}")
    return ", ".join(parts)


def _observed_row(fitted_map: FittedMap, chosen: MapPoint) -> None:
    """The observed cells of a point, for a model that cannot decode."""
    title = markdown(fitted_map.model.title)
    dataset, row = _row_of_point(fitted_map, chosen)
    if row is None:
        st.caption(
            f"A point of the map, not a row. {title} cannot decode latent points; fit a model that "
            "can, such as the Bayesian GPLVM."
        )
        return
    st.markdown(markdown(_row_title(dataset, row, held_out=chosen.row is None)))
    st.dataframe(
        pd.DataFrame({"column": list(dataset.feature_names), "observed": dataset.X[row]}),
        hide_index=True,
        column_config={"observed": st.column_config.NumberColumn(format="%.4g")},
        key=map_widget_key(fitted_map, "values"),
        alt="Values of the point",
    )
    st.caption(f"{title} cannot decode latent points, so there is no reconstruction.")


def _row_search(fitted_map: FittedMap) -> None:
    """Choice of a row by its name."""
    ids = fitted_map.dataset.row_ids
    key = map_widget_key(fitted_map, "row")
    on_change = partial(_show_row, fitted_map, key)
    if len(ids) <= MOST_LISTED:
        titles = distinct_titles(shortened(name, 60) for name in ids)
        st.selectbox(
            "Row",
            range(len(ids)),
            index=None,
            format_func=titles.__getitem__,
            placeholder="Find a row by its name",
            key=key,
            on_change=on_change,
            help="The row to compare with its reconstruction.",
        )
        return
    name = st.text_input(
        "Row",
        placeholder="A row's name",
        key=key,
        on_change=on_change,
        help="The row to compare with its reconstruction.",
    )
    if name and not (ids == name).any():
        st.caption(markdown(f"There is no row named {shortened(name)}."))


def _show_row(fitted_map: FittedMap, key: str) -> None:
    name = widget_value(key)
    rows = np.flatnonzero(fitted_map.dataset.row_ids == name) if isinstance(name, str) else [name]
    if name is not None and len(rows):
        focus_row(fitted_map, int(rows[0]))
        # The field is a search: it does not display the current row.
        set_widget_value(key, "" if isinstance(name, str) else None)


def _coordinates(fitted_map: FittedMap, view: View, chosen: MapPoint) -> None:
    """Number fields for the two coordinates of the point.

    The keys belong to the clicked point, so that a late value of an earlier point's field has no
    effect.
    """
    start = hash(chosen.start or chosen.latent)
    titles = [latent_map.axis_title(dimension).capitalize() for dimension in shown_dimensions(view)]
    names = [f"at {dimension} {start}" for dimension in shown_dimensions(view)]
    if isinstance(view, LatentProjection):
        titles, names = ["First axis", "Second axis"], [f"at {axis} of {start}" for axis in "xy"]
    at = positions(np.array([chosen.latent]), view)[0].tolist()
    for axis, (title, name, column) in enumerate(zip(titles, names, st.columns(2), strict=False)):
        key = map_widget_key(fitted_map, name)
        set_widget_value(key, round(at[axis], 4))
        column.number_input(
            title,
            step=0.1,
            format="%.4f",
            key=key,
            on_change=_set_coordinate,
            args=(fitted_map, view, axis, key),
            help="Coordinate of the point; enter another value to decode that point.",
        )


def _set_coordinate(fitted_map: FittedMap, view: View, axis: int, key: str) -> None:
    chosen = session.point[fitted_map.run]
    if chosen is not None:
        at = positions(np.array([chosen.latent]), view)[0].tolist()
        at[axis] = float(widget_value(key))
        moved = chosen.moved(latent_position(chosen.latent, view, *at))
        session.point[fitted_map.run] = moved


def class_probabilities(column: LabelColumn, probability: NDArray[np.float64]) -> str:
    """The most probable classes at the point."""
    of_column = f" of {shortened(column.name)}" if column.several else ""
    order = np.argsort(-probability, kind="stable")[:_MOST_CLASSES]
    parts = [f"{shortened(column.classes[k], 24)}: {probability[k]:.3f}" for k in order]
    return f"Class probability{of_column} here, {', '.join(parts)}."


def _figure(
    fitted_map: FittedMap,
    decoded: Reconstruction,
    observed: NDArray[np.float64] | None,
    *,
    dark: bool,
) -> go.Figure:
    dataset = fitted_map.dataset
    if dataset.image_shape is None:
        numbers = decoded.numbers
        names = tuple(dataset.feature_names[d] for d in numbers)
        observed = None if observed is None else observed[numbers]
        decoded = decoded.subset(numbers)
        if len(names) > MOST_DRAWN:
            columns = decoded.most_deviating(observed, MOST_DEVIATING)
            names = tuple(names[d] for d in columns)
            decoded = decoded.subset(columns)
            observed = None if observed is None else observed[columns]
        return row_panels.reconstruction_figure(names, decoded, observed, dark=dark)
    limits = generation.cell_range(fitted_map.run)
    return row_panels.image_figure(dataset.image_shape, decoded, observed, limits, dark=dark)


def _levels(
    fitted_map: FittedMap,
    decoded: Reconstruction,
    cells: NDArray[np.float64] | None,
    *,
    dark: bool,
) -> None:
    """Bars of the probabilities of the levels of the categories."""
    shown = decoded.categories[:MOST_CATEGORIES]
    st.plotly_chart(
        row_panels.levels_figure(shown, cells, dark=dark),
        theme=None,
        key=map_widget_key(fitted_map, "levels"),
        config={"displayModeBar": False},
        alt="Probabilities of the levels of the categories",
    )
    if len(shown) < len(decoded.categories):
        st.caption(f"The first {len(shown)} of {count(len(decoded.categories), 'category')}.")


def values_table(
    dataset: Dataset, decoded: Reconstruction, observed: NDArray[np.float64] | None
) -> pd.DataFrame:
    """The reconstruction as a table, one line per column of the data that is no category."""
    numbers = decoded.numbers
    columns: dict[str, object] = {"column": [dataset.feature_names[d] for d in numbers]}
    symmetric, logs = decoded.symmetric, bool(decoded.log1p.any())
    decoded = decoded.subset(numbers)
    texts = any(scale is not None for scale in decoded.dates)
    for name, cells in (
        ("observed", None if observed is None else observed[numbers]),
        ("reconstruction", decoded.value),
    ):
        if cells is not None:
            columns[name] = (
                [
                    "" if np.isnan(cell) else decoded.cell_text(d, cell)
                    for d, cell in enumerate(cells)
                ]
                if texts
                else cells
            )
    if not symmetric:
        ends = zip(decoded.low.tolist(), decoded.high.tolist(), strict=True)
        columns["2 sd interval" if logs else "95 % interval"] = [
            f"{decoded.cell_text(d, low, 2)} to {decoded.cell_text(d, high, 2)}"
            for d, (low, high) in enumerate(ends)
        ]
    elif texts:
        half = (INTERVAL_SD * decoded.sd).tolist()
        columns["± 2 sd"] = [decoded.width_text(d, width) for d, width in enumerate(half)]
    else:
        columns["± 2 sd"] = INTERVAL_SD * decoded.sd
    return pd.DataFrame(columns)


def log_scale_note(decoded: Reconstruction, *, image: bool) -> str:
    """Note on columns that were fitted as log(1 + x)."""
    n = int(decoded.log1p.sum())
    columns = f"{count(n, 'column')} of these {'was' if n == 1 else 'were'}"
    if n == len(decoded.log1p):
        columns = "Every column was"
    if image:
        return (
            f"{columns} fitted as log(1 + x). In data units the reconstruction is a median, and "
            "the interval width is that of ± 2 sd on the log scale."
        )
    return (
        f"{columns} fitted as log(1 + x), which is the scale of the figure. In data units the "
        "decoded value of such a column is a median, and its 2 sd interval is asymmetric."
    )
