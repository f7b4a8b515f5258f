"""The Q-EP latent variable model: the Gaussian one at q = 2, below it a fit of its own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import lvmcore
from lvmcore import QEPLVM, BayesianGPLVM
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.errors import ConfigError, DataError
from lvmcore.gp.objective import GPLVMObjective
from lvmcore.gp.paths import DataPath, LatentRows
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.qep.distribution import MIN_Q, conditional_shrinkage, covariance_factor
from lvmcore.qep.objective import QEPLVMObjective, QExponent
from lvmcore.training.checkpoint import Checkpoint

Array = NDArray[np.float64]

SETTINGS: dict[str, Any] = {
    "n_components": 2,
    "n_inducing": 8,
    "noise": "column",
    "start": "pca",
    "max_iter": 40,
}


@pytest.fixture(scope="module")
def X() -> Array:
    """Rows along a curve with a jump, [40, 4]."""
    rng = np.random.default_rng(3)
    t = np.linspace(-2, 2, 40)
    columns = [np.sin(2 * t), np.sign(t), t, t * np.sign(t)]
    return np.column_stack(columns) + 0.1 * rng.normal(size=(40, 4))


@pytest.fixture(scope="module")
def holed(X: Array) -> Array:
    return np.where(np.random.default_rng(1).random(X.shape) < 0.15, np.nan, X)


@pytest.fixture(scope="module")
def fitted(X: Array) -> QEPLVM:
    return QEPLVM(q=1.0, **{**SETTINGS, "max_iter": 120}).fit(X)


# ---- the Gaussian ----------------------------------------------------------------------


@pytest.mark.parametrize("gaps", [False, True])
def test_at_two_it_is_the_gaussian_model(X: Array, holed: Array, gaps: bool) -> None:
    rows = holed if gaps else X
    ours, twin = QEPLVM(q=2, **SETTINGS).fit(rows), BayesianGPLVM(**SETTINGS).fit(rows)
    assert ours.elbo_ == pytest.approx(twin.elbo_, abs=1e-8, rel=0)
    assert ours.q_ == 2
    np.testing.assert_allclose(ours.transform(rows[:6]), twin.transform(rows[:6]), atol=1e-8)
    points = np.random.default_rng(0).normal(size=(5, 2))
    one, two = ours.decode(points), twin.decode(points)
    np.testing.assert_allclose(one.mean, two.mean, atol=1e-8)
    np.testing.assert_allclose(one.variance, two.variance, atol=1e-8)
    if gaps:
        np.testing.assert_allclose(ours.impute(rows).variance, twin.impute(rows).variance)


def small_fit(gaps: bool) -> tuple[LatentRows, DataPath, FitProblem]:
    """What an objective takes, before any step."""
    generator = torch.Generator().manual_seed(0)
    Y = torch.randn(20, 3, generator=generator, dtype=torch.float64)
    observed = torch.rand(20, 3, generator=generator) < 0.8 if gaps else None
    if observed is not None:
        Y = Y * observed
    X = torch.randn(20, 2, generator=generator, dtype=torch.float64)
    path = DataPath(X[:6], torch.full((3,), 0.2).double(), pooled=gaps)
    return LatentRows(X, 0.3), path, FitProblem(InMemoryRows(Y, observed), (), 2, generator, None)


@pytest.mark.parametrize("gaps", [False, True])
def test_its_own_objective_meets_the_gaussian_one_at_two(gaps: bool) -> None:
    rows, path, problem = small_fit(gaps)
    usual, ours = (
        GPLVMObjective(rows, path, problem),
        QEPLVMObjective(rows, path, problem, QExponent(2.0)),
    )
    slopes = []
    for fit in (usual, ours):
        terms = fit.terms()
        total = terms["data fit"] + terms["KL of the map"]
        slopes.append((total, *torch.autograd.grad(total, list(usual.parameters()))))
    torch.testing.assert_close(slopes[1], slopes[0], rtol=1e-7, atol=1e-8)
    one, two = usual.decoder(), ours.decoder()
    torch.testing.assert_close(two.weights, one.weights)
    torch.testing.assert_close(two.noise, one.noise)
    for found, wanted in zip(two.predict(rows.mean), one.predict(rows.mean), strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("gaps", [False, True])
def test_the_gradient_of_its_objective_is_that_of_differences(gaps: bool) -> None:
    """Along random directions of each parameter; the kernel's variance scales the nugget too."""
    rows, path, problem = small_fit(gaps)
    with torch.no_grad():  # two inducing inputs close to one another, where the nugget matters
        path.Z[1] = path.Z[0] + 0.03
    fit = QEPLVMObjective(rows, path, problem, QExponent("learn"))
    generator, step = torch.Generator().manual_seed(1), 1e-4

    def bound() -> Tensor:
        return torch.stack(list(fit.terms().values())).sum()

    for parameter in fit.parameters():
        (slope,) = torch.autograd.grad(bound(), [parameter])
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        values = []
        for sign in (1, -2, 1):  # at +1, −1 and 0 steps
            with torch.no_grad():
                parameter.add_(sign * step * direction)
            values.append(float(bound().detach()))
        difference = (values[0] - values[1]) / (2 * step)
        found = float((slope * direction).sum().detach())
        assert found == pytest.approx(difference, rel=5e-5, abs=5e-6)


# ---- a fit -----------------------------------------------------------------------------


def test_the_bound_rises_and_the_rows_are_found_again(fitted: QEPLVM, X: Array) -> None:
    bounds = [step.objective for step in fitted.history_]
    assert fitted.elbo_ > bounds[0] + 40
    assert np.diff(bounds[20:]).min() > -5
    assert sum(fitted.history_[-1].terms.values()) == pytest.approx(bounds[-1])
    found = fitted.inverse_transform(fitted.transform(X))
    assert np.sqrt(np.square(found - X).mean()) < 0.25
    assert fitted.q_ == 1


def test_the_decoder_s_noise_is_that_of_one_more_row() -> None:
    rows, path, problem = small_fit(gaps=False)
    fit = QEPLVMObjective(rows, path, problem, QExponent(1.0))
    D, decoder = 3, fit.decoder()
    mean, variance, _ = decoder.moments(rows.mean, rows.variance)
    spread = (problem.Y - mean).square() + variance - decoder.noise
    e = (spread / path.noise).sum().detach()
    factor = covariance_factor(problem.Y.numel() + D, 1.0)
    wanted = conditional_shrinkage(factor * e, D, problem.Y.numel() + D, 1.0) / factor
    torch.testing.assert_close(decoder.noise / path.noise, wanted.expand(D), rtol=0.03, atol=0)


def test_values_are_spread_more_where_the_prior_is_wider(fitted: QEPLVM) -> None:
    """S above 1 is no fault: variances stay above the noise."""
    far = np.full((1, 2), 50.0)
    decoded = fitted.decode(np.vstack([far, fitted.embedding_.mean]))
    assert (decoded.variance > decoded.noise_variance).all()
    assert (decoded.variance[0] > decoded.variance[1:]).all()


@pytest.mark.slow(quick=["0.5", "1.0"])
@pytest.mark.parametrize("q", [0.5, 1.0, 1.5])
def test_places_do_not_depend_on_the_order_of_rows(q: float) -> None:
    """Inducing inputs on one line, as many as rows, lie on one another."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(size=(20, 3))
    model = QEPLVM(q=q, n_components=1, max_iter=5, random_state=1).fit(rows)
    places = model.transform(rows)
    for _ in range(10):
        order = rng.permutation(20)
        np.testing.assert_allclose(model.transform(rows[order]), places[order], rtol=0, atol=3e-9)


# ---- q learned -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def learned(X: Array) -> QEPLVM:
    return QEPLVM(q="learn", **{**SETTINGS, "max_iter": 80}).fit(X)


def test_a_learned_q_has_a_bound_no_lower_than_its_start(learned: QEPLVM, X: Array) -> None:
    assert MIN_Q < learned.q_ < 2
    assert learned.q_ != 1.5
    held = QEPLVM(q=1.5, **{**SETTINGS, "max_iter": 80}).fit(X)
    assert learned.elbo_ > held.elbo_
    assert [s.objective for s in learned.history_[:31]] == pytest.approx(
        [s.objective for s in held.history_[:31]]
    )


def test_a_learned_q_is_kept(learned: QEPLVM, X: Array, tmp_path: Path) -> None:
    learned.save(tmp_path / "model.safetensors")
    again = lvmcore.load(tmp_path / "model.safetensors")
    assert isinstance(again, QEPLVM)
    assert (again.q_, again.q) == (learned.q_, "learn")
    np.testing.assert_array_equal(again.transform(X[:4]), learned.transform(X[:4]))


def test_a_fit_that_learns_q_goes_on(learned: QEPLVM, X: Array, tmp_path: Path) -> None:
    settings = {**SETTINGS, "q": "learn", "max_iter": 80}
    path = tmp_path / "checkpoint.safetensors"
    for stop in (20, 50):
        QEPLVM(**settings)._fit_from(
            X, callback=lambda step, stop=stop: step.iteration >= stop, checkpoint=Checkpoint(path)
        )
    again = QEPLVM(**settings)._fit_from(X, checkpoint=Checkpoint(path))
    assert (again.elbo_, again.q_) == (learned.elbo_, learned.q_)


@pytest.mark.slow
def test_of_several_starts_the_best_one_s_q_is_kept(X: Array) -> None:
    model = QEPLVM(q="learn", n_restarts=3, **SETTINGS).fit(X)
    found = model.restarts_
    assert found is not None
    assert model.elbo_ == found.bounds.max()
    first = QEPLVM(q="learn", **SETTINGS).fit(X)
    assert (model.q_ == first.q_) == (found.kept == 0)


def test_q_stays_where_it_is_while_filling_is_checked(holed: Array) -> None:
    model = QEPLVM(q="learn", **SETTINGS).fit(holed)
    before = model.q_
    filled = model.impute(holed)
    assert np.isfinite(filled.mean).all()
    assert (filled.variance[np.isnan(holed)] > 0).all()
    assert (model.interval_scale_ >= 1).all()
    assert model.q_ == before


# ---- what cannot be fitted, and what only just can ----------------------------------------


@pytest.mark.parametrize("q", [0, 0.05, 2.5, -1, float("nan"), True, "auto", None])
def test_other_q_are_refused(X: Array, q: Any) -> None:
    with pytest.raises(ConfigError, match=r"q=.* cannot be used: expected a number from 0.1 to 2"):
        QEPLVM(q=q, **SETTINGS).fit(X)


def test_one_row_is_refused(X: Array) -> None:
    with pytest.raises(DataError, match="1"):
        QEPLVM(**SETTINGS).fit(X[:1])


@pytest.mark.parametrize("q", [MIN_Q, 1.0, "learn"])
def test_one_column_is_fitted(X: Array, q: Any) -> None:
    model = QEPLVM(q=q, n_inducing=5, max_iter=30).fit(X[:, 2:3])
    assert model.embedding_.mean.shape == (40, 1)
    assert np.isfinite(model.elbo_)
    assert np.isfinite(model.transform(X[:3, 2:3])).all()


@pytest.mark.slow(quick=["1.0"])
@pytest.mark.parametrize("q", [MIN_Q, 1.0])
def test_columns_that_are_followed_exactly_keep_a_finite_bound(q: float) -> None:
    """Rows on a straight line, twice each: the noise falls to its floor, and no radius to 0."""
    line = np.repeat(np.linspace(-1, 1, 10), 2)[:, None] * np.array([1.0, 2.0, -1.0])
    model = QEPLVM(q=q, n_components=1, n_inducing=8, max_iter=150).fit(line)
    assert np.isfinite(model.elbo_)
    assert (model.noise_variance_ > 0).all()
    assert np.isfinite(model.decode(model.embedding_.mean).variance).all()


def test_single_precision_is_near_to_double(X: Array) -> None:
    single, double = (QEPLVM(dtype=d, **SETTINGS).fit(X) for d in ("float32", "float64"))
    assert single.elbo_ == pytest.approx(double.elbo_, rel=1e-2)
