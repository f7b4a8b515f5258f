"""Where the map of a fit starts: principal components, isomap, spectral, random, or as given."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.classical.probabilistic_pca import LinearGaussian, fit_linear_gaussian
from lvmcore.errors import ConfigError
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import is_array

__all__ = ["pca_start", "perturbed", "start_map"]


# Of the start where cells are missing: steps at most, and nats per cell that are worth a step.
START_STEPS, START_TOLERANCE = 100, 1e-4
# Rows that these steps look at, at most.
MOST_GAPPED_ROWS = 20_000
# sd of what stands in for a dimension that a method cannot give.
SMALL_NOISE = 0.1
# Rows that isomap and spectral look at: their time grows like the cube of it.
MOST_ROWS = 2000
NEIGHBOURS = 10
# Links that every two rows have, in all for a row, as a share of those to its neighbours.
WEAK_LINKS = 0.01
# A row beyond those lies where so many of its nearest among them do, on average.
NEAREST = 5
# How far a later start departs from the first, in sd of each dimension.
DEPARTURE = 0.25


def start_map(problem: FitProblem, start: str | ArrayLike, note: Callable[[str], None]) -> Tensor:
    """Where the rows start on the map, [N, Q].

    Args:
        problem: what is fitted.
        start: "pca", "isomap", "spectral", "random" (draws from the prior), or places [N, Q], which
            are centred and scaled as a whole, so that the widest dimension has sd 1.
        note: told of what the method could not give.

    Raises:
        ConfigError: the given places do not suit the table.
    """
    if is_array(start):
        return _given(problem, start)
    if start == "random":
        return _draws(problem).to(problem.table.like)
    if start == "pca":
        return pca_start(problem)
    return _by_neighbours(problem, str(start), note)


def perturbed(X: Tensor, generator: torch.Generator) -> Tensor:
    """A start some way off another one X [N, Q], as wide as it in every dimension."""
    noise = torch.randn(X.shape, generator=generator, dtype=torch.float64).to(X)
    departed: Tensor = X + DEPARTURE * X.std(0, correction=0) * noise
    return departed.div((1 + DEPARTURE**2) ** 0.5)


def pca_start(problem: FitProblem) -> Tensor:
    """Principal component scores scaled to unit variance, [N, Q].

    Dimensions beyond the data's rank start as small noise. Where cells are missing, the scores are
    the posterior means of probabilistic principal components fitted to the observed cells.
    """
    table, Q = problem.table, problem.n_components
    if not table.complete:
        model = _linear_gaussian(problem)
        scores = table.map_blocks(lambda Y, seen: model.infer(Y.double(), _mask(Y, seen)).mean, Q)
        scores = scores - scores.mean(0)
        return (scores / scores.std(0, correction=0).clamp_min(1e-12)).to(table.like)
    if Q <= len(table) < table.n_columns:  # the same scores by the smaller Gram matrix, Y Yᵀ
        Y = table.take(torch.arange(len(table)))[0].double()
        values, vectors = torch.linalg.eigh(Y @ Y.T)
        values, vectors = values.flip(0)[:Q].clamp_min(0), vectors.flip(1)[:, :Q]
        scores = vectors * values.sqrt()
    else:
        gram = table.like.new_zeros((table.n_columns,) * 2, dtype=torch.float64)
        for Y, _ in table.blocks():
            gram += Y.double().T @ Y.double()
        values, vectors = torch.linalg.eigh(gram)
        values, vectors = values.flip(0)[:Q], vectors.flip(1)[:, :Q]
        scores = table.map_blocks(lambda Y, _: Y.double() @ vectors, Q)
    sound = values > 1e-10 * values[0]
    X = scores / scores.std(0, correction=0).clamp_min(1e-12)
    return torch.where(sound, X, SMALL_NOISE * _draws(problem).to(X)).to(table.like)


def _linear_gaussian(problem: FitProblem) -> LinearGaussian:
    """Probabilistic principal components of the observed cells, of at most 20 000 rows."""
    table, rows = problem.table, torch.arange(len(problem.table))
    if len(rows) > MOST_GAPPED_ROWS:
        rows = torch.randperm(len(rows), generator=problem.generator)[:MOST_GAPPED_ROWS]
    Y, observed = table.take(rows)
    model, _ = fit_linear_gaussian(
        Y,
        _mask(Y, observed),
        problem.n_components,
        max_iter=START_STEPS,
        tolerance=START_TOLERANCE,
    )
    return model


def _mask(Y: Tensor, observed: Tensor | None) -> Tensor:
    """Which cells of rows are observed, written out, [n, D]."""
    return torch.ones_like(Y, dtype=torch.bool) if observed is None else observed


def _draws(problem: FitProblem) -> Tensor:
    shape = (len(problem.table), problem.n_components)
    return torch.randn(shape, generator=problem.generator, dtype=torch.float64)


def _given(problem: FitProblem, start: ArrayLike) -> Tensor:
    """Places that somebody brought along."""
    shape = (len(problem.table), problem.n_components)
    try:
        X = np.asarray(start, dtype=np.float64)
    except (TypeError, ValueError):
        X = np.full((), np.nan)
    if X.shape != shape or not np.isfinite(X).all():
        raise ConfigError(
            f"The places of shape {np.shape(X)} given as start cannot be used: expected finite "
            f"numbers of shape {shape}, a place for each row of the data."
        )
    X = X - X.mean(axis=0)
    widest = float(X.std(axis=0).max())
    if widest <= 0:
        raise ConfigError(
            "The places given as start cannot be used: all rows lie in one. Try start='pca'."
        )
    return torch.as_tensor(X / widest).to(problem.table.like)


# ---- by neighbours -----------------------------------------------------------------------------


def _by_neighbours(problem: FitProblem, method: str, note: Callable[[str], None]) -> Tensor:
    """Isomap or spectral coordinates scaled to unit variance, [N, Q].

    They are computed on at most 2000 rows, drawn with the fit's seed. Where cells are missing, the
    rows are completed by probabilistic principal components first. Dimensions that the method
    cannot give start as small noise.
    """
    Y, Q = _completed(problem), problem.n_components
    rows = np.arange(len(Y))
    if len(Y) > MOST_ROWS:
        rows = np.sort(torch.randperm(len(Y), generator=problem.generator).numpy()[:MOST_ROWS])
    seed = int(torch.randint(2**31 - 1, (1,), generator=problem.generator))
    X = to_numpy(SMALL_NOISE * _draws(problem))
    found = _isomap(Y[rows], Q, note) if method == "isomap" else _spectral(Y[rows], Q, seed)
    found = _extended(Y, rows, found)
    found = found - found.mean(axis=0)
    sd = found.std(axis=0)
    sound = sd > 1e-6 * sd.max(initial=0.0)
    X[:, : int(sound.sum())] = found[:, sound] / sd[sound]
    if sound.sum() < Q:
        note(
            f"The {method} start has {int(sound.sum())} of {Q} dimensions; the others start as "
            "small noise."
        )
    return torch.as_tensor(X).to(problem.table.like)


def _completed(problem: FitProblem) -> FloatArray:
    """The table, its gaps filled by probabilistic principal components, [N, D]."""
    Y, observed = problem.Y.double(), problem.observed
    if observed is None:
        return to_numpy(Y)
    model = _linear_gaussian(problem)
    filled = model.infer(Y, observed).mean @ model.weights.T + model.offset
    return to_numpy(torch.where(observed, Y, filled))


def _isomap(Y: FloatArray, Q: int, note: Callable[[str], None]) -> FloatArray:
    """Isomap's coordinates of rows, as many dimensions as their paths fit into, [n, Q or fewer]."""
    from scipy.sparse import SparseEfficiencyWarning
    from sklearn.manifold import Isomap

    neighbours = min(NEIGHBOURS, len(Y) - 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("ignore", category=SparseEfficiencyWarning)
        warnings.filterwarnings("always", "The number of connected components", UserWarning)
        for q in range(min(Q, len(Y) - 1), 0, -1):
            # The sparse solver would draw from the global random state.
            library = Isomap(n_neighbors=neighbours, n_components=q, eigen_solver="dense")
            try:
                found = np.asarray(library.fit_transform(Y), dtype=np.float64)
                break
            except (ValueError, np.linalg.LinAlgError):  # fewer positive eigenvalues than that
                continue
        else:
            found = np.zeros((len(Y), 0))
    if caught:
        note(
            "For the isomap start, groups of rows that no chain of neighbours joins were joined by "
            "their shortest links."
        )
    return found


def _spectral(Y: FloatArray, Q: int, seed: int) -> FloatArray:
    """Laplacian eigenmaps of rows, [n, Q or fewer].

    Beside the links to its neighbours a row has a weak one to every other, so that no group of rows
    falls to a single place.
    """
    from sklearn.manifold import SpectralEmbedding
    from sklearn.neighbors import kneighbors_graph

    n = len(Y)
    q = min(Q, n - 2)
    if q < 1:
        return np.zeros((n, 0))
    neighbours = min(NEIGHBOURS, n - 1)
    graph = kneighbors_graph(Y, neighbours).toarray()
    links = 0.5 * (graph + graph.T) + WEAK_LINKS * neighbours / n
    library = SpectralEmbedding(q, affinity="precomputed", random_state=seed, eigen_solver="arpack")
    return np.asarray(library.fit_transform(links), dtype=np.float64)


def _extended(Y: FloatArray, rows: NDArray[np.intp], found: FloatArray) -> FloatArray:
    """Places of all rows from those of some: the others lie among their nearest, [N, q]."""
    from sklearn.neighbors import KNeighborsRegressor

    if len(rows) == len(Y):
        return found
    whole = np.empty((len(Y), found.shape[1]))
    if not found.shape[1]:
        return whole
    others = np.setdiff1d(np.arange(len(Y)), rows)
    nearest = KNeighborsRegressor(min(NEAREST, len(rows)), weights="distance")
    whole[rows], whole[others] = found, nearest.fit(Y[rows], found).predict(Y[others])
    return whole
