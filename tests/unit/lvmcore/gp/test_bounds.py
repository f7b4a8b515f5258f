"""Divergences against torch.distributions, bounds against finite differences."""

import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, Normal, kl_divergence

from lvmcore.errors import NumericalError
from lvmcore.gp.bounds import collapsed_bound, stochastic_bound
from lvmcore.kernels.psi_statistics import PsiSums, psi1, psi_sums
from lvmcore.kernels.stationary import RBF, Linear
from lvmcore.numerics import linalg
from lvmcore.numerics.gaussians import kl_standard_normal, kl_whitened
from lvmcore.numerics.linalg import cholesky
from tests.unit.lvmcore.small_problems import small_problem


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def factors(C: int, M: int) -> Tensor:
    """Lower-triangular with a positive diagonal, [C, M, M]."""
    return 0.4 * draw(C, M, M).tril(-1) + draw(C, M, seed=1).abs().add(0.2).diag_embed()


def test_divergence_of_the_rows_from_the_prior() -> None:
    p = small_problem(Q=3)
    prior = Normal(torch.zeros_like(p.mean), 1.0)
    expected = kl_divergence(Normal(p.mean, p.variance.sqrt()), prior).sum(1)
    torch.testing.assert_close(kl_standard_normal(p.mean, p.variance), expected)


def test_divergence_of_the_inducing_outputs_from_the_prior() -> None:
    mean, factor = draw(3, 4), factors(3, 4)
    prior = MultivariateNormal(torch.zeros_like(mean), torch.eye(4, dtype=mean.dtype))
    expected = kl_divergence(MultivariateNormal(mean, scale_tril=factor), prior).sum()
    torch.testing.assert_close(kl_whitened(mean, factor), expected)
    # The factor's signs are free, its covariance is what counts.
    torch.testing.assert_close(kl_whitened(mean, -factor), expected)


def test_gradients_of_the_divergences_are_exact() -> None:
    p = small_problem(N=4)
    rows = p.mean.requires_grad_(), p.variance.requires_grad_()
    assert torch.autograd.gradcheck(kl_standard_normal, rows)
    outputs = draw(2, 3).requires_grad_(), factors(2, 3).requires_grad_()
    assert torch.autograd.gradcheck(kl_whitened, outputs)


@pytest.mark.parametrize("jitter", [1e-8, 1e-2])
@pytest.mark.parametrize("shared", [True, False])
def test_gradient_of_the_collapsed_bound_is_exact(
    monkeypatch: pytest.MonkeyPatch, *, shared: bool, jitter: float
) -> None:
    """The jitter is a share of the kernel's variance, so it has a gradient too."""
    monkeypatch.setattr(linalg, "JITTERS", (jitter,))
    p = small_problem(N=6, D=2, M=3)
    noise = p.noise[:1] if shared else p.noise

    def bound(
        mean: Tensor, log_S: Tensor, Z: Tensor, log_v: Tensor, log_l: Tensor, log_noise: Tensor
    ) -> Tensor:
        kernel = RBF(log_v.exp(), log_l.exp())
        sums = psi_sums(kernel, mean, log_S.exp(), Z, p.Y)
        columns = log_noise.exp().expand(2)
        return collapsed_bound(sums, kernel(Z, Z), columns, p.squares, len(p.Y))[0]

    kernel = p.rbf
    raw = [p.mean, p.variance.log(), p.Z, kernel.variance.log(), kernel.lengthscales.log()]
    leaves = [leaf.clone().requires_grad_() for leaf in (*raw, noise.log())]
    assert torch.autograd.gradcheck(bound, leaves, atol=1e-5, rtol=1e-5)


def test_gradient_of_the_collapsed_bound_with_a_linear_kernel_is_exact() -> None:
    p = small_problem(N=6, D=2, M=2)

    def bound(mean: Tensor, log_S: Tensor, Z: Tensor, log_a: Tensor, log_noise: Tensor) -> Tensor:
        kernel = Linear(log_a.exp())
        sums = psi_sums(kernel, mean, log_S.exp(), Z, p.Y)
        return collapsed_bound(sums, kernel(Z, Z), log_noise.exp(), p.squares, len(p.Y))[0]

    Z = torch.tensor([[1.0, 0.2], [-0.3, 0.9]], dtype=torch.float64)
    raw = [p.mean, p.variance.log(), Z, p.linear.variances.log(), p.noise.log()]
    leaves = [leaf.clone().requires_grad_() for leaf in raw]
    assert torch.autograd.gradcheck(bound, leaves, atol=1e-5, rtol=1e-5)


def test_gradient_of_the_stochastic_bound_is_exact() -> None:
    p = small_problem(N=6, D=2, M=3)

    def bound(mean: Tensor, Z: Tensor, q_mu: Tensor, q_sqrt: Tensor, log_noise: Tensor) -> Tensor:
        kernel = p.rbf
        sums = psi_sums(kernel, mean, p.variance, Z, p.Y)
        L, _ = cholesky(kernel(Z, Z), "Kuu")
        covariance = q_sqrt @ q_sqrt.mT
        noise = log_noise.exp()
        return stochastic_bound(sums, L, q_mu, covariance, noise, p.squares, len(p.Y))

    raw = [p.mean, p.Z, draw(3, 2), factors(2, 3), p.noise.log()]
    leaves = [leaf.clone().requires_grad_() for leaf in raw]
    assert torch.autograd.gradcheck(bound, leaves, atol=1e-5, rtol=1e-5)


def test_stochastic_bound_is_the_expected_log_density() -> None:
    """By drawing rows, inducing outputs, and the function given both."""
    p = small_problem(N=3, D=2, M=3)
    kernel, S = p.rbf, 100_000
    L, _ = cholesky(kernel(p.Z, p.Z), "Kuu")
    q_mu, q_sqrt = draw(3, 2), factors(2, 3)
    generator = torch.Generator().manual_seed(4)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    v = q_mu.T[:, :, None] + q_sqrt @ normal(2, 3, S)
    values = torch.zeros(S, dtype=torch.float64)
    for n in range(3):
        x = p.mean[n] + p.variance[n].sqrt() * normal(S, 2)
        a = torch.linalg.solve_triangular(L, kernel(p.Z, x), upper=False)
        left = (kernel.variance - a.square().sum(0)).clamp_min(0)
        for d in range(2):
            f = (a * v[d]).sum(0) + left.sqrt() * normal(S)
            values += Normal(f, p.noise[d].sqrt()).log_prob(p.Y[n, d])
    sums = psi_sums(kernel, p.mean, p.variance, p.Z, p.Y)
    got = stochastic_bound(sums, L, q_mu, q_sqrt @ q_sqrt.mT, p.noise, p.squares, 3)
    error = float(values.std()) / S**0.5
    assert error < 0.01 * abs(float(got))
    assert abs(float(got - values.mean())) < 5 * error


def test_optimal_mean_and_variance_are_those_of_the_posterior_of_the_inducing_outputs() -> None:
    """q(u_d) = N(Kuu Σ⁻¹ psi1ᵀ y_d/σ², Kuu Σ⁻¹ Kuu), Σ = Kuu + psi2/σ², in function space."""
    p = small_problem()
    kernel = p.rbf
    sums = psi_sums(kernel, p.mean, p.variance, p.Z, p.Y)
    Kuu = kernel(p.Z, p.Z)
    _, q = collapsed_bound(sums, Kuu, p.noise, p.squares, len(p.Y))
    P = psi1(kernel, p.mean, p.variance, p.Z)
    for d, noise in enumerate(p.noise):
        A = Kuu + sums.psi2 / noise
        mean = Kuu @ torch.linalg.solve(A, P.T @ p.Y[:, d]) / noise
        torch.testing.assert_close(Kuu @ q.basis @ q.mean[:, d], mean, rtol=1e-6, atol=1e-6)
        lost = Kuu - Kuu @ torch.linalg.solve(A, Kuu)
        root = Kuu @ q.basis
        got = (root * q.shrinkage[:, d]) @ root.T
        torch.testing.assert_close(got, lost, rtol=1e-6, atol=1e-6)


def test_sums_that_are_not_finite_are_refused_in_words() -> None:
    p = small_problem()
    kernel = p.rbf
    sums = psi_sums(kernel, p.mean, p.variance, p.Z, p.Y)
    broken = PsiSums(sums.psi0, sums.psi1Y, torch.full_like(sums.psi2, torch.nan))
    with pytest.raises(NumericalError, match="not finite"):
        collapsed_bound(broken, kernel(p.Z, p.Z), p.noise, p.squares, len(p.Y))
