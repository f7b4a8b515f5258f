"""Paths with parameters in single precision predict as their copies in double do."""

import numpy as np
import torch

from lvmcore import LDGD
from lvmcore.gp.paths import LabelPath


def label_path() -> LabelPath:
    """A path of many close inducing inputs, whose kernel matrix is nearly singular; in single."""
    g = torch.Generator().manual_seed(0)
    path = LabelPath(torch.randn(60, 2, generator=g, dtype=torch.float32), 3)
    with torch.no_grad():
        path.q_mu.copy_(torch.randn(path.q_mu.shape, generator=g))
    return path


def test_functions_are_those_of_the_parameters_in_double() -> None:
    path, X = label_path(), torch.randn(50, 2, generator=torch.Generator().manual_seed(1))
    mean, variance = path.latent_function(X)
    wide = path.in_double()
    assert mean.dtype == variance.dtype == torch.float64
    assert path.points.dtype == torch.float32  # the copy leaves it as it is
    for found, expected in zip((mean, variance), wide.latent_function(X.double()), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    decoder = wide.decoder()
    assert decoder.weights.dtype == torch.float64
    for found, expected in zip((mean, variance), decoder.predict(X.double()), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_the_gradient_reaches_the_parameters_in_single() -> None:
    path = label_path()
    path.latent_function(torch.zeros(4, 2))[0].sum().backward()
    for parameter in (path.points, path.q_mu, path.log_lengthscales):
        assert parameter.grad is not None
        assert parameter.grad.dtype == torch.float32
        assert bool(torch.isfinite(parameter.grad).all())


def test_a_path_in_double_is_itself() -> None:
    path = label_path().double()
    assert path.in_double() is path


def test_classes_of_new_rows_in_single_precision_are_those_of_double() -> None:
    rng = np.random.default_rng(0)
    codes = np.arange(240) % 3
    X = rng.standard_normal((240, 6)) + 2.5 * np.eye(3, 6)[codes]
    fits = [
        LDGD(n_components=3, n_inducing=20, max_iter=80, dtype=kind).fit(X[:160], codes[:160])
        for kind in ("float64", "float32")
    ]
    double, single = (fit.predict_proba(X[160:]) for fit in fits)
    assert single.dtype == np.float64
    assert np.abs(double - single).max() < 0.02
