"""Fits in single and in mixed precision, beside those in double."""

from typing import Any

import numpy as np
import pytest

from lvmcore import ConfigError, load
from lvmcore.models import PREDICTORS, REGISTRY
from tests.contract import small, test_predictors

#: Largest change of the mean log density of a row, nats, after a few steps.
DENSITY = {"float32": 0.15, "mixed": 0.01}


def precisions(key: str) -> tuple[str, ...]:
    """The precisions of a model other than double."""
    (setting,) = (p for p in REGISTRY.declarations[key].parameters() if p.name == "dtype")
    return tuple(one for one in setting.choices if one != "float64")


PAIRS = [(key, precision) for key in PREDICTORS for precision in precisions(key)]


@pytest.mark.slow(quick=["svgp_regressor-mixed", "dsvi_classifier-mixed", "qep_regressor-float32"])
@pytest.mark.parametrize(("key", "precision"), PAIRS, ids=[f"{k}-{p}" for k, p in PAIRS])
def test_a_predictor_in_another_precision_is_close(key: str, precision: str, tmp_path: Any) -> None:
    X, y = test_predictors.table(key)
    double, other = (
        test_predictors.make(key, dtype=one, kernel="rbf").fit(X, y)
        for one in ("float64", precision)
    )
    assert other.computation_.precision == precision
    away = np.abs(other.log_density(X, y).mean() - double.log_density(X, y).mean())
    assert away < DENSITY[precision]
    other.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.log_density(X, y), other.log_density(X, y))


@pytest.mark.parametrize("key", [key for key in REGISTRY if "mixed" not in precisions(key)])
def test_a_precision_that_a_model_does_not_have_is_refused(key: str) -> None:
    model = REGISTRY[key](dtype="mixed")
    with pytest.raises(ConfigError, match="dtype='mixed' cannot be used: expected one of float64"):
        model.fit(np.zeros((10, 3)), np.zeros(10))


@pytest.mark.parametrize("likelihood", ["gaussian", "negative_binomial"])
def test_random_features_in_mixed_precision_have_the_bound_of_double(likelihood: str) -> None:
    counts = np.random.default_rng(0).poisson(3.0, size=(40, 6)).astype(float)
    settings: dict[str, Any] = {"likelihood": likelihood, "n_features": 20, "max_iter": 20}
    double, mixed, single = (
        small.fit("srflvm", counts, dtype=one, **settings)
        for one in ("float64", "mixed", "float32")
    )
    assert mixed.elbo_ != double.elbo_  # the products are in single
    assert abs(mixed.elbo_ - double.elbo_) < 1e-4 * abs(double.elbo_)
    assert abs(single.elbo_ - double.elbo_) < 1e-3 * abs(double.elbo_)
