"""Every bad file is read rightly or refused with the reason, and neither costs much."""

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from lvmcore.data import read_table, read_table_sandboxed
from lvmcore.errors import DataError
from tests.unit.lvmcore.data.readers.bad_files import CASES, Case

ROOT = Path(__file__).resolve().parents[5]
HEAVY = [case for case in CASES if case.heavy]

#: Reads a file within limits and prints what became of it and the largest child's memory, in KB.
MEASURE = """
import resource, sys
from pathlib import Path
from lvmcore.data import read_table_sandboxed
from lvmcore.errors import DataError
try:
    print(len(read_table_sandboxed(Path(sys.argv[1]).read_bytes(), name="table").frame), "rows")
except DataError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def test_the_corpus_is_large_enough() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_read_or_refused(case: Case) -> None:
    content = case.make()
    if case.refused:
        with pytest.raises(DataError, match=case.refused):
            read_table(content)
        return
    table = read_table(content)
    assert table.frame.columns.is_unique
    if case.shape is not None:
        assert table.frame.shape == case.shape
    for name, cells in case.columns.items():
        found = [None if pd.isna(cell) else cell for cell in table.frame[name].tolist()]
        assert found == cells
    assert any(case.note in note for note in table.notes) == bool(case.note or table.notes)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted otherwise elsewhere")
@pytest.mark.parametrize("case", HEAVY, ids=lambda case: case.name)
def test_memory_stays_below_ten_times_the_file_and_300_mb(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(case.make())
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    *said, kilobytes = done.stdout.strip().splitlines()
    assert re.search(case.refused, said[0])
    assert int(kilobytes) * 1024 < 10 * path.stat().st_size + 300_000_000


def test_a_label_with_many_classes_or_a_class_of_one_row_makes_a_dataset() -> None:
    for name, classes in (("a label with 500 classes", 500), ("a class with one row", 9)):
        content = next(case.make() for case in CASES if case.name == name)
        dataset = read_table(content).dataset(label="label")
        assert len(dataset.classes) == classes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nul bytes", "protected workbook", "nested json"])
def test_the_limited_reader_refuses_in_the_same_words(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    content = case.make()
    with pytest.raises(DataError) as here:
        read_table(content, name="table")
    with pytest.raises(DataError) as there:
        read_table_sandboxed(content, name="table")
    assert str(there.value) == str(here.value)
