"""The view of a run's map: what it shows, and how. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from app.analysis.map.map_axes import View
from app.analysis.map.selections import Selection, regions_of
from lvmcore.projection import LatentProjection

__all__ = [
    "BEST",
    "DECODED_MEAN",
    "NO_BACKGROUND",
    "OF_ONE_COLUMN",
    "MapOptions",
    "MapView",
    "Ranges",
    "ShownAxes",
    "available_view",
    "has_contours",
    "is_drawn",
    "shown_axes",
    "without_map_parts",
]

#: The axes of the best view.
BEST: Literal["best"] = "best"
#: Two latent dimensions, from 0, or the best view; None on a map of one dimension.
ShownAxes = tuple[int, int] | Literal["best"] | None
Ranges = tuple[tuple[float, float], tuple[float, float]]

NO_BACKGROUND = "nothing"
#: The background that is of one decoded column, with or without its noise.
OF_ONE_COLUMN = "predictive sd"
#: The background that is the mean of one decoded column.
DECODED_MEAN = "decoded mean"


@dataclass(frozen=True)
class MapView:
    """What the page of a map shows of a run.

    Attributes:
        axes: two latent dimensions, the best view, or None on a map of one dimension.
        colour: option of the row colours.
        background: name of the heatmap.
        column: position of the decoded column of the heatmap; None for the mean over columns, or
            for the first column of a decoded mean.
        noise: whether the heatmap has the noise of a new observation.
        contours: whether contour lines of the heatmap are drawn.
        label: position of the heatmap's class, or label column, among those to choose from.
        at_point: whether the dimensions that are not shown are those of the clicked point.
        ellipses: whether posterior ellipses are drawn.
        size: column of the row sizes, or the posterior sd; None for one size.
        shape: column of the row shapes; None for one shape.
        group_labels: whether the names of the categories are on the map.
        pictures: whether pictures mark the rows.
        inducing: whether inducing inputs are drawn.
        held_out: whether held-out rows are drawn.
        tab: the open tab beside the map.
        row: position of the clicked row, held-out rows after those of the fit; None for no row.
        place: latent coordinates of the clicked point that is no row, [Q].
        zoom: ranges of both axes; None for the whole map.
        selection: the selected rows.
    """

    axes: ShownAxes
    colour: str = ""
    background: str = NO_BACKGROUND
    column: int | None = None
    noise: bool = False
    contours: bool = False
    label: int = 0
    at_point: bool = False
    ellipses: bool = False
    size: str | None = None
    shape: str | None = None
    group_labels: bool = False
    pictures: bool = False
    inducing: bool = False
    held_out: bool = False
    tab: str = ""
    row: int | None = None
    place: tuple[float, ...] | None = None
    zoom: Ranges | None = None
    selection: Selection | None = None

    def same_choices(self, other: MapView) -> bool:
        """Whether both differ in the clicked point and the zoom at most."""
        return self == replace(other, row=self.row, place=self.place, zoom=self.zoom)


@dataclass(frozen=True)
class MapOptions:
    """What the map of a run can show.

    Attributes:
        new: the view of a new map.
        dimensions: Q, the number of latent dimensions.
        best: the best view; None for a map of at most two live dimensions.
        colours: titles of the options of the row colours.
        backgrounds: number of classes, or label columns, to choose from by the name of a heatmap.
        drawn: the heatmaps that the model can compute.
        columns: number of columns that the model decodes.
        sizes: names of the columns of the row sizes.
        shapes: names of the columns of the row shapes.
        rows: number of rows that can be clicked, held-out ones included.
        ellipses: whether there are posterior ellipses.
        inducing: whether there are inducing inputs.
        held_out: whether there are positions of held-out rows.
        tabs: names of the tabs beside the map.
        pictures: whether the rows are pictures.
        attempt: number of the run's attempt; positions on another attempt's map are void.
    """

    new: MapView
    dimensions: int
    best: LatentProjection | None
    colours: Mapping[str, str]
    backgrounds: Mapping[str, int]
    drawn: Collection[str]
    columns: int
    sizes: Collection[str]
    shapes: Collection[str]
    rows: int
    ellipses: bool
    inducing: bool
    held_out: bool
    tabs: Collection[str]
    pictures: bool = False
    attempt: int = 0


def available_view(view: MapView, options: MapOptions) -> tuple[MapView, tuple[str, ...]]:
    """The view with that of a new map wherever the map lacks what it names.

    Details that do not show, such as the class of a background of columns, become those of a new
    map too, but are not listed.

    Returns:
        The view, and the names of the attributes that were replaced for want of what they name.
    """
    right = {
        "axes": _has_axes(view.axes, options),
        "colour": view.colour in options.colours,
        "background": view.background in options.backgrounds,
        "column": view.column is None or 0 <= view.column < options.columns,
        "ellipses": options.ellipses or not view.ellipses,
        "size": view.size is None or view.size in options.sizes,
        "shape": view.shape is None or view.shape in options.shapes,
        "pictures": options.pictures or not view.pictures,
        "inducing": options.inducing or not view.inducing,
        "held_out": options.held_out or not view.held_out,
        "tab": view.tab in options.tabs,
        "row": view.row is None or 0 <= view.row < options.rows,
        "place": view.place is None or len(view.place) == options.dimensions,
        "label": 0 <= view.label < max(1, options.backgrounds.get(view.background, 0)),
    }
    lacking = tuple(name for name, fits in right.items() if not fits)
    found = replace(view, **{name: getattr(options.new, name) for name in lacking})
    hidden: dict[str, Any] = {}
    drawn = found.background in options.drawn
    if (
        not drawn
        or found.background not in (OF_ONE_COLUMN, DECODED_MEAN)
        or (found.background == DECODED_MEAN and found.column == 0)
    ):
        hidden["column"] = None
    if not drawn or found.background != OF_ONE_COLUMN:
        hidden["noise"] = False
    if not drawn or options.dimensions < 3:
        hidden["at_point"] = False
    if not drawn:
        hidden |= {"label": 0, "contours": False}
    if found.row is not None:
        hidden["place"] = None
    return replace(found, **hidden), lacking


def has_contours(background: str) -> bool:
    """Whether a heatmap has contour lines until they are switched off."""
    return background == DECODED_MEAN


def without_map_parts(view: MapView) -> MapView:
    """The view without what another map of the same rows voids: zoom, point, drawn region."""
    kept = None if is_drawn(view.selection) else view.selection
    return replace(view, place=None, zoom=None, selection=kept)


def is_drawn(selection: Selection | None) -> bool:
    """Whether a selection holds a region of the map, which is void on another map."""
    return bool(regions_of(selection))


def shown_axes(view: View) -> ShownAxes:
    """The axes of a view of what a map shows."""
    if isinstance(view, LatentProjection):
        return BEST
    first, second = view
    return None if second is None else (first, second)


def _has_axes(axes: ShownAxes, options: MapOptions) -> bool:
    if options.new.axes is None or axes is None:
        return axes is options.new.axes
    if axes == BEST:
        return options.best is not None
    first, second = axes
    return first != second and all(0 <= q < options.dimensions for q in axes)
