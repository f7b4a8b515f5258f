"""A kernel matrix between rows as a heatmap."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.figures.theme import NUMERIC_SCALE, template

__all__ = ["kernel_matrix_figure"]


def kernel_matrix_figure(
    matrix: NDArray[np.float64],
    rows: NDArray[np.intp],
    limits: tuple[float, float],
    *,
    dark: bool,
    height: int,
) -> go.Figure:
    """Draw correlations between rows, the first row at the top and at the left.

    Args:
        matrix: the correlations, [n, n].
        rows: numbers of the rows, ascending, [n].
        limits: lowest and highest value of the colour scale.
        dark: whether the page is dark.
        height: in pixels.
    """
    figure = go.Figure(
        go.Heatmap(
            z=matrix.astype(np.float32),
            x=rows,
            y=rows,
            zmin=limits[0],
            zmax=limits[1],
            colorscale=NUMERIC_SCALE,
            colorbar={"title": {"text": "k", "side": "top"}, "thickness": 8, "nticks": 4},
            hovertemplate="rows %{y} and %{x}<br>correlation %{z:.2f}<extra></extra>",
        )
    )
    figure.update_layout(
        template=template(dark),
        height=height,
        margin={"t": 6, "b": 24},
        xaxis={"title": None, "constrain": "domain", "showgrid": False},
        yaxis={
            "title": None,
            "autorange": "reversed",
            "scaleanchor": "x",
            "constrain": "domain",
            "constraintoward": "top",
            "showgrid": False,
        },
    )
    return figure
