"""A table with its missing cells filled: its own columns in their order and format.

Observed cells are the texts of the file, where it was a text file, else their values; so are
columns that are no feature of the model. A filled number has as many decimals as the observed cells
of its column, with their decimal mark; one of a column of whole numbers is rounded and kept within
the range of the observed cells. A filled category is the level with the largest predicted mean. A
filled date is the nearest year, month, day or minute, in ISO 8601.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.build_dataset import binary_levels
from lvmcore.data.cell_texts import CellTexts, written_cells
from lvmcore.data.dataset import Dataset
from lvmcore.data.date_scales import DateScale
from lvmcore.data.new_tables.date_cells import date_cells
from lvmcore.data.transforms import one_hot_columns
from lvmcore.errors import DataError
from lvmcore.export.tables import safe_text
from lvmcore.numerics.array_types import FloatArray

__all__ = ["FilledTable", "ImputedFeature", "fill_table"]

_LEAST_PROBABILITY = 0.01
_MOST_DECIMALS = 17
_FULL_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
#: A number with what stands before and after it in all cells of its column, such as a unit.
_NUMBER = re.compile(
    r"([^\d+\-−.,]*)([+\-−]?[.,]?\d(?:[\d.,' \u00a0\u202f]*\d)?[.,]?(?:[eE][+-]?\d+)?)(.*)",
    re.DOTALL,
)


@dataclass(frozen=True)
class ImputedFeature:
    """A feature of a model with imputed cells.

    Attributes:
        values: its cells, imputed ones included, in the units of the table, [n].
        sd: predictive sd of the imputed cells, [n].
        imputed: which cells were imputed, [n].
    """

    values: FloatArray
    sd: FloatArray
    imputed: NDArray[np.bool_]


@dataclass(frozen=True)
class FilledTable:
    """A filled table.

    Attributes:
        frame: typed columns, in the order of the table, then those that the table lacks.
        texts: the same cells as text, by column.
        imputed: which cells were filled, by column; without the columns in which none was.
        details: sd or probability of the filled cells, NaN for others, and the mask of the filled
            cells, by the name of the further column.
        delimiter: the character between cells of a CSV file.
    """

    frame: pd.DataFrame
    texts: Mapping[str, list[str]]
    imputed: Mapping[str, NDArray[np.bool_]]
    details: pd.DataFrame
    delimiter: str

    def csv(self, *, details: bool = False) -> bytes:
        """The table as CSV (UTF-8, CRLF) with the delimiter of the file.

        Texts that a spreadsheet would run as formulas get a leading quote mark, as in every file
        (``lvmcore.export.tables``); all others are as they are.

        Args:
            details: whether to add the sd or probability and a flag of the filled cells.
        """
        further = self.details if details else self.details.iloc[:, :0]
        columns = [
            *map(self._safe, self.texts),
            *(written_cells(further[name]) for name in further),
        ]
        sink = io.StringIO(newline="")
        writer = csv.writer(sink, delimiter=self.delimiter, lineterminator="\r\n")
        writer.writerow([safe_text(str(name)) for name in (*self.texts, *further.columns)])
        writer.writerows(zip(*columns, strict=True))
        return sink.getvalue().encode()

    def _safe(self, name: str) -> list[str]:
        """The texts of a column without formulas."""
        number = pd.api.types.is_numeric_dtype(self.frame[name].dtype)
        return [safe_text(text, number=number) for text in self.texts[name]]

    def typed(self, *, details: bool = False) -> pd.DataFrame:
        """The table with typed columns."""
        return pd.concat([self.frame, self.details], axis="columns") if details else self.frame


def fill_table(
    dataset: Dataset,
    features: Mapping[str, ImputedFeature],
    rows: NDArray[np.intp] | None = None,
    columns: Mapping[str, str] | None = None,
) -> FilledTable:
    """Fill the missing cells of the table of a dataset.

    Args:
        dataset: the table.
        features: the features with imputed cells, by their names.
        rows: positions in the dataset of the rows of ``features``; None for all.
        columns: names of the table's columns by the features' names, where they differ.

    Raises:
        DataError: a feature has another number of rows.
    """
    at = np.arange(len(dataset)) if rows is None else rows
    for name, feature in features.items():
        if len(feature.values) != len(at):
            raise DataError(
                f"The imputed column {name!r} has {len(feature.values)} cells; expected {len(at)}."
            )
    found = _Filling(dataset, at)
    groups = one_hot_columns(dataset)
    levels = {dataset.feature_names[d] for group in groups.values() for d in group}
    for name, group in groups.items():
        names = [dataset.feature_names[d] for d in group]
        if all(one in features for one in names):
            found.fill_levels(
                name,
                [one.removeprefix(f"{name} = ") for one in names],
                [features[one] for one in names],
            )
    for name, feature in features.items():
        if name not in levels:
            scale = dataset.date_scales.get(name)
            found.fill_feature((columns or {}).get(name, name), feature, scale)
    return found.table()


class _Filling:
    """The columns of a table, which are filled one after the other."""

    def __init__(self, dataset: Dataset, rows: NDArray[np.intp]) -> None:
        self._frame, self._rows = dataset.frame.copy(), rows
        self._source = dataset.texts or CellTexts()
        self._texts = {str(name): self._column_texts(str(name)) for name in self._frame.columns}
        self._imputed: dict[str, NDArray[np.bool_]] = {}
        self._details: dict[str, dict[str, Any]] = {}

    def table(self) -> FilledTable:
        details = {
            title: cells
            for name in self._texts
            for title, cells in self._details.get(name, {}).items()
        }
        return FilledTable(
            self._frame,
            self._texts,
            self._imputed,
            pd.DataFrame(details, index=self._frame.index),
            self._source.delimiter,
        )

    def fill_levels(self, name: str, levels: list[str], features: list[ImputedFeature]) -> None:
        """Fill a category with the level of the largest mean."""
        share = np.column_stack([feature.values for feature in features])
        share = np.clip(share, _LEAST_PROBABILITY, None)
        self._fill_words(name, levels, share, features[0].imputed)

    def fill_feature(
        self, name: str, feature: ImputedFeature, dates: DateScale | None = None
    ) -> None:
        """Fill a column of numbers, of dates, or of two words."""
        if not feature.imputed.any():
            return
        if dates is not None:
            self._fill_dates(name, feature, dates)
            return
        if name not in self._frame:
            self._frame[name] = pd.Series(np.nan, index=self._frame.index)
            self._texts[name] = [""] * len(self._frame)
        column = self._frame[name]
        if pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
            self._fill_numbers(name, feature)
        else:
            share = np.clip(feature.values, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
            both = np.column_stack([1 - share, share])
            self._fill_words(name, list(binary_levels(column)), both, feature.imputed)

    def _fill_words(
        self, name: str, words: list[str], share: FloatArray, imputed: NDArray[np.bool_]
    ) -> None:
        filled = np.flatnonzero(imputed)
        rows = self._rows[filled]
        if not len(rows):
            return
        probability = share[filled] / share[filled].sum(axis=1, keepdims=True)
        level = probability.argmax(axis=1)
        column = self._frame[name]
        if pd.api.types.is_numeric_dtype(column.dtype):  # a category of codes
            code = {str(one): one for one in pd.unique(column.dropna()).tolist()}
            chosen: list[Any] = [code.get(words[k], words[k]) for k in level]
        else:
            chosen = [words[k] for k in level]
        cells = column.astype(object)
        cells.iloc[rows] = chosen
        self._frame[name] = cells.infer_objects()
        for row, k in zip(rows.tolist(), level.tolist(), strict=True):
            self._texts[name][row] = words[k]
        self._describe(name, "probability", rows, probability.max(axis=1))

    def _fill_dates(self, name: str, feature: ImputedFeature, scale: DateScale) -> None:
        filled = np.flatnonzero(feature.imputed)
        rows, values = self._rows[filled], feature.values[filled]
        column = self._frame[name] if name in self._frame else pd.Series(pd.NaT, self._frame.index)
        known = self._texts.setdefault(name, [""] * len(self._frame))
        whole_days = any(_FULL_DATE.match(text) for text in known)
        dates, written = scale.rounded_dates(values), scale.texts(values)
        if whole_days and scale.unit in ("year", "month"):  # as its other cells are
            written = ["" if np.isnat(date) else str(date.astype("M8[D]")) for date in dates]
        cells = scale.dates(scale.numbers(date_cells(name, column, scale)))
        cells[rows] = dates
        self._frame[name] = cells
        for row, text in zip(rows.tolist(), written, strict=True):
            known[row] = text
        self._describe(name, "sd", rows, feature.sd[filled])

    def _fill_numbers(self, name: str, feature: ImputedFeature) -> None:
        filled = np.flatnonzero(feature.imputed)
        rows, values = self._rows[filled], feature.values[filled]
        column = self._frame[name]
        if column.dtype.kind in "iub":
            observed = column.dropna().astype("int64")
            low, high = (observed.min(), observed.max()) if len(observed) else (None, None)
            values = np.clip(np.round(values), low, high)
            cells = column.astype("Int64").to_numpy(np.int64, copy=True, na_value=0)
            cells[rows] = values
            left = column.isna().to_numpy(copy=True)
            left[rows] = False
            whole = pd.Series(pd.arrays.IntegerArray(cells, left), index=column.index)
            self._frame[name] = whole.astype("boolean") if column.dtype.kind == "b" else whole
        else:
            numbers = column.to_numpy(np.float64, copy=True, na_value=np.nan)
            numbers[rows] = values
            self._frame[name] = numbers
        known = column.notna().to_numpy()
        texts = [self._texts[name][row] for row in np.flatnonzero(known)]
        if column.dtype.kind == "b":
            written = [str(bool(value)) for value in values]
        else:
            form = _NumberForm.of(
                texts, self._source.decimal(name), whole=column.dtype.kind in "iu"
            )
            written = [form.write(float(value)) for value in values]
        for row, text in zip(rows.tolist(), written, strict=True):
            self._texts[name][row] = text
        self._describe(name, "sd", rows, feature.sd[filled])

    def _describe(self, name: str, kind: str, rows: NDArray[np.intp], values: FloatArray) -> None:
        """Add the columns of details, and the mask of the filled cells."""
        spread, mask = np.full(len(self._frame), np.nan), np.zeros(len(self._frame), dtype=bool)
        spread[rows], mask[rows] = values, True
        self._imputed[name] = mask
        own = self._details.setdefault(name, {})
        for title, cells in ((f"{name} {kind}", spread), (f"{name} imputed", mask)):
            own[self._unused_name(title)] = cells

    def _unused_name(self, title: str) -> str:
        taken = {*self._frame, *(one for own in self._details.values() for one in own)}
        found, n = title, 2
        while found in taken:
            found, n = f"{title} ({n})", n + 1
        return found

    def _column_texts(self, name: str) -> list[str]:
        kept = self._source.columns.get(name)
        return written_cells(self._frame[name]) if kept is None else kept.to_pylist()


@dataclass(frozen=True)
class _NumberForm:
    """How the numbers of a column are written.

    Attributes:
        decimals: number of decimals; None for six significant digits.
        decimal: the decimal mark.
        before: text before every number, such as a currency.
        after: text after every number, such as a unit.
    """

    decimals: int | None
    decimal: str
    before: str = ""
    after: str = ""

    @classmethod
    def of(cls, texts: list[str], decimal: str, *, whole: bool) -> _NumberForm:
        """The form of the observed cells of a column, as text."""
        parts = [found.groups() for text in texts if (found := _NUMBER.fullmatch(text.strip()))]
        around = {(before, after) for before, _, after in parts}
        before, after = around.pop() if len(around) == 1 else ("", "")
        numbers = [number for _, number, _ in parts]
        if whole:
            return cls(0, decimal, before, after)
        if not numbers or any("e" in number.lower() for number in numbers):
            return cls(None, decimal, before, after)
        decimals = max(len(number.partition(decimal)[2]) for number in numbers)
        return cls(min(decimals, _MOST_DECIMALS), decimal, before, after)

    def write(self, value: float) -> str:
        """A number as text, without grouped digits."""
        if not np.isfinite(value):
            return ""
        text = f"{value:.6g}" if self.decimals is None else f"{value:.{self.decimals}f}"
        return f"{self.before}{text.replace('.', self.decimal)}{self.after}"
