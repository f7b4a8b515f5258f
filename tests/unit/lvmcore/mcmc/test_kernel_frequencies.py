"""Frequencies of a kernel in a chain: slopes by differences, and the kernel itself."""

import numpy as np
import pytest
import torch

from lvmcore.kernels.catalogue import read_kernel
from lvmcore.mcmc.feature_weights import features
from lvmcore.mcmc.kernel_frequencies import KernelFrequencies

TEXT = "matern32(z1) + rational_quadratic(z2) * periodic(z1) + cosine(z2)"


def frequencies(text: str = TEXT, n: int = 20) -> KernelFrequencies:
    return KernelFrequencies(read_kernel(text), n, 2, np.random.default_rng(0))


def test_slopes_are_differences() -> None:
    found, rng = frequencies(), np.random.default_rng(1)
    U = rng.standard_normal(found.whiten(np.empty(0)).shape)
    W = found.colour(U)
    slope_W, slope_a = rng.standard_normal(W.shape), rng.standard_normal(len(W))

    def value(U: np.ndarray) -> float:
        W = found.colour(U)
        return float((slope_W * W).sum() + (slope_a * found.amplitudes).sum())

    slope = found.pulled_back(slope_W, slope_a)
    found.colour(U)
    for place in np.ndindex(U.shape):
        step = np.zeros_like(U)
        step[place] = 1e-5
        difference = (value(U + step) - value(U - step)) / 2e-5
        assert slope[place] == pytest.approx(difference, rel=1e-4, abs=1e-5)
    assert np.count_nonzero(slope) == found.size


def test_many_features_make_the_kernel() -> None:
    found, rng = frequencies("matern32(z1) + rbf(z2)", 2000), np.random.default_rng(1)
    W = found.colour(0.5 * rng.standard_normal(found.whiten(np.empty(0)).shape))
    X = rng.standard_normal((20, 2))
    Phi = features(X, W) * np.tile(found.amplitudes, 2)
    with torch.no_grad():
        K = found.kernel.forward(*[torch.as_tensor(X)] * 2).numpy()
    np.testing.assert_allclose(Phi @ Phi.T, K / K[0, 0], atol=0.005)


def test_the_state_is_what_was_coloured_last() -> None:
    found, other = frequencies(), frequencies()
    np.testing.assert_array_equal(found.whiten(np.empty(0)), 0)
    U = np.random.default_rng(1).standard_normal(found.whiten(np.empty(0)).shape)
    W = found.colour(U)
    np.testing.assert_array_equal(found.whiten(W), U)
    other.restore(found.arrays(), found.facts())
    np.testing.assert_array_equal(other.colour(other.whiten(W)), W)
    np.testing.assert_array_equal(other.amplitudes, found.amplitudes)


def test_hyperparameters_have_names() -> None:
    found = frequencies().hyperparameters()
    shares = [value for name, value in found.items() if name.startswith("share of ")]
    assert sum(shares) == pytest.approx(1)
    assert found["period of cosine(z2)"] == pytest.approx(4)
    assert found["lengthscale of matern32(z1)"] == pytest.approx(1)
    assert frequencies().quantities() == found
    whole = frequencies("rbf")
    assert set(whole.hyperparameters()) == {"lengthscale of rbf z1", "lengthscale of rbf z2"}
    assert whole.quantities() == pytest.approx({"mean log relevance": -np.log(2)})
