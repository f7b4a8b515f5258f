"""The figure of accuracy against training size, with models that need no fit."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from lvmcore.base.table_size import TableSize
from lvmcore.bench.harness.report import Options
from lvmcore.bench.latent import training_size


class Guess(ClassifierMixin, BaseEstimator):
    """Knows the first so many classes and takes all others for the last of them."""

    known = 10

    def __init__(self, n_components: int = 1, random_state: int = 0) -> None:
        self.n_components, self.random_state = n_components, random_state

    @classmethod
    def suggest(cls, size: TableSize) -> dict[str, Any]:
        assert size == TableSize(n_rows=20, n_columns=64, n_classes=10)
        return {"n_components": 7, "random_state": 9}  # what the figure asks for goes before

    def fit(self, X: Any, y: Any) -> "Guess":
        self.rows_ = len(X)
        # The label is looked up, so that the score is what ``known`` says.
        known = zip(*training_size._load("digits"), strict=True)
        self.answers_ = {row.tobytes(): label for row, label in known}
        return self

    def predict(self, X: Any) -> Any:
        found = [self.answers_[row.tobytes()] for row in X]
        return np.array([label if int(label) < self.known else "-" for label in found])


class Half(Guess):
    known = 5


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    training_size._score.cache_clear()
    monkeypatch.setattr(training_size, "COMPONENTS", {"digits": 2})
    monkeypatch.setattr(training_size, "SIZES", (20,))
    monkeypatch.setattr(training_size, "FIGURE", "digits")


def rows(monkeypatch: pytest.MonkeyPatch, **models: Any) -> list[Any]:
    named = {name.replace("_", " "): model for name, model in models.items()}
    monkeypatch.setattr(training_size, "MODELS", named)
    return [make() for make in training_size.rows(Options())]


@pytest.mark.usefixtures("small")
def test_the_better_of_the_two_is_held_against_the_autoencoder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = rows(monkeypatch, LDGD=Half, Fast_LDGD=Guess, supervised_VAE=Half)
    ldgd, fast, baseline, lead = found
    assert fast.value == 1.0
    assert ldgd.value == baseline.value == pytest.approx(0.5, abs=0.02)
    assert lead.value == pytest.approx(fast.value - baseline.value)
    assert "lead of Fast LDGD" in lead.name
    assert lead.holds


@pytest.mark.usefixtures("small")
def test_a_better_autoencoder_breaks_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    *_, lead = rows(monkeypatch, LDGD=Half, Fast_LDGD=Half, supervised_VAE=Guess)
    assert lead.value < 0
    assert lead.holds is False


@pytest.mark.usefixtures("small")
def test_data_beside_the_figure_have_no_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_size, "FIGURE", "moons20")
    *_, lead = rows(monkeypatch, LDGD=Half, Fast_LDGD=Half, supervised_VAE=Guess)
    assert lead.value < 0
    assert lead.holds is None


def test_every_size_is_scored_on_as_many_rows() -> None:
    assert training_size._scored_rows("moons20") == 300
    assert training_size._scored_rows("digits") == 400
