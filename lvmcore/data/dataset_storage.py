"""Datasets on disk: `data.parquet`, `dataset.json` and maybe `texts.parquet` in a folder."""

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lvmcore.data.cell_texts import CellTexts
from lvmcore.data.dataset import Dataset
from lvmcore.data.date_scales import date_scale_texts, date_scales_of_texts
from lvmcore.data.row_numbers import RowNames, RowNumbers
from lvmcore.data.table_files import TableFiles
from lvmcore.errors import DataError
from lvmcore.preprocessing.picture_shape import ImageShape

__all__ = ["load_dataset", "save_dataset"]

_FEATURE, _FRAME, _LABEL = "feature/", "frame/", "label/"
_META = "dataset.json"
_DATA = "data.parquet"
_TEXTS = "texts.parquet"
_FORMAT = 1


def save_dataset(dataset: Dataset, folder: Path) -> Path:
    """Write `data.parquet` and `dataset.json` into a folder, each atomically.

    Args:
        dataset: the dataset.
        folder: created if it does not exist.

    Returns:
        The folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    frame = dataset.frame
    parts = [
        pd.DataFrame(dataset.X, columns=[_FEATURE + name for name in dataset.feature_names]),
        frame.set_axis([_FRAME + str(name) for name in frame.columns], axis="columns"),
        pd.DataFrame({"row_id": _id_column(dataset.row_ids), "row": dataset.rows}),
    ]
    table = pa.Table.from_pandas(pd.concat(parts, axis="columns"), preserve_index=False)
    if dataset.labels is not None:
        table = table.append_column("label", pa.array(dataset.labels.tolist(), pa.string()))
    for name, column in dataset.more_labels.items():
        table = table.append_column(_LABEL + name, pa.array(column.tolist(), pa.string()))
    if dataset.held_out.any():
        table = table.append_column("held_out", pa.array(dataset.held_out))
    meta = {
        "format": _FORMAT,
        "name": dataset.name,
        "rows": len(dataset),
        "feature_names": dataset.feature_names,
        "label_name": dataset.label_name,
        "more_labels": list(dataset.more_labels),
        "image_shape": dataset.image_shape,
        "notes": dataset.notes,
        "log1p": np.flatnonzero(dataset.log1p).tolist(),
        "column_decimals": dict(dataset.column_decimals),
        "likelihoods": dict(dataset.likelihoods),
        "date_scales": date_scale_texts(dataset.date_scales),
        "digest": dataset.digest,
    }
    if dataset.files is not None:
        meta["files"] = dataset.files.to_json()
    if dataset.texts is not None:
        meta["texts"] = {
            "delimiter": dataset.texts.delimiter,
            "decimal_commas": sorted(dataset.texts.decimal_commas),
        }
        texts = pa.table(dict(dataset.texts.columns))
        _write_atomically(folder / _TEXTS, lambda file: pq.write_table(texts, file))
    text = json.dumps(meta, indent=1, ensure_ascii=False).encode()
    _write_atomically(folder / _DATA, lambda file: pq.write_table(table, file))
    _write_atomically(folder / _META, lambda file: file.write(text))
    return folder


def _id_column(names: RowNames) -> pd.Series:
    """Names of rows as strings."""
    if isinstance(names, RowNumbers):
        return pd.Series(pd.array(_numbered(pa.array(names.rows)), dtype="str"))
    return pd.Series(names.tolist(), dtype="str")


def _numbered(rows: Any) -> Any:
    """The names of numbered rows, from their positions, as an Arrow array."""
    return pc.cast(pc.add(rows, 1), pa.large_string())


def load_dataset(folder: Path) -> Dataset:
    """Load a dataset written by ``save_dataset``, and verify its digest.

    Raises:
        DataError: the folder contains no dataset, or a damaged or modified one.
    """
    where = str(folder)
    try:
        meta = json.loads((folder / _META).read_text(encoding="utf-8"))
        if meta["format"] != _FORMAT:
            raise DataError(
                f"The dataset saved in {where!r} has the format {meta['format']!r}; this version "
                f"reads {_FORMAT}. Make it again from the table."
            )
        with (folder / _DATA).open("rb") as file:
            table = pq.read_table(file)
        dataset = _assemble(meta, table, _load_texts(folder, meta, table.num_rows))
        digest = meta["digest"]
    except FileNotFoundError as error:
        raise DataError(
            f"{where!r} holds no saved dataset: {Path(error.filename).name} is not there."
        ) from error
    except DataError:
        raise
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError) as error:
        raise DataError(
            f"The dataset saved in {where!r} is damaged ({type(error).__name__}: {error}). Make "
            "it again from the table."
        ) from error
    if dataset.digest != digest:
        raise DataError(
            f"The dataset saved in {where!r} was changed: its content does not have the digest it "
            "was saved with. Make it again from the table."
        )
    return dataset


def _load_texts(folder: Path, meta: dict[str, Any], rows: int) -> CellTexts | None:
    """The texts of the cells; None for a dataset without them, as of earlier versions."""
    facts = meta.get("texts")
    if facts is None:
        return None
    with (folder / _TEXTS).open("rb") as file:
        texts = pq.read_table(file)
    if texts.num_columns and texts.num_rows != rows:
        raise DataError(
            f"The dataset saved in {str(folder)!r} is damaged: {_TEXTS} has {texts.num_rows} rows; "
            f"expected {rows}. Make it again from the table."
        )
    columns = {name: texts.column(name).combine_chunks() for name in texts.column_names}
    return CellTexts(columns, str(facts["delimiter"]), frozenset(facts["decimal_commas"]))


def _assemble(meta: dict[str, Any], table: Any, texts: CellTexts | None) -> Dataset:
    labels = None
    if "label" in table.column_names:
        labels, table = _labels(table, "label")
    more_labels = {}
    for name in meta.get("more_labels", []):  # files of earlier versions have none
        more_labels[name], table = _labels(table, _LABEL + name)
    held_out = np.zeros(table.num_rows, dtype=bool)
    if "held_out" in table.column_names:
        held_out = table.column("held_out").to_numpy()
        table = table.drop_columns(["held_out"])
    features = [_FEATURE + name for name in meta["feature_names"]]
    X = np.empty((table.num_rows, len(features)), order="F")
    for d, name in enumerate(features):
        X[:, d] = table.column(name).to_numpy()
    rows, ids = table.column("row").to_numpy().astype(np.intp), table.column("row_id")
    numbered = pc.all(pc.equal(ids.cast(pa.large_string()), _numbered(table.column("row")))).as_py()
    everything = table.drop_columns([*features, "row", "row_id"]).to_pandas()
    of_frame = [name for name in everything.columns if name.startswith(_FRAME)]
    shape = meta["image_shape"]
    log1p = np.zeros(len(features), dtype=bool)
    log1p[meta.get("log1p", [])] = True  # files of earlier versions have none
    return Dataset(
        X=X,
        feature_names=tuple(meta["feature_names"]),
        row_ids=RowNumbers(rows) if numbered else np.array(ids.to_pylist(), dtype=np.str_),
        rows=rows,
        frame=everything[of_frame].set_axis(
            [name.removeprefix(_FRAME) for name in of_frame], axis="columns"
        ),
        name=meta["name"],
        labels=labels,
        label_name=meta["label_name"],
        more_labels=more_labels,
        notes=tuple(meta["notes"]),
        image_shape=None if shape is None else _image_shape(shape),
        log1p=log1p,
        held_out=held_out,
        column_decimals=dict(meta.get("column_decimals", {})),  # as for log1p
        likelihoods=dict(meta.get("likelihoods", {})),  # likewise
        date_scales=date_scales_of_texts(meta.get("date_scales", {})),  # likewise
        texts=texts,
        files=None if "files" not in meta else TableFiles.from_json(meta["files"]),
    )


def _image_shape(sides: Sequence[int]) -> ImageShape:
    """The shape of pictures: two sides, as in all files of earlier versions, or three."""
    height, width = int(sides[0]), int(sides[1])
    return (height, width) if len(sides) == 2 else (height, width, int(sides[2]))


def _labels(table: Any, column: str) -> tuple[NDArray[np.object_], Any]:
    """A column of labels, and the table without it."""
    encoded = table.column(column).combine_chunks().dictionary_encode()
    texts = np.array([*encoded.dictionary.to_pylist(), None], dtype=object)
    labels = texts[encoded.indices.fill_null(len(texts) - 1).to_numpy()]  # None: a missing label
    return labels, table.drop_columns([column])


def _write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a temporary file, flush it to the disk, and rename it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise
