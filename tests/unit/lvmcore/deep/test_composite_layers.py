"""Layers with a sum or product of kernels, against dense algebra and the stationary path."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from lvmcore.deep.deep_gp import DeepGP
from lvmcore.deep.dspp import build_dspp, marginal_moments
from lvmcore.deep.dspp_objective import DSPPObjective
from lvmcore.deep.dsvi import induced_deep_gp
from lvmcore.deep.hidden_layer import HiddenLayer, InducingValues
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.kept_draws import DeepGPDraws
from lvmcore.deep.layer_kernel import JITTER, CompositeLayerKernel
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.objective import CollapsedObjective, DeepGPObjective
from lvmcore.deep.output_layer import InducingPosterior, ProjectedRows
from lvmcore.deep.sampled_deep_gp import sampled_deep_gp
from lvmcore.deep.subset_of_data import subset_deep_gp
from lvmcore.deep.warm_start import start_first_layer
from lvmcore.gp.exact_regression import ExactGP, GPPosterior, MarginalLikelihood
from lvmcore.gp.paths import NOISE_FLOOR
from lvmcore.kernels.catalogue import read_kernel
from lvmcore.kernels.definition import KernelDefinition
from tests.unit.lvmcore.deep.small_models import generator, gradients_are_slopes, table

COLUMNS = ("a", "b", "c")
TEXTS = ["linear + rbf * periodic(b)", "polynomial(a, b) + matern32", "rbf * linear(c) + constant"]


def definition(text: str) -> KernelDefinition:
    return KernelDefinition(read_kernel(text), COLUMNS, (1.0, 2.0, 0.5))


def settings(text: str, **more: Any) -> DeepGPSettings:
    given = {"n_hidden": 0, "hidden_variance": 1.0, "spread": 1e-2, **more}
    return DeepGPSettings(definition=definition(text), **given)


def roughened(model: Any) -> Any:
    """The model with its parameters off their special start."""
    g = generator(5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                step = torch.randn(parameter.shape, generator=g, dtype=torch.float64)
                parameter.add_(0.1 * step)
    return model


def objective(model: DeepGP, X: Tensor, Y: Tensor, n_samples: int = 3) -> DeepGPObjective:
    return DeepGPObjective(
        model, X, Y, n_samples=n_samples, batch_size=len(X), generator=generator(1)
    )


def dense(composite: Any, X: Tensor, Z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """K(Z) with its jitter, k(Z, X) and k(x, x), from kernels of rows one by one."""
    K, k = composite.forward(Z, Z), composite.forward(X, Z).mT
    own = torch.stack([composite.forward(x[None], x[None])[0, 0] for x in X])
    return K + JITTER[X.dtype] * K.diagonal().mean() * torch.eye(len(Z)), k, own


# ---- the exact process as a limit --------------------------------------------------------------


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("subset", [False, True])
def test_an_inducing_input_at_every_row_gives_the_exact_process(
    text: str, subset: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(JITTER, torch.float64, 1e-9)  # the exact process has none
    X, Y = table(24)
    new = table(7, seed=3)[0]
    noise = GaussianNoise(0.3, X)
    if subset:
        model: Any = subset_deep_gp(settings(text), X, Y, torch.arange(24), noise)
    else:
        model = induced_deep_gp(settings(text), X, Y, X, noise, learned=False)
    roughened(model)
    fit = objective(model, X, Y)
    exact = ExactGP(definition(text).made(X), X)
    exact.kernel.load_state_dict(model.last.composite.state_dict())
    with torch.no_grad():
        exact.log_noise.copy_((noise.noise - NOISE_FLOOR).log())
        wanted = sum(float(term) for term in MarginalLikelihood(exact, X, Y).terms().values())
    fit.batch_terms()
    total = sum(float(term.detach()) for term in fit.terms().values())
    assert total == pytest.approx(wanted, abs=1e-5)
    mean, variance = DeepGPDraws.from_model(model, 1, generator(), (X, Y)).predict(new)
    posterior = GPPosterior(exact, X, Y).moments(new)
    torch.testing.assert_close(mean[0], posterior[0], rtol=0, atol=1e-5)
    total_variance = (variance[0] + noise.noise).detach()
    torch.testing.assert_close(total_variance, posterior[1], rtol=0, atol=1e-5)


# ---- the stationary path as a special case -----------------------------------------------------


def pair(n_hidden: int, build: Any) -> tuple[Any, Any]:
    """The same model with the RBF kernel on the stationary path, and as an expression."""
    given = {"n_hidden": n_hidden, "hidden_variance": 0.5, "spread": 1e-2}
    one = roughened(build(DeepGPSettings(**given)))
    other = build(DeepGPSettings(definition=definition("rbf"), **given))
    state = one.state_dict()
    for name in other.state_dict():
        if name.endswith("component.log_lengthscales"):
            layer = name.split(".composite.")[0]
            state[name] = state.pop(f"{layer}.log_lengthscales")
    layers = list(one.hidden)
    with torch.no_grad():
        for number in range(len(layers)):
            state[f"hidden.{number}.composite.parts.0.log_variance"] = torch.zeros(()).double()
        state.pop("last.log_variance")
        state["last.composite.parts.0.log_variance"] = one.last.variance.log()
    other.load_state_dict(state)
    return one, other


@pytest.mark.parametrize("n_hidden", [0, 1, 2])
@pytest.mark.parametrize("kind", ["induced", "subset", "dspp"])
def test_an_rbf_expression_agrees_with_the_stationary_path(n_hidden: int, kind: str) -> None:
    X, Y = table(20)

    def build(chosen: DeepGPSettings) -> DeepGP:
        noise = GaussianNoise(0.1, X)
        if kind == "subset":
            return subset_deep_gp(chosen, X, Y, torch.arange(8), noise)
        if kind == "dspp":
            return build_dspp(chosen, X, Y, X[:6] + 0.1, noise, n_sites=3)
        return induced_deep_gp(chosen, X, Y, X[:6] + 0.1, noise)

    values, means = [], []
    for model in pair(n_hidden, build):
        fit: Any = objective(model, X, Y)
        if kind == "dspp":
            fit = DSPPObjective(model, X, Y, kl_weight=1.0, batch_size=20, generator=generator(1))
        terms = fit.batch_terms()
        torch.stack(list(terms.values())).sum().backward()
        found = [term.detach() for term in terms.values()]
        slopes = [layer.q.mean.grad for layer in model.hidden]
        if hasattr(model, "Z"):
            slopes += [Z.grad for Z in model.Z]
        values.append([*found, *slopes])
        means.append(DeepGPDraws.from_model(model, 4, generator(2), (X, Y)).predict(X[:5] + 0.3))
    for ours, theirs in zip(*values, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    for ours, theirs in zip(*means, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


# ---- moments, bounds and divergences by dense algebra ------------------------------------------


@pytest.mark.parametrize("text", TEXTS)
def test_the_collapsed_bound_and_its_gradient_are_those_of_the_closed_form(text: str) -> None:
    X, Y = table(20)
    noise = GaussianNoise(0.1, X)
    model = roughened(induced_deep_gp(settings(text), X, Y, X[::4] + 0.1, noise))
    fit = CollapsedObjective(model, X, Y, n_samples=1, batch_size=20, generator=generator())
    K, k, own = dense(model.last.composite, X, model.Z[0])
    Q = k.mT @ torch.linalg.solve(K, k)
    A = Q + noise.noise * torch.eye(20)
    exact = MultivariateNormal(torch.zeros(20).double(), A).log_prob(Y[:, 0])
    exact = exact - 0.5 * (own.sum() - Q.trace()) / noise.noise
    parameters = [parameter for parameter in fit.parameters() if parameter.requires_grad]
    value = torch.stack(list(fit.terms().values())).sum()
    assert float(value.detach()) == pytest.approx(float(exact.detach()), rel=1e-8)
    for ours, theirs in zip(
        torch.autograd.grad(value, parameters), torch.autograd.grad(exact, parameters), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("text", TEXTS)
@torch.no_grad()
def test_moments_and_divergence_of_a_layer(text: str) -> None:
    """Of q of the values at the inducing inputs of the last layer and of a hidden one."""
    X, Z = table(9)[0], table(5, seed=2)[0]
    composite = roughened(definition(text).made(X))
    layer_kernel = CompositeLayerKernel.from_inputs(composite, Z)
    K, k, own = dense(composite, X, Z)
    torch.testing.assert_close(layer_kernel.C @ layer_kernel.C.mT, K)
    torch.testing.assert_close(layer_kernel.cross(X), k)
    torch.testing.assert_close(layer_kernel.diagonal(X)[0], own)
    m, half = torch.randn(2, 5, generator=generator(1)).double(), torch.eye(5).double()
    root = half + 0.3 * torch.randn(2, 5, 5, generator=generator(2)).double().tril(-1)
    q = InducingPosterior(m, root)
    mean, variance = q.moments(layer_kernel, layer_kernel.cross(X), layer_kernel.diagonal(X))
    weights, C = torch.linalg.solve(K, k).mT, layer_kernel.C
    kl = 0.0
    for p in range(2):
        S = C @ root[p].T @ root[p] @ C.T  # of f(Z)
        torch.testing.assert_close(mean[:, p], weights @ (C @ m[p]))
        left = own - (weights * k.mT).sum(1) + (weights @ S * weights).sum(1)
        torch.testing.assert_close(variance[:, p], left)
        prior = MultivariateNormal(torch.zeros(5).double(), K)
        kl += float(kl_divergence(MultivariateNormal(C @ m[p], S), prior))
    assert float(q.kl()) == pytest.approx(kl)

    layer = HiddenLayer(3, InducingValues(m, 0.2), variance=0.7, kernel=composite)
    v = layer.variance[:, None]
    found, spread = marginal_moments(layer, layer_kernel, X)
    for d in range(2):
        torch.testing.assert_close(found[:, d], v[d].sqrt() * weights @ (C @ m[d]))
        S = 0.2 * K
        left = own - (weights * k.mT).sum(1) + (weights @ S * weights).sum(1)
        torch.testing.assert_close(spread[:, d], v[d] * left)
    drawn = torch.randn(2, 5, 2, generator=generator(3)).double()
    means, variances = layer.conditional_moments(layer_kernel, drawn, X)
    torch.testing.assert_close(means, weights @ (C @ drawn))
    torch.testing.assert_close(variances[:, 1], v[1] * (own - (weights * k.mT).sum(1)))


@torch.no_grad()
def test_the_likelihood_of_sampled_values() -> None:
    X, Y = table(12)
    noise = GaussianNoise(0.2, X)
    model = sampled_deep_gp(settings(TEXTS[0]), X, Y, X[:5] + 0.1, noise, learned=True)
    u = torch.randn(1, 5, generator=generator(1)).double()
    K, k, own = dense(model.last.composite, X, model.Z[0])
    mean = k.mT @ torch.linalg.solve(K, torch.linalg.cholesky(K) @ u[0])
    left = own - (k * torch.linalg.solve(K, k)).sum(0)
    sigma = noise.noise
    logs = -0.5 * (((Y[:, 0] - mean) ** 2 + left) / sigma + sigma.log() + math.log(2 * math.pi))
    found = model.log_likelihood(u, X, Y, 1.0, generator())
    assert float(found) == pytest.approx(float(logs.sum()), rel=1e-6)


@torch.no_grad()
def test_natural_gradients_of_classes_reach_the_optimum() -> None:
    """At the fixed point the slope of the bound by the mean and root of q is 0."""
    X, _ = table(40)
    Y = torch.sign(X[:, :1] * 1.5 + 0.3)
    likelihood = SoftmaxClasses("probit", X)
    model = induced_deep_gp(settings(TEXTS[0]), X, Y, X[:6] + 0.1, likelihood, learned=False)
    draw, rows = model.draw(1, generator()), []
    q = model.posterior(draw)
    sums = model.last.q.curvature, model.last.q.shift
    rows = ProjectedRows.of_inputs(draw.last, X, Y)
    for _ in range(60):
        added = model.last.label_sums_of_posterior(draw.last, q, rows)
        sums = sums[0].lerp(added[0], 0.5), sums[1].lerp(added[1], 0.5)
        q = model.posterior(draw, sums)
    with torch.enable_grad():
        leaves = [q.mean.clone().requires_grad_(), q.root.clone().requires_grad_()]
        mine = InducingPosterior(*leaves)
        bound = model.last.expected_log_likelihood(draw.last, mine, rows)[0] - mine.kl()
        slopes = torch.autograd.grad(bound, leaves)
    for slope in slopes:
        torch.testing.assert_close(slope.tril(), torch.zeros_like(slope), rtol=0, atol=1e-4)


@pytest.mark.parametrize("text", ["linear + rbf * periodic(b)", "polynomial + matern32"])
@pytest.mark.parametrize("kind", ["induced", "subset"])
def test_gradients_of_deep_models(text: str, kind: str) -> None:
    X, Y = table(16)
    chosen, noise = settings(text, n_hidden=1), GaussianNoise(0.1, X)
    if kind == "subset":
        model: Any = subset_deep_gp(chosen, X, Y, torch.arange(6), noise)
    else:
        model = induced_deep_gp(chosen, X, Y, X[:6] + 0.1, noise, each_draw=True)
    gradients_are_slopes(objective(roughened(model), X, Y))


# ---- kernels of the layers ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "later"),
    [
        ("linear + rbf", "linear + rbf"),
        ("linear + rbf(a)", None),
        ("periodic(period=3)", None),
        ("periodic", "periodic"),
        ("cosine(b)", None),
    ],
)
def test_a_kernel_of_columns_is_that_of_the_first_layer(text: str, later: str | None) -> None:
    X, Y = table(12)
    chosen = settings(text, n_hidden=2, kernel="matern32", width=2)
    model = induced_deep_gp(chosen, X, Y, X[:6], GaussianNoise(0.1, X))
    first, second = model.hidden
    assert str(first.composite.expression) == text
    for layer in (second, model.last):
        assert layer.n_inputs == 2
        if later is None:
            assert layer.composite is None
            assert layer.kernel == "matern32"
        else:
            assert str(layer.composite.expression) == later


# ---- the start of a first layer with its own kernel --------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("kind", ["induced", "subset", "sampled"])
def test_the_last_unit_starts_at_the_exact_process(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the rows as inducing inputs its moments are those of f given the rows."""
    monkeypatch.setitem(JITTER, torch.float64, 1e-9)
    X, Y = table(14)
    exact = ExactGP(roughened(definition("linear(a) + matern32").made(X)), X)
    noise = GaussianNoise(0.3, X)
    start = definition("linear(a) + matern32").starting_at(exact.kernel)
    chosen = DeepGPSettings(n_hidden=2, width=4, definition=start)
    if kind == "subset":
        model: Any = subset_deep_gp(chosen, X, Y, torch.arange(14), noise)
    elif kind == "sampled":
        model = sampled_deep_gp(chosen, X, Y, X, noise, learned=True)
    else:
        model = induced_deep_gp(chosen, X, Y, X, noise)
    layer = model.hidden[0]
    start_first_layer(model, GPPosterior(exact, X, Y))
    # v of the unit is a little less than 1: the process with that variance
    v = layer.variance[-1]
    for summand in exact.kernel.summands:
        summand.log_variance.add_(v.log())
    mean, variance = GPPosterior(exact, X, Y).moments(X)
    found, spread = marginal_moments(layer, layer.kernel_at(X), X)
    torch.testing.assert_close(found[:, -1:], mean, rtol=0, atol=1e-5)
    torch.testing.assert_close(spread[:, -1:] + exact.noise, variance, rtol=0, atol=1e-5)
    torch.testing.assert_close(found[:, :-1], X)
    if kind == "sampled":
        drawn = model.function_draw(model.kept)
        moments = layer.conditional_moments(drawn.layer_kernels[0], drawn.values[0], X)
        torch.testing.assert_close(moments[0][0, :, -1:], mean, rtol=0, atol=1e-5)
    if kind != "subset":
        for Z in model.Z[1:]:
            torch.testing.assert_close(Z[:, -1:], mean, rtol=0, atol=1e-5)


@torch.no_grad()
def test_q_of_a_unit_is_set() -> None:
    values = InducingValues(torch.zeros(2, 4).double(), 0.1)
    half = torch.randn(4, 4, generator=generator()).double()
    mean, covariance = torch.arange(4).double(), half @ half.T + 0.1 * torch.eye(4)
    values.set_unit(1, mean, covariance)
    torch.testing.assert_close(values.mean[1], mean)
    torch.testing.assert_close(values.factor[1] @ values.factor[1].T, covariance)
    torch.testing.assert_close(values.factor[0], 0.1**0.5 * torch.eye(4).double())
