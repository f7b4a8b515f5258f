"""Held-out rows on the Latent page: open marks over the map, by the stored positions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.reconstruction import MapPoint
from app.components.map import row_focus
from app.services import fitted_maps, placement, server, tables
from app.state import choices
from app.state.session import session
from tests.app.conftest import OpenPage, fitted_run
from tests.scenes import scenes


def fit(model: str, **settings: Any) -> str:
    """A run on iris, with 30 of its 150 rows held out."""
    table = tables.table(choices.SampleChoice("iris"), choices.ReadingChoices())
    roles = replace(tables.proposed_roles(table), hold_out=0.2)
    return fitted_run(tables.dataset_of(table, roles), model, settings)


@pytest.fixture(scope="module")
def linear(shared_home: Path) -> str:
    """Probabilistic PCA, three dimensions."""
    return fit("ppca", n_components=3)


@pytest.fixture(scope="module")
def mapped(shared_home: Path) -> str:
    """A method that places no new rows."""
    return fit("isomap")


def opened(run: str) -> FittedMap:
    return FittedMap(run, fitted_maps.model(run), fitted_maps.fitted_dataset(run))


def toggle(page: AppTest) -> Any:
    return next((one for one in page.toggle if one.label == "Held-out rows"), None)


def texts(page: AppTest) -> str:
    return "\n".join(str(element.value) for element in (*page.main.markdown, *page.main.caption))


def test_they_are_open_marks_at_the_positions_that_the_model_infers(
    open_page: OpenPage, linear: str
) -> None:
    page = open_page("latent", run=linear)
    assert not page.exception
    (shown,) = scenes(page)
    hollow = shown.array("hollow").astype(bool)
    assert hollow.tolist() == [False] * 120 + [True] * 30
    whole = fitted_maps.stored_dataset(server.store().get(linear).spec.dataset)
    held = whole.subset(whole.held_out)
    X = pd.DataFrame(held.X, columns=list(held.transformed_names))
    inferred = opened(linear).model.transform(X)[:, :2]
    np.testing.assert_allclose(shown.points[hollow], inferred, rtol=1e-5)
    names = [text.partition("\n")[0] for text in shown.data["texts"][120:]]
    assert names == [f"held-out row {name}" for name in held.row_ids]
    assert "held-out rows" in shown.legend
    assert "30 held-out rows, at posterior means" in texts(page)


def test_they_have_the_colours_of_their_labels(open_page: OpenPage, linear: str) -> None:
    page = open_page("latent", run=linear)
    (shown,) = scenes(page)
    whole = fitted_maps.stored_dataset(server.store().get(linear).spec.dataset)
    assert whole.labels is not None
    labels = [*whole.labels[~whole.held_out], *whole.labels[whole.held_out]]
    looks = dict(zip(labels[:120], shown.looks[:120], strict=True))
    assert len(set(looks.values())) == 3
    assert shown.looks[120:] == [looks[label] for label in labels[120:]]


def test_the_switch_leaves_the_rows_of_the_fit(open_page: OpenPage, linear: str) -> None:
    page = open_page("latent", run=linear)
    toggle(page).set_value(False).run()
    assert not page.exception
    (shown,) = scenes(page)
    assert shown.data["points"]["n"] == 120
    assert "hollow" not in shown.data["points"]
    assert "Open circles" not in texts(page)


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("Colour", "residual"),
        ("Colour", "column sepal length (cm)"),
        ("Background", "magnification"),
        ("Size by", 1),
        ("Shape by", 1),
    ],
)
def test_every_appearance_has_them(
    open_page: OpenPage, linear: str, label: str, value: object
) -> None:
    page = open_page("latent", run=linear)
    (box,) = [element for element in page.selectbox if element.label == label]
    box.set_value(value).run()
    assert not page.exception
    (shown,) = scenes(page)
    assert shown.data["points"]["n"] == 150
    for name in ("size", "symbol", "sx"):
        if name in shown.data["points"]:
            assert len(shown.array(name)) == 150


def test_a_click_shows_the_row_as_held_out(open_page: OpenPage, linear: str) -> None:
    held = placement.held_out_rows(linear)
    assert held is not None
    page = open_page("latent", run=linear)
    point = MapPoint(held.latent(4), held_out=4)
    page.session_state["latent.point"] = {linear: point}
    page.run()
    assert not page.exception
    assert f"Held\\-out row {held.dataset.row_ids[4]}, species" in texts(page)
    (values,) = [one.value for one in page.dataframe if "observed" in one.value]
    np.testing.assert_allclose(values["observed"], held.dataset.X[4])


def test_a_click_on_the_canvas_is_on_the_row_with_its_number(
    linear: str, session_state: dict[str, object]
) -> None:
    held = placement.held_out_rows(linear)
    assert held is not None
    row_focus.focus_held_out_row(opened(linear), 7)
    assert session.point[linear] == MapPoint(held.latent(7), held_out=7)
    row_focus.focus_held_out_row(opened(linear), 30)
    assert session.point[linear] is None
    session.point[linear] = MapPoint((0.0, 0.0, 0.0), held_out=7)  # of an earlier attempt
    row_focus.refresh_focus(opened(linear))
    assert session.point[linear] is None


def test_without_positions_the_switch_says_why(open_page: OpenPage, mapped: str) -> None:
    page = open_page("latent", run=mapped)
    assert not page.exception
    found = toggle(page)
    assert found.disabled
    assert not found.value
    assert "cannot infer" in found.help


def test_a_table_without_held_out_rows_has_no_switch(open_page: OpenPage, fitted: str) -> None:
    page = open_page("latent", run=fitted)
    assert toggle(page) is None
    assert "hollow" not in scenes(page)[0].data["points"]
