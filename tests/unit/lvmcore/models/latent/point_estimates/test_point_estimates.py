"""Models of point estimates: limit cases, what labels and constraints do, and what is refused."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA

from lvmcore import GPLVM, SGPLVM, SLLGPLVM, ConfigError, DiscriminativeGPLVM, TableSize

Array = np.ndarray[Any, np.dtype[np.float64]]


def curve(N: int = 40, seed: int = 0) -> tuple[Array, Array]:
    """Rows on a curved sheet in six columns, and class codes by their first position."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 2))
    maps = np.random.default_rng(9).normal(size=(2, 2, 6))
    Y = np.sin(x @ maps[0]) + 0.5 * x @ maps[1] + 0.1 * rng.normal(size=(N, 6))
    return Y, np.digitize(x[:, 0], [-0.4, 0.5])


def test_elbo_is_the_joint_density_at_the_map() -> None:
    Y, _ = curve()
    model = GPLVM(max_iter=20).fit(Y)
    X, kernel = model.embedding_.mean, model._decoder.kernel
    standard = (Y - Y.mean(0)) / Y.std(0)
    X_torch = model._decoder.Z
    np.testing.assert_array_equal(X_torch.numpy(), X)
    K = kernel(X_torch, X_torch).numpy() + model.noise_variance_[0] * np.eye(len(Y))
    columns = multivariate_normal(np.zeros(len(Y)), K).logpdf(standard.T).sum()
    prior = multivariate_normal(np.zeros(2), np.eye(2)).logpdf(X).sum()
    assert model.elbo_ == pytest.approx(columns + prior, abs=1e-5)
    np.testing.assert_allclose(X.mean(0), 0, atol=1e-10)
    np.testing.assert_allclose(X.std(0), 1, atol=1e-6)
    assert (model.embedding_.variance == 0).all()
    assert (model.posterior(Y).variance == 0).all()


def test_with_a_linear_kernel_the_map_is_the_plane_of_principal_components() -> None:
    """The dual of probabilistic PCA (Lawrence 2005)."""
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(60, 6))
    components = PCA(2).fit_transform((Y - Y.mean(0)) / Y.std(0))
    start = components / components.std(0) + rng.normal(size=(60, 2))
    model = GPLVM(kernel="linear", max_iter=300, start=start).fit(Y)
    X = model.embedding_.mean
    predicted = X @ np.linalg.lstsq(X, components, rcond=None)[0]
    assert 1 - np.square(predicted - components).sum() / np.square(components).sum() > 0.999


@pytest.mark.parametrize("how", ["kernel", "network"])
def test_a_back_constraint_places_the_rows_of_the_fit_and_new_ones(how: Any) -> None:
    Y, _ = curve()
    model = GPLVM(back_constraint=how, n_hidden=8, max_iter=60).fit(Y)
    np.testing.assert_allclose(model.transform(Y), model.embedding_.mean, atol=1e-6)
    near = model.transform(Y + 1e-6)
    np.testing.assert_allclose(near, model.embedding_.mean, atol=1e-3)
    assert model.elbo_ > model.history_[0].objective


def test_with_gaps_a_row_map_has_the_mask_and_places_rows_alike() -> None:
    Y, _ = curve()
    gaps = np.random.default_rng(1).random(Y.shape) < 0.15
    holed = np.where(gaps, np.nan, Y)
    model = GPLVM(back_constraint="kernel", max_iter=30).fit(holed)
    full = ~gaps.all(1)
    np.testing.assert_allclose(model.transform(holed)[full], model.embedding_.mean[full], atol=1e-6)
    filled = model.impute(holed)
    error = np.square((filled.mean - Y)[gaps] / np.broadcast_to(Y.std(0), Y.shape)[gaps]).mean()
    assert error < 0.6


def test_strength_0_is_the_gplvm_and_a_strong_prior_separates_classes() -> None:
    Y, codes = curve()
    plain = GPLVM(max_iter=20).fit(Y)
    off = DiscriminativeGPLVM(class_strength=0.0, max_iter=20).fit(Y, codes)
    np.testing.assert_allclose(off.embedding_.mean, plain.embedding_.mean, atol=1e-8)
    assert off.elbo_ == pytest.approx(plain.elbo_, abs=1e-8)
    strong = DiscriminativeGPLVM(class_strength=20.0, max_iter=60).fit(Y, codes)

    def within(X: Array) -> float:
        """Share of the variance within classes."""
        return float(sum(X[codes == c].var(0).sum() * np.mean(codes == c) for c in range(3)) / 2)

    assert within(strong.embedding_.mean) < 0.7 * within(plain.embedding_.mean)


@pytest.mark.parametrize("model", [SGPLVM, SLLGPLVM, DiscriminativeGPLVM])
def test_the_class_is_that_of_the_largest_mean_score(model: Any) -> None:
    Y, codes = curve()
    new, _ = curve(seed=5)
    fitted = model(n_components=2, max_iter=20).fit(Y, codes)
    scores = fitted._scores
    X = fitted._to_tensor(fitted.transform(new)).double()
    mean = (scores.decoder.predict(X)[0] + scores.shares).numpy()
    np.testing.assert_array_equal(fitted.predict(new), mean.argmax(1))
    assert set(fitted.variance_shares()) == set(fitted.relevance_) == {"data", "labels"}


def test_labels_draw_the_supervised_map() -> None:
    """The joint density of labels and columns is higher than at the map of the columns alone."""
    Y, codes = curve()
    alone = GPLVM(max_iter=40).fit(Y)
    both = SGPLVM(n_components=2, max_iter=40).fit(Y, codes)
    assert both.history_[-1].terms["data fit"] < alone.history_[-1].terms["data fit"]
    assert both.history_[-1].terms["label fit"] > both.history_[0].terms["label fit"]


def test_the_advice_is_exact_for_short_tables_and_long_ones_are_refused() -> None:
    short = GPLVM.suggest(TableSize(n_rows=2000, n_columns=5))
    assert short["approximation"] == "exact"
    assert GPLVM.suggest(TableSize(n_rows=2001, n_columns=5))["approximation"] == "vfe"
    gaps = TableSize(n_rows=301, n_columns=5, incomplete=True)
    assert GPLVM.suggest(gaps)["approximation"] == "vfe"
    assert SLLGPLVM.suggest(gaps)["approximation"] == "exact"
    Y = np.random.default_rng(0).normal(size=(2001, 3))
    with pytest.raises(ConfigError, match=r"at most 2,000 rows, and the table has 2,001"):
        GPLVM(approximation="exact").fit(Y)


def test_restarts_keep_the_best() -> None:
    Y, _ = curve()
    model = GPLVM(n_restarts=3, start="random", max_iter=15).fit(Y)
    assert model.restarts_ is not None
    assert model.elbo_ == model.restarts_.bounds.max()
