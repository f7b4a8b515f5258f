"""The README keeps its word: its examples run, its tables are today's, and it is short."""

import re
from pathlib import Path

import pytest

from lvmcore.models import MODELS, PREDICTORS
from tests.docs.examples import ROOT, console_commands, python_examples, run_commands, run_example

README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = python_examples("README.md")
MOST_LINES = 200


@pytest.mark.slow
@pytest.mark.parametrize("example", PYTHON, ids=range(len(PYTHON)))
def test_python_example_runs(
    example: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_example(example, "README.md")
    printed = capsys.readouterr().out
    assert printed.strip()
    if "model" in names:
        accuracy = float(re.search(r"held-out rows: ([\d.]+)", printed)[1])  # type: ignore[index]
        assert accuracy >= 0.9
        assert (tmp_path / "iris.safetensors").is_file()


@pytest.mark.slow
def test_commands_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LATENTBOARD_HOME", str(tmp_path / "home"))
    run_commands(console_commands("README.md"), tmp_path)


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


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= MOST_LINES


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "lvmcore/README.md"]
)
def test_the_pictures_and_pages_it_links_to_are_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert ((ROOT / page).parent / target).exists(), target
