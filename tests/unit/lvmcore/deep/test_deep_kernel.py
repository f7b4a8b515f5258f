"""Deep kernels: one process where the network changes nothing, its prior; rows held out."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmcore.base.table_size import TableSize
from lvmcore.deep.deep_kernel import DeepKernelGP, deep_kernel_gp
from lvmcore.deep.dsvi import induced_deep_gp
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.kept_draws import DeepGPDraws
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.objective import DeepGPObjective, deep_schedule
from lvmcore.deep.output_layer import ProjectedRows
from lvmcore.gp.inducing_points import centroids
from lvmcore.models.supervised.deep_kernel import DeepKernelGPRegressor
from lvmcore.training.loop import train
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
    P: int = 1,
    likelihood: GaussianNoise | SoftmaxClasses | None = None,
    *,
    M: int = 6,
    scale: float = 0.5,
    roughen: bool = False,
    **settings: Any,
) -> DeepKernelGP:
    model = deep_kernel_gp(
        DeepGPSettings(**{"n_hidden": 0, **settings}),
        X,
        X[:M] + 0.1,
        P,
        likelihood or GaussianNoise(0.1, X),
        n_hidden=7,
        scale=scale,
        generator=generator(2),
    )
    if roughen:
        with torch.no_grad():
            for parameter in model.parameters():
                moved = torch.randn(parameter.shape, generator=generator(5), dtype=X.dtype)
                parameter.add_(0.2 * moved)
    return model


def total(terms: dict[str, Tensor]) -> float:
    return float(torch.stack(list(terms.values())).sum().detach())


@pytest.mark.parametrize("P", [1, 3])
def test_it_begins_as_a_single_process(P: int) -> None:
    """Numbers and classes: the bound, what Adam would do to the kernel, and the predictions."""
    X, Y = table(n=30)
    of: Any = (lambda: GaussianNoise(0.1, X)) if P == 1 else (lambda: SoftmaxClasses("softmax", X))
    Y = Y if P == 1 else signs(X, 3)
    deep = model_of(X, P, of())
    single = induced_deep_gp(DeepGPSettings(n_hidden=0), X, Y, X[:6] + 0.1, of())
    fits = [sod_fit(model, X, Y) for model in (deep, single)]
    for _ in range(3):
        terms = [fit.batch_terms() for fit in fits]
    assert float(terms[0].pop("prior of the network").detach()) == 0
    assert terms[0].keys() == terms[1].keys()
    assert total(terms[0]) == pytest.approx(total(terms[1]), rel=1e-9)
    slopes = [
        torch.autograd.grad(
            torch.stack(list(found.values())).sum(), [model.Z[0], model.last.log_lengthscales]
        )
        for found, model in zip(terms, (deep, single), strict=True)
    ]
    torch.testing.assert_close(slopes[0], slopes[1])
    new = table(9, seed=4)[0]
    torch.testing.assert_close(
        DeepGPDraws.from_model(deep, 1, generator()).predict(new),
        DeepGPDraws.from_model(single, 1, generator()).predict(new),
    )
    deep.measure_relevance(X)
    torch.testing.assert_close(deep.column_relevance, deep.last.relevance.detach())


@torch.no_grad()
def test_the_bound_is_that_of_a_process_of_the_features() -> None:
    """log N(y | 0, Q + σ²I) − tr(K − Q)/(2σ²) of g(x), by dense matrices (Titsias 2009)."""
    X, Y = table(n=30)
    model = model_of(X, roughen=True)
    terms = sod_fit(model, X, Y).batch_terms()
    g, u = model.network(X), model.network(model.Z[0])
    K = kernel(model.last, u, u) + 1e-7 * model.last.variance * torch.eye(len(u))
    Kux, noise = kernel(model.last, u, g), model.last.likelihood.site_scale
    Q = Kux.T @ torch.linalg.solve(K, Kux)
    normal = torch.distributions.MultivariateNormal(
        torch.zeros(len(X)).double(), Q + noise * torch.eye(len(X))
    )
    left = (model.last.variance - Q.diagonal()).sum() / (2 * noise)
    prior = float(terms.pop("prior of the network"))
    wanted = float(normal.log_prob(Y[:, 0]) - left)
    assert total(terms) == pytest.approx(wanted, abs=1e-4)
    assert total(terms) < evidence(model.last, g, Y)
    begun = torch.cat([p.flatten() for p in model_of(X).network.parameters()])
    moved = torch.cat([p.flatten() for p in model.network.parameters()])
    normal = torch.distributions.Normal(begun, 0.5)
    assert prior == pytest.approx(float((normal.log_prob(moved) - normal.log_prob(begun)).sum()))


def test_gradients_of_the_bound() -> None:
    X, Y = table(n=14, H=2)
    model = model_of(X, roughen=True)
    fit = sod_fit(model, X, Y)
    fit.batch_terms()
    model.last.q.step = 0.0
    gradients_are_slopes(fit)


@torch.no_grad()
def test_the_relevance_of_columns_is_that_of_near_rows() -> None:
    """log k(x, x + e_h δ) falls by ½ α_h δ², on average over the rows."""
    X, _ = table(n=12)
    model = model_of(X, roughen=True)
    model.measure_relevance(X)
    step = 1e-4
    for h in range(3):
        moved = X.clone()
        moved[:, h] += step
        scaled = (model.network(moved) - model.network(X)) / model.last.log_lengthscales.exp()
        alpha = float(scaled.square().sum(1).mean()) / step**2
        assert float(model.column_relevance[h]) == pytest.approx(alpha, rel=1e-3)


@torch.no_grad()
def test_batches_add_up_to_all_rows_and_predictions_to_their_own() -> None:
    X, Y = table(n=20)
    model = model_of(X, roughen=True)
    fit = sod_fit(model, X, Y, batch_size=5)
    fit.batch_terms()
    model.last.q.step = 0.0
    fit.batches.position.fill_(10**6)
    found = [fit.batch_terms() for _ in range(4)]
    draw = model.draw(1, generator())
    q = model.posterior(draw)
    rows = ProjectedRows.of_inputs(draw.last, model.network(X), Y)
    whole = {
        "data fit": model.last.expected_log_likelihood(draw.last, q, rows)[0]
    } | model.kl_terms(q)
    for name, term in whole.items():
        assert float(sum(terms[name] for terms in found) / 4) == pytest.approx(float(term))
    new = table(30, seed=8)[0]
    mean, variance = DeepGPDraws.from_model(model, 1, generator()).predict(new)
    order = torch.randperm(30, generator=generator())
    for some in (order, torch.tensor([4])):
        found = DeepGPDraws.from_model(model, 1, generator()).predict(new[some])
        torch.testing.assert_close(found, (mean[:, some], variance[:, some]))


def test_few_features_begin_on_the_principal_axes() -> None:
    X, Y = table(n=40)
    X = X * torch.tensor([1.0, 3.0, 0.1])
    model = model_of(X, width=2)
    found = model.network(X)
    axes = torch.linalg.svd(X - X.mean(0), full_matrices=False)[2][:2]
    torch.testing.assert_close((found.abs()).detach(), (X @ axes.T).abs())
    assert DeepGPDraws.from_model(model, 1, generator()).predict(X)[0].shape == (1, 40, 1)
    assert total(sod_fit(model, X, Y).batch_terms()) < 0


@pytest.mark.slow
def test_what_a_line_cannot_follow_is_learned() -> None:
    """A kink that moves with another column: the network takes the place of many lengthscales."""
    X = torch.rand(300, 2, generator=generator(), dtype=torch.float64) * 4 - 2
    Y = torch.tanh(8 * (X[:, :1] - X[:, 1:].sin()))
    Y = Y + 0.1 * torch.randn(Y.shape, generator=generator(1), dtype=torch.float64)
    errors = []
    for scale in (1e-3, 1.0):
        model = deep_kernel_gp(
            DeepGPSettings(n_hidden=0),
            X,
            centroids(X[:200], 15, generator()),
            1,
            GaussianNoise(0.05, X),
            n_hidden=16,
            scale=scale,
            generator=generator(),
        )
        fit = DeepGPObjective(
            model, X[:200], Y[:200], n_samples=1, batch_size=1000, generator=generator()
        )
        train(fit, deep_schedule(fit, 300, 0.02), None)
        kept = DeepGPDraws.from_model(model, 1, generator(), (X[:200], Y[:200]))
        mean = kept.predict(X[200:])[0][0]
        errors.append(float((mean - Y[200:]).square().mean()))
    assert errors[1] < 0.8 * errors[0]


def test_a_long_table_lets_the_network_go_further() -> None:
    short, long = (
        DeepKernelGPRegressor.suggest(TableSize(n_rows=n, n_columns=5)) for n in (2000, 2001)
    )
    assert short == {"n_inducing": 50}
    assert long["weight_scale"] > DeepKernelGPRegressor().weight_scale
    assert long["n_inducing"] == 100


# ---- rows set aside --------------------------------------------------------------------


def test_rows_set_aside_enter_q_in_the_end() -> None:
    X, Y = table(n=80)
    settings = {"n_inducing": 8, "max_iter": 30, "n_hidden": 16}
    model = DeepKernelGPRegressor(**settings).fit(X.numpy(), Y[:, 0].numpy())
    told = [step.held_out for step in model.history_ if np.isfinite(step.held_out)]
    assert len(told) == 2
    rows = model._inputs(X.numpy())
    targets = model._encode_target(Y[:, 0].numpy(), rows)
    draw = model._function.gp.draw(1, generator())
    whole = model._function.gp.optimal_posterior(draw, rows, targets, generator())
    torch.testing.assert_close(model._function.kept.posterior.mean, whole.mean)
    torch.testing.assert_close(model._function.kept.posterior.root, whole.root)
    # The columns' relevance is measured on all of them too.
    before = model._function.gp.column_relevance.clone()
    model._function.gp.measure_relevance(rows)
    torch.testing.assert_close(model._function.gp.column_relevance, before)


def test_too_few_rows_to_set_aside_are_told_of() -> None:
    X, Y = table(n=30)
    model = DeepKernelGPRegressor(n_inducing=8, max_iter=5).fit(X.numpy(), Y[:, 0].numpy())
    (note,) = model.notes_
    assert note.startswith("validation=0.1 sets fewer than 5 of 30 rows aside")
    assert not any(np.isfinite(step.held_out) for step in model.history_)
