"""What a benchmark keeps of its rows, and how it shows them."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lvmcore.bench import BENCHES
from lvmcore.bench.harness import machine, report
from lvmcore.bench.harness.report import BenchmarkRow, Options, Report, _key, commit_label


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (BenchmarkRow("a", 0.8134, spread=0.0081), "0.813 ± 0.008"),
        (BenchmarkRow("a", 153.24, "rows/s", spread=12.4), "153 ± 12 rows/s"),
        (BenchmarkRow("a", -6.8179, "nats", spread=0.0984), "-6.818 ± 0.098 nats"),
        (BenchmarkRow("a", 0.002451, "px²", spread=0.00003), "0.002451 ± 0.000030 px²"),
        (BenchmarkRow("a", 0.002451, "px²"), "0.00245 px²"),
        (BenchmarkRow("a", 12.3456, "s"), "12.346 s"),
    ],
)
def test_a_spread_and_its_value_end_at_the_same_digit(row: BenchmarkRow, shown: str) -> None:
    assert row.shown() == shown


@pytest.mark.slow
def test_a_row_is_measured_again_once_it_is_measured_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []

    def measure(size: int) -> BenchmarkRow:
        measured.append(size)
        return BenchmarkRow(f"of {size}", float(size))

    def rows() -> list[Callable[[], BenchmarkRow]]:
        return [partial(measure, 1), partial(measure, 2)]

    path = tmp_path / "rows.json"
    Report(path).measure("a", iter(rows()))
    again = Report(path)
    again.measure("a", iter(rows()))
    assert measured == [1, 2]
    assert [row.value for _, row in again.rows] == [1.0, 2.0]
    monkeypatch.setattr(report, "_protocol", lambda maker: "another")
    Report(path).measure("a", iter(rows()))
    assert measured == [1, 2, 1, 2]


@pytest.mark.slow
def test_a_new_row_records_its_machine_and_commit_and_an_old_one_says_that_it_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(size: int) -> BenchmarkRow:
        return BenchmarkRow(f"of {size}", float(size))

    monkeypatch.setattr(machine, "commit_hash", lambda: "abc1234")
    path = tmp_path / "rows.json"
    Report(path).measure("a", iter([partial(measure, 1)]))
    stored = json.loads(path.read_text("utf-8"))
    assert stored["rows"][0]["commit"] == "abc1234"
    assert "torch" in stored["rows"][0]["machine"]
    del stored["rows"][0]["commit"], stored["rows"][0]["machine"]  # as earlier versions wrote them
    path.write_text(json.dumps(stored), encoding="utf-8")

    again = Report(path)
    again.measure("a", iter([partial(measure, 1), partial(measure, 2)]))
    assert again.commits == ["commit not recorded", "abc1234"]
    assert again.finish() == 0
    assert "abc1234" in capsys.readouterr().out
    old, new = json.loads(path.read_text("utf-8"))["rows"]
    assert "commit" not in old
    assert commit_label(old) == "commit not recorded"
    assert commit_label(new) == "abc1234"


def test_the_commit_is_a_hash_or_unknown() -> None:
    assert re.fullmatch(r"[0-9a-f]{7,40}|unknown", machine.commit_hash())


def test_the_commit_is_unknown_without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert machine.commit_hash() == "unknown"


@pytest.mark.filterwarnings("ignore:Tensorflow:ImportWarning")  # as umap is imported
@pytest.mark.parametrize("bench", BENCHES)
@pytest.mark.parametrize("full", [False, True])
def test_each_row_of_a_bench_is_kept_under_a_key_of_its_own(bench: str, full: bool) -> None:
    keys = [_key(maker) for maker in BENCHES[bench](Options(full=full))]
    assert keys
    assert len(set(keys)) == len(keys)
