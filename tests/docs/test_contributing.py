"""CONTRIBUTING.md keeps its word: its model, in a copy of the source, is found everywhere."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.examples import ROOT, python_examples

MODULES = {
    match[1]: match[2]
    for block in python_examples("CONTRIBUTING.md")
    if (match := re.match(r"# (\S+\.py)\n(.*)", block, flags=re.DOTALL))
}
(MODEL,) = (path for path in MODULES if path.startswith("lvmcore/models/"))
KEY = Path(MODEL).stem
PYTEST = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider")

# Run in the copy. Each line is a place that finds models by itself.
FOUND = f'''
from streamlit.testing.v1 import AppTest

from app.analysis.tables.model_cards import map_card
from lvmcore import cli
from lvmcore.models import MODELS
from tests.contract import small

model = MODELS[{KEY!r}]
assert MODELS[{KEY!r}].__module__ == {MODEL[:-3].replace("/", ".")!r}
assert {{p.name for p in model.parameters()}} == set(model().get_params())
assert map_card(model).title == model.title
assert small.for_models().args[1].count({KEY!r}) == 1
assert cli.main(["models"]) == 0
assert cli.main(["models", "--model", {KEY!r}]) == 0


form = """
from app.views.fit.parameter_form import parameter_form
from lvmcore.models import MODELS

parameter_form(MODELS[{KEY!r}].parameters(), {{}}, str)
"""
page = AppTest.from_string(form, default_timeout=60).run()
assert not page.exception
shown = {{widget.key for widget in (*page.number_input, *page.selectbox, *page.text_input)}}
assert {{p.name for p in model.parameters()}} <= shown, shown
assert cli.main(["fit", "sample:iris", "--model", {KEY!r}, "--out", "run"]) == 0
'''


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with the modules of CONTRIBUTING.md."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("lvmcore", "app", "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for path, content in MODULES.items():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        (copy / path).write_text(content, encoding="utf-8")
    return copy


def run(source: Path, *arguments: str) -> str:
    """What a fresh interpreter prints in the copy; it must succeed."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_one_module_makes_a_model(source: Path) -> None:
    printed = run(source, "-c", FOUND)
    assert KEY in printed
    assert (source / "run" / "model.safetensors").is_file()


@pytest.mark.slow
def test_the_tests_of_the_examples_pass(source: Path) -> None:
    tests = [path for path in MODULES if path.startswith("tests/")]
    assert len(tests) == 2
    run(source, *PYTEST, *tests)


@pytest.mark.slow
def test_the_contract_holds_for_the_model(source: Path) -> None:
    printed = run(source, *PYTEST, "tests/contract", "-k", KEY)
    assert int(re.search(r"(\d+) passed", printed)[1]) > 50  # type: ignore[index]


def test_the_examples_have_the_style_of_the_source(source: Path) -> None:
    run(source, "-m", "ruff", "check", *MODULES)
