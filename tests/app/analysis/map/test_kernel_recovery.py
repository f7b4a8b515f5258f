"""The learned kernel between the rows of a map, beside the true one."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from app.analysis.map.kernel_recovery import kernel_recovery
from lvmcore.errors import UnsupportedError
from lvmcore.random_features.spectrum import SpectralDensity
from lvmcore.results import Posterior


def test_a_learned_kernel_at_the_true_positions_has_a_small_error() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    true = np.exp(-0.5 * np.square(X[:, None] - X).sum(-1))
    rows = np.arange(0, 30, 2)
    own = X[rows]

    def model(points: np.ndarray) -> Any:
        empty = (np.zeros(0), np.zeros((0, 2)), np.zeros((0, 2, 2)), np.zeros((len(points), 0)))
        spectrum = SpectralDensity(points, *empty)
        return SimpleNamespace(spectral_=spectrum, embedding_=Posterior(own, np.ones_like(own)))

    # w ~ N(0, I) has the RBF kernel of lengthscale 1, and w ~ N(0, 9 I) one of 1/3.
    draws = rng.normal(size=(20_000, 2))
    found = kernel_recovery(model(draws), rows, true)
    np.testing.assert_array_equal(found.true, true[np.ix_(rows, rows)])
    np.testing.assert_allclose(found.found, found.true, atol=0.04)
    assert found.error < 0.05
    assert kernel_recovery(model(3 * draws), rows, true).error > 0.3


def test_a_model_without_a_spectrum_says_so() -> None:
    model: Any = SimpleNamespace(title="PCA")
    with pytest.raises(UnsupportedError, match="PCA has no learned spectrum"):
        kernel_recovery(model, np.arange(3), np.eye(3))
