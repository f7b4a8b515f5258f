"""Sweeps: queued from the Fit page, looked at on the Compare page."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.services import server, sweeps
from app.views.fit.model_choice import MODEL
from lvmcore.data import Dataset
from lvmcore.jobs.run_job import run_job
from lvmcore.models import MODELS
from lvmcore.runs import JobSpec
from lvmcore.runs.sweep import new_sweep, sweep_grid
from tests.app.conftest import OpenPage, ways
from tests.app.views.latent.test_page import box, charts, texts


def _data(seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 5)) + 0.2 * rng.normal(size=(40, 5))
    return Dataset.from_arrays(X, ["a", "b"] * 20, list("vwxyz"), name=f"swept {seed}")


@pytest.fixture(scope="module")
def done(shared_home: Any) -> str:
    """A sweep of probabilistic PCA over dimensions and seeds, all of it done."""
    store, dataset, sweep = server.store(), _data(21), new_sweep()
    digest = store.datasets.put(dataset)
    for settings in sweep_grid(MODELS["ppca"], {}, {"n_components": [1, 2, 3]}):
        spec = JobSpec(digest, dataset.name, "ppca", settings, sweep=sweep)
        with store.own(spec) as folder:
            run_job(folder, lambda: dataset, lambda: None)
    return sweep


def looked_at(open_page: OpenPage, sweep: str) -> AppTest:
    page = open_page("compare")
    page.query_params["sweep"] = sweep
    return page.run()


# ---- the Compare page ------------------------------------------------------------------------


@pytest.mark.slow
def test_a_sweep_is_drawn_as_small_maps_the_best_first(open_page: OpenPage, done: str) -> None:
    page = looked_at(open_page, done)
    assert not page.exception
    jobs = sweeps.sweep_by_id(done)[done]
    bounds = {job.spec.parameters["n_components"]: job.elbo for job in jobs}
    box(page, "Best by").set_value("bound").run()
    best = max(bounds, key=lambda q: bounds[q] or -np.inf)
    assert f"**dimensions {best}**" in texts(page)
    assert len(charts(page)) == 3
    assert "Open its map" in ways(page)
    table = page.dataframe[0].value
    assert table["dimensions"].tolist()[0] == str(best)
    assert table["bound (ELBO)"].is_monotonic_decreasing
    assert done in page.query_params["sweep"]


def test_the_figure_that_is_best_can_be_chosen(open_page: OpenPage, done: str) -> None:
    page = looked_at(open_page, done)
    box(page, "Best by").set_value("trustworthiness").run()
    assert not page.exception
    figures = page.dataframe[0].value["trustworthiness"]
    assert figures.is_monotonic_decreasing
    assert len(figures) == 3


def test_the_way_back_to_maps_side_by_side(open_page: OpenPage, done: str) -> None:
    page = looked_at(open_page, done)
    box(page, "Show").set_value(None).run()
    assert not page.exception
    assert "sweep" not in page.query_params


def test_a_sweep_that_is_gone_is_said_to_be_gone(open_page: OpenPage) -> None:
    page = looked_at(open_page, "e" * 32)
    assert not page.exception
    assert "The sweep in the address does not exist" in page.warning[0].value


def test_fits_that_left_no_map_are_said(open_page: OpenPage, shared_home: Any) -> None:
    store, dataset, sweep = server.store(), _data(22), new_sweep()
    digest = store.datasets.put(dataset)
    specs = [
        JobSpec(digest, dataset.name, "ppca", {"n_components": q}, sweep=sweep) for q in (1, 2)
    ]
    for run in store.submit_all(specs):
        store.cancel(run)
    page = looked_at(open_page, sweep)
    assert not page.exception
    assert "2 fits left no map" in page.warning[0].value
    assert not charts(page)


# ---- the Fit page ----------------------------------------------------------------------------


def sweep_box(page: AppTest) -> Any:
    return next(one for one in page.multiselect if one.label == "Settings to sweep")


def field(page: AppTest, label: str) -> Any:
    return next(one for one in page.text_input if one.label == label)


def test_a_grid_is_queued_from_the_form(open_page: OpenPage) -> None:
    page = open_page("fit")
    page.selectbox(MODEL).set_value("ppca").run()
    sweep_box(page).set_value(["n_components"]).run()
    assert "Enter the values of each setting." in texts(page)
    field(page, "Values of dimensions").set_value("2..4, 3").run()
    assert not page.exception
    start = next(button for button in page.main.button if button.label == "Queue 3 fits")
    start.click().run()
    assert not page.exception
    sweep = page.session_state["compare.sweep"]
    jobs = sweeps.sweep_by_id(sweep)[sweep]
    assert [job.spec.parameters["n_components"] for job in jobs] == [2, 3, 4]
    for job in jobs:
        server.store().cancel(job.id)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2", "at least two fits"),
        ("two, 3", "n\\_components"),
        ("1..10000", "10,000 values, and a sweep is 60 fits at most"),
    ],
)
def test_a_sweep_that_cannot_be_says_why(open_page: OpenPage, text: str, told: str) -> None:
    page = open_page("fit")
    page.selectbox(MODEL).set_value("ppca").run()
    sweep_box(page).set_value(["n_components"]).run()
    field(page, "Values of dimensions").set_value(text).run()
    assert not page.exception
    assert told.replace("\\", "") in page.main.warning[-1].value.replace("\\", "")
    assert not [button for button in page.main.button if button.label.startswith("Queue ")]
