"""The campaign of damaged files: a small run of it, and that it sees what it looks for."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore.data import read_table
from tests.campaigns import files
from tests.campaigns.damage import damaged
from tests.campaigns.second_routes import differences
from tests.campaigns.seed_files import table_files

WHOLE = [
    pytest.param(content, id=f"{kind} {number}")
    for kind, group in table_files().items()
    for number, content in enumerate(group)
]


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the processes are measured on Linux")


@pytest.mark.slow
@LINUX
def test_damaged_files_are_read_or_refused() -> None:
    # In a process of its own: the memory of the process that asks is measured too.
    command = [sys.executable, "-m", "tests.campaigns.files", "--count", "80", "--seed", "20"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = ended.stdout.splitlines()
    assert (ended.returncode, lines[-1]) == (0, "0 failures"), ended.stdout + ended.stderr
    assert {"read, same", "refused"} <= {" ".join(re.findall("[a-z,]+", line)) for line in lines}


def changed(values: pd.Series) -> pd.Series:
    """A column with another value in its second known cell."""
    row = np.flatnonzero(values.notna().to_numpy())[1]
    cells = values.astype(object)
    cell = cells.iloc[row]
    if isinstance(cell, pd.Timestamp):
        cells.iloc[row] = cell + pd.Timedelta(days=400)
    elif isinstance(cell, str):
        cells.iloc[row] = cell + "!"
    else:
        cells.iloc[row] = not cell if isinstance(cell, (bool, np.bool_)) else 2 * cell + 1
    return cells


@pytest.mark.slow
@pytest.mark.parametrize("content", WHOLE)
def test_the_second_route_sees_a_cell_that_differs(content: bytes) -> None:
    table = read_table(content)
    assert differences(content, table) == []
    beside = sum(column.is_annotation for column in table.columns)  # these have no second route
    for name in table.frame.columns[: len(table.frame.columns) - beside]:
        values = table.frame[name]
        rounded = values.dtype.kind == "f" and values.abs().max() >= 2**53  # a note says so
        if values.notna().sum() < 2 or rounded:
            continue
        other = table.frame.assign(**{name: changed(values)})
        assert differences(content, replace(table, frame=other)), name


def test_damage_is_the_same_for_a_seed() -> None:
    group = table_files()["csv"]
    twice = [damaged(group[0], group, np.random.default_rng([1, 2])) for _ in range(2)]
    assert twice[0] == twice[1]
    assert twice[0][1] != group[0]


@LINUX
def test_a_reading_that_goes_wrong_fails_the_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(files, "read_table_sandboxed", broken)
    report = files.campaign(2, 0, tmp_path)
    assert len(report.failures) == len(list(tmp_path.iterdir())) == 2
    assert "KeyError" in str(report)
