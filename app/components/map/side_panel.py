"""The panel beside the map: a tab each for the point, the selection, the columns, the relevance.

The tab that is open is that of what was touched last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import streamlit as st

from app.state.widgets import map_widget_key, set_widget_value, widget_value

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

    from app.analysis.map.fitted_map import FittedMap

__all__ = [
    "COLUMNS",
    "POINT",
    "RELEVANCE",
    "SELECTION",
    "TABS",
    "PanelTab",
    "is_open",
    "open_tab",
    "panel_tabs",
]

PanelTab = Literal["Point", "Selection", "Columns", "Relevance"]
POINT: PanelTab = "Point"
SELECTION: PanelTab = "Selection"
COLUMNS: PanelTab = "Columns"
RELEVANCE: PanelTab = "Relevance"
TABS: tuple[PanelTab, ...] = (POINT, SELECTION, COLUMNS, RELEVANCE)


def open_tab(fitted_map: FittedMap, tab: PanelTab) -> None:
    """Open a tab, in a callback."""
    set_widget_value(map_widget_key(fitted_map, "panel"), tab)


def is_open(fitted_map: FittedMap, tab: PanelTab) -> bool:
    """Whether a tab is the open one."""
    return bool(widget_value(map_widget_key(fitted_map, "panel")) == tab)


def panel_tabs(fitted_map: FittedMap) -> dict[PanelTab, DeltaGenerator]:
    """Draw the panel, and return its tabs; the relevance is open until something is touched."""
    with st.container(key="map-panel"):
        tabs = st.tabs(
            TABS, default=RELEVANCE, key=map_widget_key(fitted_map, "panel"), on_change="rerun"
        )
    return dict(zip(TABS, tabs, strict=True))
