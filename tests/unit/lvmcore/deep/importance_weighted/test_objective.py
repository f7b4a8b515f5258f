"""The importance-weighted bound against dense algebra, quadrature over w, brute force and DSVI."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, Normal, kl_divergence

from lvmcore.deep.deep_gp import FunctionDraw
from lvmcore.deep.dsvi import induced_deep_gp
from lvmcore.deep.importance_weighted.noise_input_gp import (
    NoiseInputDeepGP,
    noise_input_deep_gp,
)
from lvmcore.deep.importance_weighted.objective import ImportanceWeightedObjective
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.likelihoods import GaussianNoise
from lvmcore.deep.objective import DeepGPObjective
from lvmcore.deep.output_layer import GaussianSites
from lvmcore.numerics.quasi_random import standard_normal
from tests.unit.lvmcore.deep.small_models import generator, gradients_are_slopes, kernel, table


def model_of(
    X: Tensor, Y: Tensor, *, n_noise: int = 1, roughen: bool = True, **settings: Any
) -> NoiseInputDeepGP:
    """A model on the first rows; ``roughen`` moves its parameters off their special start."""
    chosen = DeepGPSettings(
        **{"n_hidden": 0, "hidden_variance": 0.5, "spread": 0.1, "natural": False, **settings}
    )
    model = noise_input_deep_gp(
        chosen,
        X,
        Y,
        X[:6] + 0.1,
        GaussianNoise(0.1, X),
        n_noise=n_noise,
        generator=generator(4),
    )
    if roughen:
        with torch.no_grad():
            for parameter in model.parameters():
                moved = torch.randn(parameter.shape, generator=generator(5), dtype=X.dtype)
                parameter.add_(0.2 * moved)
    return model


def fit_of(
    model: NoiseInputDeepGP, X: Tensor, Y: Tensor, **settings: Any
) -> ImportanceWeightedObjective:
    chosen = {"n_importance": 3, "n_samples": 4, "batch_size": 1000, "generator": generator(3)}
    return ImportanceWeightedObjective(model, X, Y, **{**chosen, **settings})


def expectations(model: NoiseInputDeepGP, draw: FunctionDraw, inputs: Tensor, Y: Tensor) -> Tensor:
    """E log N(y | f, σ²) at inputs [n, U] of the last layer and targets [n], by dense matrices."""
    last, Z = model.last, draw.inputs[-1]
    C, q = draw.last.C, model.posterior(draw)
    A = torch.linalg.solve(C @ C.T, kernel(last, Z, inputs)).T
    S = C @ q.root[0].T @ q.root[0] @ C.T
    mean = A @ (C @ q.mean[0])
    variance = last.variance - ((A @ (C @ C.T - S)) * A).sum(1)
    noise = last.likelihood.site_scale
    return Normal(mean, noise.sqrt()).log_prob(Y) - 0.5 * variance / noise


def with_noise(model: NoiseInputDeepGP, X: Tensor, Y: Tensor, w: Tensor) -> Tensor:
    """E log p(y_n | f(x_n, w)) of a model without hidden layers at each w, [n, len(w)]."""
    draw = model.draw(1, generator())
    logs = [expectations(model, draw, torch.cat([X, e.expand(len(X), 1)], 1), Y[:, 0]) for e in w]
    return torch.stack(logs, 1)


def fits(fit: ImportanceWeightedObjective, draws: int, repeats: int = 20) -> tuple[float, float]:
    """Mean and standard error of the fit of the rows, over repeats."""
    found = np.array([float(fit.terms(draws)["data fit"]) for _ in range(repeats)])
    return float(found.mean()), float(found.std(ddof=1) / math.sqrt(repeats))


def quadrature(n: int = 60) -> tuple[Tensor, Tensor]:
    """Nodes and log weights of an average over N(0, 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return torch.as_tensor(nodes), torch.as_tensor(np.log(weights / weights.sum()))


@pytest.mark.parametrize("natural", [True, False])
@pytest.mark.parametrize("n_hidden", [1, 2])
def test_one_draw_without_noise_inputs_is_dsvi(n_hidden: int, natural: bool) -> None:
    """The same random numbers: the bound, its gradient and the steps of q are those of DSVI."""
    X, Y = table()
    settings = {"n_hidden": n_hidden, "natural": natural}
    model = model_of(X, Y, n_noise=0, **settings)
    chosen = DeepGPSettings(hidden_variance=0.5, spread=0.1, **settings)
    deep = induced_deep_gp(chosen, X, Y, X[:6] + 0.1, GaussianNoise(0.1, X))
    ours = model.state_dict()
    deep.load_state_dict({name: ours[name] for name in deep.state_dict()})
    one = fit_of(model, X, Y, n_importance=1)
    two = DeepGPObjective(deep, X, Y, n_samples=4, batch_size=1000, generator=generator(3))
    for _ in range(3):
        mine, theirs = one.batch_terms(), two.batch_terms()
        assert mine.keys() == theirs.keys()
        for name, value in theirs.items():
            torch.testing.assert_close(mine[name], value, rtol=1e-9, atol=0)
    slopes = [
        torch.autograd.grad(torch.stack(list(terms.values())).sum(), gp.hidden[0].q.mean)[0]
        for gp, terms in ((model, mine), (deep, theirs))
    ]
    torch.testing.assert_close(*slopes)
    torch.testing.assert_close(one.terms(2), two.terms(2), rtol=1e-9, atol=0)


@torch.no_grad()
def test_one_draw_is_the_evidence_bound_with_the_divergence_of_the_noise() -> None:
    """Σ_n ∫ q(w) E log p(y_n | f(x_n, w)) dw − KL(q(w_n) ‖ N(0, 1)), by quadrature."""
    X, Y = table(n=5)
    model = model_of(X, Y)
    mean, log_variance = (part[:, 0] for part in model.noise_posterior(X, Y))
    nodes, log_weights = quadrature()
    wanted = 0.0
    for n in range(len(X)):
        q = Normal(mean[n], (0.5 * log_variance[n]).exp())
        logs = with_noise(model, X[n : n + 1], Y[n : n + 1], q.mean + q.stddev * nodes)[0]
        wanted += float((log_weights.exp() * logs).sum())
        wanted -= float(kl_divergence(q, Normal(torch.zeros(()).double(), 1.0)))
    found, error = fits(fit_of(model, X, Y, n_importance=1), draws=500)
    assert error < 0.02 * abs(wanted)
    assert found == pytest.approx(wanted, abs=4 * error)


@torch.no_grad()
def test_the_bound_rises_with_the_draws_to_the_likelihood_of_the_rows() -> None:
    """The limit Σ_n log ∫ N(w; 0, 1) exp E log p(y_n | f(x_n, w)) dw is free of q(w)."""
    X, Y = table(n=5)
    model = model_of(X, Y)
    nodes, log_weights = quadrature()
    limit = float((with_noise(model, X, Y, nodes) + log_weights).logsumexp(1).sum())
    before, before_error = -math.inf, 0.0
    for K, draws in ((1, 300), (2, 200), (5, 100), (25, 40), (1000, 2)):
        found, error = fits(fit_of(model, X, Y, n_importance=K), draws)
        assert found - before > 3 * math.hypot(error, before_error)
        assert found < limit + 4 * error
        before, before_error = found, error
    assert before == pytest.approx(limit, abs=0.03 + 4 * before_error)


@torch.no_grad()
def test_the_whole_bound_is_below_the_likelihood_of_all_rows_and_comes_near() -> None:
    """log p(y) by brute force: mean of N(y | 0, K(w) + σ²I) over draws of all noise inputs.

    q(w) is wide and off its optimum, the inducing inputs cover rows and noise, and q of their
    values is optimal, so that what K = 1 lacks is nearly all due to q(w).
    """
    X, Y = table(n=3, H=2)
    likelihood = GaussianNoise(0.5, X)
    model = noise_input_deep_gp(
        DeepGPSettings(n_hidden=0),
        X,
        Y,
        X.repeat(5, 1),
        likelihood,
        n_noise=1,
        generator=generator(4),
    )
    model.Z[0][:, 2] = torch.linspace(-2, 2, 5).double().repeat_interleave(3)
    model.last.log_lengthscales[2] = math.log(4.0)
    model.encoder.network.line.bias.copy_(torch.tensor([1.0, 0.2]))
    w = torch.randn(50_000, 3, 1, generator=generator(8), dtype=X.dtype)
    joined = torch.cat([X.expand(len(w), -1, -1), w], -1)
    K = kernel(model.last, joined, joined) + likelihood.noise * torch.eye(3).double()
    logs = MultivariateNormal(torch.zeros(3).double(), K).log_prob(Y[:, 0])
    evidence = float(logs.logsumexp(0)) - math.log(len(w))
    assert float((logs - evidence).exp().std()) / math.sqrt(len(w)) < 0.01
    gaps = []
    for n_importance in (1, 5, 200):
        fit = fit_of(model, X, Y, n_importance=n_importance, n_samples=20)
        assert isinstance(model.last.q, GaussianSites)
        model.last.q.steps.zero_()
        for _ in range(40):
            fit.batch_terms()  # natural-gradient steps of q alone
        found = [float(torch.stack(list(fit.terms(5).values())).sum()) for _ in range(5)]
        gaps.append(evidence - float(np.mean(found)))
    assert gaps[0] > 1.2
    assert 0.6 > gaps[1] > gaps[2] + 0.2
    assert 0 < gaps[2] < 0.2


@torch.no_grad()
def test_draws_of_a_row_share_the_functions_and_nothing_else() -> None:
    """With a hidden layer: every draw by hand from the step's random numbers, by dense matrices."""
    X, Y = table(n=4)
    S, K, E = 2, 3, 2
    model = model_of(X, Y, n_noise=E, n_hidden=1, width=3)
    fit = fit_of(model, X, Y, n_importance=K, n_samples=S)
    draw, layer = model.draw(S, generator(1)), model.hidden[0]
    rows = fit._project(draw, X, Y, 2.0, generator(2))
    posterior = model.posterior(draw)
    found = float(model.last.expected_log_likelihood(draw.last, posterior, rows)[0])
    g = generator(2)
    e = standard_normal((S, 4, K, E), X, g)
    noise = standard_normal((S, 4 * K, 3), X, g).unflatten(1, (4, K))
    mean, log_variance = model.noise_posterior(X, Y)
    q = Normal(mean, (0.5 * log_variance).exp())
    C, total = draw.layer_kernels[0].C, 0.0
    for s in range(S):
        for n in range(4):
            logs = []
            for k in range(K):
                w = q.mean[n] + q.stddev[n] * e[s, n, k]
                joined = torch.cat([X[n], w])[None]
                A = torch.linalg.solve(C @ C.T, kernel(layer, model.Z[0], joined)).T
                m = joined @ layer.linear + A @ C @ draw.values[0][s]
                left = layer.variance * (1 - (A * kernel(layer, model.Z[0], joined).T).sum())
                h = m + (left.clamp_min(0) + layer.noise).sqrt() * noise[s, n, k]
                one = expectations(model, draw, h, Y[n])[0]
                ratio = Normal(0.0, 1.0).log_prob(w) - Normal(q.mean[n], q.stddev[n]).log_prob(w)
                logs.append(one + ratio.sum())
            total += float(torch.stack(logs).logsumexp(0)) - math.log(K)
    assert found == pytest.approx(2.0 * total / S, rel=1e-6)


@torch.no_grad()
def test_steps_of_q_raise_the_bound_to_a_maximum_by_q() -> None:
    """With fixed draws a step of q, whose rows count by their shares, never lowers the bound."""
    X, Y = table(n=12)
    model = model_of(X, Y, natural=True)
    fit = fit_of(model, X, Y, n_importance=4, n_samples=1)
    draw = model.draw(1, generator(1))
    rows = fit._project(draw, X, Y, 1.0, generator(2))
    last, q = model.last, model.posterior(draw)

    def bound(posterior: Any) -> Tensor:
        return last.expected_log_likelihood(draw.last, posterior, rows)[0] - posterior.kl()

    values = [float(bound(q))]
    for _ in range(60):
        weighted = rows.at_posterior(last, draw.last, q)
        assert weighted.precision is not None
        torch.testing.assert_close(
            weighted.precision.unflatten(-1, (12, 4)).sum(-1), torch.ones(1, 12).double()
        )
        sums = last.gaussian_sums(draw.last, weighted)
        q = model.posterior(draw, (sums[0][0], sums[1][0]))
        values.append(float(bound(q)))
    assert (np.diff(values) > -1e-9).all()
    assert values[-1] - values[0] > 1
    with torch.enable_grad():
        mean, root = q.mean.clone().requires_grad_(), q.root.clone().requires_grad_()
        slopes = torch.autograd.grad(bound(type(q)(mean, root)), (mean, root))
    assert float(slopes[0].abs().max()) < 1e-3
    assert float(slopes[1].tril().abs().max()) < 1e-3


@pytest.mark.parametrize(("n_hidden", "n_noise"), [(0, 1), (1, 2)])
def test_gradients_are_slopes_with_common_random_numbers(n_hidden: int, n_noise: int) -> None:
    X, Y = table(n=10)
    model = model_of(X, Y, n_hidden=n_hidden, n_noise=n_noise)
    gradients_are_slopes(fit_of(model, X, Y))


@torch.no_grad()
def test_batches_estimate_the_terms_of_all_rows() -> None:
    X, Y = table(n=20)
    model = model_of(X, Y)
    whole, error = fits(fit_of(model, X, Y), draws=50)
    fit = fit_of(model, X, Y, batch_size=5)
    found = np.array([float(fit.batch_terms()["data fit"]) for _ in range(2000)])
    spread = math.hypot(error, float(found.std() / math.sqrt(len(found))))
    assert found.mean() == pytest.approx(whole, abs=4 * spread)
    assert spread < 0.05 * abs(whole)


def test_two_blocks_of_rows_have_the_same_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = table(n=20)
    model = model_of(X, Y, n_hidden=1)
    whole, error = fits(fit_of(model, X, Y), draws=50)
    monkeypatch.setattr("lvmcore.deep.deep_gp.CHUNK_CELLS", 6 * 200 * 3 * 7)
    sizes = []
    project = ImportanceWeightedObjective._project
    monkeypatch.setattr(
        ImportanceWeightedObjective,
        "_project",
        lambda self, draw, X, *rest: sizes.append(len(X)) or project(self, draw, X, *rest),
    )
    apart, other = fits(fit_of(model, X, Y), draws=50)
    assert set(sizes) == {7, 6}
    assert apart == pytest.approx(whole, abs=4 * math.hypot(error, other))
