import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lvmcore.errors import DataError
from lvmcore.persistence import write_atomically
from lvmcore.runs.atomic_files import (
    LineAppender,
    as_plain_json,
    dump_json,
    read_json,
    read_lines,
    write_json,
)


def test_numbers_that_are_not_finite_become_null_at_any_depth() -> None:
    value = {
        "a": math.nan,
        "b": [1.5, -math.inf, {"c": np.float64("inf")}],
        "d": np.array([np.nan, 2]),
    }
    assert as_plain_json(value) == {"a": None, "b": [1.5, None, {"c": None}], "d": [None, 2.0]}
    json.loads(dump_json(value), parse_constant=pytest.fail)


def test_numpy_scalars_are_unwrapped_and_one_line_is_one_line() -> None:
    line = dump_json({"n": np.int64(3), "ok": np.bool_(True), "text": "two\nlines", "t": (1, 2)})
    assert "\n" not in line
    assert json.loads(line) == {"n": 3, "ok": True, "text": "two\nlines", "t": [1, 2]}


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="object has no JSON type"):
        dump_json({"a": object()})


def test_a_json_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})
    write_json(path, {"b": 2})
    assert read_json(path) == {"b": 2}
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_atomically(path, b"old")
    with pytest.raises(TypeError):
        write_atomically(path, "text")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe"])
def test_a_file_that_is_no_json_object_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"x\.json"):
        read_json(path)


def test_a_missing_json_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file x\.json"):
        read_json(tmp_path / "x.json")


def test_lines_are_appended_by_several_writers_and_read_from_an_offset(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    one, two = LineAppender(path), LineAppender(path)
    one.append("first")
    two.append("second")
    lines, offset = read_lines(path)
    assert lines == [b"first", b"second"]
    one.append("third")
    assert read_lines(path, offset) == ([b"third"], path.stat().st_size)
    one.close()
    two.close()


def test_a_last_line_without_its_newline_waits_for_it(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"whole\nto")
    lines, offset = read_lines(path)
    assert lines == [b"whole"]
    assert offset == 6
    with path.open("ab") as file:
        file.write(b"rn\n")
    assert read_lines(path, offset) == ([b"torn"], 11)


def test_a_file_that_is_not_there_yet_has_no_lines(tmp_path: Path) -> None:
    assert read_lines(tmp_path / "lines") == ([], 0)


_MANY_RECORDS = """
import sys
import threading

from lvmcore.runs.atomic_files import as_record

sys.setswitchinterval(1e-6)
FIELDS = "import dataclasses\\n" + "".join(
    f"@dataclasses.dataclass\\nclass C{depth}:\\n    a: int\\n    b: dict[str, int]\\n"
    f"    c: {f'list[C{depth - 1}]' if depth else 'int'} | None = None\\n"
    for depth in range(6)
)
STORED = {"a": 1, "b": {}, "c": [{"a": 1, "b": {}}]}
for _ in range(200):
    names = {}
    exec(FIELDS, names)
    together = threading.Barrier(6)

    def convert(record=names["C5"]):
        together.wait()
        assert as_record(STORED, record, "file").c[0].a == 1

    threads = [threading.Thread(target=convert) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_may_read_the_first_record_of_a_kind_at_once() -> None:
    """The process ended by a segmentation fault, and with it the dashboard."""
    done = subprocess.run([sys.executable, "-c", _MANY_RECORDS], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
