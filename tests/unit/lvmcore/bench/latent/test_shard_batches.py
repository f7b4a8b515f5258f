"""The benchmark of mini-batches in shards, on few rows."""

from collections.abc import Iterator

import pytest

from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.bench.latent import shard_batches
from lvmcore.distributed.shards import LocalConnection


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    few = {"N_ROWS": 400, "FEW_ROWS": 300, "M": 8, "HIDDEN": 4, "STEPS": 1, "ROUNDS": 1}
    for name, value in few.items():
        monkeypatch.setattr(shard_batches, name, value)
    monkeypatch.setattr(shard_batches, "BATCHES", (32, 64))
    monkeypatch.setattr(shard_batches, "ProcessConnection", LocalConnection)
    yield
    for function in (shard_batches._seconds, shard_batches._bytes):
        function.cache_clear()


def test_every_row_is_measured_with_its_settings(small: None) -> None:
    found: list[BenchmarkRow] = [make() for make in shard_batches.rows(Options())]
    assert len(found) == 6
    assert len({row.name for row in found}) == 6
    assert all(row.value > 0 and row.settings["M"] == 8 for row in found)
    assert set(found[0].settings["seconds"]) == {0, 1, 2}


@pytest.mark.parametrize("kind", shard_batches.TITLES)
def test_messages_do_not_grow_with_the_rows(
    small: None, monkeypatch: pytest.MonkeyPatch, kind: shard_batches.Kind
) -> None:
    sizes = []
    for n_rows in (300, 600):
        shard_batches._bytes.cache_clear()
        monkeypatch.setattr(shard_batches, "FEW_ROWS", n_rows)
        sizes.append(shard_batches._bytes(kind, 32))
    assert sizes[0]["exchanges"] == sizes[1]["exchanges"] == 2
    total = [one["sent"] + one["received"] for one in sizes]
    # The rows of a batch in one of two shards vary by chance, with 2 Q numbers and more each.
    assert abs(total[0] - total[1]) < 32 * 100
    assert total[0] > 8 * (shard_batches.M * shard_batches.D + shard_batches.M**2)
