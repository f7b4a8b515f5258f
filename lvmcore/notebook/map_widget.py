"""The map of a model as a widget of Jupyter. Its script is ``map_widget.js``."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, ClassVar

import anywidget
import numpy as np
import traitlets
from numpy.typing import NDArray

from lvmcore.errors import DataError
from lvmcore.notebook.map_rows import NotebookRows

__all__ = ["MapWidget"]


def _text(name: str) -> str:
    return files("lvmcore.notebook").joinpath(name).read_text(encoding="utf-8")


class MapWidget(anywidget.AnyWidget):
    """An interactive map.

    Positions travel as little-endian float32, codes as uint16, so that the map of 100 000 rows has
    2 MB.

    Attributes:
        selected: positions of the selected rows, ascending; setting it selects them on the map.
            A position that the map does not have is refused.
    """

    _esm: ClassVar[str] = _text("map_widget.js")
    _css: ClassVar[str] = _text("map_widget.css")

    selected = traitlets.List(traitlets.Int()).tag(sync=True)
    _content = traitlets.Dict().tag(sync=True)
    _points = traitlets.Bytes().tag(sync=True)
    _sd = traitlets.Bytes().tag(sync=True)
    _codes = traitlets.Bytes().tag(sync=True)
    _values = traitlets.Bytes().tag(sync=True)

    def __init__(self, rows: NotebookRows, *, title: str, height: int) -> None:
        """Make the widget.

        Args:
            rows: what the map draws.
            title: title of the model.
            height: in pixels.
        """
        self._n_rows = len(rows.points)
        colours = rows.colours
        content: dict[str, Any] = {
            "title": title,
            "height": height,
            "titles": list(rows.titles),
            "names": rows.names,
            "light": [list(look) for look in colours.looks],
            "dark": [list(look) for look in colours.dark],
            "legend": [list(entry) for entry in colours.legend],
        }
        super().__init__(
            _content=content,
            _points=rows.points.astype("<f4").tobytes(),
            _sd=rows.sd.astype("<f4").tobytes(),
            _codes=colours.codes.astype("<u2").tobytes(),
            _values=b"" if colours.values is None else colours.values.astype("<f4").tobytes(),
        )

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Whether each row is selected, [N]."""
        found = np.zeros(self._n_rows, dtype=bool)
        found[self.selected] = True
        return found

    @traitlets.validate("selected")
    def _checked(self, proposal: dict[str, Any]) -> list[int]:
        rows = sorted({int(row) for row in proposal["value"]})
        outside = [row for row in rows if not 0 <= row < self._n_rows]
        if outside:
            raise DataError(
                f"There is no row {outside[0]}: the map has {self._n_rows} rows, counted from 0."
            )
        return rows
