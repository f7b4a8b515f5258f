"""Non-negative factors: the library's numbers, the optimum, and what was planted."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import decomposition
from sklearn.datasets import load_wine

from lvmcore import NMF

Array = NDArray[np.float64]


def wine() -> Array:
    return load_wine(return_X_y=True)[0]  # type: ignore[no-any-return]


def squared_residual(model: NMF) -> float:
    return float(model.noise_variance_.sum() * len(model.embedding_.mean))


def test_non_negative_factors_are_the_librarys() -> None:
    scaled = wine() / wine().std(axis=0)
    ours = NMF(n_components=3, tol=1e-5, max_iter=5000).fit(wine())
    library = decomposition.NMF(3, init="nndsvda", tol=1e-5, max_iter=5000, random_state=0)
    scores = library.fit_transform(scaled)
    lengths = np.linalg.norm(library.components_, axis=1)
    order = np.argsort(-np.square(scores * lengths).sum(axis=0))
    np.testing.assert_allclose(ours.profiles_, (library.components_ / lengths[:, None])[order])
    # Rows lie at the optimum for these profiles, a little beyond where the library stopped.
    np.testing.assert_allclose(ours.embedding_.mean, (scores * lengths)[:, order], atol=0.02)
    assert squared_residual(ours) <= library.reconstruction_err_**2
    assert squared_residual(ours) == pytest.approx(library.reconstruction_err_**2, rel=1e-5)
    assert ours.converged_


def test_a_row_lies_at_the_non_negative_optimum() -> None:
    """Karush, Kuhn and Tucker: no slope where w > 0, none downhill where w = 0."""
    model = NMF(n_components=4).fit(wine()[::2])
    scaled = wine() / wine()[::2].std(axis=0)
    w, H = model.transform(wine()), model.profiles_
    slope = (w @ H - scaled) @ H.T
    assert w.min() == 0.0
    assert slope.min() > -1e-9
    np.testing.assert_allclose(slope * w, 0, atol=1e-9)


def test_more_components_and_more_steps_fit_no_worse() -> None:
    by_components = [squared_residual(NMF(n_components=q).fit(wine())) for q in (1, 2, 4, 8)]
    by_steps = [
        squared_residual(NMF(n_components=4, max_iter=steps, tol=1e-10).fit(wine()))
        for steps in (1, 3, 10, 100)
    ]
    for residuals in (by_components, by_steps):
        assert (np.diff(residuals) < 0).all()


def test_parts_that_were_planted_are_found_whatever_the_units() -> None:
    rng = np.random.default_rng(0)
    parts = np.kron(np.eye(3), np.ones((1, 4))) * rng.uniform(1, 3, (3, 12))
    amounts = rng.gamma(0.5, 1.0, (200, 3)) * np.array([4.0, 2.0, 1.0])
    X = amounts @ parts + 0.01 * rng.random((200, 12))
    model = NMF(n_components=3).fit(X)
    likeness = np.corrcoef(np.vstack([amounts.T, model.embedding_.mean.T]))[:3, 3:]
    assert (likeness.max(axis=0) > 0.98).all()
    assert sorted(likeness.argmax(axis=0)) == [0, 1, 2]
    shares = model.relevance_["data"]
    assert shares.sum() == pytest.approx(1.0)
    assert (np.diff(shares) <= 0).all()
    other = NMF(n_components=3).fit(X * np.geomspace(1e-6, 1e6, 12))
    np.testing.assert_allclose(other.embedding_.mean, model.embedding_.mean, rtol=1e-6)
    decoded = other.decode(other.embedding_.mean).mean / np.geomspace(1e-6, 1e6, 12)
    np.testing.assert_allclose(decoded, X, atol=0.05)


def test_noise_is_the_mean_squared_residual_of_each_column() -> None:
    model = NMF(n_components=2).fit(wine())
    predicted = model.decode(model.embedding_.mean)
    expected = np.square(wine() - predicted.mean).mean(axis=0)
    np.testing.assert_allclose(predicted.noise_variance, np.tile(expected, (len(wine()), 1)))
    np.testing.assert_array_equal(predicted.variance, predicted.noise_variance)


def test_a_row_of_nothing_lies_at_0() -> None:
    X = np.vstack([wine(), np.zeros(wine().shape[1])])
    model = NMF(n_components=3).fit(X)
    np.testing.assert_array_equal(model.embedding_.mean[-1], 0.0)


def test_too_few_steps_are_told() -> None:
    assert not NMF(n_components=3, max_iter=2).fit(wine()).converged_
