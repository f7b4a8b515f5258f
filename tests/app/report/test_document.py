"""The report of a run: what it says, what cannot run in it, how large it may be."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.analysis.map.row_colours import CategoryStyle, NumericColours
from app.figures.row_traces import MapRows
from app.report import content_policy, document
from app.report.subject import ColumnRow, ReportSubject, SettingRow
from lvmcore.metrics.metric import Metric
from lvmcore.results import FitStep
from lvmcore.runs import Job, JobSpec

PAYLOADS = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "<img src=x onerror=alert(3)>",
    "</title><svg onload=alert(4)>",
    '"><iframe src="http://outside.example/5">',
    "' onmouseover='alert(6)",
    "![six](http://outside.example/6.png)",
    "<a href='javascript:alert(7)'>seven</a>",
    "--></style><script>alert(8)</script>",
    "\u2028alert(9)\u2029",
    "&lt;script&gt;alert(10)&lt;/script&gt;",
    "\u202eright to left",
    "=HYPERLINK(1)",
    "{{constructor.constructor('alert(11)')()}}",
    "%{customdata[0]}",
    "x" * 10_000,
    "]]><b>bold</b>",
    "\\u003cscript\\u003ealert(12)",
    "<b>bold</b><br>",
    "javascript:alert(13)",
)


def subject(words: str = "plain", n: int = 60) -> ReportSubject:
    rng = np.random.default_rng(0)
    spec = JobSpec(
        "d" * 64,
        words,
        "ldgd",
        {"random_state": 3},
        name=words,
        versions={"latentboard": "1.0", words: words},
    )
    moment = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    job = Job(
        "a" * 32,
        spec,
        "done",
        "finished",
        moment,
        started=moment,
        ended=moment,
        elbo=-123.4,
        converged=False,
        notes=(words,),
        note=words,
    )
    steps = [
        FitStep(i, 30, 0.1 * i, -500 + 10.0 * i, {"data fit": -400.0, words: i - 100.0})
        for i in range(1, 31)
    ]
    return ReportSubject(
        job=job,
        model=("LDGD", "Somebody 2024"),
        settings=(SettingRow("n_inducing", "inducing inputs", 25, default=True),),
        shape=(n + 5, n, 4),
        labels={words: {words: n}},
        columns=tuple(ColumnRow(f"{words} {i}", 1.5, 0.5, i) for i in range(4)),
        left_out=(words, "5 rows left out: no label."),
        axes=(0, 1),
        rows=MapRows(
            points=rng.standard_normal((n, 2)),
            number=np.arange(n),
            hover=[[words, f"label: {words}"]] * n,
            colouring=CategoryStyle(words, (words, "other one"), np.arange(n) % 2),
            sd=np.full((n, 2), 0.1),
        ),
        sees_labels=True,
        relevance={"data": np.array([0.9, 0.1]), f"labels: {words}": np.array([0.5, 0.5])},
        steps=steps,
        metrics=(Metric(words, 0.987, words), Metric("another", None, "Too few rows.")),
        program=f"# {words}\nprint(1)\n",
        digest="e" * 64,
    )


class Read(HTMLParser):
    """The page as a browser reads it: elements, their attributes, and the text in view."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.texts.append(data)


def read(found: ReportSubject) -> Read:
    return Read(document.report_html(found).decode())


def test_everything_that_there_is_to_say_is_said() -> None:
    page = read(subject())
    said = "\n".join(page.texts)
    for part in (
        "65 rows in the table, 60 rows in the fit, 4 features.",
        "5 rows left out: no label.",
        "inducing inputs",
        "n_inducing",
        "0.9870",
        "not measured",
        "Too few rows.",
        "−123.400 nats, still improving.",
        "no measure of accuracy on new rows",
        "posterior of 60 rows, 2 sd",
        "print(1)",
        "d" * 64,
        "e" * 64,
        "a" * 32,
        "version of latentboard",
        "2026-01-02",
    ):
        assert part in said, part
    places = {attributes["id"] for tag, attributes in page.elements if "id" in attributes}
    assert places == {"map", "relevance", "bound", "terms", "figures"}
    labelled = [a for _, a in page.elements if a.get("role") == "img"]
    assert len(labelled) == 4
    assert all(a.get("aria-label") for a in labelled)


def test_the_figures_hold_the_rows_with_their_own_names_light_and_dark() -> None:
    page = read(subject())
    drawn = json.loads(page.scripts[0])
    for shade in ("light", "dark"):
        data = drawn["map"][shade]["data"]
        names = [trace.get("name") for trace in data]
        assert "ground" not in names
        assert "other one" in names
    assert drawn["map"]["light"]["layout"] != drawn["map"]["dark"]["layout"]
    assert "plain" in json.dumps(drawn["map"]["light"]["data"])


@pytest.mark.slow(quick=["words15"])
@pytest.mark.parametrize("words", PAYLOADS)
def test_hostile_names_stay_text(words: str) -> None:
    plain, hostile = read(subject()), read(subject(words))
    kinds = [[tag for tag, _ in page.elements] for page in (plain, hostile)]
    assert kinds[0] == kinds[1]
    allowed = {"id", "class", "role", "aria-label", "charset", "name", "content", "http-equiv"}
    assert {name for _, a in hostile.elements for name in a} <= {*allowed, "type", "lang"}
    assert [a for _, a in hostile.elements] == [a for _, a in plain.elements]
    assert hostile.scripts[1:] == plain.scripts[1:]
    assert json.loads(hostile.scripts[0])["map"]["light"]["data"]
    shown = "\n".join(hostile.texts)
    assert "x" * 700 not in shown.replace(subject(words).job.note, "").replace(
        subject(words).program or "", ""
    )


def test_the_policy_allows_the_two_scripts_and_nothing_else() -> None:
    page = read(subject())
    (policy,) = [a["content"] for _, a in page.elements if "http-equiv" in a]
    assert policy is not None
    rules: dict[str, Any] = {
        name: words for name, *words in (rule.split() for rule in policy.split("; "))
    }
    assert rules["default-src"] == ["'none'"]
    assert rules["script-src"] == [content_policy._source(script) for script in page.scripts[1:]]
    assert "unsafe-eval" not in policy
    addresses = re.findall(r'(?:src|href)="?https?:', "".join(page.texts))
    assert addresses == []


def test_a_long_table_is_thinned_evenly_and_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MOST_ROWS", 20)
    page = read(subject(n=60))
    assert "20 rows of 60 rows are drawn, evenly spaced" in "\n".join(page.texts)
    data = json.loads(page.scripts[0])["map"]["light"]["data"]
    named = [trace for trace in data if trace.get("name") in ("plain", "other one")]
    assert sum(len(trace["hovertext"]) for trace in named) == 20


@pytest.mark.slow
def test_it_stays_below_its_size_whatever_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    small = len(document.report_html(subject(n=2)))
    found = subject("w" * 60, n=3000)
    found = replace(found, rows=replace(found.rows, hover=[["w" * 400]] * 3000))
    whole = len(document.report_html(found))
    limit = small + (whole - small) // 3
    monkeypatch.setattr(document, "MOST_BYTES", limit)
    page = document.report_html(found)
    assert len(page) <= limit
    assert "of 3\u202f000 rows are drawn" in "\n".join(Read(page.decode()).texts)


def test_numbers_colour_a_thinned_map_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MOST_ROWS", 10)
    found = subject()
    look = NumericColours("dose", np.arange(60.0))
    page = read(replace(found, rows=replace(found.rows, colouring=look)))
    assert json.loads(page.scripts[0])["map"]["dark"]["data"]


def test_what_a_run_lacks_is_left_out() -> None:
    found = subject()
    bare = replace(
        found,
        job=replace(found.job, note="", elbo=None),
        steps=found.steps[:1],
        relevance={},
        metrics=(),
        program=None,
        rows=replace(found.rows, sd=None, colouring=None),
        labels={},
    )
    page = read(bare)
    said = "\n".join(page.texts)
    assert "No scores were measured." in said
    assert "Python that repeats" not in said
    assert "Ellipses" not in said
    places = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    assert places == {"map", "figures"}


def test_a_list_that_is_cut_says_so() -> None:
    many = {f"class {i}": 1 for i in range(345)}
    columns = tuple(ColumnRow(f"column {i}", 0.0, 1.0, 0) for i in range(5000))
    said = read(replace(subject(), labels={"kind": many, "few": {"a": 1}}, columns=columns)).texts
    assert "Label kind: the first 200 of 345 classes" in said
    assert "Label few" in said
    assert "Columns: the first 200 of 5000" in said
    assert "class 199" in said
    assert "class 200" not in said


def test_the_script_and_the_style_are_packaged() -> None:
    folder = Path(str(files("app"))) / "static"
    assert (folder / "report.js").is_file()
    assert (folder / "report.css").is_file()
