"""Initial map of a fit: principal components, by neighbours, random, or a given array."""

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


# Start with missing cells: maximum steps, and tolerance of the likelihood in nats per cell.
START_STEPS, START_TOLERANCE = 100, 1e-4
# Maximum number of rows in these steps.
MOST_INCOMPLETE_ROWS = 20_000
# sd of the noise in a dimension that a method cannot provide.
SMALL_NOISE = 0.1
# Maximum number of rows for isomap and spectral, whose time is cubic in it, and for t-SNE.
MOST_ROWS, MOST_TSNE_ROWS = 2000, 1000
NEIGHBOURS = 10
# t-SNE: perplexity, and steps with and without early exaggeration.
PERPLEXITY, EXAGGERATED_STEPS, TSNE_STEPS = 30, 150, 250
# Total weight of a row's links to all rows, as a share of those to its neighbours.
WEAK_LINKS = 0.01
# Number of nearest neighbours whose positions are averaged for each further row.
NEAREST = 5
# Perturbation of later starts, in sd of each dimension.
PERTURBATION_SD = 0.25


def start_map(problem: FitProblem, start: str | ArrayLike, note: Callable[[str], None]) -> Tensor:
    """The initial map, [N, Q].

    Args:
        problem: the problem to fit.
        start: "pca", "isomap", "spectral", "tsne", "random" (draws from the prior), or positions
            [N, Q], which are centred and scaled by one factor, so that the widest dimension has
            sd 1.
        note: called with a note on dimensions that the method cannot provide.

    Raises:
        ConfigError: the given positions do not suit the table.
    """
    if is_array(start):
        return _given_start(problem, start)
    if start == "random":
        return _random_start(problem).to(problem.table.like)
    if start == "pca":
        return pca_start(problem)
    return _by_neighbours(problem, str(start), note)


def perturbed(X: Tensor, generator: torch.Generator) -> Tensor:
    """An initial map X [N, Q] with added noise, rescaled to keep its sd in every dimension."""
    noise = torch.randn(X.shape, generator=generator, dtype=torch.float64).to(X)
    perturbed_map: Tensor = X + PERTURBATION_SD * X.std(0, correction=0) * noise
    return perturbed_map.div((1 + PERTURBATION_SD**2) ** 0.5)


def pca_start(problem: FitProblem) -> Tensor:
    """Principal component scores scaled to unit variance, [N, Q].

    Dimensions beyond the data's rank are small noise. With missing cells, the scores are the
    posterior means of probabilistic principal components fitted to the observed cells.
    """
    table, Q = problem.table, problem.n_components
    if not table.complete:
        model = _linear_gaussian(problem)
        scores = table.map_blocks(
            lambda Y, observed: model.infer(Y.double(), _mask(Y, observed)).mean, Q
        )
        scores = scores - scores.mean(0)
        return (scores / scores.std(0, correction=0).clamp_min(1e-12)).to(table.like)
    if Q <= len(table) < table.n_columns:  # the same scores from the smaller Gram matrix, Y Yᵀ
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
    return torch.where(sound, X, SMALL_NOISE * _random_start(problem).to(X)).to(table.like)


def _linear_gaussian(problem: FitProblem) -> LinearGaussian:
    """Probabilistic principal components of the observed cells of at most 20 000 rows."""
    table, rows = problem.table, torch.arange(len(problem.table))
    if len(rows) > MOST_INCOMPLETE_ROWS:
        rows = torch.randperm(len(rows), generator=problem.generator)[:MOST_INCOMPLETE_ROWS]
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
    """Mask of the observed cells, also for complete rows, [n, D]."""
    return torch.ones_like(Y, dtype=torch.bool) if observed is None else observed


def _random_start(problem: FitProblem) -> Tensor:
    shape = (len(problem.table), problem.n_components)
    return torch.randn(shape, generator=problem.generator, dtype=torch.float64)


def _given_start(problem: FitProblem, start: ArrayLike) -> Tensor:
    """A given initial map, validated, centred and scaled."""
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
    """Isomap, spectral or t-SNE coordinates scaled to unit variance, [N, Q].

    They are computed on at most 2000 rows (t-SNE 1000), sampled with the fit's seed. Missing cells
    are first imputed by probabilistic principal components. Dimensions that the method cannot
    provide are small noise.
    """
    Y, Q = _imputed_table(problem), problem.n_components
    rows = np.arange(len(Y))
    most = MOST_TSNE_ROWS if method == "tsne" else MOST_ROWS
    if len(Y) > most:
        rows = np.sort(torch.randperm(len(Y), generator=problem.generator).numpy()[:most])
    seed = int(torch.randint(2**31 - 1, (1,), generator=problem.generator))
    X = to_numpy(SMALL_NOISE * _random_start(problem))
    if method == "isomap":
        found = _isomap(Y[rows], Q, note)
    else:
        found = (_spectral if method == "spectral" else _tsne)(Y[rows], Q, seed)
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


def _imputed_table(problem: FitProblem) -> FloatArray:
    """The table with missing cells imputed by probabilistic principal components, [N, D]."""
    Y, observed = problem.Y.double(), problem.observed
    if observed is None:
        return to_numpy(Y)
    model = _linear_gaussian(problem)
    filled = model.infer(Y, observed).mean @ model.weights.T + model.offset
    return to_numpy(torch.where(observed, Y, filled))


def _isomap(Y: FloatArray, Q: int, note: Callable[[str], None]) -> FloatArray:
    """Isomap coordinates, with at most as many dimensions as positive eigenvalues, [n, ≤ Q]."""
    from scipy.sparse import SparseEfficiencyWarning
    from sklearn.manifold import Isomap

    neighbours = min(NEIGHBOURS, len(Y) - 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("ignore", category=SparseEfficiencyWarning)
        warnings.filterwarnings("always", "The number of connected components", UserWarning)
        for q in range(min(Q, len(Y) - 1), 0, -1):
            # The sparse solver uses the global random state.
            library = Isomap(n_neighbors=neighbours, n_components=q, eigen_solver="dense")
            try:
                found = np.asarray(library.fit_transform(Y), dtype=np.float64)
                break
            except (ValueError, np.linalg.LinAlgError):  # fewer positive eigenvalues than q
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
    """Laplacian eigenmaps of rows, [n, ≤ Q].

    Weak links between all rows, in addition to those between neighbours, connect the graph: in a
    disconnected graph all rows of a component have the same coordinates.
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


def _tsne(Y: FloatArray, Q: int, seed: int) -> FloatArray:
    """t-SNE of rows in at most two dimensions, [n, min(Q, 2)]."""
    import openTSNE

    if len(Y) < 4:
        return np.zeros((len(Y), 0))
    library = openTSNE.TSNE(
        n_components=min(Q, 2),
        perplexity=min(PERPLEXITY, (len(Y) - 1) / 3),
        early_exaggeration_iter=EXAGGERATED_STEPS,
        n_iter=TSNE_STEPS,
        random_state=seed,
    )
    return np.asarray(library.fit(Y), dtype=np.float64)


def _extended(Y: FloatArray, rows: NDArray[np.intp], found: FloatArray) -> FloatArray:
    """Positions of all rows from those of some, by k-nearest-neighbour regression, [N, q]."""
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
