"""The label weight of a fit where none is given."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import cohen_kappa_score
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier

import lvmcore
from lvmcore import LDGD, FastLDGD
from lvmcore.base.table_size import TableSize
from lvmcore.data import load_sample
from lvmcore.gp.labelled_settings import label_agreement, weight_by_agreement
from lvmcore.preprocessing.class_labels import ClassLabels
from lvmcore.preprocessing.table_rows import InMemoryRows

BRIEF: dict[str, Any] = {"max_iter": 2, "n_inducing": 5, "random_state": 0}


def moons(share: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """The rows of two moons, and their labels, a share of them swapped."""
    dataset = load_sample("moons10").dataset(label="label")
    codes = np.unique(np.array(dataset.labels), return_inverse=True)[1]
    return dataset.X, codes ^ (np.random.default_rng(0).random(len(codes)) < share)


def agreement(X: np.ndarray, y: Any) -> float:
    Y = torch.as_tensor((X - X.mean(0)) / X.std(0))
    return label_agreement(InMemoryRows(Y), ClassLabels.encode(y, len(X)))


def test_labels_of_one_class_have_no_agreement() -> None:
    X, _ = moons()
    labels = ClassLabels(np.array([0, 1]), np.zeros(len(X), np.int64))
    assert label_agreement(InMemoryRows(torch.as_tensor(X)), labels) == 0


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_agreement_is_near_that_of_held_out_neighbours(share: float) -> None:
    """Of swapped labels the best predictions have κ = 1 − 2 share; neighbours come near it."""
    X, y = moons(share)
    found = agreement(X, y)
    folds = KFold(10, shuffle=True, random_state=0)
    other = cross_val_predict(KNeighborsClassifier(15), X / X.std(0), y, cv=folds)
    assert found == pytest.approx(cohen_kappa_score(y, other), abs=0.12)
    assert found == pytest.approx(1 - 2 * share, abs=0.12)


def test_labels_of_chance_have_no_agreement() -> None:
    X, _ = moons()
    y = np.random.default_rng(1).integers(0, 3, len(X))
    assert abs(agreement(X, y)) < 0.15


def test_rows_without_a_label_do_not_count() -> None:
    X, y = moons()
    known = np.random.default_rng(0).random(len(X)) < 0.5
    labels = [str(code) if some else None for code, some in zip(y, known, strict=True)]
    Y = torch.as_tensor((X - X.mean(0)) / X.std(0))
    of_part = label_agreement(InMemoryRows(Y[known]), ClassLabels.encode(y[known], known.sum()))
    assert agreement(X, labels) == of_part


def test_the_weight_rises_with_the_agreement() -> None:
    weights = [weight_by_agreement(16.0, kappa) for kappa in (-0.2, 0.8, 0.875, 0.95, 1.0)]
    assert weights == pytest.approx([1, 1, 4, 16, 16])
    assert weight_by_agreement(1.0, 0.9) == 1


def test_predictable_labels_of_a_narrow_table_have_the_largest_weight() -> None:
    model = FastLDGD(**BRIEF).fit(*moons())
    assert model.settings_["label_weight"] == 4
    assert model.get_params()["label_weight"] is None
    assert not any("weight of the labels" in note for note in model.notes_)


def test_noisy_labels_have_weight_1_and_a_note_says_so() -> None:
    model = FastLDGD(**BRIEF).fit(*moons(0.2))
    assert model.settings_["label_weight"] == 1
    assert any("is 1, where it can be up to 4" in note for note in model.notes_)


def test_none_fits_what_the_chosen_weight_fits() -> None:
    X, y = moons(0.2)
    chosen, given = FastLDGD(**BRIEF).fit(X, y), FastLDGD(**BRIEF, label_weight=1.0).fit(X, y)
    assert chosen.elbo_ == given.elbo_
    np.testing.assert_array_equal(chosen.predict_proba(X), given.predict_proba(X))


def test_a_given_weight_is_kept() -> None:
    model = FastLDGD(**BRIEF, label_weight=3.0).fit(*moons(0.2))
    assert model.settings_["label_weight"] == 3
    assert not any("weight of the labels" in note for note in model.notes_)


def test_the_least_predictable_label_column_counts() -> None:
    X, y = moons()
    both = np.column_stack([y, moons(0.3)[1]])
    assert FastLDGD(**BRIEF).fit(X, both).settings_["label_weight"] == 1


def test_missing_cells_count_as_means() -> None:
    X, y = moons()
    X[::50, 0] = np.nan
    assert FastLDGD(**BRIEF).fit(X, y).settings_["label_weight"] == 4


def test_the_largest_weights() -> None:
    def fast(n_rows: int, n_columns: int) -> float:
        return FastLDGD.largest_label_weight(
            TableSize(n_rows=n_rows, n_columns=n_columns, n_classes=8)
        )

    assert [fast(1000, 765), fast(1001, 765), fast(1000, 24), fast(1000, 4)] == [10, 95, 3, 1]
    many = TableSize(n_rows=1800, n_columns=64, n_classes=10)
    few = TableSize(n_rows=1800, n_columns=64, n_classes=3)
    assert [LDGD.largest_label_weight(size) for size in (many, few)] == [20, 1]


def test_a_saved_model_keeps_its_weight(tmp_path: Path) -> None:
    model = FastLDGD(**BRIEF).fit(*moons())
    model.save(tmp_path / "model.safetensors")
    again = lvmcore.load(tmp_path / "model.safetensors")
    assert again.settings_["label_weight"] == 4
    assert again.get_params()["label_weight"] is None
