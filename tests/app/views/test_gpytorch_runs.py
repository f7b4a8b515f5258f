"""Runs whose model was trained with gpytorch, and the export to gpytorch, on the pages."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import lvmcore
from app.services import server
from app.services.run_exports import gpytorch_archive
from lvmcore.kernels.gpytorch_components import gpytorch_kernels
from tests.app.conftest import OpenPage
from tests.scenes import scenes
from tests.unit.lvmcore.models.gpytorch.trained import approximate, exact, gplvm, rows, table


@pytest.fixture(scope="module")
def map_run(shared_home: Path) -> str:
    """A map of gpytorch, two dimensions and four columns."""
    Y = pd.DataFrame(table().numpy(), columns=["height", "width", "depth", "mass"])
    model = lvmcore.from_gpytorch(*gplvm(), X=Y)
    return lvmcore.add_fitted(model, Y, name="map of gpytorch", store=server.store())


@pytest.fixture(scope="module")
def target_run(shared_home: Path) -> str:
    """A sparse process of gpytorch."""
    X, y = rows()
    K = gpytorch_kernels()
    theirs, likelihood = approximate(K.ScaleKernel(K.RBFKernel(ard_num_dims=2)))
    model = lvmcore.from_gpytorch(theirs, likelihood, X=X, y=y, columns=["a", "b"])
    frame = pd.DataFrame(X.numpy(), columns=["a", "b"]).assign(dose=y.numpy())
    return lvmcore.add_fitted(model, frame, target="dose", store=server.store())


def texts(page: AppTest) -> str:
    kinds = ("markdown", "caption", "warning", "error", "info")
    found = (element for kind in kinds for element in getattr(page.main, kind))
    return "\n".join(str(element.value).replace("\\", "") for element in found)


def labels(page: AppTest, kind: str) -> list[str]:
    return [str(one.proto.label) for one in page.get(kind)]


def test_latent_shows_the_map_with_its_uncertainty(map_run: str, open_page: OpenPage) -> None:
    page = open_page("latent", run=map_run)
    assert not page.exception
    assert not page.error
    assert scenes(page)
    assert "was not fitted here" in texts(page)
    assert "gpytorch as ZIP" in labels(page, "download_button")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["compare", "generate", "new_rows", "runs"])
def test_other_pages_of_a_map_open(name: Any, map_run: str, open_page: OpenPage) -> None:
    page = open_page(name, run=map_run)
    assert not page.exception
    assert not page.error


def test_predict_shows_the_target(target_run: str, open_page: OpenPage) -> None:
    page = open_page("predict", run=target_run)
    assert not page.exception
    assert not page.error
    assert "may have been fitted to with gpytorch" in texts(page)
    assert "was not fitted here" in texts(page)
    assert "gpytorch as ZIP" in labels(page, "download_button")


@pytest.mark.slow
def test_predict_shows_the_components_of_an_exact_process(open_page: OpenPage) -> None:
    K = gpytorch_kernels()
    theirs = exact(K.ScaleKernel(K.RBFKernel()) + K.ScaleKernel(K.LinearKernel(active_dims=(1,))))
    model = lvmcore.from_gpytorch(theirs, columns=["a", "b"])
    X, y = rows()
    frame = pd.DataFrame(X.numpy(), columns=["a", "b"]).assign(dose=y.numpy())
    run = lvmcore.add_fitted(model, frame, target="dose", store=server.store())
    page = open_page("predict", run=run)
    assert not page.exception
    assert not page.error
    assert "Components" in labels(page, "tab")


def test_the_archive_of_a_run_has_the_module_and_the_script(map_run: str, target_run: str) -> None:
    for run, fact in ((map_run, '"dimensions": 2'), (target_run, '"target": "dose"')):
        with zipfile.ZipFile(io.BytesIO(gpytorch_archive(run))) as archive:
            names = set(archive.namelist())
            assert {"model.py", "predict.py", "model.safetensors", "model.json"} <= names
            assert fact in archive.read("model.json").decode()


def test_a_run_that_cannot_be_exported_offers_no_archive(fitted: str, open_page: OpenPage) -> None:
    page = open_page("latent", run=fitted)
    assert not page.exception
    assert "gpytorch as ZIP" not in labels(page, "download_button")
