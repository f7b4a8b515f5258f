"""The README keeps its word: its examples run, its tables are today's."""

import json
import re
import shlex
from pathlib import Path

import pytest

from lvmcore import cli
from lvmcore.bench.report import Row, markdown
from lvmcore.models import MODELS, PREDICTORS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced examples in a language."""
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


PYTHON = blocks("python")
COMMANDS = [
    line.removeprefix("$ ") for block in blocks("console") for line in block.strip().splitlines()
]


@pytest.mark.parametrize("example", PYTHON, ids=range(len(PYTHON)))
def test_python_example_runs(
    example: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert printed.strip()
    if "model" in names:
        accuracy = float(re.search(r"not fitted: ([\d.]+)", printed)[1])  # type: ignore[index]
        assert accuracy >= 0.9
        assert (tmp_path / "iris.safetensors").is_file()


def test_commands_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LATENTBOARD_HOME", str(tmp_path / "home"))
    for command in COMMANDS:
        program, *arguments = shlex.split(command)
        assert program == "lvmcore"
        if arguments[0] == "bench":
            continue
        assert cli.main(arguments) == 0, command
        if "--out" in arguments:
            assert (tmp_path / arguments[arguments.index("--out") + 1]).exists()
    named = re.findall(r"`(\w+\.(?:json|jsonl|safetensors|parquet))`", README)
    assert named
    folders = [tmp_path / "wine-run", tmp_path / "deep-run"]
    assert all(any((folder / name).is_file() for folder in folders) for name in named)


def test_every_model_is_in_the_table() -> None:
    for key, model in MODELS.items():
        row = next(line for line in README.splitlines() if line.startswith(f"| `{key}` |"))
        assert model.title in row
        assert model.paper.split(";")[0] in row


def test_every_model_of_a_target_is_in_its_table() -> None:
    for key, model in PREDICTORS.items():
        row = next(line for line in README.splitlines() if line.startswith("| ") and key in line)
        assert model.title in row
        assert model.paper.split(" ")[0] in row
        assert model.paper.split(" ")[-1] in row


def test_measured_figures_are_those_on_file() -> None:
    stored = json.loads((ROOT / "assets" / "benchmarks.json").read_text(encoding="utf-8"))
    rows = [Row(**{name: row[name] for name in Row.__dataclass_fields__}) for row in stored["rows"]]
    section = re.search(r"<!-- measured: begin -->\n(.*?)<!-- measured: end -->", README, re.DOTALL)
    assert section is not None
    assert section[1] == markdown(rows, stored["machine"])
    for row in rows:
        assert row.holds is not False or f"`{row.name}`" in README.split("Not met: ")[1]


def test_the_pictures_are_there() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
