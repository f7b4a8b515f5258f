"""The exact Gaussian process: scikit-learn's as a second route, gradients, copies, limits."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from lvmcore import ConfigError, GPRegressor, SVGPRegressor, TableSize, load, persistence
from lvmcore.deep.dsvi import induced_deep_gp
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.likelihoods import GaussianNoise
from lvmcore.deep.objective import CollapsedObjective
from lvmcore.gp.exact_regression import (
    ExactGP,
    MarginalLikelihood,
    _LogDensityTerms,
    distinct_rows,
)
from lvmcore.kernels.stationary import matern52_correlation
from lvmcore.models import PREDICTORS
from lvmcore.models.supervised import svgp
from lvmcore.recommend.target_models import TargetSummary, propose_for_target, target_obstacle
from lvmcore.training.checkpoint import Checkpoint


def rows(n: int = 60) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("kernel", ["rbf", "matern52", "matern32"])
def test_likelihood_gradient_and_prediction_are_those_of_scikit_learn(kernel: Any) -> None:
    X, y = rows()
    model = GPRegressor(kernel=kernel, parameter_uncertainty=False).fit(X, y)
    gp = model._function.gp.requires_grad_(requires_grad=False)
    inner = {"rbf": RBF, "matern52": Matern, "matern32": Matern}[kernel]
    smooth = {} if kernel == "rbf" else {"nu": 2.5 if kernel == "matern52" else 1.5}
    scales = gp.kernel.only_component.log_lengthscales.detach().exp().numpy()
    variance = float(gp.kernel.summands[0].variance)
    other = GaussianProcessRegressor(
        ConstantKernel(variance) * inner(scales, **smooth) + WhiteKernel(float(gp.noise)),
        optimizer=None,
        alpha=0,
    )
    inputs, target = model._function.X.numpy(), model._function.Y.numpy()[:, 0]
    other.fit(inputs, target)
    assert model.elbo_ == pytest.approx(other.log_marginal_likelihood_value_, rel=1e-8)
    new = np.random.default_rng(1).normal(size=(7, 3))
    mean, sd = other.predict(model._standardiser.transform(new), return_std=True)
    found = model.predictive(new)
    np.testing.assert_allclose(found.mean[0], y.mean() + y.std() * mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.sd[0], y.std() * sd, rtol=1e-6)
    assert model.converged_
    # by the logarithms of v, ℓ and σ², at the optimum of our own
    slope = other.log_marginal_likelihood(other.kernel_.theta, eval_gradient=True)[1]
    assert np.abs(slope).max() < 0.05


@pytest.mark.parametrize("kernel", ["rbf", "matern52", "matern32"])
def test_the_gradient_is_that_of_differences(kernel: Any) -> None:
    X, y = (torch.as_tensor(part) for part in rows(12))
    gp = ExactGP.stationary(3, kernel, X)
    names = [f"gp.{name}" for name, _ in gp.named_parameters()]

    def bound(*parameters: torch.Tensor) -> Any:
        given = dict(zip(names, parameters, strict=True))
        A = torch.func.functional_call(_Noisy(gp), given, (X,))
        return _LogDensityTerms.apply(A, y[:, None])

    at = tuple(p.detach().clone().requires_grad_() for p in gp.parameters())
    assert torch.autograd.gradcheck(bound, at)


class _Noisy(torch.nn.Module):
    def __init__(self, gp: ExactGP) -> None:
        super().__init__()
        self.gp = gp

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.gp.noisy_covariance(X)


def test_the_gradient_of_matern52_is_that_of_differences() -> None:
    exponent = -torch.rand(9, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(matern52_correlation, exponent)


def test_the_collapsed_bound_has_the_gradient_of_its_closed_form() -> None:
    X, y = (torch.as_tensor(part) for part in rows(20))
    Y = y[:, None]
    noise = GaussianNoise(0.1, X)
    model = induced_deep_gp(DeepGPSettings(n_hidden=0), X, Y, X[::4], noise)
    fit = CollapsedObjective(
        model, X, Y, n_samples=1, batch_size=20, generator=torch.Generator().manual_seed(0)
    )
    layer = model.last.kernel_at(model.Z[0])
    k = layer.cross(X)
    Q = k.mT @ layer.precision @ k
    sigma = noise.noise
    exact = (
        torch.distributions.MultivariateNormal(
            torch.zeros(20).to(X), Q + sigma * torch.eye(20).to(X)
        ).log_prob(y)
        - 0.5 * (20 * layer.variance - Q.trace()) / sigma
    )
    parameters = list(fit.parameters())
    value = torch.stack(list(fit.terms().values())).sum()
    assert float(value.detach()) == pytest.approx(float(exact.detach()), rel=1e-8)
    for ours, theirs in zip(
        torch.autograd.grad(value, parameters), torch.autograd.grad(exact, parameters), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_the_kernel_is_that_of_the_highest_likelihood() -> None:
    X, y = rows()
    each = {
        name: GPRegressor(kernel=name).fit(X, y).elbo_ for name in ("rbf", "matern52", "matern32")
    }  # type: ignore[arg-type]
    best: Any = SVGPRegressor().fit(X, y)  # the exact process, without a search
    assert str(best._function.gp.kernel.expression) == max(each, key=lambda name: each[name])
    assert best.elbo_ == pytest.approx(max(each.values()), abs=0.05)


@pytest.mark.parametrize("scale", [1e-6, 1.0])
def test_few_inducing_inputs_do_not_explain_the_target_as_noise(
    monkeypatch: pytest.MonkeyPatch, scale: float
) -> None:
    """Not even from an exact process whose kernel no centroid shares with a row, or without noise.

    It tells the values of a column apart: an optimum of the marginal likelihood where a column has
    few values.
    """
    X, y = rows(200)

    def overfitted(X: torch.Tensor, Y: torch.Tensor, starts: Any, max_iter: int) -> ExactGP:
        del Y, max_iter
        gp = ExactGP(starts[0], X)
        with torch.no_grad():
            starts[0].only_component.log_lengthscales += np.log(scale)
            gp.log_noise.fill_(np.log(1e-6))
        return gp

    monkeypatch.setattr(svgp, "choose_kernel", overfitted)
    model = SVGPRegressor(n_inducing=15, kernel="rbf").fit(X, y)
    assert model.score(X, y) > 0.9
    standard = (y - y.mean()) / y.std()
    nothing_but_noise = float(norm.logpdf(standard).sum())
    assert model.history_[0].objective > nothing_but_noise  # the start
    assert model.elbo_ > nothing_but_noise + 100


def test_a_sparse_process_with_a_point_at_every_row_is_the_exact_one(tmp_path: Path) -> None:
    X, y = rows()
    sparse, exact = SVGPRegressor().fit(X, y), GPRegressor(kernel="rbf").fit(X, y)
    assert sparse.settings_["n_inducing"] == 60
    assert sparse.elbo_ == exact.elbo_
    np.testing.assert_array_equal(sparse.predict(X), exact.predict(X))
    sparse.save(tmp_path / "sparse.safetensors")
    again: Any = load(tmp_path / "sparse.safetensors")
    np.testing.assert_array_equal(again.predict(X), sparse.predict(X))
    few = SVGPRegressor(n_inducing=20).fit(X, y)
    assert few.elbo_ < exact.elbo_ + 1e-6
    assert few._function.gp.n_inducing == 20  # type: ignore[attr-defined]


def test_a_file_of_an_earlier_version_keeps_its_kernel(tmp_path: Path) -> None:
    X, y = rows()
    path, earlier = tmp_path / "sparse.safetensors", tmp_path / "earlier.safetensors"
    model = SVGPRegressor(kernel="rbf", n_inducing=20).fit(X, y)
    model.save(path)
    arrays, meta = persistence.read(path)
    for part in ("parameters", "settings"):
        del meta[part]["kernel"]
    persistence.write(earlier, arrays, meta)
    again: Any = load(earlier)
    assert again.kernel == "rbf"
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_copies_count_once_and_replicates_as_often_as_they_are() -> None:
    X, y = rows(30)
    twice, copied = np.vstack([X, X[:10]]), np.concatenate([y, y[:10]])
    model = GPRegressor(kernel="rbf").fit(twice, copied)
    assert model._function.X.shape[0] == 30
    assert "10 rows are copies" in model.notes_[0]
    copied[-1] += 0.2  # a replicate: the noise is known from it
    both = torch.as_tensor(twice), torch.as_tensor(copied)[:, None]
    assert len(distinct_rows(*both)) == 40
    assert GPRegressor(kernel="rbf").fit(twice, copied).notes_ == ()


def test_a_table_with_too_many_rows_is_refused_and_another_model_proposed() -> None:
    X = np.random.default_rng(0).normal(size=(30_001, 1))
    with pytest.raises(ConfigError, match=r"30,001 rows.*SVGPRegressor"):
        GPRegressor().fit(X, X[:, 0])
    short = TargetSummary("y", "number", numeric=True, distinct=900, rows=2000, columns=3)
    long = replace(short, rows=30_001)
    assert propose_for_target(PREDICTORS, short).key == "gp_regressor"
    assert propose_for_target(PREDICTORS, long).key == "svgp_regressor"
    assert target_obstacle(GPRegressor, short) is None
    assert "30,000 rows" in str(target_obstacle(GPRegressor, long))


def test_inducing_points_are_advised_by_the_rows() -> None:
    advised = {
        n: SVGPRegressor.suggest(TableSize(n_rows=n, n_columns=4))
        for n in (300, 2000, 5000, 50_000)
    }
    assert [one["n_inducing"] for one in advised.values()] == [300, 2000, 200, 100]
    assert [one["batch_size"] for one in advised.values()] == [300, 2000, 5000, 2000]


def test_steps_of_some_rows_have_fewer_inducing_points() -> None:
    X, y = rows(250)
    for settings in ({"batch_size": 100}, {"validation": 0.1}):
        model = SVGPRegressor(max_iter=2, **settings).fit(X, y)
        assert model.settings_["n_inducing"] == 200
        assert model.n_inducing is None


def test_the_objective_has_the_sum_of_its_terms() -> None:
    X, y = (torch.as_tensor(part) for part in rows(15))
    gp = ExactGP.stationary(3, "rbf", X)
    terms = MarginalLikelihood(gp, X, y[:, None]).terms()
    A = gp.noisy_covariance(X)
    exact = torch.distributions.MultivariateNormal(torch.zeros(15).to(X), A).log_prob(y)
    found = torch.stack(list(terms.values())).sum().detach()
    assert float(found) == pytest.approx(float(exact.detach()), rel=1e-10)


# ---- kernel expressions ------------------------------------------------------------------------


def series(n: int = 90) -> tuple[pd.DataFrame, NDArray[Any]]:
    """A trend, a changing period of 12 and noise, by month; and a column without use."""
    rng = np.random.default_rng(0)
    month = np.arange(n, dtype=float)
    wave = (1 + 0.01 * month) * np.sin(2 * np.pi * month / 12)
    y = 0.05 * month + wave + 0.1 * rng.normal(size=n)
    return pd.DataFrame({"month": month, "other": rng.normal(size=n)}), y


def test_a_composed_kernel_has_the_likelihood_and_predictions_of_scikit_learn() -> None:
    X, y = rows(40)
    model = GPRegressor(kernel="rbf + linear * matern32").fit(X, y)
    gp = model._function.gp.requires_grad_(requires_grad=False)
    first, second = gp.kernel.summands
    component: Any = first.factors[0]
    line, rough = (factor.component for factor in second.factors)  # type: ignore[union-attr]
    weights = line.weights.numpy()
    inputs, target = model._function.X.numpy(), model._function.Y.numpy()[:, 0]
    K = float(first.variance) * RBF(component.component.log_lengthscales.exp().numpy())(inputs)
    straight = (inputs * weights) @ inputs.T
    smooth = Matern(rough.log_lengthscales.exp().numpy(), nu=1.5)(inputs)
    K += float(second.variance) * straight * smooth + float(gp.noise) * np.eye(40)
    exact = multivariate_normal(np.zeros(40), K).logpdf(target)
    assert model.elbo_ == pytest.approx(exact, rel=1e-8)
    found = model.predictive(X[:5])
    alpha = np.linalg.solve(K, target)
    mean = (K - float(gp.noise) * np.eye(40))[:5] @ alpha
    np.testing.assert_allclose(found.mean[0], y.mean() + y.std() * mean, rtol=1e-6, atol=1e-8)


def test_a_period_is_found_in_the_unit_of_the_column_and_extrapolates(tmp_path: Path) -> None:
    X, y = series()
    text = "linear(month) + rbf(month) * periodic(month)"
    model = GPRegressor(kernel=text).fit(X[:70], y[:70])
    assert model.kernel_ == text
    component: Any = model._function.gp.kernel.summands[1].factors[1]
    period = float(component.component.period.detach()) * model._standardiser.scale[0]
    assert period == pytest.approx(12, rel=0.02)
    assert model.relevance_["layer1"][1] == 0  # of the column that the kernel does not name
    plain = GPRegressor(kernel="rbf").fit(X[:70], y[:70])
    better = model.log_density(X[70:], y[70:]).mean() - plain.log_density(X[70:], y[70:]).mean()
    assert better > 1
    path = tmp_path / "series.safetensors"
    model.save(path)
    again: Any = load(path)
    assert again.kernel_ == text
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.predictive(X).sd, model.predictive(X).sd)


def test_a_given_period_stays() -> None:
    X, y = series()
    model = GPRegressor(kernel="periodic(month, period=10)").fit(X, y)
    component: Any = model._function.gp.kernel.only_component
    period = float(component.period.detach()) * model._standardiser.scale[0]
    assert period == pytest.approx(10)


def test_a_stopped_fit_of_a_composed_kernel_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    X, y = series(60)
    text = "rbf(month) * periodic(month) + matern12"
    whole = GPRegressor(kernel=text, max_iter=25).fit(X, y)
    path = tmp_path / "checkpoint.safetensors"
    GPRegressor(kernel=text, max_iter=25)._fit_from(
        X, y, callback=lambda step: step.iteration >= 6, checkpoint=Checkpoint(path)
    )
    second = GPRegressor(kernel=text, max_iter=25)._fit_from(X, y, checkpoint=Checkpoint(path))
    assert second.elbo_ == whole.elbo_
    np.testing.assert_array_equal(second.predict(X), whole.predict(X))


@pytest.mark.parametrize("kernel", ["rbf", "matern32"])
def test_files_from_before_kernel_expressions_predict_the_same(kernel: str, tmp_path: Path) -> None:
    X, y = rows()
    model = GPRegressor(kernel=kernel).fit(X, y)
    path, earlier = tmp_path / "model.safetensors", tmp_path / "earlier.safetensors"
    model.save(path)
    arrays, meta = persistence.read(path)
    before = {
        "gp.kernel.parts.0.parts.0.component.log_lengthscales": "gp.log_lengthscales",
        "gp.kernel.parts.0.log_variance": "gp.log_variance",
    }
    names = {name: before.get(name, name) for name in arrays}
    assert set(before) <= set(names)
    persistence.write(earlier, {names[name]: value for name, value in arrays.items()}, meta)
    again: Any = load(earlier)
    assert again.kernel_ == kernel
    np.testing.assert_array_equal(again.predictive(X).sd, model.predictive(X).sd)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("rbf(mnth)", r"'mnth'.*did you mean 'month'"),
        ("rbf(same)", "'same', which has one value in all rows"),
        ("rbf +", "ends too early"),
        ("sine(month)", "'sine' is no kernel"),
        ("cosine", "acts on one column"),
        (3, "expected a text such as linear"),
    ],
)
def test_a_kernel_that_cannot_be_used_is_refused(kernel: Any, message: str) -> None:
    X, y = series(20)
    X["same"] = 1.0
    with pytest.raises(ConfigError, match=message):
        GPRegressor(kernel=kernel).fit(X, y)


def test_columns_without_names_are_numbers_in_quotes() -> None:
    X, y = rows(30)
    model = GPRegressor(kernel='rbf("1") + linear("2", "3")', max_iter=5).fit(X, y)
    assert model.kernel_ == 'rbf("1") + linear("2", "3")'
