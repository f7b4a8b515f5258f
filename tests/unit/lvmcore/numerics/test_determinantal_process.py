"""Determinantal point processes of fixed size, against all subsets of a small set."""

from itertools import combinations

import pytest
import torch

from lvmcore.gp.inducing_points import choose_subset
from lvmcore.numerics.determinantal_process import draw_determinantal


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_subsets_are_drawn_in_proportion_to_their_determinants(size: int) -> None:
    X = torch.randn(6, 2, generator=generator(), dtype=torch.float64)
    K = (-0.5 * torch.cdist(X, X).square()).exp()
    subsets = list(combinations(range(6), size))
    weights = torch.stack([torch.linalg.det(K[list(one)][:, list(one)]) for one in subsets])
    wanted = weights / weights.sum()
    source, draws = generator(1), 6000
    counts = dict.fromkeys(subsets, 0)
    for _ in range(draws):
        counts[tuple(sorted(draw_determinantal(K, size, source).tolist()))] += 1
    shares = torch.tensor([counts[one] / draws for one in subsets], dtype=torch.float64)
    error = (wanted * (1 - wanted) / draws).sqrt()
    assert ((shares - wanted).abs() < 4.5 * error + 1e-3).all()


def test_a_subset_of_every_row_and_of_rows_that_repeat_has_distinct_positions() -> None:
    X = torch.randn(40, 2, generator=generator(), dtype=torch.float64)
    twice = torch.cat([X, X])
    K = (-0.5 * torch.cdist(twice, twice).square()).exp()
    for size in (1, 30, 80):
        rows = draw_determinantal(K, size, generator(2))
        assert len(set(rows.tolist())) == size
    # Of two equal rows the second adds nothing to the determinant.
    few = draw_determinantal(K, 12, generator(3)) % 40
    assert len(set(few.tolist())) == 12


def test_rows_of_a_subset_are_farther_apart_than_at_random() -> None:
    X = torch.randn(300, 3, generator=generator(), dtype=torch.float64)

    def nearest(rule: str, seed: int) -> float:
        rows = choose_subset(X, 20, rule, generator(seed))  # type: ignore[arg-type]
        assert len(set(rows.tolist())) == 20
        apart = torch.cdist(X[rows], X[rows]) + 1e9 * torch.eye(20)
        return float(apart.min(1).values.mean())

    spread, random = (
        sum(nearest(rule, seed) for seed in range(10)) / 10 for rule in ("determinantal", "uniform")
    )
    assert spread > 1.3 * random
