"""Download of the map of a run as an interactive HTML file."""

from __future__ import annotations

from functools import partial

import streamlit as st

from app.analysis.map import subsampling
from app.analysis.map.map_axes import View, positions
from app.analysis.map.row_colours import group_of_rows
from app.components.map import map_chart, row_texts
from app.figures import row_traces
from app.report import map_document
from app.services import fitted_maps, run_colours, server

__all__ = ["map_download_button"]


def map_download_button(run: str, view: View, *, key: str) -> None:
    """Draw the button that downloads the map, made when the button is pressed.

    Args:
        run: id of a run with a map.
        view: axes of the map.
        key: widget key of the button.
    """
    st.download_button(
        "Map as HTML",
        partial(_map_bytes, run, view),
        file_name="map.html",
        mime="text/html",
        on_click="ignore",
        help="One HTML file that opens offline: zoom, names of the rows, a legend that hides "
        "classes, and a search.",
        key=key,
    )


def _map_bytes(run: str, view: View) -> bytes:
    model, dataset = fitted_maps.model(run), fitted_maps.fitted_dataset(run)
    chosen = subsampling.evenly_spaced(len(dataset), map_document.MOST_ROWS)
    colouring = run_colours.class_style(run)
    rows = row_traces.MapRows(
        points=positions(model.embedding_.mean, view)[chosen],
        number=chosen,
        hover=row_texts.hover(dataset, colouring, chosen),
        colouring=group_of_rows(colouring, chosen),
    )
    subject = map_document.MapSubject(
        server.store().get(run).name,
        model.title,
        map_chart.axis_titles(view),
        rows,
        len(dataset),
    )
    return map_document.map_html(subject)
