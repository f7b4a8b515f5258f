"""The benchmark of shards, on few rows."""

from collections.abc import Iterator

import pytest

from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.latent import shards
from lvmcore.bench.latent.shard_messages import ACTORS
from lvmcore.distributed.shards import LocalConnection

PARTS = {"compute": 12.0, "fixed": 0.01, "each": 0.002, "volume": 1e6, "exchanges": 2.0}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in (("SPEED_ROWS", 120), ("LONG_ROWS", 150), ("ROUNDS", 1), ("LONG_ROUNDS", 1)):
        monkeypatch.setattr(shards, name, value)
    monkeypatch.setattr(shards, "ProcessConnection", LocalConnection)
    monkeypatch.setattr(
        shards, "message_seconds", lambda: {"step": [0.004, 0.006, 0.010], "number": [1e-3] * 3}
    )
    yield
    for function in (shards._speed, shards._bytes, shards._long_step, shards._coordinator_seconds):
        function.cache_clear()


def test_every_row_is_measured_with_its_settings(small: None) -> None:
    found: list[BenchmarkRow] = [make() for make in shards.rows(Options())]
    assert len(found) == 6
    assert all(row.value > 0 and row.settings["M"] == 50 for row in found)
    step, finish = found[3].settings, found[4].settings
    assert step["seconds of messages"] == [0.004, 0.006, 0.010]
    more = shards._bytes()["finish"]["exchanges"] - 2
    assert finish["seconds of messages"][1] == pytest.approx(0.006 + more * 1e-3)
    parts = found[5].settings["parts"]
    assert parts["each"] == pytest.approx(0.002)
    assert len(ACTORS) == 3


def test_messages_do_not_grow_with_the_rows() -> None:
    counts = []
    for n_rows in (40, 400):
        made: list[shards.CountingConnection] = []

        def connect(block: shards.LatentBlock) -> shards.CountingConnection:
            made.append(shards.CountingConnection(block))  # noqa: B023 - called in this turn
            return made[-1]  # noqa: B023

        with shards.fit_over_shards(n_rows, 2, connect) as fit:
            fit.step()
        counts.append((made[0].sent, made[0].received, made[0].messages))
    assert counts[0] == counts[1]
    assert counts[0][2] == 2
    # M D and M M sums one way, their gradients the other.
    assert counts[0][1] > 8 * (shards.M * shards.D + shards.M**2)


def test_the_simulated_time_is_that_of_the_sums_and_of_all_messages() -> None:
    assert shards.step_seconds(1, **PARTS) == pytest.approx(12.0 + 0.01 + 0.002)
    ten = 1.2 + 0.01 + 10 * (0.002 + 1e6 / 1.25e9) + 2 * 2 * 1e-4
    assert shards.step_seconds(10, **PARTS) == pytest.approx(ten)
    free = {**PARTS, "fixed": 0.0, "each": 0.0, "volume": 0.0, "exchanges": 0.0}
    assert shards.step_seconds(64, **free) == pytest.approx(12 / 64)
