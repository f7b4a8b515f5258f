"""Every model as a scikit-learn estimator."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import check_estimator

from lvmcore import ConfigError
from lvmcore.models import MODELS
from lvmcore.preprocessing.cell_types import check_positive
from tests.contract.expected import EXPECTED_FAILURES
from tests.contract.small import (
    N_COMPONENTS,
    N_ROWS,
    few_steps,
    fit,
    fitted,
    fitted_to_array,
    for_models,
    make,
    table_for,
)


class Rounding:
    """Makes counts of the cells that scikit-learn's checks hand over: ten times each, rounded."""

    def _check_rows(self, X: Any, *, reset: bool) -> Any:
        return np.round(10 * super()._check_rows(X, reset=reset))  # type: ignore[misc]

    def _check_values(self, data: Any) -> None:
        check_positive(data, self._column_names(), type(self).__name__)  # type: ignore[attr-defined]


ROUNDING = {
    key: type(model.__name__, (Rounding, model), {"__module__": __name__})
    for key, model in MODELS.items()
    if model.capabilities.cells == "counts"
}
globals().update({model.__name__: model for model in ROUNDING.values()})  # pickle looks here


@pytest.mark.slow(quick=["isomap", "tsne", "umap"])
@for_models()
def test_check_estimator(key: str) -> None:
    names = {p.name for p in MODELS[key].parameters()}
    short = {"max_iter": 5, "n_inducing": 8, "start": "pca"}
    model = ROUNDING.get(key, MODELS[key])(**{name: short[name] for name in names & set(short)})
    check_estimator(model, expected_failed_checks=EXPECTED_FAILURES.get(key), on_skip=None)


def test_expected_failures_are_of_models_that_exist() -> None:
    assert set(EXPECTED_FAILURES) <= set(MODELS)


@for_models()
def test_constructor_only_stores_and_clones(key: str) -> None:
    parameters = MODELS[key].parameters()
    for parameter in parameters:
        # Not even a wrong value is looked at before fit.
        assert getattr(MODELS[key](**{parameter.name: "?"}), parameter.name) == "?"
    model = make(key, random_state=7)
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    assert set(copy.get_params()) == {p.name for p in parameters}
    assert copy.set_params(random_state=8).random_state == 8
    assert model.random_state == 7


@for_models()
def test_defaults_are_those_declared(key: str) -> None:
    declared = {p.name: p.default for p in MODELS[key].parameters()}
    assert MODELS[key]().get_params() == declared


@for_models()
def test_a_wrong_setting_is_named_before_anything_is_computed(key: str) -> None:
    frame, labels = table_for(key)
    with pytest.raises(ConfigError, match=r"device='tpu' cannot be used: expected one of auto"):
        make(key, device="tpu").fit(frame, labels)
    with pytest.raises(ConfigError, match=r"n_components=0 cannot be used: expected a whole"):
        make(key, n_components=0).fit(frame, labels)


@pytest.mark.slow(quick=["fast_ldgd", "qep_lvm", "srflvm"])
@for_models(lambda model: model.capabilities.new_rows)
def test_fit_transform_is_fit_then_transform(key: str) -> None:
    frame, labels = table_for(key)
    together = make(key).fit_transform(frame, labels)
    apart = fitted(key).transform(frame)
    np.testing.assert_array_equal(together, apart)
    assert together.shape == (N_ROWS, N_COMPONENTS)


@for_models(lambda model: model.capabilities.new_rows)
def test_not_fitted_is_said(key: str) -> None:
    frame, _ = table_for(key)
    with pytest.raises(NotFittedError):
        make(key).transform(frame)


@for_models(lambda model: model.capabilities.decoding)
def test_not_fitted_is_said_when_decoding(key: str) -> None:
    with pytest.raises(NotFittedError):
        make(key).decode([[0.0, 0.0]])


@pytest.mark.slow(quick=["lda", "nmf", "rflvm"])
@for_models(lambda model: model.capabilities.new_rows)
def test_in_a_pipeline(key: str) -> None:
    frame, labels = table_for(key)
    counts = MODELS[key].capabilities.cells == "counts"
    scaler = "passthrough" if counts else MinMaxScaler()
    pipeline = make_pipeline(scaler, make(key), KNeighborsClassifier(3))
    assert pipeline.fit(frame, labels).score(frame, labels) > 0.9


@pytest.mark.slow(quick=["nbvae", "pca", "topics"])
@for_models()
def test_column_names_are_kept_and_minded(key: str) -> None:
    frame, labels = table_for(key)
    model = fitted(key)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    if not model.capabilities.new_rows:
        return
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[list(reversed(frame.columns))])
    bare = fitted_to_array(key)
    assert not hasattr(bare, "feature_names_in_")
    # Fitted again to a table without names, the old ones are forgotten.
    again = fit(key, frame, labels, **few_steps(key))
    again.set_params(**make(key).get_params()).fit(frame.to_numpy(), labels)
    assert not hasattr(again, "feature_names_in_")
    np.testing.assert_array_equal(again.embedding_.mean, bare.embedding_.mean)


@pytest.mark.slow(quick=["bayesian_gplvm", "ldgd", "pca"])
@for_models(lambda model: model.capabilities.new_rows)
def test_output_can_be_a_frame_with_names(key: str) -> None:
    frame, labels = table_for(key)
    model = fit(key, frame, labels, **few_steps(key)).set_output(transform="pandas")
    latent = model.transform(frame)
    assert isinstance(latent, pd.DataFrame)
    prefix = type(model).__name__.lower()
    assert latent.columns.tolist() == [f"{prefix}{i}" for i in range(N_COMPONENTS)]
    assert latent.columns.tolist() == model.get_feature_names_out().tolist()


@pytest.mark.slow(quick=["lda", "supervised_vae"])
@for_models(lambda model: model.capabilities.labels != "none")
def test_grid_search_by_accuracy(key: str) -> None:
    frame, labels = table_for(key)
    grid = {"n_components": [1, 2]}
    if hasattr(make(key), "max_iter"):
        grid["max_iter"] = [1, 40]
    search = GridSearchCV(make(key), grid, cv=3, error_score="raise").fit(frame, labels)
    assert search.best_score_ > 0.9
    assert np.mean(search.predict(frame) == labels) > 0.9


@pytest.mark.slow(quick=["factor_analysis", "ppca"])
@for_models(lambda model: model.capabilities.labels == "none" and model.capabilities.density)
def test_grid_search_by_density(key: str) -> None:
    frame, _ = table_for(key)
    search = GridSearchCV(make(key), {"n_components": [1, 2]}, cv=3, error_score="raise").fit(frame)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert len(set(scores)) == 2
