"""The numeric matrix that models are fitted to, with its labels and names."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from lvmcore.data.cell_texts import CellTexts
from lvmcore.data.column_names import check_unique
from lvmcore.data.date_scales import DateScale, date_scale_texts
from lvmcore.data.row_numbers import RowNames, RowNumbers, json_chunks
from lvmcore.data.table_files import TableFiles
from lvmcore.errors import DataError
from lvmcore.preprocessing.picture_shape import (
    ImageShape,
    check_image_shape,
    pixel_names,
    propose_image_shape,
)

__all__ = ["Dataset", "labels_as_text"]


def _empty_mask() -> NDArray[np.bool_]:
    return np.zeros(0, dtype=bool)


#: Rows that the digest is computed over at a time.
_DIGEST_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Dataset:
    """A matrix of numbers with names for its rows and columns.

    Attributes:
        X: float64 [N, D] in the data's units; NaN for a missing cell, never infinite.
        feature_names: D names, all different.
        row_ids: N names of rows (strings), all different; `RowNumbers` where they are numbered.
        rows: N positions of these rows in the table, from 0.
        frame: The same rows with all columns of the table, for colours and listings.
        name: Name of the dataset.
        labels: N classes as strings, None for a missing one; or None when there is no label. Where
            there are several label columns, this is the first.
        label_name: The name of the label, or None.
        more_labels: The further label columns by name, [N] each.
        notes: What was left out or coded, and the reasons.
        image_shape: (height, width) when a row is a grey picture, (height, width, 3) when it is in
            colour; its columns are the pixels row by row, red, green and blue of a pixel side by
            side.
        log1p: Mask of the columns of X that hold log(1 + x) of the table's cells [D]; empty for
            none.
        held_out: Mask of the rows that are held out of the fit and used to score it [N]; empty
            for none.
        column_decimals: The decimal mark that was taken, "" for text, of each column of the table
            whose numbers allow two readings; further tables are read alike.
        likelihoods: Likelihoods that were chosen for columns of the table, by name; the others are
            those proposed.
        date_scales: Unit and origin of each feature that is a column of dates, by its name.
        texts: Texts of the cells of the frame, where it was read from a text file; part of no
            digest.
        files: The files of which the rows are a sample; None for a dataset that holds all rows.
        digest: sha256 over X, the labels, all names, the frame, the image shape, each mask that
            is not all False, and the further labels, chosen likelihoods, scales of dates and files
            where there are any.
    """

    X: NDArray[np.float64]
    feature_names: tuple[str, ...]
    row_ids: RowNames
    rows: NDArray[np.intp]
    frame: pd.DataFrame
    name: str = "dataset"
    labels: NDArray[np.object_] | None = None
    label_name: str | None = None
    more_labels: Mapping[str, NDArray[np.object_]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    image_shape: ImageShape | None = None
    log1p: NDArray[np.bool_] = field(default_factory=_empty_mask)
    held_out: NDArray[np.bool_] = field(default_factory=_empty_mask)
    column_decimals: Mapping[str, str] = field(default_factory=dict)
    likelihoods: Mapping[str, str] = field(default_factory=dict)
    date_scales: Mapping[str, DateScale] = field(default_factory=dict)
    texts: CellTexts | None = None
    files: TableFiles | None = None
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        n, d = _matrix_shape(self.X)
        for mask, length in (("log1p", d), ("held_out", n)):
            given = np.asarray(getattr(self, mask), dtype=bool)
            object.__setattr__(self, mask, given if given.size else np.zeros(length, dtype=bool))
        lengths = {
            "row_ids": (len(self.row_ids), n),
            "rows": (len(self.rows), n),
            "frame": (len(self.frame), n),
            "labels": (n if self.labels is None else len(self.labels), n),
            **{f"label {name!r}": (len(column), n) for name, column in self.more_labels.items()},
            "feature_names": (len(self.feature_names), d),
            "log1p": (len(self.log1p), d),
            "held_out": (len(self.held_out), n),
        }
        for what, (got, expected) in lengths.items():
            if got != expected:
                raise DataError(f"{what} has {got} entries; expected {expected}, as X has.")
        if np.isinf(self.X).any():
            row, column = (int(place[0]) for place in np.nonzero(np.isinf(self.X)))
            raise DataError(
                f"X has an infinite value in row {row + 1}, column "
                f"{self.feature_names[column]!r}. Expected finite numbers, or NaN where a value "
                "is missing."
            )
        check_unique("feature name", self.feature_names)
        check_unique("name of a feature as it is learned", self.transformed_names)
        if not isinstance(self.row_ids, RowNumbers) or not self.row_ids.distinct:
            check_unique("row id", self.row_ids.tolist())
        if self.more_labels:
            if self.labels is None or self.label_name is None:
                raise DataError("Further label columns need a first one with labels and a name.")
            check_unique("label", [self.label_name, *self.more_labels])
        if self.image_shape is not None:
            check_image_shape(self.image_shape, d)
        object.__setattr__(self, "digest", self._digest())

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def classes(self) -> tuple[str, ...]:
        """The distinct labels, sorted; empty when there is no label."""
        if self.labels is None:
            return ()
        return tuple(sorted({label for label in self.labels.tolist() if label is not None}))

    @property
    def label_columns(self) -> dict[str, NDArray[np.object_]]:
        """All label columns by name, in order; empty when there is no label."""
        if self.labels is None:
            return {}
        return {self.label_name or "label": self.labels, **self.more_labels}

    def label_classes(self, name: str) -> tuple[str, ...]:
        """The distinct labels of a label column, sorted."""
        labels = self.label_columns[name].tolist()
        return tuple(sorted({label for label in labels if label is not None}))

    @property
    def y(self) -> NDArray[np.object_] | pd.DataFrame | None:
        """The labels in the form that a model's ``fit`` takes: [N], a frame of columns, or None."""
        return pd.DataFrame(self.label_columns) if self.more_labels else self.labels

    def select_label(self, name: str) -> "Dataset":
        """The dataset with one of the label columns as its only label."""
        labels = self.label_columns[name]
        return replace(self, labels=labels, label_name=name, more_labels={})

    @property
    def transformed_names(self) -> tuple[str, ...]:
        """Feature names with their transform: "log(1 + name)" for a column of log(1 + x).

        A fitted model keeps them in ``feature_names_in_``, so its file says which columns and
        transforms it needs; see `matching_dataset`.
        """
        return tuple(
            f"log(1 + {name})" if log1p else name
            for name, log1p in zip(self.feature_names, self.log1p.tolist(), strict=True)
        )

    def original_units(self, values: ArrayLike) -> NDArray[np.float64]:
        """Invert the log(1 + x) transform: values on the scale of X, in the table's units.

        Args:
            values: [..., D] on the scale of X. The mean of a Gaussian on that scale becomes a
                median, and the ends of an interval those of an interval of the same probability.

        Returns:
            The values with exp(x) − 1 in the columns of log(1 + x), [..., D]; infinite on overflow.
        """
        own = np.array(values, dtype=np.float64)
        with np.errstate(over="ignore"):
            own[..., self.log1p] = np.expm1(own[..., self.log1p])
        return own

    @classmethod
    def from_arrays(
        cls,
        X: ArrayLike,
        labels: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        *,
        name: str = "dataset",
        label_name: str = "label",
        row_ids: Sequence[str] | None = None,
        image_shape: ImageShape | None = None,
    ) -> "Dataset":
        """Make a dataset of arrays.

        Args:
            X: Numbers [N, D]; NaN for a missing cell.
            labels: N classes; None or NaN for a missing one.
            feature_names: D names; by default x1, x2, …, or those of ``pixel_names`` for pictures.
            name: Name of the dataset.
            label_name: Name of the label.
            row_ids: N names of rows; by default "1", "2", ….
            image_shape: (height, width), or (height, width, 3) in colour, when a row is a picture.

        Raises:
            DataError: X is no matrix of finite or missing numbers, or the lengths do not fit.
        """
        try:
            matrix = np.array(X, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"X is not a matrix of numbers: {error}.") from error
        n, d = _matrix_shape(matrix)
        if feature_names is not None:
            names = tuple(feature_names)
        elif image_shape is not None:
            check_image_shape(image_shape, d)
            names = tuple(pixel_names(image_shape))
        else:
            names = tuple(f"x{column + 1}" for column in range(d))
        if len(names) != d:
            raise DataError(f"There are {len(names)} feature names for {d} columns of X.")
        classes = None
        frame = pd.DataFrame(matrix, columns=list(names))
        if labels is not None:
            classes = labels_as_text(pd.Series(np.asarray(labels).tolist(), dtype=object))
            if len(classes) != n:
                raise DataError(f"There are {len(classes)} labels for {n} rows of X.")
            key = label_name if label_name not in names else f"{label_name} (label)"
            frame = frame.assign(**{key: pd.Series(classes.tolist())})
        rows = np.arange(n)
        return cls(
            X=matrix,
            feature_names=names,
            row_ids=RowNumbers(rows) if row_ids is None else np.array(row_ids).astype(np.str_),
            rows=rows,
            frame=frame,
            name=name,
            labels=classes,
            label_name=label_name if labels is not None else None,
            image_shape=image_shape,
        )

    def subset(self, keep: NDArray[Any], note: str | None = None) -> "Dataset":
        """Return some of the rows.

        Args:
            keep: A mask of N booleans, or row positions in this dataset.
            note: Added to the notes.
        """
        chosen = np.flatnonzero(keep) if keep.dtype == np.bool_ else keep
        return replace(
            self,
            X=self.X[chosen],
            row_ids=self.row_ids[chosen],
            rows=self.rows[chosen],
            frame=self.frame.iloc[chosen].reset_index(drop=True),
            labels=None if self.labels is None else self.labels[chosen],
            more_labels={name: column[chosen] for name, column in self.more_labels.items()},
            held_out=self.held_out[chosen],
            texts=None if self.texts is None else self.texts.take(chosen),
            notes=self.notes if note is None else (*self.notes, note),
        )

    def complete_rows(self) -> "Dataset":
        """Return the rows without a missing feature cell.

        Columns without any cell are left out first. A note says how many rows were left out, and
        which columns were missing most often in them.

        Raises:
            DataError: No row is complete.
        """
        dataset = self._without_empty_columns()
        absent = np.isnan(dataset.X)
        dropped = np.asarray(absent.any(axis=1))
        count = int(dropped.sum())
        if count == 0:
            return dataset
        most = _most_missing(absent, dataset.feature_names)
        if count == len(dataset):
            raise DataError(
                f"Every one of the {count:,} rows of {self.name!r} has a missing cell, so none is "
                f"left. Most are missing in {most}. Leave these columns out, or use a model that "
                "accepts missing cells."
            )
        rows = "1 row" if count == 1 else f"{count:,} rows"
        note = f"{rows} left out: a cell is missing, most often in {most}."
        return dataset.subset(np.logical_not(dropped), note)

    def nonempty_rows(self) -> "Dataset":
        """Return the rows with at least one feature cell.

        Columns without any cell are left out first. A note says how many rows were left out.

        Raises:
            DataError: Every cell is missing.
        """
        dataset = self._without_empty_columns()
        empty = np.asarray(np.isnan(dataset.X).all(axis=1))
        count = int(empty.sum())
        if count == 0:
            return dataset
        rows = "1 row" if count == 1 else f"{count:,} rows"
        return dataset.subset(~empty, f"{rows} left out: every cell is missing.")

    def _without_empty_columns(self) -> "Dataset":
        empty = np.isnan(self.X).all(axis=0)
        if not empty.any():
            return self
        kept = np.flatnonzero(~empty)
        names = [self.feature_names[column] for column in np.flatnonzero(empty)]
        left = tuple(self.feature_names[column] for column in kept)
        if not kept.size:
            raise DataError(f"Every cell of {self.name!r} is missing. There is nothing to fit.")
        return replace(
            self,
            X=self.X[:, kept],
            feature_names=left,
            notes=(
                *self.notes,
                *(f"Column {name!r} left out: every cell is missing." for name in names),
            ),
            image_shape=propose_image_shape(left),
            log1p=self.log1p[kept],
        )

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for start in range(0, len(self), _DIGEST_ROWS):  # small enough for the processor's cache
            cells = np.array(self.X[start : start + _DIGEST_ROWS], dtype="<f8", order="C") + 0.0
            cells[np.isnan(cells)] = np.nan  # one bit pattern for NaN, and + 0.0 for zero
            digest.update(cells.data)
        labels = None if self.labels is None else self.labels.tolist()
        names = json.dumps([self.feature_names, self.label_name, labels], ensure_ascii=True)
        frame = [list(self.frame.columns), [str(kind) for kind in self.frame.dtypes]]
        digest.update(f"[{names[:-1]}, ".encode())
        for part in json_chunks(self.row_ids):
            digest.update(part.encode())
        digest.update(f"], {json.dumps([frame, self.image_shape], ensure_ascii=True)[1:]}".encode())
        hashes = pd.util.hash_pandas_object(self.frame, index=False)
        digest.update(hashes.to_numpy(dtype="<u8").tobytes())
        for what, mask in (("log1p", self.log1p), ("held out", self.held_out)):
            if mask.any():
                digest.update(what.encode() + np.packbits(mask).tobytes())
        for name, column in self.more_labels.items():
            digest.update(json.dumps(["label", name, column.tolist()]).encode())
        if self.likelihoods:
            chosen = sorted(self.likelihoods.items())
            digest.update(json.dumps(["likelihoods", chosen]).encode())
        if self.date_scales:
            scales = sorted(date_scale_texts(self.date_scales).items())
            digest.update(json.dumps(["dates", scales]).encode())
        if self.files is not None:
            digest.update(json.dumps(["files", self.files.to_json()]).encode())
        return digest.hexdigest()


def labels_as_text(values: pd.Series) -> NDArray[np.object_]:
    """Labels as strings, whole numbers without a decimal point; None for a missing label."""
    if values.dtype == object:
        return _texts(values.tolist())
    codes, known = pd.factorize(values)  # each distinct label is converted once
    found: NDArray[np.object_] = np.append(_texts(known.tolist()), np.array([None]))[codes]
    return found


def _texts(values: Sequence[Any]) -> NDArray[np.object_]:
    labels = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        if value is None or pd.isna(value):
            continue
        whole = isinstance(value, float) and value.is_integer()
        labels[place] = str(int(value)) if whole else str(value)
    return labels


def _matrix_shape(X: NDArray[Any]) -> tuple[int, int]:
    if X.ndim != 2 or 0 in X.shape:
        raise DataError(
            f"X has the shape {X.shape}. Expected rows by columns, with at least one of each."
        )
    return int(X.shape[0]), int(X.shape[1])


def _most_missing(absent: NDArray[np.bool_], names: Sequence[str]) -> str:
    counts = absent.sum(axis=0)
    worst = np.argsort(-counts, kind="stable")[:3]
    return ", ".join(
        f"{names[column]!r} ({counts[column]:,})" for column in worst if counts[column]
    )
