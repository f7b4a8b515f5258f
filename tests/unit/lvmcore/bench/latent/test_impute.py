"""The imputation benchmark: which cells it hides, and what its rows compare."""

import numpy as np
import pytest

from lvmcore.bench.harness.report import Options
from lvmcore.bench.latent import impute


def test_at_random_every_cell_is_hidden_with_the_same_chance() -> None:
    hidden = impute.hidden_mask((500, 40), 0.3, blocks=False)
    assert hidden.mean() == pytest.approx(0.3, abs=0.01)
    assert len(np.unique(hidden, axis=0)) == 500
    np.testing.assert_array_equal(hidden, impute.hidden_mask((500, 40), 0.3, blocks=False))
    assert (hidden != impute.hidden_mask((500, 40), 0.3, blocks=False, seed=1)).any()


def test_in_blocks_consecutive_rows_lack_the_same_columns() -> None:
    hidden = impute.hidden_mask((95, 300), 0.6, blocks=True)
    assert hidden.shape == (95, 300)
    assert hidden.mean() == pytest.approx(0.6, abs=0.03)
    for first in range(0, 95, impute.FRAMES):
        block = hidden[first : first + impute.FRAMES]
        assert (block == block[0]).all()
    assert len(np.unique(hidden, axis=0)) == 5


def test_the_error_is_in_standard_deviations_of_the_whole_columns() -> None:
    problem = impute._masked_data("digits", 0.1, blocks=False)
    table = impute.load_sample("digits")
    whole = table.dataset(label=table.columns[-1].name).X
    whole = whole[:, whole.std(axis=0) > 0]
    assert problem.hidden.shape == whole.shape
    assert np.isnan(problem.X[problem.hidden]).all()
    np.testing.assert_allclose(np.nanmean(problem.X, axis=0), 0, atol=1e-12)
    seen = np.where(problem.hidden, np.nan, whole)
    means = np.broadcast_to(np.nanmean(seen, axis=0), whole.shape)
    expected = np.sqrt(np.square((whole - means) / whole.std(axis=0))[problem.hidden].mean())
    assert problem.error(np.zeros(whole.shape)) == pytest.approx(expected)


def test_a_row_asks_for_less_than_the_others_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {"column means": 1.0, "probabilistic PCA": 0.7, "kNN": 0.6, "iterative": 0.65}
    monkeypatch.setattr(impute, "_baseline_errors", lambda *_: others)
    monkeypatch.setattr(impute, "_gplvm_scores", lambda *_: (0.65, 0.9))
    monkeypatch.setattr(impute, "_settings", lambda *_: {})
    made = [maker() for maker in impute.rows(Options())]
    by_name = {row.name: row for row in made}
    assert len(by_name) == len(made) == 24
    demanding = [row for row in made if row.ceiling == 0.6]
    assert [row.name for row in demanding] == [
        "digits, 60% of the cells hidden at random: RMSE, Q=10"
    ]
    assert not demanding[0].holds
    assert all(row.holds for row in made if row is not demanding[0])
    assert "kNN 0.600" in demanding[0].reference
    assert sum("coverage" in name for name in by_name) == 12
