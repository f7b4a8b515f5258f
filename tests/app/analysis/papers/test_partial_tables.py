"""Parts of the papers' tables."""

import numpy as np
import pytest

from app.analysis.papers.partial_tables import partial_table
from lvmcore.data import load_sample


def test_nothing_left_out_is_the_table_itself() -> None:
    table = load_sample("iris")
    assert partial_table(table) is table
    assert partial_table(table, rows=1000) is table


def test_rows_are_drawn_once_and_keep_their_order() -> None:
    table = load_sample("digits")
    part = partial_table(table, rows=300)
    assert part.name == "digits, 300 rows"
    assert part.digest == partial_table(table, rows=300).digest
    whole = [tuple(row) for row in table.frame.to_numpy().tolist()]
    at = [whole.index(tuple(row)) for row in part.frame.to_numpy().tolist()]
    assert len(at) == 300
    assert at == sorted(set(at))


def test_hidden_cells_have_the_share_and_the_others_are_unchanged() -> None:
    table = load_sample("digits")
    part = partial_table(table, hidden=0.3)
    assert part.name == "digits, 30% hidden"
    pixels = [name for name in table.frame if name != "digit"]
    hidden = part.frame[pixels].isna().to_numpy()
    assert hidden.mean() == pytest.approx(0.3, abs=0.005)
    assert hidden.any(axis=0).all()
    seen = ~hidden
    truth = table.frame[pixels].to_numpy(dtype=np.float64)
    assert np.array_equal(part.frame[pixels].to_numpy(dtype=np.float64)[seen], truth[seen])
    assert part.frame["digit"].astype(int).tolist() == table.frame["digit"].tolist()
    assert not (part.frame["digit"].isna()).any()
