"""A fitted model with what it needs to place, predict or impute a block of rows of files."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lvmcore.data.dataset import Dataset, labels_as_text
from lvmcore.data.date_scales import DateScale
from lvmcore.data.long_tables.file_blocks import ArrowBlock, arrow_blocks, block_table
from lvmcore.data.new_tables.column_matching import ColumnMatching, match_columns
from lvmcore.data.new_tables.matching_dataset import BinaryCode, matching_dataset
from lvmcore.data.table import Table
from lvmcore.data.table_files import TableFiles
from lvmcore.errors import DataError
from lvmcore.jobs.file_blocks.filled_block import filled_block
from lvmcore.jobs.predict import predict_rows
from lvmcore.models import AnyModel, load
from lvmcore.numerics.array_types import FloatArray
from lvmcore.prediction.placement import place_rows

__all__ = ["Application", "BlockModel"]

#: What is computed of each row: its position, its target, or its missing cells.
Application = Literal["project", "predict", "impute"]
#: Rows from which the columns of a result are taken.
_SCHEMA_ROWS = 256


@dataclass(frozen=True)
class BlockModel:
    """A fitted model and the columns that it is applied to; other processes get a copy.

    Attributes:
        application: what is computed.
        content: the model file.
        files: the files of the rows.
        names: names of the features, in the model's order.
        origin: a few rows of the fit, whose columns the matching goes by; None without any.
        codes: codes of the binary columns of the fit, None of a number.
        date_scales: units and origins of the dates of the fit.
        row_id: column of the row ids; None numbers the rows from 1.
        labels: label columns to compare with, by the names of those of the fit.
        target: name of the column that the model predicts.
        target_column: the column of the files that has it; "" for none.
        surprise: whether placed rows are compared with the fit.
        known: surprises of rows of the fit; None without them.
        details: whether an imputed table has the sds of its filled cells.
        schema: columns of a result; None until it is known (``with_schema``).
    """

    application: Application
    content: bytes
    files: TableFiles
    names: tuple[str, ...]
    origin: Dataset | None = None
    codes: Mapping[str, BinaryCode | None] | None = None
    date_scales: Mapping[str, DateScale] | None = None
    row_id: str | None = None
    labels: Mapping[str, str] | None = None
    target: str = ""
    target_column: str = ""
    surprise: bool = False
    known: FloatArray | None = None
    details: bool = False
    schema: Any = None

    @cached_property
    def model(self) -> AnyModel:
        """The fitted model."""
        with tempfile.TemporaryDirectory(prefix="latentboard-model-") as folder:
            path = Path(folder) / "model.safetensors"
            path.write_bytes(self.content)
            if self.application == "predict":
                return load(path, "target")
            return load(path, "map")

    def with_schema(self, sample: Dataset) -> BlockModel:
        """The same with the columns of its results, from those of a few rows.

        Args:
            sample: rows of the files with the features of the model.

        Raises:
            DataError: no row of the sample can be used.
        """
        if self.application == "impute":
            block = next(arrow_blocks(self.files, self.columns, rows=_SCHEMA_ROWS))
            table = block_table(block, self.files, sample.name)
            found = self._filled(self._rows(table), block)
        else:
            usable = sample if self.model.capabilities.missing_cells else _usable(sample)
            found = self._computed(usable.subset(np.arange(min(len(usable), _SCHEMA_ROWS))))
        return replace(self, schema=_settled(found.schema))

    @property
    def columns(self) -> list[str] | None:
        """The columns that are read; None for all."""
        if self.application == "impute":
            return None
        others = {self.row_id, self.target_column, *(self.labels or {}).values()}
        wanted = {*self._matching.columns.values(), *others}
        return [name for name, _ in self.files.columns if name in wanted]

    @property
    def _matching(self) -> ColumnMatching:
        """The columns of the files by those of the model."""
        empty = pd.DataFrame({name: [0.0] for name, _ in self.files.columns})
        origin = () if self.origin is None else tuple(map(str, self.origin.frame.columns))
        others = {self.row_id, *(self.labels or {}).values()} - {None}
        return match_columns(Table.from_frame(empty), self.names, origin=origin, others=others)

    def apply(self, block: ArrowBlock) -> bytes:
        """The results of a block of rows, as a Parquet file.

        Raises:
            DataError: a cell cannot be used; the message names the file, the row and the column.
        """
        table = block_table(block, self.files, Path(block.file).name)
        try:
            rows = self._rows(table)
            if self.application == "impute":
                found = self._filled(rows, block)
            elif self._usable_rows(rows).any():
                found = self._computed(rows)
                at = found.column("row_id").cast(pa.int64()).to_numpy() - 1
                ids = pa.array(self._row_ids(table.frame, at, block.start), pa.string())
                found = found.set_column(0, "row_id", ids)
            else:
                found = self._without_results(rows, table.frame, block.start)
        except DataError as error:
            raise DataError(f"In {Path(block.file).name!r}: {error}") from error
        sink = io.BytesIO()
        pq.write_table(_cast(found, self.schema), sink)
        return sink.getvalue()

    def _rows(self, table: Table) -> Dataset:
        return matching_dataset(
            table,
            self.names,
            label=dict(self.labels or {}),
            origin=self.origin,
            codes=self.codes,
            date_scales=self.date_scales,
            missing_cells=self.model.capabilities.missing_cells,
        )

    def _usable_rows(self, rows: Dataset) -> NDArray[np.bool_]:
        """The rows with the cells that the model needs, [n]."""
        if self.application == "project" and self.model.capabilities.missing_cells:
            return np.ones(len(rows), dtype=bool)
        optional = getattr(self.model, "optional_columns_", ())
        needed = [d for d, name in enumerate(rows.transformed_names) if name not in optional]
        return np.asarray(~np.isnan(rows.X[:, needed]).any(axis=1))

    def _computed(self, rows: Dataset) -> Any:
        """Positions or predictions of rows, an Arrow table."""
        model: Any = self.model
        if self.application == "project":
            found = place_rows(model, rows, None, surprise=self.surprise, known=self.known).frame
        else:
            found = predict_rows(model, rows, self.target).frame
        return pa.Table.from_pandas(found, preserve_index=False)

    def _filled(self, rows: Dataset, block: ArrowBlock) -> Any:
        """The rows of a block with their missing cells filled, an Arrow table."""
        model: Any = self.model
        return filled_block(model, rows, block.cells, self._matching, details=self.details)

    def _row_ids(
        self, frame: pd.DataFrame, at: NDArray[np.int64], start: int
    ) -> NDArray[np.object_]:
        """The ids of the rows at positions of a block."""
        if self.row_id is None:
            return (at + (start + 1)).astype(str).astype(object)
        return labels_as_text(frame[self.row_id].iloc[at])

    def _without_results(self, rows: Dataset, frame: pd.DataFrame, start: int) -> Any:
        """The result of a block of which no row can be used."""
        if self.application == "project":
            return self.schema.empty_table()
        ids = self._row_ids(frame, rows.rows.astype(np.int64), start)
        return pa.table({"row_id": pa.array(ids, pa.string())})

    def __getstate__(self) -> dict[str, Any]:
        """Without the loaded model: each process loads its own."""
        kept = dict(self.__dict__)
        kept.pop("model", None)
        return kept


def _usable(whole: Dataset) -> Dataset:
    """Rows of a sample without a missing cell; raises DataError where there is none."""
    found = whole.subset(np.asarray(~np.isnan(whole.X).any(axis=1))) if len(whole) else whole
    if not len(found):
        raise DataError(
            f"Every row of the sample of {whole.name!r} lacks a cell that the model needs."
        )
    return found


def _settled(schema: Any) -> Any:
    """A schema in which texts are strings, and columns without any cell too."""
    fields = []
    for field in schema.remove_metadata():
        text = any(
            test(field.type)
            for test in (pa.types.is_null, pa.types.is_large_string, pa.types.is_string)
        )
        fields.append(pa.field(field.name, pa.string() if text else field.type))
    return pa.schema(fields)


def _cast(table: Any, schema: Any) -> Any:
    """A result in the columns and types of a schema; a column that it lacks is null."""
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
