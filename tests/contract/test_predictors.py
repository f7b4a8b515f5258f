"""Every model of a target as a scikit-learn estimator, and what it says of bad input."""

from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import check_estimator

from lvmcore import ConfigError, DataError, load
from lvmcore.deep import fit_method
from lvmcore.models import PREDICTORS
from lvmcore.models.supervised import cnn
from lvmcore.training.checkpoint import Checkpoint
from lvmcore.training.held_out import HeldOutTracking

N = 60
SMALL = {"n_inducing": 8, "max_iter": 5, "n_samples": 2, "n_sites": 3, "n_hidden": 16}
#: Samplers and the like, which do not measure other rows while they run.
NOT_FOLLOWED = frozenset({"sghmc_classifier", "sghmc_regressor"})
#: Without inducing points, and so without random numbers.
EXACT = frozenset({"gp_regressor", "gp_classifier"})
NETWORKS = frozenset({"cnn_classifier"})
WITHOUT_INDUCING = EXACT | NETWORKS
#: Steps between two measurements of held-out rows, where a test waits for several.
EVERY = 4
for_all = pytest.mark.parametrize("key", PREDICTORS)
for_numbers = pytest.mark.parametrize(
    "key", [key for key, model in PREDICTORS.items() if model.task == "number"]
)
for_classes = pytest.mark.parametrize(
    "key", [key for key, model in PREDICTORS.items() if model.task == "class"]
)


def make(key: str, **settings: Any) -> Any:
    names = {p.name for p in PREDICTORS[key].parameters()}
    return PREDICTORS[key](**{k: v for k, v in {**SMALL, **settings}.items() if k in names})


def table(key: str, n: int = N) -> tuple[pd.DataFrame, NDArray[Any]]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 3)) * [1, 50, 0.01], columns=["a", "b", "c"])
    signal = np.sin(2 * frame["a"]) + frame["b"] / 50
    if PREDICTORS[key].task == "number":
        return frame, np.asarray(1000 + 30 * signal + rng.normal(size=n))
    return frame, np.array(["low", "mid", "high"])[np.digitize(signal, [-0.7, 0.7])]


@pytest.fixture
def measured_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have held-out rows measured every ``EVERY`` steps."""
    often = partial(HeldOutTracking, every=EVERY)
    for module in (fit_method, cnn):
        monkeypatch.setattr(module, "HeldOutTracking", often)


@cache
def fitted(key: str) -> Any:
    """The model fitted to ``table(key)``; shared, so leave it as it is."""
    return make(key).fit(*table(key))


@pytest.mark.slow(quick=["svgp_regressor"])
@for_all
def test_check_estimator(key: str) -> None:
    # A network starts from the shares of the classes, with no regression before its first step.
    steps = 100 if key in NETWORKS else SMALL["max_iter"]
    check_estimator(make(key, kernel="rbf", max_iter=steps), on_skip=None)


@for_all
def test_constructor_only_stores_and_clones(key: str) -> None:
    parameters = PREDICTORS[key].parameters()
    for parameter in parameters:
        assert getattr(PREDICTORS[key](**{parameter.name: "?"}), parameter.name) == "?"
    assert PREDICTORS[key]().get_params() == {p.name: p.default for p in parameters}
    model = make(key, random_state=7)
    assert clone(model).get_params() == model.get_params()


@for_all
def test_a_wrong_setting_is_named(key: str) -> None:
    with pytest.raises(ConfigError, match=r"max_iter=0 cannot be used"):
        make(key, max_iter=0).fit(*table(key))


@pytest.mark.slow(quick=["deep_kernel_regressor", "qep_regressor", "svgp_regressor"])
@for_all
def test_a_saved_model_predicts_the_same(key: str, tmp_path: Path) -> None:
    frame, y = table(key)
    model = fitted(key)
    model.save(tmp_path / "model.safetensors")
    again: Any = load(tmp_path / "model.safetensors")
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    np.testing.assert_array_equal(again.log_density(frame, y), model.log_density(frame, y))
    assert again.score(frame, y) == model.score(frame, y)
    np.testing.assert_equal(again.elbo_, model.elbo_)
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    for name, value in model.relevance_.items():
        np.testing.assert_array_equal(again.relevance_[name], value)
    with pytest.raises(DataError, match="predicts a target and has no map"):
        load(tmp_path / "model.safetensors", "map")


@pytest.mark.slow(quick=["deep_kernel_classifier", "qep_classifier", "svgp_classifier"])
@for_all
def test_a_row_s_prediction_does_not_depend_on_its_neighbours(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, _ = table(key)
    model = fitted(key)
    predict = model.predict_proba if model.task == "class" else model.predict_quantiles
    together = predict(frame)
    order = np.random.default_rng(1).permutation(N)
    np.testing.assert_allclose(predict(frame.iloc[order]), together[order], rtol=1e-9)
    apart = np.concatenate([predict(frame.iloc[[i]]) for i in range(7)])
    np.testing.assert_allclose(apart, together[:7], rtol=1e-9)
    monkeypatch.setattr("lvmcore.numerics.row_blocks.BLOCK_ROWS", 11)
    np.testing.assert_allclose(predict(frame), together, rtol=1e-9)


@pytest.mark.slow(quick=["deep_qep_classifier", "dsvi_classifier", "sod_regressor"])
@for_all
def test_the_same_seed_gives_the_same_model(key: str) -> None:
    frame, y = table(key)
    one, two = fitted(key), make(key).fit(frame, y)
    np.testing.assert_array_equal(one.log_density(frame, y), two.log_density(frame, y))
    other = make(key, random_state=1).fit(frame, y)
    same = np.array_equal(one.log_density(frame, y), other.log_density(frame, y))
    assert same == (key in EXACT)


@pytest.mark.slow(
    quick=["deep_kernel_qep_classifier", "deep_kernel_qep_regressor", "dsvi_regressor"]
)
@for_all
def test_a_callback_stops_the_fit_and_what_there_is_is_usable(key: str) -> None:
    frame, y = table(key)
    steps = []
    model = make(key, max_iter=50).fit(
        frame, y, callback=lambda step: steps.append(step) or len(steps) == 3
    )
    assert len(model.history_) == 3
    if PREDICTORS[key].capabilities.bound:
        assert all(np.isfinite(step.objective) for step in steps)
        other = "complexity" if key in EXACT else "KL of the last layer"
        other = "prior of the network" if key in NETWORKS else other
        assert steps[0].terms.keys() >= {"data fit", other}
    else:
        assert all(np.isnan(step.objective) for step in steps)
        assert all(np.isfinite(step.terms["log likelihood"]) for step in steps)
    assert np.isfinite(model.log_density(frame, y)).all()


@pytest.mark.slow(quick=["deep_qep_regressor", "svgp_regressor"])
@for_all
def test_a_fit_goes_on_where_it_stopped(key: str, tmp_path: Path) -> None:
    frame, y = table(key)
    whole = make(key, max_iter=12, batch_size=20).fit(frame, y)
    first = make(key, max_iter=12, batch_size=20)
    path = tmp_path / "checkpoint.safetensors"
    first._fit_from(frame, y, callback=lambda s: s.iteration == 5, checkpoint=Checkpoint(path))
    second = make(key, max_iter=12, batch_size=20)
    second._fit_from(frame, y, checkpoint=Checkpoint(path))
    assert 5 < len(second.history_) == len(whole.history_)  # 12, or fewer at an optimum
    np.testing.assert_allclose(
        second.log_density(frame, y), whole.log_density(frame, y), rtol=1e-12
    )


@pytest.mark.slow(quick=["deep_kernel_classifier", "deep_kernel_regressor", "svgp_classifier"])
@for_all
def test_rows_held_out_are_followed_and_leave_no_trace(key: str, measured_often: None) -> None:
    frame, y = table(key)
    settings = {"max_iter": EVERY + 1, "validation": 0.0}
    alone = make(key, **settings).fit(frame[:50], y[:50])
    model = make(key, **settings).fit(frame[:50], y[:50], held_out=(frame[50:], y[50:]))
    np.testing.assert_array_equal(model.log_density(frame, y), alone.log_density(frame, y))
    told = [step.held_out for step in model.history_]
    assert (key in NOT_FOLLOWED) == (not np.isfinite(told).any())
    if key in NOT_FOLLOWED:
        return
    if key not in EXACT:  # it has converged before
        assert np.isfinite(told[EVERY - 1])
    assert np.isnan(told[: min(EVERY - 1, len(told) - 1)]).all()
    assert told[-1] == pytest.approx(-model.log_density(frame[50:], y[50:]).mean(), abs=0.3)


@pytest.mark.slow(quick=["deep_kernel_qep_classifier"])
@pytest.mark.parametrize(
    "key",
    [key for key, m in PREDICTORS.items() if "validation" in {p.name for p in m.parameters()}],
)
def test_rows_set_aside_end_the_fit(key: str, tmp_path: Path, measured_often: None) -> None:
    frame, y = table(key)
    y = np.random.default_rng(1).permutation(y)  # there is nothing to learn
    model = make(key, max_iter=60, validation=0.3, learning_rate=0.2).fit(frame, y)
    told = np.array([s.held_out for s in model.history_ if np.isfinite(s.held_out)])
    assert model.converged_
    assert len(model.history_) < 60
    assert len(told) - 1 - told.argmin() == 5
    few = make(key, validation=0.01).fit(frame, y)
    assert "validation=0.01 sets fewer than 5 of 60 rows aside" in few.notes_[0]
    path = tmp_path / "checkpoint.safetensors"
    first = make(key, max_iter=60, validation=0.3, learning_rate=0.2)
    first._fit_from(frame, y, callback=lambda s: s.iteration == 9, checkpoint=Checkpoint(path))
    second = make(key, max_iter=60, validation=0.3, learning_rate=0.2)
    second._fit_from(frame, y, checkpoint=Checkpoint(path))
    np.testing.assert_allclose(
        [s.held_out for s in second.history_], [s.held_out for s in model.history_], rtol=1e-6
    )
    np.testing.assert_allclose(second.log_density(frame, y), model.log_density(frame, y), rtol=1e-4)


@pytest.mark.slow(quick=["deep_kernel_qep_regressor", "dsvi_regressor", "qep_regressor"])
@for_all
def test_in_a_pipeline_and_a_search(key: str) -> None:
    frame, y = table(key)
    setting = "max_iter" if key in WITHOUT_INDUCING else "n_inducing"
    search = GridSearchCV(
        make_pipeline(MinMaxScaler(), make(key)),
        {f"{type(make(key)).__name__.lower()}__{setting}": [4, 8]},
        cv=2,
    )
    assert np.isfinite(search.fit(frame, y).best_score_)


@pytest.mark.slow(quick=["deep_kernel_regressor", "qep_regressor", "svgp_regressor"])
@for_all
def test_hidden_units_are_shown_layer_by_layer(key: str) -> None:
    frame, y = table(key)
    names = {p.name for p in PREDICTORS[key].parameters()}
    model = make(key, n_layers=2, hidden_dim=2).fit(frame, y)
    layers = model.n_hidden_layers_
    assert layers == (2 if "n_layers" in names else int("hidden_dim" in names))
    for layer in range(1, layers + 1):
        units = model.hidden(frame, layer)
        assert units.shape == (N, 2)
        np.testing.assert_allclose(model.hidden(frame.iloc[:5], layer), units[:5], rtol=1e-9)
    with pytest.raises(ConfigError, match=f"this model has {layers or 'no'} hidden layer"):
        model.hidden(frame, layers + 1)
    assert list(model.relevance_) == [f"layer{n}" for n in range(1, layers + 2)]
    assert [len(value) for value in model.relevance_.values()] == [3, *[2] * layers]


@pytest.mark.slow(
    quick=["deep_kernel_qep_classifier", "deep_kernel_qep_regressor", "qep_classifier"]
)
@for_all
def test_a_wide_table_is_saved_too(key: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N, 12)))
    frame.columns = [f"c{i}" for i in range(12)]
    y = table(key)[1]
    model = make(key, n_inducing=4, hidden_dim=6).fit(frame, y)
    model.set_params(max_iter=7)
    layers = model.n_hidden_layers_
    if "hidden_dim" in model.get_params():
        model.set_params(hidden_dim=2)  # what is fitted stays as it was
        if "n_layers" in model.get_params():
            model.set_params(n_layers=layers + 1)
        assert model.hidden(frame, layers).shape == (N, 6)
    model.save(tmp_path / "model.safetensors")
    again: Any = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    assert again.n_parameters_ == model.n_parameters_


@pytest.mark.slow(quick=["deep_qep_classifier", "dsvi_classifier", "sghmc_regressor"])
@for_all
def test_a_fit_without_a_seed_goes_on_with_its_own_draws(key: str, tmp_path: Path) -> None:
    frame, y = table(key)
    path = tmp_path / "checkpoint.safetensors"
    first = make(key, max_iter=12, random_state=None)
    first._fit_from(frame, y, callback=lambda s: s.iteration == 5, checkpoint=Checkpoint(path))
    second = make(key, max_iter=12, random_state=None)
    second._fit_from(frame, y, checkpoint=Checkpoint(path))
    assert [s.terms for s in second.history_[:5]] == [s.terms for s in first.history_]
    if "sod" in key:
        np.testing.assert_array_equal(second.subset_, first.subset_)
        assert len(set(first.subset_)) == 8


@pytest.mark.slow(quick=["dspp_regressor", "dsvi_classifier", "sghmc_regressor"])
@for_all
def test_the_density_asks_for_one_target_a_row(key: str) -> None:
    frame, y = table(key)
    model = fitted(key)
    for wrong in (y[:1], y[:5], np.tile(y[:, None], 2)):
        with pytest.raises(DataError, match="expected one entry a row"):
            model.log_density(frame, wrong)


@for_all
def test_not_fitted_is_said(key: str) -> None:
    frame, _ = table(key)
    for call in (make(key).predict, make(key).hidden):
        with pytest.raises(NotFittedError):
            call(frame)


@for_numbers
def test_bad_targets_of_numbers_are_named(key: str) -> None:
    frame, y = table(key)
    missing, infinite, text = y.copy(), y.copy(), y.astype(object)
    missing[4], infinite[6], text[2] = np.nan, np.inf, "heavy"
    dates = np.datetime64("2020-01-01") + np.arange(N)
    for target, message in (
        (dates, "The target holds dates or times"),
        (y * 1e200, "The target is too large to be standardised"),
        (np.full(N, 3.0), r"The target has one value only, 3: there is nothing to predict"),
        (missing, r"NaN \(missing\) in 1 rows, the first of them row 5"),
        (infinite, r"inf \(infinity\) in 1 rows, the first of them row 7"),
        (text, r"The target of row 3 is 'heavy', which is no number"),
        (y[:-1], r"y has shape \(59,\), but X has 60 rows"),
    ):
        with pytest.raises(DataError, match=message):
            make(key).fit(frame, target)


@for_classes
def test_bad_targets_of_classes_are_named(key: str) -> None:
    frame, y = table(key)
    missing = y.astype(object)
    missing[4] = None
    for target, message in (
        (np.full(N, "a"), "one class"),
        (missing, r"NaN or None in 1 rows, the first of them row 5"),
    ):
        with pytest.raises(DataError, match=message):
            make(key).fit(frame, target)


@pytest.mark.slow(quick=["deep_kernel_qep_classifier", "qep_classifier", "sghmc_regressor"])
@for_all
def test_gaps_constant_columns_and_few_rows(key: str) -> None:
    frame, y = table(key)
    gap = frame.copy()
    gap.iloc[3, 1] = np.nan
    with pytest.raises(DataError, match="row 4, column b"):
        make(key).fit(gap, y)
    constant = frame.assign(d=5.0)
    model = make(key).fit(constant, y)
    assert "1 constant column set aside: d." in model.notes_
    np.testing.assert_allclose(model.predict(constant.assign(d=7.0)) == model.predict(constant), 1)
    few = make(key, n_inducing=100).fit(frame.iloc[:12], y[:12])
    reduced = any("n_inducing reduced from 100 to 12" in note for note in few.notes_)
    assert reduced == (key not in WITHOUT_INDUCING)
    assert np.isfinite(few.log_density(frame.iloc[:12], y[:12])).all()
    twice = make(key, n_inducing=100).fit(pd.concat([frame.iloc[:12]] * 2), np.tile(y[:12], 2))
    assert np.isfinite(twice.log_density(frame.iloc[:12], y[:12])).all()


@pytest.mark.slow(quick=["deep_kernel_regressor", "qep_regressor", "svgp_regressor"])
@for_numbers
def test_predicted_distributions_agree_with_draws_from_them(key: str) -> None:
    frame, y = table(key)
    model = make(key, max_iter=30).fit(frame, y)
    predicted = model.predictive(frame.iloc[:6])
    rng = np.random.default_rng(0)
    part = rng.choice(len(predicted.mean), size=(200_000, 1), p=predicted.weights)
    columns = np.arange(6)
    drawn = predicted.mean[part, columns] + predicted.sd[part, columns] * rng.standard_normal(
        (200_000, 6)
    )
    mean, sd = model.predict(frame.iloc[:6], return_std=True)
    np.testing.assert_allclose(mean, drawn.mean(0), atol=5 * sd.max() / 200_000**0.5)
    np.testing.assert_allclose(sd, drawn.std(0), rtol=0.02)
    quantiles = model.predict_quantiles(frame.iloc[:6], [0.05, 0.5, 0.95])
    inside = (drawn[:, :, None] < quantiles).mean(0)
    np.testing.assert_allclose(inside, np.broadcast_to([0.05, 0.5, 0.95], (6, 3)), atol=0.005)
    with pytest.raises(ConfigError, match=r"expected numbers in \(0, 1\)"):
        model.predict_quantiles(frame, [0.5, 1.0])
    width = 0.02 * sd
    near = (np.abs(drawn - y[:6]) < width).mean(0) / (2 * width)
    density = np.exp(model.log_density(frame.iloc[:6], y[:6]))
    likely = near * 200_000 * 2 * width > 1000
    assert likely.any()
    np.testing.assert_allclose(density[likely], near[likely], rtol=0.15)


@pytest.mark.slow(quick=["deep_kernel_qep_regressor", "dspp_regressor", "dsvi_regressor"])
@for_numbers
def test_a_target_in_other_units_is_predicted_in_them(key: str) -> None:
    frame, y = table(key)
    one, other = (make(key, max_iter=20).fit(frame, t) for t in (y, 1e-3 * y - 7))
    np.testing.assert_allclose(other.predict(frame), 1e-3 * one.predict(frame) - 7, rtol=1e-5)
    np.testing.assert_allclose(
        other.log_density(frame, 1e-3 * y - 7),
        one.log_density(frame, y) + np.log(1e3),
        rtol=1e-3,
    )


@pytest.mark.slow(quick=["2-deep_kernel_classifier", "2-qep_classifier", "2-svgp_classifier"])
@for_classes
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_add_up_and_follow_the_classes(key: str, n_classes: int) -> None:
    frame, y = table(key, 120)
    if n_classes == 2:
        y = np.where(y == "mid", "low", y)
    model = make(key, max_iter=150, n_inducing=20).fit(frame, y)
    probability = model.predict_proba(frame)
    assert probability.shape == (120, n_classes)
    np.testing.assert_allclose(probability.sum(1), 1)
    assert model.classes_.tolist() == sorted(set(y))
    assert model.score(frame, y) > 0.8
    log_loss = -model.log_density(frame, y).mean()
    share = np.unique(y, return_counts=True)[1] / 120
    assert log_loss < -(share * np.log(share)).sum()
    unseen = model.log_density(frame.iloc[:1], ["never"])
    assert unseen[0] == -np.inf


@pytest.mark.slow(quick=["svgp_regressor"])
@for_numbers
def test_a_smooth_target_is_learned(key: str) -> None:
    frame, y = table(key, 200)
    model = make(key, max_iter=200, n_inducing=30, n_samples=5).fit(frame.iloc[:150], y[:150])
    assert model.score(frame.iloc[150:], y[150:]) > 0.85
    low, high = model.predict_quantiles(frame.iloc[150:], [0.05, 0.95]).T
    assert ((low < y[150:]) & (y[150:] < high)).mean() > 0.75


@pytest.mark.slow(quick=["deep_kernel_classifier", "dsvi_regressor", "svgp_classifier"])
@for_all
def test_a_layer_wider_than_the_table_is_watched_too(key: str) -> None:
    """As a run from the page does, which takes a snapshot now and then."""
    frame, y = table(key)
    steps: list[Any] = []
    make(key, hidden_dim=5, max_iter=3).fit(frame[["a", "b"]], y, callback=steps.append)
    shown = steps[-1].snapshot
    assert shown.mean.shape == (N, 2) or shown.mean.shape[0] < N
    assert np.isfinite(shown.mean).all()


@pytest.mark.slow(quick=["sod_regressor"])
@for_numbers
def test_a_target_that_is_seldom_another_value_can_be_set_aside_from(key: str) -> None:
    if "validation" not in {p.name for p in PREDICTORS[key].parameters()}:
        return
    frame, y = table(key)
    y = np.where(np.arange(N) == 7, 1.0, 0.0)
    for seed in range(8):
        make(key, max_iter=1, validation=0.3, random_state=seed).fit(frame, y)


@pytest.mark.slow(quick=["deep_kernel_classifier", "svgp_classifier"])
@for_all
def test_the_density_of_a_class_that_the_fit_does_not_know_is_not_followed(key: str) -> None:
    frame, y = table(key)
    if PREDICTORS[key].task == "number":
        with pytest.raises(DataError, match="NaN"):
            make(key).fit(frame, y, held_out=(frame[:3], [1.0, np.nan, 2.0]))
        return
    strange = np.where(np.arange(N) < 30, "never", y.astype(str))
    told = []
    for held_out in ((frame, strange), (frame[30:], strange[30:])):
        model = make(key, max_iter=21, validation=0.0).fit(frame, y, held_out=held_out)
        told.append([s.held_out for s in model.history_ if np.isfinite(s.held_out)])
    assert bool(told[0]) == (key not in NOT_FOLLOWED)
    np.testing.assert_allclose(told[0], told[1])
