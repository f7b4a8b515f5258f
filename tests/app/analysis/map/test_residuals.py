"""How badly rows fit, by brute force; and the table and the colour of the page."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from app.analysis.map import residuals as module
from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.residuals import residuals
from app.formatting import number
from app.services import fitted_maps, row_analysis
from lvmcore import BayesianGPLVM, ProbabilisticPCA
from lvmcore.data import Dataset, Table
from tests.app.conftest import OpenPage
from tests.app.views.latent.test_page import box, texts
from tests.scenes import scenes


@pytest.fixture(scope="module")
def rows() -> Dataset:
    """Amounts learned as log_scale_note, a constant column and missing cells."""
    rng = np.random.default_rng(9)
    hidden = rng.normal(size=(60, 2))
    X = hidden @ rng.normal(size=(2, 6)) + 0.2 * rng.normal(size=(60, 6))
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["a"] = np.expm1(np.abs(frame["a"]))
    frame["same"] = 4.0
    return Table.from_frame(frame, name="rows").dataset(features=[*"abcdef", "same"], log1p=["a"])


def test_residuals_are_those_of_one_cell_after_another(rows: Dataset) -> None:
    model = BayesianGPLVM(n_components=2, n_inducing=10, max_iter=40).fit(rows.X)
    found = residuals(model, rows)
    assert found.rows.tolist() == list(range(60))
    predicted = model.decode(model.embedding_.mean)
    for i in range(60):
        z = {
            d: (rows.X[i, d] - predicted.mean[i, d]) / predicted.variance[i, d] ** 0.5
            for d in range(6)
            if not np.isnan(rows.X[i, d])
        }
        expected = np.sqrt(np.mean([value**2 for value in z.values()]))
        assert found.size[i] == pytest.approx(expected)
        worst = max(z, key=lambda d: abs(z[d]))
        assert found.column[i] == worst
        assert found.deviation[i] == pytest.approx(z[worst])
    assert found.size[found.worst(60)].tolist() == sorted(found.size, reverse=True)


def test_rows_that_the_model_makes_have_a_residual_of_about_one() -> None:
    """At their true places; those of the fit are placed to fit, and have a little less."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 10)) + rng.normal(size=(400, 10))
    model = ProbabilisticPCA(n_components=2).fit(X)
    predicted = model.decode(model.embedding_.mean)
    made = Dataset.from_arrays(rng.normal(predicted.mean, np.sqrt(predicted.variance)))
    size = residuals(model, made).size
    assert np.sqrt(np.mean(size**2)) == pytest.approx(1.0, abs=0.03)
    own = residuals(model, Dataset.from_arrays(X)).size
    assert 0.8 < np.sqrt(np.mean(own**2)) < 1.0


def test_of_a_large_table_rows_evenly_spaced_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(100, 4))
    model = ProbabilisticPCA(n_components=1).fit(X)
    whole = residuals(model, Dataset.from_arrays(X))
    monkeypatch.setattr(module, "MOST_CELLS", 100)
    monkeypatch.setattr(module, "_CELLS_PER_BLOCK", 13)
    part = residuals(model, Dataset.from_arrays(X))
    assert part.rows.tolist() == list(range(0, 100, 4))
    np.testing.assert_allclose(part.size, whole.size[::4])


def test_a_row_without_a_cell_is_never_among_the_worst() -> None:
    X = np.random.default_rng(0).normal(size=(30, 3))
    model = ProbabilisticPCA(n_components=1).fit(X)
    X[4] = np.nan
    found = residuals(model, Dataset.from_arrays(X))
    assert np.isnan(found.size[4])
    assert 4 not in found.worst(30)
    assert len(found.worst(30)) == 29


def test_the_page_ranks_and_colours_rows(open_page: OpenPage, fitted: str) -> None:
    page = open_page("latent", run=fitted)
    assert not [one for one in page.dataframe if "standardised residual" in one.value]
    page.session_state[f"latent:{fitted}:outliers"] = True
    page.run()
    assert not page.exception
    found = row_analysis.residuals(fitted)
    dataset = FittedMap(
        fitted, fitted_maps.model(fitted), fitted_maps.fitted_dataset(fitted)
    ).dataset
    (table,) = [one.value for one in page.dataframe if "standardised residual" in one.value]
    assert table["row"].tolist() == dataset.row_ids[found.rows[found.worst(20)]].tolist()
    assert table["standardised residual"].is_monotonic_decreasing

    box(page, "Colour").set_value("residual").run()
    assert not page.exception
    (shown,) = scenes(page)
    assert [text.rsplit(": ", 1)[1] for text in shown.data["texts"]] == [
        number(float(size), 2) for size in found.size
    ]
    assert "the expected value for a new row is 1" in texts(page)
