"""The importance-weighted deep Gaussian process on targets whose noise is not one Gaussian."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from lvmcore import DSVIDeepGPRegressor, IWVIDeepGPRegressor
from lvmcore.errors import ConfigError, UnsupportedError
from lvmcore.export.gpytorch.exported_model import exported_model

QUICK: dict[str, Any] = {"n_layers": 1, "n_inducing": 15, "max_iter": 300}
Table = tuple[NDArray[np.float64], NDArray[np.float64]]


def bimodal(n: int, seed: int) -> Table:
    """Two branches at ±(1 + sin(2x)/2), each with half of the rows and sd 0.1."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, n)
    side = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return x[:, None], side * (1 + 0.5 * np.sin(2 * x)) + 0.1 * rng.normal(size=n)


def unequal(n: int, seed: int) -> Table:
    """sin(2x) with sd 0.05 on the left and 0.55 on the right."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, n)
    return x[:, None], np.sin(2 * x) + (0.05 + 0.5 * (x > 0)) * rng.normal(size=n)


@pytest.fixture(scope="module")
def two_branches() -> Any:
    return IWVIDeepGPRegressor(**QUICK).fit(*bimodal(150, 0))


def density(model: Any, table: Table) -> float:
    return float(model.log_density(*table).mean())


def test_a_target_of_two_branches_is_predicted_as_two(two_branches: Any) -> None:
    new = bimodal(500, 1)
    centre = 1 + 0.5 * np.sin(2 * new[0][:, 0])
    sides = [norm.logpdf(new[1], side * centre, 0.1) for side in (-1, 1)]
    best = float((np.logaddexp(*sides) - np.log(2)).mean())
    ours = density(two_branches, new)
    single = density(DSVIDeepGPRegressor(**QUICK).fit(*bimodal(150, 0)), new)
    assert single < -1.3  # a single normal distribution over both branches
    assert single + 1 < ours < best + 0.02
    assert ours > best - 0.35
    low, middle, high = two_branches.predict_quantiles([[-1.0], [1.0]], [0.1, 0.5, 0.9]).T
    np.testing.assert_allclose(high, 1 + 0.5 * np.sin([-2, 2]), atol=0.2)
    np.testing.assert_allclose(low, -high, atol=0.3)
    assert (np.abs(middle) < high).all()
    gap = two_branches.log_density([[1.0], [1.0]], [0.0, 1.45])
    assert gap[1] - gap[0] > 1


def test_an_unequal_noise_is_followed() -> None:
    table, new = unequal(150, 0), unequal(500, 1)
    model = IWVIDeepGPRegressor(**QUICK).fit(*table)
    other = DSVIDeepGPRegressor(**QUICK).fit(*table)
    assert density(model, new) > density(other, new) + 0.3
    sd = model.predict([[-1.0], [1.0]], return_std=True)[1]
    assert sd[1] > 3 * sd[0]
    sd = other.predict([[-1.0], [1.0]], return_std=True)[1]
    assert sd[1] < 2 * sd[0]


def test_the_network_is_not_used_for_predictions(two_branches: Any) -> None:
    import torch

    X, y = bimodal(20, 3)
    before = two_branches.log_density(X, y)
    encoder = two_branches._function.gp.encoder
    kept = {name: value.clone() for name, value in encoder.state_dict().items()}
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(1.0)
    try:
        np.testing.assert_array_equal(two_branches.log_density(X, y), before)
    finally:
        encoder.load_state_dict(kept)


def test_more_noise_inputs_than_the_target_has_use_for() -> None:
    X, y = unequal(80, 0)
    model = IWVIDeepGPRegressor(n_layers=0, n_inducing=10, noise_dim=3, max_iter=100).fit(X, y)
    assert [len(alpha) for alpha in model.relevance_.values()] == [1]
    assert np.isfinite(model.log_density(X, y)).all()
    assert len(model.predictive(X[:2]).mean) == 250


def test_settings_that_cannot_be_used_are_named() -> None:
    X, y = unequal(30, 0)
    for settings, message in (
        ({"noise_dim": 0}, "noise_dim=0 cannot be used"),
        ({"n_importance": 0}, "n_importance=0 cannot be used"),
        ({"kernel": "rbf(noise)"}, "'noise', which is none of the columns"),
    ):
        with pytest.raises(ConfigError, match=message):
            IWVIDeepGPRegressor(**settings).fit(X, y)


def test_it_has_no_form_in_gpytorch() -> None:
    X, y = unequal(30, 0)
    model = IWVIDeepGPRegressor(n_layers=0, n_inducing=5, max_iter=3).fit(X, y)
    with pytest.raises(UnsupportedError, match="cannot be exported to gpytorch"):
        exported_model(model)


def test_a_period_is_found_in_the_first_layer_beside_the_noise() -> None:
    """As by DSVI: a unit starts at the exact process of the columns, whatever the noise inputs."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"month": np.arange(90.0), "height": rng.normal(size=90)})
    y = np.sin(2 * np.pi * table["month"] / 12) + 0.5 * table["height"] + 0.1 * rng.normal(size=90)
    settings = {"kernel": "linear(height) + periodic(month)", "n_inducing": 10, "max_iter": 60}
    model = IWVIDeepGPRegressor(**settings, noise_dim=2).fit(table[:66], y[:66])
    assert [layer.width for layer in model._function.gp.hidden] == [5]  # columns, noise, and one
    assert model.score(table[66:], y[66:]) > 0.8
    narrow = IWVIDeepGPRegressor(**{**settings, "max_iter": 3}, noise_dim=2, hidden_dim=4)
    assert narrow.fit(table, y)._function.gp.hidden[0].width == 4
