"""The benchmark of counts: what it hides, its probabilities, and what its rows ask."""

import numpy as np
import pytest
import torch
from scipy import stats

from lvmcore.bench.harness.report import Options
from lvmcore.bench.random_features import counts, hidden_counts

RNG = np.random.default_rng(0)
RATES = np.exp(RNG.normal(size=(40, 2)) @ RNG.normal(0, 0.6, size=(2, 24)) + 0.7)
Y = RNG.poisson(RATES).astype(float)


def test_a_fifth_of_the_rows_and_half_of_their_cells() -> None:
    held, hidden = hidden_counts.hide_cells((300, 40))
    assert held.sum() == 60
    assert hidden.shape == (60, 40)
    assert hidden.mean() == pytest.approx(0.5, abs=0.03)
    np.testing.assert_array_equal(held, hidden_counts.hide_cells((300, 40))[0])
    assert hidden_counts.hide_cells((5000, 3))[0].sum() == hidden_counts.MAX_HELD_OUT
    assert (held != hidden_counts.hide_cells((300, 40), seed=1)[0]).any()


def test_rounded_probabilities_are_those_of_the_interval_and_sum_to_one() -> None:
    y = np.arange(5000.0)
    mean, sd = torch.tensor([1.3, 0.8], dtype=torch.float64)
    found = hidden_counts.log_rounded_normal(torch.as_tensor(y), mean, sd).exp().numpy()
    z = stats.norm(1.3, 0.8)
    lower = np.where(y > 0, z.cdf(np.log(y + 0.5)), 0.0)
    np.testing.assert_allclose(found, z.cdf(np.log(y + 1.5)) - lower, atol=1e-12)
    assert found.sum() == pytest.approx(1, abs=1e-9)


def test_rounded_probabilities_keep_their_digits_in_both_tails() -> None:
    y, sd = torch.tensor([50.0, 400.0]).double(), torch.tensor(0.1, dtype=torch.float64)
    ends = np.log(y.numpy()[:, None] + [0.5, 1.5])
    for mean in (2.0, 9.0):
        found = hidden_counts.log_rounded_normal(
            y, torch.tensor(mean, dtype=torch.float64), sd
        ).numpy()
        a, b = (ends - mean).T / 0.1
        tail = stats.norm.logsf if mean < 3 else stats.norm.logcdf
        one, other = tail(a), tail(b)
        most, least = np.maximum(one, other), np.minimum(one, other)
        np.testing.assert_allclose(found, most + np.log1p(-np.exp(least - most)), rtol=1e-8)


def grid() -> tuple[torch.Tensor, torch.Tensor]:
    """Places in the plane, and the logarithms of the prior's mass around them."""
    t = np.linspace(-5, 5, 161)
    X = np.stack(np.meshgrid(t, t), -1).reshape(-1, 2)
    mass = stats.norm.logpdf(X).sum(1) + 2 * np.log(t[1] - t[0])
    return torch.as_tensor(X)[:, None], torch.as_tensor(mass)


@pytest.mark.slow(quick=["Gaussian"])
@pytest.mark.parametrize("key", ["negative binomial", "Gaussian", "NBVAE"])
def test_the_likelihood_of_hidden_cells_is_that_of_a_sum_over_the_plane(key: str) -> None:
    settings = {"n_components": 2, "max_iter": 60}
    settings |= {} if key == "NBVAE" else {"n_features": 6}
    model, scored = hidden_counts.fitted_model(key, Y[:36], settings)
    new = torch.as_tensor(Y[36:])
    hidden = torch.as_tensor(RNG.random(new.shape) < 0.5)
    found = hidden_counts.nats_per_cell(model, scored, new, hidden)
    places, mass = grid()
    shown = torch.where(hidden, torch.nan, new)

    def evidence(rows: torch.Tensor) -> float:
        with torch.no_grad():
            each = [
                torch.logsumexp(scored.log_cells(row[None], places)[:, 0] + mass, 0) for row in rows
            ]
        return float(torch.stack(each).sum())

    expected = (evidence(new) - evidence(shown)) / int(hidden.sum())
    assert found == pytest.approx(expected, abs=0.02)


@pytest.mark.slow
def test_a_row_asks_for_more_than_every_other_model(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"negative binomial": -0.9, "Gaussian": -1.0, "NBVAE": -0.95}
    monkeypatch.setattr(counts, "_held_out_scores", lambda *_: found)
    monkeypatch.setattr(counts, "_map_scores", lambda *_: ([0.7, 0.72, 0.74], [9.0, 10.0, 30.0]))
    monkeypatch.setattr(counts, "_baseline_accuracies", lambda *_: {"PCA": 0.73, "t-SNE": 0.8})
    monkeypatch.setattr(counts, "_settings", lambda *_: {})
    made = [maker() for maker in counts.rows(Options())]
    assert len({row.name for row in made}) == len(made) == 8
    assert [(row.floor, row.ceiling) for row in made[:4]] == [
        (-0.95, None),
        (-0.95, None),
        (0.73, None),
        (None, None),
    ]
    assert [row.holds for row in made[:4]] == [True, True, False, None]
    assert "NBVAE -0.9500 ± 0.0000" in made[0].reference
