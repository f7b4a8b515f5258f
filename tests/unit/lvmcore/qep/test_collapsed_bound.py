"""The bound of q-exponential processes against the Gaussian's, Monte Carlo and its own optimum."""

import math

import pytest
import torch
from torch import Tensor

from lvmcore.gp.bounds import collapsed_bound
from lvmcore.gp.masked_bound import masked_bound, masked_optimum
from lvmcore.kernels.psi_statistics import masked_psi_sums, psi_sums
from lvmcore.kernels.stationary import RBF
from lvmcore.numerics.gaussians import LOG_2PI, kl_standard_normal
from lvmcore.numerics.linalg import cholesky, solve_lower
from lvmcore.preprocessing.observed_cells import ObservedCells
from lvmcore.qep.blocks import block_weight, log_block
from lvmcore.qep.collapsed_bound import QEPBound, block_bound, qep_bound
from lvmcore.qep.distribution import QExponential, conditional_shrinkage, covariance_factor
from tests.unit.lvmcore.small_problems import Small, small_problem

QS = (0.5, 1.0, 1.5)


def bound(p: Small, q: Tensor | float) -> QEPBound:
    """Of a complete table."""
    sums = psi_sums(p.rbf, p.mean, p.variance, p.Z, p.Y)
    counts = torch.full_like(p.noise, len(p.Y))
    return qep_bound(sums, p.rbf(p.Z, p.Z), p.noise, p.squares, counts, q)


def cells_of(p: Small, share: float) -> ObservedCells:
    """Observed cells of which some are missing: two columns have the same rows."""
    generator = torch.Generator().manual_seed(1)
    mask = torch.rand(p.Y.shape, generator=generator) >= share
    mask[:2] = True
    mask[:, -1] = mask[:, 0]
    return ObservedCells.from_mask(mask, p.Y)


def with_gaps(p: Small, cells: ObservedCells, q: Tensor | float) -> QEPBound:
    Y = p.Y * cells.mask
    sums = masked_psi_sums(p.rbf, p.mean, p.variance, p.Z, Y, cells)
    return qep_bound(sums, p.rbf(p.Z, p.Z), p.noise, Y.square().sum(0), cells.counts, q)


# ---- blocks ----------------------------------------------------------------------------


@pytest.mark.parametrize("q", [*QS, 2.0])
@pytest.mark.parametrize("n", [1, 4])
def test_the_density_of_a_block_with_that_covariance(n: int, q: float) -> None:
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(n, n, generator=generator, dtype=torch.float64)
    C = A @ A.T + torch.eye(n)
    scaled = QExponential.from_matrix(torch.zeros(n).double(), C / covariance_factor(n, q), q)
    torch.testing.assert_close(scaled.covariance, C, rtol=1e-6, atol=1e-6)
    u = torch.randn(n, generator=generator, dtype=torch.float64)
    found = log_block(u @ torch.linalg.solve(C, u), n, q) - 0.5 * torch.logdet(C)
    torch.testing.assert_close(found, scaled.log_prob(u))


@pytest.mark.parametrize("q", [*QS, 2.0])
def test_weights_are_the_slope_and_fall(q: float) -> None:
    n = torch.tensor([7.0, 400.0], dtype=torch.float64)
    e = (n * torch.tensor([0.2, 1.0, 6.0])[:, None]).requires_grad_()
    (slope,) = torch.autograd.grad(log_block(e, n, q).sum(), e)
    weights = block_weight(e, n, q)
    torch.testing.assert_close(weights, -2 * slope)
    if q == 2:
        torch.testing.assert_close(weights, torch.ones_like(e))
    else:
        assert bool((weights.diff(dim=0) < 0).all())


def test_the_map_s_block_at_two_is_the_divergence() -> None:
    p = small_problem()
    found = block_bound(p.mean, p.variance, 2.0)
    torch.testing.assert_close(found, -kl_standard_normal(p.mean, p.variance).sum())


@pytest.mark.parametrize("q", QS)
def test_the_map_s_block_is_below_what_it_bounds(q: float) -> None:
    p, n, draws = small_problem(N=3), 6, 200_000
    z = torch.randn(draws, 3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    X = p.mean + p.variance.sqrt() * z
    log_q = -0.5 * (z.square() + p.variance.log() + LOG_2PI).sum((1, 2))
    ratio = log_block(X.square().sum((1, 2)), n, q) - log_q
    slack = float(ratio.mean() - block_bound(p.mean, p.variance, q))
    assert 0 < slack < 1
    assert slack > 5 * float(ratio.std()) / math.sqrt(draws)


# ---- the Gaussian ----------------------------------------------------------------------


def test_at_two_it_is_the_collapsed_bound() -> None:
    p = small_problem()
    sums = psi_sums(p.rbf, p.mean, p.variance, p.Z, p.Y)
    wanted, best = collapsed_bound(sums, p.rbf(p.Z, p.Z), p.noise, p.squares, len(p.Y))
    found = bound(p, 2.0)
    torch.testing.assert_close(found.value, wanted, rtol=0, atol=1e-8)
    torch.testing.assert_close(found.inducing.weights, best.weights)
    torch.testing.assert_close(found.inducing.shrinkage, best.shrinkage)
    torch.testing.assert_close(found.weights, torch.ones(2).double())


def test_at_two_it_is_the_bound_with_gaps() -> None:
    p = small_problem(N=14, D=4)
    cells = cells_of(p, 0.4)
    Y = p.Y * cells.mask
    sums = masked_psi_sums(p.rbf, p.mean, p.variance, p.Z, Y, cells)
    Kuu = p.rbf(p.Z, p.Z)
    wanted = masked_bound(sums, Kuu, p.noise, Y.square().sum(0), cells.counts)
    best, found = masked_optimum(sums, Kuu, p.noise), with_gaps(p, cells, 2.0)
    torch.testing.assert_close(found.value, wanted, rtol=0, atol=1e-8)
    torch.testing.assert_close(found.inducing.weights, best.weights)
    torch.testing.assert_close(found.inducing.shrinkage, best.shrinkage)


# ---- below it --------------------------------------------------------------------------


@pytest.mark.parametrize("q", QS)
def test_without_a_gap_both_ways_agree(q: float) -> None:
    p = small_problem(D=4)
    whole, masked = bound(p, q), with_gaps(p, cells_of(p, 0.0), q)
    torch.testing.assert_close(whole.value, masked.value, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(whole.inducing.weights, masked.inducing.weights)
    torch.testing.assert_close(whole.inducing.shrinkage, masked.inducing.shrinkage)


def direct(p: Small, mask: Tensor, m: Tensor, A: Tensor, q: float) -> Tensor:
    """The bound at q(V) with means m [M, D] and covariances A_d A_dᵀ, from psi statistics a row."""
    L, _ = cholesky(p.rbf(p.Z, p.Z), "Kuu")
    e_Y = torch.zeros(()).double()
    half_log_det = A.diagonal(dim1=1, dim2=2).abs().log().sum()
    for d in range(p.Y.shape[1]):
        rows = mask[:, d]
        own = psi_sums(p.rbf, p.mean[rows], p.variance[rows], p.Z, p.Y[rows, d : d + 1])
        G = solve_lower(L, solve_lower(L, own.psi2).T)
        P = solve_lower(L, own.psi1Y)[:, 0]
        S = A[d].tril() @ A[d].tril().T
        error = p.Y[rows, d].square().sum() - 2 * P @ m[:, d] + own.psi0 - G.trace()
        error = error + m[:, d] @ G @ m[:, d] + (G * S).sum()
        e_Y = e_Y + error / p.noise[d]
    e_V = m.square().sum() + A.tril().square().sum()
    entropy = half_log_det + 0.5 * m.numel() * (LOG_2PI + 1)
    value = log_block(e_Y, int(mask.sum()), q) + log_block(e_V, m.numel(), q) + entropy
    return value - 0.5 * (mask.sum(0) * p.noise.log()).sum()


@pytest.mark.slow(quick=["0.05-0.5", "0.05-1.0", "1.0-1.0"])
@pytest.mark.parametrize("q", QS)
@pytest.mark.parametrize("scale", [0.05, 1.0, 20.0])
def test_its_inducing_values_are_the_best(q: float, scale: float) -> None:
    p = small_problem(N=14, D=3)
    p = Small(p.mean, p.variance, p.Z, p.Y, scale * p.noise)
    cells = cells_of(p, 0.3)
    found = with_gaps(p, cells, q)
    best = found.inducing
    assert best.groups is not None
    L, _ = cholesky(p.rbf(p.Z, p.Z), "Kuu")
    vectors = (L.T @ best.basis)[best.groups]  # [D, M, M]
    m = torch.einsum("dij,jd->id", vectors, best.mean).requires_grad_()
    S = (vectors * (1 - best.shrinkage).T[:, None, :]) @ vectors.mT
    A = torch.linalg.cholesky(S).requires_grad_()
    value = direct(p, cells.mask, m, A, q)
    torch.testing.assert_close(value, found.value, rtol=1e-9, atol=1e-9)
    slopes = torch.autograd.grad(value, (m, A))
    for slope in slopes:
        assert float(slope.abs().max()) < 1e-6 * max(1.0, abs(float(found.value)))
    generator = torch.Generator().manual_seed(0)
    for size in (0.01, 0.1, 1.0):
        for _ in range(10):
            noise = torch.randn(2, *A.shape, generator=generator, dtype=torch.float64)
            moved = m.detach() + size * noise[0, :, 0].T, A.detach() * (size * noise[1]).exp()
            other = direct(p, cells.mask, *moved, q)
            assert float(other) < float(found.value)


@pytest.mark.slow(quick=["2.0"])
@pytest.mark.parametrize("q", [1.0, 1.5, 2.0])
def test_it_is_below_the_evidence(q: float) -> None:
    """log of the mean of p(Y | F) over draws of X, U and F | U, all of them q-exponential."""
    p = small_problem(N=3, D=2, Q=1, M=2)
    p = Small(p.mean, p.variance, p.Z, p.Y, torch.tensor([0.5, 0.8]).double())
    mean = p.mean.clone().requires_grad_()
    log_variance = p.variance.log().requires_grad_()
    adam = torch.optim.Adam([mean, log_variance], lr=0.05)
    for _ in range(150):
        adam.zero_grad()
        at = Small(mean, log_variance.exp(), p.Z, p.Y, p.noise)
        value = bound(at, q).value + block_bound(mean, log_variance.exp(), q)
        (-value).backward()  # type: ignore[no-untyped-call]
        adam.step()
    found, draws = float(value.detach()), 400_000
    generator = torch.Generator().manual_seed(0)

    def standard(*shape: int) -> Tensor:
        """Blocks with covariance I, one a draw."""
        n = math.prod(shape)
        unit = QExponential(torch.zeros(n).double(), torch.eye(n).double(), q)
        return (unit.draw(draws, generator) / covariance_factor(n, q).sqrt()).reshape(-1, *shape)

    X, V, left = standard(3, 1), standard(2, 2), standard(3, 2)
    L, _ = cholesky(p.rbf(p.Z, p.Z), "Kuu")
    K = p.rbf(X.reshape(-1, 1), p.Z).reshape(draws, 3, 2)
    a = torch.linalg.solve_triangular(L, K.mT, upper=False).mT  # [draws, N, M]
    Knn = p.rbf.variance * (-0.5 * ((X - X.mT) / p.rbf.lengthscales).square()).exp()
    rest = torch.linalg.cholesky(Knn - a @ a.mT + 1e-7 * torch.eye(3))
    F = a @ V + rest @ left
    e = ((p.Y - F).square() / p.noise).sum((1, 2))
    logs = log_block(e, 6, q) - 1.5 * p.noise.log().sum()
    evidence = logs.logsumexp(0) - math.log(draws)
    share = (logs - evidence).exp()
    error = float(share.std()) / math.sqrt(draws)
    assert error < 0.02
    assert found < float(evidence) - 5 * error
    assert found > float(evidence) - 6


@pytest.mark.parametrize("gaps", [False, True])
def test_its_gradient_is_that_of_differences(gaps: bool) -> None:
    p = small_problem(N=7, D=3, M=4)
    cells = cells_of(p, 0.3)
    log_lengthscales = p.rbf.lengthscales.log()
    q = torch.tensor(1.3, dtype=torch.float64)

    def value(mean: Tensor, Z: Tensor, noise: Tensor, scales: Tensor, q: Tensor) -> Tensor:
        kernel = RBF(p.rbf.variance, scales.exp())
        if gaps:
            Y = p.Y * cells.mask
            masked = masked_psi_sums(kernel, mean, p.variance, Z, Y, cells)
            return qep_bound(masked, kernel(Z, Z), noise, Y.square().sum(0), cells.counts, q).value
        sums = psi_sums(kernel, mean, p.variance, Z, p.Y)
        counts = torch.full_like(noise, len(p.Y))
        return qep_bound(sums, kernel(Z, Z), noise, p.squares, counts, q).value

    inputs = [t.clone().requires_grad_() for t in (p.mean, p.Z, p.noise, log_lengthscales, q)]
    assert torch.autograd.gradcheck(value, inputs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("q", QS)
@pytest.mark.parametrize("far", [0.3, 1.0, 3.0])
def test_one_more_row_has_the_noise_that_the_radius_says(q: float, far: float) -> None:
    n, more = 2000, 4
    e = torch.tensor(far * n, dtype=torch.float64)
    factor = covariance_factor(n + more, q)
    exact = conditional_shrinkage(factor * e, more, n + more, q) / factor
    assert float(1 / block_weight(e, n, q)) == pytest.approx(float(exact), rel=0.01)
