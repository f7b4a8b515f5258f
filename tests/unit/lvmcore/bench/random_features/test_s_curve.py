"""The drawn table of the S-curve benchmark."""

import numpy as np

from lvmcore.bench.random_features.s_curve import N_COLUMNS, N_ROWS, NOISE, s_curve


def test_the_columns_have_the_covariance_of_the_kernel() -> None:
    X, K, Y = s_curve(0)
    assert X.shape == (N_ROWS, 2)
    assert Y.shape == (N_ROWS, N_COLUMNS)
    np.testing.assert_allclose(X.std(axis=0), 1)
    np.testing.assert_allclose(np.diag(K), 1)
    assert np.linalg.eigvalsh(K).min() > -1e-8
    # yᵀ(K + σ²I)⁻¹y of each column is chi-squared with N degrees of freedom.
    form = (Y * np.linalg.solve(K + NOISE**2 * np.eye(N_ROWS), Y)).sum(axis=0)
    assert abs(form.mean() / N_ROWS - 1) < 4 * np.sqrt(2 / N_ROWS / N_COLUMNS)
    assert abs(form.std() / np.sqrt(2 * N_ROWS) - 1) < 0.35


def test_binary_columns_have_the_same_functions() -> None:
    X, K, Y = s_curve(0, binary=True)
    same_X, same_K, numbers = s_curve(0)
    np.testing.assert_array_equal(X, same_X)
    np.testing.assert_array_equal(K, same_K)
    assert set(np.unique(Y)) == {0.0, 1.0}
    # A cell is 1 with probability s(f): calibrated over bins of f, which the noise hardly blurs.
    for low in (-2.0, -1.0, 0.0, 1.0):
        cells = (numbers > low) & (numbers <= low + 1)
        chance = 1 / (1 + np.exp(-numbers[cells]))
        sd = np.sqrt((chance * (1 - chance)).sum()) / cells.sum()
        assert abs(Y[cells].mean() - chance.mean()) < 4 * sd + 0.01
