"""Sizes and shapes of rows, and what the map draws of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from app.analysis.map.row_colours import category_style
from app.components.map.row_appearance import (
    LARGEST,
    SMALLEST,
    SYMBOLS,
    row_appearance,
    row_shapes,
    row_sizes,
)
from app.figures import canvas_scene, latent_map
from app.figures.row_traces import MapRows
from app.services import fitted_maps
from lvmcore.data import Dataset
from tests import scenes
from tests.app.conftest import OpenPage
from tests.app.views.latent.test_page import box, texts


def test_the_area_of_a_marker_grows_evenly_with_the_number() -> None:
    found = row_sizes(np.array([1.0, 2.0, 3.0, np.nan]))
    areas = found**2
    assert (found[0], found[2], found[3]) == (SMALLEST, LARGEST, SMALLEST)
    assert areas[1] == pytest.approx((areas[0] + areas[2]) / 2)
    assert row_sizes(np.array([5.0, 5.0])).tolist() == [SMALLEST, SMALLEST]
    assert row_sizes(np.array([np.nan])).tolist() == [SMALLEST]


def test_each_category_has_its_own_marker_until_they_run_out() -> None:
    few = row_shapes(pd.Series(["b", None, "a", "b"]), "kind")
    assert few.legend == (("a", "circle"), ("b", "square"), ("(missing)", "x"))
    assert few.symbol.tolist() == ["square", "x", "circle", "square"]
    cells = [f"k{i}" for i in range(len(SYMBOLS) + 3) for _ in range(1 + i)]
    many = row_shapes(pd.Series(cells), "kind")
    assert [symbol for _, symbol in many.legend] == list(SYMBOLS)
    assert many.legend[0][0] == "k4"  # the five most frequent have their own
    assert many.legend[-1][0] == "other (4 more)"
    assert set(many.symbol[:10]) == {SYMBOLS[-1]}


def test_more_categories_than_colours_are_all_counted() -> None:
    many = row_shapes(pd.Series([f"k{i:02d}" for i in range(40)]), "kind")
    assert many.legend[-1] == ("other (35 more)", SYMBOLS[-1])


def test_columns_that_are_gone_change_nothing() -> None:
    found = row_appearance(Dataset.from_arrays(np.eye(3)), "gone", "gone too")
    assert (found.size, found.shape, found.notes) == (None, None, ())


def test_the_legend_tells_colours_and_shapes_apart() -> None:
    names = pd.Series(["x", "y", "x", None])
    rows = MapRows(
        points=np.arange(8.0).reshape(4, 2),
        number=np.arange(4),
        hover=[["a"]] * 4,
        colouring=category_style(names, "colour"),
        size=np.array([4.0, 5.0, 6.0, 7.0]),
        shape=row_shapes(pd.Series(["<b>", "q", "q", "q"]), "kind"),
    )
    drawn = latent_map.map_figure(rows, (0, 1), dark=False).data
    own = {trace.name: trace for trace in drawn if trace.x[0] is not None}
    assert list(own["x"].marker.symbol) == ["circle", "square"]
    assert list(own["x"].marker.size) == [4.0, 6.0]
    assert list(own["(missing)"].marker.symbol) == ["square-open"]
    assert not any(trace.showlegend for trace in own.values())
    legend = [trace.name for trace in drawn if trace.showlegend]
    assert legend == ["x", "y", "(missing)", "kind: &lt;b&gt;", "kind: q"]
    shown = scenes.drawn(canvas_scene.Scene(rows, ((0, 8), (0, 8)), None, "alt"))
    assert shown.legend == ["colour", "x", "y", "(missing)", "kind: <b>", "kind: q"]
    symbols = [shown.data["symbols"][code] for code in shown.array("symbol")]
    assert symbols == ["circle", "square", "square", "square"]
    assert shown.array("size").tolist() == [4.0, 5.0, 6.0, 7.0]
    assert [shape for _, shape in shown.looks] == ["circle", "circle", "circle", "circle-open"]


def test_the_page_sizes_and_shapes_its_rows(open_page: OpenPage, fitted: str) -> None:
    page = open_page("latent", run=fitted)
    dataset = fitted_maps.fitted_dataset(fitted)
    box(page, "Size by").set_value(1).run()
    box(page, "Shape by").set_value(1).run()
    assert not page.exception
    assert "alcohol, smallest at 11\\.0, largest at 14\\.8" in texts(page)
    (shown,) = scenes.scenes(page)
    assert dataset.labels is not None
    classes = sorted(set(dataset.labels))
    symbols = [shown.data["symbols"][code] for code in shown.array("symbol")]
    assert symbols == [SYMBOLS[classes.index(label)] for label in dataset.labels]
    assert all("alcohol: " in text for text in shown.data["texts"])
    size = shown.array("size")
    assert (np.diff(size[np.argsort(dataset.frame["alcohol"].to_numpy())]) >= 0).all()
