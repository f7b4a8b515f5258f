"""The wrapped methods give what their libraries give, and what goes beyond that is right."""

import math
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import multivariate_normal
from sklearn import decomposition, discriminant_analysis, manifold
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from lvmcore import TSNE, UMAP, FactorAnalysis, FitStep, Isomap, LinearDiscriminantAnalysis
from lvmcore.metrics.scores import knn_accuracy
from lvmcore.preprocessing.standardiser import Standardiser

Array = NDArray[np.float64]


def wine() -> tuple[Array, NDArray[np.int64]]:
    return load_wine(return_X_y=True)  # type: ignore[no-any-return]


def standardised() -> Array:
    """As the estimators do it: to the last bit, for t-SNE makes every difference larger."""
    X, _ = wine()
    found = Standardiser.fit(X, [str(i) for i in range(X.shape[1])]).transform(X)
    np.testing.assert_allclose(found, StandardScaler().fit_transform(X), atol=1e-12)
    return np.ascontiguousarray(found)


def close(ours: Array, theirs: Array, atol: float = 1e-9) -> None:
    np.testing.assert_allclose(ours, theirs, atol=atol)
    _, labels = wine()
    assert knn_accuracy(ours, labels) == knn_accuracy(theirs, labels)


@pytest.mark.parametrize(("perplexity", "seed"), [(30.0, 0), (8.0, 3)])
def test_tsne_is_the_librarys(perplexity: float, seed: int) -> None:
    import openTSNE

    ours = TSNE(perplexity=perplexity, random_state=seed).fit(wine()[0]).embedding_.mean
    library = openTSNE.TSNE(perplexity=perplexity, random_state=seed)
    theirs = np.asarray(library.fit(standardised()))
    close(ours, theirs, atol=0.0)


@pytest.mark.parametrize(("neighbours", "gap", "seed"), [(15, 0.1, 0), (30, 0.5, 3)])
def test_umap_is_the_librarys(neighbours: int, gap: float, seed: int) -> None:
    model = UMAP(n_neighbors=neighbours, min_dist=gap, n_epochs=50, random_state=seed)
    ours = model.fit(wine()[0]).embedding_.mean
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Tensorflow", ImportWarning)
        import umap
    library = umap.UMAP(
        n_neighbors=neighbours, min_dist=gap, n_epochs=50, random_state=seed, n_jobs=1
    )
    theirs = library.fit_transform(standardised())
    close(ours, theirs, atol=0.0)


def test_umap_tells_its_epochs_and_gives_the_same_map() -> None:
    X = np.random.default_rng(0).normal(size=(800, 4))
    told: list[FitStep] = []
    followed = UMAP(random_state=1).fit(X, callback=lambda step: bool(told.append(step)))
    alone = UMAP(random_state=1).fit(X)
    np.testing.assert_array_equal(followed.embedding_.mean, alone.embedding_.mean)
    iterations = [step.iteration for step in told]
    assert len(iterations) > 2
    assert iterations == sorted(set(iterations))
    assert {step.total for step in told} == {500}
    assert told[-1].iteration == 500
    assert [step.iteration for step in followed.history_] == [500]
    assert [step.iteration for step in alone.history_] == [500]


def test_what_umap_compiles_is_kept() -> None:
    """Most of it; every process would compile it anew, for longer than all of this file takes."""
    UMAP().fit(np.random.default_rng(0).normal(size=(20, 3)))
    from umap import umap_, utils

    kept = umap_.smooth_knn_dist, umap_.compute_membership_strengths, utils.fast_knn_indices
    for function in kept:
        assert list(Path(function.stats.cache_path).glob(f"*.{function.__name__}-*.nbi"))


def test_umap_leaves_the_threads_of_torch_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """As numba's first parallel loop does: it sets the threads of all OpenMP code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImportWarning)
        import umap
    threads = torch.get_num_threads()

    def fit(library: object, X: NDArray[np.float64]) -> NDArray[np.float64]:
        del library
        torch.set_num_threads(threads + 3)
        return X[:, :2]

    monkeypatch.setattr(umap.UMAP, "fit_transform", fit)
    UMAP().fit(np.random.default_rng(0).standard_normal((20, 3)))
    assert torch.get_num_threads() == threads


def test_isomap_is_the_librarys() -> None:
    ours = Isomap(n_neighbors=12, n_components=3).fit(wine()[0]).embedding_.mean
    theirs = manifold.Isomap(n_neighbors=12, n_components=3).fit_transform(standardised())
    close(ours, theirs)


def test_factor_analysis_is_the_librarys() -> None:
    X, _ = wine()
    ours = FactorAnalysis(n_components=3, tol=1e-4).fit(X)
    theirs = decomposition.FactorAnalysis(3, tol=1e-4, random_state=0).fit(standardised())
    close(ours.embedding_.mean, theirs.transform(standardised()))
    close(ours.transform(X), ours.embedding_.mean)
    np.testing.assert_allclose(ours.noise_variance_, theirs.noise_variance_)
    np.testing.assert_allclose(ours.relevance_["data"], np.square(theirs.components_).sum(axis=1))
    assert ours.elbo_ == pytest.approx(theirs.score_samples(standardised()).sum())
    assert [step.objective for step in ours.history_] == pytest.approx(theirs.loglike_)
    assert ours.converged_


def test_factor_analysis_says_when_it_has_not_converged() -> None:
    assert not FactorAnalysis(n_components=3, max_iter=2).fit(wine()[0]).converged_


def test_the_density_of_factor_analysis_is_that_of_a_gaussian() -> None:
    X, _ = wine()
    model = FactorAnalysis(n_components=2).fit(X)
    covariance = np.asarray(model._weights @ model._weights.T) + np.diag(model.noise_variance_)
    scale = X.std(axis=0)
    expected = multivariate_normal(X.mean(axis=0), covariance * np.outer(scale, scale)).logpdf(X)
    assert model.score(X) == pytest.approx(expected.mean())


def test_the_variance_of_a_factor_is_that_of_the_posterior() -> None:
    X, _ = wine()
    model = FactorAnalysis(n_components=2).fit(X)
    W, noise = np.asarray(model._weights), model.noise_variance_
    expected = np.linalg.inv(np.eye(2) + W.T @ np.diag(1 / noise) @ W).diagonal()
    np.testing.assert_allclose(model.posterior(X[:3]).variance, np.tile(expected, (3, 1)))


@pytest.mark.parametrize("components", [1, 2])
def test_discriminants_are_the_librarys(components: int) -> None:
    X, y = wine()
    ours = LinearDiscriminantAnalysis(n_components=components).fit(X, y)
    library = discriminant_analysis.LinearDiscriminantAnalysis(n_components=components)
    theirs = library.fit(standardised(), y)
    close(ours.embedding_.mean, theirs.transform(standardised()))
    np.testing.assert_allclose(
        ours.predict_proba(X), theirs.predict_proba(standardised()), atol=1e-9
    )
    np.testing.assert_allclose(
        ours.relevance_["labels"], theirs.explained_variance_ratio_[:components]
    )
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(standardised()))


def test_with_all_directions_the_map_and_the_rows_agree_on_the_classes() -> None:
    X, y = wine()
    model = LinearDiscriminantAnalysis().fit(X, y)
    np.testing.assert_allclose(
        model.decode_labels(model.transform(X)).probability, model.predict_proba(X), atol=1e-9
    )


def test_two_classes_have_one_direction() -> None:
    X, y = wine()
    model = LinearDiscriminantAnalysis().fit(X, y == 0)
    assert model.embedding_.mean.shape == (len(X), 1)
    assert any("reduced from 2 to 1" in note for note in model.notes_)
    theirs = discriminant_analysis.LinearDiscriminantAnalysis().fit(standardised(), y == 0)
    np.testing.assert_allclose(
        model.predict_proba(X), theirs.predict_proba(standardised()), atol=1e-9
    )


def test_tsne_tells_every_step_and_no_bound() -> None:
    X, _ = wine()
    steps: list[FitStep] = []
    model = TSNE(max_iter=60).fit(X, callback=steps.append)
    assert [step.iteration for step in steps] == list(range(1, 61))
    assert all(step.total == 60 and math.isnan(step.objective) for step in steps)
    divergences = [step.terms["KL divergence"] for step in steps]
    assert divergences[-1] < divergences[0]
    assert math.isnan(model.elbo_)
    assert model.converged_
    last = steps[-1].snapshot
    assert last is not None
    # The library calls before it takes the step.
    at_the_end = model.embedding_.mean[:, list(last.dimensions)]
    assert np.corrcoef(last.mean[:, 0], at_the_end[:, 0])[0, 1] > 0.99


def test_of_many_rows_every_fifth_step_is_told() -> None:
    X = np.random.default_rng(0).normal(size=(1000, 3))
    model = TSNE(max_iter=60, perplexity=5.0).fit(X)
    assert [step.iteration for step in model.history_] == list(range(5, 61, 5))
    stopped = TSNE(max_iter=60, perplexity=5.0).fit(X, callback=lambda step: step.iteration == 35)
    assert stopped.history_[-1].iteration == 35
    assert not stopped.converged_
    short = TSNE(max_iter=14, perplexity=5.0).fit(X)  # four steps of the first kind, then ten
    assert [step.iteration for step in short.history_] == [9, 14]


def test_watching_tsne_changes_nothing() -> None:
    X, _ = wine()
    watched = TSNE(max_iter=40).fit(X, callback=lambda step: None)
    np.testing.assert_array_equal(watched.embedding_.mean, TSNE(max_iter=40).fit(X).embedding_.mean)


@pytest.mark.parametrize("stop", [2, 30])  # in the first phase, and in the second
def test_a_stopped_tsne_keeps_the_map_as_it_stood(stop: int) -> None:
    X, _ = wine()
    model = TSNE(max_iter=60).fit(X, callback=lambda step: step.iteration == stop)
    assert model.n_iter_ == stop
    assert not model.converged_
    assert np.isfinite(model.embedding_.mean).all()


def test_groups_that_no_neighbour_joins_are_said() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(20, 3)), 100 + rng.normal(size=(20, 3))])
    model = Isomap().fit(X)
    assert any("no chain of neighbours joins" in note for note in model.notes_)
    assert Isomap(n_neighbors=25).fit(X).notes_ == ()


@pytest.mark.parametrize("model", [UMAP, Isomap])
def test_no_more_neighbours_than_other_rows(model: type[UMAP] | type[Isomap]) -> None:
    X, _ = wine()
    fitted = model(n_neighbors=50).fit(X[:10])
    assert any("n_neighbors reduced from 50 to 9" in note for note in fitted.notes_)


def test_models_that_place_no_rows_have_no_transform() -> None:
    X, _ = wine()
    assert not hasattr(Isomap(), "transform")
    np.testing.assert_array_equal(Isomap().fit_transform(X), Isomap().fit(X).embedding_.mean)
    frame = Isomap().set_output(transform="pandas").fit_transform(X)
    assert frame.columns.tolist() == ["isomap0", "isomap1"]  # type: ignore[attr-defined]


@pytest.mark.slow
def test_slow_libraries_load_only_with_a_fit_that_needs_them() -> None:
    code = (
        "import sys\n"
        "from lvmcore.jobs import worker\n"
        "from lvmcore.models import REGISTRY\n"
        "REGISTRY.import_all()\n"
        "worker._warm_up()\n"
        "print([name for name in ('numba', 'umap', 'openTSNE') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
