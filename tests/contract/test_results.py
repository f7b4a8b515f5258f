"""What every fitted model offers, by its declared capabilities."""

from typing import Any

import numpy as np
import pytest

from lvmcore import ConfigError, DataError, UnsupportedError
from lvmcore.base.table_size import TableSize
from lvmcore.models import MODELS
from lvmcore.parameters import check_settings
from lvmcore.results import FitStep
from tests.contract.small import (
    N_COLUMNS,
    N_COMPONENTS,
    N_ROWS,
    fit,
    fitted,
    for_models,
    make,
    sparse,
    table_for,
)


@for_models(lambda model: model.capabilities.decoding)
def test_rows_are_drawn_from_where_others_lie(key: str) -> None:
    model = fitted(key)
    drawn = model.sample(3000, rows=[4, 9], random_state=0)
    np.testing.assert_array_equal(drawn, model.sample(3000, rows=[4, 9], random_state=0))
    # The mean of the mixture of the two places, each decoded under its own uncertainty.
    mean, sd = model.embedding_.mean[[4, 9]], np.sqrt(model.embedding_.variance[[4, 9]])
    latent = mean[:, None] + sd[:, None] * np.random.default_rng(1).standard_normal((2, 2000, 2))
    decoded = model.decode(latent.reshape(-1, 2))
    expected = decoded.mean.mean(axis=0)
    spread = np.sqrt((decoded.variance.mean(axis=0) + decoded.mean.var(axis=0)) / 3000)
    assert (np.abs(drawn.mean(axis=0) - expected) < 6 * spread).all()
    for wrong in ([], [30], [-1], [0.5]):
        with pytest.raises(ConfigError, match="expected positions of rows"):
            model.sample(3, rows=wrong)
    with pytest.raises(ConfigError, match="cannot both be given"):
        model.sample(3, rows=[0], label="class 0")


@for_models()
def test_says_what_it_is(key: str) -> None:
    model = MODELS[key]
    assert model.key == key
    assert model.title
    assert model.paper
    assert model.summary.endswith(".")
    assert isinstance(model.order, int)


def test_places_in_menus_are_distinct() -> None:
    assert len({model.order for model in MODELS.values()}) == len(MODELS)


@for_models()
def test_every_parameter_is_documented_and_allows_its_default(key: str) -> None:
    for parameter in MODELS[key].parameters():
        assert parameter.doc.endswith(".")
        assert parameter.label
        parameter.check(parameter.default)
        if parameter.kind in ("int", "float"):
            assert parameter.low is not None
            assert parameter.high is not None
        if parameter.kind == "choice" and parameter.default is not None:
            assert parameter.default in parameter.choices


@for_models()
@pytest.mark.parametrize("n_rows", [2, 100, 100_000])
@pytest.mark.parametrize("n_classes", [0, 2, 100])
@pytest.mark.parametrize("n_columns", [20, 61, 20_000])
def test_suggestions_are_settings(key: str, n_rows: int, n_classes: int, n_columns: int) -> None:
    model = MODELS[key]
    cells: Any = {2: "any", 100: "counts", 100_000: "binary"}[n_rows]
    size = TableSize(n_rows=n_rows, n_columns=n_columns, n_classes=n_classes, cells=cells)
    settings = model.suggest(size)
    assert check_settings(model, settings) == settings
    components = settings.get("n_components")
    assert components in (None, "ard") or components <= min(n_rows, n_columns)
    advised = model.advise(size)
    assert {name: one.value for name, one in advised.items()} == settings
    for one in advised.values():
        if not one.reason:  # the usual setting
            continue
        assert 20 <= len(one.reason) <= 140
        assert not one.reason.endswith(".")
        assert not one.reason[0].isupper()


@pytest.mark.slow(quick=["nbvae", "rflvm", "vae"])
@for_models()
def test_embedding(key: str) -> None:
    model = fitted(key)
    assert model.embedding_.mean.shape == model.embedding_.variance.shape == (N_ROWS, N_COMPONENTS)
    assert np.isfinite(model.embedding_.mean).all()
    if model.capabilities.uncertainty:
        assert (model.embedding_.variance > 0).all()
    else:
        assert (model.embedding_.variance == 0).all()


@for_models()
def test_relevance_and_inducing_inputs(key: str) -> None:
    model = fitted(key)
    can = model.capabilities
    paths = {"labels"} if can.labels != "none" else set()
    if can.decoding or can.labels == "none":
        paths |= {"data"}
    assert set(model.relevance_) == paths
    for alpha in model.relevance_.values():
        assert alpha.shape == (N_COMPONENTS,)
        assert (alpha > 0).all()
    for path, Z in model.inducing_inputs_.items():
        assert path in paths
        assert Z.shape == (8, N_COMPONENTS)


@for_models(lambda model: model.capabilities.bound)
def test_bound_is_finite_and_told_term_by_term(key: str) -> None:
    model = fitted(key)
    assert np.isfinite(model.elbo_)
    assert model.n_iter_ == len(model.history_) > 0
    for step in model.history_:
        assert isinstance(step, FitStep)
        assert step.objective == pytest.approx(sum(step.terms.values()))
    assert model.elbo_ >= model.history_[0].objective


@for_models(lambda model: not model.capabilities.bound)
def test_without_a_bound_there_is_none(key: str) -> None:
    model = fitted(key)
    assert np.isnan(model.elbo_)
    if not model.capabilities.density:
        assert not hasattr(model, "score") or model.capabilities.labels != "none"


@pytest.mark.slow(quick=["factor_analysis", "rflvm", "vae"])
@for_models(
    lambda model: (
        model.capabilities.labels == "none"
        and model.capabilities.density
        and model.capabilities.cells == "any"
    )
)
def test_score_is_a_density_in_the_units_of_the_data(key: str) -> None:
    frame, _ = table_for(key)
    # A chain does not settle: what rounding changes grows from sweep to sweep.
    few = short(key) if MODELS[key].capabilities.chains else {}
    model = fit(key, frame, **few)
    before = model.score(frame)
    # A column in other units, ten times the numbers: log 10 nats less a row.
    scaled = frame * np.array([1, 1, 10, 1, 1])
    assert fit(key, scaled, **few).score(scaled) == pytest.approx(before - np.log(10), abs=1e-4)
    # Rows unlike those of the fit are less likely.
    assert model.score(frame[::-1].reset_index(drop=True) * 1.5) < before


@for_models(lambda model: model.capabilities.decoding)
def test_decoding(key: str) -> None:
    frame, _ = table_for(key)
    model = fitted(key)
    predicted = model.decode(model.embedding_.mean)
    for part in (predicted.mean, predicted.variance, predicted.noise_variance):
        assert part.shape == (N_ROWS, N_COLUMNS)
        assert np.isfinite(part).all()
    assert (predicted.noise_variance > 0).all()
    assert (predicted.variance >= predicted.noise_variance * (1 - 1e-12)).all()
    np.testing.assert_array_equal(model.inverse_transform(model.embedding_.mean), predicted.mean)
    explained = 1 - ((predicted.mean - frame) ** 2).mean() / frame.var(ddof=0)
    assert explained.mean() > 0.5


@pytest.mark.slow(quick=["factor_analysis", "nbvae", "topics"])
@for_models(lambda model: model.capabilities.decoding)
def test_a_single_point_decodes_and_wrong_ones_are_refused(key: str) -> None:
    model = fitted(key)
    assert model.decode([0.1, 0.2]).mean.shape == (1, N_COLUMNS)
    np.testing.assert_array_equal(model.decode([0.1, 0.2]).mean, model.decode([[0.1, 0.2]]).mean)
    for wrong in ([[1.0, 2.0, 3.0]], [[np.nan, 0.0]], [[[0.0, 0.0]]]):
        with pytest.raises(DataError, match=r"cannot be decoded: expected finite.*\[n, 2\]"):
            model.decode(wrong)


@pytest.mark.slow(quick=["ppca", "rflvm", "vae"])
@for_models(lambda model: model.capabilities.new_rows)
def test_a_row_is_placed_alike_alone_and_in_company(key: str) -> None:
    frame, _ = table_for(key)
    model = fitted(key)
    together = model.posterior(frame)
    order = np.random.default_rng(0).permutation(N_ROWS)
    permuted = model.posterior(frame.iloc[order])
    np.testing.assert_allclose(permuted.mean, together.mean[order], atol=1e-6)
    for n in (0, 7, 29):
        alone = model.posterior(frame.iloc[[n]])
        np.testing.assert_allclose(alone.mean[0], together.mean[n], atol=1e-6)
        np.testing.assert_allclose(alone.variance[0], together.variance[n], atol=1e-6)


@for_models(lambda model: model.capabilities.sampling)
def test_sampling(key: str) -> None:
    frame, _ = table_for(key)
    model = fitted(key)
    drawn = model.sample(500, random_state=1)
    assert drawn.shape == (500, N_COLUMNS)
    np.testing.assert_array_equal(drawn, model.sample(500, random_state=1))
    assert not np.array_equal(drawn, model.sample(500, random_state=2))
    assert not np.array_equal(model.sample(3), model.sample(3))
    # Drawn rows look like the data: the centre within a sd, the spread within a factor of two. The
    # prior of Poisson factors has them independent, so it is wider than rows between two profiles.
    widest = 3 if key == "hpf" else 2
    sd = frame.std(ddof=0).to_numpy()
    assert (np.abs(drawn.mean(axis=0) - frame.mean().to_numpy()) < sd).all()
    assert ((drawn.std(axis=0) > 0.5 * sd) & (drawn.std(axis=0) < widest * sd)).all()
    with pytest.raises(ConfigError, match="n=0 cannot be used"):
        model.sample(0)


@pytest.mark.slow(quick=["isomap", "tsne", "umap"])
@for_models()
def test_what_is_not_declared_is_unsupported(key: str) -> None:
    model, capabilities = fitted(key), MODELS[key].capabilities
    name = type(model).__name__
    frame, _ = table_for(key)
    undeclared = {
        "new_rows": lambda: model.transform(frame),
        "decoding": lambda: model.decode([[0.0, 0.0]]),
        "sampling": lambda: model.sample(3),
    }
    for capability, use in undeclared.items():
        if not getattr(capabilities, capability):
            with pytest.raises(UnsupportedError, match=name):
                use()
    if capabilities.labels == "none":
        with pytest.raises(UnsupportedError, match=rf"{name} knows no labels"):
            model.decode_labels([[0.0, 0.0]])
        if capabilities.sampling:
            with pytest.raises(UnsupportedError, match=rf"{name} knows no labels"):
                model.sample(3, label="class 0")
        assert not hasattr(model, "classes_")


@pytest.mark.slow(quick=["isomap", "lda", "nmf"])
@for_models()
def test_same_seed_same_result(key: str) -> None:
    frame, labels = table_for(key)
    again = fit(key, frame, labels)
    np.testing.assert_array_equal(again.embedding_.mean, fitted(key).embedding_.mean)
    np.testing.assert_array_equal(again.elbo_, fitted(key).elbo_)
    for path, alpha in again.relevance_.items():
        np.testing.assert_array_equal(alpha, fitted(key).relevance_[path])


@pytest.mark.slow(quick=["bayesian_gplvm", "deep_qep_lvm", "qep_lvm"])
@for_models(lambda model: "n_inducing" in {p.name for p in model.parameters()})
def test_another_seed_another_start(key: str) -> None:
    frame, labels = table_for(key)
    settings = {"max_iter": 1, **sparse(key)}
    starts = [
        next(iter(fit(key, frame, labels, **settings, random_state=seed).inducing_inputs_.values()))
        for seed in (0, 1, None, None)
    ]
    for i in range(4):
        for j in range(i):
            assert not np.array_equal(starts[i], starts[j])


@pytest.mark.slow(quick=["topics", "tsne", "umap"])
@for_models()
def test_fitting_leaves_global_random_state_and_data_alone(key: str) -> None:
    frame, labels = table_for(key)
    X = frame.to_numpy()
    kept = X.copy()
    before = np.random.get_state()[1].copy()  # noqa: NPY002  the global state is what is tested
    fit(key, X, labels)
    np.testing.assert_array_equal(X, kept)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.slow(quick=["nbvae", "pca", "umap"])
@for_models()
def test_single_precision_is_close(key: str) -> None:
    frame, labels = table_for(key)
    model = fit(key, frame, labels, dtype="float32", **short(key))
    double = fit(key, frame, labels, **short(key))
    scale = double.embedding_.mean.std()
    np.testing.assert_allclose(
        model.embedding_.mean, double.embedding_.mean, atol=0.02 * scale, rtol=0
    )
    if model.capabilities.new_rows:
        assert model.transform(frame).dtype == np.float64
    if model.capabilities.decoding:
        points = double.embedding_.mean
        difference = model.decode(points).mean - double.decode(points).mean
        assert (np.abs(difference) < 0.05 * frame.std(ddof=0).to_numpy()).all()


def short(key: str) -> dict[str, int]:
    """Few steps, as rounding grows from step to step."""
    return {"max_iter": 10} if hasattr(make(key), "max_iter") else {}


@for_models(
    lambda model: model.capabilities.steps and "max_iter" in {p.name for p in model.parameters()}
)
def test_a_fit_that_is_stopped_is_usable(key: str) -> None:
    frame, labels = table_for(key)
    steps: list[FitStep] = []

    def stop(step: FitStep) -> bool:
        steps.append(step)
        return step.iteration == 4

    model = make(key).fit(frame, labels, callback=stop)
    assert [step.iteration for step in steps] == [1, 2, 3, 4]
    assert len(model.history_) == 4
    assert not model.converged_
    assert np.isfinite(model.elbo_) == model.capabilities.bound
    assert np.isfinite(model.embedding_.mean).all()
    if model.capabilities.new_rows:
        assert np.isfinite(model.transform(frame)).all()
    snapshot = steps[0].snapshot
    assert snapshot is not None
    assert snapshot.mean.shape == (N_ROWS, 2)
    assert set(snapshot.relevance) == set(model.relevance_)
    for share in snapshot.relevance.values():
        assert share.sum() == pytest.approx(1.0)
