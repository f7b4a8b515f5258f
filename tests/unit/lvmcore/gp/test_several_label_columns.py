"""Several label columns: a path, a term and a divergence for each, and the rest as with one."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_moons

from lvmcore import LDGD, ConfigError, DataError, FastLDGD, UnsupportedError, load
from lvmcore.base.latent_variable_model import FitProblem, LatentVariableModel
from lvmcore.gp.objective import LDGDObjective
from lvmcore.gp.paths import DataPath, LabelPath, LatentRows
from lvmcore.models import MODELS
from lvmcore.preprocessing.class_labels import ClassLabels, encode_columns
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.results import FitStep
from lvmcore.training.checkpoint import Checkpoint

BOTH = pytest.mark.parametrize("model", [LDGD, FastLDGD])
SMALL: dict[str, Any] = {"n_components": 2, "n_inducing": 8, "max_iter": 30}


def rows(n: int = 60, seed: int = 0) -> tuple[np.ndarray, pd.DataFrame]:
    """Two independent properties, each in columns of its own among noise."""
    rng = np.random.default_rng(seed)
    kind, size = rng.integers(0, 3, n), rng.integers(0, 2, n)
    X = np.column_stack(
        [
            2.0 * (kind == 0) - 2.0 * (kind == 1),
            2.0 * (kind == 2) - 1.0 * (kind == 1),
            3.0 * size,
            -2.0 * size + 1.0 * (kind == 2),
            np.zeros(n),
        ]
    )
    labels = pd.DataFrame({"kind": np.array(["a", "b", "c"])[kind], "size": size + 10})
    return X + 0.4 * rng.standard_normal(X.shape), labels


# ---- the objective -----------------------------------------------------------------------------


def objective(
    columns: tuple[ClassLabels, ...], *, weights: Any = None, seed: int = 1
) -> LDGDObjective:
    """LDGD's objective at parameters drawn at random, the same for the columns they share.

    q(X) is so narrow that each draw is the mean: terms compare whatever they were drawn with.
    """
    X, _ = rows(25)
    Y = torch.as_tensor((X - X.mean(axis=0)) / X.std(axis=0))
    draw = torch.Generator().manual_seed(seed)

    def some(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=draw, dtype=torch.float64)

    def moved(path: Any) -> Any:
        with torch.no_grad():
            for parameter in path.parameters():
                parameter.add_(0.3 * some(*parameter.shape))
        return path

    problem = FitProblem(InMemoryRows(Y), columns, 2, torch.Generator().manual_seed(0), None)
    where = LatentRows(some(25, 2), 1e-24)
    data = moved(DataPath(some(6, 2), torch.full((5,), 0.1).double()))
    paths = [moved(LabelPath(some(6, 2), len(column.classes))) for column in columns]
    given = weights or [np.ones(25) for _ in columns]
    return LDGDObjective(
        rows=where, path=data, label_paths=paths, problem=problem, weights=given, samples=1
    )


def values(fit: LDGDObjective) -> dict[str, float]:
    with torch.no_grad():
        return {name: float(term) for name, term in fit.terms().items()}


def two_columns() -> tuple[ClassLabels, ...]:
    _, labels = rows(25)
    labels = labels.astype(object)
    labels.loc[[3, 4, 20], "size"] = None
    return encode_columns(labels, 25)


def test_the_bound_has_a_label_term_for_each_column() -> None:
    both = objective(two_columns())
    terms = values(both)
    assert list(terms) == [
        "data fit",
        "label fit: kind",
        "label fit: size",
        "KL of the map",
        "KL of the label functions",
    ]
    divergence = 0.0
    for label_path, column in zip(both.label_paths, two_columns(), strict=True):
        problem = FitProblem(InMemoryRows(both.data.Y), (column,), 2, torch.Generator(), None)
        alone = values(
            LDGDObjective(
                rows=both.rows,
                path=both.path,
                label_paths=[label_path],
                problem=problem,
                weights=[np.ones(25)],
                samples=1,
            )
        )
        assert alone["label fit"] == pytest.approx(terms[f"label fit: {column.name}"])
        assert alone["data fit"] == pytest.approx(terms["data fit"])
        divergence += alone["KL of the label functions"]
    assert terms["KL of the label functions"] == pytest.approx(divergence)


def test_a_term_is_the_expected_log_likelihood_of_its_labels() -> None:
    """Against draws of the functions themselves, missing labels left out."""
    fit = objective(two_columns())
    column = two_columns()[1]
    X = fit.rows.mean.detach()
    with torch.no_grad():
        mean, variance = fit.label_paths[1].latent_function(X)
        found = values(fit)["label fit: size"]
    f = mean + variance.sqrt() * torch.randn(
        (40_000, *mean.shape), generator=torch.Generator().manual_seed(3), dtype=torch.float64
    )
    expected = 0.0
    for n, code in enumerate(column.codes):
        for c in range(2) if code >= 0 else ():
            sign = 1.0 if c == code else -1.0
            expected += float(torch.special.log_ndtr(sign * f[:, n, c]).mean())
    assert found == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("how", ["missing", "weightless"])
def test_a_column_that_says_nothing_leaves_the_bound_as_it_is(how: str) -> None:
    first, second = two_columns()
    one = values(objective((first,)))
    if how == "missing":
        second = dataclasses.replace(second, codes=np.full(25, -1))
    weights = [np.ones(25), np.zeros(25) if how == "weightless" else np.ones(25)]
    both = objective((first, second), weights=weights)
    with torch.no_grad():  # its functions as before any data
        both.label_paths[1].q_mu.zero_()
        both.label_paths[1].q_sqrt.copy_(torch.eye(6).repeat(2, 1, 1))
    terms = values(both)
    assert terms["label fit: size"] == 0
    assert sum(terms.values()) == pytest.approx(sum(one.values()))


def test_gradients_are_those_of_the_terms() -> None:
    fit = objective(two_columns())
    with torch.no_grad():
        fit.rows.log_variance.fill_(-2.0)  # with draws that matter

    def bound() -> torch.Tensor:
        fit.generator.manual_seed(7)
        return torch.stack(list(fit.terms().values())).sum()

    parameters = list(fit.parameters())
    gradients = torch.autograd.grad(bound(), parameters)
    generator = torch.Generator().manual_seed(5)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        way = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        start, ends = parameter.detach().clone(), []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                parameter.copy_(start + step * way)
                ends.append(bound().item())
                parameter.copy_(start)
        slope = float((gradient * way).sum())
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slope, rel=1e-5, abs=1e-5)


# ---- fits --------------------------------------------------------------------------------------


@pytest.mark.slow
@BOTH
def test_two_independent_labels_are_both_told_apart(model: type[LatentVariableModel]) -> None:
    X, y = rows(120)
    unseen, truth = rows(120, seed=9)
    fitted = model(n_components=4, n_inducing=16, max_iter=150).fit(X, y)
    predicted = fitted.predict(unseen)
    assert predicted.shape == (120, 2)
    right = (predicted == truth.to_numpy(dtype=object)).mean(axis=0)
    assert right.min() > 0.9
    assert fitted.score(unseen, truth) == pytest.approx(
        (predicted == truth.to_numpy(dtype=object)).all(axis=1).mean()
    )


@pytest.mark.slow
@BOTH
def test_two_labelings_of_the_moons(model: type[LatentVariableModel]) -> None:
    """Which moon a row lies on, and on which side of a height that the moons know nothing of."""

    def some(seed: int) -> tuple[np.ndarray, np.ndarray]:
        X, moon = make_moons(150, noise=0.08, random_state=seed)
        height = np.random.default_rng(seed).uniform(-1, 1, 150)
        lifted = np.column_stack([X, X[:, 0] * X[:, 1], height, np.sin(2 * height)])
        return lifted, np.column_stack([moon, np.abs(height) > 0.5])

    (X, y), (unseen, truth) = some(0), some(1)
    unfitted = model(n_components=3, max_iter=120)
    both = clone(unfitted).fit(X, y).predict(unseen)
    for k in range(2):
        alone = clone(unfitted).fit(X, y[:, k]).score(unseen, truth[:, k])
        # A label learned beside another is told apart as well as one learned alone.
        assert np.mean(both[:, k] == truth[:, k]) > max(0.85, alone - 0.03)


@BOTH
def test_the_parts_of_a_fit_are_named_by_column(model: type[LatentVariableModel]) -> None:
    X, y = rows()
    fitted = model(**SMALL).fit(X, y)
    assert fitted.label_names_ == ("kind", "size")
    assert [classes.tolist() for classes in fitted.classes_] == [["a", "b", "c"], [10, 11]]
    assert list(fitted.relevance_) == ["data", "labels: kind", "labels: size"]
    assert list(fitted.inducing_inputs_) == list(fitted.relevance_)
    step = fitted.history_[-1]
    assert {"label fit: kind", "label fit: size"} < set(step.terms)
    assert sum(step.terms.values()) == pytest.approx(step.objective)
    probability = fitted.predict_proba(X)
    assert [p.shape for p in probability] == [(60, 3), (60, 2)]
    decoded = fitted.decode_labels(fitted.embedding_.mean)
    for found, p in zip(decoded, probability, strict=True):
        np.testing.assert_allclose(p.sum(axis=1), 1)
        np.testing.assert_allclose(found.probability.sum(axis=1), 1)
        assert np.mean(found.probability.argmax(axis=1) == p.argmax(axis=1)) > 0.8


@BOTH
def test_one_column_in_a_frame_is_one_column(model: type[LatentVariableModel]) -> None:
    X, y = rows()
    plain, framed = model(**SMALL).fit(X, y["kind"]), model(**SMALL).fit(X, y[["kind"]])
    assert framed.elbo_ == plain.elbo_
    assert framed.classes_.tolist() == plain.classes_.tolist()
    assert framed.predict(X).shape == (60,)


@BOTH
def test_a_file_holds_every_column(model: type[LatentVariableModel], tmp_path: Path) -> None:
    X, y = rows()
    y = y[["size", "kind"]]  # not in the order of the alphabet
    fitted = model(**SMALL).fit(X, y)
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.label_names_ == fitted.label_names_ == ("size", "kind")
    assert list(again.relevance_) == list(fitted.relevance_)
    assert list(again.inducing_inputs_) == list(fitted.inducing_inputs_)
    assert [c.dtype.kind for c in again.classes_] == [c.dtype.kind for c in fitted.classes_]
    for one, two in zip(fitted.predict_proba(X), again.predict_proba(X), strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    wanted = {"kind": "a", "size": 11}
    np.testing.assert_array_equal(
        again.sample(4, label=wanted, random_state=0),
        fitted.sample(4, label=wanted, random_state=0),
    )


@pytest.mark.slow(quick=["FastLDGD-settings2", "LDGD-settings1"])
@pytest.mark.parametrize(
    ("model", "settings"), [(LDGD, {"n_restarts": 2}), (LDGD, {}), (FastLDGD, {"batch_size": 16})]
)
def test_a_fit_that_goes_on_ends_the_same(
    model: type[LatentVariableModel], settings: dict[str, Any], tmp_path: Path
) -> None:
    X, y = rows()
    y = y.astype(object)
    y.loc[:20, "kind"] = None
    whole = model(**SMALL, **settings).fit(X, y)
    path = tmp_path / "checkpoint"

    def stop(step: FitStep) -> bool:
        return step.iteration >= 17

    model(**SMALL, **settings)._fit_from(X, y, callback=stop, checkpoint=Checkpoint(path))
    again = model(**SMALL, **settings)._fit_from(X, y, checkpoint=Checkpoint(path))
    assert again.elbo_ == pytest.approx(whole.elbo_, abs=1e-8)
    assert again.history_[-1].terms == whole.history_[-1].terms
    for one, two in zip(whole.predict_proba(X), again.predict_proba(X), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.slow(quick=["LDGD"])
@BOTH
def test_labels_may_be_missing_in_each_column(model: type[LatentVariableModel]) -> None:
    """What is left of a column still tells its classes apart."""
    X, y = rows(120)
    some = y.astype(object)
    some.loc[::2, "kind"] = None
    some.loc[1::2, "size"] = np.nan
    fitted = model(n_components=4, n_inducing=16, max_iter=150).fit(X, some)
    right = (fitted.predict(X) == y.to_numpy(dtype=object)).mean(axis=0)
    assert right.min() > 0.9


def test_a_missing_label_leaves_its_own_term_alone() -> None:
    """At the first step q(U) is the prior, and every label of a column adds the same."""
    X, y = rows()
    half = y.astype(object)
    half.loc[::2, "size"] = None
    whole, part = (LDGD(**SMALL | {"max_iter": 1}).fit(X, labels) for labels in (y, half))
    before, after = (m.history_[0].terms for m in (whole, part))
    assert after["label fit: kind"] == pytest.approx(before["label fit: kind"])
    assert after["label fit: size"] == pytest.approx(before["label fit: size"] / 2)


def test_weights_hold_in_every_column() -> None:
    X, y = rows()
    terms = [
        LDGD(**SMALL | {"max_iter": 1}, label_weight=weight).fit(X, y).history_[0].terms
        for weight in (1.0, 3.0)
    ]
    for name in ("kind", "size"):
        assert terms[1][f"label fit: {name}"] == pytest.approx(3 * terms[0][f"label fit: {name}"])


@pytest.mark.slow
@BOTH
def test_samples_are_of_the_classes_asked_for(model: type[LatentVariableModel]) -> None:
    X, y = rows(120)
    fitted = model(n_components=4, n_inducing=16, max_iter=150).fit(X, y)
    drawn = fitted.sample(200, label={"kind": "b", "size": 11}, random_state=0)
    wanted = X[(y["kind"] == "b") & (y["size"] == 11)]
    away = (drawn.mean(axis=0) - wanted.mean(axis=0)) / X.std(axis=0)
    assert np.abs(away).max() < 0.4
    either = fitted.sample(200, label={"size": 11}, random_state=0)
    small = X[y["size"] == 11]
    assert np.abs((either.mean(axis=0) - small.mean(axis=0)) / X.std(axis=0)).max() < 0.4


# ---- what is refused ---------------------------------------------------------------------------


def test_sampling_names_the_columns() -> None:
    X, y = rows()
    fitted = LDGD(**SMALL | {"max_iter": 2}).fit(X, y)
    with pytest.raises(ConfigError, match=r"of which column: this model knows kind, size"):
        fitted.sample(1, label="a")
    with pytest.raises(ConfigError, match="'colour' is no label column"):
        fitted.sample(1, label={"colour": "a"})
    with pytest.raises(ConfigError, match="is no class of this model: it knows 10, 11"):
        fitted.sample(1, label={"size": 99})
    lonely = y.copy()
    lonely.loc[y["kind"] == "a", "size"] = 10
    with pytest.raises(ConfigError, match="no row of the fit is of all these classes"):
        clone(fitted).fit(X, lonely).sample(1, label={"kind": "a", "size": 11})


@pytest.mark.parametrize(
    "key",
    [
        key
        for key, model in MODELS.items()
        if model.capabilities.labels != "none" and not model.capabilities.several_labels
    ],
)
def test_a_model_for_one_column_names_those_for_several(key: str) -> None:
    X, y = rows()
    with pytest.raises(UnsupportedError, match=r"one label column, and y has 2.*LDGD or FastLDGD"):
        MODELS[key]().fit(X, y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 1}, r"of column 'size' hold one class \(1\)"),
        ({"size": None}, "of column 'size' hold no class"),
        ({"size": np.linspace(0, 1, 60)}, "Unknown label type of column 'size'"),
    ],
)
def test_a_column_that_cannot_be_used_is_named(change: dict[str, Any], message: str) -> None:
    X, y = rows()
    with pytest.raises(DataError, match=message):
        LDGD(**SMALL).fit(X, y.assign(**change))


def test_names_have_to_differ() -> None:
    X, y = rows()
    with pytest.raises(DataError, match="Two label columns are called 'kind'"):
        LDGD(**SMALL).fit(X, y.set_axis(["kind", "kind"], axis="columns"))


def test_an_array_gets_names() -> None:
    columns = encode_columns([["a", 1], [None, 2], ["b", 1]], 3)
    assert [column.name for column in columns] == ["label 1", "label 2"]
    assert [column.codes.tolist() for column in columns] == [[0, -1, 1], [0, 1, 0]]
    with pytest.raises(DataError, match="X has 4 rows"):
        encode_columns([["a", 1], [None, 2], ["b", 1]], 4)


def test_a_score_wants_a_label_for_each_column() -> None:
    X, y = rows()
    fitted = LDGD(**SMALL | {"max_iter": 2}).fit(X, y)
    with pytest.raises(DataError, match=r"expected \(60, 2\).*kind, size"):
        fitted.score(X, y["kind"])


@pytest.mark.slow(quick=["probit"])
@pytest.mark.parametrize("likelihood", ["probit", "softmax"])
def test_batches_without_a_labelled_row_do_no_harm(likelihood: str) -> None:
    X, labels = rows(400)
    labels = labels.astype(object)
    labels.loc[8:, "size"] = None
    settings = SMALL | {"batch_size": 32, "max_iter": 60, "likelihood": likelihood}
    model = FastLDGD(**settings).fit(X, labels)
    assert np.isfinite(model.elbo_)
    kinds = np.asarray(model.predict(X))[:, 0]
    assert np.mean(kinds == labels["kind"]) > 0.8
