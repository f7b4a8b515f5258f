"""The comparison with classifiers, on few steps and with rivals whose accuracy is known."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier

from lvmcore import LDGD, FastLDGD
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.latent import classify


class Oracle(ClassifierMixin, BaseEstimator):
    """Always right: a rival that nobody can beat."""

    def fit(self, X: Any, y: Any) -> "Oracle":
        self.classes_ = np.unique(y)
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        return 1.0


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(classify, "DATASETS", ("wine",))
    monkeypatch.setattr(classify, "FURTHER_DATASETS", ())
    monkeypatch.setattr(classify, "REPEATS", 1)
    few = {"max_iter": 10, "n_inducing": 10, "label_weight": 1.0}
    for model in (LDGD, FastLDGD):
        monkeypatch.setattr(model, "suggest", lambda _: few)
    classify._cross_validate.cache_clear()
    yield
    classify._cross_validate.cache_clear()


def rows(monkeypatch: pytest.MonkeyPatch, **others: Any) -> list[BenchmarkRow]:
    monkeypatch.setattr(classify, "_baselines", lambda seed: others)
    return [make() for make in classify.rows(Options())]


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_the_gap_is_to_the_best_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rows(monkeypatch, forest=DummyClassifier(), tree=Oracle())
    scores = classify._cross_validate("wine")
    assert scores.best == ("tree", 1.0)
    for name, gap, ece in zip(("LDGD", "Fast LDGD"), found[::2], found[1::2], strict=True):
        ours = np.mean(scores.accuracy[name])
        assert gap.name.startswith(f"wine: accuracy of {name} less")
        assert gap.value == pytest.approx(ours - 1.0)
        assert 0.4 < ours < 1.0
        assert gap.settings["max_iter"] == 10
        assert "forest 0.3" in gap.reference
        # As far as the probabilities can be from what happened, and no further.
        assert 0 < ece.value < 0.7
        assert ece.settings["data"] == "wine"
    assert found[0].value != found[2].value


@pytest.mark.usefixtures("small")
def test_a_worse_rival_lets_every_floor_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    gap = rows(monkeypatch, forest=DummyClassifier())[0]
    assert gap.value > 0.3
    assert gap.holds


def test_the_larger_tables_have_one_repeat() -> None:
    assert classify._protocol("digits") == "5-fold"
    assert classify._protocol("iris") == "5 × 5-fold"


@pytest.mark.usefixtures("data_dir")
def test_single_cells_are_read_with_the_types_that_every_fold_has() -> None:
    X, y = classify._load("sc_pbmc68k_700x765")
    assert X.shape == (679, 765)
    assert len(set(y)) == 8


@pytest.mark.usefixtures("data_dir")
def test_classes_that_are_too_rare_for_the_folds_are_left_out() -> None:
    X, y = classify._load("uci_nursery")
    assert set(np.unique(y)) == {"not_recom", "priority", "spec_prior", "very_recom"}
    assert X.shape == (12958, 26)
    assert set(np.unique(X)) == {0.0, 1.0}
