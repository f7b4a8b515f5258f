"""Choice of a transform of the target: its likelihood, what it finds, and what it leaves alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from lvmcore import ConfigError, DataError, GPRegressor, load
from lvmcore.gp.exact_regression import ExactGP
from lvmcore.gp.structure.transform_choice import TransformChoice, candidate_transforms
from lvmcore.preprocessing.target_column import NumberTarget
from lvmcore.preprocessing.target_transform import TargetTransform


def skewed(n: int = 80) -> tuple[NDArray[Any], NDArray[Any]]:
    """Factors: exp of a function and of noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, 1))
    return X, np.exp(3 + np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n))


def test_candidates_are_those_that_the_target_allows() -> None:
    y = np.arange(1.0, 60.0)
    assert candidate_transforms("auto", y) == ("none", "log", "yeo-johnson")
    assert candidate_transforms("auto", y - 1) == ("none", "yeo-johnson")
    assert candidate_transforms("auto", y % 5) == ("none",)
    assert candidate_transforms("log", y) == ("log",)


def test_the_logarithm_is_found_and_its_likelihood_is_that_of_a_lognormal() -> None:
    X, y = skewed()
    model: Any = GPRegressor(kernel="rbf").fit(X, y)
    assert model.target_transform_.name == "log"
    assert "The target is modelled on the log scale." in model.notes_
    gp, rows = model._function.gp, model._function.X
    A = model._target.scale**2 * gp.noisy_covariance(rows).detach().numpy()
    z = np.log(y) - model._target.mean
    own = multivariate_normal(cov=A).logpdf(z) - np.log(y).sum() + len(y) * np.log(y.std())
    assert model.elbo_ == pytest.approx(own, rel=1e-8)
    plain = GPRegressor(kernel="rbf", target_transform="none").fit(X, y)
    assert model.elbo_ > plain.elbo_ + 2
    X2, y2 = skewed(500)
    new = slice(80, None)
    gain = model.log_density(X2[new], y2[new]) - plain.log_density(X2[new], y2[new])
    assert gain.mean() > 0.1
    ends = model.predict_quantiles(X2[new], [0.05, 0.95])
    assert ((ends[:, 0] < y2[new]) & (y2[new] < ends[:, 1])).mean() == pytest.approx(0.9, abs=0.05)


def test_an_exponent_is_estimated_and_gaussian_targets_stay_as_they_are() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, size=(120, 1))
    signal = np.sin(2 * X[:, 0])
    root = GPRegressor(kernel="rbf").fit(X, (9 + 4 * signal + rng.normal(size=120)) ** 3 - 40)
    assert root.target_transform_.name == "yeo-johnson"
    assert 0 < root.target_transform_.exponent < 0.8
    plain = GPRegressor(kernel="rbf").fit(X, 5 + signal + 0.3 * rng.normal(size=120))
    assert plain.target_transform_.is_identity
    assert not any("modelled on" in note for note in plain.notes_)


def test_the_likeliest_exponent_is_that_of_a_grid() -> None:
    X, y = skewed()
    rows = torch.as_tensor(X)
    choice = TransformChoice(rows, y, ("yeo-johnson",), 20)
    gp = ExactGP.stationary(1, "rbf", rows)
    A = gp.noisy_covariance(rows).detach().numpy()

    def density(exponent: float) -> float:
        target = NumberTarget.fit(y, TargetTransform.yeo_johnson(exponent, y))
        own = multivariate_normal(cov=A).logpdf(target.transform(y))
        return float(own + target.log_jacobian(y))

    grid = np.linspace(0, 2, 201)
    best = grid[np.argmax([density(exponent) for exponent in grid])]
    assert choice._likeliest_exponent(gp, 1.0) == pytest.approx(best, abs=0.011)


def test_a_transformed_model_is_saved_and_an_earlier_file_has_none(tmp_path: Path) -> None:
    X, y = skewed(40)
    for setting in ("log", "yeo-johnson"):
        model: Any = GPRegressor(kernel="rbf", target_transform=setting, max_iter=20).fit(X, y)
        model.save(tmp_path / "model.safetensors")
        again: Any = load(tmp_path / "model.safetensors")
        assert again.target_transform_ == model.target_transform_
        assert again.target_transform_.name == setting
        np.testing.assert_array_equal(again.predict_quantiles(X), model.predict_quantiles(X))
        np.testing.assert_array_equal(again.log_density(X, y), model.log_density(X, y))
    assert GPRegressor.earlier_settings["target_transform"] == "none"


def test_a_target_or_setting_that_does_not_suit_is_named() -> None:
    X, y = skewed(20)
    y[6] = -1.0
    with pytest.raises(DataError, match=r"needs numbers above 0, and the target of row 7 is -1"):
        GPRegressor(target_transform="log").fit(X, y)
    with pytest.raises(ConfigError, match="target_transform='root' cannot be used"):
        GPRegressor(target_transform="root").fit(X, y)  # type: ignore[arg-type]


def test_summands_add_up_on_the_scale_of_the_transform() -> None:
    X, y = skewed(40)
    model = GPRegressor(kernel="linear + rbf", target_transform="log", max_iter=20).fit(X, y)
    parts = model.decompose(X)
    median = model.predict_quantiles(X, [0.5])[:, 0]
    np.testing.assert_allclose(np.exp(parts.offset + parts.mean.sum(1)), median, rtol=1e-8)
