"""Maps that keep neighbours together: t-SNE, UMAP and Isomap, each computed by its library."""

from __future__ import annotations

import math
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
from lvmcore.errors import DataError, NumericalError, UnsupportedError
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Components, Doc, Range
from lvmcore.results import Callback, FitStep, Posterior
from lvmcore.training.loop import SECONDS_BETWEEN_SNAPSHOTS, FitOutcome, report_once
from lvmcore.training.snapshots import snapshot_of

__all__ = ["TSNE", "UMAP", "Isomap"]

EARLY_STEPS = 250
# Telling the divergence costs up to half a step, so of more rows only every fifth step is told.
MANY_ROWS, STEPS_APART = 1000, 5

Metric = Annotated[
    Literal["euclidean", "manhattan", "chebyshev", "cosine"],
    Doc("How the distance between two rows is measured, on standardised columns."),
]


class _NoNewRowsError(UnsupportedError, AttributeError):
    """There is no ``transform``: scikit-learn looks for the attribute, people read the reason."""


class _Refusal:
    """Stands where other models have ``transform``."""

    def __get__(self, model: Any, owner: type) -> Any:
        if model is None:
            return self
        raise _NoNewRowsError(f"{owner.__name__} cannot place new rows on its map.")


class _PlacesNoRows:
    transform: Any = _Refusal()


@estimator_dataclass
class _MapOnly(_PlacesNoRows, LatentVariableModel):
    """A map of the fitted rows and nothing else: it places no new rows and decodes no points."""

    capabilities: ClassVar[Capabilities] = Capabilities(new_rows=False, decoding=False)

    def fit_transform(
        self, X: ArrayLike, y: Any = None, *, callback: Callback | None = None
    ) -> FloatArray:
        """Fit, and return where the rows lie on the map, [N, Q]."""
        return self.fit(X, y, callback=callback).embedding_.mean

    def _keep(self, mean: FloatArray) -> None:
        """Take over the map [N, Q]; a dimension's relevance is the variance of its coordinate."""
        mean = np.asarray(mean, dtype=np.float64)
        if not np.isfinite(mean).all():
            raise NumericalError(
                f"{self.title} found no place for some rows. Try more neighbours, fewer "
                "dimensions or another seed."
            )
        self.embedding_ = Posterior(mean, np.zeros_like(mean))
        self.relevance_ = {"data": _spread(mean)}
        self.inducing_inputs_ = {}

    def _neighbours(self, wanted: int, rows: int) -> int:
        """How many neighbours a row has: as asked, but no more than there are other rows."""
        if wanted > rows - 1:
            self._note(
                f"n_neighbors reduced from {wanted} to {rows - 1}: the table has {rows} rows."
            )
        return min(wanted, rows - 1)

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError  # not among the capabilities: posterior() refuses before

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        raise NotImplementedError  # not among the capabilities: decode() refuses before

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return {}, {}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        del arrays, facts  # the map itself is kept by the base class


def _spread(mean: FloatArray) -> FloatArray:
    """Variance of each coordinate, [Q], never quite 0."""
    return np.asarray(mean.var(axis=0).clip(min=np.finfo(np.float64).tiny))


@estimator_dataclass
class TSNE(_MapOnly):
    """t-SNE: rows that are neighbours in the data are neighbours on the map.

    The map minimises Σ_ij p_ij log(p_ij / q_ij), with p from Gaussian neighbourhoods of the given
    perplexity and q from Student's t on the map (van der Maaten and Hinton 2008). openTSNE does the
    fit, on the standardised columns, with its defaults: a start from principal components, and a
    first third of the steps, 250 at most, in which neighbours attract twelvefold. This divergence
    is no bound on a likelihood: it is told as a term of each step, and ``elbo_`` is NaN.

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
        meter = _Meter(problem.callback, early, every, self.max_iter)
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
        self._keep(np.asarray(library.fit(to_numpy(problem.Y))))
        return FitOutcome(math.nan, tuple(meter.history), converged=not meter.stopped)

    def _possible_perplexity(self, rows: int) -> float:
        """As asked, but no more than a third of the other rows."""
        most = (rows - 1) / 3
        if self.perplexity > most:
            self._note(
                f"perplexity reduced from {self.perplexity:g} to {most:.3g}: the table has {rows} "
                "rows."
            )
        return min(float(self.perplexity), most)


class _Meter:
    """What openTSNE calls now and then: reports the step, and stops the fit when asked to."""

    def __init__(self, callback: Callback | None, early: int, every: int, total: int) -> None:
        self.history: list[FitStep] = []
        self.stopped = False
        self._callback, self._early, self._total = callback, early, total
        self._before = early if early < every else 0  # a short first phase is not told of
        self._last = 0
        self._began = time.perf_counter()
        self._last_snapshot = -math.inf

    def __call__(self, iteration: int, divergence: float, embedding: Any) -> bool:
        if iteration <= self._last:  # the library counts anew in its second phase
            self._before = self._early
        self._last = iteration
        seconds = time.perf_counter() - self._began
        n, terms = self._before + iteration, {"KL divergence": float(divergence)}
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
    """UMAP: a map whose graph of neighbours is like the data's.

    Rows and their nearest neighbours make a weighted graph, and the map minimises the cross-entropy
    between it and the graph of the map (McInnes, Healy and Melville 2018). umap-learn does the fit,
    on the standardised columns, with its defaults and one thread, so that a seed decides the map.
    The library reports no steps, so a callback cannot stop it. What numba compiles of it is kept on
    disk, where numba finds a folder that it may write to: every process would compile it anew, for
    longer than a small table takes.

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
        _keep_compiled()
        library = umap.UMAP(
            n_components=problem.n_components,
            n_neighbors=self._neighbours(self.n_neighbors, rows),
            min_dist=self.min_dist,
            n_epochs=self.n_epochs,
            metric=self.metric,
            # The spectral start needs more rows than the map has dimensions.
            init="spectral" if rows > problem.n_components + 1 else "random",
            random_state=problem.generator.initial_seed(),
            n_jobs=1,
        )
        threads = torch.get_num_threads()
        try:
            self._keep(library.fit_transform(to_numpy(problem.Y)))
        finally:
            torch.set_num_threads(threads)  # numba's first loop sets those of all OpenMP code
        return report_once(problem.callback, began)


def _keep_compiled() -> None:
    """Have numba keep on disk what it compiles of umap-learn, as it does of the library beneath.

    Only functions that are called with arrays and numbers: one that takes a function has a type of
    its own in every process, and would be kept once more each time.
    """
    from umap import umap_, utils

    for function in (
        umap_.smooth_knn_dist,
        umap_.compute_membership_strengths,
        utils.fast_knn_indices,
    ):
        # No folder to write to; or numba has been told not to compile.
        with suppress(RuntimeError, AttributeError):
            function.enable_caching()


@estimator_dataclass
class Isomap(_MapOnly):
    """Isomap: distances on the map are lengths of paths from neighbour to neighbour in the data.

    Shortest paths through the graph of nearest neighbours, then classical scaling (Tenenbaum, de
    Silva and Langford 2000). scikit-learn's ``Isomap`` does the fit, on the standardised columns;
    time and memory grow like the square of the rows. The library reports no steps, so a callback
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
        self._keep(mean)
        return report_once(problem.callback, began)
