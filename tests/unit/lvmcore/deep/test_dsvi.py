"""DSVI deep Gaussian processes and SVGP against dense algebra, quadrature and an optimiser."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate
from scipy.special import log_ndtr
from scipy.stats import norm
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from lvmcore.deep.deep_gp import DeepGP
from lvmcore.deep.dsvi import InducedDeepGP, induced_deep_gp
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.kept_draws import DeepGPDraws
from lvmcore.deep.layer_kernel import JITTER
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.objective import DeepGPObjective, deep_schedule
from lvmcore.deep.subset_of_data import subset_deep_gp
from lvmcore.gp.inducing_points import centroids
from lvmcore.training.loop import train
from lvmcore.training.schedule import Schedule
from tests.unit.lvmcore.deep.small_models import (
    evidence,
    generator,
    gradients_are_slopes,
    kernel,
    sod_fit,
    table,
)


def signs(X: Tensor, P: int) -> Tensor:
    """Labels of rows as ±1: one column for two classes, or one each."""
    if P == 1:
        return torch.sign(X[:, :1] + 0.3 * X[:, 1:2] ** 2 - 0.2)
    code = (X[:, 0] > 0).long() + (X[:, 1] > 0).long()
    return 2 * torch.nn.functional.one_hot(code, P).double() - 1


def model_of(
    X: Tensor,
    Y: Tensor,
    likelihood: GaussianNoise | SoftmaxClasses,
    *,
    roughen: bool = True,
    **settings: Any,
) -> InducedDeepGP:
    learned = settings.pop("learned", True)
    Z = X[:6] + 0.1
    chosen = DeepGPSettings(**{"n_hidden": 0, "hidden_variance": 1.0, "spread": 1e-2, **settings})
    model = induced_deep_gp(chosen, X, Y, Z, likelihood, learned=learned)
    if roughen:
        g = generator(5)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=g, dtype=X.dtype))
    return model


def total(terms: dict[str, Tensor]) -> float:
    return float(torch.stack(list(terms.values())).sum().detach())


def unwhitened(model: InducedDeepGP, p: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Z, K(Z), and mean and covariance of q(f_p(Z))."""
    Z = model.Z[-1]
    jitter = JITTER[Z.dtype] * model.last.variance * torch.eye(len(Z))
    K = kernel(model.last, Z, Z) + jitter
    draw = model.draw(1, generator())
    q, C = model.posterior(draw), draw.last.C
    root = q.root[min(p, len(q.root) - 1)]
    return Z, K, C @ q.mean[p], C @ root.T @ root @ C.T


def dense_moments(model: InducedDeepGP, X: Tensor, p: int) -> tuple[Tensor, Tensor]:
    """Of f_p at rows: K_nZ K⁻¹ μ and k_nn − K_nZ K⁻¹ (K − S) K⁻¹ K_Zn."""
    Z, K, mean, S = unwhitened(model, p)
    A = torch.linalg.solve(K, kernel(model.last, Z, X)).T
    return A @ mean, model.last.variance - ((A @ (K - S)) * A).sum(1)


def dense_kl(model: InducedDeepGP, p: int) -> Tensor:
    _, K, mean, S = unwhitened(model, p)
    prior = MultivariateNormal(torch.zeros_like(mean), K)
    return kl_divergence(MultivariateNormal(mean, S), prior)


@pytest.mark.parametrize("natural", [True, False])
@torch.no_grad()
def test_without_hidden_layers_the_bound_is_that_of_svgp(natural: bool) -> None:
    X, Y = table(P=2)
    model = model_of(X, Y, GaussianNoise(0.1, X), natural=natural)
    fit = sod_fit(model, X, Y)
    fit.batch_terms()
    noise, terms, wanted = model.last.likelihood.site_scale, fit.terms(), 0.0
    for p in range(2):
        mean, variance = dense_moments(model, X, p)
        error = ((Y[:, p] - mean) ** 2 + variance) / noise
        wanted += float(-0.5 * ((2 * math.pi * noise).log() + error).sum() - dense_kl(model, p))
        found = DeepGPDraws.from_model(model, 2, generator()).predict(X)
        torch.testing.assert_close(found[0][0, :, p], mean, rtol=1e-5, atol=1e-6)
        column = min(p, found[1].shape[2] - 1)
        torch.testing.assert_close(found[1][0, :, column], variance, rtol=1e-4, atol=1e-6)
    assert total(terms) == pytest.approx(wanted, rel=1e-5)
    assert total(terms) < evidence(model.last, X, Y)


@torch.no_grad()
def test_one_step_is_the_collapsed_bound() -> None:
    """log N(y | 0, Q + σ²I) − tr(K − Q)/(2σ²), Q = K_nZ K⁻¹ K_Zn (Titsias 2009)."""
    X, Y = table()
    model = model_of(X, Y, GaussianNoise(0.1, X))
    found = total(sod_fit(model, X, Y).batch_terms())
    Z, K, _, _ = unwhitened(model, 0)
    Kzx, noise = kernel(model.last, Z, X), model.last.likelihood.site_scale
    Q = Kzx.T @ torch.linalg.solve(K, Kzx)
    low_rank = MultivariateNormal(torch.zeros(len(X)).double(), Q + noise * torch.eye(len(X)))
    left = (model.last.variance - Q.diagonal()).sum() / (2 * noise)
    assert found == pytest.approx(float(low_rank.log_prob(Y[:, 0]) - left), abs=1e-5)


@torch.no_grad()
def test_a_probit_bound_is_that_of_quadrature() -> None:
    X, _ = table(n=12)
    Y = signs(X, 1)
    model = model_of(X, Y, SoftmaxClasses("probit", X))
    fit = sod_fit(model, X, Y)
    with torch.enable_grad():
        for _ in range(60):
            fit.batch_terms()
    mean, variance = (part.numpy() for part in dense_moments(model, X, 0))
    wanted = -float(dense_kl(model, 0))
    for t, m, v in zip(Y[:, 0].numpy(), mean, variance, strict=True):
        sd = np.sqrt(v)
        wanted += integrate.quad(
            lambda f, t=t, m=m, sd=sd: log_ndtr(t * f) * norm.pdf(f, m, sd),
            m - 9 * sd,
            m + 9 * sd,
        )[0]
    assert total(fit.terms()) == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize(("link", "P"), [("probit", 1), ("softmax", 3)])
@pytest.mark.parametrize("batch_size", [30, 8])
def test_q_of_classes_ends_where_no_gradient_is_left(link: Any, P: int, batch_size: int) -> None:
    """The optimiser finds no better q(v), whose every parameter is free.

    Steps over all rows get there by themselves; where they see some rows at a time, the end does.
    """
    X, _ = table(n=30)
    Y = signs(X, P)
    model = model_of(X, Y, SoftmaxClasses(link, X), roughen=False, batch_size=batch_size)
    fit = DeepGPObjective(model, X, Y, n_samples=1, batch_size=batch_size, generator=generator())
    for _ in range(60):
        steps = total(fit.batch_terms())
    best = total(fit.terms())
    if batch_size == 30:
        assert steps == pytest.approx(best, abs=2e-3)
    free = model_of(X, Y, SoftmaxClasses(link, X), roughen=False, natural=False)
    other = sod_fit(free, X, Y)
    q = free.last.q
    search = torch.optim.LBFGS(q.parameters(), max_iter=300, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        search.zero_grad()
        value = -torch.stack(list(other.batch_terms().values())).sum()
        value.backward()
        return value

    search.step(loss)
    assert best == pytest.approx(total(other.terms()), abs=2e-3)


@pytest.mark.parametrize(("link", "P"), [("probit", 1), ("softmax", 3)])
@pytest.mark.parametrize("n_hidden", [0, 1])
def test_labels_of_a_subset_are_rows_like_any_other(link: Any, P: int, n_hidden: int) -> None:
    """SoD with a likelihood that is not Gaussian: q̂ is free, and a row of S has a = Cᵀ."""
    X, _ = table(n=20)
    Y = signs(X, P)
    settings = DeepGPSettings(n_hidden=n_hidden, hidden_noise=1e-7, spread=1e-12)
    subset = subset_deep_gp(settings, X, Y, torch.arange(6), SoftmaxClasses(link, X))
    induced = induced_deep_gp(settings, X, Y, X[:6], SoftmaxClasses(link, X))
    fits = [sod_fit(model, X, Y) for model in (subset, induced)]
    for _ in range(25):
        for fit in fits:
            fit.batch_terms()
    one, other = (fit.terms(200) for fit in fits)
    assert float(one["data fit"] + one["subset fit"]) == pytest.approx(
        float(other["data fit"]), rel=0.02
    )
    for name in set(other) - {"data fit"}:
        assert float(one[name]) == pytest.approx(float(other[name]), rel=0.02)
        assert float(one[name]) <= 0


@torch.no_grad()
def test_the_hidden_draws_have_the_marginals_of_the_paper() -> None:
    """mean(x) + kᵀK⁻¹C m and k(x, x) − kᵀK⁻¹(K − C V Cᵀ)K⁻¹k, and the layer's noise."""
    X, Y = table()
    model = model_of(X, Y, GaussianNoise(0.1, X), n_hidden=1, spread=0.3)
    layer, Z, S = model.hidden[0], model.Z[0], 60_000
    draw = model.draw(S, generator(2))
    inputs = model.inputs(draw, X[:4], model.row_noise(S, 4, generator(3)))
    C, factor = draw.layer_kernels[0].C, layer.q.factor
    A = torch.linalg.solve(C @ C.T, kernel(layer, Z, X[:4])).T
    for d in range(3):
        half = C @ factor[d]
        spread = ((A @ (C @ C.T - half @ half.T)) * A).sum(1)
        mean = X[:4] @ layer.linear[:, d] + layer.variance[d].sqrt() * A @ C @ layer.q.mean[d]
        torch.testing.assert_close(inputs[..., d].mean(0), mean, rtol=0, atol=0.02)
        variance = layer.variance[d] * (1 - spread) + layer.noise
        torch.testing.assert_close(inputs[..., d].var(0), variance, rtol=0.05, atol=0.01)


@pytest.mark.parametrize("likelihood", ["gaussian", "probit", "softmax"])
def test_gradients_of_the_bound(likelihood: str) -> None:
    X, Y = table(n=10, H=2)
    if likelihood != "gaussian":
        Y = signs(X, 1 if likelihood == "probit" else 3)
    of = GaussianNoise(0.1, X) if likelihood == "gaussian" else SoftmaxClasses(likelihood, X)  # type: ignore[arg-type]
    model = model_of(X, Y, of, n_hidden=1, hidden_variance=0.3)
    fit = sod_fit(model, X, Y)
    fit.batch_terms()
    model.last.q.step = 0.0

    # The softmax's gradients are the exact ones of an average over draws: near, not equal.
    rel = 0.05 if likelihood == "softmax" else 1e-3
    gradients_are_slopes(fit, rel=rel, least=rel)


@pytest.mark.parametrize("learned", [True, False])
def test_inducing_inputs_move_where_they_may(learned: bool) -> None:
    X, Y = table(n=40)
    model = model_of(X, Y, GaussianNoise(0.1, X), roughen=False, n_hidden=1, learned=learned)
    before = [Z.detach().clone() for Z in model.Z]
    fit = sod_fit(model, X, Y)
    start = total(fit.terms(8))
    outcome = train(fit, Schedule(40, 0.02, 40), None, draws=8)
    assert outcome.objective > start
    assert set(outcome.history[-1].terms) == {
        "data fit",
        "KL of layer 1",
        "KL of the last layer",
    }
    for Z, old in zip(model.Z, before, strict=True):
        assert torch.equal(Z, old) != learned


@pytest.mark.slow(quick=["1000-probit-1", "16-probit-1"])
@pytest.mark.parametrize(("link", "P"), [("probit", 1), ("softmax", 3)])
@pytest.mark.parametrize("batch_size", [1000, 16])
def test_classes_are_learned(link: Any, P: int, batch_size: int) -> None:
    X, _ = table(n=80, H=2)
    Y = signs(X, P)
    for n_hidden in (0, 1):
        settings = DeepGPSettings(n_hidden=n_hidden, batch_size=batch_size)
        Z = centroids(X, 12, generator())
        model: DeepGP = induced_deep_gp(settings, X, Y, Z, SoftmaxClasses(link, X))
        fit = DeepGPObjective(
            model, X, Y, n_samples=3, batch_size=batch_size, generator=generator()
        )
        train(fit, deep_schedule(fit, 60), None)
        mean = DeepGPDraws.from_model(model, 10, generator()).predict(X)[0].mean(0)
        right = (mean * Y > 0)[:, 0] if P == 1 else mean.argmax(1) == Y.argmax(1)
        assert float(right.double().mean()) > 0.85


@pytest.mark.parametrize(("link", "P"), [("probit", 1), ("softmax", 3)])
@torch.no_grad()
def test_probabilities_and_densities_average_over_the_values(link: Any, P: int) -> None:
    mean = torch.randn(2, 4, P, generator=generator(), dtype=torch.float64)
    variance = mean.square() + 0.2
    likelihood = SoftmaxClasses(link, mean)
    found = likelihood.probability(mean, variance)
    normal = torch.randn(100_000, 2, 4, P, generator=generator(1), dtype=torch.float64)
    f = mean + variance.sqrt() * normal
    wanted = torch.special.ndtr(f) if P == 1 else f.softmax(-1)
    torch.testing.assert_close(found, wanted.mean(0), rtol=0, atol=0.01)
    for at in range(max(2, P)):
        Y = torch.full((4, P), -1.0).double()
        Y[:, at % P] = 1.0 if at < P else -1.0
        each = found[..., at] if at < P else 1 - found[..., 0]
        torch.testing.assert_close(likelihood.log_density(Y, mean, variance), each.log())


def test_single_precision_is_near_double_precision() -> None:
    X, Y = table(n=40)
    bounds = []
    for dtype in (torch.float64, torch.float32):
        model = model_of(X.to(dtype), Y.to(dtype), GaussianNoise(0.1, X.to(dtype)), roughen=False)
        fit = sod_fit(model, X.to(dtype), Y.to(dtype))
        bounds.append(train(fit, deep_schedule(fit, 30), None).objective)
        assert DeepGPDraws.from_model(model, 2, generator()).predict(X.to(dtype))[0].dtype == dtype
    assert bounds[1] == pytest.approx(bounds[0], abs=0.5)


@torch.no_grad()
def test_a_prediction_depends_on_its_row_alone() -> None:
    X, Y = table()
    model = model_of(X, Y, GaussianNoise(0.1, X), n_hidden=2)
    new = table(30, seed=8)[0]
    mean, variance = DeepGPDraws.from_model(model, 5, generator(2)).predict(new)
    order = torch.randperm(30, generator=generator())
    for some in (order, torch.tensor([4])):
        found = DeepGPDraws.from_model(model, 5, generator(2)).predict(new[some])
        torch.testing.assert_close(found[0], mean[:, some], rtol=0, atol=1e-10)
        torch.testing.assert_close(found[1], variance[:, some], rtol=0, atol=1e-10)
