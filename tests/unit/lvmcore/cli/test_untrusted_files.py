"""The command line reads a file of a user as the dashboard does: in a process with limits."""

import os
import sys
from pathlib import Path

import pytest

from lvmcore import cli
from tests.unit.lvmcore.data.readers.workbooks import sheet_xml, workbook


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_a_pipe_is_refused_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    assert cli.main(["fit", str(pipe)]) == 2
    assert "it is a pipe. Expected a regular file" in capsys.readouterr().err


def test_a_hostile_workbook_is_refused_with_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    far = "<row><c r='ZZZZZZ99999999999'><v>1</v></c></row></sheetData>"
    path = tmp_path / "far.xlsx"
    path.write_bytes(workbook({"a": sheet_xml([["a"], [1]]).replace("</sheetData>", far)}))
    assert cli.main(["fit", str(path)]) == 2
    said = capfd.readouterr().err
    assert said.startswith("'far' has 321,272,406 columns")
    assert said.count("\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="the limit of the memory is POSIX's")
def test_a_panic_of_a_reader_is_no_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    panic = "class PanicException(BaseException): pass\nraise PanicException('capacity overflow')"
    script = tmp_path / "worker.py"
    script.write_text(panic)
    monkeypatch.setattr(
        "lvmcore.data.readers.sandbox._WORKER_COMMAND", [sys.executable, str(script)]
    )
    (tmp_path / "a.csv").write_bytes(b"a,b\n1,2\n")
    assert cli.main(["fit", str(tmp_path / "a.csv")]) == 2
    said = capfd.readouterr().err
    assert said.startswith("Reading 'a' needed more memory")
    assert "Traceback" not in said
