"""Class labels with missing ones allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from lvmcore.errors import DataError

__all__ = [
    "DEFAULT_NAME",
    "ClassLabels",
    "Weighting",
    "encode_columns",
    "label_column_names",
    "labels_from_json",
    "labels_to_json",
    "row_weights",
    "sorted_by_label_column",
]

#: Name of a label column without a name.
DEFAULT_NAME = "label"
#: Equal weight of all rows, or of all classes.
Weighting = Literal["equal", "balanced"]
Value = TypeVar("Value")


@dataclass(frozen=True)
class ClassLabels:
    """The labels of one column as codes.

    Attributes:
        classes: the distinct labels, sorted, [C].
        codes: index in ``classes`` of each row's label, −1 if it is missing, [N].
        name: of the column.
    """

    classes: NDArray[Any]
    codes: NDArray[np.int64]
    name: str = DEFAULT_NAME

    @classmethod
    def encode(cls, y: Any, n_rows: int, name: str | None = None) -> Self:
        """Encode labels; None and NaN are missing, any other value (also −1) is a class.

        Args:
            y: one label a row, [N].
            n_rows: N.
            name: of the column, if there are several.

        Raises:
            DataError: no labels, another number of them than rows, or fewer than two classes.
        """
        if y is None:
            raise DataError(
                "This model requires y to be passed, but the target y is None: give one label a "
                "row (None where it is unknown), or choose a model that needs no labels."
            )
        where = "" if name is None else f" of column {name!r}"
        # As objects: NumPy would convert None and NaN in a list to strings.
        values = np.asarray(y, dtype=object if isinstance(y, list | tuple) else None)
        if values.ndim == 2 and values.shape[1] == 1:
            values = column_or_1d(values, warn=True)
        if values.ndim != 1 or len(values) != n_rows:
            raise DataError(
                f"y has shape {values.shape}, but X has {n_rows} rows: expected one label a row. "
                "Input variables have inconsistent numbers of samples."
            )
        present = ~np.asarray(pd.isna(values))
        known = values[present]
        if known.dtype == object:
            known = np.array(known.tolist())
        if known.dtype.kind == "f" and np.isinf(known).any():
            raise DataError(
                f"Input y contains infinity or a value too large for dtype('float64'){where}: "
                "labels are classes; give None where a label is unknown."
            )
        try:
            if known.size:
                check_classification_targets(known)
        except ValueError as error:
            raise DataError(
                f"Unknown label type{where}: {error} Labels are classes; a number that varies "
                "continuously is a target, not a label."
            ) from error
        classes, codes = np.unique(known, return_inverse=True)
        if len(classes) < 2:
            found = "no class" if not len(classes) else f"one class ({classes[0]})"
            raise DataError(
                f"The labels{where} hold {found}: expected at least two classes to tell "
                "apart. Choose another label column, or a model that needs no labels."
            )
        full = np.full(n_rows, -1, dtype=np.int64)
        full[present] = codes
        return cls(classes, full, DEFAULT_NAME if name is None else name)

    def to_json(self) -> dict[str, Any]:
        """Classes and name, for JSON."""
        stored = {"dtype": self.classes.dtype.str, "values": self.classes.tolist()}
        return stored if self.name == DEFAULT_NAME else {**stored, "name": self.name}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """Classes from ``to_json``; no rows."""
        classes = np.array(stored["values"], dtype=stored["dtype"])
        return cls(classes, np.zeros(0, dtype=np.int64), stored.get("name", DEFAULT_NAME))


def encode_columns(y: Any, n_rows: int) -> tuple[ClassLabels, ...]:
    """Encode one label column, [N], or several, [N, L].

    The columns of a DataFrame keep their names; those of an array get the names "label 1",
    "label 2" and so on, a single one "label".

    Raises:
        DataError: as ``ClassLabels.encode``, naming the column; or two columns have one name.
    """
    if isinstance(y, pd.DataFrame) and y.shape[1] > 0:
        columns: list[tuple[str, Any]] = [
            (str(name), y.iloc[:, position]) for position, name in enumerate(y.columns)
        ]
    else:
        values = np.asarray(y, dtype=object if isinstance(y, list | tuple) else None)
        if values.ndim != 2 or values.shape[1] < 2:
            return (ClassLabels.encode(y, n_rows),)
        columns = [(f"{DEFAULT_NAME} {k + 1}", values[:, k]) for k in range(values.shape[1])]
    names = [name for name, _ in columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(
            f"Two label columns are called {repeated[0]!r}: expected a name of its own for each."
        )
    return tuple(ClassLabels.encode(column, n_rows, name) for name, column in columns)


def label_column_names(word: str, labels: Sequence[ClassLabels]) -> list[str]:
    """Names for each label column: the word itself for one column, "word: name" for several."""
    return [word] if len(labels) == 1 else [f"{word}: {column.name}" for column in labels]


def sorted_by_label_column(
    found: dict[str, Value], labels: Sequence[ClassLabels]
) -> dict[str, Value]:
    """Values by path, those of paths to labels last, in the order of the label columns."""
    names = label_column_names("labels", labels)
    last = {path: found[path] for path in names if path in found}
    return {path: found[path] for path in found if path not in last} | last


def labels_to_json(labels: Sequence[ClassLabels]) -> Any:
    """Label columns as JSON can hold them: one alone, several in a list, none as None."""
    stored = [column.to_json() for column in labels]
    return stored[0] if len(stored) == 1 else stored or None


def labels_from_json(stored: Any) -> tuple[ClassLabels, ...]:
    """Label columns from ``labels_to_json``; no rows."""
    columns = stored if isinstance(stored, list) else [stored]
    return tuple(ClassLabels.from_json(column) for column in columns if column is not None)


def row_weights(codes: NDArray[np.int64], weighting: Weighting) -> NDArray[np.float64]:
    """Weight of each row's label: 0 if it is missing, with mean 1 over the others, [N].

    Args:
        codes: class of each row, −1 if the label is missing, [N].
        weighting: equal gives each labelled row 1; balanced gives each class the same total,
            n/(C n_c) for a row of a class with n_c rows.
    """
    known = codes >= 0
    if weighting == "equal":
        return known.astype(np.float64)
    counts = np.bincount(codes[known])
    present = np.count_nonzero(counts)
    weights = np.zeros(len(codes))
    weights[known] = known.sum() / (present * counts[codes[known]])
    return weights
