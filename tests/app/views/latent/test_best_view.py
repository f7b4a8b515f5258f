"""The best 2-D view on the Latent page: offered, kept in the address, and left again."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from app import navigation
from app.analysis.map.heatmaps import MapChoices
from app.analysis.map.map_axes import positions
from app.analysis.map.reconstruction import MapPoint
from app.components.map import canvas, map_chart, relevance_panel
from app.components.map.reconstruction_panel import _set_coordinate
from app.services import fitted_maps, run_exports, scores
from app.state.session import session
from app.state.widgets import map_widget_key
from lvmcore.data import Dataset
from lvmcore.projection import LatentProjection
from lvmcore.relevance import leading_dimensions
from tests.app.conftest import OpenPage, fitted_run
from tests.app.views.latent.test_page import axis_titles, box, opened, texts
from tests.scenes import scenes

BEST = ("First axis of the best view", "Second axis, in the same unit")


@pytest.fixture(scope="module")
def run(shared_home: object) -> str:
    """Bayesian GPLVM of four sources: every dimension is live."""
    rng = np.random.default_rng(8)
    sources = rng.standard_normal((70, 4)) * (3.0, 2.0, 1.5, 1.0)
    X = sources @ np.linalg.qr(rng.standard_normal((6, 6)))[0][:4]
    X += 0.1 * rng.standard_normal((70, 6))
    dataset = Dataset.from_arrays(X, name="four sources")
    return fitted_run(dataset, "bayesian_gplvm", {"n_components": 4, "max_iter": 120})


@pytest.fixture
def view(run: str) -> LatentProjection:
    found = fitted_maps.best_view(run)
    assert found is not None
    return found


def raw(run: str) -> tuple[int, int]:
    first, second = leading_dimensions(opened(run).model.variance_shares())
    assert second is not None
    return first, second


def titles(run: str) -> tuple[str, ...]:
    return tuple(f"Latent dimension {q + 1}" for q in raw(run))


def test_the_page_offers_the_view_and_says_what_both_retain(
    open_page: OpenPage, run: str, view: LatentProjection
) -> None:
    page = open_page("latent", run=run)
    assert not page.exception
    assert axis_titles(page) == titles(run)
    assert "view" not in page.query_params
    kept = [scores.retained_neighbours(run, axes) for axes in (raw(run), view)]
    own, best = (one.value for one in kept if one is not None)
    assert own is not None
    assert best is not None
    names = " and ".join(str(q + 1) for q in raw(run))
    assert (
        f"Dimensions {names} retain **{own:.0%}** of the 10 nearest neighbours in all 4 "
        f"dimensions; the best 2-D view retains {best:.0%}." in texts(page)
    )
    box(page, "Horizontal").set_value("best view").run()
    assert not page.exception
    assert axis_titles(page) == BEST
    assert page.query_params["view"] == "best"
    assert [one.label for one in page.selectbox if one.label in ("Horizontal", "Vertical")] == []
    (shown,) = scenes(page)
    np.testing.assert_allclose(shown.points, view.points(opened(run).mean), rtol=1e-5, atol=1e-6)
    assert shown.data["equal"]
    sd = np.sqrt(view.covariance(opened(run).model.embedding_.variance)[:, [0, 1], [0, 1]])
    np.testing.assert_allclose(shown.array("sx"), sd[:, 0], rtol=1e-5)
    assert np.abs(shown.array("correlation")).max() > 0
    assert f"The best 2-D view retains **{best:.0%}**" in texts(page)
    assert f"dimensions {names} retain {own:.0%}. Its axes mix all dimensions" in texts(page)
    page.session_state[f"latent:{run}:scores"] = True  # as a click on the expander does
    page.run()
    assert "trustworthiness, the best 2-D view: **" in texts(page).replace("\\", "")
    box(page, "View").set_value(str(raw(run)[1] + 1)).run()
    assert not page.exception
    assert axis_titles(page) == titles(run)[::-1]
    assert page.query_params["view"] == f"{raw(run)[1] + 1},{raw(run)[0] + 1}"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("best", BEST),
        ("4,2", ("Latent dimension 4", "Latent dimension 2")),
        ("4,4", None),
        ("0,9", None),
        ("<img>", None),
    ],
)
def test_a_link_opens_what_it_names(
    open_page: OpenPage, run: str, address: str, shown: tuple[str, str] | None
) -> None:
    page = open_page("data")
    page.query_params["run"] = run
    page.query_params["view"] = address
    page.switch_page(navigation.PAGES["latent"]).run()
    assert not page.exception
    assert axis_titles(page) == (shown or titles(run))
    if shown is None:
        assert "view" not in page.query_params
    else:
        assert page.query_params["view"] == address


def test_a_link_to_a_view_that_a_map_has_not_opens_its_axes(open_page: OpenPage, run: str) -> None:
    page = open_page("data")
    page.query_params["run"] = fitted_run(opened(run).dataset, "pca", {"n_components": 2})
    page.query_params["view"] = "best"
    page.switch_page(navigation.PAGES["latent"]).run()
    assert not page.exception
    assert axis_titles(page) == ("Latent dimension 1", "Latent dimension 2")
    assert "best view" not in box(page, "Horizontal").options
    assert "retain" not in texts(page)


def test_another_run_opens_with_its_own_axes(open_page: OpenPage, run: str) -> None:
    other = fitted_run(opened(run).dataset, "pca", {"n_components": 4})
    page = open_page("latent", run=run)
    box(page, "Horizontal").set_value("best view").run()
    assert axis_titles(page) == BEST
    (earlier,) = [one for one in page.sidebar.selectbox if one.label == "Earlier runs"]
    earlier.set_value(other).run()
    assert not page.exception
    assert page.query_params["run"] == other
    assert "view" not in page.query_params
    assert axis_titles(page) == ("Latent dimension 1", "Latent dimension 2")


def test_clicks_and_coordinates_stay_on_the_plane(
    run: str, view: LatentProjection, session_state: dict[str, Any]
) -> None:
    choices = MapChoices(view, None, None, False, False, None, False)
    map_chart._handle_event(opened(run), choices, canvas.ClickedPoint(0.5, -1.5))
    point = session.point[run]
    assert isinstance(point, MapPoint)
    np.testing.assert_allclose(point.latent, view.latent(np.array([[0.5, -1.5]]))[0])
    session_state["x"] = 1.25
    _set_coordinate(opened(run), view, 0, "x")
    moved = session.point[run]
    assert isinstance(moved, MapPoint)
    assert moved.start == point.latent
    np.testing.assert_allclose(positions(np.array([moved.latent]), view), [[1.25, -1.5]])


def test_a_clicked_bar_leaves_the_view(
    run: str, view: LatentProjection, session_state: dict[str, Any]
) -> None:
    first, second = raw(run)
    other = next(q for q in range(4) if q not in (first, second))
    for dimension, vertical in ((other, first), (first, second)):
        points = [{"customdata": [dimension]}]
        session_state["key"] = SimpleNamespace(selection=SimpleNamespace(points=points))
        relevance_panel._handle_bar_click(opened(run), view, "key")
        assert session_state[map_widget_key(opened(run), "y")] in (vertical, first, second)
        assert (
            session_state[map_widget_key(opened(run), "x")]
            != session_state[map_widget_key(opened(run), "y")]
        )


def test_the_files_have_the_shown_view(run: str, view: LatentProjection) -> None:
    read = pd.read_csv(io.BytesIO(fitted_maps.embedding_csv(run, view)))
    np.testing.assert_allclose(read[["view1", "view2"]], view.points(opened(run).mean))
    table = pd.read_parquet(io.BytesIO(fitted_maps.embedding_parquet(run)))
    assert "view1" not in table
    picture = run_exports.map_file(run, view, "svg", sd_behind=True)
    assert picture != run_exports.map_file(run, raw(run), "svg", sd_behind=True)
