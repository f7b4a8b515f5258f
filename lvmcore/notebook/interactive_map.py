"""Map of a fitted model as an interactive widget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from lvmcore.errors import ConfigError, DataError, UnsupportedError
from lvmcore.notebook.map_rows import NotebookRows, row_colours
from lvmcore.relevance import leading_dimensions

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.notebook.map_widget import MapWidget

__all__ = ["show"]

#: Most rows of a map in a notebook, whose positions are part of its file.
MOST_ROWS = 200_000
SMALLEST, LARGEST = 200, 2000


def show(
    model: LatentVariableModel,
    labels: ArrayLike | pd.Series | None = None,
    *,
    names: Sequence[object] | None = None,
    dimensions: tuple[int, int] | None = None,
    height: int = 480,
) -> MapWidget:
    """Show the map of a fitted model in a notebook: pan, zoom, hover, select.

    Rows are selected by a click, or by a lasso with the Shift key; ``selected`` of the widget holds
    their positions, and setting it selects rows on the map. The hovered row has the 95 % ellipse of
    its posterior, x_q ± 2.45 sd_q along both dimensions, where the model has one.

    Args:
        model: a fitted model.
        labels: what colours the rows, [N]: at most 16 distinct values, or texts, as categories;
            other numbers on a scale. None for one colour.
        names: a name of each row for the hover, [N]; None for its position.
        dimensions: the horizontal and the vertical latent dimension, from 0; None for the two most
            relevant ones.
        height: in pixels, 200 to 2000.

    Returns:
        The widget, which a notebook shows as the last value of a cell.

    Raises:
        ConfigError: there is no such dimension, or the height is out of its range.
        DataError: there are not as many labels or names as rows, or too many rows.
        UnsupportedError: the package anywidget is not installed.
    """
    try:
        from lvmcore.notebook.map_widget import MapWidget
    except ImportError as error:
        raise UnsupportedError(
            "A map in a notebook needs the package anywidget: install latentboard[notebook]."
        ) from error
    if not SMALLEST <= height <= LARGEST:
        raise ConfigError(
            f"height is {height}: expected pixels from {SMALLEST} to {LARGEST}, such as 480."
        )
    rows = _rows(model, labels, names, dimensions)
    return MapWidget(rows, title=type(model).title, height=height)


def _rows(
    model: LatentVariableModel,
    labels: ArrayLike | pd.Series | None,
    names: Sequence[object] | None,
    dimensions: tuple[int, int] | None,
) -> NotebookRows:
    posterior = model.embedding_
    n, q = posterior.mean.shape
    if n > MOST_ROWS:
        raise DataError(
            f"The map has {n} rows: a notebook shows {MOST_ROWS} at most. Fit fewer rows, or open "
            "the run in the dashboard."
        )
    _check_length("labels", labels, n)
    _check_length("names", names, n)
    first, second = _axes(model, q) if dimensions is None else _checked(dimensions, q)
    vertical = np.zeros(n) if second is None else posterior.mean[:, second]
    sd = np.zeros((n, 2))
    if model.capabilities.uncertainty:
        sd[:, 0] = np.sqrt(posterior.variance[:, first])
        if second is not None:
            sd[:, 1] = np.sqrt(posterior.variance[:, second])
    return NotebookRows(
        points=np.column_stack([posterior.mean[:, first], vertical]),
        sd=sd,
        titles=(_title(first), "" if second is None else _title(second)),
        colours=row_colours(None if labels is None else _column(labels), n),
        names=[] if names is None else [str(name) for name in names],
    )


def _column(labels: ArrayLike | pd.Series) -> pd.Series:
    column = labels if isinstance(labels, pd.Series) else pd.Series(np.asarray(labels))
    return column.reset_index(drop=True)


def _check_length(what: str, values: object, n: int) -> None:
    if values is None:
        return
    shape = np.asarray(values, dtype=object).shape
    if len(shape) != 1 or shape[0] != n:
        raise DataError(
            f"{what} has the shape {shape}: expected one value for each of the {n} rows."
        )


def _axes(model: LatentVariableModel, q: int) -> tuple[int, int | None]:
    if model.relevance_:
        return leading_dimensions(model.relevance_)
    return (0, 1) if q > 1 else (0, None)


def _checked(dimensions: tuple[int, int], q: int) -> tuple[int, int]:
    first, second = dimensions
    if not (0 <= first < q and 0 <= second < q):
        raise ConfigError(
            f"dimensions is {dimensions}: the map has the dimensions 0 to {q - 1}, counted from 0."
        )
    return first, second


def _title(dimension: int) -> str:
    return f"Latent dimension {dimension + 1}"
