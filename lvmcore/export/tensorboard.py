"""A run as a folder of logs that TensorBoard opens: curves, and the map for its projector."""

from __future__ import annotations

import io
import math
import struct
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

from lvmcore.errors import DataError
from lvmcore.export.curves import BOUND, curves_frame
from lvmcore.prediction.label_columns import label_cells
from lvmcore.runs.store import Store

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from lvmcore.data.dataset import Dataset

__all__ = ["event_records", "tensorboard_zip"]

#: TensorBoard takes a file for one of events by this part of its name.
_EVENTS = "events.out.tfevents.latentboard"
_PROJECTOR = """embeddings {
  tensor_name: "latent mean"
  tensor_path: "latent.tsv"
  metadata_path: "metadata.tsv"
}
"""


def tensorboard_zip(
    store: Store, run: str, placed: tuple[Dataset, NDArray[np.float64]] | None = None
) -> bytes:
    """The logs of a run: its curves as scalars, and its rows as points of the projector.

    Args:
        store: the store that holds the run.
        run: its id.
        placed: the rows of the fit and their latent means [N, Q]; None for a run without a map.

    Returns:
        A ZIP file with one folder, that of the run: events, vectors, names and a configuration.

    Raises:
        DataError: there is no such run, or it has neither curves nor a map.
    """
    job = store.get(run)
    curves = curves_frame(store, [run])
    if placed is None and not len(curves):
        raise DataError("The run has neither curves nor a map to write.")
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        if len(curves):
            began = datetime.fromisoformat(job.spec.created).timestamp()
            archive.writestr(f"{run}/{_EVENTS}", b"".join(event_records(_steps(curves), began)))
        if placed is not None:
            dataset, means = placed
            names = {"row_id": dataset.row_ids.tolist(), **label_cells(dataset)}
            archive.writestr(f"{run}/latent.tsv", _tsv(means.T.tolist()))
            archive.writestr(f"{run}/metadata.tsv", _names(names))
            archive.writestr(f"{run}/projector_config.pbtxt", _PROJECTOR)
    return sink.getvalue()


def _steps(curves: pd.DataFrame) -> Iterator[tuple[float, int, dict[str, float]]]:
    """Seconds, step and values by tag of each recorded step."""
    for _, rows in curves.groupby(["start", "step"], sort=False):
        start, step, seconds = rows[["start", "step", "seconds"]].iloc[0]
        tags = ["bound" if term == BOUND else f"terms/{term}" for term in rows["term"]]
        if start > 1:
            tags = [f"start {start:.0f}/{tag}" for tag in tags]
        yield float(seconds), int(step), dict(zip(tags, rows["value"], strict=True))


def event_records(
    steps: Iterable[tuple[float, int, dict[str, float]]], began: float
) -> Iterator[bytes]:
    """Scalars as the records of an event file: TFRecords of ``tensorflow.Event`` messages.

    TensorBoard's own writer needs gRPC and a web server beside it; these are the few messages
    that a scalar takes. Values that are not finite are left out.

    Args:
        steps: seconds since the beginning, step, and values by tag.
        began: the beginning, seconds since 1970.

    Yields:
        One record each, the version of the file first.
    """
    yield _record(_double(1, began) + _bytes(3, b"brain.Event:2"))
    for seconds, step, values in steps:
        summary = b"".join(
            _bytes(1, _bytes(1, tag.encode()) + _float(2, value))
            for tag, value in values.items()
            if math.isfinite(value)
        )
        yield _record(_double(1, began + seconds) + _integer(2, step) + _bytes(5, summary))


def _record(message: bytes) -> bytes:
    length = struct.pack("<Q", len(message))
    return length + _checksum(length) + message + _checksum(message)


def _checksum(content: bytes) -> bytes:
    """The masked CRC-32C of a record."""
    table, crc = _crc_table(), 0xFFFFFFFF
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


@cache
def _crc_table() -> Sequence[int]:
    """CRC-32C (polynomial 0x1EDC6F41, reflected) of each byte."""
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


# The fields of a protocol buffer: number and wire type, then the value.
def _double(number: int, value: float) -> bytes:
    return bytes([number << 3 | 1]) + struct.pack("<d", value)


def _float(number: int, value: float) -> bytes:
    return bytes([number << 3 | 5]) + struct.pack("<f", value)


def _integer(number: int, value: int) -> bytes:
    return bytes([number << 3]) + _varint(value)


def _bytes(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _names(columns: dict[str, Sequence[object]]) -> bytes:
    """Names of rows; a single column has no header in TensorBoard's format."""
    header = [[name] for name in columns] if len(columns) > 1 else [[]]
    return _tsv([[*head, *cells] for head, cells in zip(header, columns.values(), strict=True)])


def _tsv(columns: Sequence[Sequence[object]]) -> bytes:
    """Columns with tabs between them; tabs and line breaks of a cell become spaces."""
    rows = zip(*([_cell(value) for value in column] for column in columns), strict=True)
    return "".join("\t".join(row) + "\n" for row in rows).encode()


def _cell(value: object) -> str:
    return " ".join(str(value).split()) or "-"
