"""Standardisation to zero mean and unit variance, with constant columns set aside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lvmcore.blocks import blocks
from lvmcore.errors import DataError

__all__ = ["Standardiser"]

FloatArray = NDArray[np.float64]

# A column whose sd is below this share of its largest magnitude varies by rounding alone.
CONSTANT_BELOW = 1e-14


@dataclass(frozen=True)
class Standardiser:
    """Column means and scales; NaN cells pass through.

    Attributes:
        mean: column means, [D].
        scale: column standard deviations (ddof 0), 1 where constant, [D].
        constant: True for the columns that are set aside, [D].
        names: column names, for messages.
    """

    mean: FloatArray
    scale: FloatArray
    constant: NDArray[np.bool_]
    names: tuple[str, ...]

    @classmethod
    def fit(cls, data: NDArray[Any], names: list[str]) -> Self:
        """Measure the columns of ``data`` [N, D], some rows at a time.

        Raises:
            DataError: a column has no value at all, or every column is constant.
        """
        sums = _Sums(data.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            for block in blocks(data):
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
            for block in blocks(data):
                left = np.asarray(block, dtype=np.float64) - sums.first - shift
                squares += np.nansum(left * left, axis=0)
            sd = np.sqrt(squares / sums.counts)
        if not np.isfinite(sd).all():
            worst = names[int(np.argmax(~np.isfinite(sd)))]
            raise DataError(f"Column {worst} has values too large to be standardised: rescale it.")
        constant = sd <= CONSTANT_BELOW * np.maximum(sums.largest, np.finfo(np.float64).tiny)
        if constant.all():
            raise DataError(
                "Every column is constant, so there is nothing to map: expected at least one "
                "column whose values differ."
            )
        return cls(sums.first + shift, np.where(constant, 1.0, sd), constant, tuple(names))

    def unscaled(self) -> Self:
        """One that leaves the columns in their units, and sets the same ones aside."""
        return replace(
            self,
            mean=np.where(self.constant, self.mean, 0.0),
            scale=np.ones_like(self.scale),
        )

    def uncentred(self) -> Self:
        """One that divides each column by its sd and leaves 0 where it is."""
        return replace(self, mean=np.where(self.constant, self.mean, 0.0))

    def shared(self) -> Self:
        """One that centres the columns and divides all by the root mean square of their sds.

        For columns of one unit, such as pixels, whose sds say how much they matter.
        """
        scale = self.scale.copy()
        varying = ~self.constant
        scale[varying] = np.sqrt(np.mean(np.square(scale[varying])))
        return replace(self, scale=scale)

    def transform(self, data: FloatArray) -> FloatArray:
        """Standardised columns that vary, [N, D'], of ``data`` [N, D]."""
        keep = ~self.constant
        return (data[:, keep] - self.mean[keep]) / self.scale[keep]

    def inverse(self, Y: FloatArray) -> FloatArray:
        """Data units [N, D] from standardised columns [N, D']; constants take their value."""
        full = np.tile(self.mean, (len(Y), 1))
        full[:, ~self.constant] += Y * self.scale[~self.constant]
        return full

    def inverse_variance(self, variance: FloatArray) -> FloatArray:
        """Squared data units [N, D] from standardised variances [N, D']; constants have none."""
        full = np.zeros((len(variance), len(self.mean)))
        full[:, ~self.constant] = variance * self.scale[~self.constant] ** 2
        return full

    @property
    def log_scale(self) -> FloatArray:
        """Logarithms of the scales of the columns that vary, [D'].

        Their sum over a row's observed columns turns its log density into data units.
        """
        return np.asarray(np.log(self.scale[~self.constant]))

    def describe_constant(self) -> str:
        """One sentence that names the columns set aside."""
        names = [name for name, gone in zip(self.names, self.constant, strict=True) if gone]
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        return f"{len(names)} constant column{'s' * (len(names) > 1)} set aside: {shown}."

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What ``from_arrays`` needs."""
        return {
            "standardiser.mean": self.mean,
            "standardiser.scale": self.scale,
            "standardiser.constant": self.constant.astype(np.uint8),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], names: list[str]) -> Self:
        """Rebuild from ``arrays()``."""
        return cls(
            arrays["standardiser.mean"],
            arrays["standardiser.scale"],
            arrays["standardiser.constant"].astype(bool),
            tuple(names),
        )


class _Sums:
    """What one pass over the rows tells of the columns; NaN cells count for nothing.

    Values are centred on the first of their column, so that a large offset costs no digits.

    Attributes:
        first: first value, [D].
        counts: how many values there are, [D].
        shifted: sum of the values less the first, [D].
        largest: largest magnitude, [D].
        finite: whether every value less the first is finite.
    """

    def __init__(self, n_columns: int) -> None:
        self.first, self.shifted, self.largest = (np.zeros(n_columns) for _ in range(3))
        self.counts = np.zeros(n_columns, dtype=np.int64)
        self.finite = True

    def add(self, block: FloatArray) -> None:
        """Take in the next rows, [n, D]."""
        known = ~np.isnan(block)
        begins = block[known.argmax(axis=0), np.arange(block.shape[1])]
        self.first = np.where((self.counts == 0) & known.any(axis=0), begins, self.first)
        shifted = block - self.first
        self.finite = self.finite and bool(np.isfinite(shifted).all(where=known))
        self.counts += known.sum(axis=0)
        self.shifted = self.shifted + np.nansum(shifted, axis=0)
        self.largest = np.fmax(self.largest, np.fmax.reduce(np.abs(block), axis=0))
