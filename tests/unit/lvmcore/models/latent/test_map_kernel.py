"""The setting ``kernel`` of the Gaussian process maps."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import LeaveOneOut, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from lvmcore import load
from lvmcore.errors import ConfigError
from lvmcore.models import MODELS
from lvmcore.numerics.array_types import FloatArray
from lvmcore.results import FitStep
from lvmcore.training.checkpoint import Checkpoint

KEYS = ["bayesian_gplvm", "qep_lvm", "stochastic_gplvm", "ldgd", "fast_ldgd"]
EACH = pytest.mark.parametrize("key", KEYS)
KERNEL = "matern52(z1) * rbf(z2) + linear"


def table(n_rows: int = 40) -> tuple[FloatArray, FloatArray]:
    """Five smooth columns of two latent dimensions, with noise; the sign of the first."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_rows, 2))
    columns = [np.sin(x[:, 0]), x[:, 0], x[:, 0] * x[:, 1], np.cos(x[:, 1]), x[:, 1]]
    return np.stack(columns, 1) + 0.1 * rng.normal(size=(n_rows, 5)), (x[:, 0] > 0).astype(int)


X, y = table()
HOLED = X.copy()
HOLED[::5, 1] = np.nan


def model(key: str, **settings: Any) -> Any:
    usual: dict[str, Any] = {"n_components": 2, "n_inducing": 6, "max_iter": 10, "random_state": 0}
    if "start" in MODELS[key]().get_params():
        usual["start"] = "pca"
    return MODELS[key](**{**usual, "kernel": KERNEL, **settings})


@EACH
@pytest.mark.parametrize("rows", ["complete", "with gaps"])
def test_a_fit_places_decodes_fills_and_comes_back(key: str, rows: str, tmp_path: Path) -> None:
    data = X if rows == "complete" else HOLED
    fitted = model(key).fit(data, y)
    fitted.save(tmp_path / "model.safetensors")
    again: Any = load(tmp_path / "model.safetensors")
    assert again.kernel == KERNEL
    here, there = fitted.posterior(data[:3]), again.posterior(data[:3])
    filled, refilled = fitted.impute(HOLED[:2]), again.impute(HOLED[:2])
    points = here.mean
    decoded, redecoded = fitted.decode(points), again.decode(points)
    for name in ("mean", "variance"):
        pairs = ((here, there), (filled, refilled), (decoded, redecoded))
        for one, other in pairs:
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    # A row's position does not depend on the rows beside it.
    np.testing.assert_allclose(fitted.posterior(data[:1]).mean, points[:1], atol=1e-6)
    metric = fitted.latent_metric(points)
    assert (np.linalg.eigvalsh(metric) > 0).all()
    assert fitted.relevance_["data"].shape == (2,)
    assert fitted.variance_shares()["data"].sum() == pytest.approx(1)
    if hasattr(fitted, "predict_proba"):
        np.testing.assert_array_equal(fitted.predict_proba(X[:5]), again.predict_proba(X[:5]))


@pytest.mark.parametrize("key", ["bayesian_gplvm", "ldgd", "fast_ldgd"])
def test_a_fit_goes_on_where_it_was_stopped(key: str, tmp_path: Path) -> None:
    def stop(step: FitStep) -> bool:
        return step.iteration == 7

    whole = model(key).fit(X, y)
    path = tmp_path / "checkpoint.safetensors"
    model(key)._fit_from(X, y, callback=stop, checkpoint=Checkpoint(path))
    again = model(key)._fit_from(X, y, checkpoint=Checkpoint(path))
    np.testing.assert_array_equal(again.embedding_.mean, whole.embedding_.mean)
    np.testing.assert_array_equal(again.decode(np.zeros((1, 2))).mean, whole.decode([[0, 0]]).mean)
    assert again.elbo_ == whole.elbo_


def test_single_precision_and_several_starts() -> None:
    fitted = model("bayesian_gplvm", dtype="float32", n_restarts=2).fit(X)
    assert len(fitted.restarts_.bounds) == 2
    assert np.isfinite(fitted.score(X[:10]))
    labelled = model("ldgd", dtype="float32").fit(X, y)
    assert np.isfinite(labelled.predict_proba(X[:5])).all()


def test_a_shortest_path_of_a_map_with_a_kernel() -> None:
    fitted = model("bayesian_gplvm", kernel="matern32").fit(X)
    start, end = fitted.embedding_.mean[[0, 1]]
    path, line = fitted.latent_path(start, end), fitted.latent_path(start, end, along="line")
    assert 0 < path.distance[-1] <= 1.02 * line.distance[-1]


@EACH
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "rbf +"}, "ends too early"),
        ({"kernel": "rbf(income)"}, "names 'income', but it acts on the dimensions of the map"),
        ({"kernel": "rbf(z1) + linear(z3)"}, "names z3, but the map has 2 dimensions"),
        ({"kernel": "cosine"}, "acts on one dimension, and the map has 2"),
    ],
)
def test_a_kernel_that_cannot_be_used_is_reported_before_the_fit(
    key: str, settings: dict[str, Any], message: str
) -> None:
    steps: list[FitStep] = []
    with pytest.raises(ConfigError, match=message):
        model(key, **settings).fit(X, y, callback=lambda step: bool(steps.append(step)))
    assert not steps


@pytest.mark.parametrize("key", ["bayesian_gplvm", "stochastic_gplvm", "ldgd", "fast_ldgd"])
def test_columns_with_likelihoods_of_their_own_have_no_other_kernel(key: str) -> None:
    text = "gaussian*4, student_t"
    with pytest.raises(ConfigError, match=r"needs Gaussian columns.*column_likelihood='gaussian'"):
        model(key, column_likelihood=text).fit(X, y)


def test_a_grid_needs_the_rbf_kernel() -> None:
    with pytest.raises(ConfigError, match=r"this map has kernel='matern52'. Choose 'free'"):
        model("bayesian_gplvm", kernel="matern52", inducing_layout="grid").fit(X)
    long, _ = table(520)
    fitted = model("bayesian_gplvm", kernel="matern52", max_iter=2, n_inducing=None).fit(long)
    assert fitted.settings_["inducing_layout"] == "free"


def test_the_default_is_the_closed_rbf_kernel() -> None:
    one, other = (model("bayesian_gplvm", kernel=text).fit(X) for text in ("rbf", "(rbf)"))
    np.testing.assert_array_equal(one.embedding_.mean, other.embedding_.mean)
    sampled = model("bayesian_gplvm", kernel="rbf(z1, z2)").fit(X)
    assert sampled.elbo_ == pytest.approx(one.elbo_, abs=0.02 * X.size)
    assert sampled.elbo_ != one.elbo_


def circle(n_rows: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Six columns of an angle, with noise, and the angle."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(-np.pi, np.pi, n_rows)
    columns = [np.cos(t), np.sin(t), np.cos(2 * t), np.sin(2 * t), np.cos(t + 1), np.sin(t) ** 3]
    return np.stack(columns, 1) + 0.1 * rng.normal(size=(n_rows, 6)), t


@pytest.mark.slow
def test_a_periodic_kernel_closes_a_circle() -> None:
    rows, t = circle(80, 0)
    others, _ = circle(200, 1)
    settings = {"n_components": 1, "n_inducing": 16, "max_iter": 80, "start": t[:, None] / t.std()}
    rbf, periodic = (
        model("bayesian_gplvm", kernel=text, **settings).fit(rows) for text in ("rbf", "periodic")
    )
    assert periodic.elbo_ > rbf.elbo_ + 4
    assert periodic.score(others) > rbf.score(others) + 0.03


def test_a_matern_map_of_iris_keeps_the_species_as_apart_as_the_rbf_map() -> None:
    flowers, species = load_iris(return_X_y=True)
    accuracy = {}
    for text in ("rbf", "matern52"):
        fitted = model("bayesian_gplvm", kernel=text, n_inducing=12, max_iter=40).fit(flowers[::2])
        near = KNeighborsClassifier(1)
        each = cross_val_score(near, fitted.embedding_.mean, species[::2], cv=LeaveOneOut())
        accuracy[text] = each.mean()
    assert accuracy["rbf"] > 0.8
    assert accuracy["matern52"] > accuracy["rbf"] - 0.05
