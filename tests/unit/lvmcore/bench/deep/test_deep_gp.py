"""The benchmark of deep Gaussian processes: its splits and its rows."""

import numpy as np
import pytest

from lvmcore.bench.deep import deep_gp
from lvmcore.bench.deep.deep_gp import SplitScores, split
from lvmcore.bench.harness.report import Options


def test_splits_hold_out_a_tenth_and_share_nothing() -> None:
    cells = np.arange(60.0).reshape(30, 2)
    seen, held = split(cells, 1)
    assert (len(seen), len(held)) == (27, 3)
    assert sorted(np.concatenate([seen, held])[:, 0]) == sorted(cells[:, 0])
    assert not np.array_equal(held, split(cells, 2)[1])


def test_rows_say_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """On figures made up: SoD is ahead of SVGP on three tables of four."""
    behind = {"boston": 1, "concrete": 2, "energy": 3, "wine_red": -4}

    def measured(data: str, name: str, seed: int, full: bool) -> SplitScores:
        del full
        ahead = behind.get(data, 0) if name == "SVGP" else 0.0
        parameters = {"SoD": 10, "DSVI": 40, "SVGP": 5, "IWVI": 50}[name]
        return SplitScores(2.0 + ahead + 0.1 * seed, 1.0, 0.9, parameters, 3.0)

    monkeypatch.setattr(deep_gp, "_measure", measured)
    monkeypatch.setattr(deep_gp, "_boosted_tree_errors", lambda data: [0.5] * 5)
    monkeypatch.setattr(deep_gp, "load_table", lambda data: np.zeros((50, 4)))
    monkeypatch.setattr(deep_gp, "_gpytorch_step", lambda seen: None)
    rows = [make() for make in deep_gp.rows(Options())]
    assert len(rows) == 4 * 5 + 2 * 3 + 4
    named = {row.name: row for row in rows}
    first = named["boston: SoD, two hidden layers, NLPP, five splits"]
    assert first.value == pytest.approx(2.2)
    assert first.reference == "paper 2.366; 3 s a fit"
    long = named["protein: DSVI, two hidden layers, NLPP, five splits"]
    assert long.reference == "paper 2.733; 3 s a fit"
    assert not any(row.startswith(("protein: IWVI", "naval: IWVI")) for row in named)
    without = named["boston: IWVI, two hidden layers, NLPP, five splits"]
    assert without.reference == "3 s a fit"
    assert without.settings["n_layers"] == 2
    assert "boosted trees 0.500" in rows[4].reference
    wins = named["tables of four on which SoD's NLPP is below SVGP's"]
    assert (wins.value, wins.holds) == (3, True)
    assert wins.reference == "boston, concrete, energy"
    assert named["concrete: trained parameters of SoD as a share of DSVI's"].value == 0.25
    assert rows[-1].reference == "gpytorch is not installed"
    behind["energy"] = -1
    assert [row for row in (make() for make in deep_gp.rows(Options())) if row.holds is False]
