"""LDGD on data whose answer is known: poor before the fit, good after it."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split

from lvmcore import LDGD
from lvmcore.data import load_paper, load_sample
from lvmcore.metrics.scores import nlpd

Array = NDArray[np.float64]


def sample(key: str, label: str) -> tuple[Array, NDArray[np.str_]]:
    dataset = load_sample(key).dataset(label=label)
    return dataset.X, np.array(dataset.labels)


@pytest.mark.slow
def test_iris_is_told_apart_better_than_before_the_fit() -> None:
    X, y = sample("iris", "species")
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.4, stratify=y, random_state=0
    )
    before = LDGD(max_iter=1).fit(X_train, y_train)
    after = LDGD(max_iter=100).fit(X_train, y_train)
    assert after.elbo_ > before.elbo_ + 2 * len(X_train)
    assert after.score(X_test, y_test) >= 0.93
    assert before.score(X_test, y_test) < 0.93

    def surprise(model: LDGD) -> float:
        """Mean −log probability of the right class of rows that the fit has not seen."""
        probability = model.predict_proba(X_test)
        right = np.searchsorted(model.classes_, y_test)
        return float(-np.log(probability[np.arange(len(y_test)), right]).mean())

    assert surprise(after) < 0.5 * surprise(before)


@pytest.mark.slow
def test_labels_that_mean_nothing_are_not_predicted() -> None:
    """A test that the fit does not see the labels of the rows it is scored on."""
    X, y = sample("iris", "species")
    shuffled = np.random.default_rng(0).permutation(y)
    accuracy = cross_val_score(
        LDGD(max_iter=60), X, shuffled, cv=StratifiedKFold(3, shuffle=True, random_state=0)
    )
    assert accuracy.mean() < 0.45


@pytest.fixture(scope="module")
def moons() -> tuple[Array, NDArray[np.str_]]:
    return sample("moons10", "label")


@pytest.mark.slow
def test_moons_need_two_dimensions(moons: tuple[Array, NDArray[np.str_]]) -> None:
    X, y = moons
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.4, stratify=y, random_state=0
    )
    model = LDGD(n_components=10, max_iter=150).fit(X_train, y_train)
    assert model.score(X_test, y_test) >= 0.97
    share = np.sort(model.relevance_["labels"] / model.relevance_["labels"].sum())[::-1]
    assert share[:2].sum() >= 0.95
    assert share[1] >= 0.05  # two, and not one


@pytest.mark.slow
def test_few_labels_and_many_rows_without(moons: tuple[Array, NDArray[np.str_]]) -> None:
    """Ten labels of each moon: the other rows say what shape the moons have."""
    X, y = moons
    rng = np.random.default_rng(0)
    labelled = np.concatenate(
        [rng.choice(np.flatnonzero(y == name), size=10, replace=False) for name in np.unique(y)]
    )
    partly = np.full(len(y), None, dtype=object)
    partly[labelled] = y[labelled]
    model = LDGD(n_components=5, max_iter=200).fit(X, partly)
    unlabelled = np.setdiff1d(np.arange(len(y)), labelled)
    assert np.mean(model.predict(X[unlabelled]) == y[unlabelled]) >= 0.85


@pytest.mark.slow
def test_samples_of_a_class_are_drawn_from_it(moons: tuple[Array, NDArray[np.str_]]) -> None:
    X, y = moons
    model = LDGD(n_components=4, max_iter=150).fit(X, y)
    for name in model.classes_:
        drawn = model.sample(600, label=name, random_state=0)
        rows = X[y == name]
        away = (drawn.mean(axis=0) - rows.mean(axis=0)) / X.std(axis=0)
        assert np.abs(away).max() < 0.2
        assert np.mean(model.predict(drawn) == name) > 0.95
        # The spread within the class, which is less than that of all rows.
        ratio = drawn.std(axis=0) / rows.std(axis=0)
        assert ((ratio > 0.7) & (ratio < 1.4)).all()


@pytest.mark.slow
def test_probabilities_of_unseen_rows_are_calibrated(
    moons: tuple[Array, NDArray[np.str_]],
) -> None:
    """A fifth of the labels is swapped at random, so nobody can be surer than 0.8."""
    X, y = moons
    rng = np.random.default_rng(1)
    codes = (y == np.unique(y)[1]) ^ (rng.random(len(y)) < 0.2)
    model = LDGD(n_components=5, max_iter=150).fit(X[::2], codes[::2])
    probability = model.predict_proba(X[1::2])
    surest = probability.max(axis=1)
    right = model.predict(X[1::2]) == codes[1::2]
    assert abs(surest.mean() - right.mean()) < 0.08
    assert surest.mean() < 0.9


@pytest.mark.slow
def test_decoded_intervals_hold_unseen_rows() -> None:
    X, y = sample("iris", "species")
    model = LDGD(max_iter=150).fit(X[::2], y[::2])
    unseen = X[1::2]
    predicted = model.decode(model.transform(unseen))
    z = (unseen - predicted.mean) / np.sqrt(predicted.variance)
    assert 0.88 < np.mean(np.abs(z) < 1.96) <= 1.0
    flat = np.broadcast_to(X[::2].mean(axis=0), unseen.shape)
    spread = np.broadcast_to(X[::2].var(axis=0), unseen.shape)
    assert nlpd(unseen, predicted.mean, predicted.variance) < nlpd(unseen, flat, spread) - 0.5


def oil_flow(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Array, NDArray[np.str_]]:
    monkeypatch.setenv("LVMCORE_DATA", str(data_dir))
    dataset = load_paper("oil_flow_train").dataset(label="label")
    return dataset.X, np.array(dataset.labels)


@pytest.mark.slow
def test_oil_flow_on_one_split(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = oil_flow(data_dir, monkeypatch)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.2, stratify=y, random_state=0
    )
    model = LDGD(n_components=7, n_inducing=25).fit(X_train, y_train)
    assert model.score(X_test, y_test) >= 0.97


@pytest.mark.slow
def test_oil_flow_in_five_folds(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = oil_flow(data_dir, monkeypatch)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    accuracy = cross_val_score(LDGD(n_components=7, n_inducing=25, max_iter=300), X, y, cv=folds)
    assert accuracy.mean() >= 0.985


@pytest.mark.slow
@pytest.mark.parametrize("dimensions", [10, 40])
def test_moons_in_five_folds(dimensions: int) -> None:
    X, y = sample(f"moons{dimensions}", "label")
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    accuracy = cross_val_score(LDGD(n_components=10, n_inducing=25, max_iter=300), X, y, cv=folds)
    assert accuracy.mean() >= 0.995
    model = LDGD(n_components=10, n_inducing=25, max_iter=150).fit(X, y)
    share = np.sort(model.relevance_["labels"] / model.relevance_["labels"].sum())[::-1]
    assert share[:2].sum() >= 0.95
    assert share[1] >= 0.05


@pytest.mark.slow
def test_iris_in_repeated_folds() -> None:
    X, y = sample("iris", "species")
    accuracy = [
        cross_val_score(
            LDGD(max_iter=100), X, y, cv=StratifiedKFold(5, shuffle=True, random_state=i)
        ).mean()
        for i in range(3)
    ]
    assert np.mean(accuracy) >= 0.95


@pytest.mark.slow
def test_unseen_digits_are_read() -> None:
    X, y = sample("digits", "digit")
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=0
    )
    model = LDGD(n_inducing=50, max_iter=150).fit(X_train, y_train)
    assert model.score(X_test, y_test) >= 0.9


def final_boards() -> tuple[Array, NDArray[np.bool_]]:
    """All 958 final boards of tic-tac-toe, one-hot by square, and whether x has won."""
    lines = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]]
    found: set[tuple[int, ...]] = set()

    def play(board: tuple[int, ...], player: int) -> None:
        won = any(len({board[i] for i in line}) == 1 and board[line[0]] for line in lines)
        if won or 0 not in board:
            found.add(board)
            return
        for square in range(9):
            if board[square] == 0:
                play((*board[:square], player, *board[square + 1 :]), 3 - player)

    play((0,) * 9, 1)
    boards = np.array(sorted(found))
    y = np.any([(boards[:, line] == 1).all(axis=1) for line in lines], axis=0)
    return np.eye(3)[boards].reshape(len(boards), -1), y


@pytest.mark.slow
def test_categories_need_a_dimension_for_each_component() -> None:
    X, y = final_boards()
    assert (len(X), y.sum()) == (958, 626)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=0
    )
    assert LDGD(random_state=0).fit(X_train, y_train).score(X_test, y_test) >= 0.95
    few = LDGD(n_components=10, random_state=0).fit(X_train, y_train)
    assert few.score(X_test, y_test) <= 0.85
