"""Class probabilities over a plane."""

import numpy as np
import pytest

from app.analysis.map.row_colours import CategoryStyle
from app.analysis.tables.prediction_slices import ClassPlane
from app.figures.palette import rgb
from app.figures.row_traces import MapRows
from app.figures.theme import category, page_colours
from app.views.papers.plane_figures import class_plane_figure


@pytest.mark.parametrize("dark", [False, True])
def test_a_certain_point_has_the_colour_of_its_class_and_others_a_mixture(dark: bool) -> None:
    axis = np.array([0.0, 1.0])
    probability = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]])
    plane = ClassPlane("a", "b", axis, axis + 2, ("late", "early"), probability)
    style = CategoryStyle("label", ("early", "late"), np.array([0, 1]))
    rows = MapRows(np.array([[0.0, 2.0], [1.0, 3.0]]), np.arange(2), [["r"]] * 2, style)
    found = class_plane_figure(plane, rows, dark=dark, height=200)
    image = found.data[0]
    late, early = (rgb([category(code, dark)[0]])[0] for code in (1, 0))
    panel = rgb([page_colours(dark).panel])[0]
    np.testing.assert_allclose(image.z[0][0], (late + panel) / 2, atol=1)
    np.testing.assert_allclose(image.z[0][1], (early + panel) / 2, atol=1)
    np.testing.assert_allclose(image.z[1][0], (late + early) / 4 + panel / 2, atol=1)
    assert (image.x0, image.dx, image.y0, image.dy) == (0, 1, 2, 1)
    assert found.layout.yaxis.range == (2, 3)  # upwards, unlike a picture
    assert sum(len(trace.x) for trace in found.data[1:]) == 2
