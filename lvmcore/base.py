"""LatentVariableModel: the scikit-learn estimator that every model is.

The base class owns the public door: it checks parameters and data, standardises, sets constant
columns aside, encodes labels, converts between NumPy in the data's units and torch in standardised
units, saves and loads. A model supplies the mathematics through the hooks named ``_fit``,
``_posterior``, ``_decode``, ``_get_state`` and ``_set_state``.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor

from lvmcore import persistence
from lvmcore.blocks import blocks, find_cells
from lvmcore.checkpoint import Checkpoint
from lvmcore.errors import ConfigError, DataError, UnsupportedError
from lvmcore.labels import ClassLabels, encode_columns, names_of_columns
from lvmcore.parameters import Advised, Parameter, check_settings, is_array, parameters_of
from lvmcore.results import Callback, FitStep, LabelPredictive, Posterior, Predictive
from lvmcore.rows import HeldRows, TableRows
from lvmcore.standardise import Standardiser
from lvmcore.streamed import StreamedRows, check_file, names_in
from lvmcore.training import Outcome

__all__ = ["Capabilities", "LatentVariableModel", "package_version"]

FloatArray = NDArray[np.float64]

# Share of missing cells from which on a fit says how little it went by.
MOST_MISSING = 0.8


@dataclass(frozen=True)
class Capabilities:
    """What a model supports; asking for the rest raises UnsupportedError.

    Attributes:
        labels: whether ``fit`` uses class labels: not at all, or needs some.
        several_labels: the fit takes several label columns at once.
        missing_labels: rows without a label may take part in the fit.
        missing_cells: NaN cells may take part in the fit, and ``impute`` fills them.
        new_rows: rows that were not in the fit can be placed on the map.
        decoding: any point of the latent space can be turned back into a row.
        sampling: new rows can be drawn.
        uncertainty: latent positions carry a variance.
        bound: the fit maximises a likelihood or a bound on it, so there is a curve to watch.
        steps: the fit reports its steps while it runs, so that a callback can stop it.
        amortised: a network places rows by their columns alone, those of the fit too.
        streams: the fit reads a memory-mapped table some rows at a time and never holds all of it;
            other models load it.
    """

    labels: Literal["none", "required"] = "none"
    several_labels: bool = False
    missing_labels: bool = False
    missing_cells: bool = False
    new_rows: bool = True
    decoding: bool = True
    sampling: bool = False
    uncertainty: bool = False
    bound: bool = False
    steps: bool = True
    amortised: bool = False
    streams: bool = False


@dataclass(frozen=True)
class Problem:
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
    return bool(model.capabilities.bound)


class LatentVariableModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base of every model: see the module's docstring and lvmcore/README.md."""

    key: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    order: ClassVar[int]  # place in menus, smallest first
    capabilities: ClassVar[Capabilities]
    quick_to_load: ClassVar[bool] = True  # False: its library costs seconds to import

    n_components: int | None
    device: str
    dtype: str
    random_state: int | None

    embedding_: Posterior
    elbo_: float
    history_: tuple[FitStep, ...]
    relevance_: dict[str, FloatArray]
    inducing_inputs_: dict[str, FloatArray]
    converged_: bool
    notes_: tuple[str, ...]
    label_names_: tuple[str, ...]
    classes_: Any  # the classes, [C]; a list of them, one a label column, where there are several

    _labels: tuple[ClassLabels, ...]

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """The constructor's parameters with their metadata, in order."""
        return parameters_of(cls)

    @classmethod
    def suggest(cls, *, n_rows: int, n_columns: int, n_classes: int = 0) -> dict[str, Any]:
        """Settings that suit a table of this size, where they differ from the defaults."""
        found = cls.advise(n_rows=n_rows, n_columns=n_columns, n_classes=n_classes)
        return {name: advised.value for name, advised in found.items()}

    @classmethod
    def advise(cls, *, n_rows: int, n_columns: int, n_classes: int = 0) -> dict[str, Advised]:
        """What ``suggest`` gives, each setting with the reason for it."""
        del n_rows, n_columns, n_classes
        return {}

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
        self.notes_ = ()
        self._standardiser = Standardiser.fit(data, self._column_names())
        if self._standardiser.constant.any():
            self._note(self._standardiser.describe_constant())
        if labels:
            self._know(labels)
        generator = torch.Generator().manual_seed(self._seed())
        if checkpoint is not None:
            steps = getattr(self, "max_iter", None)
            checkpoint.attach(self._fingerprint(data, labels), steps, generator)
        problem = Problem(
            table=self._table(data, stays=isinstance(X, np.memmap)),
            labels=labels,
            n_components=self._decide_components(data.shape),
            generator=generator,
            callback=callback,
            checkpoint=checkpoint,
        )
        outcome = self._fit(problem)
        for note in () if checkpoint is None else checkpoint.notes:
            self._note(note)
        self.elbo_ = outcome.objective
        self.history_ = outcome.history
        self.n_iter_ = len(outcome.history)
        self.converged_ = outcome.converged
        return self

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
        for rows, *places in zip(blocks(data), *map(blocks, found), strict=True):
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
        parts = [self._decode(self._to_tensor(block)) for block in blocks(points)]
        mean, variance, noise = (
            np.concatenate([to_numpy(part[i]) for part in parts]) for i in range(3)
        )
        return Predictive(
            mean=self._standardiser.inverse(mean),
            variance=self._standardiser.inverse_variance(variance),
            noise_variance=self._standardiser.inverse_variance(noise),
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
        for rows in blocks(np.flatnonzero(gaps.any(axis=1))):
            Y = self._to_tensor(standard.transform(data[rows]))
            mean, variance, noise = (to_numpy(part) for part in self._impute(Y))
            for part, found in (
                (filled.mean, standard.inverse(mean)),
                (filled.variance, standard.inverse_variance(variance)),
                (filled.noise_variance, standard.inverse_variance(noise)),
            ):
                part[rows] = np.where(gaps[rows], found, part[rows])
        return filled

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
                self._decode_labels(self._to_tensor(block), column) for block in blocks(points)
            ]
            three = (np.concatenate([to_numpy(part[i]) for part in parts]) for i in range(3))
            found.append(LabelPredictive(*three))
        return found[0] if len(found) == 1 else found

    def sample(self, n: int, *, label: Any = None, random_state: int | None = None) -> FloatArray:
        """Draw rows from the fitted model, noise included.

        Args:
            n: how many.
            label: draw from this class only (label-aware models); where the fit took several label
                columns, a class for some of them: ``{"species": "Adelie", "sex": "female"}``.
            random_state: seed; None draws anew each time.

        Returns:
            Rows in the data's units, [n, D].

        Raises:
            ConfigError: ``n`` is not positive, or ``label`` is no class of the model.
            UnsupportedError: the model cannot draw rows, or knows no labels.
        """
        self._require("sampling", "draw new rows")
        check_is_fitted(self)
        if n < 1:
            raise ConfigError(f"n={n!r} cannot be used: expected at least 1 row to draw.")
        rng = np.random.default_rng(random_state)
        predicted = self.decode(self._sample_latent(n, label, rng))
        return predicted.mean + np.sqrt(predicted.variance) * rng.standard_normal(
            predicted.mean.shape
        )

    @available_if(_has_density)  # type: ignore[untyped-decorator]
    def score_samples(self, X: ArrayLike) -> FloatArray:
        """Log predictive density of each row, labels unused, nats, in the data's units, [N].

        The density is that of the row's observed cells. Constant columns, which carry none, are
        left out.
        """
        check_is_fitted(self)
        data = self._check_rows(X, reset=False)
        density = np.empty(len(data))
        for rows, place in zip(blocks(data), blocks(density), strict=True):
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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one safetensors file, atomically."""
        check_is_fitted(self)
        arrays, facts = self._get_state()
        settings = self.get_params(deep=False)
        given = {name: np.asarray(value) for name, value in settings.items() if is_array(value)}
        arrays = {
            **arrays,
            **self._standardiser.arrays(),
            **persistence.history_arrays(self.history_),
            "embedding.mean": self.embedding_.mean,
            "embedding.variance": self.embedding_.variance,
            **{f"relevance.{path_}": value for path_, value in self.relevance_.items()},
            **{f"inducing.{path_}": value for path_, value in self.inducing_inputs_.items()},
            **{f"setting.{name}": value for name, value in given.items()},
        }
        meta = {
            "model": self.key,
            "version": package_version(),
            "parameters": {name: settings[name] for name in settings if name not in given},
            "facts": facts,
            "elbo": self.elbo_,
            "converged": self.converged_,
            "notes": list(self.notes_),
            "n_features_in": self.n_features_in_,
            "feature_names_in": (
                [str(name) for name in self.feature_names_in_]
                if hasattr(self, "feature_names_in_")
                else None
            ),
            "classes": self._known_labels(),
        }
        persistence.write(path, arrays, meta)

    def _restore(self, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> Self:
        """Take over the fitted state that ``save`` wrote."""
        self.elbo_ = float(meta["elbo"])
        self.converged_ = bool(meta["converged"])
        self.notes_ = tuple(meta["notes"])
        self.history_ = persistence.history_from(arrays)
        self.n_iter_ = len(self.history_)
        self.n_features_in_ = int(meta["n_features_in"])
        if meta["feature_names_in"] is not None:
            self.feature_names_in_ = np.array(meta["feature_names_in"], dtype=object)
        if meta["classes"] is not None:
            stored = meta["classes"]
            columns = stored if isinstance(stored, list) else [stored]
            self._know(tuple(ClassLabels.from_json(column) for column in columns))
        self._standardiser = Standardiser.from_arrays(arrays, self._column_names())
        self.embedding_ = Posterior(arrays["embedding.mean"], arrays["embedding.variance"])
        self.relevance_ = self._by_path(persistence.with_prefix(arrays, "relevance."))
        self.inducing_inputs_ = self._by_path(persistence.with_prefix(arrays, "inducing."))
        self._set_state(arrays, meta["facts"])
        return self

    # ---- hooks of a model ----------------------------------------------------------------------

    @abstractmethod
    def _fit(self, problem: Problem) -> Outcome:
        """Fit; set ``embedding_``, ``relevance_``, ``inducing_inputs_`` and own state."""

    @abstractmethod
    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of q(x), [N, Q] each, for standardised rows [N, D]."""

    @abstractmethod
    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance with noise, noise variance, [N, D] each, standardised."""

    @abstractmethod
    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Own fitted state: arrays, and facts that JSON can hold."""

    @abstractmethod
    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        """Take over what ``_get_state`` gave."""

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

    def _sample_latent(self, n: int, label: Any, rng: np.random.Generator) -> FloatArray:
        """Latent points to decode into a sample, [n, Q]: by default from the prior N(0, I)."""
        if label is not None:
            self._require_labels()
        return rng.standard_normal((n, self.embedding_.mean.shape[1]))

    # ---- checks --------------------------------------------------------------------------------

    def _require(self, capability: str, doing: str) -> None:
        if not getattr(self.capabilities, capability):
            raise UnsupportedError(f"{type(self).__name__} cannot {doing}.")

    def _require_labels(self) -> None:
        if self.capabilities.labels == "none":
            raise UnsupportedError(f"{type(self).__name__} knows no labels. LDGD learns from them.")
        check_is_fitted(self)

    def _check_rows(self, X: ArrayLike, *, reset: bool) -> NDArray[Any]:
        """Rows in the data's units, float64; those of a memory map as they lie on disk."""
        fewest = 2 if reset else 1
        check_file(X)
        if getattr(getattr(X, "dtype", None), "kind", None) in {"m", "M"}:
            raise DataError(
                "X holds dates or times, and a model learns from numbers: turn them into numbers "
                "first, such as days since the first."
            )
        try:
            if isinstance(X, np.memmap):
                data = self._check_map(X, reset=reset, fewest=fewest)
            else:
                data = validate_data(
                    self,
                    X,
                    reset=reset,
                    dtype=np.float64,
                    ensure_all_finite=False,
                    ensure_min_samples=fewest,
                )
        except ValueError as error:
            raise DataError(str(error)) from error
        self._check_cells(data)
        return np.asarray(data)

    def _check_map(self, X: np.memmap[Any, Any], *, reset: bool, fewest: int) -> NDArray[Any]:
        data = check_array(
            X, ensure_all_finite=False, ensure_min_samples=fewest, estimator=self, input_name="X"
        )
        names = names_in(X)
        header = data if names is None else pd.DataFrame(columns=list(names))
        validate_data(self, header, reset=reset, skip_check_array=True)
        return np.asarray(data)

    def _check_cells(self, data: NDArray[Any]) -> None:
        infinite, missing = find_cells(data, np.isinf, np.isnan)
        for found, what in (
            (infinite, "an infinite value (inf)"),
            (missing, "a missing value (NaN)"),
        ):
            if not found.count or (found is missing and self.capabilities.missing_cells):
                continue
            raise DataError(
                f"X contains {what}: {found.count} of its cells, the first in row {found.row + 1}, "
                f"column {self._column_names()[found.column]}. {type(self).__name__} needs every "
                "cell: leave such rows or columns out, or fill them first."
            )

    def _table(self, data: NDArray[Any], *, stays: bool) -> TableRows:
        """Rows as a fit takes them: held in memory, or read on demand if they may stay on disk."""
        complete = self._note_gaps(data)
        if stays and self.capabilities.streams:
            like = self._to_tensor(np.zeros((0, 1)))
            return StreamedRows(data, self._standardiser, like, complete=complete)
        Y = self._standardiser.transform(data)
        if complete:
            return HeldRows(self._to_tensor(Y))
        observed = ~np.isnan(Y)
        mask = torch.as_tensor(observed).to(self._torch_device())
        return HeldRows(self._to_tensor(np.nan_to_num(Y, nan=0.0)), mask)

    def _note_gaps(self, data: NDArray[Any]) -> bool:
        """Whether no cell is missing in the columns that vary, with notes on those that are."""
        keep = ~self._standardiser.constant
        width = int(keep.sum())
        counts = np.concatenate([(~np.isnan(rows[:, keep])).sum(axis=1) for rows in blocks(data)])
        size = width * len(counts)
        gaps = size - int(counts.sum())
        if not gaps:
            return True
        incomplete = int((counts < width).sum())
        self._note(
            f"{gaps:,} of the {size:,} cells {'is' if gaps == 1 else 'are'} missing, in "
            f"{incomplete:,} of {len(counts):,} rows: the fit goes by the others."
        )
        empty = int((counts == 0).sum())
        if empty:
            rows = "1 row has no" if empty == 1 else f"{empty:,} rows have no"
            self._note(f"{rows} cell to go by: the prior, mean 0 and sd 1, is their place.")
        share = gaps / size
        if share >= MOST_MISSING:
            few = float(np.median(counts))
            self._note(
                f"{share:.0%} of the cells are missing: half of the rows have at most {few:g} "
                f"cells of {width} to go by, so take the map with care."
            )
        return False

    def _check_labels(self, y: Any, n_rows: int) -> tuple[ClassLabels, ...]:
        if self.capabilities.labels == "none":
            return ()
        labels = encode_columns(y, n_rows)
        if len(labels) > 1 and not self.capabilities.several_labels:
            raise UnsupportedError(
                f"{type(self).__name__} learns from one label column, and y has {len(labels)}: "
                "choose one of them, or LDGD or FastLDGD, which learn from several."
            )
        if (labels[0].codes < 0).any() and not self.capabilities.missing_labels:
            raise DataError(f"{type(self).__name__} needs a label for every row.")
        return labels

    def _know(self, labels: tuple[ClassLabels, ...]) -> None:
        """Take over label columns."""
        self._labels = labels
        self.label_names_ = tuple(column.name for column in labels)
        classes = [column.classes for column in labels]
        self.classes_ = classes[0] if len(classes) == 1 else classes

    def _by_path(self, found: dict[str, FloatArray]) -> dict[str, FloatArray]:
        """Arrays by path, those to labels in the order of the label columns: a file has its own."""
        to_labels = names_of_columns("labels", getattr(self, "_labels", ()))
        last = {path: found[path] for path in to_labels if path in found}
        return {path: found[path] for path in found if path not in last} | last

    def _known_labels(self) -> Any:
        """The label columns as JSON can hold them: one alone, several in a list."""
        if not hasattr(self, "_labels"):
            return None
        stored = [column.to_json() for column in self._labels]
        return stored[0] if len(stored) == 1 else stored

    def _check_latent(self, latent: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        points = np.atleast_2d(np.asarray(latent, dtype=np.float64))
        expected = self.embedding_.mean.shape[1]
        if points.ndim != 2 or points.shape[1] != expected or not np.isfinite(points).all():
            raise DataError(
                f"Latent points of shape {np.shape(latent)} cannot be decoded: expected finite "
                f"numbers of shape [n, {expected}]."
            )
        return points

    def _decide_components(self, shape: tuple[int, ...]) -> int:
        n_rows, n_columns = shape
        usable = int((~self._standardiser.constant).sum())
        if self.n_components is None:
            return max(1, min(10, usable, n_rows - 1))
        if self.n_components > n_columns or self.n_components > n_rows:
            raise ConfigError(
                f"n_components={self.n_components} is more than the table can carry: it has "
                f"{n_rows} rows and {n_columns} columns. Choose at most "
                f"{min(n_rows, n_columns)}."
            )
        if self.n_components > usable:
            self._note(
                f"n_components reduced from {self.n_components} to {usable}: the other columns "
                "are constant."
            )
        return min(self.n_components, usable)

    # ---- small helpers -------------------------------------------------------------------------

    def _column_names(self) -> list[str]:
        if hasattr(self, "feature_names_in_"):
            return [str(name) for name in self.feature_names_in_]
        return [str(i + 1) for i in range(self.n_features_in_)]

    def _note(self, text: str) -> None:
        if text not in self.notes_:
            self.notes_ = (*self.notes_, text)

    def _seed(self) -> int:
        if self.random_state is None:
            return int(np.random.SeedSequence().generate_state(1)[0])
        return int(self.random_state)

    def _fingerprint(self, data: NDArray[Any], labels: tuple[ClassLabels, ...]) -> str:
        """Of everything that decides the course of a fit but for how many steps it has."""
        settings = self.get_params(deep=False)
        settings.pop("max_iter", None)
        facts = [self.key, package_version(), settings, data.shape]
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=_told).encode())
        for rows in blocks(data):
            digest.update(np.ascontiguousarray(rows, dtype=np.float64).tobytes())
        for column in labels:
            digest.update(np.asarray(column.codes).tobytes())
            if len(labels) > 1:
                digest.update(column.name.encode())
        return digest.hexdigest()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.capabilities.missing_cells
        tags.target_tags.multi_output = self.capabilities.several_labels
        return tags

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.mean.shape[1])

    def _torch_device(self) -> torch.device:
        name = self.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        if name.startswith("cuda") and not torch.cuda.is_available():
            raise ConfigError(
                "device='cuda' cannot be used: torch sees no GPU. Choose cpu or auto."
            )
        return torch.device(name)

    def _to_tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.as_tensor(
            np.ascontiguousarray(array),
            dtype=getattr(torch, self.dtype),
            device=self._torch_device(),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "elbo_")


def to_numpy(tensor: Tensor) -> FloatArray:
    """A tensor as a float64 NumPy array."""
    return np.asarray(tensor.detach().cpu().numpy(), dtype=np.float64)


def _told(value: Any) -> Any:
    """What a setting is, for JSON: an array with all its numbers."""
    return np.asarray(value).tolist() if is_array(value) else str(value)


def package_version() -> str:
    """The installed version of latentboard, or "0" from a source tree that is not installed."""
    try:
        return version("latentboard")
    except PackageNotFoundError:
        return "0"
