"""The rows of registered files as a memory-mapped array: the types of all cells are checked."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.dataset import Dataset
from lvmcore.data.long_tables.file_blocks import ArrowBlock, arrow_blocks, block_table
from lvmcore.data.long_tables.memory_mapped import MappedTable, write_errors
from lvmcore.data.new_tables.column_matching import match_columns
from lvmcore.data.new_tables.matching_dataset import matching_dataset
from lvmcore.data.table import Table
from lvmcore.data.table_files import TableFiles
from lvmcore.errors import CancelledError, DataError

__all__ = ["MappedRows", "features_of_block", "map_rows", "used_columns"]

_ARRAY, _LEFT_OUT, _FACTS = "rows.npy", "left_out.npy", "rows.json"

#: Called with the rows done and in all (0 if unknown); True cancels.
Tell = Callable[[int, int], bool]


@dataclass(frozen=True)
class MappedRows:
    """All rows of registered files, with the features of a dataset.

    Attributes:
        X: The features of the rows that have any cell, on disk [N, D]; NaN for a missing cell.
        labels: Codes of the labels by column, −1 for a missing one [N].
        classes: The classes of each label column, in the order of the codes.
        sampled: Positions in X of the rows of the dataset, in their order; −1 for a row that was
            left out.
        n_rows: Number of rows of the files.
        left_out: Positions in the files of the rows that were left out, in order.
        notes: What was left out, with the reason.
    """

    X: MappedTable
    labels: dict[str, NDArray[np.int32]]
    classes: dict[str, tuple[str, ...]]
    sampled: NDArray[np.intp]
    n_rows: int
    left_out: NDArray[np.intp]
    notes: tuple[str, ...]

    def positions(self) -> NDArray[np.intp]:
        """Positions of the rows of X in the files, from 0 [N]."""
        return np.delete(np.arange(self.n_rows), self.left_out)

    def y(self) -> NDArray[np.object_] | pd.DataFrame | None:
        """The labels as a model's ``fit`` takes them: [N], a frame of columns, or None."""
        columns = {}
        for name, codes in self.labels.items():
            values = np.empty(len(self.classes[name]) + 1, dtype=object)
            values[:-1] = self.classes[name]
            columns[name] = values[codes]  # −1 is the last one, None
        if len(columns) > 1:
            return pd.DataFrame(columns)
        return next(iter(columns.values()), None)


def map_rows(dataset: Dataset, folder: Path, tell: Tell = lambda *_: False) -> MappedRows:
    """Read all rows of the files of a dataset, check their types, and write its features to disk.

    An array that is complete in the folder is used again.

    Args:
        dataset: A sample of the rows of files, with their features and labels.
        folder: Where the array is written.
        tell: Called after each block with the rows done and in all (0 if unknown); True cancels.

    Raises:
        DataError: A file changed, a cell does not have the type of its column, or the disk is
            full; the message names the file, the row and the column of the first such cell.
        CancelledError: ``tell`` asked to stop.
    """
    files = dataset.files
    if files is None:
        raise DataError(f"{dataset.name!r} is no table whose files stay in place.")
    files.check_unchanged()
    if not (folder / _FACTS).is_file():
        _write_rows(dataset, files, folder, tell)
    return _open_rows(dataset, folder)


def used_columns(dataset: Dataset, *others: str) -> list[str]:
    """The columns of the files that the features and labels of a dataset are made of.

    Args:
        dataset: A sample of the rows of files.
        others: Further columns that are read.
    """
    assert dataset.files is not None
    frame = Table.from_frame(dataset.frame, name=dataset.name)
    sources = match_columns(frame, dataset.transformed_names).columns.values()
    wanted = {*sources, *dataset.label_columns, *others}
    return [name for name, _ in dataset.files.columns if name in wanted]


def features_of_block(block: ArrowBlock, dataset: Dataset) -> Dataset:
    """The features and labels of a block of rows, made as those of the sample.

    Rows with an infinite value are left out. Row positions are those in the block.

    Args:
        block: Rows with the columns of ``used_columns``.
        dataset: A sample of the rows of the same files.

    Raises:
        DataError: A cell does not have the type of its column; the message names the file, the row
            and the column.
    """
    assert dataset.files is not None
    table = block_table(block, dataset.files, dataset.name)
    try:
        return matching_dataset(
            table,
            dataset.transformed_names,
            label={name: name for name in dataset.label_columns},
            origin=dataset,
            missing_cells=True,
        )
    except DataError as error:
        raise DataError(f"In {Path(block.file).name!r}: {error}") from error


# ---- writing -----------------------------------------------------------------------------------


def _write_rows(dataset: Dataset, files: TableFiles, folder: Path, tell: Tell) -> None:
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    d = len(dataset.feature_names)
    needed = 8 * d * (files.n_rows or files.size // max(1, 8 * len(files.columns)))
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"The array of {dataset.name!r} takes about {needed / 1e6:,.0f} MB, and "
            f"{str(folder)!r} has {free / 1e6:,.0f} MB free. Make room, or choose fewer features."
        )
    partial = folder / f".{_ARRAY}.{os.getpid()}.partial"
    rows = _RowWriter(dataset)
    try:
        with write_errors(folder), partial.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, _header(0, d))
            for block in arrow_blocks(files, used_columns(dataset)):
                cells = rows.add(block)
                file.write(cells.data)
                if tell(rows.n_rows, files.n_rows or 0):
                    raise CancelledError("Stopped before all rows were read.")
            files.check_unchanged()
            file.seek(0)
            # NumPy's header leaves space for a larger number of rows.
            np.lib.format.write_array_header_1_0(file, _header(rows.n_kept, d))
        rows.check_any()
        with write_errors(folder):
            for name, codes in rows.codes().items():
                np.save(folder / _label_file(dataset, name), codes)
            np.save(folder / _LEFT_OUT, rows.left_out())
            partial.replace(folder / _ARRAY)
            draft = partial.with_suffix(".json")
            draft.write_text(json.dumps(rows.facts()), encoding="utf-8")
            draft.replace(folder / _FACTS)
    finally:
        partial.unlink(missing_ok=True)


def _header(rows: int, columns: int) -> dict[str, Any]:
    return {"descr": "<f8", "fortran_order": False, "shape": (rows, columns)}


def _label_file(dataset: Dataset, name: str) -> str:
    return f"label-{list(dataset.label_columns).index(name)}.npy"


class _RowWriter:
    """The rows of successive blocks, with what is left out of them.

    Args:
        dataset: The sample.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self.n_rows = self.n_kept = 0
        self._infinite = self._empty = 0
        self._left_out: list[NDArray[np.intp]] = []
        self._codes: dict[str, list[NDArray[np.int32]]] = {n: [] for n in dataset.label_columns}
        self._classes: dict[str, dict[str, int]] = {name: {} for name in dataset.label_columns}
        self._sampled = np.full(len(dataset), -1, dtype=np.intp)

    def add(self, block: ArrowBlock) -> NDArray[np.float64]:
        """The features of the rows of a block that are kept, [n, D]."""
        found = features_of_block(block, self._dataset)
        filled = ~np.isnan(found.X).all(axis=1)
        kept = found.rows[filled]
        gone = np.delete(np.arange(block.cells.num_rows), kept)
        self._left_out.append(gone + block.start)
        self._infinite += block.cells.num_rows - len(found)
        self._empty += int((~filled).sum())
        for name, labels in found.label_columns.items():
            self._codes[name].append(_encode(labels[filled], self._classes[name]))
        wanted = self._dataset.rows - block.start
        inside = np.flatnonzero((wanted >= 0) & (wanted < block.cells.num_rows))
        at = np.searchsorted(kept, wanted[inside])
        at[at == len(kept)] = 0
        same = kept[at] == wanted[inside] if len(kept) else np.zeros(len(inside), dtype=bool)
        self._sampled[inside[same]] = self.n_kept + at[same]
        self.n_rows += block.cells.num_rows
        self.n_kept += len(kept)
        return np.ascontiguousarray(found.X[filled], dtype="<f8")

    def check_any(self) -> None:
        """Check that rows are left; raises DataError."""
        if self.n_kept < 2:
            raise DataError(
                f"{self.n_kept} of the {self.n_rows:,} rows of {self._dataset.name!r} have a cell "
                "to learn from: expected at least 2."
            )

    def left_out(self) -> NDArray[np.intp]:
        """Positions of the rows that were left out, in order."""
        return np.concatenate(self._left_out).astype(np.intp)

    def codes(self) -> dict[str, NDArray[np.int32]]:
        """The codes of the labels by column."""
        return {name: np.concatenate(parts) for name, parts in self._codes.items()}

    def facts(self) -> dict[str, Any]:
        """What was read, for JSON."""
        notes = []
        for count, reason in ((self._infinite, "an infinite value"), (self._empty, "no cell")):
            if count:
                rows = "1 row" if count == 1 else f"{count:,} rows"
                notes.append(f"{rows} of all {self.n_rows:,} left out: {reason}.")
        return {
            "rows": self.n_rows,
            "kept": self.n_kept,
            "sampled": self._sampled.tolist(),
            "classes": {name: list(known) for name, known in self._classes.items()},
            "notes": notes,
        }


def _encode(labels: NDArray[np.object_], known: dict[str, int]) -> NDArray[np.int32]:
    """Codes of labels, with new classes added to those that are known; −1 for a missing one."""
    codes, classes = pd.factorize(labels)
    places = [known.setdefault(str(name), len(known)) for name in classes]
    return np.array([*places, -1], dtype=np.int32)[codes]


# ---- reading -----------------------------------------------------------------------------------


def _open_rows(dataset: Dataset, folder: Path) -> MappedRows:
    try:
        facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
        X: MappedTable = np.load(folder / _ARRAY, mmap_mode="r").view(MappedTable)
        labels = {
            name: np.load(folder / _label_file(dataset, name)) for name in dataset.label_columns
        }
        left_out = np.load(folder / _LEFT_OUT)
        classes = {name: tuple(known) for name, known in facts["classes"].items()}
        if X.shape != (facts["kept"], len(dataset.feature_names)):
            raise ValueError(f"it has the shape {X.shape}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"The array in {str(folder)!r} is damaged ({error}). Remove that folder, and fit again."
        ) from error
    X.columns = tuple(dataset.transformed_names)
    return MappedRows(
        X=X,
        labels=labels,
        classes=classes,
        sampled=np.array(facts["sampled"], dtype=np.intp),
        n_rows=int(facts["rows"]),
        left_out=left_out,
        notes=tuple(facts["notes"]),
    )
