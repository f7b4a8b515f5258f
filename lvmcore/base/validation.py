"""Validation of estimator input: rows, cells, labels, latent points and row indices.

Each function converts the input to validated arrays, or raises an error that names the invalid
part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from lvmcore.base.capabilities import Capabilities, CapableEstimator
from lvmcore.errors import ConfigError, DataError, UnsupportedError
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.row_blocks import find_cells, row_blocks
from lvmcore.parameters import is_array
from lvmcore.preprocessing.cell_types import Cells, check_counts, check_positive
from lvmcore.preprocessing.class_labels import ClassLabels, encode_columns
from lvmcore.preprocessing.memory_mapped_rows import check_file_length, column_names

# Version of the checkpoint layout; checkpoints of an earlier layout are not read.
CHECKPOINT_LAYOUT = 2


def read_rows(model: CapableEstimator, X: ArrayLike, *, reset: bool) -> NDArray[Any]:
    """Rows in the data's units, float64; rows of a memory map stay on disk in its dtype.

    Args:
        model: the estimator, with whose ``n_features_in_`` and ``feature_names_in_`` the rows have
            to agree.
        X: the input, [N, D].
        reset: whether these are the rows of a fit, which set those two attributes.

    Raises:
        DataError: the input is not such a table.
    """
    fewest = 2 if reset else 1
    check_file_length(X)
    if getattr(getattr(X, "dtype", None), "kind", None) in {"m", "M"}:
        raise DataError(
            "X holds dates or times, and a model learns from numbers: turn them into numbers "
            "first, such as days since the first."
        )
    try:
        if isinstance(X, np.memmap):
            return _read_memory_map(model, X, reset=reset, fewest=fewest)
        data = validate_data(
            model,
            X,
            reset=reset,
            dtype=np.float64,
            ensure_all_finite=False,
            ensure_min_samples=fewest,
        )
    except ValueError as error:
        raise DataError(str(error)) from error
    return np.asarray(data)


def _read_memory_map(
    model: CapableEstimator, X: np.memmap[Any, Any], *, reset: bool, fewest: int
) -> NDArray[Any]:
    data = check_array(
        X, ensure_all_finite=False, ensure_min_samples=fewest, estimator=model, input_name="X"
    )
    names = column_names(X)
    header = data if names is None else pd.DataFrame(columns=list(names))
    validate_data(model, header, reset=reset, skip_check_array=True)
    return np.asarray(data)


def check_cells(
    data: NDArray[Any], names: Sequence[str], who: str, *, missing_allowed: bool
) -> None:
    """Reject infinite cells of rows [N, D], and missing ones unless allowed.

    Raises:
        DataError: naming the first such cell.
    """
    infinite, missing = find_cells(data, np.isinf, np.isnan)
    for found, what in (
        (infinite, "an infinite value (inf)"),
        (missing, "a missing value (NaN)"),
    ):
        if not found.count or (found is missing and missing_allowed):
            continue
        raise DataError(
            f"X contains {what}: {found.count} of its cells, the first in row {found.row + 1}, "
            f"column {names[found.column]}. {who} needs every cell: leave such rows or columns "
            "out, or fill them first."
        )


def check_values(data: NDArray[Any], names: list[str], who: str, cells: Cells) -> None:
    """Reject values of rows [N, D] that are not of the type ``cells``.

    Raises:
        DataError: naming the first such cell.
    """
    if cells == "positive":
        check_positive(data, names, who)
    elif cells == "counts":
        check_counts(data, names, who, "choose a model of continuous columns")


def check_labels(y: Any, n_rows: int, can: Capabilities, who: str) -> tuple[ClassLabels, ...]:
    """The label columns of a fit; none for a model that uses no labels.

    Raises:
        DataError: the labels cannot be used, or a required label is missing.
        UnsupportedError: several columns for a model of a single one.
    """
    if can.labels == "none":
        return ()
    labels = encode_columns(y, n_rows)
    if len(labels) > 1 and not can.several_labels:
        raise UnsupportedError(
            f"{who} learns from one label column, and y has {len(labels)}: choose one of them, or "
            "LDGD or FastLDGD, which learn from several."
        )
    if (labels[0].codes < 0).any() and not can.missing_labels:
        raise DataError(f"{who} needs a label for every row.")
    return labels


def check_components(
    n_components: int | Literal["ard"] | None,
    shape: tuple[int, ...],
    usable: int,
    note: Callable[[str], None],
) -> int:
    """Q of a fit.

    Args:
        n_components: the setting; None or "ard" for min(10, columns that vary, N − 1).
        shape: shape of the table, [N, D].
        usable: number of columns that vary.
        note: called with a note if there are fewer such columns than dimensions.

    Raises:
        ConfigError: more dimensions than rows or columns of the table.
    """
    n_rows, n_columns = shape
    if n_components is None or n_components == "ard":
        return max(1, min(10, usable, n_rows - 1))
    if n_components > n_columns or n_components > n_rows:
        raise ConfigError(
            f"n_components={n_components} is more than the table can carry: it has {n_rows} rows "
            f"and {n_columns} columns. Choose at most {min(n_rows, n_columns)}."
        )
    if n_components > usable:
        note(
            f"n_components reduced from {n_components} to {usable}: the other columns are constant."
        )
    return min(n_components, usable)


def require(model: CapableEstimator, capability: str, doing: str) -> None:
    """Reject a request that needs a capability the model lacks.

    Raises:
        UnsupportedError: the model lacks the capability.
    """
    if not getattr(model.capabilities, capability):
        raise UnsupportedError(f"{type(model).__name__} cannot {doing}.")


def require_labels(model: CapableEstimator) -> None:
    """Reject label predictions of a model without labels.

    Raises:
        UnsupportedError: the model was fitted without labels.
    """
    if model.capabilities.labels == "none":
        raise UnsupportedError(f"{type(model).__name__} knows no labels. LDGD learns from them.")
    check_is_fitted(model)


def check_latent(latent: ArrayLike, n_components: int) -> FloatArray:
    """Latent points, [n, Q].

    Raises:
        DataError: the number of dimensions differs, or a value is not finite.
    """
    points = np.atleast_2d(np.asarray(latent, dtype=np.float64))
    if points.ndim != 2 or points.shape[1] != n_components or not np.isfinite(points).all():
        raise DataError(
            f"Latent points of shape {np.shape(latent)} cannot be decoded: expected finite "
            f"numbers of shape [n, {n_components}]."
        )
    return points


def check_positions(rows: ArrayLike, n_rows: int) -> NDArray[np.intp]:
    """Indices of rows of the fit.

    Raises:
        ConfigError: an index is invalid, or there is none.
    """
    positions = np.ravel(np.asarray(rows))
    whole = positions.dtype.kind in "iu" and len(positions) > 0
    if not whole or positions.min() < 0 or positions.max() >= n_rows:
        raise ConfigError(
            f"rows={rows!r} cannot be used: expected positions of rows of the fit, whole "
            f"numbers from 0 to {n_rows - 1}, at least one."
        )
    return positions.astype(np.intp)


def check_sample(n: int, label: Any, rows: ArrayLike | None) -> None:
    """Validate a request for a sample: number of rows, and a label or row indices.

    Raises:
        ConfigError: ``n`` is not positive, or both a label and rows are given.
    """
    if n < 1:
        raise ConfigError(f"n={n!r} cannot be used: expected at least 1 row to draw.")
    if rows is not None and label is not None:
        raise ConfigError("label and rows cannot both be given: they are two places to draw from.")


def has_density(model: CapableEstimator) -> bool:
    """Whether an estimator has a predictive density for rows."""
    return model.capabilities.density


def random_seed(random_state: int | None) -> int:
    """The seed of a fit: the given one, or a random one."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    return int(random_state)


#: Settings that earlier versions did not have, with the values at which a fit is as theirs.
_ADDED: Mapping[str, Any] = {
    "inducing_layout": "free",
    "column_likelihood": "gaussian",
    "latent_posterior": "encoder",
    "target_transform": "none",
    "noise_sd": "",
    "priors": "",
    "weights": "marginal",
    "picture_shape": "auto",
}
#: The same, of models of a target.
_ADDED_TO_PREDICTORS: Mapping[str, Any] = {"dtype": "float64"}
#: The same, of one model.
_ADDED_TO_MODEL: Mapping[str, Mapping[str, Any]] = {"deep_qep_lvm": {"n_layers": 1}}


def fit_fingerprint(
    model: CapableEstimator,
    data: NDArray[Any],
    labels: tuple[ClassLabels, ...] = (),
    target: NDArray[Any] | None = None,
) -> str:
    """Digest of everything that determines a fit, except its number of steps."""
    settings = dict(getattr(model, "settings_", model.get_params(deep=False)))
    settings.pop("max_iter", None)
    settings.pop("parameter_uncertainty", None)  # counts after the optimisation only
    if settings.get("n_components") == "ard":
        settings["n_components"] = None  # as in the checkpoints of earlier versions
    is_map = getattr(model, "task", "") == "map"
    if is_map and settings.get("kernel", "") == getattr(type(model), "kernel", None):
        del settings["kernel"]  # likewise; models of a target have always had one
    of_task = {} if is_map else _ADDED_TO_PREDICTORS
    for name, earlier in {**_ADDED, **of_task, **_ADDED_TO_MODEL.get(model.key, {})}.items():
        if settings.get(name) == earlier:
            del settings[name]  # likewise
    facts = [model.key, package_version(), CHECKPOINT_LAYOUT, settings, data.shape]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=_json_setting).encode())
    for rows in row_blocks(data):
        digest.update(np.ascontiguousarray(rows, dtype=np.float64).tobytes())
    for column in labels:
        digest.update(np.asarray(column.codes).tobytes())
        if len(labels) > 1:
            digest.update(column.name.encode())
    if target is not None:
        digest.update(np.ascontiguousarray(target).tobytes())
    return digest.hexdigest()


def _json_setting(value: Any) -> Any:
    """A setting for JSON; an array becomes a list of its numbers."""
    return np.asarray(value).tolist() if is_array(value) else str(value)


@cache
def package_version() -> str:
    """The installed version of latentboard, or "0" from a source tree that is not installed."""
    try:
        return version("latentboard")
    except PackageNotFoundError:
        return "0"
