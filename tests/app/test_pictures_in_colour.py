"""Pictures in colour on the pages: Data, Latent, Generate and Missing cells."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from streamlit.testing.v1 import AppTest

from app.analysis.map.reconstruction import MapPoint
from app.services import fitted_maps, placement, server
from app.state.widgets import widget_key
from lvmcore.data import Dataset, read_table
from lvmcore.jobs.impute import imputation_of
from lvmcore.jobs.run_job import run_job
from tests.app.conftest import OpenPage, fitted_run
from tests.app.views.generate.test_page import choice
from tests.app.views.new_rows.test_page import texts

HEIGHT, WIDTH, ROWS = 4, 6, 60
SHAPE = (HEIGHT, WIDTH, 3)


def pictures() -> NDArray[np.uint8]:
    """A bright column of pixels at some place, red or blue, on noise, [N, height, width, 3]."""
    rng = np.random.default_rng(5)
    x = rng.integers(0, 40, (ROWS, *SHAPE))
    for row, place in enumerate(rng.integers(0, WIDTH, ROWS)):
        x[row, :, place, 2 * (row % 2)] = 230
    return x.astype(np.uint8)


def npz(x: NDArray[Any]) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, x=x, y=np.array(["red", "blue"] * (ROWS // 2)))
    return content.getvalue()


def figures(page: AppTest) -> list[list[dict[str, Any]]]:
    """The traces of the plotly figures of a page."""
    return [json.loads(chart.proto.spec)["data"] for chart in page.get("plotly_chart")]


def kinds(page: AppTest) -> list[list[str]]:
    return [[trace["type"] for trace in traces] for traces in figures(page)]


@pytest.fixture(scope="module")
def in_colour() -> Dataset:
    return read_table(npz(pictures()), name="bars").dataset(label="y", hold_out=0.2)


@pytest.fixture(scope="module")
def fit(in_colour: Dataset, shared_home: Path) -> str:
    return fitted_run(in_colour, "ppca", {"n_components": 2})


@pytest.fixture(scope="module")
def filled(shared_home: Path) -> str:
    """A fit to pictures that lack some channels of their pixels, with which these are filled."""
    x = pictures().astype(float)
    x[np.random.default_rng(0).random(x.shape) < 0.05] = np.nan
    run = fitted_run(read_table(npz(x), name="gaps").dataset(label="y"), "ppca", {})
    store = server.store()
    with store.own(imputation_of(store.get(run))) as folder:
        run_job(
            folder, lambda: store.datasets.get(folder.spec().dataset), lambda: None, store=store
        )
    return run


@pytest.mark.parametrize(("x", "kind"), [(pictures(), "in colour"), (pictures()[..., 0], "grey")])
def test_an_upload_shows_its_first_pictures(
    open_page: OpenPage, x: NDArray[np.uint8], kind: str
) -> None:
    page = open_page("data")
    page.file_uploader(widget_key("data", "upload")).set_value(
        ("bars.npz", npz(x), "application/zip")
    ).run(timeout=120)
    assert not page.exception
    assert f"The first 8 rows as pictures, {kind}, 4 × 6 pixels." in texts(page)
    assert len(page.get("image")) == 1
    assert f"**60 rows, {x[0].size} features, label with 2 classes**" in texts(page)


def test_the_default_table_is_no_picture_of_its_rows(open_page: OpenPage) -> None:
    assert "as pictures" not in texts(open_page("data"))


def test_a_point_of_the_map_is_decoded_in_colour(
    open_page: OpenPage, fit: str, in_colour: Dataset
) -> None:
    page = open_page("latent", run=fit)
    latent = tuple(fitted_maps.model(fit).embedding_.mean[3].tolist())
    page.session_state["latent.point"] = {fit: MapPoint(latent, row=3)}
    page.run()
    assert not page.exception
    assert ["image", "image", "heatmap"] in kinds(page)
    assert "root mean square over its channels" in texts(page)
    held = placement.held_out_rows(fit)
    assert held is not None
    assert held.dataset.image_shape == SHAPE
    page.session_state["latent.point"] = {fit: MapPoint(held.latent(2), held_out=2)}
    page.run()
    assert not page.exception
    (seen, _, _) = next(traces for traces in figures(page) if traces[0]["type"] == "image")
    row = held.dataset.X[2].reshape(SHAPE)
    limits = in_colour.X[~in_colour.held_out].min(), in_colour.X[~in_colour.held_out].max()
    expected = 255 * (row - limits[0]) / (limits[1] - limits[0])
    np.testing.assert_allclose(np.array(seen["z"]), expected.clip(0, 255), atol=0.51)


def test_paths_and_sweeps_are_strips_in_colour(open_page: OpenPage, fit: str) -> None:
    page = open_page("generate", run=fit)
    assert not page.exception
    (strip,) = kinds(page)
    assert sorted(strip) == ["heatmap"] * 9 + ["image"] * 9
    assert len(page.get("image")) == 2
    choice(page, "Kind of rows").set_value("Sweep").run()
    assert not page.exception
    assert sorted(kinds(page)[0]) == ["heatmap"] * 9 + ["image"] * 9


def test_missing_channels_are_drawn_hidden_and_filled(open_page: OpenPage, filled: str) -> None:
    page = open_page("impute", run=filled)
    assert not page.exception
    drawn = [traces for traces in kinds(page) if "image" in traces]
    assert drawn == [["image", "image", "image", "heatmap"] * 8]
    assert "A pixel has the accent colour where one of its channels is hidden" in texts(page)
