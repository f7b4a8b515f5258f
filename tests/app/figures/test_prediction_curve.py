"""The figure of a prediction along a column: the part beyond the data is drawn apart."""

import numpy as np
import pytest

from app.analysis.tables.column_curves import ClassCurves
from app.analysis.tables.prediction_curves import PredictionCurve
from app.figures.prediction_curve import BEYOND, MOST_CLASSES, class_curve_figure, curve_figure
from lvmcore.data import DateScale

NASTY = "<b>=x</b>"


def curve(last: float) -> PredictionCurve:
    x = np.arange(12.0)
    return PredictionCurve(NASTY, x, x + 1, x, x + 2, last)


@pytest.mark.parametrize("dark", [False, True])
def test_beyond_the_data_the_line_is_dashed_and_the_band_lighter(dark: bool) -> None:
    found = curve_figure(curve(9.0), NASTY, dark=dark, height=200)
    band, mean, further, ahead = found.data
    assert np.asarray(mean.x).tolist() == list(range(10))
    assert np.asarray(ahead.x).tolist() == [9, 10, 11]  # joined to the other part
    assert (mean.line.dash, ahead.line.dash) == ("solid", "dash")
    assert np.asarray(ahead.y).tolist() == [10, 11, 12]
    opacity = [float(one.fillcolor.split(",")[-1].rstrip(")")) for one in (band, further)]
    assert opacity[0] > opacity[1]
    assert [note.text for note in found.layout.annotations] == [BEYOND]
    assert "<b>" not in found.layout.xaxis.title.text + found.layout.yaxis.title.text


def test_without_a_part_beyond_there_is_no_label() -> None:
    found = curve_figure(curve(11.0), "y", dark=False, height=200)
    assert len(found.data) == 2
    assert not found.layout.annotations
    band = found.data[0]
    assert np.asarray(band.y).tolist() == [*range(2, 14), *range(11, -1, -1)]


def test_rows_of_the_fit_and_held_out_ones_look_different() -> None:
    held_out = np.array([False, True, False])
    points = (np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0]), held_out)
    *_, fitted, held = curve_figure(curve(9.0), "y", dark=False, height=200, points=points).data
    assert np.asarray(fitted.x).tolist() == [1, 3]
    assert np.asarray(held.x).tolist() == [2]
    assert fitted.marker.symbol != held.marker.symbol
    only = (points[0], points[1], ~held_out | True)
    names = [
        one.name for one in curve_figure(curve(9.0), "y", dark=False, height=200, points=only).data
    ]
    assert "rows of the fit" not in names


def test_a_column_of_dates_has_an_axis_of_dates() -> None:
    x = np.arange(12.0)
    dated = PredictionCurve("when", x, x + 1, x, x + 2, 9.0, DateScale("month", "1920-11"))
    points = (np.array([0.0, 1.5]), np.array([1.0, 2.0]), np.array([False, False]))
    found = curve_figure(dated, "y", dark=False, height=200, points=points)
    assert found.layout.xaxis.type == "date"
    assert list(found.data[1].x[:3]) == [
        "1920-11-01T00:00:00",
        "1920-12-01T00:00:00",
        "1921-01-01T00:00:00",
    ]
    assert found.data[1].hovertemplate.startswith("%{x|%Y-%m}: ")
    assert found.layout.annotations[0].x == "1921-08-01T00:00:00"
    assert list(found.data[-1].x) == ["1920-11-01T00:00:00", "1920-12-16T12:00:00"]


def test_classes_have_a_curve_and_their_rows_in_one_colour_below_the_axis() -> None:
    x = np.arange(4.0)
    probability = np.array([[0.1, 0.9], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]])
    curves = ClassCurves("a", x, (NASTY, "low"), probability)
    points = (np.array([0.5, 1.5, 3.0]), np.array([NASTY, "low", NASTY]))
    found = class_curve_figure(curves, dark=False, height=200, points=points)
    first, own, second, others = found.data
    assert np.asarray(first.y).tolist() == probability[:, 0].tolist()
    assert np.asarray(own.x).tolist() == [0.5, 3.0]
    assert first.line.color == own.marker.color != second.line.color
    assert (np.asarray(own.y) < 0).all()
    assert np.asarray(others.y)[0] < np.asarray(own.y)[0]
    assert "<b>" not in first.name


def test_of_many_classes_the_most_probable_are_drawn() -> None:
    rng = np.random.default_rng(0)
    probability = rng.dirichlet(np.ones(MOST_CLASSES + 3), size=5)
    names = tuple(f"class {k}" for k in range(MOST_CLASSES + 3))
    curves = ClassCurves("a", np.arange(5.0), names, probability)
    points = (np.array([0.0]), np.array(["class 0"]))
    found = class_curve_figure(curves, dark=True, height=200, points=points)
    drawn = {one.name for one in found.data if one.mode == "lines"}
    order = np.argsort(-probability.max(axis=0))[:MOST_CLASSES]
    assert drawn == {names[k] for k in order}
