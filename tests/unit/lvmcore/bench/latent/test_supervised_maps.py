"""The benchmark of supervised maps: its rows, on a table that takes a second."""

from collections.abc import Iterator

import numpy as np
import pytest
from sklearn.metrics import recall_score
from sklearn.model_selection import StratifiedKFold

from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.latent import supervised_maps


@pytest.fixture
def short_table(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Thirty rows of three overlapping classes in place of oil flow, and short fits."""
    rng = np.random.default_rng(0)
    y = (np.arange(30) % 3).astype(str)
    X = 1.5 * np.eye(3, 5)[np.arange(30) % 3] + rng.normal(size=(30, 5))
    monkeypatch.setattr(supervised_maps, "_load", lambda: (X, y))
    for name, value in {"STEPS": 5, "LDGD_STEPS": 5, "LDGD_M": 8, "Q": 2}.items():
        monkeypatch.setattr(supervised_maps, name, value)
    few = {name: dict.fromkeys((12, 24), "") for name in supervised_maps.PAPER_SECONDS}
    monkeypatch.setattr(supervised_maps, "PAPER_SECONDS", few)
    supervised_maps._cross_validate.cache_clear()
    yield X, y
    supervised_maps._cross_validate.cache_clear()


def test_rows_have_the_scores_and_times_of_the_paper_s_table(
    short_table: tuple[np.ndarray, np.ndarray],
) -> None:
    del short_table
    rows: dict[str, BenchmarkRow] = {
        row.name.removeprefix("oil_flow_train: "): row
        for row in (measure() for measure in supervised_maps.rows(Options()))
    }
    assert len(rows) == 3 * 2 + 2 * 3 + 3 * 2
    floors = [rows[f"accuracy of {name}, 2 of 5 folds"].floor for name in ("SGPLVM", "SLLGPLVM")]
    assert floors == [0.93, 0.95]
    times = {name: row for name, row in rows.items() if name.startswith("seconds")}
    assert "seconds of a fit of LDGD to 24 rows, median of 3" in times
    assert all(row.unit == "s" and row.value > 0 for row in times.values())
    assert all(0 < row.value <= 1 for name, row in rows.items() if name not in times)


def test_recall_is_that_of_the_same_folds(short_table: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = short_table
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))[:2]
    expected = []
    for train, test in folds:
        model = supervised_maps._model("SGPLVM").fit(X[train], y[train])
        expected.append(recall_score(y[test], model.predict(X[test]), average="macro"))
    row = supervised_maps._averaged("SGPLVM", "recall", 2)
    assert row.value == pytest.approx(np.mean(expected))
