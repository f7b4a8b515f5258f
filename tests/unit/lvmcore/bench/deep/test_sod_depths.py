"""The depth of a deep GP on a subset is chosen by the bound, never by test rows."""

from typing import Any

import numpy as np
import pytest

from lvmcore.bench.deep import sod_depths
from lvmcore.bench.deep.sod_depths import DEPTHS, RIVALS
from lvmcore.bench.harness.report import Options


@pytest.fixture(autouse=True)
def without_cache() -> Any:
    sod_depths._scores_of_depth.cache_clear()
    yield
    sod_depths._scores_of_depth.cache_clear()


@pytest.fixture(autouse=True)
def short_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sod_depths, "load_table", lambda data: np.zeros((50, 4)))


def test_the_depth_is_that_of_the_largest_bound_of_each_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def score(data: str, cls: type, n_hidden: int, seed: int, given: Any) -> sod_depths._Score:
        best = n_hidden == seed % len(DEPTHS)
        return sod_depths._Score(density=10 * n_hidden + seed, bound=float(best), seconds=1.0)

    monkeypatch.setattr(sod_depths, "_score", score)
    row = sod_depths._chosen_depth("concrete")
    wanted = [10 * (seed % len(DEPTHS)) + seed for seed in sod_depths.SPLITS]
    assert row.value == pytest.approx(np.mean(wanted))
    assert "3.058" in row.reference
    assert row.settings["subset"] == "bound"


def test_every_depth_and_rival_of_every_table_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[type, int, str]] = []

    def score(data: str, cls: type, n_hidden: int, seed: int, given: Any) -> sod_depths._Score:
        asked.append((cls, n_hidden, str(given)))
        return sod_depths._Score(1.0, 0.0, 1.0)

    monkeypatch.setattr(sod_depths, "_score", score)
    rows = [maker() for maker in sod_depths.rows(Options())]
    assert len({row.name for row in rows}) == len(rows)
    assert len(rows) == len(sod_depths.SMALL) * (len(DEPTHS) + 1 + len(RIVALS))
    assert {n for cls, n, _ in asked} == {0, 1, 2, 3}
    assert "{'inducing_inputs': 'fixed'}" in {given for _, _, given in asked}
