"""The Q-EP map with a hidden layer: its parts against draws, brute force and limits."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import lvmcore
from lvmcore import DeepQEPLVM
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.gp.paths import DataPath, KernelPath, LatentRows
from lvmcore.numerics.gaussians import kl_whitened
from lvmcore.numerics.linalg import cholesky, solve_lower
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.qep.blocks import log_block
from lvmcore.qep.deep_decoder import DeepDataPath, DeepDecoder
from lvmcore.qep.deep_objective import DeepQEPLVMObjective
from lvmcore.qep.distribution import QExponential, covariance_factor
from lvmcore.qep.objective import QEPLVMObjective, QExponent
from lvmcore.training.checkpoint import Checkpoint

Array = NDArray[np.float64]

SETTINGS: dict[str, Any] = {"n_components": 2, "n_inducing": 8, "max_iter": 40}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def small_layer(width: int = 3, M: int = 6) -> tuple[DeepDataPath, Tensor]:
    """A hidden layer with a q(V) of some width, and places [15, 2]."""
    X = torch.randn(15, 2, generator=generator(), dtype=torch.float64)
    W = torch.randn(2, width, generator=generator(1), dtype=torch.float64)
    layer = DeepDataPath(X[:M], X, X @ W)
    with torch.no_grad():
        layer.q_sqrt.add_(0.2 * torch.randn(layer.q_sqrt.shape, generator=generator(2)))
        layer.log_lengthscales.sub_(0.8)
    return layer, X


def small_fit(q: float = 1.0, *, gaps: bool = False, more_layers: int = 0) -> DeepQEPLVMObjective:
    layer, X = small_layer()
    layers, H = [layer], layer.latent_function(X)[0].detach()
    for seed in range(more_layers):
        W = torch.randn(H.shape[1], 2, generator=generator(20 + seed), dtype=torch.float64)
        layers.append(DeepDataPath(H[:6], H, H @ W))
        H = layers[-1].latent_function(H)[0].detach()
    Y = torch.sin(X @ torch.randn(2, 4, generator=generator(3), dtype=torch.float64))
    observed = torch.rand(Y.shape, generator=generator(4)) < 0.8 if gaps else None
    Y = Y if observed is None else Y * observed
    problem = FitProblem(InMemoryRows(Y, observed), (), 2, generator(5), None)
    path = DataPath(H[:5], torch.full((4,), 0.1).double(), pooled=gaps)
    return DeepQEPLVMObjective(LatentRows(X, 0.2), path, problem, QExponent(q), layers)


@pytest.fixture(scope="module")
def X() -> Array:
    t = np.linspace(-2, 2, 40)
    columns = [np.sin(2 * t), np.sign(t), t, t * np.sign(t)]
    return np.column_stack(columns) + 0.1 * np.random.default_rng(3).normal(size=(40, 4))


@pytest.fixture(scope="module")
def fitted(X: Array) -> DeepQEPLVM:
    return DeepQEPLVM(**{**SETTINGS, "max_iter": 150}).fit(X)


# ---- the hidden layer ------------------------------------------------------------------


def test_the_layer_s_block_at_two_is_the_divergence() -> None:
    layer, _ = small_layer()
    torch.testing.assert_close(layer.block_bound(2.0), -kl_whitened(layer.q_mu, layer.factor))


@pytest.mark.parametrize("q", [0.5, 1.0, 1.5])
def test_the_layer_s_block_is_below_what_it_bounds(q: float) -> None:
    layer, _ = small_layer()
    with torch.no_grad():  # a factor with a positive diagonal, as torch's own distribution asks for
        diagonal = layer.q_sqrt.diagonal(dim1=1, dim2=2)
        diagonal.copy_(diagonal.abs())
        z = torch.randn(200_000, *layer.q_mu.shape, generator=generator(), dtype=torch.float64)
        V = layer.q_mu + (layer.factor @ z[..., None])[..., 0]
        normal = torch.distributions.MultivariateNormal(layer.q_mu, scale_tril=layer.factor)
        prior = log_block(V.square().sum((1, 2)), layer.q_mu.numel(), q)
        slack = float(prior.mean() + normal.entropy().sum() - layer.block_bound(q))
    assert 5 * float(prior.std()) / len(V) ** 0.5 < slack < 1


def test_a_layer_begins_with_what_it_is_given() -> None:
    X = torch.randn(60, 2, generator=generator(), dtype=torch.float64)
    H = X @ torch.tensor([[1.0, 0.5, 0.0], [-0.5, 1.0, 1.0]], dtype=torch.float64)
    mean, variance = DeepDataPath(X[:12], X, H).latent_function(X)
    assert float((mean - H).square().mean().detach()) < 0.02
    assert float(variance.max().detach()) < 0.2


# ---- the objective ---------------------------------------------------------------------


@pytest.mark.parametrize("gaps", [False, True])
def test_its_columns_are_those_of_a_map_at_the_hidden_rows(gaps: bool) -> None:
    """With next to no width of q(X), a map whose rows lie at the hidden means and variances."""
    fit = small_fit(gaps=gaps)
    with torch.no_grad():
        fit.rows.log_variance.fill_(-60.0)
        mean, variance = fit.latent_path.latent_function(fit.rows.mean)
    shallow = LatentRows(mean, 1.0)
    with torch.no_grad():
        shallow.log_variance.copy_(variance.log())
    observed = None if fit.data.cells is None else fit.data.cells.mask
    problem = FitProblem(InMemoryRows(fit.data.Y, observed), (), 3, generator(), None)
    twin = QEPLVMObjective(shallow, fit.path, problem, QExponent(1.0))
    torch.testing.assert_close(fit.terms()["data fit"], twin.terms()["data fit"])
    ours, theirs = fit.decoder(), twin.decoder()
    assert isinstance(ours, DeepDecoder)
    torch.testing.assert_close(ours.noise, theirs.noise)
    torch.testing.assert_close(ours.decode(fit.rows.mean)[0], theirs.moments(mean, variance)[0])


def test_its_gradient_is_that_of_differences() -> None:
    fit = small_fit(q=1.3)
    noise = torch.randn(15, 2, generator=generator(7), dtype=torch.float64)
    parameters = (
        fit.rows.mean,
        fit.latent_path.q_mu,
        fit.latent_path.q_sqrt,
        fit.latent_path.log_lengthscales,
    )
    fit.data.draw_noise = lambda rows, generator: [noise]  # type: ignore[method-assign]

    def total() -> Tensor:
        return torch.stack(list(fit.terms().values())).sum()

    slopes = torch.autograd.grad(total(), parameters)
    for parameter, slope in zip(parameters, slopes, strict=True):
        way = torch.randn(parameter.shape, generator=generator(8), dtype=torch.float64)
        ends = []
        for step in (1e-5, -2e-5):
            with torch.no_grad():
                parameter.add_(step * way)
                ends.append(float(total()))
        with torch.no_grad():
            parameter.add_(1e-5 * way)
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(float((slope * way).sum()), rel=1e-5)


def test_a_single_draw_is_right_on_average() -> None:
    """Draws of the hidden values too, one q(V) for all: nothing above the mean of the draws."""
    fit = small_fit()
    with torch.no_grad():
        values = torch.stack([fit.terms()["data fit"] for _ in range(80)])
        one = fit.data.bound(_average(fit, 32)).value
    error = float(values.std()) / len(values) ** 0.5
    assert float(one) < float(values.mean()) + 4 * error
    assert float(one) > float(values.mean()) - 5 * float(values.std())


def _average(fit: DeepQEPLVMObjective, draws: int) -> Any:
    noises = [torch.randn(15, 2, generator=generator(s), dtype=torch.float64) for s in range(draws)]
    parts = [fit.data.sums_at(fit.rows, [noise]) for noise in noises]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return type(total)(total.psi0 / draws, total.psi1Y / draws, total.psi2 / draws)


@pytest.mark.slow
@pytest.mark.parametrize("n_layers", [1, 2])
def test_it_is_below_the_evidence(n_layers: int) -> None:
    """log of the mean of p(Y | F) over draws of all that the model draws, from the map on."""
    q, draws = 1.0, 200_000
    X = torch.tensor([[-0.8], [0.1], [0.9]], dtype=torch.float64)
    Y = torch.tensor([[0.8, -0.5], [0.2, 0.3], [-0.7, 0.9]], dtype=torch.float64)
    layers = [DeepDataPath(X[[0, 2]], X, X) for _ in range(n_layers)]
    path = DataPath(X[[0, 2]], torch.tensor([0.5, 0.8]).double())
    problem = FitProblem(InMemoryRows(Y, None), (), 1, generator(), None)
    fit = DeepQEPLVMObjective(LatentRows(X, 0.3), path, problem, QExponent(q), layers)
    moved = [*fit.rows.parameters()]
    moved += [part for layer in layers for part in (layer.q_mu, layer.q_sqrt)]
    adam = torch.optim.Adam(moved, lr=0.05)
    for _ in range(80):
        adam.zero_grad()
        (-torch.stack(list(fit.terms().values())).sum()).backward()  # type: ignore[no-untyped-call]
        adam.step()
    with torch.no_grad():
        bounds = torch.stack([torch.stack(list(fit.terms().values())).sum() for _ in range(100)])
        source = generator(1)

        def block(*shape: int) -> Tensor:
            n = math.prod(shape)
            unit = QExponential(torch.zeros(n).double(), torch.eye(n).double(), q)
            return (unit.draw(draws, source) / covariance_factor(n, q).sqrt()).reshape(-1, *shape)

        H = block(3, 1)
        for layer in layers:
            normal = torch.randn(draws, 3, 1, generator=source, dtype=torch.float64)
            H = _through(layer, H, block(2, 1), normal)
        F = _through(path, H, block(2, 2), block(3, 2))
        e = ((Y - F).square() / path.noise).sum((1, 2))
        logs = log_block(e, 6, q) - 1.5 * path.noise.log().sum()
        evidence = float(logs.logsumexp(0)) - math.log(draws)
        error = float((logs - evidence).exp().std()) / math.sqrt(draws)
    found = float(bounds.mean()) + 5 * float(bounds.std()) / math.sqrt(len(bounds))
    assert error < 0.02
    assert evidence - 8 < found < evidence - 5 * error


def _through(path: KernelPath, X: Tensor, V: Tensor, left: Tensor) -> Tensor:
    """Values at places X [draws, N, 1] given whitened V [draws, M, P], and their own noise."""
    kernel = path.kernel
    L, _ = cholesky(kernel(path.Z, path.Z), "Kuu")
    K = kernel(X.reshape(-1, 1), path.Z).reshape(len(X), -1, len(path.Z))
    a = torch.linalg.solve_triangular(L, K.mT, upper=False).mT
    own = kernel.variance * (-0.5 * ((X - X.mT) / kernel.lengthscales).square()).exp()
    rest = torch.linalg.cholesky(own - a @ a.mT + 1e-6 * torch.eye(X.shape[1]))
    return a @ V + rest @ left


# ---- the decoder -----------------------------------------------------------------------


def test_its_moments_are_those_of_draws_of_everything() -> None:
    fit = small_fit()
    decoder = fit.decoder()
    assert isinstance(decoder, DeepDecoder)
    x = torch.tensor([[0.3, -0.4]], dtype=torch.float64)
    mean, variance, noise = decoder.decode(x)
    layer, count = fit.latent_path, 200_000
    L, _ = cholesky(layer.kernel(layer.Z, layer.Z), "Kuu")
    a = solve_lower(L, layer.kernel(layer.Z, x))[:, 0]
    z = torch.randn(count, *layer.q_mu.shape, generator=generator(), dtype=torch.float64)
    V = layer.q_mu + (layer.factor @ z[..., None])[..., 0]
    left = (layer.kernel.variance - a.square().sum()).sqrt()
    h = V @ a + left * torch.randn(count, 3, generator=generator(9), dtype=torch.float64)
    f_mean, f_variance = decoder.data.predict(h.detach())
    wanted = f_mean.var(0) + f_variance.mean(0) + decoder.noise
    torch.testing.assert_close(mean[0], f_mean.mean(0), atol=0.02, rtol=0.02)
    torch.testing.assert_close(variance[0], wanted, atol=0.01, rtol=0.03)
    torch.testing.assert_close(noise[0], decoder.noise)
    hidden = decoder.hidden[0].predict(x)
    for found, same in zip(hidden, layer.latent_function(x), strict=True):
        torch.testing.assert_close(found, same.detach())


@pytest.mark.parametrize("of_row", [False, True])
def test_the_moments_of_two_layers_are_those_of_draws_of_everything(of_row: bool) -> None:
    decoder = small_fit(more_layers=1).decoder()
    assert isinstance(decoder, DeepDecoder)
    x = torch.tensor([[0.3, -0.4]], dtype=torch.float64)
    spread = torch.full_like(x, 0.04 if of_row else 0.0)
    found = decoder.moments(x, spread) if of_row else decoder.decode(x)
    count, source = 100_000, generator()

    def normal(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=source, dtype=torch.float64)

    at = x.expand(count, 2)
    at = at + spread.sqrt() * normal(at)
    for layer in decoder.hidden:
        mean, variance = layer.predict(at)
        at = mean + variance.sqrt() * normal(mean)
    f_mean, f_variance = decoder.data.predict(at)
    wanted = f_mean.var(0) + f_variance.mean(0) + decoder.noise
    # The decoder has 16 fixed draws of what is before the last hidden layer.
    torch.testing.assert_close(found[0][0], f_mean.mean(0), atol=0.08, rtol=0.05)
    torch.testing.assert_close(found[1][0], wanted, atol=0.03, rtol=0.25)
    torch.testing.assert_close(found[2][0], decoder.noise)


def test_a_certain_layer_before_another_moves_the_rows_alone() -> None:
    """Its columns are those of a map with one hidden layer whose rows lie where it puts them."""
    fit = small_fit(more_layers=1)
    first, second = fit.data.layers
    with torch.no_grad():
        fit.rows.log_variance.fill_(-60.0)
        first.q_sqrt.mul_(1e-6)
        first.log_lengthscales.add_(3.0)
        first.log_variance.sub_(12.0)
        H, left = first.latent_function(fit.rows.mean)
    assert float(left.max()) < 1e-4
    problem = FitProblem(InMemoryRows(fit.data.Y, None), (), 3, generator(), None)
    rows = LatentRows(H, 1.0)
    with torch.no_grad():
        rows.log_variance.fill_(-60.0)
    twin = DeepQEPLVMObjective(rows, fit.path, problem, QExponent(1.0), [second])
    assert float(fit.terms()["data fit"].detach()) == pytest.approx(
        float(twin.terms()["data fit"].detach()), abs=0.5
    )
    assert {"KL of hidden layer 1", "KL of hidden layer 2"} <= set(fit.terms())


def test_the_metric_of_two_layers_is_carried_back_through_both() -> None:
    fit = small_fit(more_layers=1)
    with torch.no_grad():
        for layer in fit.data.layers:
            layer.q_sqrt.mul_(1e-4)
            layer.log_lengthscales.add_(1.5)
    decoder = fit.decoder()
    assert isinstance(decoder, DeepDecoder)
    x, step = torch.tensor([[0.2, 0.1]], dtype=torch.float64), 1e-5

    def last(at: Tensor) -> Tensor:
        for layer in decoder.hidden:
            at = layer.predict(at)[0]
        return at

    slopes = []
    for q in range(2):
        away = step * torch.eye(2, dtype=torch.float64)[q]
        slopes.append((last(x + away)[0] - last(x - away)[0]) / (2 * step))
    J = torch.stack(slopes)
    sure = J @ decoder.data.metric(last(x))[0] @ J.T
    found = decoder.metric(x)[0]
    torch.testing.assert_close(found, sure, rtol=0.3, atol=0.3 * float(sure.abs().max()))
    assert bool((torch.linalg.eigvalsh(found - sure) > -1e-9).all())


def test_its_metric_is_that_of_a_hidden_map_by_differences() -> None:
    """With a sure and straight hidden layer: E[∂f ∂fᵀ] of the columns, carried back by ∂h."""
    fit = small_fit()
    with torch.no_grad():
        fit.latent_path.q_sqrt.mul_(1e-4)
        fit.latent_path.log_lengthscales.add_(1.5)
    decoder = fit.decoder()
    assert isinstance(decoder, DeepDecoder)
    x = torch.tensor([[0.2, 0.1]], dtype=torch.float64)
    step = 1e-5
    slopes = []
    for q in range(2):
        away = step * torch.eye(2, dtype=torch.float64)[q]
        ends = [decoder.hidden[0].predict(x + s * away)[0][0] for s in (1, -1)]
        slopes.append((ends[0] - ends[1]) / (2 * step))
    J = torch.stack(slopes)
    A = decoder.data.metric(decoder.hidden[0].predict(x)[0])[0]
    sure = J @ A @ J.T
    found = decoder.metric(x)[0]
    torch.testing.assert_close(found, sure, rtol=0.2, atol=0.2 * float(sure.abs().max()))
    assert bool((torch.linalg.eigvalsh(found - sure) > -1e-9).all())


def test_a_row_s_places_are_averaged_the_same_way_wherever_it_stands() -> None:
    fit = small_fit()
    decoder = fit.decoder()
    Y = fit.data.Y
    mean, variance = fit.rows.mean.detach(), fit.rows.variance.detach()
    together = decoder.complete_rows(Y).expected_log_density(torch.arange(15), mean, variance)
    alone = decoder.complete_rows(Y).expected_log_density(
        torch.tensor([7]), mean[7:8], variance[7:8]
    )
    torch.testing.assert_close(together[7], alone[0])
    holed = decoder.observed_rows(Y).expected_log_density(torch.arange(15), mean, variance)
    torch.testing.assert_close(holed, together)


# ---- a fit -----------------------------------------------------------------------------


def test_the_bound_rises_and_the_rows_are_found_again(fitted: DeepQEPLVM, X: Array) -> None:
    bounds = [step.objective for step in fitted.history_]
    assert np.mean(bounds[-20:]) > np.mean(bounds[:20]) + 20
    assert set(fitted.history_[0].terms) == {
        "data fit",
        "KL of the hidden layer",
        "KL of the map",
    }
    found = fitted.inverse_transform(fitted.transform(X))
    assert np.sqrt(np.square(found - X).mean()) < 0.35
    assert fitted.elbo_ == pytest.approx(np.mean(bounds[-10:]), abs=0.05 * X.size)


def test_a_map_with_two_hidden_layers_is_fitted_and_saved(X: Array, tmp_path: Path) -> None:
    model = DeepQEPLVM(**{**SETTINGS, "max_iter": 150, "n_layers": 2}).fit(X)
    bounds = [step.objective for step in model.history_]
    assert np.mean(bounds[-20:]) > np.mean(bounds[:20]) + 20
    found = model.inverse_transform(model.transform(X))
    assert np.sqrt(np.square(found - X).mean()) < 0.4
    model.save(tmp_path / "model.safetensors")
    again = lvmcore.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.transform(X[:5]), model.transform(X[:5]))
    np.testing.assert_array_equal(again.score_samples(X[:5]), model.score_samples(X[:5]))
    latent = model.embedding_.mean[:4]
    np.testing.assert_array_equal(again.latent_metric(latent), model.latent_metric(latent))


@pytest.mark.slow(quick=["1"])
@pytest.mark.parametrize("width", [1, 4])
def test_a_hidden_layer_of_another_width(X: Array, width: int) -> None:
    model = DeepQEPLVM(hidden_dim=width, **SETTINGS).fit(X)
    assert model.relevance_["data"].shape == (2,)
    assert np.isfinite(model.transform(X[:4])).all()


@pytest.mark.slow
def test_a_fit_that_was_stopped_goes_on(X: Array, tmp_path: Path) -> None:
    settings = {**SETTINGS, "q": "learn"}
    whole = DeepQEPLVM(**settings).fit(X)
    path = tmp_path / "checkpoint.safetensors"
    for stop in (9, 33):
        DeepQEPLVM(**settings)._fit_from(
            X, callback=lambda step, stop=stop: step.iteration >= stop, checkpoint=Checkpoint(path)
        )
    again = DeepQEPLVM(**settings)._fit_from(X, checkpoint=Checkpoint(path))
    assert (again.elbo_, again.q_) == (whole.elbo_, whole.q_)
    np.testing.assert_array_equal(again.embedding_.mean, whole.embedding_.mean)


def test_a_file_holds_both_layers(fitted: DeepQEPLVM, X: Array, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model.safetensors")
    again = lvmcore.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.transform(X[:4]), fitted.transform(X[:4]))
    np.testing.assert_array_equal(again.score(X[:4]), fitted.score(X[:4]))


def test_gaps_are_filled(X: Array) -> None:
    holed = np.where(np.random.default_rng(1).random(X.shape) < 0.15, np.nan, X)
    model = DeepQEPLVM(**SETTINGS).fit(holed)
    filled = model.impute(holed)
    assert np.isfinite(filled.mean).all()
    assert (filled.variance[np.isnan(holed)] > 0).all()
