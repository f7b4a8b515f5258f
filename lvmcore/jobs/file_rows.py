"""A fit to all rows of registered files, of which the dataset of the run is a sample."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lvmcore.data.dataset import Dataset
from lvmcore.data.long_tables.mapped_rows import MappedRows, map_rows
from lvmcore.errors import CancelledError, DataError, UnsupportedError
from lvmcore.jobs.fitting import StoppedError
from lvmcore.prediction.map_table import map_columns
from lvmcore.preprocessing.memory_mapped_rows import release_pages
from lvmcore.results import Posterior
from lvmcore.runs.run_files import PRIVATE_FOLDER

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.jobs.job_kind import JobContext

__all__ = ["DENSITY_ROWS", "FileRows", "density_sample", "read_file_rows", "refuse_files"]

#: Most rows whose positions are kept for the density picture of a map, and the seed of their draw.
DENSITY_ROWS, SEED = 1_000_000, 0
_BLOCK = 1 << 18


@dataclasses.dataclass(frozen=True)
class FileRows:
    """All rows of a fit whose files stay in place.

    Attributes:
        rows: The rows on disk.
        folder: Folder of their array if it is removed after the fit; else None.
    """

    rows: MappedRows
    folder: Path | None

    def keep_sample(self, model: LatentVariableModel, dataset: Dataset) -> Posterior:
        """Keep q(x) and the labels of the sampled rows alone in a model.

        Args:
            model: the model fitted to all rows, which is changed.
            dataset: the rows of the sample that the fit has.

        Returns:
            q(X) of all rows.

        Raises:
            DataError: the sample has other rows than the files.
        """
        rows = self.rows.sampled[self.rows.sampled >= 0]
        if len(rows) != len(dataset):
            raise DataError(
                f"The sample has {len(dataset):,} rows, and the files {len(rows):,} of them: "
                "register the table again."
            )
        whole = model.embedding_
        model.embedding_ = Posterior(whole.mean[rows], whole.variance[rows])
        model._labels = tuple(
            dataclasses.replace(column, codes=column.codes[rows]) for column in model._labels
        )
        return whole

    def write_map(self, whole: Posterior, path: Path, *, uncertain: bool) -> None:
        """Write the positions of all rows to a Parquet file, block by block.

        Its columns are those of ``embedding_frame``, with ``row``, the number of the row in the
        table from 1, in place of ``row_id``.

        Args:
            whole: q(X) of all rows.
            path: the file.
            uncertain: whether the model has variances.
        """
        release_pages(self.rows.X)
        positions = self.rows.positions()
        names = list(self.rows.labels)
        several = len(names) > 1
        label_names = {name: f"{name}: label" if several else "label" for name in names}
        draft = path.with_name(f".{path.name}.draft")
        writer = None
        try:
            for start in range(0, len(whole.mean), _BLOCK):
                part = slice(start, start + _BLOCK)
                columns: dict[str, Any] = {"row": positions[part] + 1}
                for name in names:
                    classes = [*self.rows.classes[name], None]
                    codes = self.rows.labels[name][part] % len(classes)
                    columns[label_names[name]] = pa.array(classes, pa.string()).take(
                        pa.array(codes)
                    )
                sd = np.sqrt(whole.variance[part]) if uncertain else None
                columns |= map_columns(whole.mean[part], sd)
                table = pa.table(columns)
                writer = writer or pq.ParquetWriter(draft, table.schema)
                writer.write_table(table)
        finally:
            if writer is not None:
                writer.close()
        draft.replace(path)

    def close(self) -> None:
        """Remove the array if it is for this fit alone."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def note(self, sample: int) -> str:
        """Note on what the results of the run are of."""
        n = len(self.rows.X)
        return (
            f"The fit has all {n:,} rows of the files, read from disk by mini-batches. The pages "
            f"and the figures about the map are of a sample of {sample:,} of them."
        )


def read_file_rows(context: JobContext, dataset: Dataset, model: type) -> FileRows:
    """Read all rows of the files of a dataset, with a check of their types.

    Args:
        context: the run; a run of a store keeps the array with the dataset.
        dataset: a sample of the rows of files.
        model: class of the model.

    Raises:
        DataError: a file changed, or a cell is not of the type of its column.
        StoppedError: a stop was requested.
        UnsupportedError: the model needs all rows in memory.
    """
    if not model.capabilities.streams:  # type: ignore[attr-defined]
        raise UnsupportedError(
            f"{model.title} needs all rows in memory, and the files of "  # type: ignore[attr-defined]
            f"{dataset.name!r} stay on disk. Choose Fast LDGD or the stochastic Bayesian GPLVM "
            "(GPLVM-SVI), which read them by mini-batches; or upload a part of the rows."
        )
    own = context.store is None
    folder = (
        context.folder.path / "rows"
        if context.store is None
        else context.store.datasets.root / dataset.digest / "rows"
    )
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    context.enter("reading")
    try:
        rows = map_rows(dataset, folder, lambda *_: context.monitor.should_stop() is not None)
    except CancelledError as error:
        raise StoppedError(context.monitor.should_stop() or "interrupted") from error
    finally:
        if own and not (folder / "rows.json").is_file():
            shutil.rmtree(folder, ignore_errors=True)
    return FileRows(rows, folder if own else None)


def refuse_files(dataset: Dataset, activity: str) -> None:
    """Check that a dataset holds all its rows.

    Args:
        dataset: the dataset.
        activity: what needs all of them, as the beginning of a sentence.

    Raises:
        UnsupportedError: it is a sample of the rows of files.
    """
    if dataset.files is not None:
        raise UnsupportedError(
            f"{activity} needs all rows in memory, and the files of {dataset.name!r} stay on disk. "
            "Upload a part of the rows as a table of its own."
        )


def density_sample(whole: Posterior) -> pd.DataFrame:
    """Positions of at most ``DENSITY_ROWS`` rows, drawn at random, in single precision."""
    mean, n = whole.mean, len(whole.mean)
    rows = np.arange(n)
    if n > DENSITY_ROWS:
        rows = np.sort(np.random.default_rng(SEED).choice(n, DENSITY_ROWS, replace=False))
    columns: dict[str, Any] = {"row_id": rows + 1}
    columns |= {f"z{q + 1}": mean[rows, q].astype(np.float32) for q in range(mean.shape[1])}
    return pd.DataFrame(columns)
