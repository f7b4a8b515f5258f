"""Layers of a deep Gaussian process against dense algebra."""

import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from lvmcore.deep.hidden_layer import HiddenLayer, InducingValues
from lvmcore.deep.layer_kernel import JITTER, row_moments
from lvmcore.numerics.quasi_random import standard_normal
from tests.unit.lvmcore.deep.small_models import generator, kernel


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def layer_of(*, linear: bool = False) -> HiddenLayer:
    """Three inputs, two outputs, five inducing inputs; no parameter at a special value."""
    values = InducingValues(drawn(2, 5), 0.1)
    W = drawn(3, 2, seed=1) if linear else None
    layer = HiddenLayer(3, values, variance=0.7, noise=1e-2, linear=W)
    with torch.no_grad():
        layer.log_lengthscales.copy_(0.3 * drawn(3, seed=2))
        layer.log_variance.add_(0.5 * drawn(2, seed=5))
        values.log_scale.add_(0.3 * drawn(2, 5, seed=3))
        values.lower.copy_(0.5 * drawn(2, 5, 5, seed=4))
    return layer


def covariance(layer: HiddenLayer, Z: Tensor) -> Tensor:
    """K(Z) of unit variance."""
    return kernel(layer, Z, Z) + JITTER[torch.float64] * torch.eye(5)


@torch.no_grad()
def test_a_layer_kernel_is_the_kernel_at_every_draw_of_the_inducing_inputs() -> None:
    layer, Z, X = layer_of(), drawn(4, 5, 3), drawn(4, 6, 3, seed=1)
    layer_kernel = layer.kernel_at(Z)
    torch.testing.assert_close(layer_kernel.C @ layer_kernel.C.mT, covariance(layer, Z))
    Kzx = kernel(layer, Z, X)
    torch.testing.assert_close(layer_kernel.cross(X), Kzx)
    torch.testing.assert_close(
        layer_kernel.inverse @ layer_kernel.C, torch.eye(5).double().expand(4, 5, 5)
    )
    left = layer.conditional_moments(layer_kernel, drawn(4, 5, 2), X)[1]
    explained = Kzx.mT @ torch.linalg.solve(covariance(layer, Z), Kzx)
    wanted = layer.variance * (1 - explained.diagonal(dim1=-2, dim2=-1))[..., None]
    torch.testing.assert_close(left, wanted)
    assert bool((left >= 0).all())


@torch.no_grad()
def test_single_precision_is_near_double_precision() -> None:
    layer, Z, X = layer_of(), drawn(4, 5, 3), drawn(6, 3, seed=1)
    v = drawn(4, 5, 2, seed=6)
    exact = layer.conditional_moments(layer.kernel_at(Z), v, X)
    layer = layer.float()
    rough = layer.conditional_moments(layer.kernel_at(Z.float()), v.float(), X.float())
    for one, other in zip(exact, rough, strict=True):
        torch.testing.assert_close(one, other.double(), rtol=0, atol=2e-3)


@pytest.mark.parametrize("linear", [False, True])
@torch.no_grad()
def test_draws_have_the_moments_of_q(linear: bool) -> None:
    """f(Z) jointly, and f(x) of another row given them and then marginally."""
    layer, Z, X = layer_of(linear=linear), drawn(5, 3), drawn(4, 3, seed=1)
    S, layer_kernel, q = 100_000, layer.kernel_at(Z), layer.q
    v = layer.draw(standard_normal((S, 2, 5), Z, generator(7)))
    f = layer_kernel.values(v)
    offset = torch.zeros(5, 2) if layer_kernel.offset is None else layer_kernel.offset
    sd = layer.variance.sqrt()[:, None]
    q_mean = offset.mT + sd * q.mean @ layer_kernel.C.mT
    half = sd[..., None] * layer_kernel.C @ q.factor
    q_covariance = half @ half.mT
    for d in range(2):
        torch.testing.assert_close(f[..., d].mean(0), q_mean[d], rtol=0, atol=0.01)
        torch.testing.assert_close(f[..., d].T.cov(), q_covariance[d], rtol=0.02, atol=0.01)

    mean, variance = layer.conditional_moments(layer_kernel, v, X)
    z = mean + variance.sqrt() * standard_normal((S, 4, 2), Z, generator(8))
    # k_nZ K⁻¹: a row's mean is its own offset and this times what f(Z) is beyond its offset.
    weights = torch.linalg.solve(covariance(layer, Z), kernel(layer, Z, X)).mT
    own = torch.zeros(4, 2) if layer.linear is None else X @ layer.linear
    left = 1 - (weights * kernel(layer, Z, X).mT).sum(1)
    for d in range(2):
        wanted = own[:, d] + weights @ (q_mean[d] - offset[:, d])
        spread = layer.variance[d] * left + (weights @ q_covariance[d] * weights).sum(1)
        torch.testing.assert_close(z[..., d].mean(0), wanted, rtol=0, atol=0.02)
        torch.testing.assert_close(z[..., d].var(0), spread, rtol=0.02, atol=0.01)


@pytest.mark.parametrize("linear", [False, True])
@torch.no_grad()
def test_the_divergence_is_that_of_the_values(linear: bool) -> None:
    layer, Z = layer_of(linear=linear), drawn(3, 5, 3)
    layer_kernel, q = layer.kernel_at(Z), layer.q
    wanted = []
    for s in range(3):
        K, C = covariance(layer, Z[s]), layer_kernel.C[s]
        offset = torch.zeros(5, 2) if layer_kernel.offset is None else layer_kernel.offset[s]
        for d in range(2):
            sd = layer.variance[d].sqrt()
            mean, factor = offset[:, d] + sd * C @ q.mean[d], sd * C @ q.factor[d]
            prior = MultivariateNormal(offset[:, d], layer.variance[d] * K)
            wanted.append(kl_divergence(MultivariateNormal(mean, factor @ factor.T), prior))
    torch.testing.assert_close(q.kl(), torch.stack(wanted).sum() / 3)
    assert float(q.kl()) >= 0


@torch.no_grad()
def test_natural_parameters_are_those_of_the_whitened_values() -> None:
    q = layer_of(linear=True).q
    precision, shift = q.natural_parameters()
    v = q.draw(standard_normal((100_000, 2, 5), q.mean, generator(7)))
    for d in range(2):
        mean = torch.linalg.solve(precision[d], shift[d])
        torch.testing.assert_close(v[..., d].mean(0), mean, rtol=0.02, atol=0.02)
        ones = v[..., d].T.cov() @ precision[d]
        torch.testing.assert_close(ones, torch.eye(5).double(), rtol=0, atol=0.1)


@pytest.mark.parametrize("k_draws", [(), (3,)])
@pytest.mark.parametrize("draws", [(), (3,)])
@pytest.mark.parametrize("groups", [1, 2])
def test_moments_of_rows_and_their_gradients(
    k_draws: tuple[int, ...], draws: tuple[int, ...], groups: int
) -> None:
    k, weights = drawn(*k_draws, 4, 6), drawn(*draws, 2, 4, seed=1)
    half = drawn(*draws, groups, 4, 4, seed=2)

    def moments(k: Tensor, weights: Tensor, half: Tensor) -> tuple[Tensor, Tensor]:
        return row_moments(k, weights, half @ half.mT)

    mean, square = moments(k, weights, half)
    torch.testing.assert_close(mean, weights @ k)
    wanted = (half.mT @ k.unsqueeze(-3)).square().sum(-2)
    torch.testing.assert_close(square, wanted)
    arguments = tuple(value.requires_grad_() for value in (k, weights, half))
    assert torch.autograd.gradcheck(moments, arguments)


def test_gradients() -> None:
    layer, Z, X = layer_of(linear=True), drawn(2, 5, 3), drawn(2, 4, 3, seed=1)
    noise = drawn(2, 2, 5, seed=9)
    names = [name for name, _ in layer.named_parameters() if name != "log_noise"]

    def outcome(Z: Tensor, X: Tensor, *parameters: Tensor) -> Tensor:
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(_Outcome(layer, noise), _named(given), (Z, X))

    values = [dict(layer.named_parameters())[name].detach().clone() for name in names]
    arguments = [value.requires_grad_() for value in (Z, X, *values)]
    assert torch.autograd.gradcheck(outcome, arguments, atol=1e-5)


def _named(parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"layer.{name}": value for name, value in parameters.items()}


class _Outcome(torch.nn.Module):
    """Moments of rows and the divergence, as one vector."""

    def __init__(self, layer: HiddenLayer, noise: Tensor) -> None:
        super().__init__()
        self.layer, self.noise = layer, noise

    def forward(self, Z: Tensor, X: Tensor) -> Tensor:
        layer_kernel = self.layer.kernel_at(Z)
        v = self.layer.draw(self.noise)
        mean, variance = self.layer.conditional_moments(layer_kernel, v, X)
        parts = mean, variance, layer_kernel.values(v), self.layer.q.kl()
        return torch.cat([part.flatten() for part in parts])
