"""Colours of the values of a column, chosen for a run: a palette of categories, a colour scale.

They are a JSON file in the folder of the run, by the names of the columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from lvmcore.errors import ConfigError, DataError
from lvmcore.runs.atomic_files import read_json, write_json

__all__ = [
    "DEFAULT_CATEGORIES",
    "DEFAULT_NUMBERS",
    "OKABE_ITO",
    "PALETTES",
    "SCALES",
    "SHAPES",
    "CategoryColours",
    "ColumnColours",
    "NumberColours",
    "Transform",
    "read_colours",
    "write_colours",
]

#: Okabe and Ito's colours, distinct for all types of colour vision; black or white comes eighth.
OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442")
#: Colours of categories by the name of their palette.
PALETTES: Mapping[str, tuple[str, ...]] = {
    "Okabe–Ito": OKABE_ITO,
    "Tableau 10": (
        "#4E79A7", "#F28E2B", "#E15759", "#76B7B2", "#59A14F",
        "#EDC948", "#B07AA1", "#FF9DA7", "#9C755F", "#BAB0AC",
    ),
    "Dark 2": (
        "#1B9E77", "#D95F02", "#7570B3", "#E7298A", "#66A61E", "#E6AB02", "#A6761D", "#666666",
    ),
    "Paired": (
        "#A6CEE3", "#1F78B4", "#B2DF8A", "#33A02C", "#FB9A99", "#E31A1C",
        "#FDBF6F", "#FF7F00", "#CAB2D6", "#6A3D9A", "#FFFF99", "#B15928",
    ),
}  # fmt: skip
#: Marker shapes, one for each cycle through the colours.
SHAPES = ("circle", "diamond", "square", "triangle-up")
#: Colour scales of numbers. The last one has its lightest colour in the middle.
SCALES = ("Viridis", "Cividis", "Magma", "Turbo", "Blue–red")

#: How a number becomes a place on the colour scale.
Transform = Literal["linear", "log", "quantile", "diverging"]

_DEFAULT_PALETTE = "Okabe–Ito"
_COLOUR = re.compile(r"#[0-9A-Fa-f]{6}")
#: Most columns and categories with chosen colours.
_MOST = 200


@dataclass(frozen=True)
class CategoryColours:
    """Colours of categories, and their order.

    Attributes:
        palette: a name of ``PALETTES``.
        own: categories with a colour of their own, and the colour, #RRGGBB.
        order: categories in the order of the legends, the first one drawn on top; categories that
            it lacks come after them. Empty for the order of the names, and no layers.

    Raises:
        ConfigError: there is no such palette, or a colour is not in this form.
    """

    palette: str = _DEFAULT_PALETTE
    own: tuple[tuple[str, str], ...] = ()
    order: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.palette not in PALETTES:
            known = ", ".join(PALETTES)
            raise ConfigError(f"Unknown palette {self.palette!r}: use one of {known}.")
        for name, colour in self.own:
            if not _COLOUR.fullmatch(colour):
                raise ConfigError(f"The colour of {name!r} is {colour!r}: expected #RRGGBB.")

    def codes_in_order(self, names: Sequence[str]) -> list[int]:
        """Positions of categories among ``names``, in the order of the legends."""
        place = {name: code for code, name in enumerate(names)}
        first = [place[name] for name in dict.fromkeys(self.order) if name in place]
        return [*first, *(code for code in range(len(names)) if code not in first)]

    def look(self, code: int, name: str | None = None, *, dark: bool) -> tuple[str, str]:
        """Colour and marker of a category: the colours of the palette, then other shapes.

        Args:
            code: position of the category, from 0.
            name: the category; None for the palette's colour.
            dark: whether the page is dark.
        """
        colours = PALETTES[self.palette]
        if colours is OKABE_ITO:
            colours = (*colours, "#FFFFFF" if dark else "#000000")
        shape = SHAPES[code // len(colours) % len(SHAPES)]
        return dict(self.own).get(name or "", colours[code % len(colours)]), shape


@dataclass(frozen=True)
class NumberColours:
    """Colours of numbers.

    Attributes:
        scale: a name of ``SCALES``; None for that of the transform.
        transform: "linear"; "log", of positive numbers; "quantile", by the share of smaller
            numbers; or "diverging", linear, with ``centre`` in the middle of the scale.
        low: number at the low end of the scale; None for the smallest.
        high: number at the high end; None for the largest.
        centre: number in the middle of a diverging scale.

    Raises:
        ConfigError: a name is unknown, or ``low`` is not below ``high``.
    """

    scale: str | None = None
    transform: Transform = "linear"
    low: float | None = None
    high: float | None = None
    centre: float = 0.0

    def __post_init__(self) -> None:
        if self.scale is not None and self.scale not in SCALES:
            known = ", ".join(SCALES)
            raise ConfigError(f"Unknown colour scale {self.scale!r}: use one of {known}.")
        if self.transform not in get_args(Transform):
            raise ConfigError(f"Unknown transform {self.transform!r} of a colour scale.")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ConfigError(
                f"The colour scale goes from {self.low:g} to {self.high:g}: choose a lower end "
                "below the upper one."
            )

    @property
    def shown_scale(self) -> str:
        """The colour scale: the chosen one, else that of the transform."""
        return self.scale or SCALES[-1 if self.transform == "diverging" else 0]


ColumnColours = CategoryColours | NumberColours

#: The colours of a column until others are chosen.
DEFAULT_CATEGORIES, DEFAULT_NUMBERS = CategoryColours(), NumberColours()


def read_colours(path: Path) -> dict[str, ColumnColours]:
    """The colours in a file, by column; invalid ones are left out."""
    try:
        stored = read_json(path)
    except DataError:
        return {}
    found = {}
    for column, content in stored.items():
        try:
            found[column] = _column_colours(content)
        except (ConfigError, KeyError, TypeError, ValueError):
            continue
    return found


def write_colours(path: Path, colours: Mapping[str, ColumnColours]) -> None:
    """Replace the file; default colours are left out.

    Raises:
        ConfigError: there are too many columns or categories.
        OSError: the file cannot be written.
    """
    defaults = (DEFAULT_CATEGORIES, DEFAULT_NUMBERS)
    kept = {column: one for column, one in colours.items() if one not in defaults}
    chosen = [one for one in kept.values() if isinstance(one, CategoryColours)]
    if len(kept) > _MOST or any(max(len(one.own), len(one.order)) > _MOST for one in chosen):
        raise ConfigError(f"A run keeps the colours of {_MOST} columns and categories at most.")
    write_json(path, {column: asdict(one) for column, one in kept.items()})


def _column_colours(content: Mapping[str, Any]) -> ColumnColours:
    if "palette" in content:
        own = tuple((str(name), str(colour)) for name, colour in content["own"])
        order = tuple(str(name) for name in content.get("order", ()))
        return CategoryColours(str(content["palette"]), own, order)
    low, high = (None if (end := content[name]) is None else float(end) for name in ("low", "high"))
    return NumberColours(
        content["scale"], content["transform"], low, high, float(content["centre"])
    )
