"""Advised settings, which a fit uses in place of None."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_s_curve

import lvmcore
from lvmcore import LDGD, BayesianGPLVM, FastLDGD
from lvmcore.base import advice
from lvmcore.base.table_size import TableSize
from lvmcore.errors import ConfigError, DataError, NumericalError
from lvmcore.gp import unlabelled_model
from lvmcore.models import PREDICTORS
from lvmcore.runs.job import JobSpec
from lvmcore.runs.model_of_job import make_model
from lvmcore.training import schedule
from lvmcore.training.outcome import FitOutcome

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2)) @ RNG.normal(size=(2, 5)) + 0.1 * RNG.normal(size=(60, 5))

# Models of a target of which no earlier version could store a run.
YOUNGER_THAN_LAYOUTS = {
    "cnn_classifier",
    "gp_classifier",
    "gp_regressor",
    "dspp_classifier",
    "iwvi_regressor",
    "sghmc_classifier",
}


def with_gaps(X: np.ndarray) -> np.ndarray:
    return np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)


def advised(model: Any) -> tuple[Any, ...]:
    return tuple(model.settings_[name] for name in ("n_components", "n_inducing", "noise"))


def test_a_complete_table_is_mapped_in_two_dimensions_and_one_with_gaps_in_more() -> None:
    complete = BayesianGPLVM(max_iter=2).fit(X)
    assert advised(complete) == (2, 25, "shared")
    assert complete.embedding_.mean.shape == (60, 2)
    assert complete.get_params()["n_components"] is None  # a setting is never changed
    gaps = BayesianGPLVM(max_iter=2).fit(with_gaps(X))
    assert advised(gaps) == ("ard", 25, "column")
    assert gaps.embedding_.mean.shape == (60, 5)


@pytest.mark.parametrize("gaps", [False, True])
def test_none_fits_what_its_advice_fits(gaps: bool) -> None:
    rows = with_gaps(X) if gaps else X
    advice = BayesianGPLVM.suggest(TableSize(n_rows=60, n_columns=5, incomplete=gaps))
    one, two = (BayesianGPLVM(**given, max_iter=20).fit(rows) for given in ({}, advice))
    assert one.elbo_ == two.elbo_
    np.testing.assert_array_equal(one.embedding_.mean, two.embedding_.mean)


def test_a_given_setting_outweighs_the_advice() -> None:
    model = BayesianGPLVM(n_components=3, noise="column", n_inducing=7, max_iter=2).fit(X)
    assert advised(model) == (3, 7, "column")
    assert model.inducing_inputs_["data"].shape == (7, 3)


def test_a_narrow_table_gets_no_more_dimensions_than_columns() -> None:
    assert BayesianGPLVM(max_iter=2).fit(X[:, :1]).embedding_.mean.shape == (60, 1)


def test_many_classes_in_a_wide_table_are_learned_as_advised() -> None:
    digits = load_digits()
    model = LDGD(max_iter=2).fit(digits.data[:400], digits.target[:400])
    assert advised(model) == (20, 50, "shared")
    assert model.settings_["likelihood"] == "softmax"
    assert model.settings_["label_weight"] == 20.0
    few = LDGD(max_iter=2).fit(X, X[:, 0] > 0)
    assert advised(few) == ("ard", 25, "column")
    assert few.settings_["likelihood"] == "probit"
    assert few.settings_["label_weight"] == 1.0


def test_a_saved_model_keeps_the_settings_of_its_fit(tmp_path: Path) -> None:
    digits = load_digits()
    model = LDGD(max_iter=2).fit(digits.data[:300], digits.target[:300])
    model.save(tmp_path / "model.safetensors")
    again = lvmcore.load(tmp_path / "model.safetensors")
    assert again.settings_ == model.settings_
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(
        again.predict_proba(digits.data[:9]), model.predict_proba(digits.data[:9])
    )


def test_the_usual_settings_need_no_reason() -> None:
    found = BayesianGPLVM.advise(TableSize(n_rows=100, n_columns=5))
    assert {name for name, one in found.items() if one.reason} == set()
    gaps = BayesianGPLVM.advise(TableSize(n_rows=100, n_columns=5, incomplete=True))
    assert "missing cells" in gaps["n_components"].reason


# ---- start -------------------------------------------------------------------------------------


def test_a_curved_surface_starts_at_its_neighbours_and_a_flat_one_at_its_plane() -> None:
    curved, _ = make_s_curve(300, noise=0.05, random_state=0)
    settings: dict[str, Any] = {"n_components": 2, "n_inducing": 25, "max_iter": 100}
    for rows, start in ((curved, "tsne"), (X, "pca")):
        auto = BayesianGPLVM(**settings).fit(rows)
        same = BayesianGPLVM(**settings, start=start).fit(rows)
        np.testing.assert_array_equal(auto.embedding_.mean, same.embedding_.mean)
    bounds = [BayesianGPLVM(**settings, start=s).fit(curved).elbo_ for s in ("auto", "pca")]
    assert bounds[0] > bounds[1] + 0.02 * curved.size


def test_a_start_that_fails_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    curved, _ = make_s_curve(60, random_state=0)
    usual, tried = unlabelled_model.train, []

    def first_fails(*given: Any, **settings: Any) -> FitOutcome:
        tried.append(given)
        if len(tried) == 1:
            raise NumericalError("The first start, that of t-SNE, fails.")
        return usual(*given, **settings)

    monkeypatch.setattr(unlabelled_model, "train", first_fails)
    model = BayesianGPLVM(max_iter=50, n_components=2).fit(curved)
    assert len(tried) == 3
    assert model.elbo_ == BayesianGPLVM(max_iter=50, n_components=2, start="pca").fit(curved).elbo_


# ---- runs --------------------------------------------------------------------------------------


def test_a_run_of_an_earlier_version_keeps_its_number_of_dimensions() -> None:
    """It wrote None for "10, or fewer for a narrow table"."""
    for given in ({"n_inducing": 9}, {"n_inducing": 9, "n_components": None, "noise": "column"}):
        stored = JobSpec("digest", "data", "bayesian_gplvm", given).to_json()
        now = JobSpec.from_json(stored)
        assert dict(now.parameters) == given
        assert make_model(now).get_params()["n_components"] is None
        del stored["layout"]
        model = make_model(JobSpec.from_json(stored)).get_params()
        found = [model[name] for name in ("n_components", "n_inducing", "noise", "start")]
        assert found == ["ard", 9, "column", "pca"]
    other = JobSpec("digest", "data", "pca", {"n_components": None}).to_json()
    del other["layout"]
    assert dict(JobSpec.from_json(other).parameters) == {"n_components": None}


@pytest.mark.parametrize("key", ["ldgd", "fast_ldgd"])
def test_a_run_of_an_earlier_version_keeps_its_label_weight(key: str) -> None:
    stored = JobSpec("digest", "data", key, {"max_iter": 7}).to_json()
    assert make_model(JobSpec.from_json(stored)).get_params()["label_weight"] is None
    for layout in (1, 2):
        model = make_model(JobSpec.from_json({**stored, "layout": layout})).get_params()
        assert (model["label_weight"], model["n_inducing"], model["noise"]) == (
            (1.0, 25, "column") if layout == 1 or key == "fast_ldgd" else (1.0, None, None)
        )


@pytest.mark.parametrize("key", sorted(set(PREDICTORS) - YOUNGER_THAN_LAYOUTS))
def test_a_run_of_an_earlier_version_keeps_its_settings_for_a_target(key: str) -> None:
    stored = JobSpec("digest", "data", key, {"max_iter": 7}, target="y").to_json()
    assert dict(JobSpec.from_json(stored).parameters) == {"max_iter": 7}
    for layout in (1, 2):
        model = make_model(JobSpec.from_json({**stored, "layout": layout})).get_params()
        assert (model["max_iter"], model["n_inducing"]) == (7, 50)
        if key == "svgp_regressor":
            assert (model["kernel"], model["batch_size"]) == ("rbf", 2000)
    with pytest.raises(DataError, match="layout"):
        JobSpec.from_json({**stored, "layout": "new"})


def test_a_run_of_an_exact_process_keeps_its_target_as_it_was() -> None:
    stored = JobSpec("digest", "data", "gp_regressor", {"max_iter": 7}, target="y").to_json()
    assert make_model(JobSpec.from_json(stored)).get_params()["target_transform"] == "auto"
    model = make_model(JobSpec.from_json({**stored, "layout": 3})).get_params()
    assert (model["max_iter"], model["target_transform"]) == (7, "none")


def test_only_some_models_know_the_word() -> None:
    with pytest.raises(ConfigError, match="n_components='ard' cannot be used"):
        FastLDGD(n_components="ard").fit(X, X[:, 0] > 0)
    with pytest.raises(ConfigError, match="from 1 to 1000, or ard, or none"):
        BayesianGPLVM(n_components="all").fit(X)


def test_long_labelled_tables_take_larger_steps() -> None:
    def settings(**size: Any) -> dict[str, Any]:
        return FastLDGD.suggest(TableSize(n_classes=3, **size))

    assert "learning_rate" not in settings(n_rows=5000, n_columns=3)
    narrow, wide = settings(n_rows=5001, n_columns=3), settings(n_rows=5001, n_columns=50)
    assert (narrow["learning_rate"], narrow["n_inducing"]) == (0.15, 100)
    assert (wide["learning_rate"], wide["n_inducing"]) == (0.05, 100)
    assert settings(n_rows=5001, n_columns=3, incomplete=True)["n_inducing"] == 50
    assert settings(n_rows=1_000_000, n_columns=3)["n_inducing"] == 50


def test_a_network_of_few_wide_rows_is_fitted_briefly_and_refined() -> None:
    def settings(n_rows: int, n_columns: int) -> dict[str, Any]:
        return FastLDGD.suggest(TableSize(n_rows=n_rows, n_columns=n_columns, n_classes=8))

    names = ("max_iter", "n_refinement")
    few, more = settings(1000, 765), settings(1001, 765)
    assert [few[name] for name in names] == [300, 60]
    assert [more.get(name) for name in names] == [2000, None]
    assert settings(150, 765).get("n_refinement") is None


def test_a_complete_fit_of_some_thousand_rows_has_all_its_steps() -> None:
    def steps(n_rows: int) -> int | None:
        return LDGD.suggest(TableSize(n_rows=n_rows, n_columns=64, n_classes=10)).get("max_iter")

    assert (steps(1797), steps(3001)) == (None, 300)


def test_the_steps_of_a_long_map_depend_on_its_rows_and_gaps() -> None:
    def steps(n_rows: int, **more: bool) -> int | None:
        return BayesianGPLVM.suggest(TableSize(n_rows=n_rows, n_columns=9, **more)).get("max_iter")

    assert steps(20_000) is None
    assert [steps(n) for n in (20_001, 50_000, 100_000, 1_000_000)] == [900, 600, 300, 100]
    incomplete = [steps(n, incomplete=True) for n in (20_001, 50_000, 100_000, 1_000_000)]
    assert incomplete == [900, 850, 750, 700]


def test_the_steps_of_subsets_are_those_of_the_schedule() -> None:
    """Adam's at most, and those of the finish with each of two subsets."""
    finish = len(unlabelled_model.SUBSET_SIZES) * schedule.MOST_SUBSET
    assert schedule.MOST_CONSTANT + schedule.MOST_COOLING + finish == advice.SUBSET_STEPS
