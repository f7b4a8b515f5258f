"""The cost model of a full-batch map."""

import numpy as np
import pytest

from lvmcore.bench.latent import step_cost
from lvmcore.bench.latent.step_cost import BASIS, MEASURED, Size, coefficients, modelled_seconds


def test_coefficients_of_a_known_cost_are_found_again() -> None:
    true = [1e-9, 3e-10, 0.0, 2e-10, 1e-8, 4e-9, 0.01]
    seconds = [modelled_seconds(size, true) for size in MEASURED]
    found = coefficients(MEASURED, seconds)
    assert min(found) >= 0
    for size in (Size(50_000, 30, 60, 3), Size(10**9, 20, 50, 2)):
        assert modelled_seconds(size, found) == pytest.approx(modelled_seconds(size, true), 1e-6)


def test_the_cost_is_a_sum_of_operations_by_their_counts() -> None:
    size = Size(N=7, D=5, M=3, Q=2)
    counts = [modelled_seconds(size, np.eye(len(BASIS))[j]) for j in range(len(BASIS))]
    assert counts == [63, 126, 21, 105, 14, 27, 1]


@pytest.mark.slow
def test_a_step_is_measured_and_its_memory_grows_with_the_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = [Size(400, 4, 10, 2), Size(4000, 4, 10, 2), Size(400, 4, 40, 2), Size(400, 40, 10, 2)]
    monkeypatch.setattr(step_cost, "MEASURED", tuple(sizes))
    monkeypatch.setattr(step_cost, "HELD_OUT", (Size(2000, 4, 20, 2),))
    monkeypatch.setattr(step_cost, "MEMORY_ROWS", (500, 20_000))
    for cached in (step_cost._coefficients, step_cost._memory):
        cached.cache_clear()
    row = step_cost._error()
    assert row.value >= 0
    assert min(row.settings["seconds per operation"].values()) >= 0
    memory = step_cost._bytes_per_row()
    assert memory.value > 8 * step_cost.D  # a row itself
    for cached in (step_cost._coefficients, step_cost._memory):
        cached.cache_clear()
