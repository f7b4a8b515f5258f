"""A sample of the rows of large files, as the content of one small file of the same format."""

import gzip
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lvmcore.data.readers.parquet import is_parquet
from lvmcore.data.source import check_signature, open_regular_file
from lvmcore.errors import DataError

__all__ = ["FileSample", "file_head", "sample_files"]

#: Most row groups of Parquet files that the sample is drawn from.
_MOST_GROUPS = 64
#: Bytes of text that the sample is cut from.
_TEXT_BYTES = 4 << 20
_HEAD_BYTES = 1 << 16


@dataclass(frozen=True)
class FileSample:
    """A sample of the rows of files.

    Attributes:
        content: A file of the same format with the sampled rows.
        rows: Number of rows of each file; empty where it is unknown.
        sampled: First row and number of rows of each part of the table that is in the sample.
    """

    content: bytes
    rows: tuple[int, ...] = ()
    sampled: tuple[tuple[int, int], ...] = ()


def sample_files(paths: Sequence[Path], rows: int) -> FileSample:
    """Sample the rows of files of one table.

    Of Parquet files, the first rows of row groups at equal distances; of a text file, the first
    rows of the first file.

    Args:
        paths: The files, in the order of their rows.
        rows: Most rows of the sample.

    Raises:
        DataError: A file is neither Parquet nor text, is damaged, or has other columns than the
            first one; the message names it.
    """
    heads = [file_head(path) for path in paths]
    kinds = {is_parquet(head) for head in heads}
    if len(kinds) > 1:
        other = next(p for p, head in zip(paths, heads, strict=True) if not is_parquet(head))
        raise DataError(f"{other.name!r} is not Parquet, as others of the files are.")
    if kinds == {True}:
        return _sample_parquet(paths, rows)
    for path, head in zip(paths, heads, strict=True):
        check_signature(head, path.name)
    _check_equal_headers(paths, heads)
    return _sample_text(paths[0], rows)


def file_head(path: Path, size: int = _HEAD_BYTES) -> bytes:
    """The first bytes of a file, after decompression."""
    try:
        with open_regular_file(path) as file:
            head = file.read(2)
            file.seek(0)
            if head == b"\x1f\x8b":
                with gzip.open(file) as unpacked:
                    return unpacked.read(size)
            return file.read(size)
    except (OSError, EOFError) as error:
        raise DataError(f"The file {str(path)!r} cannot be read: {error}.") from error


def _check_equal_headers(paths: Sequence[Path], heads: Sequence[bytes]) -> None:
    """Check that the first line of all text files is the same."""
    first = _first_line(heads[0])
    for path, head in zip(paths[1:], heads[1:], strict=True):
        if _first_line(head) != first:
            raise DataError(
                f"The first line of {path.name!r} is not that of {paths[0].name!r}: expected the "
                "same header in all files of a table."
            )


def _first_line(head: bytes) -> bytes:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0].strip()


def _sample_text(path: Path, rows: int) -> FileSample:
    """The first lines of a text file that are whole."""
    head = file_head(path, _TEXT_BYTES)
    lines = head.splitlines(keepends=True)
    if len(head) == _TEXT_BYTES:
        lines = lines[:-1]
    lines = lines[: rows + 1]
    # A line inside quotation marks is not the end of a row.
    while len(lines) > 1 and sum(line.count(b'"') for line in lines) % 2:
        lines.pop()
    return FileSample(b"".join(lines))


def _sample_parquet(paths: Sequence[Path], rows: int) -> FileSample:
    counts: list[int] = []
    groups: list[tuple[int, Path, int, int]] = []  # first row, file, row group, rows
    first: Any = None
    for path in paths:
        with _opened(path) as file:
            schema = file.schema_arrow.remove_metadata()
            first = schema if first is None else first
            _check_schema(schema, first, path, paths[0])
            start = sum(counts)
            for index in range(file.metadata.num_row_groups):
                size = file.metadata.row_group(index).num_rows
                if size:
                    groups.append((start, path, index, size))
                start += size
            counts.append(file.metadata.num_rows)
    if not groups:
        raise DataError(f"{paths[0].name!r} has no rows. Expected at least one.")
    chosen = groups
    if sum(counts) > rows and len(groups) > _MOST_GROUPS:
        chosen = [groups[k * len(groups) // _MOST_GROUPS] for k in range(_MOST_GROUPS)]
    share = sum(counts) if sum(counts) <= rows else max(1, rows // len(chosen))
    parts, sampled = [], []
    for start, path, index, size in chosen:
        with _opened(path) as file:
            part = _first_rows(file, index, min(share, size))
        parts.append(part.replace_schema_metadata(None))
        sampled.append((start, part.num_rows))
    sink = io.BytesIO()
    pq.write_table(pa.concat_tables(parts), sink)
    return FileSample(sink.getvalue(), tuple(counts), tuple(sampled))


def _first_rows(file: Any, group: int, rows: int) -> Any:
    """The first rows of a row group; more pages than these need are not decoded."""
    try:
        found = next(file.iter_batches(batch_size=rows, row_groups=[group]))
        return pa.Table.from_batches([found])
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise DataError(f"A Parquet file is damaged or cut off: {error}.") from error


def _opened(path: Path) -> Any:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path.name!r} begins like Parquet and cannot be read: it is damaged or cut off. Copy "
            "or save it again."
        ) from error


def _check_schema(schema: Any, first: Any, path: Path, of: Path) -> None:
    """Check that a file has the columns of the first one, of the same types."""
    for name in first.names:
        if name not in schema.names:
            raise DataError(
                f"{path.name!r} has no column {name!r}, which {of.name!r} has: expected the same "
                "columns in all files of a table."
            )
        here, there = schema.field(name).type, first.field(name).type
        if here != there:
            raise DataError(
                f"Column {name!r} of {path.name!r} is {here}, and {there} in {of.name!r}: expected "
                "the same types in all files of a table."
            )
