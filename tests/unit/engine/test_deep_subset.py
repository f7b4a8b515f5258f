"""SoD deep Gaussian processes: exact where they can be, below the evidence, one draw for all."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from lvmcore.deep_fit import DeepFit, deep_schedule
from lvmcore.deep_layers import Values
from lvmcore.deep_outputs import Gaussian, LastLayer, Sites
from lvmcore.deep_starts import DeepSettings
from lvmcore.deep_subset import SubsetDeepGP, subset_deep_gp
from lvmcore.subsets import choose_subset
from lvmcore.training import Schedule, train
from tests.unit.engine.deep import evidence, generator, kernel, sod, sod_fit, table


def total(terms: dict[str, Tensor]) -> float:
    return float(torch.stack(list(terms.values())).sum().detach())


def freeze(model: SubsetDeepGP) -> None:
    """Sites stay where they are."""
    if isinstance(model.last.q, Sites):
        model.last.q.step = 0.0


def settle(fit: DeepFit, steps: int = 3) -> None:
    for _ in range(steps):
        fit.batch_terms()


# ---- the last layer --------------------------------------------------------------------


@torch.no_grad()
def test_q_takes_the_targets_in_closed_form() -> None:
    """As q(f(Z)) = N(C m, C V Cᵀ) would by Bayes' rule among the values themselves."""
    X, Y = table(P=2)
    model = sod(X, Y, n_hidden=1)
    settle(sod_fit(model, X, Y))
    draw = model.draw(3, generator())
    found, C, noise = model.posterior(draw), draw.last.C, model.last.likelihood.unit
    precision, shift = model.last.q.naturals(noise)
    assert float((precision[0] - torch.eye(8)).abs().max()) > 1  # q has learned something
    before = C @ torch.linalg.inv(precision) @ C.mT
    gain = before @ torch.linalg.inv(before + noise * torch.eye(8))
    for d in range(2):
        mean = (C @ torch.linalg.solve(precision[0], shift[d])[:, None])[..., 0]
        after = mean + (gain @ (model.Y[:, d] - mean)[..., None])[..., 0]
        torch.testing.assert_close((C @ found.mean[:, d, :, None])[..., 0], after)
    V = found.root[:, 0].mT @ found.root[:, 0]
    torch.testing.assert_close(C @ V @ C.mT, before - gain @ before)


@torch.no_grad()
def test_the_last_divergence_is_that_of_the_values() -> None:
    X, Y = table(P=2)
    model = sod(X, Y, n_hidden=1)
    draw = model.draw(3, generator())
    found, C = model.posterior(draw), draw.last.C
    V = (found.root.mT @ found.root).expand(3, 2, 8, 8)
    wanted = [
        kl_divergence(
            MultivariateNormal(C[s] @ found.mean[s, d], C[s] @ V[s, d] @ C[s].T),
            MultivariateNormal(torch.zeros(8).double(), C[s] @ C[s].T),
        )
        for s in range(3)
        for d in range(2)
    ]
    assert float(found.kl()) == pytest.approx(float(torch.stack(wanted).sum() / 3), rel=1e-6)
    assert float(found.kl()) >= 0


# ---- without hidden layers -------------------------------------------------------------


@torch.no_grad()
def test_all_rows_without_hidden_layers_are_exact_regression() -> None:
    X, Y = table(P=1)
    model = sod(X, Y, M=len(X), n_hidden=0)
    terms = sod_fit(model, X, Y).batch_terms()
    assert float(terms["data fit"]) == 0
    assert total(terms) == pytest.approx(evidence(model.last, X, Y), abs=1e-4)

    new, noise = table(10, seed=4)[0], float(model.last.likelihood.unit)
    lengthscales = model.last.log_lengthscales.exp().numpy()
    prior = ConstantKernel(float(model.last.variance)) * RBF(lengthscales)
    exact = GaussianProcessRegressor(prior, alpha=noise, optimizer=None).fit(X.numpy(), Y.numpy())
    assert total(terms) == pytest.approx(exact.log_marginal_likelihood_value_, abs=1e-4)
    mean, sd = exact.predict(new.numpy(), return_std=True)
    found_mean, found_variance = model.predict(new, 3, generator())
    for s in range(3):
        np.testing.assert_allclose(found_mean[s, :, 0], mean, atol=1e-5)
        np.testing.assert_allclose(found_variance[s, :, 0], sd**2, atol=1e-5)


@torch.no_grad()
def test_the_bound_is_below_the_evidence() -> None:
    X, Y = table(P=2)
    model = sod(X, Y, n_hidden=0)
    fit = sod_fit(model, X, Y)
    exact = evidence(model.last, X, Y)
    rough = total(fit.terms())
    assert rough < exact
    first = total(fit.batch_terms())
    assert rough < first < exact
    # One step is the optimum, as nothing is drawn: another changes nothing.
    assert total(fit.batch_terms()) == pytest.approx(first, abs=1e-9)


@torch.no_grad()
def test_the_optimum_is_the_collapsed_bound() -> None:
    """log N(y | 0, Q + σ²I) − tr(K − Q)/(2σ²) with Q = K_nS K_SS⁻¹ K_Sn (Titsias 2009)."""
    X, Y = table(P=1)
    model = sod(X, Y, n_hidden=0)
    found = total(sod_fit(model, X, Y).batch_terms())
    layout, noise = model.draw(1, generator()).last, model.last.likelihood.unit
    a = layout.inverse @ kernel(model.last, X[:8], X)
    left = model.last.variance - a.square().sum(0)
    low_rank = MultivariateNormal(torch.zeros(len(X)).double(), a.T @ a + noise * torch.eye(len(X)))
    wanted = low_rank.log_prob(Y[:, 0]) - left.sum() / (2 * noise)
    assert found == pytest.approx(float(wanted), abs=1e-4)


# ---- the bound -------------------------------------------------------------------------


def last_inputs(model: SubsetDeepGP, draw: Any) -> Tensor:
    """Z of the last layer, found back from its features."""
    scaled = draw.last.features[..., :-2]
    return scaled * model.last.log_lengthscales.exp() + draw.last.centre


def by_hand(model: SubsetDeepGP, draw: Any, X: Tensor, Y: Tensor, inputs: Tensor) -> Tensor:
    """The bound's value for one draw of everything, by dense matrices among the subset's values."""
    others, noise = model.others(len(X)), model.last.likelihood.noise
    posterior, last, logs = model.posterior(draw), model.last, []
    for s in range(draw.samples):
        C = draw.last.C[s]
        K_inverse = torch.linalg.inv(C @ C.T)
        mean = C @ posterior.mean[s, 0]
        root = C @ posterior.root[s, 0].T
        spread = root @ root.T
        Ksn = kernel(last, last_inputs(model, draw)[s], inputs[s])
        to_row = (K_inverse @ Ksn).T
        f = to_row @ mean
        v = last.variance + (to_row * (to_row @ spread - Ksn.T)).sum(1)
        f, v = torch.cat([f, mean]), torch.cat([v, spread.diagonal()])
        y = torch.cat([Y[others, 0], model.Y[:, 0]])
        logs.append((-0.5 * (2 * math.pi * noise).log() - ((y - f) ** 2 + v) / (2 * noise)).sum())
        prior = MultivariateNormal(torch.zeros(len(C)).double(), C @ C.T)
        logs[-1] = logs[-1] - kl_divergence(MultivariateNormal(mean, spread), prior)
    inner = sum(layer.q.kl() for layer in model.hidden)
    return torch.stack(logs).mean() - inner


@torch.no_grad()
def test_one_draw_serves_the_likelihood_and_the_divergences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, Y = table()
    model = sod(X, Y, hidden_variance=0.3)
    fit = sod_fit(model, X, Y)
    settle(fit, 1)
    freeze(model)
    draws, inputs = [], []
    draw_of, inputs_of = model.draw, model.inputs

    def seen_draw(*arguments: Any) -> Any:
        draws.append(draw_of(*arguments))
        return draws[-1]

    def seen_inputs(*arguments: Any) -> Tensor:
        inputs.append(inputs_of(*arguments))
        assert arguments[0] is draws[-1]
        return inputs[-1]

    monkeypatch.setattr(model, "draw", seen_draw)
    monkeypatch.setattr(model, "inputs", seen_inputs)
    found = total(fit.batch_terms())
    assert len(draws) == len(inputs) == 1
    assert found == pytest.approx(float(by_hand(model, draws[0], X, Y, inputs[0])), rel=1e-5)


@torch.no_grad()
def test_the_inducing_inputs_are_what_the_layer_before_drew() -> None:
    """f(Z) of the rows in S, and noise of the layer's own."""
    X, Y = table()
    model = sod(X, Y, n_hidden=1)
    draw = model.draw(20_000, generator())
    f = draw.layouts[0].values(draw.values[0])
    drawn, _ = model.hidden[0].rows(draw.layouts[0], draw.values[0], model.X)
    torch.testing.assert_close(f, drawn, rtol=0, atol=1e-4)  # rows in S share f of S
    q, layer = model.hidden[0].q, model.hidden[0]
    C = draw.layouts[0].C
    for d in range(3):
        spread = layer.variance[d] * C @ (q.factor[d] @ q.factor[d].T) @ C.T
        torch.testing.assert_close(f[..., d].T.cov(), spread, rtol=0.05, atol=0.01)
    noise = last_inputs(model, draw) - f
    assert float(noise.square().mean()) == pytest.approx(float(layer.noise), rel=0.02)
    assert float(noise.mean()) == pytest.approx(0, abs=1e-3)


def test_gradients_of_the_bound() -> None:
    X, Y = table(n=12, H=2)
    model = sod(X, Y, M=5, hidden_variance=0.3)
    fit = sod_fit(model, X, Y)
    with torch.no_grad():
        settle(fit, 2)
    freeze(model)

    def bound() -> Tensor:
        fit.generator.manual_seed(11)
        return torch.stack(list(fit.batch_terms().values())).sum()

    parameters = list(fit.parameters())
    gradients = torch.autograd.grad(bound(), parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        way = torch.randn(parameter.shape, generator=generator(1), dtype=torch.float64)
        values = []
        with torch.no_grad():
            for step in (1e-5, -1e-5):
                parameter.add_(step * way)
                values.append(bound())
                parameter.sub_(step * way)
        slope = float((values[0] - values[1]) / 2e-5)
        assert float((gradient * way).sum()) == pytest.approx(slope, rel=1e-4, abs=1e-4)


@torch.no_grad()
def test_batches_add_up_to_all_rows() -> None:
    X, Y = table(n=28)
    model = sod(X, Y, n_hidden=0)
    fit = sod_fit(model, X, Y, batch_size=5)
    fit.batch_terms()
    freeze(model)
    fit.batches.position.fill_(10**6)
    found = [fit.batch_terms() for _ in range(4)]
    whole = fit.terms()
    for name, term in whole.items():
        assert float(sum(terms[name] for terms in found) / 4) == pytest.approx(float(term))


@torch.no_grad()
def test_a_draw_is_measured_on_what_the_other_draws_say() -> None:
    X, _ = table(P=2)
    sites = Sites(4, 2, X, shared=True, step=0.5)
    curvature = torch.randn(3, 1, 4, 4, generator=generator(), dtype=torch.float64)
    curvature, shift = curvature @ curvature.mT, curvature[..., :2].squeeze(1).mT
    with sites.of_other_draws(curvature, shift):
        precision, h = sites.naturals(X.new_tensor(0.5))
    torch.testing.assert_close(precision[1, 0], torch.eye(4) + curvature[[0, 2], 0].mean(0) / 0.5)
    torch.testing.assert_close(h[2], shift[:2].mean(0) / 0.5)
    assert sites.naturals(X.new_tensor(0.5))[0].shape == (1, 4, 4)
    sites.follow(curvature, shift)
    sites.follow(curvature, shift)
    torch.testing.assert_close(sites.curvature, curvature.mean(0))
    torch.testing.assert_close(sites.shift, shift.mean(0))


# ---- predictions -----------------------------------------------------------------------


@torch.no_grad()
def test_a_prediction_depends_on_its_row_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = table()
    model, new = sod(X, Y), table(30, seed=8)[0]
    settle(sod_fit(model, X, Y))
    for of in (
        lambda rows: torch.cat(model.predict(rows, 5, generator(2)), -1).transpose(0, 1),
        lambda rows: model.hidden_means(rows, 1, 5, generator(2)),
        lambda rows: model.hidden_means(rows, 2, 5, generator(2)),
    ):
        whole = of(new)
        order = torch.randperm(30, generator=generator())
        torch.testing.assert_close(of(new[order]), whole[order], rtol=0, atol=1e-10)
        torch.testing.assert_close(of(new[3:4]), whole[3:4], rtol=0, atol=1e-10)
        with monkeypatch.context() as patch:
            patch.setattr("lvmcore.deep_paths.CELLS_AT_A_TIME", 5 * 8 * 7)
            torch.testing.assert_close(of(new), whole, rtol=0, atol=1e-10)


@torch.no_grad()
def test_predictions_of_rows_average_over_what_the_layers_draw() -> None:
    """Numbers shared by all rows give each row the marginal that its own numbers would."""
    X, Y = table()
    model, new = sod(X, Y, hidden_variance=0.5), table(3, seed=8)[0]
    S = 40_000
    mean, variance = model.predict(new, S, generator(2))
    draw = model.draw(S, generator(6))
    inputs = model.inputs(draw, new, model.row_noise(S, 3, generator(9)))
    own_mean, own_variance = model.posterior(draw).moments(draw.last, draw.last.cross(inputs))
    torch.testing.assert_close(mean.mean(0), own_mean.mean(0), rtol=0, atol=0.02)
    torch.testing.assert_close(mean.var(0), own_mean.var(0), rtol=0.05, atol=0.01)
    torch.testing.assert_close(variance.mean(0), own_variance.mean(0), rtol=0.05, atol=0.01)
    hidden = model.hidden_means(new, 2, S, generator(1))
    torch.testing.assert_close(hidden, inputs.mean(0), rtol=0, atol=0.03)


# ---- fits ------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1000, 10])
def test_a_fit_climbs(batch_size: int) -> None:
    X, Y = table(n=48)
    model = sod(X, Y, roughen=False, n_hidden=1, batch_size=batch_size)
    fit = sod_fit(model, X, Y, batch_size=batch_size)
    start = total(fit.terms(8))
    schedule = deep_schedule(fit, 40, 0.02)
    assert schedule.window == 100
    steps = []
    outcome = train(fit, schedule, steps.append, draws=8)
    assert outcome.objective > start
    assert steps[0].snapshot is not None
    assert steps[0].snapshot.mean.shape == (48, 2)
    terms = outcome.history[-1].terms
    assert {"data fit", "subset fit", "KL of layer 1", "KL of the last layer"} == set(terms)
    assert all(value <= 0 for name, value in terms.items() if name.startswith("KL"))


def test_layers_begin_close_to_linear() -> None:
    """Wide or narrow."""
    X, Y = table(60, H=4)
    rows = choose_subset(X, 30, "kmeans", generator())
    for width in (None, 2):
        model = subset_deep_gp(DeepSettings(width=width), X, Y, rows, Gaussian(0.1, X))
        found = model.hidden_means(X[rows], 2, 8, generator())
        other = model.hidden_means(X[rows], 1, 8, generator())
        if width is None:
            assert float((found - X[rows]).square().mean()) < 0.005
        assert float((found - other).square().mean()) < 0.005
        assert found.shape[1] == (width or 4)


def test_the_state_of_a_model_is_all_that_it_predicts_with() -> None:
    X, Y = table()
    model = sod(X, Y)
    settle(sod_fit(model, X, Y))
    again = sod(X, Y, roughen=False)
    again.load_state_dict(model.state_dict())
    for one, other in zip(
        model.predict(X, 3, generator()), again.predict(X, 3, generator()), strict=True
    ):
        assert torch.equal(one, other)


def test_a_last_layer_may_follow_the_optimiser_too() -> None:
    X, Y = table()
    layer = LastLayer(3, Gaussian(0.1, X), Values(torch.zeros(1, 8).double(), 1.0))
    model = SubsetDeepGP([], layer, torch.arange(8), X[:8], Y[:8])
    exact = evidence(layer, X, Y)
    outcome = train(sod_fit(model, X, Y), Schedule(5, 0.01, 24), None)
    assert outcome.objective < exact + 1


# ---- the subset ------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["kmeans", "uniform", "leverage"])
def test_subsets_are_different_rows(rule: Any) -> None:
    X, _ = table(50)
    X[20:30] = X[10:20]
    chosen = choose_subset(X, 30, rule, generator())
    assert len(chosen) == 30 == len(chosen.unique())
    assert torch.equal(chosen, choose_subset(X, 30, rule, generator()))
    assert torch.equal(choose_subset(X, 50, rule, generator()), torch.arange(50))
    if rule == "kmeans":
        assert len(X[chosen].unique(dim=0)) == 30
        assert len(choose_subset(X, 45, rule, generator()).unique()) == 45


def test_leverage_prefers_rows_that_no_other_is_like() -> None:
    X = 0.1 * table(60)[0]
    X[7] = 10.0
    found = [int(7 in choose_subset(X, 5, "leverage", generator(seed))) for seed in range(40)]
    assert sum(found) > 20  # uniformly: 3 or 4
