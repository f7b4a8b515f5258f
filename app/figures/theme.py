"""Colours, fonts and the plotly template of all figures, light and dark."""

from __future__ import annotations

import html
import itertools
from dataclasses import dataclass
from functools import cache

import plotly.graph_objects as go

from lvmcore.export.column_colours import DEFAULT_CATEGORIES, OKABE_ITO

__all__ = [
    "ACCENT",
    "NUMERIC_SCALE",
    "PLOTLY_SCALES",
    "PageColours",
    "accent",
    "category",
    "escape",
    "heatmap_colours",
    "interval_colour",
    "page_colours",
    "path_colours",
    "template",
]

ACCENT = "#0E7C7B"
_ACCENT_DARK = "#4FB3B1"

#: cividis, from its dark end.
_CIVIDIS = (
    "#00224E", "#123570", "#3B496C", "#575D6D", "#707173",
    "#8A8678", "#A59C74", "#C3B369", "#E1CC55", "#FEE838",
)  # fmt: skip
#: Opacity of a heatmap over the panel, so that the rows stand out.
_STRENGTH = 0.78
#: Colour scale of numeric columns; not cividis, so that rows stand out from a heatmap.
NUMERIC_SCALE = "Viridis"
#: Names of the colour scales of numbers in plotly.
PLOTLY_SCALES = {
    "Viridis": "Viridis",
    "Cividis": "Cividis",
    "Magma": "Magma",
    "Turbo": "Turbo",
    "Blue–red": "RdBu_r",
}


@dataclass(frozen=True)
class PageColours:
    """Colours of the page.

    Attributes:
        text: titles and numbers.
        muted: secondary text.
        hairline: borders.
        panel: background of a figure.
        page: background of the page.
    """

    text: str
    muted: str
    hairline: str
    panel: str
    page: str


_LIGHT = PageColours("#1A1D21", "#6B7280", "#E5E5E0", "#FFFFFF", "#FAFAF7")
_DARK = PageColours("#E8EAED", "#9AA3AD", "#2A3138", "#171C21", "#101418")


def page_colours(dark: bool) -> PageColours:
    """Colours of the page, light or dark."""
    return _DARK if dark else _LIGHT


def accent(dark: bool) -> str:
    """The accent colour of figures; lighter on a dark page."""
    return _ACCENT_DARK if dark else ACCENT


def path_colours(n: int, dark: bool) -> list[str]:
    """Colours of paths and of terms of the bound: the accent, then the least similar first."""
    codes = itertools.cycle(
        (1, 0, *range(3, len(OKABE_ITO)), 2)
    )  # 2 is a green similar to the accent
    return [
        accent(dark),
        *(category(code, dark)[0] for code in itertools.islice(codes, max(0, n - 1))),
    ][:n]


def interval_colour(dark: bool) -> str:
    """The translucent accent colour of intervals."""
    return "rgba(79,179,177,0.45)" if dark else "rgba(14,124,123,0.35)"


def category(code: int, dark: bool) -> tuple[str, str]:
    """Colour and marker of a category: the Okabe–Ito colours, then other shapes.

    Args:
        code: position of the category, from 0.
        dark: whether the page is dark.
    """
    return DEFAULT_CATEGORIES.look(code, dark=dark)


def heatmap_colours(*, low_is_certain: bool, dark: bool) -> list[str]:
    """Colour scale of a heatmap from its lowest value: light is certain, dark is uncertain.

    The colours are those of cividis, translucent over the panel. On a dark page the dark,
    uncertain end recedes into the page.

    Args:
        low_is_certain: whether low values mean certain, as for an sd; False for a probability.
        dark: whether the page is dark.
    """
    panel = page_colours(dark).panel
    colours = [_mix(colour, panel, _STRENGTH) for colour in _CIVIDIS]
    return colours[::-1] if low_is_certain else colours


def _mix(colour: str, under: str, strength: float) -> str:
    """A colour with an opacity over another one, both as #RRGGBB."""
    parts = [
        round(strength * int(colour[i : i + 2], 16) + (1 - strength) * int(under[i : i + 2], 16))
        for i in (1, 3, 5)
    ]
    return "#" + "".join(f"{part:02X}" for part in parts)


def escape(text: object) -> str:
    """User text for a figure: plotly interprets tags such as <b> and <a> in most texts."""
    return html.escape(str(text), quote=False)


@cache
def template(dark: bool) -> go.layout.Template:
    """The plotly template of all figures."""
    colours = page_colours(dark)
    axis = {
        "showgrid": False,
        "zeroline": False,
        "showline": True,
        "linecolor": colours.hairline,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": colours.hairline,
        "tickfont": {"color": colours.muted, "size": 12},
        "title": {"font": {"color": colours.text, "size": 13}, "standoff": 8},
        "automargin": True,
    }
    bar = {
        "thickness": 12,
        "outlinewidth": 0,
        "ticklen": 4,
        "tickcolor": colours.hairline,
        "tickfont": {"color": colours.muted, "size": 12},
        "title": {"font": {"color": colours.text, "size": 12}, "side": "right"},
    }
    layout = {
        "font": {"family": "Inter, sans-serif", "size": 13, "color": colours.text},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": colours.panel,
        "colorway": list(OKABE_ITO),
        "xaxis": axis,
        "yaxis": axis,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "hoverlabel": {
            "bgcolor": colours.panel,
            "bordercolor": colours.hairline,
            "font": {"family": "Inter, sans-serif", "size": 12, "color": colours.text},
            "align": "left",
        },
        "legend": {
            "orientation": "h",
            "x": 1,
            "y": 1.01,
            "xanchor": "right",
            "yanchor": "bottom",
            "font": {"size": 12},
            "itemsizing": "constant",
            "bgcolor": "rgba(0,0,0,0)",
        },
        "modebar": {
            "bgcolor": "rgba(0,0,0,0)",
            "color": colours.muted,
            "activecolor": ACCENT,
        },
    }
    data = {"heatmap": [go.Heatmap(colorbar=bar)], "bar": [go.Bar(marker_line_width=0)]}
    return go.layout.Template(layout=layout, data=data)
