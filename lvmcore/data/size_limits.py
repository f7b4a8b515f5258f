"""Limits of a table that is read into memory, the same for every file format."""

from lvmcore.errors import DataError

__all__ = [
    "MAX_BYTES",
    "MAX_CELLS",
    "MAX_COLUMNS",
    "MAX_ROWS",
    "check_compression_ratio",
    "check_decoded_bytes",
    "check_density",
    "check_size",
    "too_large_error",
]

#: Limit of a content after decompression, and of the cells of a table, in bytes.
MAX_BYTES = 2 * 1024**3
#: Limits of the numbers of rows, columns and cells.
MAX_ROWS = 50_000_000
MAX_COLUMNS = 20_000
MAX_CELLS = 200_000_000

#: Compressed content above this size and ratio is rejected: tables never compress so well.
_BOMB_BYTES = 16 * 1024**2
_BOMB_RATIO = 200
#: A table of more cells than this is rejected if fewer than one in so many are filled.
_SPARSE_CELLS = 2_000_000
_SPARSE_SHARE = 200
_LONG_TABLES = (
    "Leave out rows or columns; from Python, lvmcore.data.memory_mapped converts a longer table of "
    "numbers (Parquet or CSV) to an array on disk, which Fast LDGD fits"
)


def check_size(rows: int, columns: int, name: str) -> None:
    """Check a table's rows, columns and cells against the limits; raises DataError."""
    if columns > MAX_COLUMNS:
        raise DataError(
            f"{name!r} has {columns:,} columns, more than the {MAX_COLUMNS:,} that are read. "
            "Expected one row per observation: is the table turned on its side? If not, leave out "
            "columns."
        )
    if rows > MAX_ROWS:
        raise DataError(
            f"{name!r} has {rows:,} rows, more than the {MAX_ROWS:,} that are read. {_LONG_TABLES}."
        )
    if rows * columns > MAX_CELLS:
        raise DataError(
            f"{name!r} has {rows:,} rows of {columns:,} columns, {rows * columns:,} cells, more "
            f"than the {MAX_CELLS:,} that are read. {_LONG_TABLES}."
        )


def check_decoded_bytes(size: int, name: str, max_bytes: int = MAX_BYTES) -> None:
    """Check the size of the cells in memory against the limit.

    A file can be small and its cells large: repeated texts are stored once in Parquet and XLSX.

    Args:
        size: Bytes of the cells: 8 for a number, the length of a text.
        name: Name of the file in messages.
        max_bytes: The limit.

    Raises:
        DataError: The size exceeds the limit.
    """
    if size > max_bytes:
        raise DataError(
            f"The cells of {name!r} take {size / 1e6:,.0f} MB in memory or more, above the "
            f"{max_bytes / 1e6:,.0f} MB that are read. {_LONG_TABLES}; long texts are best left "
            "out."
        )


def check_density(rows: int, columns: int, filled: int, name: str) -> None:
    """Check that a large table is not almost empty; raises DataError."""
    if rows * columns > _SPARSE_CELLS and rows * columns > _SPARSE_SHARE * filled:
        raise DataError(
            f"{name!r} has {filled:,} filled cells scattered over {rows:,} rows and {columns:,} "
            "columns. That is no table: look for stray cells far out, or for names that change "
            "from row to row, and remove them."
        )


def check_compression_ratio(size: int, packed: int, name: str) -> None:
    """Check against a decompression bomb: ``size`` bytes from ``packed``; raises DataError."""
    if size > _BOMB_BYTES and size > _BOMB_RATIO * packed:
        raise DataError(
            f"{name!r} unpacks to more than {_BOMB_RATIO} times its size: {packed / 1e6:.1f} MB "
            f"became {size / 1e6:.0f} MB or more. That is no table, so it was not unpacked "
            "further. If it is one, unpack it first and load the file that results."
        )


def too_large_error(name: str, max_bytes: int) -> DataError:
    """The error for a content of more than ``max_bytes`` bytes."""
    return DataError(
        f"{name!r} is larger than {max_bytes / 1e6:,.0f} MB, the most that is read. Expected a "
        "smaller table: leave out rows or columns, or save numbers with fewer digits."
    )
