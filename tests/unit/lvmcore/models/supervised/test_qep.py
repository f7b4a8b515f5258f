"""Q-exponential processes: the Gaussian at 2, bounds below the evidence, the best q, robustness."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore import ConfigError, load
from lvmcore.deep.dsvi import InducedDeepGP, induced_deep_gp
from lvmcore.deep.fit_method import InducedMethod
from lvmcore.deep.hidden_layer import InducingValues
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.layer_kernel import StationaryLayerKernel
from lvmcore.deep.likelihoods import GaussianNoise, QExponentialNoise, SoftmaxClasses
from lvmcore.deep.objective import DeepGPObjective
from lvmcore.deep.output_layer import InducingPosterior, ProjectedRows
from lvmcore.deep.posterior_updates import OptimumOfEachDraw, PosteriorUpdate
from lvmcore.models.supervised.deep_kernel import (
    DeepKernelGPClassifier,
    DeepKernelGPRegressor,
    DeepKernelQEPClassifier,
    DeepKernelQEPRegressor,
)
from lvmcore.models.supervised.dsvi import DSVIDeepGPClassifier, DSVIDeepGPRegressor
from lvmcore.models.supervised.qep import (
    DeepQEPClassifier,
    DeepQEPRegressor,
    QEPClassifier,
    QEPRegressor,
)
from lvmcore.models.supervised.svgp import SVGPClassifier, SVGPRegressor
from lvmcore.qep.distribution import covariance_factor, log_radial
from tests.unit.lvmcore.deep.small_models import (
    generator,
    gradients_are_slopes,
    sod_fit,
    table,
)

QS = (1.0, 1.5)


def model_of(
    X: Tensor,
    Y: Tensor,
    q: float,
    likelihood: GaussianNoise | SoftmaxClasses | None = None,
    *,
    M: int = 6,
    roughen: bool = True,
    each_draw: bool = True,
    **settings: Any,
) -> InducedDeepGP:
    chosen = DeepGPSettings(
        **{"n_hidden": 0, "hidden_variance": 0.3, "spread": 1e-2, "exponent": q, **settings}
    )
    noise = likelihood or QExponentialNoise(0.1, X, q)
    model = induced_deep_gp(chosen, X, Y, X[:M] + 0.1, noise, each_draw=each_draw)
    if roughen:
        g = generator(5)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=g, dtype=X.dtype))
    return model


def total(terms: dict[str, Tensor]) -> float:
    return float(torch.stack(list(terms.values())).sum().detach())


def settled(fit: DeepGPObjective, steps: int = 60) -> list[float]:
    """Bounds of steps in which q and the weights alone move."""
    with torch.no_grad():
        return [total(fit.batch_terms()) for _ in range(steps)]


# ---- the Gaussian ----------------------------------------------------------------------


class _LikeRegressor(DSVIDeepGPRegressor):
    method = InducedMethod(each_draw=True)


class _LikeSVGP(SVGPRegressor):
    """With Adam, as Q-EP models are fitted."""

    method = InducedMethod()


class _LikeClassifier(DSVIDeepGPClassifier):
    method = InducedMethod(each_draw=True)


DEEP = {"n_samples": 2, "n_layers": 1}
KERNEL = {"n_hidden": 8}


@pytest.mark.slow(
    quick=[
        "20-_LikeSVGP-QEPRegressor-settings0",
        "20-_LikeRegressor-DeepQEPRegressor-settings2",
        "2000-_LikeSVGP-QEPRegressor-settings0",
    ]
)
@pytest.mark.parametrize(
    ("twin", "model", "settings"),
    [
        (_LikeSVGP, QEPRegressor, {}),
        (SVGPClassifier, QEPClassifier, {}),
        (_LikeRegressor, DeepQEPRegressor, DEEP),
        (_LikeClassifier, DeepQEPClassifier, DEEP),
        (DeepKernelGPRegressor, DeepKernelQEPRegressor, KERNEL),
        (DeepKernelGPClassifier, DeepKernelQEPClassifier, KERNEL),
    ],
)
@pytest.mark.parametrize("batch_size", [2000, 20])
def test_at_two_it_is_the_gaussian_process(
    twin: Any, model: Any, settings: dict[str, Any], batch_size: int
) -> None:
    X, Y = (part.numpy() for part in table(n=60))
    y = np.digitize(Y[:, 0], [-0.5, 0.5]) if twin.task == "class" else Y[:, 0]
    given = {"n_inducing": 8, "max_iter": 12, "batch_size": batch_size, **settings}
    one = twin(**given, **({"kernel": "rbf"} if twin is _LikeSVGP else {})).fit(X, y)
    other = model(q=2.0, kernel="rbf", **given).fit(X, y)
    assert other.elbo_ == pytest.approx(one.elbo_, abs=1e-8)
    np.testing.assert_allclose(other.log_density(X, y), one.log_density(X, y), atol=1e-8)
    if twin.task == "number":
        for found, wanted in zip(
            other.predict(X, return_std=True), one.predict(X, return_std=True), strict=True
        ):
            np.testing.assert_allclose(found, wanted, atol=1e-8)


@pytest.mark.parametrize("n_hidden", [0, 1])
@torch.no_grad()
def test_the_general_formulas_end_at_the_gaussian_ones(n_hidden: int) -> None:
    """A hair below 2, where nothing takes the route of the Gaussian."""
    X, Y = table(P=2)
    near = model_of(X, Y, 2 - 1e-11, n_hidden=n_hidden)
    exact = model_of(X, Y, 2.0, GaussianNoise(0.1, X), n_hidden=n_hidden)
    one, other = sod_fit(near, X, Y), sod_fit(exact, X, Y)
    for _ in range(3):
        terms, wanted = one.batch_terms(), other.batch_terms()
        assert terms.keys() == wanted.keys()
        for name, term in wanted.items():
            assert float(terms[name]) == pytest.approx(float(term), abs=1e-7)
    assert total(one.terms(3)) == pytest.approx(total(other.terms(3)), abs=1e-7)
    mean, variance = torch.randn(2, 5, 24, 2, dtype=X.dtype, generator=generator())
    torch.testing.assert_close(
        QExponentialNoise(0.1, X, 2.0).expectation(Y, mean, variance.square()),
        GaussianNoise(0.1, X).expectation(Y, mean, variance.square()),
    )


# ---- the bound -------------------------------------------------------------------------


def log_student(v: Tensor, mean: Tensor, root: Tensor, degrees: float) -> Tensor:
    """log density of mean + root t, t multivariate with so many degrees of freedom, [S]."""
    n = len(mean)
    z = torch.linalg.solve_triangular(root, (v - mean).mT, upper=False).square().sum(0)
    constant = math.lgamma((degrees + n) / 2) - math.lgamma(degrees / 2)
    constant -= 0.5 * n * math.log(degrees * math.pi) + float(root.diagonal().log().sum())
    return constant - 0.5 * (degrees + n) * torch.log1p(z / degrees)


def sampled_evidence(model: InducedDeepGP, X: Tensor, Y: Tensor, q: float, S: int) -> Tensor:
    """log p(y), [] and its standard error, [], by draws of the values from near q, by weight.

    The noise is integrated out over g of |z| = |g|^{2/q}, so that nothing meets its pole.
    """
    draw = model.draw(1, generator())
    posterior = model.posterior(draw)
    M = posterior.mean.shape[-1]
    covariance = posterior.root[0].mT @ posterior.root[0]
    root, degrees, g = torch.linalg.cholesky(1.3 * covariance), 5.0, generator(8)
    normal = torch.randn(S, M, generator=g, dtype=X.dtype)
    chi = 2 * torch._standard_gamma(torch.full((S, 1), degrees / 2, dtype=X.dtype), generator=g)
    v = posterior.mean[0] + (normal / (chi / degrees).sqrt()) @ root.mT
    factor = covariance_factor(M, q)
    logs = log_radial(factor * v.square().sum(1), M, q) + 0.5 * M * factor.log()
    logs = logs - log_student(v, posterior.mean[0], root, degrees)
    a = draw.last.inverse @ draw.last.cross(X)
    mean, left = v @ a, draw.last.variance - a.square().sum(0)
    places = torch.linspace(-6, 6, 301, dtype=X.dtype)
    mass = (-0.5 * places.square()).log_softmax(0)
    sd = (model.last.likelihood.site_scale / covariance_factor(1, q)).sqrt()
    noise = sd * places.sign() * places.abs() ** (2 / q)
    for n, y in enumerate(Y[:, 0]):
        away = (y - mean[:, n, None] - noise).square() / left[n]
        each = -0.5 * (away + (2 * math.pi * left[n]).log()) + mass
        logs = logs + torch.logsumexp(each, 1)
    weights = (logs - logs.max()).exp()
    found = logs.max() + weights.mean().log()
    return torch.stack([found, weights.std() / weights.mean() / math.sqrt(S)])


@pytest.mark.slow
@pytest.mark.parametrize("q", [*QS, 2.0])
@torch.no_grad()
def test_the_bound_is_below_the_evidence(q: float) -> None:
    X, Y = table(n=10, H=2)
    Y = Y.clone()
    Y[3] += 1.5  # a row far off
    model = model_of(X, Y, q, M=4)
    fit = sod_fit(model, X, Y)
    bound = settled(fit)[-1]
    found, error = sampled_evidence(model, X, Y, q, 20_000)
    assert float(error) < 0.1
    assert bound < float(found) + 3 * float(error)
    assert bound > float(found) - 6 - 6 * (2 - q)


@pytest.mark.slow(quick=["1.5"])
@pytest.mark.parametrize("q", QS)
def test_turns_end_where_no_q_is_better(q: float) -> None:
    """No gradient is left by mean and root of q, though none was taken on the way."""
    X, Y = table(P=2)
    model = model_of(X, Y, q)
    fit = sod_fit(model, X, Y)
    bounds = settled(fit, 300)
    assert bounds[-1] > bounds[1] + 0.01
    assert bool((np.diff(bounds) > -1e-9).all())
    with torch.no_grad():
        draw = model.draw(1, generator())
        found = model.optimal_posterior(draw, X, Y, generator())
        rows = ProjectedRows.of_inputs(draw.last, X, Y)
    leaves = [found.mean.clone().requires_grad_(), found.root.clone().requires_grad_()]
    mine = InducingPosterior(*leaves)
    value = model.last.expected_log_likelihood(draw.last, mine, rows)[0] - mine.kl(q)
    assert float(value.detach()) == pytest.approx(bounds[-1], abs=1e-4)
    by_mean, by_root = torch.autograd.grad(value, leaves)
    assert float(by_mean.abs().max()) < 1e-2
    assert float(by_root.tril().abs().max()) < 1e-2
    g = generator(2)
    for size in (0.01, 0.1):
        away = [1 + size * torch.randn(leaf.shape, generator=g).double() for leaf in leaves]
        other = InducingPosterior(found.mean * away[0], found.root * away[1])
        with torch.no_grad():
            worse = model.last.expected_log_likelihood(draw.last, other, rows)[0] - other.kl(q)
        assert float(worse) < float(value.detach())


@pytest.mark.parametrize("q", QS)
@torch.no_grad()
def test_each_draw_has_the_q_of_its_own_rows(q: float) -> None:
    X, Y = table(n=40)
    model = model_of(X, Y, q, n_hidden=1, spread=0.3)
    fit = sod_fit(model, X, Y)
    settled(fit, 10)
    draw = model.draw(5, generator(1))
    h = model.inputs(draw, X, model.row_noise(5, len(X), generator(2)))
    rows = ProjectedRows.of_inputs(draw.last, h, Y)
    bounds = [
        float(model.last.expected_log_likelihood(draw.last, one, rows)[0] - one.kl(q))
        for one in (model.posterior(draw), model.optimal_posterior(draw, X, Y, generator(2)))
    ]
    assert bounds[1] > bounds[0] + 1
    state = model.last.q.prior.clone()
    model.optimal_posterior(draw, X, Y, generator(2))
    assert torch.equal(model.last.q.prior, state)


@pytest.mark.slow(quick=["1.5"])
@pytest.mark.parametrize("q", QS)
@torch.no_grad()
def test_a_step_takes_a_turn_for_its_own_draws(q: float, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = table(n=40)
    bounds = []
    for alone in (True, False):
        fit = sod_fit(model_of(X, Y, q, n_hidden=1, spread=0.3), X, Y)
        if not alone:
            monkeypatch.setattr(
                OptimumOfEachDraw, "_weights_of_each_draw", lambda self, draw, rows: (rows, None)
            )
        bounds.append(np.array(settled(fit)[20:]))
    assert (bounds[0] > bounds[1]).mean() > 0.9  # step by step, of the same draws


@pytest.mark.parametrize("kernel", ["rbf", "matern32"])
@pytest.mark.parametrize("likelihood", ["number", "probit", "softmax"])
def test_gradients_of_the_bound(
    likelihood: str, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, Y = table(n=10, H=2)
    of: Any = None
    if likelihood != "number":
        code = (X[:, 0] > 0).long() + (X[:, 1] > 0).long()
        Y = 2 * torch.nn.functional.one_hot(code, 3).double() - 1
        Y = Y[:, 1:2] if likelihood == "probit" else Y
        of = SoftmaxClasses(likelihood, X)  # type: ignore[arg-type]
    model = model_of(X, Y, 1.4, of, n_hidden=1, kernel=kernel)
    fit = sod_fit(model, X, Y)
    fit.batch_terms()
    model.last.q.step = 0.0
    monkeypatch.setattr(PosteriorUpdate, "_update_weights", lambda *_: None)
    rel = 0.05 if likelihood == "softmax" else 1e-3
    gradients_are_slopes(fit, rel=rel, least=rel)


@torch.no_grad()
def test_the_order_of_the_rows_changes_nothing() -> None:
    X, Y = table(n=30)
    order = torch.randperm(30, generator=generator(4))
    bounds = []
    for rows in (torch.arange(30), order):
        model = model_of(X, Y, 1.2)
        bounds.append(settled(sod_fit(model, X[rows], Y[rows]), 8))
    np.testing.assert_allclose(bounds[0], bounds[1], rtol=1e-10)


@torch.no_grad()
def test_rows_of_a_batch_alone_are_weighed_again() -> None:
    X, Y = table(n=30)
    fit = sod_fit(model_of(X, Y, 1.2, batch_size=7), X, Y, batch_size=7)
    assert fit.precision is not None
    before = fit.precision.clone()
    fit.batch_terms()
    assert int((fit.precision != before).sum()) == 7
    assert any(fit.precision is tensor for tensor in fit.state())
    terms = fit.terms()
    fit.precision.fill_(3.0)  # of steps alone: the bound of all rows finds its own
    assert total(fit.terms()) == pytest.approx(total(terms), abs=1e-9)


@pytest.mark.parametrize("q", QS)
def test_the_divergence_of_a_hidden_layer_is_that_of_one_block(q: float) -> None:
    mean = torch.randn(3, 4, generator=generator(), dtype=torch.float64)
    values = InducingValues(mean, 0.3, q).requires_grad_(False)
    flat = InducingPosterior(mean[None], (values.factor.mT)[None])
    square = mean.square().sum() + 12 * 0.3
    assert float(flat.square()[0]) == pytest.approx(float(square))
    factor = covariance_factor(12, q)
    entropy = 6 * (1 + math.log(2 * math.pi) + math.log(0.3))
    wanted = -entropy - float(log_radial(factor * square, 12, q) + 6 * factor.log())
    assert float(values.kl()) == pytest.approx(wanted)


# ---- the kernel ------------------------------------------------------------------------


def test_a_matern_layout_is_its_kernel() -> None:
    g = generator()
    Z, X = (torch.randn(n, 3, generator=g, dtype=torch.float64) for n in (4, 6))
    scales = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    v = torch.tensor(1.7, dtype=torch.float64)
    layer_kernel = StationaryLayerKernel.from_inputs(v, scales, Z, kernel="matern32")
    t = math.sqrt(3) * torch.cdist(Z / scales, X / scales)
    torch.testing.assert_close(layer_kernel.cross(X), v * (1 + t) * (-t).exp())
    torch.testing.assert_close(
        layer_kernel.cross(Z), layer_kernel.C @ layer_kernel.C.mT, rtol=0, atol=1e-6
    )
    Z.requires_grad_()
    met = StationaryLayerKernel.from_inputs(v, scales, Z, kernel="matern32").cross(Z.detach())
    (slope,) = torch.autograd.grad(met.sum(), Z)
    assert bool(torch.isfinite(slope).all())
    assert torch.autograd.gradcheck(
        lambda z: StationaryLayerKernel.from_inputs(v, scales, z, kernel="matern32").cross(X), (Z,)
    )


# ---- models ----------------------------------------------------------------------------


def with_rows_far_off(n: int = 120) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows, targets of which every eighth is far off, and what they would be."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, size=(n, 1))
    truth = np.sin(2 * X[:, 0])
    y = truth + 0.1 * rng.normal(size=n)
    y[::8] += rng.choice([-1, 1], size=len(y[::8])) * rng.uniform(2, 4, size=len(y[::8]))
    return X, y, truth


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "settings"),
    [
        (QEPRegressor, {}),
        (DeepQEPRegressor, DEEP),
        (DeepKernelQEPRegressor, {**KERNEL, "validation": 0.0}),
    ],
)
def test_rows_far_off_count_little(model: Any, settings: dict[str, Any]) -> None:
    X, y, truth = with_rows_far_off()
    errors = []
    for q in (2.0, 1.0):
        fitted = model(q=q, n_inducing=15, max_iter=150, **settings).fit(X, y)
        errors.append(float(np.abs(fitted.predict(X) - truth).mean()))
    assert errors[1] < 0.5 * errors[0]
    inside = np.abs(y - fitted.predict(X)) < 0.3
    assert 0.8 < inside.mean() < 0.9


@pytest.mark.slow(quick=["QEPRegressor"])
@pytest.mark.parametrize("model", [QEPRegressor, DeepQEPRegressor, DeepKernelQEPRegressor])
def test_targets_that_meet_their_function_are_no_pole(model: Any) -> None:
    """Equal rows with equal targets: the law's density has no bound there, the model's has."""
    X = np.repeat(np.linspace(-1, 1, 6), 10)[:, None]
    y = np.round(np.sin(3 * X[:, 0]), 1)
    settings = {"n_samples": 2} if model is DeepQEPRegressor else {}
    fitted = model(q=1.0, n_inducing=6, max_iter=150, **settings).fit(X, y)
    assert np.isfinite(fitted.elbo_)
    density = fitted.log_density(X, y)
    assert np.isfinite(density).all()
    assert np.abs(fitted.predict(X) - y).max() < 0.1


@pytest.mark.parametrize("n", [2, 3])
def test_few_rows_are_enough_for_an_answer(n: int) -> None:
    X, y = np.arange(n, dtype=float)[:, None], np.arange(n) ** 2.0
    for model in (QEPRegressor, DeepQEPRegressor, DeepKernelQEPRegressor):
        fitted = model(max_iter=10).fit(X, y)
        assert np.isfinite(fitted.elbo_)
        assert np.isfinite(fitted.log_density(X, y)).all()


@pytest.mark.parametrize("q", [0.0, 0.4, 2.5, -1.0, math.nan])
def test_other_q_are_refused(q: float) -> None:
    X, y, _ = with_rows_far_off(20)
    with pytest.raises(ConfigError, match=r"q=.* cannot be used"):
        QEPRegressor(q=q).fit(X, y)


def test_what_is_fitted_keeps_its_q_and_kernel(tmp_path: Path) -> None:
    X, y, _ = with_rows_far_off(40)
    model = DeepQEPRegressor(q=1.2, n_inducing=6, max_iter=5, n_samples=2).fit(X, y)
    before = model.log_density(X, y)
    model.set_params(q=2.0, kernel="rbf").save(tmp_path / "model.safetensors")
    again: Any = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.log_density(X, y), before)
    predicted = again.predictive(X)
    assert predicted.weights is not None
    assert len(predicted.weights) == 50 * 8
