"""Residuals of rows, by loops and by a closed form; the table and the colour of the page."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from app.analysis.map import residuals as module
from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.residuals import residuals
from app.formatting import number
from app.services import fitted_maps, row_analysis
from lvmcore import PCA, BayesianGPLVM, LatentDirichletAllocation, ProbabilisticPCA
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


def one_cell(
    cells: NDArray[np.float64], decoded: NDArray[np.float64], d: int, tau: NDArray[np.float64]
) -> tuple[float, float]:
    """Mean and variance of cell d of a row, from its other cells and other decoded rows."""
    weights = []
    for position in decoded:
        weight = 1.0
        for other, (cell, value) in enumerate(zip(cells, position, strict=True)):
            if other != d and not np.isnan(cell):
                weight *= (1 + ((cell - value) / tau[other]) ** 2 / 4) ** -2.5
        weights.append(weight)
    share = np.array(weights) / sum(weights)
    mean = float(share @ decoded[:, d])
    return mean, float(share @ (decoded[:, d] - mean) ** 2)


def robust_sd(values: NDArray[np.float64]) -> float:
    size = np.sort(np.abs(values[~np.isnan(values)]))
    found = [np.median(size) / 0.6744897501960817]
    for p in (0.9, 0.975, 0.99):
        level = min(p, 1 - 6 / len(size))
        found.append(np.quantile(size, level) / float(norm.ppf((1 + level) / 2)))
    return float(max(found))


def by_loops(X: NDArray[np.float64], F: NDArray[np.float64]) -> NDArray[np.float64]:
    """The residuals of a table without counts, a cell after another, [N, D]."""
    centre = np.nanmedian(X, axis=0)
    scale = np.array([robust_sd(column) for column in (X - centre).T])
    Y, decoded, tau = (X - centre) / scale, (F - centre) / scale, np.full(X.shape[1], 0.5)
    for _ in range(2):
        moments = np.array(
            [
                [one_cell(Y[n], np.delete(decoded, n, axis=0), d, tau) for d in range(X.shape[1])]
                for n in range(len(X))
            ]
        )
        residual = Y - moments[..., 0]
        tau = np.maximum([robust_sd(column) for column in residual.T], 0.02)
    z = residual / np.sqrt(moments[..., 1] + tau**2)
    return np.asarray(z / [robust_sd(column) for column in z.T])


def test_residuals_are_those_of_one_cell_after_another(rows: Dataset) -> None:
    model = BayesianGPLVM(n_components=2, n_inducing=10, max_iter=40).fit(rows.X)
    found = residuals(model, rows)
    assert found.rows.tolist() == list(range(60))
    z = by_loops(rows.X[:, :6], model.decode(model.embedding_.mean).mean[:, :6])
    worst = np.nanargmax(np.abs(z), axis=1)
    assert found.column.tolist() == worst.tolist()
    np.testing.assert_allclose(found.deviation, z[np.arange(60), worst], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.size, np.nanmax(np.abs(z), axis=1), rtol=1e-4, atol=1e-4)
    assert found.size[found.worst(60)].tolist() == sorted(found.size, reverse=True)
    assert found.typical == pytest.approx(np.median(found.size))


def test_what_the_other_cells_say_is_what_the_model_imputes() -> None:
    """The conditional mean of a Gaussian in closed form, for gross cells of a linear table."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(1500, 2)) @ rng.normal(size=(2, 8)) + 0.1 * rng.normal(size=(1500, 8))
    gross = {17: 2, 300: 5, 1100: 0}
    for row, column in gross.items():
        X[row, column] += 10 * X[:, column].std()
    model = ProbabilisticPCA(n_components=2).fit(X)
    found = residuals(model, Dataset.from_arrays(X))
    assert set(found.worst(3).tolist()) == set(gross)
    for row, column in gross.items():
        hidden = X[row : row + 1].copy()
        hidden[0, column] = np.nan
        imputed = model.impute(hidden).mean[0, column]
        assert found.column[row] == column
        assert found.deviation[row] > 10
        assert found.expected[row] == pytest.approx(imputed, abs=0.3 * X[:, column].std())


def test_counts_are_compared_as_roots_and_proportions_by_the_total_of_a_row() -> None:
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.full(12, 0.5), size=3)
    totals = rng.integers(50, 2000, size=200)
    topics = rng.dirichlet(np.full(3, 0.3), size=200)
    X = rng.poisson(totals[:, None] * (topics @ shares)).astype(float)
    X[40, 3] += np.ceil(300 + 10 * X[:, 3].std())
    model = LatentDirichletAllocation(n_components=3, max_iter=60).fit(X)
    found = residuals(model, Dataset.from_arrays(X))
    assert found.worst(1).tolist() == [40]
    assert found.column[40] == 3
    # A row of twice the total, in the same proportions, has no larger residual for that.
    others = np.delete(np.arange(200), 40)
    assert abs(np.corrcoef(found.size[others], totals[others])[0, 1]) < 0.35
    assert (found.expected >= 0).all()


def test_of_a_large_table_rows_evenly_spaced_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(100, 4))
    model = ProbabilisticPCA(n_components=1).fit(X)
    whole = residuals(model, Dataset.from_arrays(X))
    monkeypatch.setattr(module, "_COMPARISONS_PER_BLOCK", 1300)
    blocks = residuals(model, Dataset.from_arrays(X))
    np.testing.assert_allclose(blocks.size, whole.size, rtol=1e-5)
    monkeypatch.setattr(module, "MOST_CELLS", 100)
    monkeypatch.setattr(module, "MOST_COMPARISONS", 2000)
    part = residuals(model, Dataset.from_arrays(X))
    assert part.rows.tolist() == list(range(0, 100, 4))
    assert np.isfinite(part.size).all()


def test_a_row_without_a_cell_is_never_among_the_worst() -> None:
    X = np.random.default_rng(0).normal(size=(30, 3))
    model = ProbabilisticPCA(n_components=1).fit(X)
    X[4] = np.nan
    found = residuals(model, Dataset.from_arrays(X))
    assert np.isnan(found.size[4])
    assert 4 not in found.worst(30)
    assert len(found.worst(30)) == 29


def test_a_column_with_one_value_mostly_is_measured_by_its_sd() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    X[:, 3] = 0.0
    X[7, 3] = 1.0
    model = ProbabilisticPCA(n_components=1).fit(X)
    found = residuals(model, Dataset.from_arrays(X))
    assert found.column[7] == 3
    assert found.deviation[7] == pytest.approx(1 / X[:, 3].std(), rel=0.4)


def test_levels_of_a_category_do_not_tell_each_other() -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 200)
    frame = pd.DataFrame(rng.normal(size=(200, 4)), columns=list("abcd"))
    frame["kind"] = np.array(["x", "y", "z"], dtype=object)[kind]
    dataset = Table.from_frame(frame, name="kinds").dataset(one_hot=["kind"])
    found = residuals(PCA().fit(dataset.X), dataset)
    # The columns say nothing of the kind, so no kind is odd; a level alone would tell the others.
    assert found.size.max() < 8
    levels = found.column >= 4
    assert np.all(np.abs(found.deviation[levels]) < 4)


def test_the_page_ranks_and_colours_rows(open_page: OpenPage, fitted: str) -> None:
    page = open_page("latent", run=fitted)
    assert not [one for one in page.dataframe if "robust sd" in one.value]
    page.session_state[f"latent:{fitted}:outliers"] = True
    page.run()
    assert not page.exception
    found = row_analysis.residuals(fitted)
    dataset = FittedMap(
        fitted, fitted_maps.model(fitted), fitted_maps.fitted_dataset(fitted)
    ).dataset
    (table,) = [one.value for one in page.dataframe if "robust sd" in one.value]
    worst = found.worst(20)
    assert table["row"].tolist() == dataset.row_ids[found.rows[worst]].tolist()
    assert table["robust sd"].abs().is_monotonic_decreasing
    side = "above" if found.deviation[worst[0]] > 0 else "below"
    size = number(float(found.size[worst[0]]), 3)
    said = f"{size} robust sd {side} its prediction from the other columns"
    assert said in texts(page)

    box(page, "Colour").set_value("residual").run()
    assert not page.exception
    (shown,) = scenes(page)
    assert [text.rsplit(": ", 1)[1] for text in shown.data["texts"]] == [
        number(float(size), 2) for size in found.size
    ]
    assert f"half of the rows have less than {number(found.typical, 2)} robust sd" in texts(page)
