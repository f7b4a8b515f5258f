"""Export of a map and its rows as an AnnData file (H5AD).

``obsm["X_KEY"]`` holds the latent means, KEY being the model's key, and ``obsm["X_KEY_sd"]`` their
standard deviations; ``X`` the features in the table's own units; ``var`` their names and whether
they were transformed by log(1 + x); ``obs`` the labels, further results for the rows, and the
columns of the table that are no features; ``uns["latentboard"]`` the provenance of the map. The
format is that of anndata's documentation ("On-disk format").
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.column_names import unique_names
from lvmcore.errors import UnsupportedError
from lvmcore.prediction.map_table import embedding_frame
from lvmcore.runs.atomic_files import as_plain_json
from lvmcore.runs.job import installed_version

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.data.dataset import Dataset
    from lvmcore.projection import LatentProjection
    from lvmcore.runs.job import JobSpec

__all__ = ["check_h5ad", "embedding_to_h5ad", "places_to_h5ad", "writes_h5ad"]

#: First HDF5 format version whose attributes can hold long lists of names.
_FORMAT = "v108"
_PARTS = ("layers", "obsp", "varm", "varp")


def writes_h5ad() -> bool:
    """Whether the package that writes H5AD files is installed."""
    return find_spec("h5py") is not None


def check_h5ad() -> None:
    """Check that the package that writes H5AD files is installed.

    Raises:
        UnsupportedError: it is not installed.
    """
    if not writes_h5ad():
        raise UnsupportedError(
            "Writing H5AD files needs the package h5py: pip install 'latentboard[formats]', or "
            "choose CSV or Parquet."
        )


def embedding_to_h5ad(
    model: LatentVariableModel,
    dataset: Dataset,
    spec: JobSpec | None = None,
    projection: LatentProjection | None = None,
) -> bytes:
    """The map of a fit as an AnnData file.

    Args:
        model: a fitted model.
        dataset: the rows that it was fitted to.
        spec: of its run, if any.
        projection: a 2-D view of the map, whose positions are to be columns of ``obs``.
    """
    return places_to_h5ad(embedding_frame(model, dataset, projection), model, dataset, spec)


def places_to_h5ad(
    frame: pd.DataFrame,
    model: LatentVariableModel,
    rows: Dataset,
    spec: JobSpec | None = None,
) -> bytes:
    """Latent positions of rows as an AnnData file.

    Args:
        frame: ``row_id``, ``z1`` … ``zQ``, ``z1_sd`` … if there are sds, and further results for
            the rows (see ``embedding_frame`` and ``Placement``).
        model: the fitted model.
        rows: a dataset with these rows, and possibly others.
        spec: of the run that inferred the positions, if any.

    Raises:
        UnsupportedError: the package that writes H5AD files is not installed.
    """
    check_h5ad()
    import h5py

    where = {name: place for place, name in enumerate(rows.row_ids.tolist())}
    places = [where[name] for name in frame["row_id"].tolist()]
    dimensions = model.embedding_.mean.shape[1]
    means = [f"z{q + 1}" for q in range(dimensions)]
    sds = [f"{name}_sd" for name in means if f"{name}_sd" in frame]
    known = frame.drop(columns=["row_id", *means, *sds])
    obsm = {f"X_{model.key}": frame[means].to_numpy(dtype=np.float64)}
    if sds:
        obsm[f"X_{model.key}_sd"] = frame[sds].to_numpy(dtype=np.float64)
    var = pd.DataFrame({"log1p": rows.log1p})
    if rows.date_scales:
        scales = [rows.date_scales.get(name) for name in rows.feature_names]
        var["dates"] = ["" if s is None else f"{s.plural} since {s.origin}" for s in scales]
    sink = io.BytesIO()
    with h5py.File(sink, "w", libver=_FORMAT) as file:
        _set_encoding(file, "anndata", "0.1.0")
        X = _features_in_units(rows)[places]
        file.create_dataset("X", data=X, compression="gzip", compression_opts=1)
        _set_encoding(file["X"], "array", "0.2.0")
        _write_frame(file, "obs", frame["row_id"].tolist(), _observations(known, rows, places))
        _write_frame(file, "var", rows.feature_names, var)
        _write(file, "obsm", obsm)
        for part in _PARTS:
            _write(file, part, {})
        _write(file, "uns", {"latentboard": _provenance(model, rows, spec)})
    return sink.getvalue()


def _features_in_units(rows: Dataset) -> NDArray[np.float64]:
    """The features in the table's units, [N, D]; exact also where transformed by log(1 + x)."""
    X = rows.X.copy()
    for d in np.flatnonzero(rows.log1p).tolist():
        cells = rows.frame[rows.feature_names[d]]
        X[:, d] = cells.to_numpy(dtype=np.float64, na_value=np.nan)
    return X


def _observations(known: pd.DataFrame, rows: Dataset, places: list[int]) -> pd.DataFrame:
    """Labels as categories, further results for the rows, and columns that are no features."""
    labels = {name: pd.Categorical(column[places]) for name, column in rows.label_columns.items()}
    results = [name for name in known if name != "label" and not str(name).endswith(": label")]
    features = {*rows.feature_names, *labels}
    ids = rows.row_ids.tolist()  # a column with these values is the index already
    others = rows.frame.iloc[places].drop(
        columns=[c for c in rows.frame if c in features or rows.frame[c].tolist() == ids]
    )
    parts = [pd.DataFrame(labels, index=known.index), known[results]]
    whole = pd.concat([*parts, others.set_axis(known.index)], axis="columns")
    # A key with "/" would be a path, and "_index" is the key of the row names.
    keys = [str(name).replace("/", "_") for name in whole.columns]
    names, _ = unique_names(["index" if key == "_index" else key for key in keys])
    named: pd.DataFrame = whole.set_axis(names, axis="columns")
    return named


def _provenance(
    model: LatentVariableModel, rows: Dataset, spec: JobSpec | None
) -> dict[str, str | int | float]:
    """Model, version, dataset and settings of a map."""
    settings = as_plain_json(model.get_params(deep=False))
    version = None if spec is None else spec.versions.get("latentboard")
    seed = settings.get("random_state")
    return {
        "model": model.key,
        "title": model.title,
        "version": version or installed_version("latentboard") or "",
        "dataset": rows.digest if spec is None else spec.dataset,
        "dataset_name": rows.name,
        "parameters": json.dumps(settings, sort_keys=True),
        **({"random_state": seed} if isinstance(seed, int) else {}),
    }


def _set_encoding(element: Any, kind: str, version: str) -> None:
    element.attrs["encoding-type"] = kind
    element.attrs["encoding-version"] = version


def _write(group: Any, key: str, value: Any) -> None:
    """Write a mapping, a numeric array, a list of strings, a categorical, a string or a number."""
    import h5py

    text = h5py.string_dtype()
    if isinstance(value, Mapping):
        _set_encoding(group.create_group(key), "dict", "0.1.0")
        for name, part in value.items():
            _write(group[key], name, part)
    elif isinstance(value, pd.Categorical):
        _set_encoding(group.create_group(key), "categorical", "0.2.0")
        group[key].attrs["ordered"] = False
        _write(group[key], "categories", [str(level) for level in value.categories])
        _write(group[key], "codes", np.asarray(value.codes))
    elif isinstance(value, np.ndarray):
        group.create_dataset(key, data=value)
        _set_encoding(group[key], "array", "0.2.0")
    elif isinstance(value, str):
        group.create_dataset(key, data=_clean(value), dtype=text)
        _set_encoding(group[key], "string", "0.2.0")
    elif isinstance(value, list):
        group.create_dataset(key, data=[_clean(one) for one in value], dtype=text)
        _set_encoding(group[key], "string-array", "0.2.0")
    else:
        group.create_dataset(key, data=value)
        _set_encoding(group[key], "numeric-scalar", "0.2.0")


def _write_frame(file: Any, key: str, index: Sequence[str], frame: pd.DataFrame) -> None:
    import h5py

    group = file.create_group(key)
    _set_encoding(group, "dataframe", "0.2.0")
    group.attrs["_index"] = "_index"
    names = [_clean(str(name)) for name in frame.columns]
    group.attrs.create("column-order", names, (len(names),), h5py.string_dtype())
    _write(group, "_index", list(index))
    for name, (_, values) in zip(names, frame.items(), strict=True):
        _write(group, name, _cells(values))


def _cells(values: pd.Series[Any]) -> NDArray[Any] | pd.Categorical | list[str]:
    """A column in a type of AnnData: missing numbers are NaN, missing strings have no category."""
    kind, absent = values.dtype, values.isna()
    if isinstance(kind, pd.CategoricalDtype):
        return pd.Categorical(values)
    if pd.api.types.is_bool_dtype(kind) and not absent.any():
        return values.to_numpy(dtype=bool)
    if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind):
        whole = pd.api.types.is_integer_dtype(kind) and not absent.any()
        return values.to_numpy(dtype=np.int64 if whole else np.float64, na_value=np.nan)
    texts = np.array(
        [None if gone else str(cell) for cell, gone in zip(values, absent, strict=True)]
    )
    if absent.any() or len(set(texts.tolist())) < len(texts):
        return pd.Categorical(texts)
    return [str(cell) for cell in texts.tolist()]


def _clean(text: str) -> str:
    """A string for HDF5: valid UTF-8 without zero bytes, which would end it."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
