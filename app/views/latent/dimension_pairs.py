"""Maps of every pair of the leading latent dimensions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import streamlit as st

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.map_axes import positions
from app.components.map.map_chart import map_style
from app.components.map.small_maps import SmallMap, small_maps
from app.state.widgets import map_widget_key
from lvmcore.relevance import dimensions_by_share

__all__ = ["dimension_pairs_panel"]

#: Most dimensions that are paired: six maps.
MOST = 4


def dimension_pairs_panel(fitted_map: FittedMap, colour: str | None) -> None:
    """Draw the pairs of dimensions of a map of three or more.

    Args:
        fitted_map: the run.
        colour: column of the row colours; None for one colour.
    """
    shares = fitted_map.model.variance_shares()
    leading = dimensions_by_share(shares)
    if len(leading) < 3:
        return
    box = st.expander(
        "Pairs of dimensions", key=map_widget_key(fitted_map, "pairs"), on_change="rerun"
    )
    with box:
        if not box.open:
            return
        small_maps(
            [_pair(fitted_map, pair) for pair in combinations(sorted(leading[:MOST]), 2)],
            fitted_map.dataset,
            map_style(fitted_map.run, fitted_map.dataset, colour),
        )
        left_out = len(leading) - MOST
        if left_out > 0:
            st.caption(
                f"The {MOST} dimensions with the largest shares of the variance; {left_out} more "
                "have at least 1 %."
            )


def _pair(fitted_map: FittedMap, pair: tuple[int, int]) -> SmallMap:
    title = f"dimensions {pair[0] + 1} and {pair[1] + 1}"
    return SmallMap(
        key=map_widget_key(fitted_map, f"pair {pair[0]} {pair[1]}"),
        name=title,
        caption=f"{pair[0] + 1} across, {pair[1] + 1} up",
        alt=f"Rows in the latent {title}",
        row_positions=np.arange(len(fitted_map.mean)),
        points=positions(fitted_map.mean, pair),
        equal=False,
    )
