"""Standardisation to zero mean and unit variance; constant columns are removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lvmcore.errors import DataError
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.row_blocks import row_blocks

__all__ = ["Standardiser"]


# A column with a smaller sd relative to its largest magnitude is constant up to rounding.
CONSTANT_TOLERANCE = 1e-14


@dataclass(frozen=True)
class Standardiser:
    """Column means and scales; NaN cells pass through.

    Attributes:
        mean: column means, [D].
        scale: column standard deviations (ddof 0), 1 where constant, [D].
        constant: True for the removed constant columns, [D].
        names: column names, for messages.
    """

    mean: FloatArray
    scale: FloatArray
    constant: NDArray[np.bool_]
    names: tuple[str, ...]

    @classmethod
    def fit(cls, data: NDArray[Any], names: list[str]) -> Self:
        """Compute means and scales of the columns of ``data`` [N, D], in blocks of rows.

        Raises:
            DataError: a column has no observed value, or every column is constant.
        """
        sums = _ColumnSums(data.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            for block in row_blocks(data):
                sums.add(np.asarray(block, dtype=np.float64))
            if not sums.counts.all():
                raise DataError(
                    f"Column {names[int(np.argmin(sums.counts))]} has no value at all: leave it "
                    "out."
                )
            if not sums.finite:
                raise DataError("The values are too large to be standardised: rescale the columns.")
            shift = sums.shifted / sums.counts
            squares = np.zeros(data.shape[1])
            for block in row_blocks(data):
                left = np.asarray(block, dtype=np.float64) - sums.first - shift
                squares += np.nansum(left * left, axis=0)
            sd = np.sqrt(squares / sums.counts)
        if not np.isfinite(sd).all():
            worst = names[int(np.argmax(~np.isfinite(sd)))]
            raise DataError(f"Column {worst} has values too large to be standardised: rescale it.")
        constant = sd <= CONSTANT_TOLERANCE * np.maximum(sums.largest, np.finfo(np.float64).tiny)
        if constant.all():
            raise DataError(
                "Every column is constant, so there is nothing to map: expected at least one "
                "column whose values differ."
            )
        return cls(sums.first + shift, np.where(constant, 1.0, sd), constant, tuple(names))

    def unscaled(self) -> Self:
        """A standardiser without centring and scaling, with the same constant columns."""
        return replace(
            self,
            mean=np.where(self.constant, self.mean, 0.0),
            scale=np.ones_like(self.scale),
        )

    def uncentred(self) -> Self:
        """A standardiser that divides each column by its sd without centring."""
        return replace(self, mean=np.where(self.constant, self.mean, 0.0))

    def shared(self) -> Self:
        """A standardiser with one scale for all columns, the root mean square of their sds.

        For columns in one unit, such as pixels, whose sds reflect their importance.
        """
        scale = self.scale.copy()
        varying = ~self.constant
        scale[varying] = np.sqrt(np.mean(np.square(scale[varying])))
        return replace(self, scale=scale)

    def transform(self, data: FloatArray) -> FloatArray:
        """The standardised non-constant columns, [N, D'], of ``data`` [N, D]."""
        keep = ~self.constant
        return (data[:, keep] - self.mean[keep]) / self.scale[keep]

    def inverse_transform(self, Y: FloatArray) -> FloatArray:
        """Data units [N, D] from standardised columns [N, D']; constant columns get their value."""
        full = np.tile(self.mean, (len(Y), 1))
        full[:, ~self.constant] += Y * self.scale[~self.constant]
        return full

    def inverse_transform_variance(self, variance: FloatArray) -> FloatArray:
        """Squared data units [N, D] from standardised variances [N, D']; 0 for constant columns."""
        full = np.zeros((len(variance), len(self.mean)))
        full[:, ~self.constant] = variance * self.scale[~self.constant] ** 2
        return full

    @property
    def log_scale(self) -> FloatArray:
        """Logarithms of the scales of the non-constant columns, [D'].

        Their sum over a row's observed columns converts its log density to data units.
        """
        return np.asarray(np.log(self.scale[~self.constant]))

    @property
    def varying_names(self) -> list[str]:
        """Names of the columns that vary, [D]."""
        return [name for name, gone in zip(self.names, self.constant, strict=True) if not gone]

    def describe_constant(self) -> str:
        """One sentence that names the removed columns."""
        names = [name for name, gone in zip(self.names, self.constant, strict=True) if gone]
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        return f"{len(names)} constant column{'s' * (len(names) > 1)} set aside: {shown}."

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state, for ``from_arrays``."""
        return {
            "standardiser.mean": self.mean,
            "standardiser.scale": self.scale,
            "standardiser.constant": self.constant.astype(np.uint8),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], names: list[str]) -> Self:
        """Rebuild from ``arrays()``.

        Raises:
            DataError: the arrays do not describe so many columns, or no standardisation.
        """
        mean, scale = arrays["standardiser.mean"], arrays["standardiser.scale"]
        constant = arrays["standardiser.constant"].astype(bool)
        shapes = {mean.shape, scale.shape, constant.shape}
        if shapes != {(len(names),)}:
            raise DataError(f"the moments of {len(names)} columns have the shapes {shapes}")
        if not (np.isfinite(mean) & np.isfinite(scale) & (scale > 0)).all() or constant.all():
            raise DataError("a column has no mean or no positive scale")
        return cls(mean, scale, constant, tuple(names))


class _ColumnSums:
    """Sums over the observed cells of each column, in one pass over the rows.

    Values are relative to the first of their column, against cancellation with large offsets.

    Attributes:
        first: first value, [D].
        counts: number of values, [D].
        shifted: sum of the values less the first, [D].
        largest: largest magnitude, [D].
        finite: whether every value less the first is finite.
    """

    def __init__(self, n_columns: int) -> None:
        self.first, self.shifted, self.largest = (np.zeros(n_columns) for _ in range(3))
        self.counts = np.zeros(n_columns, dtype=np.int64)
        self.finite = True

    def add(self, block: FloatArray) -> None:
        """Add the next rows, [n, D]."""
        known = ~np.isnan(block)
        begins = block[known.argmax(axis=0), np.arange(block.shape[1])]
        self.first = np.where((self.counts == 0) & known.any(axis=0), begins, self.first)
        shifted = block - self.first
        self.finite = self.finite and bool(np.isfinite(shifted).all(where=known))
        self.counts += known.sum(axis=0)
        self.shifted = self.shifted + np.nansum(shifted, axis=0)
        self.largest = np.fmax(self.largest, np.fmax.reduce(np.abs(block), axis=0))
