"""Texts of the pages and of the documentation: no idiom, no word that a glossary replaces."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: Idioms and words of the house, each with what is written in their place.
BANNED = {
    r"at a glance": "at once",
    r"at hand": "available",
    r"behind the scenes": "in the background",
    r"bear in mind|keep in mind": "note",
    r"by and large": "mostly",
    r"comes? in handy": "helps",
    r"fits? worst": "has the largest residual",
    r"for good": "permanently",
    r"from scratch": "from the beginning",
    r"get rid of": "remove",
    r"goes? wrong|went wrong": "fails",
    r"if the pattern goes on": "if the pattern continues",
    r"in a nutshell": "in short",
    r"in the same boat": "equal",
    r"learn to predict": "target",
    r"no matter (what|how|which)": "for any",
    r"of course": "(leave it out)",
    r"on the fly": "as needed",
    r"out of the blue": "suddenly",
    r"out of the box": "without settings",
    r"piece of cake": "simple",
    r"predict nothing": "draw a map",
    r"(ran|runs?) out(?! of memory)": "after",
    r"rows? behind": "background",
    r"rule of thumb": "usual value",
    r"stands? out": "differs",
    r"takes? care of": "does",
    r"tell apart": "distinguish",
    r"turns? out": "is",
    r"under the hood": "internally",
}
_BANNED = re.compile(rf"\b({'|'.join(BANNED)})\b", re.IGNORECASE)


def _texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """The texts of a module that are no docstrings, each with its line."""
    tree = ast.parse(path.read_text("utf-8"))
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
        if isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if id(node) in docstrings or not isinstance(node, ast.Constant):
            continue
        if isinstance(node.value, str):
            yield node.lineno, node.value


def _found(path: Path, texts: Iterator[tuple[int, str]]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r}"
        for line, text in texts
        for match in _BANNED.finditer(" ".join(text.split()))
    ]


def test_the_texts_of_the_pages_hold_no_idiom() -> None:
    paths = sorted((ROOT / "app").rglob("*.py"))
    assert len(paths) > 100
    assert [one for path in paths for one in _found(path, _texts_of(path))] == []


def test_the_documentation_holds_no_idiom() -> None:
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    assert len(paths) > 20
    assert [
        one
        for path in paths
        for one in _found(path, enumerate(path.read_text("utf-8").splitlines(), start=1))
    ] == []


def test_an_idiom_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.py"
    page.write_text('"""Out of the box."""\n\nTITLE = "Rows that\\nfit worst"\n', "utf-8")
    found = [_BANNED.search(" ".join(text.split())) for _, text in _texts_of(page)]
    assert [match and match[0] for match in found] == ["fit worst"]
