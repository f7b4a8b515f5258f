"""Names of rows that are only numbers ("1", "2", …), made when they are needed."""

import json
from collections.abc import Iterator
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["RowNames", "RowNumbers", "json_chunks"]

#: Names that exist at a time.
_BLOCK = 1 << 16


class RowNumbers:
    """The names of rows without names: their positions in the table, counted from 1.

    It is indexed, compared, iterated and converted as the array of these strings would be, and
    takes the memory of the positions, which it shares: a string takes seven times as much.

    Args:
        rows: Positions of the rows, from 0 [N].
    """

    ndim = 1

    def __init__(self, rows: NDArray[np.integer[Any]]) -> None:
        self.rows = rows

    @property
    def shape(self) -> tuple[int]:
        """The number of names, as a tuple."""
        return (len(self.rows),)

    @property
    def size(self) -> int:
        """The number of names."""
        return len(self.rows)

    @property
    def dtype(self) -> np.dtype[np.str_]:
        """The type of the array of names: strings of the longest one's length."""
        longest = len(str(int(self.rows.max()) + 1)) if len(self.rows) else 1
        return np.dtype(f"<U{longest}")

    @property
    def distinct(self) -> bool:
        """Whether all names are different."""
        if np.all(self.rows[1:] > self.rows[:-1]):
            return True
        return len(np.unique(self.rows)) == len(self.rows)

    @property
    def consecutive(self) -> bool:
        """Whether the names are "1", "2", … in this order."""
        return bool((self.rows == np.arange(len(self.rows))).all())

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self.rows), _BLOCK):
            yield from self._names(start)

    def _names(self, start: int) -> list[str]:
        """A block of names."""
        return list(map(str, (self.rows[start : start + _BLOCK] + 1).tolist()))

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> str: ...

    @overload
    def __getitem__(self, index: slice | NDArray[Any] | list[int]) -> "RowNumbers": ...

    def __getitem__(
        self, index: int | np.integer[Any] | slice | NDArray[Any] | list[int]
    ) -> "str | RowNumbers":
        found = self.rows[index]
        return RowNumbers(found) if isinstance(found, np.ndarray) else str(int(found) + 1)

    def __eq__(self, other: object) -> NDArray[np.bool_]:  # type: ignore[override]
        if isinstance(other, str):
            whole = other.isascii() and other.isdigit() and str(int(other[:20])) == other
            return np.asarray(
                self.rows == int(other) - 1 if whole else np.zeros(len(self), dtype=bool)
            )
        if isinstance(other, RowNumbers) and len(self) == len(other):
            return np.asarray(self.rows == other.rows)
        return np.asarray(np.asarray(self) == np.asarray(other))

    def __ne__(self, other: object) -> NDArray[np.bool_]:  # type: ignore[override]
        return ~(self == other)

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("The names do not exist as an array: a copy cannot be avoided.")
        return (self.rows + 1).astype(self.dtype if dtype is None else dtype)

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3].tolist())) + (", …" if len(self) > 3 else "")
        return f"RowNumbers([{shown}], N={len(self)})"

    def tolist(self) -> list[str]:
        """The names as a list of strings."""
        return list(self)


#: Names of rows.
RowNames: TypeAlias = NDArray[np.str_] | RowNumbers


def json_chunks(names: RowNames) -> Iterator[str]:
    """The list of names as `json.dumps` writes it, in parts."""
    if not isinstance(names, RowNumbers):
        yield json.dumps(names.tolist())
        return
    yield "["
    for start in range(0, len(names), _BLOCK):
        block = '", "'.join(names._names(start))
        yield f', "{block}"' if start else f'"{block}"'
    yield "]"
