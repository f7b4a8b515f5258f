"""Fits of more rows than are factorised at once, against the Cholesky factor of all rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray

from lvmcore import ConfigError, GPRegressor, UnsupportedError, load
from lvmcore.export.gpytorch.exported_model import exported_model
from lvmcore.gp import exact_method
from lvmcore.gp.conjugate_gradients import conditioning
from lvmcore.gp.conjugate_gradients.conditioning import Conditioning, SolveProgress
from lvmcore.gp.conjugate_gradients.posterior import BlockPosterior
from lvmcore.gp.exact_regression import ExactRows, GPPosterior, MarginalLikelihood
from lvmcore.kernels.hyperpriors import read_priors
from lvmcore.results import FitStep
from lvmcore.training.checkpoint import Checkpoint
from tests.unit.lvmcore.gp.conjugate_gradients.test_operators import draw, process


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits of 200 rows, with which a preconditioner of 30 rows leaves something to do."""
    monkeypatch.setattr(exact_method, "CHOLESKY_ROWS", 200)
    monkeypatch.setattr(exact_method, "SUBSET_ROWS", 150)
    monkeypatch.setattr(conditioning, "PRECONDITIONER_PIVOTS", 30)
    monkeypatch.setattr(conditioning, "VARIANCE_PIVOTS", 20)


def rows(n: int = 400) -> tuple[pd.DataFrame, NDArray[Any]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = np.exp(np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n))
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(s=rng.uniform(0.05, 0.2, n)), y


SETTINGS: list[dict[str, Any]] = [
    {"kernel": "matern32", "target_transform": "none"},
    {"kernel": "rbf(a) + linear * matern12(a, b)", "target_transform": "log"},
    {"kernel": "rbf", "noise_sd": "s", "target_transform": "none"},
    {"kernel": "rbf", "priors": "noise: half_cauchy(0.1)", "target_transform": "yeo-johnson"},
]


@pytest.mark.slow
@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_predictions_and_likelihood_are_those_of_the_factor(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    X, y = rows()
    X = X if "noise_sd" in settings else X.drop(columns="s")
    model = GPRegressor(max_iter=30, **settings).fit(X, y)
    assert model.notes_ == () or model.notes_[0].startswith("The target is modelled")
    function, priors = model._function, read_priors(settings.get("priors", ""))
    found, data = function.posterior, function.rows
    assert isinstance(found, BlockPosterior)
    assert len(data.X) == 400
    exact = GPPosterior(function.gp, data.X, data.Y, data.known)
    new = 1.2 * draw(150, data.X.shape[1], 3)
    (mean, variance), (expected, true) = found.moments(new), exact.moments(new)
    assert float((mean - expected).abs().max()) < 1e-4
    ratio = (variance / true).sqrt().detach()
    assert float((ratio - 1).abs().median()) < 0.05
    assert float((ratio - 1).abs().max()) < 0.2
    assert float((variance - function.gp.noise).detach().min()) >= 0
    torch.testing.assert_close(found.summand_means(), exact.summand_means(), rtol=0, atol=1e-4)
    # the marginal likelihood of all rows
    transformed = model.target_transform_.is_identity
    jacobian = 0.0 if transformed else model._target.log_jacobian(y)
    fit = MarginalLikelihood(function.gp, data.X, data.Y, jacobian, data.known, priors)
    total = sum(float(term.detach()) for term in fit.terms().values())
    assert model.elbo_ == pytest.approx(total, abs=0.01 * len(y))
    # a file, and the same fit again
    path = tmp_path / "model.safetensors"
    model.save(path)
    again: Any = load(path)
    np.testing.assert_array_equal(again.predictive(X).mean, model.predictive(X).mean)
    np.testing.assert_array_equal(again.predictive(X).sd, model.predictive(X).sd)


@pytest.mark.usefixtures("few_at_once")
def test_the_parameters_are_those_of_a_subset_and_the_fit_is_that_of_its_seed() -> None:
    X, y = rows()
    data, settings = X[["a", "b"]], {"kernel": "rbf", "target_transform": "none", "max_iter": 20}
    first, second = (GPRegressor(**settings).fit(data, y) for _ in range(2))
    np.testing.assert_array_equal(first.predictive(data).sd, second.predictive(data).sd)
    assert first.elbo_ == second.elbo_
    other = GPRegressor(random_state=7, **settings).fit(data, y)
    assert str(first._function.gp.state_dict()) == str(other._function.gp.state_dict())
    np.testing.assert_allclose(other.predict(data), first.predict(data), atol=1e-4)
    shares = [one.share for one in first.components_]
    assert sum(shares) == pytest.approx(1.0)
    parts = first.decompose(data[:20])
    np.testing.assert_allclose(
        parts.offset + parts.mean.sum(1), first.predict(data[:20]), atol=1e-8
    )
    assert (parts.variance >= 0).all()
    with pytest.raises(UnsupportedError, match="400 rows cannot be exported"):
        exported_model(first)


@pytest.mark.slow
@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("after", [3, 22])
def test_a_stopped_fit_is_usable_and_goes_on_as_if_it_had_not_been(
    after: int, tmp_path: Path
) -> None:
    """After a step of the optimisation, and after an iteration of the solve."""
    X, y = rows()
    data = X[["a", "b", "c"]]

    def model() -> GPRegressor:
        return GPRegressor(kernel="matern32", target_transform="log", max_iter=20)

    steps: list[FitStep] = []
    whole = model().fit(data, y, callback=steps.append)
    assert after == 3 or len(whole.history_) < after < len(steps)
    assert [step.iteration for step in steps] == list(range(1, len(steps) + 1))
    assert steps[-1].ends
    assert steps[-1].left == 0
    stopped = model()._fit_from(
        data,
        y,
        callback=lambda step: step.iteration >= after,
        checkpoint=Checkpoint(tmp_path / "checkpoint.safetensors"),
    )
    assert "predictions are those of 150 of the 400 rows" in " ".join(stopped.notes_)
    assert stopped._function.seconds_left > 0
    gains = stopped.log_density(data, y) - np.log(1 / (np.sqrt(2 * np.pi * np.e) * y.std()))
    assert gains.mean() > 0.3  # better than one normal distribution
    seen: list[int] = []
    resumed = model()._fit_from(
        data,
        y,
        callback=lambda step: seen.append(step.iteration),
        checkpoint=Checkpoint(tmp_path / "checkpoint.safetensors"),
    )
    assert seen == list(range(after + 1, len(steps) + 1))
    assert resumed.elbo_ == whole.elbo_
    assert len(resumed.history_) == len(whole.history_)
    np.testing.assert_array_equal(resumed.predictive(data).mean, whole.predictive(data).mean)
    np.testing.assert_array_equal(resumed.predictive(data).sd, whole.predictive(data).sd)


@pytest.mark.usefixtures("few_at_once")
def test_a_solve_that_does_not_converge_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditioning, "MOST_ITERATIONS", 2)
    X, y = rows()
    model = GPRegressor(kernel="matern12", target_transform="none", max_iter=5).fit(X[["a"]], y)
    assert "after 2 iterations" in model.notes_[0]


@pytest.mark.usefixtures("few_at_once")
def test_held_out_rows_are_tracked_during_the_optimisation() -> None:
    X, y = rows()
    data, settings = X[["a", "b"]], {"kernel": "rbf", "target_transform": "none", "max_iter": 20}
    plain = GPRegressor(**settings).fit(data, y)
    tracked = GPRegressor(**settings).fit(data, y, held_out=(data[:50], y[:50]))
    assert np.isfinite([step.held_out for step in tracked.history_]).any()
    np.testing.assert_array_equal(tracked.predict(data), plain.predict(data))


@pytest.mark.slow
def test_the_likelihood_and_the_mean_of_3000_rows_are_those_of_the_factor() -> None:
    gp, X = process("matern32 + linear", 4), draw(3000, 4)
    with torch.no_grad():
        gp.log_noise.fill_(np.log(0.05))
    y = torch.sin(2 * X[:, :1]) + 0.5 * X[:, 1:2] + 0.2 * draw(3000, 1, 1)
    conditioned = Conditioning(gp, ExactRows(X, y), 0)
    conditioned.solve(SolveProgress())
    assert conditioned.error <= 1e-6
    new, exact = draw(300, 4, 2), GPPosterior(gp, X, y)
    (mean, variance), (expected, true) = conditioned.posterior().moments(new), exact.moments(new)
    assert float((mean - expected).abs().max()) < 1e-4
    sds = (variance / true).sqrt()
    assert float(sds.min()) > 0.95
    assert float(sds.max()) < 1.05
    terms = conditioned.terms()
    fit = -0.5 * float((y * exact.alpha).sum()) - 1500 * np.log(2 * np.pi)
    assert terms["data fit"] == pytest.approx(fit, rel=1e-6)
    log_det = -float(exact.factor.diagonal().log().sum())
    assert terms["complexity"] == pytest.approx(log_det, abs=0.005 * 3000)


def test_too_many_rows_are_refused_before_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert GPRegressor.most_rows == 30_000
    monkeypatch.setattr(GPRegressor, "most_rows", 300)
    X, y = rows()
    with pytest.raises(ConfigError, match=r"400 rows.*at most 300.*SVGPRegressor"):
        GPRegressor().fit(X, y)
