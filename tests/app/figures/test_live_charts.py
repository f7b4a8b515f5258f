"""The charts of a fit under way."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from app.analysis.map.row_colours import CategoryStyle, category_style
from app.figures import live_charts, snapshot_charts
from lvmcore.export.categories import KEPT
from lvmcore.export.column_colours import CategoryColours
from lvmcore.results import FitStep, Snapshot


def _steps(values: np.ndarray) -> list[FitStep]:
    n = len(values)
    return [
        FitStep(i + 1, n, 0.01 * i, float(v), {"data": float(v) + 1.0, "KL": -1.0})
        for i, v in enumerate(values)
    ]


def _classes(labels: list[str | None]) -> CategoryStyle:
    return category_style(pd.Series(labels, dtype=object), "label")


def _snapshot(rows: int = 30) -> Snapshot:
    rng = np.random.default_rng(0)
    return Snapshot(
        mean=rng.normal(size=(rows, 2)),
        rows=np.arange(rows),
        dimensions=(2, 0),
        relevance={"data": np.array([0.1, 0.2, 0.7]), "labels": np.array([0.0, 1.0, 0.0])},
    )


@pytest.mark.parametrize("n", [1, 2, 999, 1000, 1001, 5000, 20011])
def test_decimation_keeps_ends_and_extremes_in_at_most_a_thousand_points(n: int) -> None:
    values = np.random.default_rng(n).normal(size=n).cumsum()
    kept = live_charts.decimate(values)
    assert len(kept) <= live_charts.MAX_POINTS
    assert kept[0] == 0
    assert kept[-1] == n - 1
    assert all(low < high for low, high in pairwise(kept))
    assert values[kept].min() == values.min()
    assert values[kept].max() == values.max()


@pytest.mark.parametrize("level", [-199.983774, 0.5, 123_456.789, -3e-3])
def test_a_flat_curve_has_an_axis_of_few_digits(level: float) -> None:
    axis = live_charts.bound_chart(_steps(level + np.array([0.0, 1e-9, 2e-9])))["yAxis"]
    ulp = np.spacing(abs(level))
    assert axis["min"] - ulp <= level <= axis["max"] + ulp
    assert 1e-5 * abs(level) <= axis["max"] - axis["min"] <= 2.1e-4 * abs(level)
    moving = live_charts.bound_chart(_steps(level * np.array([1.0, 0.9, 0.8])))["yAxis"]
    assert "min" not in moving


def test_a_single_spike_survives_decimation() -> None:
    values = np.zeros(50_000)
    values[31_234] = -7.0
    assert 31_234 in live_charts.decimate(values)


def test_a_short_curve_is_drawn_as_it_is() -> None:
    chart = live_charts.bound_chart(_steps(np.array([-3.0, -2.0, -1.5])))
    assert chart["series"][0]["data"] == [[1, -3.0], [2, -2.0], [3, -1.5]]


def test_the_terms_add_up_to_the_bound_at_every_point() -> None:
    steps = _steps(np.linspace(-50, -10, 20))
    bound = live_charts.bound_chart(steps)["series"][0]["data"]
    terms = [line["data"] for line in live_charts.terms_chart(steps)["series"]]
    for place, (iteration, value) in enumerate(bound):
        assert [line[place][0] for line in terms] == [iteration, iteration]
        assert sum(line[place][1] for line in terms) == pytest.approx(value)


def test_steps_without_a_bound_and_outside_the_window_are_left_out() -> None:
    steps = _steps(np.array([np.nan, -5.0, -4.0, -3.0, -2.0]))
    assert [step.iteration for step in live_charts.steps_shown(steps, None)] == [2, 3, 4, 5]
    assert [step.iteration for step in live_charts.steps_shown(steps, (3, 4))] == [3, 4]


def test_the_map_has_a_series_for_each_class_and_one_for_the_missing() -> None:
    labels = _classes(["a", "b", None] * 10)
    chart = snapshot_charts.map_chart(_snapshot(), labels)
    assert [series["name"] for series in chart["series"]] == ["a", "b", "(missing)"]
    assert [len(series["data"]) for series in chart["series"]] == [10, 10, 10]
    assert chart["xAxis"]["name"] == "latent dimension 3"
    assert chart["yAxis"]["name"] == "latent dimension 1"


def test_the_first_class_of_a_chosen_order_is_on_top() -> None:
    labels = replace(_classes(["a", "b", None] * 10), colours=CategoryColours(order=("b", "a")))
    series = snapshot_charts.map_chart(_snapshot(), labels)["series"]
    assert [one["name"] for one in series] == ["b", "a", "(missing)"]
    assert [one["z"] for one in series] == [5, 4, 3]


def test_a_class_keeps_its_colour_when_a_snapshot_lacks_another() -> None:
    labels = _classes(["a", "b", "c"] * 10)
    whole = snapshot_charts.map_chart(_snapshot(), labels)["series"]
    few = Snapshot(np.zeros((1, 2)), np.array([2]), (0, 1), {})
    part = snapshot_charts.map_chart(few, labels)["series"]
    colours = {s["name"]: s["itemStyle"]["color"] for s in whole}
    assert {s["name"]: s["itemStyle"]["color"] for s in part} == colours


def test_classes_beyond_the_palette_share_grey() -> None:
    labels = _classes([f"c{i:02d}" for i in range(30)])
    series = snapshot_charts.map_chart(_snapshot(), labels)["series"]
    assert len(series) == KEPT + 1
    assert series[-1]["name"] == "other"
    assert sum(len(s["data"]) for s in series) == 30
    looks = {(s["itemStyle"]["color"], s["symbol"]) for s in series[:-1]}
    assert len(looks) == KEPT


def test_without_labels_every_row_is_in_one_series() -> None:
    chart = snapshot_charts.map_chart(_snapshot(), None)
    assert [len(series["data"]) for series in chart["series"]] == [30]
    assert chart["legend"] == {"show": False}


def test_relevance_is_in_per_cent_for_each_path() -> None:
    chart = snapshot_charts.kernel_weight_chart(_snapshot())
    assert chart["xAxis"]["data"] == ["1", "2", "3"]
    assert {s["name"]: s["data"] for s in chart["series"]} == {
        "data": [10.0, 20.0, 70.0],
        "labels": [0.0, 100.0, 0.0],
    }


def test_rows_held_out_are_drawn_where_they_were_measured() -> None:
    steps = _steps(np.linspace(-50, -10, 40))
    steps = [replace(s, held_out=1 / s.iteration) if s.iteration % 20 == 0 else s for s in steps]
    (line,) = live_charts.held_out_chart(steps)["series"]
    assert line["data"] == [[20, 0.05], [40, 0.025]]


def test_user_text_is_in_no_tooltip_and_options_are_strict_json() -> None:
    labels = _classes(["<img src=x onerror=alert(1)>"] * 30)
    for chart in (
        snapshot_charts.map_chart(_snapshot(), labels),
        snapshot_charts.kernel_weight_chart(_snapshot()),
        live_charts.bound_chart(_steps(np.array([-2.0, -1.0]))),
        live_charts.terms_chart(_steps(np.array([-2.0, -1.0]))),
    ):
        json.dumps(chart, allow_nan=False)
        assert "formatter" not in chart["tooltip"]
    assert snapshot_charts.map_chart(_snapshot(), labels)["tooltip"] == {"show": False}


def test_steps_without_a_bound_are_shown_by_what_they_make_small() -> None:
    steps = [FitStep(i, 4, 0.1 * i, float("nan"), {"KL divergence": 4.0 - i}) for i in (1, 2, 3)]
    assert live_charts.steps_shown(steps, (2, 4)) == steps[1:]
    chart = live_charts.term_chart(steps)
    assert chart["series"][0]["data"] == [[1, 3.0], [2, 2.0], [3, 1.0]]
    assert chart["yAxis"]["name"] == "KL divergence, nats"


def test_a_loss_of_several_terms_is_shown_term_by_term() -> None:
    terms = [{"squared error": 2.0 / i, "codebook": 0.1 * i} for i in (1, 2)]
    steps = [FitStep(i + 1, 2, 0.1, float("nan"), terms[i]) for i in range(2)]
    chart = live_charts.term_chart(steps)
    assert [line["name"] for line in chart["series"]] == ["squared error", "codebook"]
    assert [line["data"] for line in chart["series"]] == [
        [[1, 2.0], [2, 1.0]],
        [[1, 0.1], [2, 0.2]],
    ]
    assert chart["yAxis"]["name"] == "term of the loss"
