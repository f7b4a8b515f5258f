"""LatentVariableModel: the scikit-learn estimator that every model is.

The base class owns the public door: it standardises, sets constant columns aside, encodes labels,
converts between NumPy in the data's units and torch in standardised units, saves and loads; what it
is handed is checked in ``checks``. A model supplies the mathematics through the hooks named
``_fit``, ``_posterior``, ``_decode``, ``_get_state`` and ``_set_state``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lvmcore import persistence
from lvmcore.base.estimator import Estimator
from lvmcore.base.validation import Capabilities
from lvmcore.errors import ConfigError, UnsupportedError
from lvmcore.geometry import LatentPath, shortest_path, straight_path
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.numerics.row_blocks import row_blocks
from lvmcore.parameters import check_settings
from lvmcore.preprocessing.class_labels import ClassLabels
from lvmcore.preprocessing.table_rows import TableRows
from lvmcore.results import Callback, LabelPredictive, Posterior, Predictive
from lvmcore.training.checkpoint import Checkpoint
from lvmcore.training.loop import FitOutcome

__all__ = ["Capabilities", "FitProblem", "LatentVariableModel"]


@dataclass(frozen=True)
class FitProblem:
    """What a model's ``_fit`` gets: everything checked, standardised and on the device.

    Attributes:
        table: standardised data without its constant columns, [N, D].
        labels: the label columns, codes [N] each; several only for models that take several, none
            for those that use no labels.
        n_components: Q, decided.
        generator: the fit's only source of randomness (CPU generator).
        callback: called at every step; True stops the fit.
        checkpoint: what the fit goes on from and leaves for the next; None keeps none.
    """

    table: TableRows
    labels: tuple[ClassLabels, ...]
    n_components: int
    generator: torch.Generator
    callback: Callback | None
    checkpoint: Checkpoint | None = None

    @property
    def Y(self) -> Tensor:
        """All rows, [N, D]; 0, the mean, where a cell is missing."""
        return self.table.take(slice(None))[0]

    @property
    def observed(self) -> Tensor | None:
        """True where a cell of Y is observed, [N, D]; None where every one is."""
        return None if self.table.complete else self.table.take(slice(None))[1]


def _has_density(model: Any) -> bool:
    return bool(model.capabilities.density)


class LatentVariableModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator, ABC):
    """Base of every model: see the module's docstring and lvmcore/README.md."""

    task: ClassVar[Literal["map"]] = "map"
    inducing_inputs_: dict[str, FloatArray]

    # ---- fitting -------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: Any = None, *, callback: Callback | None = None) -> Self:
        """Fit the model.

        Args:
            X: data, [N, D], in its own units. A memory map (``numpy.load(…, mmap_mode="r")``,
                ``lvmcore.data.memory_mapped``) stays on disk where the model says ``streams``.
            y: one label a row, [N], or several label columns, [N, L], a DataFrame with their names
                perhaps; None or NaN where a label is missing. Ignored by models that use no labels.
            callback: called with each FitStep; returning True stops the fit, and what was fitted
                so far stays usable.

        Returns:
            The fitted model.

        Raises:
            ConfigError: a parameter is not allowed, or does not suit the table's size.
            DataError: the data or labels cannot be used; the message names row and column.
            NumericalError: the computation broke down.
            UnsupportedError: several label columns for a model that learns from one.
        """
        return self._fit_from(X, y, callback=callback)

    def _fit_from(
        self,
        X: ArrayLike,
        y: Any = None,
        *,
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Self:
        """``fit``, going on from a checkpoint and leaving one now and then: the way of a run."""
        check_settings(type(self), self.get_params(deep=False))
        data = self._check_rows(X, reset=True)
        labels = self._check_labels(y, len(data))
        self._begin(data)
        if labels:
            self._know(labels)
        generator = torch.Generator().manual_seed(self._seed())
        if checkpoint is not None:
            steps = getattr(self, "max_iter", None)
            checkpoint.attach(self._fingerprint(data, labels), steps, generator)
        problem = FitProblem(
            table=self._table(data, stays=isinstance(X, np.memmap)),
            labels=labels,
            n_components=self._decide_components(data.shape),
            generator=generator,
            callback=callback,
            checkpoint=checkpoint,
        )
        return self._end(self._fit(problem), checkpoint)

    def fit_transform(
        self, X: ArrayLike, y: Any = None, *, callback: Callback | None = None
    ) -> FloatArray:
        """``fit(X, y).transform(X)``: latent means inferred without the labels, [N, Q]."""
        return self.fit(X, y, callback=callback).transform(X)

    # ---- inference and decoding ----------------------------------------------------------------

    def posterior(self, X: ArrayLike) -> Posterior:
        """Infer q(x) for rows, labels unused; a row's result never depends on its neighbours.

        Args:
            X: rows in the data's units, [N, D].

        Returns:
            Mean and variance, each [N, Q].

        Raises:
            DataError: the rows do not fit the model (columns, infinite or missing cells).
            UnsupportedError: the model cannot place new rows.
        """
        self._require("new_rows", "place new rows on its map")
        check_is_fitted(self)
        data = self._check_rows(X, reset=False)
        # Made beforehand, for the reason that TableRows.collect gives.
        found = [np.empty((len(data), self._n_features_out)) for _ in range(2)]
        for rows, *places in zip(row_blocks(data), *map(row_blocks, found), strict=True):
            Y = self._to_tensor(self._standardiser.transform(rows))
            for place, part in zip(places, self._posterior(Y), strict=True):
                place[:] = to_numpy(part)
        return Posterior(*found)

    def transform(self, X: ArrayLike) -> FloatArray:
        """Latent means of rows, labels unused, [N, Q]."""
        return self.posterior(X).mean

    def decode(self, latent: ArrayLike) -> Predictive:
        """Predict the columns at points of the latent space.

        Args:
            latent: points, [N, Q].

        Returns:
            Mean, variance (noise included) and noise variance in the data's units, each [N, D].

        Raises:
            DataError: ``latent`` has another number of dimensions than the model.
            UnsupportedError: the model cannot decode.
        """
        self._require("decoding", "turn latent points back into rows")
        points = self._check_latent(latent)
        parts = [self._decode(self._to_tensor(block)) for block in row_blocks(points)]
        mean, variance, noise = (
            np.concatenate([to_numpy(part[i]) for part in parts]) for i in range(3)
        )
        return Predictive(
            mean=self._standardiser.inverse_transform(mean),
            variance=self._standardiser.inverse_transform_variance(variance),
            noise_variance=self._standardiser.inverse_transform_variance(noise),
        )

    def impute(self, X: ArrayLike) -> Predictive:
        """Fill the missing cells of rows from their observed ones, labels unused.

        Observed cells are returned as they are, with variance 0; a missing one has its mean and
        variance under q(x), the row's place inferred from its own observed cells, noise included
        (several places, each with its weight, where the cells leave several open).
        A missing cell of a column that was constant in the fit takes its value, with variance 0.

        Args:
            X: rows in the data's units, NaN where a cell is missing, [N, D].

        Returns:
            Mean, variance and noise variance in the data's units, each [N, D].

        Raises:
            DataError: the rows do not fit the model (columns or infinite cells).
            UnsupportedError: the model takes no missing cells.
        """
        self._require("missing_cells", "fill missing cells")
        check_is_fitted(self)
        data = self._check_rows(X, reset=False)
        gaps = np.isnan(data)
        filled = Predictive(
            np.array(data, dtype=np.float64), np.zeros(data.shape), np.zeros(data.shape)
        )
        standard = self._standardiser
        for rows in row_blocks(np.flatnonzero(gaps.any(axis=1))):
            Y = self._to_tensor(standard.transform(data[rows]))
            mean, variance, noise = (to_numpy(part) for part in self._impute(Y))
            for part, found in (
                (filled.mean, standard.inverse_transform(mean)),
                (filled.variance, standard.inverse_transform_variance(variance)),
                (filled.noise_variance, standard.inverse_transform_variance(noise)),
            ):
                part[rows] = np.where(gaps[rows], found, part[rows])
        return filled

    def latent_metric(self, latent: ArrayLike) -> FloatArray:
        """How fast the columns change around points of the latent space.

        G(x) = Σ_d E[∂f_d/∂x ∂f_d/∂xᵀ] over the columns that vary, in units of their sd: a small
        step δ changes them by √(δᵀ G δ) in root mean square; √det G is the magnification factor.

        Args:
            latent: points, [n, Q].

        Returns:
            The expected metric, [n, Q, Q].

        Raises:
            DataError: ``latent`` has another number of dimensions than the model.
            UnsupportedError: the model cannot decode.
        """
        self._require("decoding", "turn latent points back into rows, so its map has no metric")
        points = self._check_latent(latent)
        with torch.no_grad():
            parts = [to_numpy(self._metric(self._to_tensor(block))) for block in row_blocks(points)]
        return np.concatenate(parts)

    def latent_path(
        self,
        start: ArrayLike,
        end: ArrayLike,
        *,
        along: Literal["data", "line"] = "data",
        points: int = 33,
    ) -> LatentPath:
        """A curve from one latent point to another.

        Args:
            start: [Q].
            end: [Q].
            along: "data" for the shortest way under ``latent_metric`` that keeps to ground as well
                known as where the rows lie; "line" for the straight line.
            points: how many to return, at least 2.

        Returns:
            Points along it, [points, Q], and the length from the start to each of them.

        Raises:
            ConfigError: too few points, or no such kind of way.
            DataError: a point has another number of dimensions than the model.
            UnsupportedError: the model cannot decode.
        """
        self._require("decoding", "turn latent points back into rows, so its map has no metric")
        if points < 2:
            raise ConfigError(f"points={points!r} cannot be used: a way has at least 2, its ends.")
        if along not in ("data", "line"):
            raise ConfigError(f'along={along!r} cannot be used: choose "data" or "line".')
        a, b = (self._to_tensor(self._check_latent([np.ravel(x)])[0]) for x in (start, end))

        def metric(X: Tensor) -> Tensor:
            return self._metric(X).to(X)  # that of a model that decodes in double precision too

        if along == "line":
            return straight_path(metric, a, b, points)
        rows = self._to_tensor(self.embedding_.mean)
        return shortest_path(
            metric,
            a,
            b,
            rows,
            points=points,
            uncertainty=lambda X: self._prior_variance_share(X).to(X),
        )

    def inverse_transform(self, X: ArrayLike) -> FloatArray:
        """Mean of ``decode`` at latent points X [N, Q], in the data's units, [N, D]."""
        return self.decode(X).mean

    def decode_labels(self, latent: ArrayLike) -> LabelPredictive | list[LabelPredictive]:
        """Class probabilities at points of the latent space, [N, C].

        Args:
            latent: points, [N, Q].

        Returns:
            The probabilities; a list of them, one a label column, where the fit took several.

        Raises:
            UnsupportedError: the model knows no labels.
        """
        self._require_labels()
        points = self._check_latent(latent)
        found = []
        for column in range(len(self._labels)):
            parts = [
                self._decode_labels(self._to_tensor(block), column) for block in row_blocks(points)
            ]
            three = (np.concatenate([to_numpy(part[i]) for part in parts]) for i in range(3))
            found.append(LabelPredictive(*three))
        return found[0] if len(found) == 1 else found

    def sample(
        self,
        n: int,
        *,
        label: Any = None,
        rows: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> FloatArray:
        """Draw rows from the fitted model, noise included.

        Args:
            n: how many.
            label: draw from this class only (label-aware models); where the fit took several label
                columns, a class for some of them: ``{"species": "Adelie", "sex": "female"}``.
            rows: draw from where these rows of the fit lie, given by their positions (for models
                without sampling too, as long as they decode).
            random_state: seed; None draws anew each time.

        Returns:
            Rows in the data's units, [n, D].

        Raises:
            ConfigError: ``n`` is not positive, ``label`` is no class of the model, ``rows`` names
                no row of the fit, or both are given.
            UnsupportedError: the model cannot draw rows, or knows no labels.
        """
        self._require("sampling" if rows is None else "decoding", "draw new rows")
        check_is_fitted(self)
        if n < 1:
            raise ConfigError(f"n={n!r} cannot be used: expected at least 1 row to draw.")
        rng = np.random.default_rng(random_state)
        if rows is None:
            latent = self._sample_latent(n, label, rng)
        elif label is None:
            latent = self.embedding_.draw(n, rng, self._check_positions(rows))
        else:
            raise ConfigError(
                "label and rows cannot both be given: they are two places to draw from."
            )
        return self._sample_rows(latent, rng)

    @available_if(_has_density)  # type: ignore[untyped-decorator]
    def score_samples(self, X: ArrayLike) -> FloatArray:
        """Log predictive density of each row, labels unused, nats, in the data's units, [N].

        The density is that of the row's observed cells. Constant columns, which carry none, are
        left out.
        """
        check_is_fitted(self)
        data = self._check_rows(X, reset=False)
        density = np.empty(len(data))
        for rows, place in zip(row_blocks(data), row_blocks(density), strict=True):
            Y = self._standardiser.transform(rows)
            observed = ~np.isnan(Y)
            found = to_numpy(self._log_density(self._to_tensor(Y)))
            found[~observed.any(axis=1)] = 0.0  # of no cell at all it is 1
            place[:] = found - observed @ self._standardiser.log_scale
        return density

    @available_if(_has_density)  # type: ignore[untyped-decorator]
    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Mean of ``score_samples(X)`` over the rows."""
        del y
        return float(self.score_samples(X).mean())

    # ---- saving --------------------------------------------------------------------------------

    def _stored(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, meta = super()._stored()
        arrays |= {
            "embedding.mean": self.embedding_.mean,
            "embedding.variance": self.embedding_.variance,
            **{f"inducing.{path}": value for path, value in self.inducing_inputs_.items()},
        }
        return arrays, {**meta, "classes": self._known_labels()}

    def _take_stored(self, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        if meta["classes"] is not None:
            stored = meta["classes"]
            columns = stored if isinstance(stored, list) else [stored]
            self._know(tuple(ClassLabels.from_json(column) for column in columns))
        self.embedding_ = Posterior(arrays["embedding.mean"], arrays["embedding.variance"])
        self.inducing_inputs_ = self._by_path(persistence.with_prefix(arrays, "inducing."))
        super()._take_stored(arrays, meta)

    # ---- hooks of a model ----------------------------------------------------------------------

    @abstractmethod
    def _fit(self, problem: FitProblem) -> FitOutcome:
        """Fit; set ``embedding_``, ``relevance_``, ``inducing_inputs_`` and own state."""

    @abstractmethod
    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of q(x), [N, Q] each, for standardised rows [N, D]."""

    @abstractmethod
    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance with noise, noise variance, [N, D] each, standardised."""

    def _metric(self, X: Tensor) -> Tensor:
        """Σ_d E[∂f_d ∂f_dᵀ] of the standardised columns at X [N, Q], [N, Q, Q]; differentiable."""
        raise NotImplementedError

    def _prior_variance_share(self, X: Tensor) -> Tensor:
        """How little the model knows of points [N, Q], 0 to 1, [N]; differentiable."""
        return X.new_zeros(len(X))

    def _decode_labels(self, X: Tensor, column: int) -> tuple[Tensor, Tensor, Tensor]:
        """Normalised and unnormalised probability and its variance, [N, C] each.

        Args:
            X: latent points, [N, Q].
            column: which of the label columns.
        """
        raise NotImplementedError

    def _log_density(self, Y: Tensor) -> Tensor:
        """Log predictive density of standardised rows, [N]."""
        del Y
        raise UnsupportedError(f"{type(self).__name__} has no predictive density to score with.")

    def _impute(self, Y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance with noise and noise variance of every cell of standardised rows, [N, D].

        Each row is placed by those of its cells that are not NaN.
        """
        raise NotImplementedError

    def _sample_rows(self, latent: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Rows in the data's units at latent points [n, Q]: normal ones by default, [n, D]."""
        predicted = self.decode(latent)
        noise = rng.standard_normal(predicted.mean.shape)
        return np.asarray(predicted.mean + np.sqrt(predicted.variance) * noise)

    def _sample_latent(self, n: int, label: Any, rng: np.random.Generator) -> FloatArray:
        """Latent points to decode into a sample, [n, Q]: by default from the prior N(0, I)."""
        if label is not None:
            self._require_labels()
        return rng.standard_normal((n, self.embedding_.mean.shape[1]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.capabilities.missing_cells
        tags.input_tags.positive_only = self.capabilities.cells != "any"
        tags.target_tags.multi_output = self.capabilities.several_labels
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.mean.shape[1])
