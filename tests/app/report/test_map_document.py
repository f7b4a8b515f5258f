"""The map of a run in a file of its own: its content, and what cannot run in it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from app.analysis.map.row_colours import CategoryStyle, Colouring, NumericColours
from app.figures.row_traces import MapRows
from app.report import content_policy
from app.report.map_document import MapSubject, map_html
from lvmcore.export.categories import MISSING, OTHER
from lvmcore.export.column_colours import CategoryColours
from tests.app.report.test_document import PAYLOADS, Read


def subject(words: str = "plain", colouring: Colouring = None, n: int = 6) -> MapSubject:
    rng = np.random.default_rng(0)
    rows = MapRows(
        points=rng.standard_normal((n, 2)),
        number=np.arange(n),
        hover=[[f"row {i}", f"{words}: {i}"] for i in range(n)],
        colouring=colouring,
    )
    return MapSubject(words, "LDGD", (f"{words} 1", "dimension 2"), rows, n)


def categories(words: str = "kind") -> CategoryStyle:
    codes = np.array([0, 1, 0, 1, OTHER, MISSING])
    return CategoryStyle(words, (f"{words} a", f"{words} b"), codes, others=3)


def test_it_holds_the_rows_with_their_names_and_classes() -> None:
    found = subject(colouring=categories())
    page = Read(map_html(found).decode())
    content = json.loads(page.scripts[0])
    np.testing.assert_allclose(content["x"], found.rows.points[:, 0], rtol=1e-5)
    np.testing.assert_allclose(content["y"], found.rows.points[:, 1], rtol=1e-5)
    assert content["text"][4] == ["row 4", "plain: 4"]
    named = {entry["code"]: entry["text"] for entry in content["legend"]}
    assert [named[code] for code in content["code"]] == [
        *("kind a", "kind b", "kind a", "kind b", "3 others", "missing"),
    ]
    for scheme in ("light", "dark"):
        assert len(content[scheme]) > max(content["code"])
    shown = "\n".join(page.texts)
    assert "LDGD · 6 rows · colour: kind" in shown


def test_rows_of_the_first_category_are_drawn_last() -> None:
    found = subject(colouring=replace(categories(), colours=CategoryColours(order=("kind b",))))
    content = json.loads(Read(map_html(found).decode()).scripts[0])
    assert [entry["text"] for entry in content["legend"]] == [
        *("kind b", "kind a", "3 others", "missing"),
    ]
    assert content["code"] == [3, 2, 0, 0, 1, 1]
    order = [5, 4, 0, 2, 1, 3]
    assert [lines[0] for lines in content["text"]] == [f"row {row}" for row in order]
    np.testing.assert_allclose(content["x"], found.rows.points[order, 0], rtol=1e-5)


def test_a_number_colours_it_without_a_legend() -> None:
    values = np.array([0.0, 1.0, 2.0, 3.0, 4.0, np.nan])
    page = Read(map_html(subject(colouring=NumericColours("age", values))).decode())
    content = json.loads(page.scripts[0])
    assert content["legend"] == []
    assert content["code"][0] == 0
    assert content["code"][4] == len(content["light"]) - 2
    assert content["light"][content["code"][5]]["shape"] == "circle-open"
    assert "colour: age, from 0.000 to 4.000" in "\n".join(page.texts)


@pytest.mark.parametrize("words", PAYLOADS)
def test_hostile_names_stay_text(words: str) -> None:
    pages = [Read(map_html(subject(w, categories(w))).decode()) for w in ("plain", words)]
    plain, hostile = pages
    assert [tag for tag, _ in plain.elements] == [tag for tag, _ in hostile.elements]
    assert plain.scripts[1:] == hostile.scripts[1:]
    assert json.loads(hostile.scripts[0])["text"][0][1] == f"{words}: 0"


def test_the_policy_allows_its_script_alone() -> None:
    page = Read(map_html(subject()).decode())
    (policy,) = [a["content"] for _, a in page.elements if "http-equiv" in a]
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == content_policy._source(page.scripts[1])


def test_a_sample_is_said() -> None:
    found = subject()
    sampled = MapSubject(found.title, found.model, found.titles, found.rows, 700)
    assert "700 rows · an even sample of 6 rows" in map_html(sampled).decode()
