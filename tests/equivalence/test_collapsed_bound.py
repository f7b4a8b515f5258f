"""The collapsed bound against every other route to the same number."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from torch import Tensor

from lvmcore.gp.bounds import OptimalInducing, collapsed_bound, stochastic_bound
from lvmcore.kernels.psi_statistics import PsiSums, psi_sums
from lvmcore.kernels.stationary import RBF
from lvmcore.numerics.gaussians import kl_whitened
from lvmcore.numerics.linalg import cholesky
from tests.unit.lvmcore.small_problems import Small, small_problem

JITTER = 1e-8
Bound = Callable[[Small], Tensor]


def collapsed(p: Small) -> tuple[Tensor, OptimalInducing]:
    kernel = p.rbf
    sums = psi_sums(kernel, p.mean, p.variance, p.Z, p.Y)
    return collapsed_bound(sums, kernel(p.Z, p.Z), p.noise, p.squares, len(p.Y))


def any_bound(p: Small, mean: Tensor, covariance: Tensor) -> Tensor:
    """The bound less KL_U at any q(V): whitened mean [M, D] and covariance [D, M, M]."""
    kernel = p.rbf
    sums = psi_sums(kernel, p.mean, p.variance, p.Z, p.Y)
    L, _ = cholesky(kernel(p.Z, p.Z), "Kuu")
    fit = stochastic_bound(sums, L, mean, covariance, p.noise, p.squares, len(p.Y))
    return fit - kl_whitened(mean.T, torch.linalg.cholesky(covariance))


def optimum(p: Small) -> tuple[Tensor, Tensor]:
    """Mean [M, D] and covariance [D, M, M] of the optimal q(V), whitened by L."""
    _, q = collapsed(p)
    L, _ = cholesky(p.rbf(p.Z, p.Z), "Kuu")
    V = L.T @ q.basis
    eye = torch.eye(len(L), dtype=L.dtype)
    covariance = eye - torch.einsum("im,md,jm->dij", V, q.shrinkage, V)
    return V @ q.mean, covariance


def textbook(p: Small, psi0: float, psi1: Tensor, psi2: Tensor, noise: float) -> float:
    """The formula of the maths notes with one σ², by dense Cholesky factors."""
    (N, D), M = p.Y.shape, len(p.Z)
    kernel = p.rbf
    Kuu = kernel(p.Z, p.Z) + JITTER * kernel.variance * torch.eye(M, dtype=p.Z.dtype)
    L_inverse = torch.linalg.inv(torch.linalg.cholesky(Kuu))
    A = L_inverse @ psi2 @ L_inverse.T / noise
    # B = I + A
    L_B = torch.linalg.cholesky(torch.eye(M, dtype=p.Z.dtype) + A)
    c = torch.linalg.inv(L_B) @ L_inverse @ psi1.T @ p.Y / noise
    return float(
        -0.5 * N * D * np.log(2 * np.pi * noise)
        - D * L_B.diagonal().log().sum()
        - p.Y.square().sum() / (2 * noise)
        + 0.5 * c.square().sum()
        - 0.5 * D * (psi0 / noise - A.trace())
    )


def dense_statistics(p: Small) -> tuple[float, Tensor, Tensor]:
    """psi0, psi1 [N, M] and psi2 [M, M] of the RBF, with every array in full."""
    kernel = p.rbf
    square, v = kernel.lengthscales.square(), kernel.variance
    S, mu, Z = p.variance, p.mean, p.Z
    shrink = (1 + S / square).prod(1) ** -0.5
    psi1 = (
        v
        * shrink[:, None]
        * torch.exp(-0.5 * ((mu[:, None] - Z).square() / (S + square)[:, None]).sum(-1))
    )
    middle = 0.5 * (Z[:, None] + Z)
    apart = ((Z[:, None] - Z).square() / square).sum(-1)
    offset = (mu[:, None, None] - middle).square() / (2 * S + square)[:, None, None]
    shrink = (1 + 2 * S / square).prod(1) ** -0.5
    psi2 = v**2 * shrink[:, None, None] * torch.exp(-0.25 * apart - offset.sum(-1))
    return float(len(mu) * v), psi1, psi2.sum(0)


def test_equals_the_stochastic_bound_at_its_optimum() -> None:
    p = small_problem()
    bound, _ = collapsed(p)
    assert float(any_bound(p, *optimum(p))) == pytest.approx(float(bound), rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_no_other_inducing_distribution_is_better(seed: int) -> None:
    p = small_problem(seed=seed)
    bound, _ = collapsed(p)
    mean, covariance = optimum(p)
    generator = torch.Generator().manual_seed(seed)
    for size in (0.01, 0.3):
        shift = size * torch.randn(mean.shape, generator=generator, dtype=mean.dtype)
        stretch = 1 + size * torch.rand(len(mean), generator=generator, dtype=mean.dtype)
        stretched = stretch[:, None] * covariance * stretch
        assert float(any_bound(p, mean + shift, covariance)) < float(bound) - 1e-5
        assert float(any_bound(p, mean, stretched)) < float(bound) - 1e-5


def test_gradient_vanishes_at_the_optimal_inducing_distribution() -> None:
    p = small_problem()
    mean, covariance = (t.clone().requires_grad_() for t in optimum(p))
    for gradient in torch.autograd.grad(any_bound(p, mean, covariance), (mean, covariance)):
        assert float(gradient.abs().max()) < 1e-6


def test_with_one_noise_equals_the_textbook_formula() -> None:
    p = small_problem(N=14, D=4, shared=True)
    bound, _ = collapsed(p)
    assert float(bound) == pytest.approx(textbook(p, *dense_statistics(p), 0.2), rel=1e-10)


def test_with_a_noise_for_each_column_equals_the_sum_over_columns() -> None:
    p = small_problem(N=14, D=4)
    bound, _ = collapsed(p)
    statistics = dense_statistics(p)
    total = 0.0
    for d in range(4):
        alone = Small(p.mean, p.variance, p.Z, p.Y[:, d : d + 1], p.noise[d : d + 1])
        total += textbook(alone, *statistics, float(p.noise[d]))
    assert float(bound) == pytest.approx(total, rel=1e-10)


def certain(N: int = 8, *, seed: int = 0) -> Small:
    """Fixed latent positions, an inducing input at each of them."""
    p = small_problem(N=N, seed=seed)
    return Small(p.mean, torch.full_like(p.variance, 1e-13), p.mean, p.Y, p.noise)


def exact_evidence(p: Small) -> float:
    """Σ_d log N(y_d | 0, K + σ_d² I)."""
    K = p.rbf(p.mean, p.mean).numpy()
    return sum(
        float(multivariate_normal(cov=K + float(noise) * np.eye(len(K))).logpdf(y))
        for y, noise in zip(p.Y.numpy().T, p.noise, strict=True)
    )


def test_with_an_inducing_input_at_each_certain_row_is_the_exact_evidence() -> None:
    p = certain()
    bound, _ = collapsed(p)
    # The jitter of Kuu, 1e-8, is all that tells them apart.
    assert float(bound) == pytest.approx(exact_evidence(p), abs=1e-5)


def test_exact_evidence_is_also_that_of_scikit_learn() -> None:
    p = certain()
    bound, _ = collapsed(p)
    kernel = sk.ConstantKernel(float(p.rbf.variance)) * sk.RBF(p.rbf.lengthscales.numpy())
    total = 0.0
    for y, noise in zip(p.Y.numpy().T, p.noise, strict=True):
        gp = GaussianProcessRegressor(kernel, alpha=float(noise), optimizer=None)
        total += gp.fit(p.mean.numpy(), y).log_marginal_likelihood_value_
    assert float(bound) == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_fewer_inducing_inputs_stay_below_the_exact_evidence(seed: int) -> None:
    p = certain(N=20, seed=seed)
    exact = exact_evidence(p)
    values = []
    for count in (2, 6, 12, 20):
        fewer = Small(p.mean, p.variance, p.mean[:count], p.Y, p.noise)
        values.append(float(collapsed(fewer)[0]))
    assert values == sorted(values)  # each set contains the one before
    assert values[2] < exact
    assert values[-1] == pytest.approx(exact, abs=1e-3)


def test_uncertain_rows_stay_below_the_expected_evidence() -> None:
    """Σ_d E_q(X) log p(y_d | X) is above the bound: Jensen, and the inducing outputs' own gap."""
    p = small_problem(N=6, M=5)
    bound, _ = collapsed(p)
    generator = torch.Generator().manual_seed(0)
    draws = []
    for _ in range(400):
        noise = torch.randn(p.mean.shape, generator=generator, dtype=torch.float64)
        x = p.mean + p.variance.sqrt() * noise
        draws.append(exact_evidence(Small(x, p.variance, x, p.Y, p.noise)))
    error = np.std(draws) / len(draws) ** 0.5
    assert float(bound) < np.mean(draws) - 5 * error


def gradient(bound: Bound, p: Small) -> list[Tensor]:
    mean, variance, Z, noise = inputs = [
        t.clone().requires_grad_() for t in (p.mean, p.variance, p.Z, p.noise)
    ]
    return list(torch.autograd.grad(bound(Small(mean, variance, Z, p.Y, noise)), inputs))


def test_gradients_equal_those_of_the_dense_formula() -> None:
    """Autograd through log-determinants and inverses, which has no eigenvectors in it."""

    def dense(p: Small) -> Tensor:
        kernel = p.rbf
        _, psi1, psi2 = dense_statistics(p)
        Kuu = kernel(p.Z, p.Z) + JITTER * kernel.variance * torch.eye(5, dtype=p.Z.dtype)
        total = torch.zeros((), dtype=p.Z.dtype)
        for d, noise in enumerate(p.noise):
            # Q_ff + σ² I without the N x N matrix: Kuu + psi2/σ² in its place.
            A = noise * Kuu + psi2
            b = psi1.T @ p.Y[:, d]
            log_det = torch.logdet(A) - torch.logdet(Kuu) - 5 * noise.log()
            fit = (p.Y[:, d].square().sum() - b @ torch.linalg.solve(A, b)) / noise
            lost = (len(p.Y) * kernel.variance - torch.linalg.solve(Kuu, psi2).trace()) / noise
            total = total - 0.5 * (len(p.Y) * (2 * torch.pi * noise).log() + log_det + fit + lost)
        return total

    p = small_problem()
    for ours, theirs in zip(
        gradient(lambda p: collapsed(p)[0], p), gradient(dense, p), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("equal", [True, False])
def test_equal_eigenvalues_leave_the_gradient_finite_and_right(*, equal: bool) -> None:
    """G = psi2 is a multiple of the identity here, or almost: eigenvectors are arbitrary."""
    M, D, N = 4, 2, 30
    generator = torch.Generator().manual_seed(0)
    G = 3.0 * torch.eye(M, dtype=torch.float64)
    if not equal:
        G[0, 0] += 1e-13
    P = torch.randn(M, D, generator=generator, dtype=torch.float64)
    noise = torch.tensor([0.3, 0.7], dtype=torch.float64)
    squares = torch.tensor([40.0, 50.0], dtype=torch.float64)
    psi0 = torch.tensor(float(N), dtype=torch.float64)
    eye = torch.eye(M, dtype=torch.float64)

    def ours(G: Tensor, P: Tensor) -> Tensor:
        # Kuu = I/(1 + jitter), so that the factor of Kuu with its jitter is the identity.
        value, _ = collapsed_bound(PsiSums(psi0, P, G), eye / (1 + JITTER), noise, squares, N)
        return value

    def dense(G: Tensor, P: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for d in range(D):
            B = eye + 0.5 * (G + G.T) / noise[d]
            total = total - 0.5 * (N * (2 * torch.pi * noise[d]).log() + torch.logdet(B))
            total = total - 0.5 * (squares[d] + psi0 - G.trace()) / noise[d]
            total = total + 0.5 * P[:, d] @ torch.linalg.solve(B, P[:, d]) / noise[d] ** 2
        return total

    inputs = [G.requires_grad_(), P.requires_grad_()]
    for mine, theirs in zip(
        torch.autograd.grad(ours(*inputs), inputs),
        torch.autograd.grad(dense(*inputs), inputs),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9)


def test_bound_takes_single_precision_noise_and_stays_double() -> None:
    p = small_problem()
    kernel: RBF = p.rbf
    sums = psi_sums(kernel, p.mean, p.variance, p.Z, p.Y)
    Kuu = kernel(p.Z, p.Z)
    double, _ = collapsed_bound(sums, Kuu, p.noise, p.squares, len(p.Y))
    single, _ = collapsed_bound(sums, Kuu, p.noise.float(), p.squares, len(p.Y))
    assert single.dtype == torch.float64
    assert float(single) == pytest.approx(float(double), rel=1e-5)
