"""Known noise of an exact Gaussian process: matrices written out, gpytorch, and bad columns."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import multivariate_normal, norm

from lvmcore import ConfigError, DataError, GPRegressor, load
from lvmcore.evaluation.column_effects import column_effects
from lvmcore.gp.structure import search
from lvmcore.prediction.target_predictions import prediction_table


def table(n: int = 60) -> tuple[pd.DataFrame, NDArray[Any]]:
    """A function of two columns in a unit of its own, with errors of known size."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": 100 * rng.normal(size=n), "err": 0.0, "b": rng.normal(size=n)})
    frame["err"] = 5 * rng.gamma(1, 1, size=n)
    y = 500 + 30 * np.sin(frame["a"] / 60) + 10 * frame["b"] + rng.normal(size=n)
    return frame, (y + frame["err"] * rng.normal(size=n)).to_numpy()


@pytest.fixture(scope="module")
def fit() -> Any:
    X, y = table()
    model = GPRegressor(kernel="rbf", noise_sd="err", max_iter=60, parameter_uncertainty=False)
    return model.fit(X, y)


def covariance(model: Any, X: pd.DataFrame, X2: pd.DataFrame) -> NDArray[Any]:
    """K between rows, in squared units of the target, from the parameters."""
    lengths = model._function.gp.kernel.only_component.log_lengthscales.detach().exp().numpy()
    scales = model._standardiser.scale[[0, 2]]
    parts = [one[["a", "b"]].to_numpy() / scales / lengths for one in (X, X2)]
    squares = np.square(parts[0][:, None] - parts[1]).sum(-1)
    variance = (
        float(model._function.gp.kernel.summands[0].variance.detach()) * model._target.scale**2
    )
    return np.asarray(variance * np.exp(-0.5 * squares))


def test_likelihood_and_predictions_are_those_of_matrices(fit: Any) -> None:
    X, y = table()
    new = table(75)[0].iloc[60:]
    sigma = float(fit._function.gp.noise.detach()) * fit._target.scale**2
    A = covariance(fit, X, X) + np.diag(sigma + X["err"].to_numpy() ** 2)
    own = multivariate_normal(cov=A).logpdf(y - y.mean()) + len(y) * np.log(y.std())
    assert fit.elbo_ == pytest.approx(own, rel=1e-8)
    k = covariance(fit, new, X)
    mean = y.mean() + k @ np.linalg.solve(A, y - y.mean())
    latent = np.diag(covariance(fit, new, new)) - np.einsum("na,an->n", k, np.linalg.solve(A, k.T))
    found, sd = fit.predict(new, return_std=True)
    np.testing.assert_allclose(found, mean, rtol=1e-8)
    np.testing.assert_allclose(sd**2, latent + sigma + new["err"] ** 2, rtol=1e-8)
    for without in (new.drop(columns="err"), new.assign(err=np.nan)):
        found, sd = fit.predict(without, return_std=True)
        np.testing.assert_allclose(found, mean, rtol=1e-8)
        np.testing.assert_allclose(sd**2, latent + sigma, rtol=1e-8)
    density = fit.log_density(new, mean + 1)
    spread = np.sqrt(latent + sigma + new["err"] ** 2)
    np.testing.assert_allclose(density, norm.logpdf(1, 0, spread))


def test_the_likelihood_and_the_mean_are_those_of_gpytorch(fit: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit
        import gpytorch
    rows = fit._function.rows

    class Exact(gpytorch.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(rows.X, rows.Y[:, 0], likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            inner = gpytorch.kernels.RBFKernel(ard_num_dims=2)
            self.covar_module = gpytorch.kernels.ScaleKernel(inner)

        def forward(self, x: Any) -> Any:
            covariance = self.covar_module(x)
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), covariance)

    likelihood = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(
        noise=rows.known, learn_additional_noise=True
    )
    other = Exact(likelihood).double()
    gp = fit._function.gp
    lengths = gp.kernel.only_component.log_lengthscales.detach().exp()
    other.covar_module.base_kernel.lengthscale = lengths
    other.covar_module.outputscale = float(gp.kernel.summands[0].variance.detach())
    likelihood.second_noise = float(gp.noise.detach())
    value = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, other)(other(rows.X), rows.Y[:, 0])
    assert fit.elbo_ == pytest.approx(len(rows.X) * float(value.detach()), rel=1e-6)
    other.eval()
    likelihood.eval()
    new = table(75)[0].iloc[60:]
    inputs = fit._inputs(new.to_numpy())
    with torch.no_grad():
        f = other(inputs[:, :-1])
        theirs = fit._target.mean + fit._target.scale * f.mean.numpy()
    np.testing.assert_allclose(fit.predict(new), theirs, rtol=1e-6)


def test_rows_with_large_errors_count_less() -> None:
    rng = np.random.default_rng(1)
    x = np.linspace(0, 6, 60)
    err = np.where(np.arange(60) % 2, 3.0, 0.05)
    y = np.sin(x) + err * rng.normal(size=60)
    frame = pd.DataFrame({"x": x, "err": err})
    known = GPRegressor(kernel="rbf", noise_sd="err").fit(frame, y)
    plain = GPRegressor(kernel="rbf", target_transform="none").fit(frame[["x"]], y)
    grid = pd.DataFrame({"x": np.linspace(0.5, 5.5, 50)})
    errors = [np.abs(m.predict(grid) - np.sin(grid["x"])).max() for m in (known, plain)]
    assert errors[0] < 0.15 < errors[1]
    assert known.components_[-1].sd < 0.1  # what is left beside the known errors


def test_the_column_is_no_feature_and_the_model_is_saved(fit: Any, tmp_path: Path) -> None:
    X, y = table()
    assert len(fit.relevance_["layer1"]) == 2
    assert fit.standardiser_.varying_names == ["a", "b"]
    assert column_effects(fit, X).shape == (2,)
    fit.save(tmp_path / "model.safetensors")
    again: Any = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.log_density(X, y), fit.log_density(X, y))
    new = X.drop(columns="err")
    np.testing.assert_array_equal(again.predict_quantiles(new), fit.predict_quantiles(new))
    gaps = X.assign(err=X["err"].where(X.index > 3), a=X["a"].where(X.index != 9))
    found = prediction_table(fit, gaps, y)
    assert found.index[found["mean"].isna()].tolist() == [9]
    np.testing.assert_allclose(found["mean"].drop(9), np.delete(fit.predict(X), 9))
    parts = fit.decompose(X)
    np.testing.assert_allclose(parts.offset + parts.mean.sum(1), fit.predict(X))


@pytest.mark.slow
def test_a_searched_kernel_has_the_noise_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MOST_STEPS", 1), ("PERIODS", 1), ("STEPS_AFTER_TREND", 0)):
        monkeypatch.setattr(search, name, value)
    t = np.arange(60.0)
    rng = np.random.default_rng(0)
    err = np.where(t % 3 == 0, 4.0, 0.1)
    y = 0.5 * t + 5 * np.sin(2 * np.pi * t / 12) + err * rng.normal(size=60)
    model = GPRegressor(noise_sd="err").fit(pd.DataFrame({"t": t, "err": err}), y)
    assert "periodic(t)" in model.kernel_
    assert "err" not in model.kernel_


def test_bad_columns_of_noise_are_named() -> None:
    X, y = table(20)
    with pytest.raises(ConfigError, match="noise_sd='sd' cannot be used: the fit has no such"):
        GPRegressor(noise_sd="sd").fit(X, y)
    for cell, told in ((-1.0, "-1"), (np.nan, "nan"), (np.inf, "inf")):
        wrong = X.copy()
        wrong.loc[4, "err"] = cell
        with pytest.raises(DataError, match=f"Column err holds .* of row 5 is {told}: expected"):
            GPRegressor(noise_sd="err").fit(wrong, y)
    with pytest.raises(DataError, match="row 3, column a"):
        GPRegressor(noise_sd="err").fit(X.assign(a=X["a"].where(X.index != 2)), y)
    with pytest.raises(DataError, match="No column is left to learn from beside 'err'"):
        GPRegressor(noise_sd="err").fit(X[["err"]], y)
    with pytest.raises(ConfigError, match="target_transform='log' cannot be used with noise_sd"):
        GPRegressor(noise_sd="err", target_transform="log").fit(X, y)
    with pytest.raises(ConfigError, match="holds the noise and is no feature"):
        GPRegressor(noise_sd="err", kernel="rbf(a) + linear(err)").fit(X, y)
