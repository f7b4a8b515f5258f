"""The learned kernel and its spectrum, drawn."""

import numpy as np

from app.views.latent.kernel_figures import kernel_figure, spectrum_figure
from lvmcore.random_features.spectrum import SpectralDensity

DENSITY = SpectralDensity(
    points=np.random.default_rng(0).normal(size=(8, 3)),
    weights=np.array([0.7, 0.298, 0.002]),
    means=np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [9.0, 9.0, 9.0]]),
    covariances=np.stack([np.diag([1.0, 4.0, 9.0])] * 3),
    shares=np.full((8, 3), 1 / 3),
)


def test_a_line_for_each_dimension_asked_for() -> None:
    distances = np.linspace(0, 2, 5)
    kernel = np.stack([np.cos(distances * q) for q in range(3)])
    figure = kernel_figure(distances, kernel, [0, 2], dark=False)
    assert [line.name for line in figure.data] == ["dimension 1", "dimension 3"]
    np.testing.assert_array_equal(figure.data[1].y, kernel[2])


def test_components_of_some_weight_are_drawn_on_the_axes_of_the_map() -> None:
    figure = spectrum_figure(DENSITY, (2, 0), dark=True)
    rings = [trace for trace in figure.data if trace.mode == "lines"]
    assert len(rings) == 2
    ring = np.c_[rings[0].x, rings[0].y] - DENSITY.means[0][[2, 0]]
    np.testing.assert_allclose((ring**2 / np.array([9.0, 1.0])).sum(1), 4.0, rtol=1e-6)
    assert [trace.text[0] for trace in figure.data if trace.mode == "text"] == ["70%", "30%"]
    assert rings[0].line.width > rings[1].line.width
    points = figure.data[-1]
    np.testing.assert_array_equal(points.x, DENSITY.points[:, 2])
    np.testing.assert_array_equal(points.y, DENSITY.points[:, 0])
