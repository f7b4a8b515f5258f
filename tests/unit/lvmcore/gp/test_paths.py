"""Paths and frozen decoders against conditional Gaussians written out, and Monte Carlo."""

import numpy as np
import pytest
import torch
from scipy.special import log_ndtr
from scipy.stats import norm
from torch import Tensor

from lvmcore.gp.bounds import collapsed_bound
from lvmcore.gp.data_decoder import DataDecoder, FunctionDecoder
from lvmcore.gp.paths import DataPath, GridDataPath, LabelPath, LatentRows
from lvmcore.kernels.grid_psi_sums import grid_inputs
from lvmcore.kernels.psi_statistics import psi1, psi_sums
from tests.unit.lvmcore.small_problems import Small, small_decoder, small_problem

C = 3


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@pytest.fixture
def labels() -> LabelPath:
    """A label path away from its start: kernel, mean and factor all drawn."""
    path = LabelPath(small_problem().Z, C)
    M = len(path.Z)
    with torch.no_grad():
        path.log_variance.fill_(0.4)
        path.log_lengthscales.copy_(torch.tensor([-0.1, 0.5]))
        path.q_mu.copy_(normal(C, M))
        # Entries above the diagonal too: they must not count.
        path.q_sqrt.copy_(torch.eye(M) * 0.6 + 0.2 * normal(C, M, M, seed=1))
    return path


def conditional(path: LabelPath, X: Tensor) -> tuple[Tensor, Tensor]:
    """f(x) = ∫ p(f(x) | u) q(u) du, each [N, C], with inverses in full."""
    kernel, Z = path.kernel, path.Z
    Kuu = kernel(Z, Z) + 1e-8 * kernel.variance * torch.eye(len(Z), dtype=Z.dtype)
    L = torch.linalg.cholesky(Kuu)
    K, inverse = kernel(X, Z), torch.linalg.inv(Kuu)
    means, variances = [], []
    for c in range(C):
        factor = L @ path.q_sqrt[c].tril()
        u_mean, u_covariance = L @ path.q_mu[c], factor @ factor.T
        A = K @ inverse
        means.append(A @ u_mean)
        reduced = kernel(X, X) - A @ K.T + A @ u_covariance @ A.T
        variances.append(reduced.diagonal())
    return torch.stack(means, 1), torch.stack(variances, 1)


@torch.no_grad()
def test_label_functions_are_the_conditional_gaussian(labels: LabelPath) -> None:
    X = 2 * normal(7, 2, seed=2)
    mean, variance = labels.latent_function(X)
    expected_mean, expected_variance = conditional(labels, X)
    torch.testing.assert_close(mean, expected_mean, rtol=1e-7, atol=1e-8)
    torch.testing.assert_close(variance, expected_variance, rtol=1e-7, atol=1e-8)


@torch.no_grad()
def test_label_functions_return_to_the_prior_far_away(labels: LabelPath) -> None:
    mean, variance = labels.latent_function(torch.full((1, 2), 100.0, dtype=torch.float64))
    assert float(mean.abs().max()) < 1e-12
    torch.testing.assert_close(variance, labels.kernel.variance.expand(1, C))


@torch.no_grad()
def test_frozen_label_decoder_equals_the_path(labels: LabelPath) -> None:
    X = 2 * normal(7, 2, seed=2)
    decoder = labels.decoder()
    again = FunctionDecoder.from_arrays(decoder.arrays(), torch.zeros(1, dtype=torch.float64))
    for frozen in (decoder, again):
        for got, expected in zip(frozen.predict(X), labels.latent_function(X), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-7, atol=1e-8)


@torch.no_grad()
def test_frozen_label_decoder_does_not_follow_the_path(labels: LabelPath) -> None:
    X = normal(3, 2)
    decoder = labels.decoder()
    before = decoder.predict(X)[0].clone()
    labels.log_variance.add_(1.0)
    labels.q_mu.add_(1.0)
    assert torch.equal(decoder.predict(X)[0], before)


@torch.no_grad()
def test_label_term_adds_up_row_by_row(labels: LabelPath) -> None:
    X = normal(4, 5, 2, seed=3)
    signs = torch.where(normal(5, C, seed=4) > 0, 1.0, -1.0).double()
    mean, variance = conditional(labels, X.reshape(-1, 2))
    draws = 60_000
    f = mean[:, :, None] + variance.sqrt()[:, :, None] * normal(20, C, draws, seed=5)
    t = signs.repeat(4, 1)[:, :, None]
    terms = torch.as_tensor(log_ndtr((t * f).numpy()))
    expected = terms.mean(2).sum() / 4
    error = (terms.var(2) / draws).sum().sqrt() / 4
    got = labels.expected_log_likelihood(X, signs)
    assert float(error) < 0.001 * abs(float(expected))
    assert abs(float(got - expected)) < 5 * float(error)


def test_label_path_starts_at_the_prior() -> None:
    path = LabelPath(small_problem().Z, C)
    assert float(path.kl().detach()) == pytest.approx(0.0, abs=1e-12)


def textbook(p: Small, decoder: DataDecoder, X: Tensor) -> tuple[Tensor, Tensor]:
    """k* Σ⁻¹ psi1ᵀ y/σ² and k** − k*(Kuu⁻¹ − Σ⁻¹)k*ᵀ, Σ = Kuu + psi2/σ², each [N, D]."""
    kernel, Z = decoder.kernel, p.Z
    Kuu = kernel(Z, Z) + 1e-8 * kernel.variance * torch.eye(len(Z), dtype=Z.dtype)
    psi2 = psi_sums(kernel, p.mean, p.variance, Z, p.Y).psi2
    P, K = psi1(kernel, p.mean, p.variance, Z), kernel(X, Z)
    means, variances = [], []
    for y, noise in zip(p.Y.T, decoder.noise, strict=True):
        A = torch.linalg.inv(Kuu + psi2 / noise)
        means.append(K @ A @ P.T @ y / noise)
        gone = K @ (torch.linalg.inv(Kuu) - A) @ K.T
        variances.append((kernel(X, X) - gone).diagonal())
    return torch.stack(means, 1), torch.stack(variances, 1)


def test_data_decoder_is_the_sparse_gp_prediction() -> None:
    p = small_problem(N=20)
    decoder = small_decoder(p)
    X = 2 * normal(7, 2, seed=2)
    for got, expected in zip(decoder.predict(X), textbook(p, decoder, X), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-7)


def test_data_decoder_survives_storage() -> None:
    p = small_problem()
    decoder = small_decoder(p)
    like = torch.zeros(1, dtype=torch.float64)
    again = DataDecoder.from_arrays(decoder.arrays(), like)
    for got, expected in zip(again.predict(p.mean), decoder.predict(p.mean), strict=True):
        assert torch.equal(got, expected)
    assert torch.equal(again.noise, decoder.noise)


def test_expected_log_density_is_the_mean_over_positions_and_functions() -> None:
    p = small_problem(N=4)
    decoder = small_decoder(p)
    draws = 200_000
    got = decoder.expected_log_density(p.Y, p.mean, p.variance)
    for n in range(4):
        X = p.mean[n] + p.variance[n].sqrt() * normal(draws, 2, seed=n)
        mean, variance = decoder.predict(X)
        f = mean + variance.sqrt() * normal(draws, 3, seed=10 + n)
        density = norm.logpdf(p.Y[n].numpy(), f.numpy(), decoder.noise.sqrt().numpy()).sum(1)
        error = density.std() / draws**0.5
        assert error < 0.01 * abs(density.mean())
        assert abs(float(got[n]) - density.mean()) < 5 * error


def test_log_density_is_the_gaussian_predictive() -> None:
    p = small_problem()
    decoder = small_decoder(p)
    X = normal(6, 9, 2, seed=3)
    got = decoder.log_density(p.Y, X)
    assert got.shape == (6, 9)
    for s in range(6):
        mean, variance = decoder.predict(X[s])
        sd = (variance + decoder.noise).sqrt().numpy()
        expected = norm.logpdf(p.Y.numpy(), mean.numpy(), sd).sum(1)
        np.testing.assert_allclose(got[s].numpy(), expected, rtol=1e-10)


@torch.no_grad()
def test_one_noise_for_all_columns_is_the_same_noise_in_each() -> None:
    p = small_problem(shared=True)
    rows = LatentRows(p.mean, 0.3)
    start = torch.full((1,), 0.2, dtype=torch.float64)
    shared, each = DataPath(p.Z, start), DataPath(p.Z, start.repeat(3))
    bounds = [float(path.bound(rows, p.Y, p.squares)) for path in (shared, each)]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-12)
    kernel = shared.kernel
    sums = psi_sums(kernel, rows.mean, rows.variance, p.Z, p.Y)
    noise = shared.noise.expand(3)
    expected, q = collapsed_bound(sums, kernel(p.Z, p.Z), noise, p.squares, len(p.Y))
    assert bounds[0] == pytest.approx(float(expected), rel=1e-12)
    assert shared.decoder(q).noise.shape == (3,)


@pytest.mark.parametrize("shared", [True, False])
def test_a_grid_is_the_same_path_as_its_inputs_without_structure(shared: bool) -> None:
    p = small_problem(shared=shared, seed=1)
    nodes = normal(4, 2, seed=2)
    noise = p.noise[:1] if shared else p.noise
    grid, free = GridDataPath(nodes, noise), DataPath(grid_inputs(nodes), noise)
    bounds, rows, decoded = [], [], []
    for path in (grid, free):
        with torch.no_grad():
            path.log_lengthscales.copy_(torch.tensor([-0.2, 0.4]))
            path.log_variance.fill_(0.3)
        rows.append(LatentRows(p.mean, 0.3))
        bounds.append(path.bound(rows[-1], p.Y, p.squares))
        bounds[-1].backward()  # type: ignore[no-untyped-call]
        decoder = path.decoder(path.optimal_inducing(rows[-1], p.Y, p.squares))
        decoded.append(torch.cat(decoder.predict(p.mean)))
    assert bounds[0].item() == pytest.approx(bounds[1].item(), rel=1e-10)
    torch.testing.assert_close(*decoded, rtol=1e-7, atol=1e-8)
    mine = [*grid.named_parameters(), *rows[0].named_parameters()]
    others = [*free.parameters(), *rows[1].parameters()]
    for (name, one), other in zip(mine, others, strict=True):
        assert one.grad is not None
        assert other.grad is not None
        expected = other.grad
        if name == "points":  # a node of one dimension is that of four inducing inputs
            inputs = expected.view(4, 4, 2)
            expected = torch.stack((inputs[..., 0].sum(1), inputs[..., 1].sum(0)), 1)
        torch.testing.assert_close(one.grad, expected, rtol=1e-7, atol=1e-8)


@torch.no_grad()
def test_pooled_noise_stays_above_half_of_the_average() -> None:
    p = small_problem()
    path = DataPath(p.Z, p.noise, pooled=True)
    path.log_noise.copy_(torch.tensor([-20.0, 0.0, 1.0]))
    assert float(path.noise.min() / path.noise.mean()) == pytest.approx(0.5, rel=1e-4)
    own = path.noise - 0.5 * path.noise.mean()
    torch.testing.assert_close(own[1:].log(), torch.tensor([0.0, 1.0]).double(), atol=1e-5, rtol=0)
    same = torch.full((3,), 0.2, dtype=torch.float64)
    torch.testing.assert_close(DataPath(p.Z, same, pooled=True).noise, same, atol=1e-5, rtol=0)
    shared = DataPath(p.Z, same[:1], pooled=True)
    torch.testing.assert_close(shared.noise, same[:1], atol=1e-5, rtol=0)


def test_rows_draw_from_their_distribution() -> None:
    p = small_problem()
    rows = LatentRows(p.mean, 0.3)
    chosen = torch.tensor([1, 4])
    draws = rows.draw(50_000, chosen, torch.Generator().manual_seed(0)).detach()
    assert draws.shape == (50_000, 2, 2)
    torch.testing.assert_close(draws.mean(0), p.mean[chosen], rtol=0, atol=0.02)
    torch.testing.assert_close(draws.var(0), torch.full((2, 2), 0.3).double(), rtol=0.03, atol=0)


def test_draws_carry_gradients_to_mean_and_variance() -> None:
    rows = LatentRows(small_problem().mean, 0.3)
    rows.draw(2, torch.tensor([0]), torch.Generator().manual_seed(0)).square().sum().backward()
    for parameter in rows.parameters():
        assert parameter.grad is not None
        assert float(parameter.grad[0].abs().min()) > 0
        assert float(parameter.grad[1:].abs().max()) == 0


def test_noise_is_bounded_below_by_a_share_of_the_kernel_variance() -> None:
    """The bound's rounding errors grow with v/σ², so that v = 90 and σ² = 1e-9 cannot be."""
    path = DataPath(torch.zeros(3, 2, dtype=torch.float64), torch.tensor([1e-9, 0.5]).double())
    with torch.no_grad():
        path.log_variance.fill_(7.0)
    least = 1e-6 * (1 + path.kernel.variance.item())
    assert 5e-5 < least < 1e-4
    assert path.noise[0].item() == pytest.approx(1e-9 + least)
    (slope,) = torch.autograd.grad(path.noise.sum(), path.log_variance)
    assert slope.item() > 0
