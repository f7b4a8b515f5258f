"""The rows nearest to a row, against scikit-learn and against the model's own decoding."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import streamlit as st
from sklearn.metrics.pairwise import nan_euclidean_distances
from sklearn.neighbors import NearestNeighbors

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.neighbours import nearest_in_data, nearest_on_map, weights
from app.components.map import row_focus
from app.services import fitted_maps, row_analysis
from app.state.session import session
from lvmcore import ProbabilisticPCA
from lvmcore.models.latent.manifold import TSNE
from lvmcore.preprocessing.standardiser import Standardiser
from tests.app.conftest import OpenPage


def standard(X: np.ndarray) -> Standardiser:
    return Standardiser.fit(X, [f"x{d}" for d in range(X.shape[1])])


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_data_distances_are_scikit_learns_of_standardised_columns(missing: float) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(70, 6)) * (1, 100, 1e-3, 5, 1, 1) + 7
    X[:, 4] = 2.0  # constant: set aside
    X[rng.uniform(size=X.shape) < missing] = np.nan
    Z = standard(X).transform(X)
    expected = nan_euclidean_distances(Z)
    for row in (0, 13):
        found = nearest_in_data(X, standard(X), row, 10)
        others = np.delete(np.arange(70), row)
        order = others[np.argsort(expected[row, others], kind="stable")][:10]
        assert found.rows.tolist() == order.tolist()
        np.testing.assert_allclose(found.distance, expected[row, order])


def test_rows_without_a_column_in_common_are_not_neighbours() -> None:
    X = np.array([[1.0, np.nan], [np.nan, 2.0], [3.0, 4.0], [2.0, 5.0]])
    assert nearest_in_data(X, standard(X), 0, 10).rows.tolist() == [3, 2]


def test_latent_distances_of_a_linear_model_are_those_of_its_decoded_rows() -> None:
    """PPCA's W has orthogonal columns whose squared lengths are its relevance."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 6)) * 2 + rng.normal(size=(80, 6))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = ProbabilisticPCA(n_components=3).fit(X)
    decoded = model.decode(model.embedding_.mean).mean
    found = nearest_on_map(model, 5, 12)
    near = NearestNeighbors(n_neighbors=13).fit(decoded)
    distance, rows = near.kneighbors(decoded[[5]])
    assert found.rows.tolist() == rows[0, 1:].tolist()
    ratio = found.distance / distance[0, 1:]
    np.testing.assert_allclose(ratio, ratio[0])


def test_a_dimension_without_relevance_does_not_count() -> None:
    rng = np.random.default_rng(4)
    model = ProbabilisticPCA(n_components=2).fit(rng.normal(size=(40, 4)))
    model.relevance_ = {"data": np.array([2.0, 0.0])}
    assert weights(model).tolist() == [1.0, 0.0]
    mean = model.embedding_.mean[:, 0]
    expected = np.argsort(np.abs(mean - mean[7]), kind="stable")[1:6]
    assert nearest_on_map(model, 7, 5).rows.tolist() == expected.tolist()


@pytest.mark.slow
def test_a_map_that_cannot_be_decoded_counts_every_dimension_alike() -> None:
    model = TSNE(max_iter=250).fit(np.random.default_rng(5).normal(size=(60, 4)))
    assert weights(model).tolist() == [1.0, 1.0]


def test_the_page_lists_both_and_a_click_looks_at_the_row(
    open_page: OpenPage, fitted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = open_page("latent", run=fitted)
    assert not [one for one in page.header if one.value == "Nearest rows"]
    (row,) = [one for one in page.selectbox if one.label == "Row"]
    row.set_value(4).run()
    assert not page.exception
    run = FittedMap(fitted, fitted_maps.model(fitted), fitted_maps.fitted_dataset(fitted))
    found = row_analysis.neighbours(fitted, 4, 10)
    tables = [one.value for one in page.dataframe if "distance" in one.value]
    for table, near in zip(tables, (found.on_map, found.among_data), strict=True):
        assert table["row"].tolist() == run.dataset.row_ids[near.rows].tolist()
        np.testing.assert_allclose(table["distance"], near.distance)
    both = set(found.on_map.rows) & set(found.among_data.rows)
    assert any(f"{len(both)} of 10 are the same" in one.value for one in page.markdown)

    click = SimpleNamespace(selection=SimpleNamespace(cells=[(2, "row")]))
    monkeypatch.setattr(st, "session_state", {"key": click})
    row_focus.on_row_click(found.on_map.rows, "key", partial(row_focus.focus_row, run))
    point = session.point[fitted]
    assert point is not None
    assert point.row == found.on_map.rows[2]
