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

from lvmcore.deep.deep_gp import FunctionDraw
from lvmcore.deep.hidden_layer import InducingValues
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.kept_draws import DeepGPDraws
from lvmcore.deep.likelihoods import GaussianNoise
from lvmcore.deep.objective import DeepGPObjective, deep_schedule
from lvmcore.deep.output_layer import GaussianSites, OutputLayer, ProjectedRows, leave_one_out_means
from lvmcore.deep.subset_of_data import SubsetDeepGP, subset_deep_gp
from lvmcore.gp.inducing_points import choose_subset
from lvmcore.training.loop import train
from lvmcore.training.schedule import Schedule
from tests.unit.lvmcore.deep.small_models import (
    evidence,
    generator,
    gradients_are_slopes,
    kernel,
    sod,
    sod_fit,
    table,
)


def total(terms: dict[str, Tensor]) -> float:
    return float(torch.stack(list(terms.values())).sum().detach())


def freeze(model: SubsetDeepGP) -> None:
    """Sites stay where they are."""
    if isinstance(model.last.q, GaussianSites):
        model.last.q.step = 0.0


def settle(fit: DeepGPObjective, steps: int = 3) -> None:
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
    found, C, noise = model.posterior(draw), draw.last.C, model.last.likelihood.site_scale
    precision, shift = model.last.q.natural_parameters(noise)
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

    new, noise = table(10, seed=4)[0], float(model.last.likelihood.site_scale)
    lengthscales = model.last.log_lengthscales.exp().numpy()
    prior = ConstantKernel(float(model.last.variance)) * RBF(lengthscales)
    exact = GaussianProcessRegressor(prior, alpha=noise, optimizer=None).fit(X.numpy(), Y.numpy())
    assert total(terms) == pytest.approx(exact.log_marginal_likelihood_value_, abs=1e-4)
    mean, sd = exact.predict(new.numpy(), return_std=True)
    found_mean, found_variance = DeepGPDraws.from_model(model, 1, generator(), (X, Y)).predict(new)
    np.testing.assert_allclose(found_mean[0, :, 0], mean, atol=1e-5)
    np.testing.assert_allclose(found_variance[0, :, 0], sd**2, atol=1e-5)


@torch.no_grad()
def test_the_bound_is_below_the_evidence() -> None:
    X, Y = table(P=2)
    model = sod(X, Y, n_hidden=0)
    fit = sod_fit(model, X, Y)
    exact = evidence(model.last, X, Y)
    first = total(fit.terms())
    assert first < exact
    # q is at its optimum from the first step on: another changes nothing.
    for _ in range(2):
        assert total(fit.batch_terms()) == pytest.approx(first, abs=1e-9)


@torch.no_grad()
def test_the_optimum_is_the_collapsed_bound() -> None:
    """log N(y | 0, Q + σ²I) − tr(K − Q)/(2σ²) with Q = K_nS K_SS⁻¹ K_Sn (Titsias 2009)."""
    X, Y = table(P=1)
    model = sod(X, Y, n_hidden=0)
    found = total(sod_fit(model, X, Y).batch_terms())
    layer_kernel, noise = model.draw(1, generator()).last, model.last.likelihood.site_scale
    a = layer_kernel.inverse @ kernel(model.last, X[:8], X)
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
    others, noise = model.remaining_rows(len(X)), model.last.likelihood.noise
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
    f = draw.layer_kernels[0].values(draw.values[0])
    drawn, _ = model.hidden[0].conditional_moments(draw.layer_kernels[0], draw.values[0], model.X)
    torch.testing.assert_close(f, drawn, rtol=0, atol=1e-4)  # rows in S share f of S
    q, layer = model.hidden[0].q, model.hidden[0]
    C = draw.layer_kernels[0].C
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

    gradients_are_slopes(fit, rel=1e-4)


@pytest.mark.parametrize("n_hidden", [0, 2])
def test_gradients_of_the_bound_at_the_best_q_of_each_draw(n_hidden: int) -> None:
    """Which q moves with the parameters; at an optimum that changes no slope."""
    X, Y = table(n=12, H=2)
    model = sod(X, Y, M=5, n_hidden=n_hidden, hidden_variance=0.3)
    gradients_are_slopes(sod_fit(model, X, Y))


@torch.no_grad()
def test_batches_add_up_to_all_rows() -> None:
    X, Y = table(n=28)
    model = sod(X, Y, n_hidden=0)
    fit = sod_fit(model, X, Y, batch_size=5)
    fit.batch_terms()
    freeze(model)
    fit.batches.position.fill_(10**6)
    found = [fit.batch_terms() for _ in range(4)]
    draw = model.draw(1, generator())
    q, rows = model.posterior(draw), ProjectedRows.of_inputs(draw.last, X[8:], Y[8:])
    fits = {"data fit": rows, "subset fit": ProjectedRows.of_inducing_inputs(Y[:8])}
    whole = {
        name: model.last.expected_log_likelihood(draw.last, q, part)[0]
        for name, part in fits.items()
    }
    for name, term in (whole | model.kl_terms(q)).items():
        assert float(sum(terms[name] for terms in found) / 4) == pytest.approx(float(term))


@torch.no_grad()
def test_a_draw_is_measured_on_what_the_other_draws_say() -> None:
    X, _ = table(P=2)
    sites = GaussianSites(4, 2, X, shared=True, step=0.5)
    curvature = torch.randn(3, 1, 4, 4, generator=generator(), dtype=torch.float64)
    curvature, shift = curvature @ curvature.mT, curvature[..., :2].squeeze(1).mT
    precision, h = sites.natural_parameters(
        X.new_tensor(0.5), leave_one_out_means((curvature, shift))
    )
    torch.testing.assert_close(precision[1, 0], torch.eye(4) + curvature[[0, 2], 0].mean(0) / 0.5)
    torch.testing.assert_close(h[2], shift[:2].mean(0) / 0.5)
    assert sites.natural_parameters(X.new_tensor(0.5))[0].shape == (1, 4, 4)
    sites.update(curvature, shift)
    sites.update(curvature, shift)
    torch.testing.assert_close(sites.curvature, curvature.mean(0))
    torch.testing.assert_close(sites.shift, shift.mean(0))


# ---- q of each draw --------------------------------------------------------------------


def rows_of(model: SubsetDeepGP, draw: FunctionDraw, X: Tensor, seed: int) -> Tensor:
    """Inputs of the last layer of rows, with noise of their own, [S, n, D]."""
    return model.inputs(draw, X, model.row_noise(draw.samples, len(X), generator(seed)))


@torch.no_grad()
def test_given_a_draw_the_bound_is_the_collapsed_one() -> None:
    """E log N(y | 0, Q + σ²I) − tr(K − Q)/(2σ²) of each draw's own inputs (Titsias 2009)."""
    X, Y = table(P=1)
    model = sod(X, Y, n_hidden=2, hidden_variance=0.5)
    fit = sod_fit(model, X, Y)
    fit.generator.manual_seed(3)
    terms = fit.terms()
    again = generator(3)
    draw = model.draw(4, again)
    seed = int(torch.randint(2**31 - 1, (1,), generator=again))
    h = rows_of(model, draw, X[8:], seed)
    wanted, noise = [], model.last.likelihood.site_scale
    for s in range(4):
        Z = draw.inputs[-1][s]
        every = torch.cat([Z, h[s]])
        C = torch.linalg.cholesky(kernel(model.last, Z, Z) + 1e-7 * torch.eye(8))
        a = torch.linalg.solve_triangular(C, kernel(model.last, Z, every), upper=False)
        left = model.last.variance - a.square().sum(0)
        low_rank = MultivariateNormal(torch.zeros(24).double(), a.T @ a + noise * torch.eye(24))
        wanted.append(low_rank.log_prob(Y[:, 0]) - left.sum() / (2 * noise))
    divergence = sum(
        term for name, term in terms.items() if name[:6] == "KL of " and "last" not in name
    )
    assert total(terms) - float(divergence) == pytest.approx(
        float(torch.stack(wanted).mean()), abs=1e-4
    )


@torch.no_grad()
def test_q_of_each_draw_bounds_more_than_one_for_all() -> None:
    X, Y = table()
    model = sod(X, Y, n_hidden=1, hidden_variance=0.5)
    fit = sod_fit(model, X, Y, n_samples=200)
    for _ in range(3):
        fit.batch_terms()
    own = total(fit.terms())
    draw = model.draw(200, generator(8))
    h = rows_of(model, draw, X[8:], 9)
    shared, rows = model.posterior(draw), ProjectedRows.of_inputs(draw.last, h, Y[8:])
    fits = [
        model.last.expected_log_likelihood(draw.last, shared, part)[0]
        for part in (rows, ProjectedRows.of_inducing_inputs(Y[:8]))
    ]
    assert own > float(sum(fits) + sum(model.kl_terms(shared).values())) + 1


@torch.no_grad()
def test_predictions_are_those_of_a_process_on_each_draws_inputs() -> None:
    """All rows in the subset: exact regression on what the layers make of them."""
    X, Y = table(16, P=1)
    model = sod(X, Y, M=16, n_hidden=1, hidden_variance=0.5)
    kept = DeepGPDraws.from_model(model, 5, generator(), (X, Y))
    new = table(6, seed=4)[0]
    mean, variance = kept.predict(new)
    h = model.inputs(kept.draw, new, kept.noise)
    noise = model.last.likelihood.site_scale
    for s in range(5):
        Z = kept.draw.inputs[-1][s]
        S = kernel(model.last, Z, Z) + noise * torch.eye(16)
        k = kernel(model.last, Z, h[s])
        torch.testing.assert_close(mean[s], k.T @ torch.linalg.solve(S, Y), atol=1e-5, rtol=1e-5)
        left = model.last.variance - (k * torch.linalg.solve(S, k)).sum(0)
        torch.testing.assert_close(variance[s, :, 0], left, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_blocks_of_rows_give_q_what_all_at_once_do(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = table()
    model = sod(X, Y, n_hidden=0)
    whole = DeepGPDraws.from_model(model, 1, generator(), (X, Y)).posterior
    monkeypatch.setattr("lvmcore.deep.deep_gp.CHUNK_CELLS", 8 * 5)
    some = DeepGPDraws.from_model(model, 1, generator(), (X, Y)).posterior
    torch.testing.assert_close(some.mean, whole.mean)
    torch.testing.assert_close(some.root, whole.root)


# ---- predictions -----------------------------------------------------------------------


@torch.no_grad()
def test_a_prediction_depends_on_its_row_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = table()
    model, new = sod(X, Y), table(30, seed=8)[0]
    settle(sod_fit(model, X, Y))
    kept = DeepGPDraws.from_model(model, 5, generator(2), (X, Y))
    for of in (
        lambda rows: torch.cat(kept.predict(rows), -1).transpose(0, 1),
        lambda rows: kept.hidden_means(rows, 1),
        lambda rows: kept.hidden_means(rows, 2),
    ):
        whole = of(new)
        order = torch.randperm(30, generator=generator())
        torch.testing.assert_close(of(new[order]), whole[order], rtol=0, atol=1e-10)
        torch.testing.assert_close(of(new[3:4]), whole[3:4], rtol=0, atol=1e-10)
        with monkeypatch.context() as patch:
            patch.setattr("lvmcore.deep.deep_gp.CHUNK_CELLS", 5 * 8 * 7)
            torch.testing.assert_close(of(new), whole, rtol=0, atol=1e-10)


@pytest.mark.slow
@torch.no_grad()
def test_predictions_of_rows_average_over_what_the_layers_draw() -> None:
    """Numbers shared by all rows give each row the marginal that its own numbers would."""
    X, Y = table()
    model, new = sod(X, Y, hidden_variance=0.5), table(3, seed=8)[0]
    S = 40_000
    kept = DeepGPDraws.from_model(model, S, generator(2))
    mean, variance = kept.predict(new)
    draw = model.draw(S, generator(6))
    inputs = model.inputs(draw, new, model.row_noise(S, 3, generator(9)))
    own_mean, own_variance = model.posterior(draw).moments(
        draw.last, draw.last.cross(inputs), draw.last.diagonal(inputs)
    )
    torch.testing.assert_close(mean.mean(0), own_mean.mean(0), rtol=0, atol=0.02)
    torch.testing.assert_close(mean.var(0), own_mean.var(0), rtol=0.05, atol=0.01)
    torch.testing.assert_close(variance.mean(0), own_variance.mean(0), rtol=0.05, atol=0.01)
    hidden = kept.hidden_means(new, 2)
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
        model = subset_deep_gp(DeepGPSettings(width=width), X, Y, rows, GaussianNoise(0.1, X))
        kept = DeepGPDraws.from_model(model, 8, generator())
        found, other = (kept.hidden_means(X[rows], layer) for layer in (2, 1))
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
    kept = DeepGPDraws.from_model(model, 3, generator(), (X, Y))
    same = DeepGPDraws.from_tensors(again, kept.tensors())
    for one, other in zip(kept.predict(X), same.predict(X), strict=True):
        assert torch.equal(one, other)


def test_a_last_layer_may_follow_the_optimiser_too() -> None:
    X, Y = table()
    layer = OutputLayer(3, GaussianNoise(0.1, X), InducingValues(torch.zeros(1, 8).double(), 1.0))
    model = SubsetDeepGP([], layer, torch.arange(8), X[:8], Y[:8])
    exact = evidence(layer, X, Y)
    outcome = train(sod_fit(model, X, Y), Schedule(5, 0.01, 24), None)
    assert outcome.objective < exact + 1


# ---- the subset ------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["kmeans", "uniform", "leverage", "determinantal"])
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
