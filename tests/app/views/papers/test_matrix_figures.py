"""A kernel matrix as a heatmap."""

import numpy as np
import pytest

from app.views.papers.matrix_figures import kernel_matrix_figure


@pytest.mark.parametrize("dark", [False, True])
def test_the_first_row_is_at_the_top_and_scales_are_shared(dark: bool) -> None:
    matrix = np.array([[1.0, 0.2], [0.2, 1.0]])
    found = kernel_matrix_figure(matrix, np.array([1, 3]), (-0.1, 1.0), dark=dark, height=200)
    (trace,) = found.data
    np.testing.assert_allclose(trace.z, matrix, rtol=1e-6)
    assert list(trace.x) == list(trace.y) == [1, 3]
    assert (trace.zmin, trace.zmax) == (-0.1, 1.0)
    assert found.layout.yaxis.autorange == "reversed"
    assert found.layout.yaxis.scaleanchor == "x"
