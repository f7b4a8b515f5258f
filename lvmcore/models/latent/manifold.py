"""Manifold learning: t-SNE, UMAP and Isomap, each computed by its library."""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.latent_variable_model import Capabilities, FitProblem, LatentVariableModel
from lvmcore.base.settings import Components
from lvmcore.errors import DataError, NumericalError, UnsupportedError
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Doc, Range
from lvmcore.results import Callback, FitStep, Posterior
from lvmcore.training.loop import SECONDS_BETWEEN_SNAPSHOTS
from lvmcore.training.outcome import FitOutcome, report_once
from lvmcore.training.snapshots import snapshot_of

__all__ = ["TSNE", "UMAP", "Isomap"]

EARLY_STEPS = 250
# The divergence costs up to half a step: above MANY_ROWS only every fifth step is reported.
MANY_ROWS, STEPS_APART = 1000, 5
# Epochs of UMAP by default, and of long tables.
EPOCHS, EPOCHS_OF_MANY, MANY_ROWS_OF_UMAP = 500, 200, 10_000

Metric = Annotated[
    Literal["euclidean", "manhattan", "chebyshev", "cosine"],
    Doc("How the distance between two rows is measured, on standardised columns."),
]


class _NoNewRowsError(UnsupportedError, AttributeError):
    """``transform`` does not exist: an AttributeError for scikit-learn, with a reason for users."""


class _UnsupportedTransform:
    """Descriptor in place of ``transform`` that raises an error."""

    def __get__(self, model: Any, owner: type) -> Any:
        if model is None:
            return self
        raise _NoNewRowsError(f"{owner.__name__} cannot place new rows on its map.")


class _WithoutTransform:
    transform: Any = _UnsupportedTransform()


@estimator_dataclass
class _MapOnly(_WithoutTransform, LatentVariableModel):
    """Base class of maps of the fitted rows only, without new rows and decoding."""

    capabilities: ClassVar[Capabilities] = Capabilities(new_rows=False, decoding=False)

    def fit_transform(
        self, X: ArrayLike, y: Any = None, *, callback: Callback | None = None
    ) -> FloatArray:
        """Fit, and return the positions of the rows, [N, Q]."""
        return self.fit(X, y, callback=callback).embedding_.mean

    def _store_map(self, mean: FloatArray) -> None:
        """Store the map [N, Q]; the relevance of a dimension is the variance of its coordinate."""
        mean = np.asarray(mean, dtype=np.float64)
        if not np.isfinite(mean).all():
            raise NumericalError(
                f"{self.title} found no position for some rows. Try more neighbours, fewer "
                "dimensions or another seed."
            )
        self.embedding_ = Posterior(mean, np.zeros_like(mean))
        self.relevance_ = {"data": _spread(mean)}
        self.inducing_inputs_ = {}

    def _neighbours(self, n_neighbors: int, rows: int) -> int:
        """Number of neighbours: the setting, at most the number of other rows."""
        if n_neighbors > rows - 1:
            self._note(
                f"n_neighbors reduced from {n_neighbors} to {rows - 1}: the table has {rows} rows."
            )
        return min(n_neighbors, rows - 1)

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError  # not in the capabilities: posterior() raises an error before

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        raise NotImplementedError  # not in the capabilities: decode() raises an error before

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return {}, {}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        del arrays, facts  # the base class stores the map


def _spread(mean: FloatArray) -> FloatArray:
    """Variance of each coordinate, [Q], at least the smallest positive number."""
    return np.asarray(mean.var(axis=0).clip(min=np.finfo(np.float64).tiny))


@estimator_dataclass
class TSNE(_MapOnly):
    """t-SNE: a map that preserves neighbourhoods of the data.

    The map minimises Σ_ij p_ij log(p_ij / q_ij), with p from Gaussian neighbourhoods of the given
    perplexity and q from Student's t on the map (van der Maaten and Hinton 2008). openTSNE does the
    fit, on the standardised columns, with its defaults: principal components as initial map, and
    early exaggeration by a factor of 12 in the first third of the steps, at most 250. The
    divergence is no bound on a likelihood: it is reported as a term of each step, and ``elbo_`` is
    NaN.

    Attributes:
        relevance_: ``data`` holds the variance of each coordinate, [Q].
    """

    key: ClassVar[str] = "tsne"
    title: ClassVar[str] = "t-SNE"
    summary: ClassVar[str] = (
        "Shows which rows are close neighbours: for finding groups. Distances between groups mean "
        "little."
    )
    paper: ClassVar[str] = "van der Maaten and Hinton 2008; Poličar et al. 2024"
    order: ClassVar[int] = 70
    quick_to_load: ClassVar[bool] = False

    n_components: Annotated[
        int, Range(1, 2), Doc("How many dimensions the map has.", "dimensions")
    ] = 2
    perplexity: Annotated[
        float,
        Range(0.5, 1000.0, log=True),
        Doc("About how many neighbours each row has: more show coarser structure."),
    ] = 30.0
    max_iter: Annotated[int, Range(1, 100_000), Doc("Steps of the fit.", "steps")] = 750
    metric: Metric = "euclidean"

    def _fit(self, problem: FitProblem) -> FitOutcome:
        import openTSNE

        early = min(EARLY_STEPS, self.max_iter // 3)
        every = 1 if len(problem.Y) < MANY_ROWS else STEPS_APART
        meter = _OpenTSNECallback(problem.callback, early, every, self.max_iter)
        library = openTSNE.TSNE(
            n_components=problem.n_components,
            perplexity=self._possible_perplexity(len(problem.Y)),
            early_exaggeration_iter=early,
            n_iter=self.max_iter - early,
            metric=self.metric,
            random_state=problem.generator.initial_seed(),
            callbacks=meter,
            callbacks_every_iters=every,
        )
        self._store_map(np.asarray(library.fit(to_numpy(problem.Y))))
        return FitOutcome(math.nan, tuple(meter.history), converged=not meter.stopped)

    def _possible_perplexity(self, rows: int) -> float:
        """The setting, at most a third of the number of other rows."""
        most = (rows - 1) / 3
        if self.perplexity > most:
            self._note(
                f"perplexity reduced from {self.perplexity:g} to {most:.3g}: the table has {rows} "
                "rows."
            )
        return min(float(self.perplexity), most)


class _OpenTSNECallback:
    """Callback of openTSNE: reports steps to the callback of the fit, which can stop it."""

    def __init__(self, callback: Callback | None, early: int, every: int, total: int) -> None:
        self.history: list[FitStep] = []
        self.stopped = False
        self._callback, self._early, self._total = callback, early, total
        self._earlier_steps = early if early < every else 0  # a short first phase has no calls
        self._last = 0
        self._began = time.perf_counter()
        self._last_snapshot = -math.inf

    def __call__(self, iteration: int, divergence: float, embedding: Any) -> bool:
        if iteration <= self._last:  # the library restarts the count in its second phase
            self._earlier_steps = self._early
        self._last = iteration
        seconds = time.perf_counter() - self._began
        n, terms = self._earlier_steps + iteration, {"KL divergence": float(divergence)}
        step = FitStep(n, self._total, seconds, math.nan, terms)
        self.history.append(step)
        if self._callback is None:
            return False
        due = seconds - self._last_snapshot >= SECONDS_BETWEEN_SNAPSHOTS
        ends = n > self._total - STEPS_APART
        if due or ends:
            self._last_snapshot = seconds
            mean = torch.as_tensor(np.array(embedding, dtype=np.float64))
            relevance = {"data": torch.as_tensor(_spread(to_numpy(mean)))}
            snapshot = snapshot_of(mean, relevance)
            step = FitStep(n, self._total, seconds, math.nan, terms, snapshot, ends=ends)
        self.stopped = bool(self._callback(step))
        return self.stopped


@estimator_dataclass
class UMAP(_MapOnly):
    """UMAP: a map whose graph of neighbours approximates that of the data.

    Rows and their nearest neighbours form a weighted graph, and the map minimises the cross-entropy
    between it and the graph of the map (McInnes, Healy and Melville 2018). umap-learn does the fit,
    on the standardised columns, with its defaults and one thread, so that the map is reproducible
    from a seed. A callback is told of the epochs of the layout, without an objective, and cannot
    stop it. Its functions compiled by numba are cached on disk if numba has a writable folder:
    compilation in every process would take longer than the fit of a small table.

    Attributes:
        relevance_: ``data`` holds the variance of each coordinate, [Q].
    """

    key: ClassVar[str] = "umap"
    title: ClassVar[str] = "UMAP"
    summary: ClassVar[str] = (
        "Groups of neighbours, and something of how groups lie to one another; quick on long "
        "tables."
    )
    paper: ClassVar[str] = "McInnes, Healy and Melville 2018"
    order: ClassVar[int] = 80
    capabilities: ClassVar[Capabilities] = Capabilities(new_rows=False, decoding=False, steps=False)
    quick_to_load: ClassVar[bool] = False

    n_components: Components = 2
    n_neighbors: Annotated[
        int,
        Range(2, 1000, log=True),
        Doc("Neighbours of each row: more show coarser structure.", "neighbours"),
    ] = 15
    min_dist: Annotated[
        float,
        Range(0.0, 0.99),
        Doc("How close two rows may lie on the map: less makes denser groups.", "least gap"),
    ] = 0.1
    n_epochs: Annotated[
        int | None,
        Range(1, 100_000),
        Doc("Passes of the fit; auto is 500, or 200 for more than 10 000 rows.", "passes"),
    ] = None
    metric: Metric = "euclidean"

    def _fit(self, problem: FitProblem) -> FitOutcome:
        began = time.perf_counter()
        rows = len(problem.Y)
        if rows < 3:
            raise DataError(
                f"UMAP cannot map {rows} rows: expected at least 3, so that each has two "
                "neighbours. PCA can."
            )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Tensorflow not installed", ImportWarning)
            import umap
        _enable_numba_cache()
        library = umap.UMAP(
            n_components=problem.n_components,
            n_neighbors=self._neighbours(self.n_neighbors, rows),
            min_dist=self.min_dist,
            n_epochs=self.n_epochs,
            metric=self.metric,
            # The spectral start needs more rows than latent dimensions.
            init="spectral" if rows > problem.n_components + 1 else "random",
            random_state=problem.generator.initial_seed(),
            n_jobs=1,
            tqdm_kwds=None if problem.callback is None else _EpochReport(problem.callback).options,
        )
        threads = torch.get_num_threads()
        try:
            self._store_map(library.fit_transform(to_numpy(problem.Y)))
        finally:
            torch.set_num_threads(threads)  # numba's first loop sets those of all OpenMP code
        epochs = self.n_epochs or (EPOCHS if rows <= MANY_ROWS_OF_UMAP else EPOCHS_OF_MANY)
        return report_once(problem.callback, began, steps=epochs)


class _EpochReport:
    """Reports epochs of umap-learn: the file to which its progress bar writes.

    Args:
        callback: told of each epoch that the bar shows, ten a second at most.
    """

    _WRITTEN = re.compile(r"(\d+)/(\d+)")

    def __init__(self, callback: Callback) -> None:
        self._callback = callback
        self._began = time.perf_counter()

    @property
    def options(self) -> dict[str, Any]:
        """Options of the progress bar."""
        return {"disable": False, "file": self, "bar_format": "{n:d}/{total:d}", "leave": False}

    def write(self, text: str) -> None:
        """Report the epoch that a text of the bar gives."""
        found = self._WRITTEN.search(text)
        if found is not None and 0 < int(found[1]) < int(found[2]):
            seconds = time.perf_counter() - self._began
            self._callback(FitStep(int(found[1]), int(found[2]), seconds, math.nan))

    def flush(self) -> None:
        """Nothing is held back."""


def _enable_numba_cache() -> None:
    """Enable numba's cache on disk for functions of umap-learn; its dependency caches its own.

    Only functions of arrays and numbers are cached: a function argument has a new type in every
    process, and each would add an entry to the cache.
    """
    from umap import umap_, utils

    for function in (
        umap_.smooth_knn_dist,
        umap_.compute_membership_strengths,
        utils.fast_knn_indices,
    ):
        # No writable folder, or compilation is disabled in numba.
        with suppress(RuntimeError, AttributeError):
            function.enable_caching()


@estimator_dataclass
class Isomap(_MapOnly):
    """Isomap: a map that preserves geodesic distances along the graph of neighbours.

    Shortest paths in the graph of nearest neighbours, then classical scaling (Tenenbaum, de Silva
    and Langford 2000). scikit-learn's ``Isomap`` does the fit, on the standardised columns; time
    and memory are quadratic in the number of rows. The library reports no steps, so a callback
    cannot stop it.

    Attributes:
        relevance_: ``data`` holds the variance of each coordinate, [Q].
    """

    key: ClassVar[str] = "isomap"
    title: ClassVar[str] = "Isomap"
    summary: ClassVar[str] = (
        "Unrolls a curved sheet by distances along it: for tables of up to a few thousand rows."
    )
    paper: ClassVar[str] = "Tenenbaum, de Silva and Langford 2000"
    order: ClassVar[int] = 60
    capabilities: ClassVar[Capabilities] = Capabilities(new_rows=False, decoding=False, steps=False)

    n_components: Components = 2
    n_neighbors: Annotated[
        int,
        Range(1, 1000, log=True),
        Doc(
            "Neighbours of each row: too many cut corners, too few tear the sheet.",
            "neighbours",
        ),
    ] = 5
    metric: Metric = "euclidean"

    def _fit(self, problem: FitProblem) -> FitOutcome:
        from scipy.sparse import SparseEfficiencyWarning
        from sklearn.manifold import Isomap as Library

        began = time.perf_counter()
        library = Library(
            n_neighbors=self._neighbours(self.n_neighbors, len(problem.Y)),
            n_components=problem.n_components,
            metric=self.metric,
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.filterwarnings("ignore", category=SparseEfficiencyWarning)
            warnings.filterwarnings("always", "The number of connected components", UserWarning)
            try:
                mean = library.fit_transform(to_numpy(problem.Y))
            except (ValueError, np.linalg.LinAlgError) as error:
                raise NumericalError(
                    f"Isomap's paths do not fit into {problem.n_components} dimensions. Try fewer "
                    "dimensions or more neighbours."
                ) from error
        if caught:
            self._note(
                "The rows fall into groups that no chain of neighbours joins; they were joined by "
                "their shortest links. More neighbours may join them."
            )
        self._store_map(mean)
        return report_once(problem.callback, began)
