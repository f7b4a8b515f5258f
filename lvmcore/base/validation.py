"""What the public door checks: settings of a fit against the table, rows, labels, latent points.

``CheckedEstimator`` is what ``LatentVariableModel`` stands on: it turns what a caller hands over
into checked arrays and tensors, and says in plain words what cannot be used.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor

from lvmcore.errors import ConfigError, DataError, UnsupportedError
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.row_blocks import find_cells, row_blocks
from lvmcore.parameters import is_array
from lvmcore.preprocessing.cell_types import Cells, check_counts, check_positive
from lvmcore.preprocessing.class_labels import ClassLabels, encode_columns, label_column_names
from lvmcore.preprocessing.memory_mapped_rows import (
    MemoryMappedRows,
    check_file_length,
    column_names,
)
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.preprocessing.table_rows import InMemoryRows, TableRows
from lvmcore.results import Posterior

# Raised where what a fit keeps in its checkpoint changes: one of an earlier layout is not read.
STATE = 2
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
        cells: what the cells have to be: any number, nothing below 0, or counts.
        chains: the fit draws from the posterior by Markov chains: it has a density, and no bound
            that rises.
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
    cells: Cells = "any"
    chains: bool = False

    @property
    def density(self) -> bool:
        """Whether rows have a predictive density, so that ``score_samples`` is there."""
        return self.bound or self.chains


class CheckedEstimator(BaseEstimator):
    """An estimator's checks of what it is handed, and its way to torch and back."""

    key: ClassVar[str]
    capabilities: ClassVar[Capabilities]

    n_components: int | None
    device: str
    dtype: str
    random_state: int | None

    embedding_: Posterior
    notes_: tuple[str, ...]
    label_names_: tuple[str, ...]
    classes_: Any  # the classes, [C]; a list of them, one a label column, where there are several

    _labels: tuple[ClassLabels, ...]
    # What the columns measure, and what brings them to the model's scale: by default the same.
    _measured: Standardiser
    _standardiser: Standardiser

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
        check_file_length(X)
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
        self._check_values(np.asarray(data))
        return np.asarray(data)

    def _check_map(self, X: np.memmap[Any, Any], *, reset: bool, fewest: int) -> NDArray[Any]:
        data = check_array(
            X, ensure_all_finite=False, ensure_min_samples=fewest, estimator=self, input_name="X"
        )
        names = column_names(X)
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

    def _check_values(self, data: NDArray[Any]) -> None:
        """Refuse values [N, D] that the model has no use for: by default those it does not take."""
        who, names = type(self).__name__, self._column_names()
        if self.capabilities.cells == "positive":
            check_positive(data, names, who)
        elif self.capabilities.cells == "counts":
            check_counts(data, names, who, "choose a model of continuous columns")

    def _scaling(self, measured: Standardiser) -> Standardiser:
        """What brings the columns to the model's scale: by default mean 0 and sd 1 for each."""
        return measured

    def _measure(self, measured: Standardiser) -> None:
        """Take over what the columns of the fit measure."""
        self._measured, self._standardiser = measured, self._scaling(measured)

    def _table(self, data: NDArray[Any], *, stays: bool) -> TableRows:
        """Rows as a fit takes them: held in memory, or read on demand if they may stay on disk."""
        complete = self._note_gaps(data)
        if stays and self.capabilities.streams:
            like = self._to_tensor(np.zeros((0, 1)))
            return MemoryMappedRows(data, self._standardiser, like, complete=complete)
        Y = self._standardiser.transform(data)
        if complete:
            return InMemoryRows(self._to_tensor(Y))
        observed = ~np.isnan(Y)
        mask = torch.as_tensor(observed).to(self._torch_device())
        return InMemoryRows(self._to_tensor(np.nan_to_num(Y, nan=0.0)), mask)

    def _note_gaps(self, data: NDArray[Any]) -> bool:
        """Whether no cell is missing in the columns that vary, with notes on those that are."""
        keep = ~self._standardiser.constant
        width = int(keep.sum())
        counts = np.concatenate(
            [(~np.isnan(rows[:, keep])).sum(axis=1) for rows in row_blocks(data)]
        )
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
        to_labels = label_column_names("labels", getattr(self, "_labels", ()))
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

    def _check_positions(self, rows: ArrayLike) -> NDArray[np.intp]:
        """Positions of rows of the fit."""
        positions, n = np.ravel(np.asarray(rows)), len(self.embedding_.mean)
        whole = positions.dtype.kind in "iu" and len(positions) > 0
        if not whole or positions.min() < 0 or positions.max() >= n:
            raise ConfigError(
                f"rows={rows!r} cannot be used: expected positions of rows of the fit, whole "
                f"numbers from 0 to {n - 1}, at least one."
            )
        return positions.astype(np.intp)

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

    def _fingerprint(
        self,
        data: NDArray[Any],
        labels: tuple[ClassLabels, ...],
        target: NDArray[Any] | None = None,
    ) -> str:
        """Of everything that decides the course of a fit but for how many steps it has."""
        settings = self.get_params(deep=False)
        settings.pop("max_iter", None)
        facts = [self.key, package_version(), STATE, settings, data.shape]
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=_told).encode())
        for rows in row_blocks(data):
            digest.update(np.ascontiguousarray(rows, dtype=np.float64).tobytes())
        for column in labels:
            digest.update(np.asarray(column.codes).tobytes())
            if len(labels) > 1:
                digest.update(column.name.encode())
        if target is not None:
            digest.update(np.ascontiguousarray(target).tobytes())
        return digest.hexdigest()

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


def _told(value: Any) -> Any:
    """What a setting is, for JSON: an array with all its numbers."""
    return np.asarray(value).tolist() if is_array(value) else str(value)


def package_version() -> str:
    """The installed version of latentboard, or "0" from a source tree that is not installed."""
    try:
        return version("latentboard")
    except PackageNotFoundError:
        return "0"
