"""Sizes and shapes of rows, and what the map draws of them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from app.analysis.map.row_colours import category_style
from app.components.map.row_appearance import (
    LARGEST,
    SMALLEST,
    SYMBOLS,
    posterior_sd,
    row_appearance,
    row_shapes,
    row_sizes,
)
from app.figures import canvas_scene, latent_map
from app.figures.row_traces import MapRows
from app.services import fitted_maps
from lvmcore.data import Dataset
from tests import scenes
from tests.app.conftest import OpenPage, fitted_run
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
    fitted_map = SimpleNamespace(dataset=Dataset.from_arrays(np.eye(3)))
    found = row_appearance(fitted_map, (0, 1), "gone", "gone too")  # type: ignore[arg-type]
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
    box(page, "Size by").select("alcohol").run()
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


def test_the_page_sizes_rows_by_their_posterior_sd(open_page: OpenPage) -> None:
    X = np.random.default_rng(2).normal(size=(30, 4))
    X[:6, 1:] = np.nan  # less is known of these rows
    dataset = Dataset.from_arrays(X, name="partly missing")
    run = fitted_run(dataset, "bayesian_gplvm", {"n_components": 2, "max_iter": 60})
    page = open_page("latent", run=run)
    box(page, "Size by").select("posterior sd").run()
    assert not page.exception
    assert "posterior sd on the map, smallest at" in texts(page)
    (shown,) = scenes.scenes(page)
    variance = fitted_maps.model(run).embedding_.variance
    assert len(np.unique(shown.array("size"))) > 10
    expected = row_sizes(np.sqrt(np.sqrt(variance[:, 0] * variance[:, 1])))
    np.testing.assert_allclose(shown.array("size"), expected, rtol=1e-6)


def test_the_posterior_sd_on_the_map_is_that_of_a_circle_of_equal_area() -> None:
    rng = np.random.default_rng(6)
    variance = rng.uniform(0.1, 2.0, size=(5, 3))
    across = posterior_sd(variance, (0, 2))
    areas = np.pi * np.sqrt(variance[:, 0]) * np.sqrt(variance[:, 2])
    np.testing.assert_allclose(np.pi * across**2, areas)
    np.testing.assert_allclose(posterior_sd(variance, (1, None)), np.sqrt(variance[:, 1]))
    turned = np.linalg.qr(rng.normal(size=(3, 3)))[0][:, :2]
    view = SimpleNamespace(covariance=lambda v: np.einsum("qa,nq,qb->nab", turned, v, turned))
    draws = rng.normal(size=(200_000, 3)) * np.sqrt(variance[0]) @ turned
    S = np.cov(draws.T)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.components.map.row_appearance.covariances", lambda v, w: w.covariance(v))
        patch.setattr("app.components.map.row_appearance.is_line", lambda w: False)
        found = posterior_sd(variance, view)[0]  # type: ignore[arg-type]
    assert found == pytest.approx(np.linalg.det(S) ** 0.25, rel=0.01)
