"""Where a map starts, beside the principal components, which test_gplvm.py looks at."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_swiss_roll
from sklearn.decomposition import PCA
from sklearn.manifold import Isomap, SpectralEmbedding
from sklearn.neighbors import kneighbors_graph

from lvmcore import LDGD, BayesianGPLVM, ConfigError, load
from lvmcore.base import initial_map
from lvmcore.base.initial_map import pca_start, perturbed, start_map
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.base.validation import fit_fingerprint
from lvmcore.preprocessing.table_rows import InMemoryRows


def problem(Y: np.ndarray, Q: int, seed: int = 0) -> FitProblem:
    seen = ~np.isnan(Y)
    return FitProblem(
        table=InMemoryRows(
            torch.as_tensor(np.nan_to_num(Y)), None if seen.all() else torch.as_tensor(seen)
        ),
        labels=(),
        n_components=Q,
        generator=torch.Generator().manual_seed(seed),
        callback=None,
    )


def started(Y: np.ndarray, Q: int, start: Any, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    notes: list[str] = []
    return start_map(problem(Y, Q, seed), start, notes.append).numpy(), notes


def standardised(X: np.ndarray) -> np.ndarray:
    return (X - X.mean(axis=0)) / X.std(axis=0)


def alike(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Absolute correlation of each column with its fellow."""
    return np.abs((standardised(one) * standardised(two)).mean(axis=0))


@pytest.mark.parametrize("Q", [2, 30])
def test_principal_components_of_a_wide_table_are_the_library_s(Q: int) -> None:
    rng = np.random.default_rng(4)
    Y = standardised(rng.standard_normal((30, 3)) @ rng.standard_normal((3, 80)))
    Y += 0.3 * rng.standard_normal(Y.shape)
    Y -= Y.mean(axis=0)
    found = pca_start(problem(Y, Q)).numpy()
    expected = PCA(29, svd_solver="full").fit_transform(Y)[:, :Q]
    n = expected.shape[1]  # all but one: the rows' mean is 0
    assert (alike(found[:, :n], expected) > 1 - 1e-8).all()
    np.testing.assert_allclose(found[:, :n].std(axis=0), 1.0)
    if n < Q:
        assert 0 < found[:, n:].std() < 0.2  # noise, as there is nothing to show


@pytest.fixture(scope="module")
def roll() -> np.ndarray:
    return standardised(make_swiss_roll(300, noise=0.05, random_state=0)[0])


def test_isomap_is_the_library_s(roll: np.ndarray) -> None:
    X, notes = started(roll, 2, "isomap")
    expected = Isomap(n_neighbors=10, n_components=2, eigen_solver="dense").fit_transform(roll)
    np.testing.assert_allclose(X, standardised(expected), atol=1e-8)
    assert notes == []
    assert not torch.equal(torch.as_tensor(X), pca_start(problem(roll, 2)))


def test_spectral_is_nearly_the_library_s(roll: np.ndarray) -> None:
    X, notes = started(roll, 2, "spectral")
    graph = kneighbors_graph(roll, 10)
    expected = SpectralEmbedding(2, affinity="precomputed", random_state=0)
    # The weak links between all rows move it a little.
    assert (alike(X, expected.fit_transform(0.5 * (graph + graph.T))) > 0.95).all()
    np.testing.assert_allclose(X.std(axis=0), 1.0)
    assert notes == []


def test_random_starts_are_standard_draws(roll: np.ndarray) -> None:
    X, _ = started(roll, 2, "random")
    assert np.abs(X.mean(axis=0)).max() < 0.2
    assert np.abs(X.std(axis=0) - 1).max() < 0.15
    np.testing.assert_array_equal(X, started(roll, 2, "random")[0])
    assert not np.array_equal(X, started(roll, 2, "random", seed=1)[0])


@pytest.mark.parametrize("start", ["isomap", "spectral"])
def test_a_long_table_starts_from_some_rows_and_their_neighbours(
    roll: np.ndarray, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = started(roll, 2, start)
    monkeypatch.setattr(initial_map, "MOST_ROWS", 200)
    some, _ = started(roll, 2, start)
    assert some.shape == whole.shape
    np.testing.assert_allclose(some.std(axis=0), 1.0)
    # Of a swiss roll the first coordinate is that along the sheet, whichever rows are taken.
    assert alike(some, whole)[0] > 0.95
    np.testing.assert_array_equal(some, started(roll, 2, start)[0])


@pytest.mark.parametrize("start", ["isomap", "spectral"])
def test_gaps_are_filled_for_the_start(roll: np.ndarray, start: str) -> None:
    # Columns that tell of one another, so that the gaps can be filled.
    Y = standardised(np.column_stack([roll, roll @ np.ones((3, 2)) + roll[:, :2]]))
    whole, _ = started(Y, 2, start)
    gaps = np.where(np.random.default_rng(0).random(Y.shape) < 0.03, np.nan, Y)
    X, _ = started(gaps, 2, start)
    assert np.isfinite(X).all()
    assert alike(X, whole)[0] > 0.9


@pytest.mark.parametrize("start", ["isomap", "spectral"])
@pytest.mark.parametrize("rows", [2, 3, 4])
def test_few_rows_start_in_as_many_dimensions_as_they_have(start: str, rows: int) -> None:
    X, notes = started(np.random.default_rng(1).normal(size=(rows, 5)), 4, start)
    assert X.shape == (rows, 4)
    assert np.isfinite(X).all()
    assert len(notes) == 1
    assert f"The {start} start has" in notes[0]
    assert "of 4 dimensions; the others start as small noise" in notes[0]


def test_a_line_has_one_dimension() -> None:
    X, (note,) = started(np.outer(np.linspace(-1, 1, 60), [1.0, 2.0, -1.0]), 3, "isomap")
    assert "has 1 of 3 dimensions" in note
    assert alike(X[:, :1], np.arange(60.0)[:, None]) == pytest.approx(1.0, abs=1e-6)
    assert (X[:, 1:].std(axis=0) < 0.2).all()


@pytest.mark.parametrize("start", ["isomap", "spectral"])
def test_groups_far_apart_and_equal_rows_are_no_trouble(start: str) -> None:
    rng = np.random.default_rng(2)
    far = np.vstack([rng.normal(size=(30, 3)) + 40 * centre for centre in np.eye(3)])
    X, notes = started(standardised(far), 2, start)
    groups = X.reshape(3, 30, 2)
    between = groups.mean(axis=1).std(axis=0).max()
    assert between > 3 * groups.std(axis=1).max()
    # No group falls to a single place.
    assert (groups.std(axis=1).max(axis=1) > 1e-3).all()
    assert any("shortest links" in note for note in notes) == (start == "isomap")
    equal = np.repeat(rng.integers(0, 3, size=(5, 3)), 25, axis=0).astype(float)
    assert np.isfinite(started(equal, 2, start)[0]).all()


# ---- a given embedding -------------------------------------------------------------------------


def test_given_places_keep_their_shape(roll: np.ndarray) -> None:
    places = np.random.default_rng(0).normal(size=(300, 2)) * [30.0, 10.0] + 5
    X, _ = started(roll, 2, places)
    np.testing.assert_allclose(X, (places - places.mean(axis=0)) / places[:, 0].std())
    np.testing.assert_array_equal(X, started(roll, 2, places.tolist())[0])


@pytest.mark.parametrize(
    "places", [np.zeros((300, 3)), np.zeros((10, 2)), np.full((300, 2), np.nan), [["a", "b"]], [1]]
)
def test_places_that_do_not_fit_are_refused(roll: np.ndarray, places: Any) -> None:
    with pytest.raises(ConfigError, match=r"given as start cannot be used: expected finite"):
        started(roll, 2, places)


def test_a_single_place_is_no_start(roll: np.ndarray) -> None:
    with pytest.raises(ConfigError, match="all rows lie in one"):
        started(roll, 2, np.ones((300, 2)))


@pytest.mark.parametrize("model", [BayesianGPLVM, LDGD])
def test_a_model_starts_where_it_is_told(roll: np.ndarray, model: Any, tmp_path: Any) -> None:
    y = roll[:, 0] > 0
    places = np.random.default_rng(0).normal(size=(300, 2))
    settings = {"n_inducing": 8, "max_iter": 1, "learning_rate": 1e-4, "start": places}
    fit = model(**settings).fit(roll, y)
    assert fit.embedding_.mean.shape == (300, 2)  # as many dimensions as the places have
    centred = (places - places.mean(axis=0)) / places.std(axis=0).max()
    np.testing.assert_allclose(fit.embedding_.mean, centred, atol=1e-3)
    fit.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.get_params()["start"], places)
    np.testing.assert_array_equal(again.transform(roll[:5]), fit.transform(roll[:5]))


def test_other_places_are_another_fit(roll: np.ndarray) -> None:
    """As a checkpoint has to know."""
    places = np.random.default_rng(0).normal(size=(300, 2))
    other = places.copy()
    other[150, 1] += 1e-9
    one, two = (fit_fingerprint(BayesianGPLVM(start=p), roll) for p in (places, other))
    assert one != two
    assert one == fit_fingerprint(BayesianGPLVM(start=places.copy()), roll)


@pytest.mark.parametrize("value", ["umap", 3, None, np.float64(1.0)])
def test_what_is_no_start_is_refused(roll: np.ndarray, value: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"start=.* cannot be used: expected one of auto, pca, isomap"
    ):
        BayesianGPLVM(start=value).fit(roll)


def test_a_perturbed_start_is_as_wide_and_some_way_off() -> None:
    X = torch.randn((5000, 2), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    X = X * torch.tensor([1.0, 0.1], dtype=torch.float64)
    moved = perturbed(X, torch.Generator().manual_seed(1))
    torch.testing.assert_close(moved.std(0), X.std(0), rtol=0.02, atol=0)
    expected = 1 / (1 + initial_map.PERTURBATION_SD**2) ** 0.5
    np.testing.assert_allclose(alike(moved.numpy(), X.numpy()), expected, atol=0.01)
    assert not torch.equal(moved, perturbed(X, torch.Generator().manual_seed(2)))
