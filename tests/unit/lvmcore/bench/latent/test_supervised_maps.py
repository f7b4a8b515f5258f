"""The benchmark of supervised maps: its rows, on a table that takes a second."""

import numpy as np
import pytest

from lvmcore.bench.harness.report import Options
from lvmcore.bench.latent import supervised_maps


def test_rows_have_two_scores_a_model_and_the_floors_of_the_paper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    X = 3 * np.eye(3, 5)[y] + rng.normal(size=(30, 5))
    monkeypatch.setattr(supervised_maps, "_load", lambda: (X, y.astype(str)))
    monkeypatch.setattr(supervised_maps, "STEPS", 5)
    monkeypatch.setattr(supervised_maps, "Q", 2)
    supervised_maps._cross_validate.cache_clear()
    rows = [measure() for measure in supervised_maps.rows(Options())]
    supervised_maps._cross_validate.cache_clear()
    assert [row.floor for row in rows] == [0.93, None, 0.95, None, None, None]
    assert all(0.5 < row.value <= 1 for row in rows)
    assert "accuracy by 1-NN of SLLGPLVM, 2 of 5 folds" in rows[3].name
