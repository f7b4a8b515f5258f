"""The number of dimensions of LDGD where it is "ard"."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import lvmcore
from lvmcore import LDGD
from lvmcore.data import load_sample
from lvmcore.gp.labelled_settings import MOST_DIMENSIONS, component_variances
from lvmcore.preprocessing.table_rows import InMemoryRows

RNG = np.random.default_rng(0)
BRIEF: dict[str, Any] = {"max_iter": 2, "n_inducing": 5, "random_state": 0}


def categories(levels: int, columns: int, n: int = 240) -> np.ndarray:
    """Independent columns of categories, one-hot, each level as often as the others."""
    codes = [RNG.permutation(n) % levels for _ in range(columns)]
    return np.concatenate([np.eye(levels)[code] for code in codes], axis=1)


def n_dimensions(model: LDGD) -> int:
    return model.embedding_.mean.shape[1]


LABELS = np.resize(["a", "b"], 240)


def variances(X: np.ndarray) -> np.ndarray:
    return component_variances(InMemoryRows(torch.as_tensor((X - X.mean(0)) / X.std(0))))


def test_variances_are_the_eigenvalues_of_the_correlations() -> None:
    X = RNG.normal(size=(70, 3)) @ RNG.normal(size=(3, 12)) + RNG.normal(size=(70, 12))
    np.testing.assert_allclose(variances(X), np.linalg.svd(np.corrcoef(X.T))[1], rtol=1e-9)


def test_all_combinations_of_categories_have_equal_variances() -> None:
    """Four columns of three levels: rank 4 (3 - 1), and 12 columns of variance 1."""
    grid = np.stack(np.meshgrid(*[np.arange(3)] * 4), -1).reshape(-1, 4)
    X = np.concatenate([np.eye(3)[grid[:, j]] for j in range(4)], axis=1)
    np.testing.assert_allclose(variances(X), [1.5] * 8 + [0] * 4, atol=1e-9)


def test_a_narrow_table_of_categories_has_a_dimension_for_each_component() -> None:
    X = categories(3, 8)
    model = LDGD(**BRIEF).fit(X, LABELS)
    assert n_dimensions(model) == np.linalg.matrix_rank(X - X.mean(0)) == 16
    assert any("16 dimensions, more than the usual 10" in note for note in model.notes_)
    assert model.settings_["n_components"] == "ard"


def test_there_are_at_most_so_many_dimensions() -> None:
    model = LDGD(**BRIEF).fit(RNG.normal(size=(240, 30)), LABELS)
    assert n_dimensions(model) == MOST_DIMENSIONS == 20


def test_missing_cells_count_as_means() -> None:
    X = categories(3, 8)
    X[::40, 0] = np.nan
    assert n_dimensions(LDGD(**BRIEF).fit(X, LABELS)) == 17  # a column of rank 2 now has rank 3


def test_a_given_number_is_kept() -> None:
    model = LDGD(**BRIEF, n_components=4).fit(categories(3, 8), LABELS)
    assert n_dimensions(model) == 4


@pytest.mark.parametrize(("name", "label"), [("wine", "cultivar"), ("breast_cancer", "diagnosis")])
def test_correlated_columns_have_the_usual_dimensions(name: str, label: str) -> None:
    data = load_sample(name).dataset(label=label)
    model = LDGD(**BRIEF).fit(data.X, np.array(data.labels))
    assert n_dimensions(model) == 10
    assert not any("more than the usual" in note for note in model.notes_)


def test_a_wide_table_has_the_usual_dimensions() -> None:
    assert n_dimensions(LDGD(**BRIEF).fit(categories(3, 11), LABELS)) == 10


def test_few_rows_limit_the_dimensions() -> None:
    X = categories(3, 8)[:9]
    X = X[:, X.std(0) > 0]
    assert n_dimensions(LDGD(**BRIEF).fit(X, LABELS[:9])) == 8


def test_a_saved_model_keeps_its_dimensions(tmp_path: Path) -> None:
    X = categories(3, 8)
    model = LDGD(**BRIEF).fit(X, LABELS)
    model.save(tmp_path / "model.safetensors")
    again = lvmcore.load(tmp_path / "model.safetensors")
    assert n_dimensions(again) == n_dimensions(model)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
