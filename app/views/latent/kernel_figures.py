"""Figures of a learned kernel: along each latent dimension, and its spectral mixture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from app.figures.theme import accent, page_colours, path_colours, template

if TYPE_CHECKING:
    from lvmcore.random_features.spectrum import SpectralDensity

__all__ = ["kernel_figure", "spectrum_figure"]

_HEIGHT = 300
#: Smallest weight of a drawn component.
LEAST_WEIGHT = 0.01
_SD = 2.0
_SIZE = 5
#: Share of the frequencies inside of the picture of a given kernel's spectrum.
_DRAWN = 0.95


def kernel_figure(
    distances: NDArray[np.float64],
    kernel: NDArray[np.float64],
    dimensions: Sequence[int],
    *,
    dark: bool,
) -> go.Figure:
    """Draw the kernel as a function of the distance along each dimension.

    Args:
        distances: distances along one dimension, [n].
        kernel: kernel at each distance, 1 at distance 0, [Q, n].
        dimensions: the dimensions to draw, from 0.
        dark: whether the page is dark.
    """
    figure = go.Figure()
    for q, colour in zip(dimensions, path_colours(len(dimensions), dark), strict=True):
        figure.add_scatter(
            x=distances,
            y=kernel[q],
            mode="lines",
            name=f"dimension {q + 1}",
            line={"color": colour, "width": 2},
            hovertemplate="distance %{x:.2f}: %{y:.2f}<extra>%{fullData.name}</extra>",
        )
    figure.add_hline(y=0, line={"color": page_colours(dark).muted, "width": 1, "dash": "dot"})
    figure.update_layout(
        template=template(dark),
        height=_HEIGHT,
        margin={"t": 24},
        showlegend=True,
        xaxis={"title": {"text": "distance on the map"}, "rangemode": "tozero"},
        yaxis={
            "title": {"text": "kernel, 1 at distance 0"},
            "range": [min(float(kernel.min()), 0.0) - 0.05, 1.05],
        },
    )
    return figure


def spectrum_figure(density: SpectralDensity, axes: tuple[int, int], *, dark: bool) -> go.Figure:
    """Draw the frequencies of the kernel along two dimensions, and the Gaussian mixture.

    Args:
        density: the learned spectral density.
        axes: the dimensions, from 0.
        dark: whether the page is dark.
    """
    figure = go.Figure()
    pair = list(axes)
    colour = accent(dark)
    angle = np.linspace(0, 2 * np.pi, 61)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    for weight, mean, covariance in zip(
        density.weights, density.means, density.covariances, strict=True
    ):
        if weight < LEAST_WEIGHT:
            continue
        root = np.linalg.cholesky(covariance[np.ix_(pair, pair)] + 1e-9 * np.eye(2))
        ring = mean[pair, None] + _SD * root @ circle
        figure.add_scatter(
            x=ring[0],
            y=ring[1],
            mode="lines",
            line={"color": colour, "width": 1 + 4 * float(weight)},
            fill="toself",
            fillcolor=_translucent(colour, 0.3 * float(weight)),
            showlegend=False,
            hoverinfo="skip",
        )
        figure.add_scatter(
            x=mean[pair[:1]],
            y=[ring[1].max()],
            mode="text",
            text=[f"{weight:.0%}"],
            textposition="top center",
            cliponaxis=False,
            textfont={"color": page_colours(dark).text, "size": 12},
            showlegend=False,
            hoverinfo="skip",
        )
    figure.add_scatter(
        x=density.points[:, pair[0]],
        y=density.points[:, pair[1]],
        mode="markers",
        marker={"color": page_colours(dark).muted, "size": _sizes(density)},
        showlegend=False,
        hovertemplate="frequency %{x:.2f}, %{y:.2f}<extra></extra>",
    )
    figure.update_layout(
        template=template(dark),
        height=_HEIGHT,
        margin={"t": 24},
        xaxis={"title": {"text": f"frequency along dimension {axes[0] + 1}"}},
        yaxis={
            "title": {"text": f"frequency along dimension {axes[1] + 1}"},
            "scaleanchor": "x",
        },
    )
    if density.amplitudes is not None:  # the spectrum may have a heavy tail
        reach = 1.1 * float(np.quantile(np.abs(density.points[:, pair]).max(axis=1), _DRAWN))
        reach = max(reach, 1e-6)
        figure.update_layout(xaxis={"range": [-reach, reach]}, yaxis={"range": [-reach, reach]})
    return figure


def _sizes(density: SpectralDensity) -> float | list[float]:
    """Diameters of the points, whose areas are their shares of the variance."""
    if density.amplitudes is None:
        return _SIZE
    found: list[float] = (_SIZE * density.amplitudes).clip(1, 4 * _SIZE).tolist()
    return found


def _translucent(colour: str, share: float) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {share:.3f})"
