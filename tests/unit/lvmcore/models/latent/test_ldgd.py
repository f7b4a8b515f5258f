"""LDGD's label term."""

import functools

import numpy as np
import pytest
import torch
from scipy.special import log_ndtr
from sklearn.base import clone

from lvmcore import LDGD, FastLDGD
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.gp.objective import LDGDObjective
from lvmcore.gp.rows import label_draws
from lvmcore.models.latent import ldgd
from lvmcore.training.loop import train
from lvmcore.training.outcome import FitOutcome
from lvmcore.training.schedule import Schedule
from tests.contract.small import table


def test_unlabelled_rows_leave_the_label_term_alone() -> None:
    """The first bound, before any step: the label term counts the labelled rows and no other."""
    frame, labels = table()

    def label_term(y: list[str | None]) -> float:
        return LDGD(n_components=2, max_iter=1).fit(frame, y).history_[0].terms["label fit"]

    half = [label if n % 2 == 0 else None for n, label in enumerate(labels)]
    # q(U) starts at the prior, so every row adds the same.
    assert label_term(half) == pytest.approx(label_term(list(labels)) / 2)


@pytest.mark.slow
@pytest.mark.parametrize("weight", [1.0, 10.0, 1000.0])
def test_noise_of_the_label_term_does_not_stifle_the_fit(
    weight: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The term is drawn anew at every step: a heavy one falls and rises, and the fit goes on.

    With shuffled labels, which no map makes certain, it stays noisy to the end.
    """
    frame, labels = table()
    labels = list(np.random.default_rng(0).permutation(labels))
    settings = {"n_components": 2, "n_inducing": 8, "label_weight": weight, "max_iter": 100}
    watched = LDGD(**settings).fit(frame, labels)
    monkeypatch.setattr(ldgd, "Schedule", functools.partial(Schedule, collapse=np.inf))
    free = LDGD(**settings).fit(frame, labels)
    assert watched.elbo_ > free.elbo_ - 25


def test_label_term_grows_in_proportion_to_its_weight() -> None:
    frame, labels = table()
    first = [
        LDGD(n_components=2, max_iter=1, label_weight=weight).fit(frame, labels).history_[0].terms
        for weight in (1.0, 3.0, 0.0)
    ]
    assert first[1]["label fit"] == pytest.approx(3 * first[0]["label fit"])
    assert first[2]["label fit"] == 0
    # At the start f ~ N(0, 1) in every class: E log Φ(±f) for N rows and C classes.
    f = np.random.default_rng(0).standard_normal(200_000)
    expected = 30 * 3 * log_ndtr(f).mean()
    assert first[0]["label fit"] == pytest.approx(expected, rel=0.01)
    assert first[0]["KL of the label functions"] == 0


def test_without_weight_the_map_is_that_of_the_columns_alone() -> None:
    """And then the labels may be anything: they move nothing but the label path."""
    frame, labels = table()
    settings = {"n_components": 2, "n_inducing": 8, "max_iter": 30, "label_weight": 0.0}
    straight = LDGD(**settings).fit(frame, labels)
    turned = LDGD(**settings).fit(frame, labels[1:] + labels[:1])
    np.testing.assert_allclose(turned.embedding_.mean, straight.embedding_.mean, atol=1e-8)
    np.testing.assert_allclose(turned.relevance_["data"], straight.relevance_["data"])


@pytest.mark.slow
def test_rows_picked_for_the_label_term_speak_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long table each step takes some rows; on average their term is that of all rows."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((90, 4))
    y = np.where(X[:, 0] > 0.5, "rare", "common").tolist()
    y[:10] = [None] * 10
    whole = LDGD(n_components=2, n_inducing=6, max_iter=30, random_state=0).fit(X, y)
    fits = _label_fits(X, y, whole, monkeypatch, draws=400)
    monkeypatch.setattr(label_draws, "LABELLED_ROWS_PER_STEP", 20)
    picked = _label_fits(X, y, whole, monkeypatch, draws=400)
    error = np.hypot(fits.std(), picked.std()) / np.sqrt(len(fits))
    assert picked.std() > fits.std()
    assert abs(fits.mean() - picked.mean()) < 4 * error


def _label_fits(
    X: np.ndarray, y: list[str | None], fitted: LDGD, patch: pytest.MonkeyPatch, *, draws: int
) -> np.ndarray:
    """The label term of a fitted model's q, drawn anew again and again."""
    kept: list[float] = []

    def draw_again(fit: LDGDObjective, *args: object, **kwargs: object) -> FitOutcome:
        outcome = train(fit, *args, **kwargs)  # type: ignore[arg-type]
        with torch.no_grad():
            kept.extend(float(fit.terms()["label fit"]) for _ in range(draws))
        return outcome

    with patch.context() as inner:
        inner.setattr(ldgd, "train", draw_again)
        clone(fitted).fit(X, y)
    return np.array(kept)


@pytest.mark.slow
@pytest.mark.parametrize("model", [LDGD, FastLDGD])
def test_a_rare_class_counts_for_more_where_classes_are_balanced(
    model: type[LatentVariableModel],
) -> None:
    """Two classes that overlap, one of them rare: unseen rows of it are rather taken for it."""
    rng = np.random.default_rng(0)
    y = np.array(["often"] * 180 + ["rarely"] * 20)
    X, unseen = (rng.standard_normal((200, 3)) + 1.2 * (y == "rarely")[:, None] for _ in range(2))
    rare = [
        model(n_components=2, max_iter=60, class_weight=weighting).fit(X, y).predict_proba(unseen)
        for weighting in ("equal", "balanced")
    ]
    assert rare[1][y == "rarely", 1].mean() > rare[0][y == "rarely", 1].mean() + 0.1
    assert rare[1][y == "often", 1].mean() > rare[0][y == "often", 1].mean()


def test_softmax_tells_classes_apart_too() -> None:
    frame, labels = table()
    other, _ = table(seed=1)
    model = LDGD(n_components=2, n_inducing=8, max_iter=60, likelihood="softmax")
    probability = model.fit(frame, labels).predict_proba(other)
    assert np.mean(model.predict(other) == labels) > 0.9
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    decoded = model.decode_labels(model.embedding_.mean)
    # All classes at once: nothing is left to be divided by.
    np.testing.assert_allclose(decoded.unnormalised.sum(axis=1), 1)
    np.testing.assert_allclose(decoded.probability, decoded.unnormalised)
