"""New rows on a map: what is known of each, against other ways of working it out."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from sklearn.metrics import accuracy_score

from lvmcore import LDGD, PCA, LinearDiscriminantAnalysis, ProbabilisticPCA
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data import Dataset, Table, TypicalRange, load_sample, matching_dataset, propose_label
from lvmcore.errors import CancelledError, DataError, UnsupportedError
from lvmcore.metrics.scores import expected_calibration_error
from lvmcore.models import MODELS
from lvmcore.prediction import placement
from lvmcore.prediction.new_table import NewTableRoles, propose_new_table_roles, read_new_table
from lvmcore.prediction.placement import most_probable, place_rows


def fitted(model: LatentVariableModel, dataset: Dataset) -> Any:
    return model.fit(
        pd.DataFrame(dataset.X, columns=list(dataset.transformed_names)), dataset.labels
    )


@pytest.fixture
def halves(toy: Dataset) -> tuple[Dataset, Dataset]:
    odd = np.arange(len(toy)) % 2 == 1
    return toy.subset(odd), toy.subset(~odd)


def two_components(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of probabilistic PCA with Q = 2, from the textbook."""
    mean, scale = X.mean(axis=0), X.std(axis=0)
    values, vectors = np.linalg.eigh(np.cov(((X - mean) / scale).T, ddof=0))
    noise = values[:-2].mean()
    C = vectors[:, -2:] * (values[-2:] - noise) @ vectors[:, -2:].T + noise * np.eye(len(values))
    return mean, C * np.outer(scale, scale)


def test_the_surprise_is_that_of_the_exact_density(halves: tuple[Dataset, Dataset]) -> None:
    old, new = halves
    model = fitted(ProbabilisticPCA(n_components=2), old)
    frame = place_rows(model, new, old).frame
    exact = multivariate_normal(*two_components(old.X))
    np.testing.assert_allclose(frame["surprise"], -exact.logpdf(new.X) / 5)
    own = -exact.logpdf(old.X) / 5
    brute = [np.mean([other < value for other in own]) for value in frame["surprise"]]
    np.testing.assert_allclose(frame["unusual"], brute)
    np.testing.assert_allclose(
        model.score_samples(pd.DataFrame(new.X, columns=list(new.feature_names))),
        exact.logpdf(new.X),
    )


def test_a_row_from_elsewhere_is_flagged_and_one_from_the_middle_is_not(
    halves: tuple[Dataset, Dataset],
) -> None:
    old, _ = halves
    strange = Dataset.from_arrays(np.vstack([old.X.mean(axis=0), old.X.mean(axis=0) + 60]))
    found = place_rows(fitted(ProbabilisticPCA(n_components=2), old), strange, old)
    assert found.frame["unusual"].tolist()[1] == 1.0
    assert found.frame["unusual"].tolist()[0] < placement.UNUSUAL
    assert found.metrics["unusual_rows"].value == 1
    assert "99% of the 30 rows of the fit" in found.metrics["unusual_rows"].protocol


def test_the_rows_of_the_fit_are_spread_evenly_over_their_own_ranks(toy: Dataset) -> None:
    found = place_rows(fitted(ProbabilisticPCA(n_components=2), toy), toy, toy).frame
    np.testing.assert_allclose(np.sort(found["unusual"]), np.arange(60) / 60)


def test_long_fits_are_compared_by_a_sample_that_is_called_one(
    toy: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "MOST_COMPARED", 20)
    metric = place_rows(fitted(ProbabilisticPCA(n_components=2), toy), toy, toy).metrics[
        "unusual_rows"
    ]
    assert "20 of the 60 rows of the fit (drawn with seed 0)" in metric.protocol


def test_a_label_aware_model_tells_classes_and_how_sure_it_is(
    halves: tuple[Dataset, Dataset],
) -> None:
    old, new = halves
    model = fitted(LDGD(n_components=2, max_iter=30), old)
    found = place_rows(model, new, old)
    X = pd.DataFrame(new.X, columns=list(new.feature_names))
    probability = model.predict_proba(X)
    np.testing.assert_allclose(
        found.frame[[f"probability of {name}" for name in "abc"]], probability, atol=1e-9
    )
    np.testing.assert_array_equal(found.frame["predicted"], model.predict(X))
    np.testing.assert_allclose(found.frame["probability"], probability.max(axis=1), atol=1e-9)
    np.testing.assert_allclose(found.frame[["z1", "z2"]], model.transform(X), atol=1e-7)
    assert found.metrics["accuracy"].value == accuracy_score(new.labels, model.predict(X))
    codes = np.searchsorted(model.classes_, new.labels)
    ece = expected_calibration_error(probability, codes)
    assert found.metrics["expected_calibration_error"].value == pytest.approx(ece)
    assert found.frame["label"].tolist() == new.labels.tolist()


def test_labels_that_the_model_does_not_know_count_as_wrong(
    halves: tuple[Dataset, Dataset],
) -> None:
    old, new = halves
    model = fitted(LinearDiscriminantAnalysis(), old)
    labels = new.labels.copy()
    labels[:4], labels[4:6] = "d", None
    other = Dataset.from_arrays(new.X, labels, new.feature_names)
    metric = place_rows(model, other, old).metrics["accuracy"]
    X = pd.DataFrame(new.X, columns=list(new.feature_names))
    right = (model.predict(X).astype(str) == np.array([str(name) for name in labels]))[
        [name is not None for name in labels]
    ]
    assert metric.value == pytest.approx(right.mean())
    assert "28 rows with a label, 4 of them of a class that the model does not know" in (
        metric.protocol
    )


def test_a_model_without_a_density_says_so(toy: Dataset) -> None:
    found = place_rows(fitted(PCA(n_components=2), toy), toy, toy)
    assert list(found.frame) == ["row_id", "label", "z1", "z2"]
    assert found.notes == ("PCA has no density, so it cannot tell which rows are unusual.",)
    assert not found.metrics


def test_rows_without_a_cell_are_left_out_and_counted(toy: Dataset) -> None:
    X = toy.X.copy()
    X[[3, 9], 1] = np.nan
    some = Dataset.from_arrays(X)
    found = place_rows(fitted(PCA(n_components=2), toy), some, toy)
    assert found.frame["row_id"].tolist() == [str(i + 1) for i in range(60) if i not in (3, 9)]
    assert "2 rows left out: a cell is missing, first in row 4." in found.notes
    X[:, 1] = np.nan
    with pytest.raises(DataError, match="Every cell of 'x2' is missing"):
        place_rows(fitted(PCA(n_components=2), toy), Dataset.from_arrays(X), toy)
    X[:, 1], X[:, 2:4] = 1.0, np.where(np.arange(60)[:, None] % 2 == [0, 1], np.nan, 1.0)
    with pytest.raises(DataError, match="Every row of 'dataset' lacks a cell"):
        place_rows(fitted(PCA(n_components=2), toy), Dataset.from_arrays(X), toy)


def test_the_surprise_is_per_observed_column(toy: Dataset) -> None:
    X = toy.X.copy()
    X[3, [0, 2]], X[5] = np.nan, np.nan
    found = place_rows(fitted(ProbabilisticPCA(n_components=2), toy), Dataset.from_arrays(X), toy)
    assert len(found.frame) == 60
    mean, C = two_components(toy.X)
    seen = [1, 3, 4]
    exact = multivariate_normal(mean[seen], C[np.ix_(seen, seen)])
    assert found.frame["surprise"][3] == pytest.approx(-exact.logpdf(X[3, seen]) / 3)
    assert np.isnan(found.frame["surprise"][5])
    assert np.isnan(found.frame["unusual"][5])


def test_it_tells_how_far_it_is_and_stops_where_asked(
    toy: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "_BLOCK", 25)
    model, seen = fitted(ProbabilisticPCA(n_components=2), toy), []

    def stop(done: int, total: int) -> bool:
        seen.append((done, total))
        return done == 85

    with pytest.raises(CancelledError):
        place_rows(model, toy, toy, stop)
    assert seen == [(25, 120), (50, 120), (60, 120), (85, 120)]


def test_blocks_change_nothing(toy: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(LDGD(n_components=2, max_iter=20), toy)
    whole = place_rows(model, toy, toy).frame
    monkeypatch.setattr(placement, "_BLOCK", 7)
    parts = place_rows(model, toy, toy).frame
    pd.testing.assert_frame_equal(whole, parts, rtol=1e-5, atol=1e-5)


def test_too_unsure_a_row_is_not_decided() -> None:
    frame = pd.DataFrame({"predicted": ["a", "b", "a"], "probability": [0.4, 0.6, 0.9]})
    assert most_probable(frame, 0.6)["decided"].tolist() == [False, True, True]
    assert list(most_probable(frame, 0.6)) == ["predicted", "decided", "probability"]
    bare = pd.DataFrame({"z1": [1.0]})
    assert most_probable(bare, 0.6) is bare


@pytest.mark.parametrize(
    ("probability", "truth", "expected"),
    [
        ([[0.9, 0.1]] * 10, [0] * 9 + [1], 0.0),
        ([[0.9, 0.1]] * 10, [1] * 10, 0.9),
        ([[0.6, 0.4], [0.2, 0.8]], [0, 0], (0.4 + 0.8) / 2),
        ([[1.0, 0.0]], [-1], 1.0),
    ],
)
def test_calibration_error_written_out(
    probability: list[list[float]], truth: list[int], expected: float
) -> None:
    assert expected_calibration_error(probability, truth) == pytest.approx(expected)


def test_calibration_error_against_a_plain_loop(rng: np.random.Generator) -> None:
    P = rng.dirichlet(np.ones(4), 500)
    y = rng.integers(0, 4, 500)
    top, right = P.max(axis=1), P.argmax(axis=1) == y
    total = 0.0
    for b in range(15):
        inside = (top > b / 15) & (top <= (b + 1) / 15)
        if inside.any():
            total += inside.sum() / 500 * abs(top[inside].mean() - right[inside].mean())
    assert expected_calibration_error(P, y) == pytest.approx(total)
    with pytest.raises(DataError, match="cannot be compared"):
        expected_calibration_error(P, y[:3])


# ---- what a table is to a model ----------------------------------------------------------------


@pytest.fixture
def wine() -> tuple[Table, Dataset]:
    table = load_sample("wine")
    return table, table.dataset(label=propose_label(table))


def test_roles_follow_the_fit(wine: tuple[Table, Dataset]) -> None:
    table, dataset = wine
    model = fitted(ProbabilisticPCA(n_components=2), dataset)
    named = table.frame.assign(sample=[f"w{i}" for i in range(len(table.frame))])
    called = Table.from_frame(named.rename(columns={"cultivar": "Cultivar"}))
    assert propose_new_table_roles(model, called, dataset) == NewTableRoles("sample", "Cultivar")
    assert propose_new_table_roles(model, called, None) == NewTableRoles("sample", None)


def test_what_is_wrong_with_a_table_is_found_at_once(wine: tuple[Table, Dataset]) -> None:
    table, dataset = wine
    model = fitted(LinearDiscriminantAnalysis(), dataset)
    frame = table.frame.iloc[::3, ::-1].assign(batch=1)
    frame["proline"] *= 1000
    frame = frame.rename(columns={"hue": "Hue"})
    frame.iloc[2, frame.columns.get_loc("cultivar")] = "cuvée"
    second = Table.from_frame(frame, name="second")
    found = read_new_table(model, second, dataset, propose_new_table_roles(model, second, dataset))
    assert [s.columns for s in found.suspicions] == [("proline",)]
    assert found.matching.approximate == ("hue",)
    assert found.matching.unused == ("batch",)
    assert found.unknown_labels == ("cuvée",)
    assert found.incomplete == 0
    said = " ".join(found.dataset.notes)
    for word in ("'Hue' is taken for 'hue'", "'batch'", "1000 times larger", "'cuvée'"):
        assert word in said
    expected = dataset.X[::3].copy()
    expected[:, dataset.feature_names.index("proline")] *= 1000
    np.testing.assert_array_equal(found.dataset.X, expected)


def test_units_are_noticed_with_the_model_alone(wine: tuple[Table, Dataset]) -> None:
    table, dataset = wine
    model = fitted(ProbabilisticPCA(n_components=2), dataset)
    frame = table.frame.assign(proline=table.frame["proline"] / 1000)
    found = read_new_table(model, Table.from_frame(frame), None, NewTableRoles())
    assert [s.columns for s in found.suspicions] == [("proline",)]
    assert read_new_table(model, table, None, NewTableRoles()).suspicions == ()


def test_units_of_a_column_learned_as_a_logarithm_are_its_own() -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"dose": np.exp(rng.normal(2, 0.4, 200)), "x": rng.normal(size=200)})
    dataset = Table.from_frame(frame).dataset(log1p=["dose"])
    model = fitted(ProbabilisticPCA(n_components=1), dataset)
    again = Table.from_frame(frame.assign(dose=frame["dose"] * 1000))
    (found,) = read_new_table(model, again, dataset, NewTableRoles()).suspicions
    assert "'dose' looks 1000 times larger" in found.text
    assert TypicalRange.of(dataset).centre[0] == pytest.approx(frame["dose"].median())


def test_a_method_that_places_no_rows_is_refused(toy: Dataset) -> None:
    model = MODELS["tsne"]()
    model.n_features_in_ = 5
    with pytest.raises(UnsupportedError, match="cannot place new rows"):
        read_new_table(model, Table.from_frame(toy.frame), toy, NewTableRoles())


def test_score_samples_is_where_there_is_a_density(toy: Dataset) -> None:
    assert hasattr(ProbabilisticPCA(), "score_samples")
    assert not hasattr(PCA(), "score_samples")
    again = matching_dataset(Table.from_frame(toy.frame), toy.transformed_names)
    np.testing.assert_array_equal(again.X, toy.X)
