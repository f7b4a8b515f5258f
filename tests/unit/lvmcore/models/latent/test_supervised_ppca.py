"""Supervised probabilistic PCA: its closed form, missing labels, and what labels change."""

import numpy as np
import pytest

from lvmcore import ProbabilisticPCA, SupervisedPPCA
from tests.contract.small import table


def test_with_one_noise_it_is_ppca_of_columns_and_labels() -> None:
    frame, labels = table()
    model = SupervisedPPCA(n_components=2, noise="shared").fit(frame, labels)
    from scipy.linalg import helmert

    Y = ((frame - frame.mean()) / frame.std(ddof=0)).to_numpy()
    hot = np.eye(3)[np.unique(labels, return_inverse=True)[1]]
    V = np.hstack([Y, (hot - hot.mean(0)) @ helmert(3).T])
    values, vectors = np.linalg.eigh(V.T @ V / len(V))
    noise = values[:-2].mean()
    C = noise * np.eye(7) + (vectors[:, -2:] * (values[-2:] - noise)) @ vectors[:, -2:].T
    log_det = np.linalg.slogdet(C)[1]
    trace = np.trace(np.linalg.solve(C, V.T @ V / len(V)))
    expected = -0.5 * len(V) * (7 * np.log(2 * np.pi) + log_det + trace)
    assert model.elbo_ == pytest.approx(expected, abs=1e-3)
    assert model.noise_variance_ == pytest.approx(noise, rel=1e-3)
    assert model.label_noise_variance_ == model.noise_variance_


def test_noise_of_their_own_fits_better_and_rows_without_label_are_placed_as_new_ones() -> None:
    frame, labels = table()
    y = [label if n > 4 else None for n, label in enumerate(labels)]
    shared, own = (
        SupervisedPPCA(n_components=2, noise=how).fit(frame, y) for how in ("shared", "separate")
    )
    assert own.elbo_ > shared.elbo_
    placed = own.posterior(frame)
    np.testing.assert_allclose(placed.mean[:5], own.embedding_.mean[:5], atol=1e-8)
    np.testing.assert_allclose(placed.variance[:5], own.embedding_.variance[:5], atol=1e-8)
    assert (own.embedding_.variance[5:] < placed.variance[5:]).all()


def test_its_density_of_columns_is_below_that_of_ppca() -> None:
    """PPCA maximises it, SPPCA the joint density with the labels."""
    frame, labels = table()
    ours = SupervisedPPCA(n_components=2).fit(frame, labels)
    theirs = ProbabilisticPCA(n_components=2).fit(frame)
    assert ours.score_samples(frame).mean() <= theirs.score(frame) + 1e-6
    assert ours.score_samples(frame).mean() > theirs.score(frame) - 2
