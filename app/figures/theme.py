"""Colours, fonts and the plotly template, light and dark: the look of every plotly figure."""

from __future__ import annotations

import html
import itertools
from dataclasses import dataclass
from functools import cache

import plotly.graph_objects as go

from lvmcore.runs.looks import OKABE_ITO, SHAPES

__all__ = [
    "ACCENT",
    "NUMBERS",
    "Ink",
    "accent",
    "category",
    "escape",
    "ink",
    "path_colours",
    "ramp",
    "template",
    "veil",
]

ACCENT = "#0E7C7B"
_ACCENT_DARK = "#4FB3B1"

#: cividis, from its dark end.
_CIVIDIS = (
    "#00224E", "#123570", "#3B496C", "#575D6D", "#707173",
    "#8A8678", "#A59C74", "#C3B369", "#E1CC55", "#FEE838",
)  # fmt: skip
#: How much of the ramp shows over the panel: what is behind the rows stays behind them.
_STRENGTH = 0.78
#: The ramp of numeric columns, apart from cividis so that rows stand out from what is behind them.
NUMBERS = "Viridis"


@dataclass(frozen=True)
class Ink:
    """The page's colours.

    Attributes:
        text: of titles and numbers.
        muted: of what is secondary.
        hairline: of borders.
        panel: behind a figure.
        page: behind everything.
    """

    text: str
    muted: str
    hairline: str
    panel: str
    page: str


_LIGHT = Ink("#1A1D21", "#6B7280", "#E5E5E0", "#FFFFFF", "#FAFAF7")
_DARK = Ink("#E8EAED", "#9AA3AD", "#2A3138", "#171C21", "#101418")


def ink(dark: bool) -> Ink:
    """The page's colours, light or dark."""
    return _DARK if dark else _LIGHT


def accent(dark: bool) -> str:
    """The accent, for what is drawn: on a dark page it is lighter."""
    return _ACCENT_DARK if dark else ACCENT


def path_colours(n: int, dark: bool) -> list[str]:
    """Colours of paths and of the bound's parts: the accent, then those least like it first."""
    codes = itertools.cycle((1, 0, *range(3, len(OKABE_ITO)), 2))  # 2 is a green near the accent
    return [
        accent(dark),
        *(category(code, dark)[0] for code in itertools.islice(codes, max(0, n - 1))),
    ][:n]


def veil(dark: bool) -> str:
    """The accent, let through: colour of an interval."""
    return "rgba(79,179,177,0.45)" if dark else "rgba(14,124,123,0.35)"


def category(code: int, dark: bool) -> tuple[str, str]:
    """Colour and marker of a category: Okabe and Ito's colours, then other shapes.

    Args:
        code: from 0.
        dark: whether the page is dark.
    """
    colours = (*OKABE_ITO, "#FFFFFF" if dark else "#000000")
    shape = SHAPES[code // len(colours) % len(SHAPES)]
    return colours[code % len(colours)], shape


def ramp(*, sure_is_low: bool, dark: bool) -> list[str]:
    """Colours of a heatmap, for its lowest value first: light means sure, dark means unsure.

    The colours are those of cividis, let through over the panel. On a dark page the dark end, the
    unsure one, recedes into the page.

    Args:
        sure_is_low: whether small values mean sure, as of an sd; False for a probability.
        dark: whether the page is dark.
    """
    panel = ink(dark).panel
    colours = [_mix(colour, panel, _STRENGTH) for colour in _CIVIDIS]
    return colours[::-1] if sure_is_low else colours


def _mix(colour: str, under: str, strength: float) -> str:
    """A colour let through over another, both as #RRGGBB."""
    parts = [
        round(strength * int(colour[i : i + 2], 16) + (1 - strength) * int(under[i : i + 2], 16))
        for i in (1, 3, 5)
    ]
    return "#" + "".join(f"{part:02X}" for part in parts)


def escape(text: object) -> str:
    """User text for a figure: plotly reads tags such as <b> and <a> in most of its texts."""
    return html.escape(str(text), quote=False)


@cache
def template(dark: bool) -> go.layout.Template:
    """The plotly template of all figures."""
    colours = ink(dark)
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
