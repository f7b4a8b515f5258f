"""The pages keep their word: every model, every figure and every name in them is today's."""

import importlib
import json
import re
from pathlib import Path

import pytest

from docs.hooks import site
from docs.hooks.pictures import SIZE_LIMIT
from lvmcore.bench.harness.report import commit_label
from lvmcore.models import MODELS, PREDICTORS
from tests.docs.examples import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
MODULE = re.compile(r"`(lvmcore(?:\.\w+)+)`")


def text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_in_the_navigation_and_what_it_links_to_is_there(page: str) -> None:
    assert re.search(rf"[ :]{re.escape(page)}$", NAVIGATION, re.MULTILINE)
    for target in re.findall(r"\]\(([^)#:]+)\)", text(page)):
        assert ((DOCS / page).parent / target).exists(), target


def test_the_navigation_names_no_page_that_is_not_there() -> None:
    assert set(re.findall(r"[\w/\-]+\.md", NAVIGATION)) == set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_asks_for_is_generated(page: str) -> None:
    expanded = site.expand(text(page))
    assert not site.MARKER.search(expanded)


@pytest.mark.parametrize("key", [*MODELS, *PREDICTORS])
def test_every_model_has_a_page_with_its_settings_and_picture(key: str) -> None:
    name = site.page_of(key)
    expanded = site.expand(text(f"models/{name}"))
    model = site.REGISTRY[key]
    assert f"# {model.title}" in expanded.splitlines()[0]
    for words in (model.summary, model.paper, f"`{key}`", f"::: {model.__module__}"):
        assert words in expanded
    for parameter in model.parameters():
        assert f"| `{parameter.name}` |" in expanded
        assert parameter.doc in expanded
    assert f"](../pictures/{Path(name).stem}.png)" in expanded
    assert f"({name})" in site.expand(text("models/index.md"))


def test_pictures_are_small_and_each_is_shown() -> None:
    shown = "\n".join(text(page) for page in PAGES)
    for picture in (DOCS / "pictures").iterdir():
        assert picture.stat().st_size <= SIZE_LIMIT
        assert f"pictures/{picture.name})" in shown


def test_measured_figures_are_those_on_file() -> None:
    stored = json.loads((ROOT / "assets" / "benchmarks.json").read_text(encoding="utf-8"))
    page = site.expand(text("measured.md"))
    for row, raw in site.stored_rows():
        commit = commit_label(raw)
        lines = [line for line in page.splitlines() if line.startswith(f"| {row.name} | ")]
        assert any(f"| {row.shown()} |" in line and commit in line for line in lines), row.name
        assert row.holds is not False or f"- `{row.name}`" in page
    assert len(site.stored_rows()) == len(stored["rows"])
    assert str(stored["machine"]["torch"]) in page


def test_a_row_without_a_commit_of_its_own_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"bench": "psi", "name": "a figure", "value": 1.0, "spread": None, "unit": ""}
    row |= {"reference": "", "floor": 2.0, "ceiling": None, "settings": {}}
    named = row | {"name": "another", "machine": "one core", "commit": "abc123"}
    stored = {"machine": {"cores": 2}, "rows": [row, named]}
    monkeypatch.setattr(site, "_benchmarks", lambda: stored)
    table = site.benchmarks_table("psi")
    assert "| a figure | 1.000 | at least 2, **not met** | – | 1, commit not recorded |" in table
    assert "| another | 1.000 | at least 2, **not met** | – | 2, abc123 |" in table
    assert "Machine 1: cores 2.\nMachine 2: one core." in table


@pytest.mark.parametrize("page", PAGES)
def test_the_modules_that_a_page_names_are_there(page: str) -> None:
    for name in MODULE.findall(text(page)):
        parts = name.split(".")
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            owner = importlib.import_module(".".join(parts[:-1]))
            assert hasattr(owner, parts[-1]), name


def test_equations_become_mathml() -> None:
    page = '<p><span class="arithmatex">\\(a &lt; b\\)</span></p>'
    drawn = site.on_page_content(page)
    assert "<math" in drawn
    assert "arithmatex" not in drawn
    assert 'display="block"' in site.math_ml(r"\[x^2\]")
