"""The Bayesian GPLVM on a curve of which everything is known."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.preprocessing import StandardScaler

from lvmcore import PCA, BayesianGPLVM, ProbabilisticPCA
from lvmcore.data import load_sample
from lvmcore.metrics.scores import continuity, nlpd, trustworthiness

Array = NDArray[np.float64]
NOISE_SD = 0.1  # of every column of the sample


def s_curve(seed: int = 0) -> Array:
    return load_sample("s_curve", random_state=seed).dataset(label="part").X


@pytest.fixture(scope="module")
def X() -> Array:
    return s_curve()


@pytest.fixture(scope="module")
def model(X: Array) -> BayesianGPLVM:
    return BayesianGPLVM(n_components=5, noise="column", max_iter=200).fit(X)


def test_the_bound_rises(model: BayesianGPLVM, X: Array) -> None:
    bounds = np.array([step.objective for step in model.history_])
    assert model.elbo_ > bounds[0] + 0.5 * X.size  # by more than half a nat a cell
    tenths = [part.mean() for part in np.array_split(bounds, 10)]
    assert tenths == sorted(tenths)
    assert model.elbo_ >= bounds[-20:].min()


def test_the_two_dimensions_of_the_curve_are_found(model: BayesianGPLVM) -> None:
    share = np.sort(model.relevance_["data"] / model.relevance_["data"].sum())[::-1]
    assert share[:2].sum() > 0.95
    assert share[2] < 0.03


def test_the_noise_of_each_column_is_found(model: BayesianGPLVM) -> None:
    noise = np.sqrt(model.decode(np.zeros((1, 5))).noise_variance[0])
    np.testing.assert_allclose(noise, NOISE_SD, rtol=0.2)
    assert noise.mean() == pytest.approx(NOISE_SD, rel=0.05)


def test_the_map_is_truer_than_that_of_pca(model: BayesianGPLVM, X: Array) -> None:
    Y = StandardScaler().fit_transform(X)
    leading = np.argsort(-model.relevance_["data"])[:2]
    ours, linear = model.embedding_.mean[:, leading], PCA(n_components=2).fit_transform(X)
    assert trustworthiness(Y, ours) > trustworthiness(Y, linear) + 0.02
    assert continuity(Y, ours) > continuity(Y, linear)


@pytest.mark.parametrize(("share", "lowest", "highest"), [(0.5, 0.45, 0.65), (0.95, 0.93, 0.995)])
def test_intervals_hold_the_share_of_cells_that_they_say(
    model: BayesianGPLVM, X: Array, share: float, lowest: float, highest: float
) -> None:
    """Of the fit's own rows, so a little too wide: each row's position is fitted to it."""
    predicted = model.decode(model.embedding_.mean)
    z = np.abs(X - predicted.mean) / np.sqrt(predicted.variance)
    held = np.mean(z < norm.ppf(0.5 + share / 2), axis=0)
    assert lowest < held.mean() < highest


@pytest.mark.slow
def test_unseen_rows_of_the_curve() -> None:
    """Every other row is left out of the fit, then placed and compared."""
    X = s_curve(seed=1)
    seen, unseen = X[::2], X[1::2]
    model = BayesianGPLVM(n_components=5, noise="column", max_iter=200).fit(seen)
    predicted = model.decode(model.transform(unseen))
    z = np.abs(unseen - predicted.mean) / np.sqrt(predicted.variance)
    assert 0.92 < np.mean(z < 1.96) < 0.99
    # The curve's own noise is all that is left over, within a factor.
    assert np.sqrt(np.mean((unseen - predicted.mean) ** 2)) < 1.5 * NOISE_SD
    linear = ProbabilisticPCA(n_components=5).fit(seen)
    assert model.score(unseen) > linear.score(unseen) + 3
    flat = linear.decode(linear.transform(unseen))
    ours = nlpd(unseen, predicted.mean, predicted.variance)
    assert ours < nlpd(unseen, flat.mean, flat.variance) - 0.3


def test_away_from_the_rows_the_prediction_is_unsure(model: BayesianGPLVM) -> None:
    near = model.decode(model.embedding_.mean).variance.mean(axis=0)
    far = model.decode(np.full((1, 5), 40.0)).variance[0]
    assert (far > 5 * near).all()


def test_one_noise_for_all_columns_where_asked() -> None:
    X = s_curve()[::3]
    shared = BayesianGPLVM(n_components=2, max_iter=60, noise="shared").fit(X)
    each = BayesianGPLVM(n_components=2, max_iter=60, noise="column").fit(X)
    assert np.ptp(shared.noise_variance_) == 0
    assert np.ptp(each.noise_variance_) > 0


def test_noise_alone_gives_no_structure() -> None:
    """White noise: nothing is predicted better than by the column means."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 8))
    model = BayesianGPLVM(n_components=3, max_iter=150).fit(X)
    unseen = rng.normal(size=(150, 8))
    assert model.score(unseen) < norm.logpdf(unseen).sum(axis=1).mean() + 0.1
    assert (model.noise_variance_ > 0.5).all()
