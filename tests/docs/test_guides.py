"""The examples of the guides run."""

import re
from pathlib import Path

import pytest

from lvmcore.kernels.gpytorch_components import gpytorch_kernels
from lvmcore.runs import Store
from tests.docs.examples import ROOT, console_commands, python_examples, run_commands, run_example

GUIDE, COMMANDS = "docs/guides/python.md", "docs/guides/command-line.md"
PYTHON = python_examples(GUIDE)
GPYTORCH = "docs/guides/gpytorch.md"


# Those that fit little: the others are left to the full run, and README.md's fit to the quick one.
@pytest.mark.slow(quick=["1", "2", "7", "10"])
@pytest.mark.parametrize("example", PYTHON, ids=map(str, range(len(PYTHON))))
def test_python_example_runs(
    example: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LATENTBOARD_HOME", str(tmp_path / "home"))
    names = run_example(example, GUIDE)
    printed = capsys.readouterr().out
    assert printed.strip()
    if "held-out rows:" in printed:
        accuracy = float(re.search(r"held-out rows: ([\d.]+)", printed)[1])  # type: ignore[index]
        assert accuracy >= 0.9
        assert (tmp_path / "iris.safetensors").is_file()
    if "report" in names:  # the callback stopped the fit
        assert len(names["stopped"].history_) == 60  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_examples_of_gpytorch_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpytorch_kernels()  # whose import warns
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LATENTBOARD_HOME", str(tmp_path / "home"))
    exported, imported = (run_example(example, GPYTORCH) for example in python_examples(GPYTORCH))
    assert exported["model"]
    assert (tmp_path / "progression" / "predict.py").is_file()
    job = Store().get(str(imported["run"]))
    assert job.name == "iris by gpytorch"
    assert job.has_model


@pytest.mark.slow
def test_commands_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LATENTBOARD_HOME", str(tmp_path / "home"))
    run_commands(console_commands(COMMANDS), tmp_path)
    page = (ROOT / COMMANDS).read_text(encoding="utf-8")
    named = re.findall(r"`(\w+\.(?:json|jsonl|safetensors|parquet))`", page)
    assert named
    folders = [tmp_path / "wine-run", tmp_path / "deep-run"]
    assert all(any((folder / name).is_file() for folder in folders) for name in named)
