"""Frequencies of kernels against the kernels themselves, and their gradients by differences."""

import math

import numpy as np
import pytest
import torch
from scipy import special, stats

from lvmcore.errors import ConfigError
from lvmcore.kernels.catalogue import KERNEL_TYPES, check_spectral_kernel, read_kernel
from lvmcore.kernels.composite import CompositeKernel
from lvmcore.kernels.expression_kernel import map_kernel_module
from lvmcore.kernels.spectral_frequencies import SpectralFrequencies, harmonic_weights

#: Kernels, and the largest error of the correlations that 4096 frequencies may have.
KERNELS = {
    "rbf": 0.005,
    "matern52": 0.02,
    "matern32": 0.02,
    "matern12": 0.04,
    "matern12(z1)": 0.01,
    "rational_quadratic": 0.02,
    "rational_quadratic(z2)": 0.01,
    "periodic(z1) * rbf": 0.02,
    "periodic(z1, z2, period=3)": 1e-6,
    "cosine(z3) * matern32(z1)": 0.02,
    "spectral_mixture(z1, z2, n=3)": 0.02,
    "matern32(z1) + rbf(z2, z3)": 0.005,
    "(rbf + matern32(z2)) * (cosine(z1) + constant)": 0.02,
}
#: Kernels with few frequencies, and how many they have.
FEW = {
    "cosine(z1)": 1,
    "constant": 1,
    "periodic(z2)": 16,
    "cosine(z1) * cosine(z1, period=2)": 2,
    "periodic(z1) + cosine(z2) + constant": 18,
    "periodic(z1) * cosine(z2)": 32,
}


def moved(text: str, seed: int = 0) -> CompositeKernel:
    """A kernel over three dimensions with hyperparameters that differ."""
    kernel = map_kernel_module(read_kernel(text), torch.zeros(1, 3, dtype=torch.float64))
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in kernel.parameters():
            parameter.add_(0.3 * torch.as_tensor(rng.standard_normal(tuple(parameter.shape))))
    return kernel


def frequencies(kernel: CompositeKernel, n: int, seed: int = 0) -> SpectralFrequencies:
    return SpectralFrequencies(kernel, n, np.random.default_rng(seed))


@torch.no_grad()
def error(kernel: CompositeKernel, n: int, seed: int = 0) -> float:
    """Largest error of φᵀφ as a correlation, over pairs of 30 points."""
    X = torch.as_tensor(np.random.default_rng(1).standard_normal((30, 3)))
    found = frequencies(kernel, n, seed)
    angle, a = X @ found.points().T, found.amplitudes()
    Phi = torch.cat([a * angle.sin(), a * angle.cos()], 1) / math.sqrt(found.n_points)
    K = kernel.forward(X, X)
    return float((Phi @ Phi.T - K / kernel.diagonal(X)[0]).abs().max())


@pytest.mark.parametrize("text", KERNELS)
def test_features_approach_the_kernel(text: str) -> None:
    kernel = moved(text)
    few = np.mean([error(kernel, 64, seed) for seed in range(4)])
    assert error(kernel, 4096) < KERNELS[text]
    assert error(kernel, 4096) < 0.4 * few


def test_quasi_random_frequencies_are_better_than_random_ones() -> None:
    kernel = moved("rbf")
    X = torch.as_tensor(np.random.default_rng(1).standard_normal((30, 3)))
    (_, component), n, errors = kernel.components()[0], 256, []
    scale = component.relevance.detach().sqrt()
    with torch.no_grad():
        K = kernel.forward(X, X) / kernel.diagonal(X)[0]
    for seed in range(5):
        w = torch.as_tensor(np.random.default_rng(seed).standard_normal((n, 3))) * scale
        difference = X[:, None] - X
        errors.append(float(((difference @ w.T).cos().mean(-1) - K).abs().max()))
    assert np.mean([error(kernel, n, seed) for seed in range(5)]) < 0.5 * np.mean(errors)


@pytest.mark.parametrize("text", FEW)
def test_a_kernel_of_few_frequencies_has_them_all(text: str) -> None:
    kernel = moved(text)
    assert frequencies(kernel, 50).n_points == FEW[text]
    assert error(kernel, 50) < 1e-9


def test_frequencies_have_the_distribution_of_the_spectrum() -> None:
    found = frequencies(moved("matern32"), 8192)
    (_, component) = found.kernel.components()[0]
    scaled = found.points() / component.relevance.sqrt()
    # Of a t distribution with three degrees of freedom each coordinate has one
    for q, one in enumerate(scaled.detach().numpy().T):
        sample = np.abs(one) if q else one
        half = stats.t(3)
        shares = 2 * half.cdf(np.quantile(sample, [0.1, 0.5, 0.9])) - 1
        np.testing.assert_allclose(shares, [0.1, 0.5, 0.9], atol=0.01)


def test_weights_of_harmonics_are_bessel_functions() -> None:
    z = torch.tensor([0.1, 1.4, 30.0], dtype=torch.float64, requires_grad=True)
    found = harmonic_weights(z)
    order = np.arange(16)
    expected = special.ive(order, z.detach().numpy()[:, None]) * np.where(order == 0, 1, 2)
    np.testing.assert_allclose(found.detach(), expected, atol=1e-14)
    assert torch.autograd.gradcheck(harmonic_weights, [z])


@pytest.mark.parametrize(
    "text",
    [
        "matern32(z1) + rbf(z2, z3)",
        "rational_quadratic * periodic(z1)",
        "spectral_mixture(z1, z2, n=2) + cosine(z3)",
        "(matern12 + rational_quadratic(z2)) * (cosine(z1) + constant)",
    ],
)
def test_gradients_are_differences(text: str) -> None:
    found = frequencies(moved(text), 40)
    rng = np.random.default_rng(2)
    w, a = found.points(), found.amplitudes()
    by_point = torch.as_tensor(rng.standard_normal(tuple(w.shape)))
    by_amplitude = torch.as_tensor(rng.standard_normal(len(a)))

    def value() -> torch.Tensor:
        return ((by_point * found.points()).sin().sum(1) + by_amplitude * found.amplitudes()).sum()

    parameters = [p for p in found.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(value(), parameters, allow_unused=True)
    assert len(gradients) > 1
    for parameter, gradient in zip(parameters, gradients, strict=True):
        assert gradient is not None
        for place in range(parameter.numel()):
            ends = []
            for sign in (1, -1):
                with torch.no_grad():
                    parameter.view(-1)[place] += sign * 1e-5
                    ends.append(float(value()))
                    parameter.view(-1)[place] -= sign * 1e-5
            difference = (ends[0] - ends[1]) / 2e-5
            assert float(gradient.view(-1)[place]) == pytest.approx(difference, rel=1e-4, abs=1e-5)


def test_base_samples_are_drawn_once() -> None:
    found, same = (frequencies(moved("matern32"), 20) for _ in range(2))
    torch.testing.assert_close(found.points(), same.points(), rtol=0, atol=0)
    other = frequencies(moved("matern32"), 20, seed=1)
    assert float((found.points() - other.points()).detach().abs().max()) > 0.1
    before = found.points().detach()
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.add_(math.log(2))
    torch.testing.assert_close(found.points(), before / 2)
    assert len(found.base_samples) == 2


def test_amplitudes_are_shares_of_the_variance() -> None:
    kernel = moved("rbf + cosine(z1) + matern32(z2)")
    found = frequencies(kernel, 31)
    square = found.amplitudes().square().detach()
    assert found.n_points == 31
    assert float(square.mean()) == pytest.approx(1)
    variances = torch.stack([one.variance for one in kernel.summands]).detach()
    parts = torch.stack([part.sum() for part in square.split([15, 1, 15])]) / 31
    torch.testing.assert_close(parts, variances / variances.sum())


def test_more_summands_than_frequencies_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"4 summands.*n_features=6 is too few: set at least 8"):
        frequencies(moved("(rbf + matern32) * (rbf + matern12)"), 3)


@pytest.mark.parametrize(
    "name", [name for name, one in KERNEL_TYPES.items() if not one.closed_spectrum]
)
def test_a_kernel_without_a_closed_spectrum_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"has {name}, whose spectrum.*Possible are rbf, matern"):
        check_spectral_kernel(f"rbf + {name}(z1)")


def test_every_other_kernel_has_frequencies() -> None:
    for name, one in KERNEL_TYPES.items():
        if one.closed_spectrum:
            check_spectral_kernel(f"{name}(z1)")
            assert frequencies(moved(f"{name}(z1)"), 8).points().isfinite().all()
