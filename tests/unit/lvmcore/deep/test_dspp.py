"""Deep sigma point processes against dense algebra, draws of the layers, and one site."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor
from torch.distributions import MultivariateNormal, Normal, kl_divergence

from lvmcore.deep.dspp import DSPP, build_dspp, initial_quadrature, marginal_moments
from lvmcore.deep.dspp_objective import DSPPObjective, start_from_single_gp
from lvmcore.deep.dsvi import induced_deep_gp
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.kept_draws import DeepGPDraws
from lvmcore.deep.layer_kernel import JITTER
from lvmcore.deep.likelihoods import GaussianNoise, QExponentialNoise, SoftmaxClasses
from lvmcore.deep.objective import deep_schedule
from lvmcore.models.supervised.dspp import _FittedDSPP
from lvmcore.preprocessing.target_column import PredictiveMixture
from lvmcore.training.loop import train
from tests.unit.lvmcore.deep.small_models import (
    generator,
    gradients_are_slopes,
    kernel,
    table,
)


def model_of(
    X: Tensor,
    Y: Tensor,
    *,
    n_sites: int = 4,
    roughen: bool = True,
    likelihood: GaussianNoise | SoftmaxClasses | None = None,
    **settings: Any,
) -> DSPP:
    chosen = {"n_hidden": 1, "hidden_variance": 0.5, "spread": 0.1, "natural": False, **settings}
    likelihood = likelihood or GaussianNoise(0.1, X)
    model = build_dspp(DeepGPSettings(**chosen), X, Y, X[:6] + 0.1, likelihood, n_sites=n_sites)
    if roughen:
        with torch.no_grad():
            for parameter in model.parameters():
                moved = torch.randn(parameter.shape, generator=generator(5), dtype=X.dtype)
                parameter.add_(0.2 * moved)
    return model


def fit_of(model: DSPP, X: Tensor, Y: Tensor, **settings: Any) -> DSPPObjective:
    return DSPPObjective(
        model,
        X,
        Y,
        **{"kl_weight": 0.3, "batch_size": 1000, "generator": generator(3), **settings},
    )


def dense(layer: Any, q: Any, Z: Tensor, X: Tensor, p: int) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance of one function at rows without its mean function, and its divergence."""
    variance = layer.variance if layer.variance.dim() == 0 else layer.variance[p]
    share = 1.0 if layer.variance.dim() == 0 else variance
    eye = torch.eye(len(Z)).double()
    top = variance if layer.variance.dim() == 0 else 1.0
    K = share * (kernel(layer, Z, Z) + JITTER[Z.dtype] * top * eye)
    C = torch.linalg.cholesky(K)
    mean, half = C @ q.mean[p], C @ q.factor[p]
    A = torch.linalg.solve(K, share * kernel(layer, Z, X)).T
    spread = variance - ((A @ (K - half @ half.T)) * A).sum(1)
    divergence = kl_divergence(
        MultivariateNormal(mean, scale_tril=half),
        MultivariateNormal(torch.zeros(len(Z)).double(), K),
    )
    return A @ mean, spread, divergence


@torch.no_grad()
def test_without_hidden_layers_it_is_one_process_by_its_predictive_density() -> None:
    X, Y = table()
    model = model_of(X, Y, n_hidden=0, n_sites=5)
    assert model.log_weights.tolist() == [0.0]
    mean, variance, divergence = dense(model.last, model.last.q, model.Z[0], X, 0)
    noise = model.last.likelihood.site_scale
    terms = fit_of(model, X, Y).terms()
    wanted = Normal(mean, (variance + noise).sqrt()).log_prob(Y[:, 0]).sum()
    assert float(terms["data fit"]) == pytest.approx(float(wanted), rel=1e-6)
    assert float(terms["KL of the last layer"]) == pytest.approx(-0.3 * float(divergence), rel=1e-6)
    assert set(terms) == {"data fit", "KL of the last layer"}


@pytest.mark.parametrize("n_hidden", [1, 2])
@torch.no_grad()
def test_the_objective_is_that_of_a_mixture_made_by_hand(n_hidden: int) -> None:
    """Every path through the sites on its own, by dense matrices."""
    X, Y = table()
    model = model_of(X, Y, n_hidden=n_hidden)
    density, divergences = torch.zeros(len(X)).double(), {}
    weights = model.log_weights.exp()
    assert float(weights.sum()) == pytest.approx(1)
    assert float(weights.std()) > 0.02
    for s in range(4):
        at = X
        for number, layer in enumerate(model.hidden):
            parts = [dense(layer, layer.q, model.Z[number], at, d) for d in range(3)]
            mean = at @ layer.linear + torch.stack([part[0] for part in parts], 1)
            spread = torch.stack([part[1] for part in parts], 1)
            at = mean + model.sites[number][s] * (spread + layer.noise).sqrt()
            divergences[f"KL of layer {number + 1}"] = sum(float(part[2]) for part in parts)
        mean, spread, last = dense(model.last, model.last.q, model.Z[-1], at, 0)
        sd = (spread + model.last.likelihood.site_scale).sqrt()
        density += weights[s] * Normal(mean, sd).log_prob(Y[:, 0]).exp()
    terms = fit_of(model, X, Y).terms()
    assert float(terms.pop("data fit")) == pytest.approx(float(density.log().sum()), rel=1e-6)
    divergences["KL of the last layer"] = float(last)
    assert terms.keys() == divergences.keys()
    for name, divergence in divergences.items():
        assert float(terms[name]) == pytest.approx(-0.3 * divergence, rel=1e-6)


@torch.no_grad()
def test_a_hidden_layer_s_moments_are_those_of_its_draws() -> None:
    X, Y = table()
    model, S = model_of(X, Y), 100_000
    layer = model.hidden[0]
    layer_kernel = layer.kernel_at(model.Z[0])
    noise = torch.randn(S, 3, 6, generator=generator(1), dtype=torch.float64)
    drawn, left = layer.conditional_moments(layer_kernel, layer.draw(noise), X[:5])
    mean, variance = marginal_moments(layer, layer_kernel, X[:5])
    torch.testing.assert_close(drawn.mean(0), mean, rtol=0, atol=0.02)
    torch.testing.assert_close(drawn.var(0) + left, variance, rtol=0.03, atol=0.005)


@torch.no_grad()
def test_many_sites_of_a_normal_are_a_deep_process() -> None:
    """One hidden layer and ξ ~ N(0, I) of equal weight: DSVI's predictions under draws."""
    X, Y = table()
    S = 20_000
    model = model_of(X, Y, n_sites=S, hidden_variance=2.0, spread=0.5)
    model.weight_logits.zero_()
    model.sites[0].copy_(torch.randn(S, 3, generator=generator(1), dtype=torch.float64))
    settings = DeepGPSettings(n_hidden=1, natural=False)
    deep = induced_deep_gp(settings, X, Y, X[:6], GaussianNoise(0.1, X))
    ours = model.state_dict()
    deep.load_state_dict({name: ours[name] for name in deep.state_dict()})
    new, noise = table(4, seed=8)[0], model.last.likelihood.site_scale
    (mean, variance), (m, v) = (
        DeepGPDraws.from_model(gp, S, generator(2)).predict(new) for gp in (model, deep)
    )
    at = torch.linspace(-2, 2, 7, dtype=torch.float64)[:, None, None, None]
    found, wanted = (
        Normal(a, (b + noise).sqrt()).log_prob(at).exp().mean(1)
        for a, b in ((mean, variance), (m, v))
    )
    assert float(mean.std(0).min()) > 0.05  # the layer leaves something open
    torch.testing.assert_close(found, wanted, rtol=0.05, atol=0.005)


def test_gradients_of_the_objective() -> None:
    X, Y = table(n=12, H=2)
    model = model_of(X, Y, n_hidden=2)
    fit = fit_of(model, X, Y)
    assert any(parameter is model.weight_logits for parameter in fit.parameters())
    gradients_are_slopes(fit)


@torch.no_grad()
def test_batches_add_up_to_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = table(n=20)
    fit = fit_of(model_of(X, Y), X, Y, batch_size=5)
    found, whole = [fit.batch_terms() for _ in range(4)], fit.terms()
    for name, term in whole.items():
        assert float(sum(terms[name] for terms in found) / 4) == pytest.approx(float(term))
    monkeypatch.setattr("lvmcore.deep.deep_gp.CHUNK_CELLS", 4 * 6 * 3)
    for name, term in fit.terms().items():
        assert float(term) == pytest.approx(float(whole[name]))


@torch.no_grad()
def test_a_prediction_depends_on_its_row_alone() -> None:
    X, Y = table()
    model, new = model_of(X, Y, n_hidden=2), table(30, seed=8)[0]
    one, other = (DeepGPDraws.from_model(model, 4, generator(seed)) for seed in (0, 9))
    mean, variance = one.predict(new)
    order = torch.randperm(30, generator=generator())
    for some in (order, torch.tensor([4])):
        torch.testing.assert_close(other.predict(new[some]), (mean[:, some], variance[:, some]))
        for layer in (1, 2):
            torch.testing.assert_close(
                other.hidden_means(new[some], layer), one.hidden_means(new, layer)[some]
            )


def test_sites_begin_as_a_normal_s() -> None:
    like = torch.zeros(1).double()
    for S, width in ((2, 3), (8, 3), (5, 40)):
        sites = initial_quadrature(S, width, like)
        assert sites.shape == (S, width)
        torch.testing.assert_close(sites.mean(0), torch.zeros(width).double())
        torch.testing.assert_close(sites.square().mean(0), torch.ones(width).double())
    assert initial_quadrature(1, 2, like).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("width", [3, 2])
def test_it_begins_as_the_single_process(width: int) -> None:
    """Of what the linear means make of the rows: its density, q and all."""
    X, Y = table(n=60)
    settings = {"spread": 1e-8, "hidden_variance": 1e-10, "hidden_noise": 1e-10}
    model = model_of(X, Y, width=width, roughen=False, **settings)
    start_from_single_gp(model, X, Y, generator(), steps=40, settings=DeepGPSettings(n_hidden=0))
    assert float(model.last.likelihood.noise.detach()) < 0.1
    at = X @ model.hidden[0].linear
    alone = model_of(at, Y, n_hidden=0, roughen=False)
    alone.Z[0].data.copy_(model.Z[-1])
    alone.last.load_state_dict(model.last.state_dict())
    one, other = (fit_of(gp, x, Y).terms() for gp, x in ((model, X), (alone, at)))
    assert float(one["data fit"]) == pytest.approx(float(other["data fit"]), abs=0.01)
    # q is the single process's optimum: by its bound, no step from it is uphill.
    noise = model.last.likelihood.noise.detach()
    mean, variance = alone.posterior(draw := alone.draw(1, generator())).moments(
        draw.last, draw.last.cross(at), draw.last.diagonal(at)
    )
    fit = GaussianNoise(float(noise), X).expectation(Y, mean, variance).sum()
    bound = fit - alone.last.q.kl()
    for slope in torch.autograd.grad(bound, list(alone.last.q.parameters())):
        assert float(slope.abs().max()) < 0.02


def test_a_fit_raises_the_density_of_rows_held_out() -> None:
    X, Y = table(n=150)
    Y = torch.sign(X[:, :1]) + 0.1 * Y
    model = model_of(X[:120], Y[:120], roughen=False, hidden_variance=1e-3)
    fit = fit_of(model, X[:120], Y[:120])

    @torch.no_grad()
    def density() -> float:
        mean, variance = DeepGPDraws.from_model(model, 1, generator()).predict(X[120:])
        sd = (variance + model.last.likelihood.site_scale).sqrt()
        logs = Normal(mean, sd).log_prob(Y[120:])[..., 0] + model.log_weights[:, None]
        return float(torch.logsumexp(logs, 0).mean())

    start = density()
    train(fit, deep_schedule(fit, 120, 0.03), None)
    assert density() > start + 0.3


# ---- what it predicts ------------------------------------------------------------------


def test_a_mixture_with_weights_is_one_with_parts_repeated() -> None:
    rng = np.random.default_rng(0)
    mean, sd = rng.normal(size=(2, 5)), rng.uniform(0.3, 1, size=(2, 5))
    weighted = PredictiveMixture(mean, sd, np.array([1 / 3, 2 / 3]))
    repeated = PredictiveMixture(mean[[0, 1, 1]], sd[[0, 1, 1]])
    y = rng.normal(size=5)
    np.testing.assert_allclose(weighted.moments(), repeated.moments())
    np.testing.assert_allclose(weighted.log_density(y), repeated.log_density(y))
    np.testing.assert_allclose(weighted.cumulative(y), repeated.cumulative(y))
    levels = np.array([0.1, 0.5, 0.9])
    quantiles = weighted.quantiles(levels)
    np.testing.assert_allclose(quantiles, repeated.quantiles(levels))
    for column, level in zip(quantiles.T, levels, strict=True):
        np.testing.assert_allclose(weighted.cumulative(column), level)
    one = norm.pdf(y, mean[0], sd[0]) / 3 + 2 * norm.pdf(y, mean[1], sd[1]) / 3
    np.testing.assert_allclose(np.exp(weighted.log_density(y)), one)


# ---- classes ---------------------------------------------------------------------------


def classes(
    C: int, n: int = 24, *, roughen: bool = True, **settings: Any
) -> tuple[DSPP, Tensor, Tensor]:
    """A model of C classes, and its rows with the signs of their classes."""
    X, y = table(n)
    labels = torch.bucketize(y[:, 0], torch.linspace(-0.6, 0.6, C - 1).double())
    Y = -torch.ones(n, 1 if C == 2 else C).double()
    Y[labels == 1 if C == 2 else torch.arange(n), 0 if C == 2 else labels] = 1.0
    likelihood = SoftmaxClasses("probit" if C == 2 else "softmax", X)
    model = model_of(X, Y, likelihood=likelihood, roughen=roughen, **settings)
    if roughen:
        with torch.no_grad():
            for q in (*(layer.q for layer in model.hidden), model.last.q):
                q.mean.mul_(4)
    return model, X, Y


@pytest.mark.parametrize("C", [2, 3])
@torch.no_grad()
def test_the_objective_of_classes_is_the_mean_of_draws_of_its_functions(C: int) -> None:
    """Every site on its own, by dense matrices: f drawn, and its probit or softmax averaged."""
    model, X, Y = classes(C)
    rng, P = generator(7), Y.shape[1]
    probability, labels = torch.zeros(len(X), P).double(), Y.argmax(1, keepdim=True)
    divergence = 0.0
    for s in range(4):
        layer = model.hidden[0]
        parts = [dense(layer, layer.q, model.Z[0], X, d) for d in range(3)]
        spread = torch.stack([part[1] for part in parts], 1) + layer.noise
        at = X @ layer.linear + torch.stack([part[0] for part in parts], 1)
        at = at + model.sites[0][s] * spread.sqrt()
        last = [dense(model.last, model.last.q, model.Z[1], at, p) for p in range(P)]
        mean, spread = (torch.stack([part[i] for part in last], 1) for i in (0, 1))
        draws = torch.randn(100_000, 1, P, generator=rng, dtype=torch.float64)
        f = mean + spread.sqrt() * draws
        drawn = (torch.special.ndtr(f) if C == 2 else f.softmax(-1)).mean(0)
        probability += model.log_weights[s].exp() * drawn
        divergence = sum(float(part[2]) for part in last)
    terms = fit_of(model, X, Y).terms()
    of_row = (
        torch.where(Y > 0, probability, 1 - probability)
        if C == 2
        else probability.gather(1, labels)
    )
    # The mean softmax is over 128 quasi-random draws.
    error = 0.02 if C == 2 else 0.2
    assert float(terms["data fit"]) == pytest.approx(float(of_row.log().sum()), abs=error)
    assert float(of_row.log().sum()) < -5
    assert float(terms["KL of the last layer"]) == pytest.approx(-0.3 * divergence, rel=1e-6)
    # What it predicts is that mixture.
    fitted = _FittedDSPP(model)
    fitted.keep(50, generator(), None)
    found = fitted.probability(X)
    torch.testing.assert_close(found, probability, rtol=0, atol=0.01)
    own = torch.where(Y > 0, found, 1 - found) if C == 2 else found.gather(1, labels)
    assert float(terms["data fit"]) == pytest.approx(float(own.log().sum()), rel=1e-9)


@pytest.mark.parametrize("C", [2, 3])
def test_gradients_of_the_objective_of_classes(C: int) -> None:
    model, X, Y = classes(C, 12)
    gradients_are_slopes(fit_of(model, X, Y))


@pytest.mark.parametrize("C", [2, 3])
def test_classes_begin_as_the_single_process_s(C: int) -> None:
    """The last layer is a fitted process of the classes, and its kernel's variance is theirs."""
    settings = {"spread": 1e-8, "hidden_variance": 1e-10, "hidden_noise": 1e-10}
    model, X, Y = classes(C, 60, roughen=False, **settings)
    fit = fit_of(model, X, Y)
    before, variance = float(fit.terms()["data fit"]), float(model.last.variance.detach())
    start_from_single_gp(model, X, Y, generator(), steps=40, settings=DeepGPSettings(n_hidden=0))
    assert float(fit.terms()["data fit"]) > before + 20
    assert float(model.last.variance.detach()) > 1.2 * variance


@torch.no_grad()
def test_the_density_of_heavy_tailed_noise_is_that_of_its_mixture() -> None:
    """∫ N(f | mean, variance) p(y | f) df, by a sum over f."""
    mean, variance = torch.tensor([[0.3], [-1.0]]).double(), torch.tensor([[0.2], [0.5]]).double()
    Y, noise = torch.tensor([[0.5], [1.5]]).double(), QExponentialNoise(0.3, mean, 1.5)
    f = torch.linspace(-8, 8, 20_001, dtype=torch.float64)
    variances, weights = noise.noise_mixture
    each = Normal(f[:, None], variances.sqrt())
    for y, m, v, found in zip(Y, mean, variance, noise.log_density(Y, mean, variance), strict=True):
        likelihood = (weights * each.log_prob(y).exp()).sum(1)
        wanted = torch.trapezoid(Normal(m, v.sqrt()).log_prob(f).exp() * likelihood, f).log()
        assert float(found) == pytest.approx(float(wanted), abs=1e-4)
