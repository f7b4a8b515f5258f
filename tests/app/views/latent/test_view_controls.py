"""The view of the Latent page: by its link, undone and redone, saved with the run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app import navigation
from app.analysis.map.map_view import MapView
from app.analysis.map.selections import RowFilter
from app.analysis.map.view_text import view_text
from app.components.map import canvas, shown_view
from app.components.map.map_options import map_options
from app.services import fitted_maps, server
from app.state.session import session
from lvmcore.data import Dataset
from tests.app.conftest import OpenPage, fitted_run
from tests.app.controls import unexplained
from tests.app.views.latent.test_page import box, opened, texts
from tests.scenes import scenes

FOUND = RowFilter("width", "at least", 0.0)


@pytest.fixture(scope="module")
def run(shared_home: object) -> str:
    """LDGD of two classes in three dimensions, with inducing inputs."""
    rng = np.random.default_rng(3)
    labels = np.repeat(["ash", "oak"], 30)
    X = rng.standard_normal((60, 4)) + (labels == "oak")[:, None] * 2.0
    names = ["width", "height", "<b>depth", "age"]
    dataset = Dataset.from_arrays(X, labels, feature_names=names, name="trees")
    return fitted_run(dataset, "ldgd", {"n_components": 3, "n_inducing": 8, "max_iter": 40})


def view_of(run: str) -> MapView:
    """A view that differs from a new map's in every part."""
    best = map_options(opened(run)).new.axes
    assert isinstance(best, tuple)
    return MapView(
        axes=(best[1], best[0]),
        colour="column <b>depth",
        background="class probability",
        label=1,
        at_point=True,
        ellipses=False,
        size="width",
        shape="label",
        inducing=True,
        tab="Selection",
        row=7,
        zoom=((-1.5, 0.25), (0.0, 2.0)),
        selection=FOUND,
    )


def open_link(open_page: OpenPage, run: str, text: str) -> AppTest:
    page = open_page("data")
    page.query_params["run"] = run
    page.query_params["view"] = text
    return page.switch_page(navigation.PAGES["latent"]).run()


def shown(page: AppTest, run: str) -> MapView:
    found: MapView = page.session_state["latent.views"][run]
    return found


def button(page: AppTest, label: str) -> Any:
    (found,) = [one for one in page.main.button if one.label == label]
    return found


def toggle(page: AppTest, label: str) -> Any:
    (found,) = [one for one in page.toggle if one.label == label]
    return found


def zooms(page: AppTest) -> list[Any]:
    """The ranges that the maps of a page open with."""
    return [
        json.loads(element.proto.json)["zoom"]
        for element in page.get("bidi_component")
        if element.proto.component_name == "latentboard.map"
    ]


def test_a_link_opens_the_whole_view(open_page: OpenPage, run: str) -> None:
    view = view_of(run)
    text, without = view_text(view, map_options(opened(run)))
    assert without == ()
    page = open_link(open_page, run, text)
    assert not page.exception
    assert shown(page, run) == view
    assert page.query_params["view"] == text
    assert "The view was opened without" not in texts(page)
    assert page.session_state[f"latent:{run}:panel"] == "Selection"
    assert box(page, "Class").value == 1
    assert not toggle(page, "Ellipses").value
    (drawn,) = scenes(page)
    assert drawn.data["inducing"]
    assert drawn.data["marked"] is not None
    assert drawn.array("selected").sum() == (opened(run).dataset.frame["width"] >= 0).sum()
    assert zooms(page) == [[[-1.5, 0.25], [0.0, 2.0]]]
    assert button(page, "Undo").disabled
    assert not unexplained(page)


def test_a_new_map_has_no_text_and_every_control_writes_one(open_page: OpenPage, run: str) -> None:
    page = open_page("latent", run=run)
    assert "view" not in page.query_params
    new = shown(page, run)
    assert new == map_options(opened(run)).new
    seen = set()
    for change in (
        lambda: box(page, "Colour").set_value("age"),
        lambda: box(page, "Background").set_value("predictive sd"),
        lambda: box(page, "Decoded column").set_value("age"),
        lambda: toggle(page, "Noise").set_value(True),
        lambda: toggle(page, "Ellipses").set_value(False),
        lambda: box(page, "Size by").set_value("age"),
        lambda: toggle(page, "Inducing inputs").set_value(True),
        lambda: box(page, "Background").set_value("nothing"),
    ):
        change().run()
        assert not page.exception
        seen.add(page.query_params["view"])
        again = open_link(open_page, run, page.query_params["view"])
        assert shown(again, run) == shown(page, run)
    assert len(seen) >= 6
    for _ in range(20):
        if button(page, "Undo").disabled:
            break
        before = shown(page, run)
        button(page, "Undo").click().run()
        button(page, "Redo").click().run()
        assert shown(page, run) == before
        button(page, "Undo").click().run()
        assert not page.exception
    assert shown(page, run) == new
    assert "view" not in page.query_params
    button(page, "Redo").click().run()
    assert shown(page, run).colour == "column age"
    assert box(page, "Colour").value == "column age"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("<img src=x onerror=alert(1)>", "cannot be read"),
        ("1.AAAA", "cannot be read"),
        ("1." + "q" * 20_000, "cannot be read"),
        ("9,9", "was opened without: axes."),
    ],
)
def test_a_broken_link_opens_a_new_map_and_says_so(
    open_page: OpenPage, run: str, text: str, sentence: str
) -> None:
    page = open_link(open_page, run, text)
    assert not page.exception
    assert shown(page, run) == map_options(opened(run)).new
    assert sentence in texts(page)
    assert "view" not in page.query_params
    box(page, "Colour").set_value("age").run()
    assert sentence not in texts(page)


def test_the_view_is_kept_while_another_page_is_open(open_page: OpenPage, run: str) -> None:
    view = view_of(run)
    page = open_link(open_page, run, view_text(view, map_options(opened(run)))[0])
    text = page.query_params["view"]
    page.query_params.clear()
    page.query_params["run"] = run
    page.switch_page(navigation.PAGES["compare"]).run()
    page.query_params.clear()
    page.query_params["run"] = run
    page.switch_page(navigation.PAGES["latent"]).run()
    assert not page.exception
    assert shown(page, run) == view
    assert page.query_params["view"] == text


def test_a_step_back_from_another_page_opens_the_view_of_its_address(
    open_page: OpenPage, run: str
) -> None:
    page = open_link(open_page, run, "2,1")
    box(page, "Colour").set_value("column width").run()
    page.switch_page(navigation.PAGES["compare"])
    page.query_params.clear()
    page.query_params["run"] = run
    page.run()
    page.switch_page(navigation.PAGES["latent"])
    page.query_params["view"] = "2,1"
    page.run()
    assert not page.exception
    assert page.query_params["view"] == "2,1"
    assert shown(page, run).colour == map_options(opened(run)).new.colour
    button(page, "Undo").click().run()
    assert shown(page, run).colour == "column width"


def test_the_address_of_a_step_back_is_left_until_the_browser_asks_for_its_view(
    open_page: OpenPage, run: str
) -> None:
    page = open_link(open_page, run, "2,1")
    box(page, "Colour").set_value("column width").run()
    coloured = page.query_params["view"]
    page.query_params["view"] = "2,1"
    page.run()
    assert page.query_params["view"] == "2,1"
    assert shown(page, run).colour == "column width"
    toggle(page, "Ellipses").set_value(False).run()  # another step than the browser's
    assert page.query_params["view"] not in ("2,1", coloured)
    page.query_params.clear()  # the same page again, by the navigation
    page.run()
    assert page.query_params["run"] == run
    assert page.query_params["view"] not in ("2,1", coloured)


@pytest.fixture
def saved(run: str) -> Iterator[str]:
    yield run
    for one in server.store().views.list(run):
        server.store().views.delete(run, one.name)


def test_a_view_is_saved_opened_and_deleted(open_page: OpenPage, saved: str) -> None:
    view = view_of(saved)
    page = open_link(open_page, saved, view_text(view, map_options(opened(saved)))[0])
    page.session_state[f"latent:{saved}:views"] = True  # as a click on the popover does
    page.run()
    (link,) = [one.value for one in page.code if "view=" in one.value]
    assert link.endswith(f"run={saved}&view={page.query_params['view']}")
    button(page, "Save view").click().run()
    assert "expected 1 to 60" in page.error[0].value
    (name,) = [one for one in page.text_input if one.label == "Name of this view"]
    name.set_value("old *oaks*").run()
    button(page, "Save view").click().run()
    assert not page.exception
    assert not page.error
    assert not unexplained(page)
    (stored,) = server.store().views.list(saved)
    assert stored.name == "old *oaks*"
    again = open_page("latent", run=saved)
    again.session_state[f"latent:{saved}:views"] = True
    again.run()
    (one,) = [one for one in again.main.button if "oaks" in one.label]
    one.click().run()
    assert not again.exception
    assert shown(again, saved) == view
    assert zooms(again) == [[[-1.5, 0.25], [0.0, 2.0]]]
    button(again, "Undo").click().run()
    assert shown(again, saved) == map_options(opened(saved)).new
    button(again, "Delete").click().run()
    assert not again.exception
    assert server.store().views.list(saved) == ()


def test_damaged_views_of_a_run_are_left_out_or_say_so(open_page: OpenPage, saved: str) -> None:
    path = server.store().job_folder(saved).files.views
    path.write_text('{"a": {"colour": "no such", "tab": "Columns"}, "b": 3, "": {}}')
    page = open_page("latent", run=saved)
    page.session_state[f"latent:{saved}:views"] = True
    page.run()
    assert not page.exception
    (one,) = [one for one in page.main.button if one.label == "a"]
    assert one.help == "The view was opened without: colour."
    one.click().run()
    assert page.session_state[f"latent:{saved}:panel"] == "Columns"
    assert "The view was opened without: colour." in texts(page)
    button(page, "Undo").click().run()
    assert page.session_state[f"latent:{saved}:panel"] == "Relevance"
    assert button(page, "Undo").disabled  # the saved view was one step
    assert "The view was opened without" not in texts(page)
    path.write_text("no JSON")
    assert fitted_maps.saved_views(saved) == ()


def test_the_reported_zoom_is_part_of_the_view(
    run: str, session_state: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    session.zoom[run] = ((0, 1), ((0.0, 1.0), (0.0, 2.0)), 3)
    assert shown_view.shown_zoom(opened(run), (0, 1)) == ((0.0, 1.0), (0.0, 2.0))
    assert shown_view.shown_zoom(opened(run), (0, 2)) is None
    key, scene = f"latent:{run}:map", shown_view.scene_id(run, (0, 1))
    session_state[key] = {"view": {"x": [-1.0, 1.23456789], "y": [3.0, 3.5], "scene": scene}}
    assert shown_view.shown_zoom(opened(run), (0, 1)) == ((-1.0, 1.23456789), (3.0, 3.5))
    assert shown_view._rounded(((-1.0, 1.23456789), (3.0, 3.5))) == ((-1.0, 1.2346), (3.0, 3.5))
    session_state[key] = {"view": {"x": None, "y": None, "scene": scene}}
    assert shown_view.shown_zoom(opened(run), (0, 1)) is None
    assert canvas.zoomed_ranges(key, "another scene") is None


def test_undo_leaves_the_zoom_of_the_same_axes_alone(
    run: str, session_state: dict[str, Any]
) -> None:
    options = map_options(opened(run))
    new = replace(options.new, zoom=((0.0, 1.0), (0.0, 1.0)))
    session.views[run] = new
    session.views[run] = replace(options.new, colour="")
    set_times = session.zoom[run][2]
    shown_view.undo_view(opened(run))
    assert session.zoom[run][2] == set_times
    assert session.views[run] == new
    axes = (2, 0) if new.axes != (2, 0) else (0, 2)
    session.views[run] = replace(new, axes=axes, zoom=None)
    shown_view.undo_view(opened(run))
    assert session.zoom[run] == (new.axes, new.zoom, set_times + 1)
