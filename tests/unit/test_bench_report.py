"""What a benchmark keeps of its rows, and how it shows them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lvmcore.bench import BENCHES, report
from lvmcore.bench.report import Options, Report, Row, _key


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (Row("a", 0.8134, spread=0.0081), "0.813 ± 0.008"),
        (Row("a", 153.24, "rows/s", spread=12.4), "153 ± 12 rows/s"),
        (Row("a", -6.8179, "nats", spread=0.0984), "-6.818 ± 0.098 nats"),
        (Row("a", 0.002451, "px²", spread=0.00003), "0.002451 ± 0.000030 px²"),
        (Row("a", 0.002451, "px²"), "0.00245 px²"),
        (Row("a", 12.3456, "s"), "12.346 s"),
    ],
)
def test_a_spread_and_its_value_end_at_the_same_digit(row: Row, shown: str) -> None:
    assert row.shown() == shown


def test_a_row_is_measured_again_once_it_is_measured_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []

    def measure(size: int) -> Row:
        measured.append(size)
        return Row(f"of {size}", float(size))

    def rows() -> list[Callable[[], Row]]:
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


@pytest.mark.filterwarnings("ignore:Tensorflow:ImportWarning")  # as umap is imported
@pytest.mark.parametrize("bench", BENCHES)
@pytest.mark.parametrize("full", [False, True])
def test_each_row_of_a_bench_is_kept_under_a_key_of_its_own(bench: str, full: bool) -> None:
    keys = [_key(maker) for maker in BENCHES[bench](Options(full=full))]
    assert keys
    assert len(set(keys)) == len(keys)
