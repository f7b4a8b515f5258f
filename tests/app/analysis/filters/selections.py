"""Selections drawn at random, with the table that they are of."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from app.analysis.filters.query_parser import column_kinds
from app.analysis.map.regions import Region
from app.analysis.map.selections import Between, Combination, Not, OneOf, RowFilter, Selection
from lvmcore.data import Dataset

__all__ = ["COLUMNS", "MEAN", "REGIONS", "TABLE", "selections"]

N = 40
_rng = np.random.default_rng(5)
_frame = pd.DataFrame(
    {
        "height": np.where(_rng.random(N) < 0.2, np.nan, np.round(_rng.normal(size=N), 1)),
        "petal length (cm)": _rng.integers(0, 5, N),
        'a "quoted" \\ name': pd.Series(
            _rng.choice(["Ulm", "a\nb", "1", "", "é"], N), dtype=object
        ).where(_rng.random(N) > 0.2),
        "row": _rng.choice(["x", "y"], N),
        "day": pd.Series(
            pd.to_datetime("2020-01-01") + pd.to_timedelta(_rng.integers(0, 9, N) * 6, unit="h")
        ).where(_rng.random(N) > 0.2),
        "wet": _rng.random(N) < 0.5,
    }
)
_named = Dataset.from_arrays(np.zeros((N, 1)), row_ids=[f"r{i}" for i in range(N)])
#: A table with columns of each kind, missing cells and names that need quotes.
TABLE = Dataset(_named.X, _named.feature_names, _named.row_ids, _named.rows, _frame)
MEAN = _rng.normal(size=(N, 3))
COLUMNS = column_kinds(_frame)
REGIONS = (
    Region((0, 2), (((-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)),)),
    Region((1, None), (((-9.0, -9.0), (0.0, -9.0), (0.0, 99.0), (-9.0, 99.0)),)),
)

_texts = st.one_of(
    st.sampled_from(["Ulm", "a\nb", "1", "", "é", "x", "True"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
_numbers = st.one_of(st.sampled_from([0.0, -0.5, 1.0, 3.0]), st.floats(allow_nan=False).map(float))
_dates = st.datetimes(datetime(2019, 12, 30), datetime(2020, 1, 6))
_ORDERED = st.sampled_from(["at least", "at most", "more than", "less than", "equal to"])


def _conditions(column: str) -> st.SearchStrategy[Selection]:
    kind = COLUMNS[column]
    of_text = st.builds(RowFilter, st.just(column), st.sampled_from(["is", "contains"]), _texts)
    missing = st.just(RowFilter(column, "missing"))
    value = st.none() | (_texts if kind != "number" else _texts | _numbers)
    values = st.lists(value, min_size=1, max_size=4).map(tuple)
    found = [of_text, missing, st.builds(OneOf, st.just(column), values)]
    if kind != "text":
        bounds = _numbers if kind == "number" else _dates
        found += [
            st.builds(RowFilter, st.just(column), _ORDERED, bounds),
            st.builds(Between, st.just(column), bounds, bounds),
        ]
    return st.one_of(found)


_leaves: st.SearchStrategy[Selection] = st.one_of(
    st.sampled_from(REGIONS),
    st.builds(RowFilter, st.none(), st.sampled_from(["is", "contains"]), _texts),
    *map(_conditions, COLUMNS),
)


def _combined(parts: st.SearchStrategy[Selection]) -> st.SearchStrategy[Selection]:
    several = st.lists(parts, min_size=2, max_size=4).map(tuple)
    return st.builds(Not, parts) | st.builds(Combination, st.sampled_from(["and", "or"]), several)


#: Any selection of the table.
selections: st.SearchStrategy[Selection] = st.recursive(_leaves, _combined, max_leaves=12)
