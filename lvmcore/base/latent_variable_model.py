"""LatentVariableModel: base class of the models of a map.

The base class implements the public interface: it standardises, excludes constant columns, encodes
labels, converts between NumPy in the data's units and torch in standardised units, saves and loads;
its input is checked in ``validation``. A model implements the mathematics in the hooks ``_fit``,
``_posterior``, ``_decode``, ``_get_state`` and ``_set_state``.
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
from lvmcore.base.settings import Components, Device, Dtype, Seed
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
from lvmcore.parameters import check_settings
from lvmcore.preprocessing.class_labels import labels_from_json, labels_to_json
from lvmcore.results import Callback, LabelPredictive, Posterior, Predictive
from lvmcore.training.checkpoint import Checkpoint
from lvmcore.training.outcome import FitOutcome

__all__ = ["Capabilities", "FitProblem", "LatentVariableModel"]


@estimator_dataclass
class LatentVariableModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator):
    """Base class of every model of a map: see the module's docstring and lvmcore/README.md."""

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
                ``lvmcore.data.memory_mapped``) stays on disk if ``capabilities.streams`` is True.
            y: one label per row, [N], or several label columns, [N, L], such as a DataFrame with
                their names; None or NaN where a label is missing. Ignored by models without labels.
            callback: called with each FitStep; returning True stops the fit, and the model stays
                usable with the parameters fitted so far.

        Returns:
            The fitted model.

        Raises:
            ConfigError: a parameter is not allowed, or does not suit the size of the table.
            DataError: the data or labels cannot be used; the message names row and column.
            NumericalError: the computation failed.
            UnsupportedError: several label columns for a model of a single one.
        """
        check_settings(type(self), self.get_params(deep=False))
        return self._fit_from(X, y, callback=callback)

    def _fit_from(
        self,
        X: ArrayLike,
        y: Any = None,
        *,
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Self:
        """``fit`` of a run, whose settings are checked: goes on from a checkpoint and writes it."""
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
        """Infer q(x) for rows, without labels; the result for a row never depends on other rows.

        Args:
            X: rows in the data's units, [N, D].

        Returns:
            Mean and variance, each [N, Q].

        Raises:
            DataError: the rows do not fit the model (columns, infinite or missing cells).
            UnsupportedError: the model cannot infer the positions of new rows.
        """
        require(self, "new_rows", "place new rows on its map")
        check_is_fitted(self)
        data = self._check_rows(X, reset=False)
        return self._blocks.posterior(data, self._posterior, self._n_features_out)

    def transform(self, X: ArrayLike) -> FloatArray:
        """Latent means of rows, without labels, [N, Q]."""
        return self.posterior(X).mean

    def decode(self, latent: ArrayLike) -> Predictive:
        """Predict the columns at latent points.

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
        """Impute the missing cells of rows from their observed ones, without labels.

        Observed cells are returned unchanged, with variance 0. A missing cell has its mean and
        variance, noise included, under q(x) inferred from the row's observed cells (a mixture where
        the posterior has several modes). A missing cell of a column that was constant in the fit
        has that value, with variance 0.

        Args:
            X: rows in the data's units, NaN where a cell is missing, [N, D].

        Returns:
            Mean, variance and noise variance in the data's units, each [N, D].

        Raises:
            DataError: the rows do not fit the model (columns or infinite cells).
            UnsupportedError: the model does not support missing cells.
        """
        require(self, "missing_cells", "fill missing cells")
        check_is_fitted(self)
        data = self._check_rows(X, reset=False)
        return self._blocks.impute(data, self._impute)

    def latent_metric(self, latent: ArrayLike) -> FloatArray:
        """Expected metric of the map from the latent space to the columns.

        G(x) = Σ_d E[∂f_d/∂x ∂f_d/∂xᵀ] over the columns that vary, in units of their sd: the root
        mean square change over a small step δ is √(δᵀ G δ); √det G is the magnification factor.

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
            along: "data" for the shortest path under ``latent_metric``, restricted to regions with
                a posterior variance as small as at the rows; "line" for the straight line.
            points: number of points, at least 2.

        Returns:
            Points of the curve, [points, Q], and the length from the start to each of them.

        Raises:
            ConfigError: too few points, or an unknown kind of path.
            DataError: a point has another number of dimensions than the model.
            UnsupportedError: the model cannot decode.
        """
        require(self, "decoding", "turn latent points back into rows, so its map has no metric")
        a, b = (
            self._to_tensor(check_latent([np.ravel(x)], self._n_features_out)[0])
            for x in (start, end)
        )
        return latent_path(
            lambda X: self._metric(X).to(X),  # for models that decode in double precision
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
        """Class probabilities at latent points, [N, C].

        Args:
            latent: points, [N, Q].

        Returns:
            The probabilities; a list with one entry per label column, if the fit had several.

        Raises:
            UnsupportedError: the model was fitted without labels.
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
        """Sample rows from the fitted model, noise included.

        Args:
            n: number of rows.
            label: sample this class only (label-aware models); for several label columns, classes
                by column name: ``{"species": "Adelie", "sex": "female"}``.
            rows: sample at the latent positions of these rows of the fit, given by index (also for
                models that decode but do not sample).
            random_state: seed; None for a random one.

        Returns:
            Rows in the data's units, [n, D].

        Raises:
            ConfigError: ``n`` is not positive, ``label`` is not a class of the model, ``rows`` has
                an index outside the fit, or both are given.
            UnsupportedError: the model cannot sample rows, or was fitted without labels.
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
        """Log predictive density of each row, without labels, nats, in the data's units, [N].

        The density is that of the row's observed cells, without constant columns, which have none.
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
        return check_components(self.settings_["n_components"], shape, usable, self._note)

    @abstractmethod
    def _fit(self, problem: FitProblem) -> FitOutcome:
        """Fit; set ``embedding_``, ``relevance_``, ``inducing_inputs_`` and the model's state."""

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
        """Ratio of posterior to prior variance at points [N, Q], 0 to 1, [N]; differentiable."""
        return X.new_zeros(len(X))

    def _decode_labels(self, X: Tensor, column: int) -> tuple[Tensor, Tensor, Tensor]:
        """Normalised and unnormalised probability, and the variance of the latter, [N, C] each.

        Args:
            X: latent points, [N, Q].
            column: position of the label column.
        """
        raise NotImplementedError

    def _log_density(self, Y: Tensor) -> Tensor:
        """Log predictive density of standardised rows, [N]."""
        del Y
        raise UnsupportedError(f"{type(self).__name__} has no predictive density to score with.")

    def _impute(self, Y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance with noise and noise variance of every cell of standardised rows, [N, D].

        The position of each row is inferred from its cells that are not NaN.
        """
        raise NotImplementedError

    def _sample_rows(self, latent: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Rows sampled at latent points [n, Q], data units, [n, D]; Gaussian by default."""
        predicted = self.decode(latent)
        noise = rng.standard_normal(predicted.mean.shape)
        return np.asarray(predicted.mean + np.sqrt(predicted.variance) * noise)

    def _sample_latent(self, n: int, label: Any, rng: np.random.Generator) -> FloatArray:
        """Latent points of a sample, [n, Q]; by default from the prior N(0, I)."""
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
