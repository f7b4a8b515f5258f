"""The benchmark of default models of a number on short tables: its rows and its limits."""

import numpy as np
import pytest

from lvmcore.bench.deep import short_tables
from lvmcore.bench.deep.short_tables import _Scores, short_table
from lvmcore.bench.harness.report import Options


def test_short_tables_are_drawn_and_longer_ones_cut() -> None:
    cells = np.arange(1200.0)[:, None]
    short = short_table(cells, 308)
    assert (len(short), len(np.unique(short))) == (308, 308)
    assert short.max() > 1000
    np.testing.assert_array_equal(short_table(cells, 1000), cells[:1000])
    assert len(short_table(cells[:506], 1000)) == 506


def test_rows_say_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """On figures made up: SVGP is behind the exact process on one table."""
    behind = {"SVGP": 0.0}

    def measured(data: str, most: int, name: str, seed: int) -> _Scores:
        ahead = behind.get(name, 0.0) if (data, most) == ("energy", 308) else 0.0
        return _Scores(
            2.0 + ahead + 0.1 * seed,
            1.0,
            0.9,
        )

    monkeypatch.setattr(short_tables, "_measure", measured)
    monkeypatch.setattr(
        short_tables,
        "_baselines",
        lambda data, most, seed: dict.fromkeys(short_tables.BASELINES, _Scores(3.0, 4.0, 0.8)),
    )
    monkeypatch.setattr(short_tables, "_table", lambda data, most: np.zeros((most, 4)))

    def rows() -> list[short_tables.BenchmarkRow]:
        return [make() for make in short_tables.rows(Options())]

    first, *_, excess, coverage = rows()
    assert len(rows()) == 2 * 4 + 2
    assert first.value == pytest.approx(2.1)
    assert "exact 2.100" in first.reference
    assert "histogram boosting 3.000" in first.reference
    assert "error SVGP 1.000, linear model 4.000" in first.reference
    assert (excess.value, excess.holds) == (0.0, True)
    assert (coverage.value, coverage.holds) == (pytest.approx(0.9), True)
    behind["SVGP"] = 0.1
    excess = rows()[-2]
    assert (excess.reference, excess.holds) == ("energy 308", False)
    assert excess.value == pytest.approx(0.1)
