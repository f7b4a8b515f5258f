"""The benchmark of tables larger than memory: its table, and what its clock measures."""

from pathlib import Path

import pandas as pd
import pytest

from lvmcore.bench.latent import files_in_place


def test_the_table_is_the_same_whatever_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        files_in_place.write_clusters(tmp_path / name, 500)
    one, two = (
        pd.concat([pd.read_parquet(path) for path in sorted((tmp_path / name).glob("*"))])
        for name in ("one", "two")
    )
    pd.testing.assert_frame_equal(one, two)
    assert one.shape == (500, files_in_place.COLUMNS + 1)
    assert one["kind"].nunique() == files_in_place.CLASSES
    assert not one.iloc[:50].equals(one.iloc[50:100])


def test_the_speed_is_that_between_the_first_and_the_last_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter([10.0, 12.0, 15.0])
    monkeypatch.setattr(files_in_place.time, "perf_counter", lambda: next(times))
    clock = files_in_place._Clock()
    for done in (0, 0, 100, 100, 300, 600, 600):
        clock.tell(done, 600)
    assert clock.speed == 100.0
