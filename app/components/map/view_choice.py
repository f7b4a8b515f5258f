"""The choice of what a map shows: two latent dimensions, or the best view of all of them."""

from __future__ import annotations

from collections.abc import Sequence

from streamlit.delta_generator import DeltaGenerator

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.map_axes import Axes, View, axes_after_click
from app.services import fitted_maps
from app.state.widgets import map_widget_key, set_widget_value, widget_value
from lvmcore.projection import LatentProjection
from lvmcore.relevance import leading_dimensions

__all__ = ["BEST_OPTION", "choose_axes", "choose_view", "show_dimension", "shows_best_view"]

#: Option of the best view, among the dimensions.
BEST_OPTION = -1
_TITLES = {"x": "Horizontal", "y": "Vertical"}


def choose_axes(
    fitted_map: FittedMap, horizontal: DeltaGenerator, vertical: DeltaGenerator
) -> Axes:
    """Draw the choice of the two displayed dimensions, and return them."""
    axes = _axes(fitted_map)
    if axes[1] is not None:
        for column, name in ((horizontal, "x"), (vertical, "y")):
            _choice(fitted_map, column, name, _TITLES[name], axes, best=False)
    return axes


def choose_view(fitted_map: FittedMap, columns: Sequence[DeltaGenerator]) -> View:
    """Draw the choice of two dimensions or the best view, and return it.

    Args:
        fitted_map: the run.
        columns: one for the best view, which has no axes to choose, or two (``shows_best_view``).
    """
    axes, best = _axes(fitted_map), fitted_maps.best_view(fitted_map.run)
    if best is not None and axes[0] == BEST_OPTION:
        _choice(fitted_map, columns[0], "x", "View", axes, best=True)
    elif axes[1] is not None:
        for column, name in zip(columns, _TITLES, strict=True):
            offered = best is not None and name == "x"
            _choice(fitted_map, column, name, _TITLES[name], axes, best=offered)
    return best if best is not None and axes[0] == BEST_OPTION else axes


def shows_best_view(fitted_map: FittedMap) -> bool:
    """Whether the map shows the best view."""
    return _axes(fitted_map)[0] == BEST_OPTION


def show_dimension(fitted_map: FittedMap, view: View, dimension: int) -> None:
    """Show a latent dimension on the horizontal axis, after a click on its relevance bar.

    The best view gives way to it and to the most relevant other dimension.
    """
    first, second = axes_after_click(
        _leading(fitted_map) if isinstance(view, LatentProjection) else view, dimension
    )
    set_widget_value(map_widget_key(fitted_map, "x"), first)
    if second is not None:
        set_widget_value(map_widget_key(fitted_map, "y"), second)


def _choice(
    fitted_map: FittedMap, column: DeltaGenerator, name: str, title: str, axes: Axes, *, best: bool
) -> None:
    """Draw the choice of an axis, perhaps with the best view among its options."""
    other = ", or the best 2-D view of all of them." if best else "."
    column.selectbox(
        title,
        [*range(fitted_map.dimensions), *([BEST_OPTION] if best else [])],
        format_func=lambda q: "best view" if q == BEST_OPTION else str(q + 1),
        key=map_widget_key(fitted_map, name),
        on_change=_swap_equal_axes,
        args=(fitted_map, name, axes),
        help=f"The latent dimension on this axis{other}",
    )


def _axes(fitted_map: FittedMap) -> Axes:
    """The chosen axes, ``BEST_OPTION`` and None for the best view; the leading ones at first."""
    if fitted_map.dimensions == 1:
        return 0, None
    across, up = (map_widget_key(fitted_map, name) for name in _TITLES)
    stale = widget_value(across) == BEST_OPTION and fitted_maps.best_view(fitted_map.run) is None
    if widget_value(across) is None or stale:
        for key, dimension in zip((across, up), _leading(fitted_map), strict=True):
            set_widget_value(key, dimension)
    first, second = int(widget_value(across)), widget_value(up)
    if first == BEST_OPTION:
        return first, None
    if second is None or second == first:  # after the best view, or a late value of a field
        second = next(q for q in _leading(fitted_map) if q != first)
        set_widget_value(up, second)
    return first, second


def _leading(fitted_map: FittedMap) -> Axes:
    return leading_dimensions(fitted_map.model.variance_shares())


def _swap_equal_axes(fitted_map: FittedMap, changed: str, before: Axes) -> None:
    """Swap the axes if both show the same dimension."""
    other = "y" if changed == "x" else "x"
    if widget_value(map_widget_key(fitted_map, "x")) == widget_value(
        map_widget_key(fitted_map, "y")
    ):
        set_widget_value(map_widget_key(fitted_map, other), before[0 if changed == "x" else 1])
