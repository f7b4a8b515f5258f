"""The number of shards of a process."""

import os

import pytest

from lvmcore.distributed.choice import (
    SHARDS,
    chosen_shards,
    shard_count,
    shards_in_actors,
)
from lvmcore.errors import ConfigError


def test_a_choice_holds_within_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SHARDS, raising=False)
    assert shard_count() == 0
    with chosen_shards(3):
        assert shard_count() == 3
        assert not shards_in_actors()
        with chosen_shards(2, ray=True):
            assert shard_count() == 2
            assert shards_in_actors()
        with chosen_shards(0):
            assert shard_count() == 0
        assert shard_count() == 3
    assert SHARDS not in os.environ


@pytest.mark.parametrize("text", ["many", "-1", "2.5", "5000"])
def test_what_is_no_number_of_shards_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(SHARDS, text)
    with pytest.raises(ConfigError, match="shards"):
        shard_count()
