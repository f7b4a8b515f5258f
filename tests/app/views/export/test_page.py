"""The Export page, and the bundle that another home opens."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.services import run_exports, server
from app.state.choices import TargetChoice
from app.state.widgets import widget_key
from lvmcore.data import Dataset
from lvmcore.runs import Store
from tests.app.conftest import OpenPage, fitted_run, ways
from tests.app.shell.test_shell import texts

MAP_FILES = {
    *("Embedding as CSV", "Embedding as Parquet", "Map as PNG", "Map as SVG", "Map as PDF"),
    *("Map as HTML", "Curves as CSV", "TensorBoard log"),
    *("Report", "Model file", "Bundle as ZIP", "Python as .py", "Notebook as .ipynb"),
}


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[Store]:
    """The store of another home, which the pages use from now on."""
    monkeypatch.setenv("LATENTBOARD_HOME", str(tmp_path / "other"))
    yield server.store()
    server.launcher().close()


def downloads(page: AppTest) -> set[str]:
    return {one.proto.label for one in page.main.get("download_button")}


def test_it_has_every_file_of_a_map(open_page: OpenPage, fitted: str) -> None:
    page = open_page("export", run=fitted)
    assert not page.exception
    assert downloads(page) >= MAP_FILES
    assert [one.value for one in page.main.header] == [
        *("Embedding", "Map", "Training"),
        *("Model and report", "For another Latentboard", "Repeat the fit"),
    ]


def test_a_run_that_predicts_has_its_predictions(
    open_page: OpenPage, rng: np.random.Generator
) -> None:
    X = rng.standard_normal((30, 3))
    run = fitted_run(
        Dataset.from_arrays(X, name="numbers"),
        "gp_regressor",
        {"max_iter": 2},
        TargetChoice("x1"),
    )
    page = open_page("export", run=run)
    assert not page.exception
    found = downloads(page)
    assert {"Predictions as CSV", "Model file", "Bundle as ZIP", "gpytorch as ZIP"} <= found
    assert not found & {"Embedding as CSV", "Map as PNG", "Report"}


def test_without_a_run_it_says_what_will_be_here(open_page: OpenPage) -> None:
    page = open_page("export")
    assert not page.exception
    assert "This page has the files of a run" in texts(page.main.markdown)
    assert [one.label for one in page.main.button] == ["Fit the sample"]
    assert not downloads(page)


def test_another_home_opens_the_bundle(open_page: OpenPage, fitted: str, other: Store) -> None:
    del other
    page = open_page("runs")
    assert not page.exception
    key = widget_key("runs", "bundle", "file")
    page.file_uploader(key).set_value(("a.zip", b"PK no bundle", "application/zip")).run()
    (opening,) = [one for one in page.button if one.label == "Open the run"]
    opening.click().run()
    assert not page.exception
    assert "is no bundle of a run" in texts(page.error)
    assert server.store().list() == []


def test_a_bundle_holds_the_run_and_its_data(
    fitted: str, open_page: OpenPage, request: pytest.FixtureRequest
) -> None:
    content = run_exports.bundle(fitted)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = set(archive.namelist())
    assert {"run/model.safetensors", "run/spec.json", "dataset/data.parquet"} <= names
    store: Store = request.getfixturevalue("other")
    page = open_page("runs")
    key = widget_key("runs", "bundle", "file")
    page.file_uploader(key).set_value(("run.zip", content, "application/zip")).run()
    (opening,) = [one for one in page.button if one.label == "Open the run"]
    opening.click().run()
    assert not page.exception
    assert [job.id for job in store.list()] == [fitted]
    assert "Open the map" in ways(page)
    assert page.query_params["run"] in (fitted, [fitted])
