"""LatentVariableModel: the scikit-learn estimator that every model with a map is.

The base class owns the public interface: it standardises, sets constant columns aside, encodes
labels, converts between NumPy in the data's units and torch in standardised units, saves and loads;
its input is checked in ``validation``. A model supplies the mathematics through the hooks named
``_fit``, ``_posterior``, ``_decode``, ``_get_state`` and ``_set_state``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lvmcore.base.block_predictions import BlockPredictions
from lvmcore.base.capabilities import Capabilities
from lvmcore.base.estimator import Estimator
from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.fit_problem import FitProblem, prepare_fit
from lvmcore.base.validation import (
    check_components,
    check_latent,
    check_positions,
    check_sample,
    has_density,
    require,
    require_labels,
)
from lvmcore.errors import UnsupportedError
from lvmcore.geometry import LatentPath, latent_path
from lvmcore.numerics.array_types import FloatArray
from lvmcore.parameters import Components, Device, Dtype, Seed
from lvmcore.preprocessing.class_labels import labels_from_json, labels_to_json
from lvmcore.results import Callback, LabelPredictive, Posterior, Predictive
from lvmcore.training.checkpoint import Checkpoint
from lvmcore.training.loop import FitOutcome

__all__ = ["Capabilities", "FitProblem", "LatentVariableModel"]


@estimator_dataclass
class LatentVariableModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """Base of every model: see the module's docstring and lvmcore/README.md."""

    task: ClassVar[Literal["map"]] = "map"

    n_components: Components = None
    device: Device = "auto"
    dtype: Dtype = "float64"
    random_state: Seed = 0

    embedding_: Posterior = fitted()
    inducing_inputs_: dict[str, FloatArray] = fitted()

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
        problem = prepare_fit(self, X, y, self._decide_components, callback, checkpoint)
        return self._end(self._fit(problem), checkpoint)

    def fit_transform(
        self, X: ArrayLike, y: Any = None, *, callback: Callback | None = None
    ) -> FloatArray:
        """``fit(X, y).transform(X)``: latent means inferred without the labels, [N, Q]."""
        return self.fit(X, y, callback=callback).transform(X)

    # ---- inference and decoding ----------------------------------------------------------------

    @property
    def _blocks(self) -> BlockPredictions:
        """Predictions in the data's units, block by block."""
        return BlockPredictions(self._standardiser, self._to_tensor)

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
        require(self, "new_rows", "place new rows on its map")
        check_is_fitted(self)
        data = self._check_rows(X, reset=False)
        return self._blocks.posterior(data, self._posterior, self._n_features_out)

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
        require(self, "decoding", "turn latent points back into rows")
        points = check_latent(latent, self._n_features_out)
        return self._blocks.decode(points, self._decode)

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
        require(self, "missing_cells", "fill missing cells")
        check_is_fitted(self)
        data = self._check_rows(X, reset=False)
        return self._blocks.impute(data, self._impute)

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
        require(self, "decoding", "turn latent points back into rows, so its map has no metric")
        points = check_latent(latent, self._n_features_out)
        with torch.no_grad():
            (found,) = self._blocks.at_points(points, lambda X: (self._metric(X),))
        return found

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
        require(self, "decoding", "turn latent points back into rows, so its map has no metric")
        a, b = (
            self._to_tensor(check_latent([np.ravel(x)], self._n_features_out)[0])
            for x in (start, end)
        )
        return latent_path(
            lambda X: self._metric(X).to(X),  # of a model that decodes in double precision too
            (a, b),
            self._to_tensor(self.embedding_.mean),
            along=along,
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
        require_labels(self)
        points = check_latent(latent, self._n_features_out)
        columns = [partial(self._decode_labels, column=k) for k in range(len(self._labels))]
        found = [LabelPredictive(*self._blocks.at_points(points, one)) for one in columns]
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
        require(self, "sampling" if rows is None else "decoding", "draw new rows")
        check_is_fitted(self)
        check_sample(n, label, rows)
        rng = np.random.default_rng(random_state)
        if rows is None:
            latent = self._sample_latent(n, label, rng)
        else:
            latent = self.embedding_.draw(n, rng, check_positions(rows, len(self.embedding_.mean)))
        return self._sample_rows(latent, rng)

    @available_if(has_density)  # type: ignore[untyped-decorator]
    def score_samples(self, X: ArrayLike) -> FloatArray:
        """Log predictive density of each row, labels unused, nats, in the data's units, [N].

        The density is that of the row's observed cells. Constant columns, which carry none, are
        left out.
        """
        check_is_fitted(self)
        data = self._check_rows(X, reset=False)
        return self._blocks.log_density(data, self._log_density)

    @available_if(has_density)  # type: ignore[untyped-decorator]
    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Mean of ``score_samples(X)`` over the rows."""
        del y
        return float(self.score_samples(X).mean())

    # ---- saving --------------------------------------------------------------------------------

    def _task_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays = {
            "embedding.mean": self.embedding_.mean,
            "embedding.variance": self.embedding_.variance,
            **{f"inducing.{path}": value for path, value in self.inducing_inputs_.items()},
        }
        return arrays, {"classes": labels_to_json(self._labels)}

    def _set_task_state(self, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        labels = labels_from_json(meta["classes"])
        if labels:
            self._set_labels(labels)
        self.embedding_ = Posterior(arrays["embedding.mean"], arrays["embedding.variance"])
        self.inducing_inputs_ = self._by_path(arrays, "inducing.")

    # ---- hooks of a model ----------------------------------------------------------------------

    def _decide_components(self, shape: tuple[int, ...]) -> int:
        """Q for a table of this shape, [N, D]."""
        usable = int((~self._standardiser.constant).sum())
        return check_components(self.n_components, shape, usable, self._note)

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
            require_labels(self)
        return rng.standard_normal((n, self.embedding_.mean.shape[1]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.capabilities.missing_cells
        tags.input_tags.positive_only = self.capabilities.cells != "any"
        tags.target_tags.multi_output = self.capabilities.several_labels
        return tags

    @property
    def _n_features_out(self) -> int:
        """Q of the fitted model."""
        check_is_fitted(self)
        return int(self.embedding_.mean.shape[1])
