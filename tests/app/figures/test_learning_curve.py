"""Learning curves as a figure."""

import numpy as np
import pytest

from app.figures.learning_curve import learning_curve_figure
from lvmcore.evaluation.learning_curves import SECONDS, CurvePoint, LearningCurve

NASTY = "<b>a</b>"


def curve(*points: tuple[int, float | None]) -> LearningCurve:
    found = tuple(
        CurvePoint(size, repeat, {"accuracy": value}, 2.0 * size)
        for repeat, (size, value) in enumerate(points)
    )
    return LearningCurve(found, {"accuracy": "accuracy"}, "On some rows.")


@pytest.mark.parametrize("dark", [False, True])
def test_a_line_of_means_has_a_band_of_one_sd_to_each_side(dark: bool) -> None:
    curves = {NASTY: curve((20, 0.5), (40, 0.9), (20, 0.7)), "b": curve((20, None))}
    found = learning_curve_figure(curves, "accuracy", "accuracy", dark=dark, height=200)
    band, line = found.data  # the other has no value
    assert np.asarray(line.x).tolist() == [20, 40]
    assert np.asarray(line.y).tolist() == pytest.approx([0.6, 0.9])
    sd = np.std([0.5, 0.7], ddof=1)
    assert np.asarray(band.y).tolist() == pytest.approx([0.6 + sd, 0.9, 0.9, 0.6 - sd])
    assert np.asarray(line.customdata)[:, 1].tolist() == [2, 1]
    assert "<b>" not in line.name
    assert found.layout.xaxis.tickvals == (20, 40)
    assert found.layout.showlegend


def test_seconds_are_drawn_as_the_scores_are() -> None:
    found = learning_curve_figure(
        {"a": curve((20, None), (40, None))}, SECONDS, "seconds of a fit", dark=False, height=200
    )
    assert np.asarray(found.data[1].y).tolist() == [40, 80]
    assert not found.layout.showlegend
