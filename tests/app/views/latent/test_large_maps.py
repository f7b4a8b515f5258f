"""The map of a table with too many rows for markers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.components.map import large_maps
from app.services import fitted_maps
from app.web import row_files
from lvmcore.data import Dataset
from tests.app.conftest import OpenPage, fitted_run
from tests.app.views.latent.test_page import box, texts
from tests.scenes import scenes

N = 21_000
NOTE = "All 21\u202f000 rows are drawn: the more rows at a place, the stronger its colour."


@pytest.fixture(scope="module")
def large(shared_home: Path) -> str:
    """A run of PCA on many rows with labels."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(N, 3)) * (3.0, 2.0, 1.0)
    labels = np.where(X[:, 0] > 0, "right", "left").astype(object)
    dataset = Dataset.from_arrays(X, labels, name="many", label_name="side")
    return fitted_run(dataset, "pca", {"n_components": 2})


def test_all_rows_go_to_the_browser_in_files(open_page: OpenPage, large: str) -> None:
    page = open_page("latent", run=large)
    assert not page.exception
    (shown,) = scenes(page)
    assert shown.data["points"]["n"] == 0
    assert shown.data["density"] is None
    rows = shown.data["allRows"]
    assert [rows[key] for key in ("n", "numbers", "names", "selected")] == [N, None, None, None]
    content = row_files._files[rows["positions"].removeprefix(row_files.FOLDER)]
    steps = np.frombuffer(content, "<u2").reshape(2, N)
    means = fitted_maps.model(large).embedding_.mean
    for axis, (low, high) in enumerate(rows["ranges"]):
        np.testing.assert_allclose(
            low + steps[axis] * (high - low) / 65535, means[:, axis], atol=(high - low) / 65535
        )
    assert NOTE in texts(page)
    assert "In a view of at most 5\u202f000 rows each has a marker: zoom in." in texts(page)

    colour = rows["codes"]
    box(page, "Colour").select("one colour").run()
    (plain,) = scenes(page)
    assert plain.data["allRows"]["positions"] == rows["positions"]
    assert plain.data["allRows"]["codes"] != colour


def test_a_sample_has_the_markers_that_a_column_sizes(open_page: OpenPage, large: str) -> None:
    page = open_page("latent", run=large)
    box(page, "Size by").select("x1").run()
    assert not page.exception
    (shown,) = scenes(page)
    assert shown.data["points"]["n"] == large_maps.SAMPLED
    assert len(np.unique(shown.array("size"))) > 10
    assert shown.data["allRows"]["n"] == N
    assert "a random sample of the visible rows (seed 0)" in texts(page)


def test_names_of_rows_are_a_file(open_page: OpenPage, shared_home: Path) -> None:
    names = [f"sample {i}" for i in range(N)]
    names[7] = "two\nlines"
    X = np.random.default_rng(5).normal(size=(N, 3))
    dataset = Dataset.from_arrays(X, row_ids=names, name="named")
    page = open_page("latent", run=fitted_run(dataset, "pca", {"n_components": 2}))
    address = scenes(page)[0].data["allRows"]["names"]
    found = row_files._files[address.removeprefix(row_files.FOLDER)].decode().split("\n")
    assert found == [*names[:7], "two lines", *names[8:]]
