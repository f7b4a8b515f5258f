"""A target, its groups and its classes with names that try to be more than text."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app.analysis.graphical_models.graphical_model import parse_symbol
from app.analysis.graphical_models.model_families import FAMILIES
from app.services import prediction
from app.state.widgets import widget_key
from lvmcore.runs import Job
from tests.app.conftest import OpenPage, Wait, follow
from tests.e2e.hostile import PAYLOADS, formulas

_COLUMNS = (*PAYLOADS[:6], *PAYLOADS[12:15])
TARGET, LONG = f"=1+17 {PAYLOADS[7]}", f"{PAYLOADS[12]}{PAYLOADS[22]}"
_CLASSES = [PAYLOADS[k] for k in (1, 8, 12, 14, 20)]


def table() -> pd.DataFrame:
    """120 rows: nine columns, a target, classes, groups, and a column of time."""
    rng = np.random.default_rng(31)
    X = rng.standard_normal((120, len(_COLUMNS)))
    frame = pd.DataFrame(X, columns=list(_COLUMNS))
    frame.insert(0, f"id {PAYLOADS[3]}", [f"{PAYLOADS[k % 30][:40]} {k}" for k in range(120)])
    frame[TARGET] = X[:, 0] + 0.1 * rng.standard_normal(120)
    frame[LONG] = X[:, 1] - X[:, 2]
    codes = np.digitize(X[:, 3], [-1, -0.3, 0.3, 1])
    frame[f"kind {PAYLOADS[9]}"] = [_CLASSES[k] for k in codes]
    frame[f"group {PAYLOADS[10]}"] = [PAYLOADS[k % 7] for k in range(120)]
    frame[f"time {PAYLOADS[11]}"] = pd.date_range("2020-01-01", periods=120)
    return frame


def spoken(page: AppTest) -> Iterator[str]:
    """Every text that is read as Markdown, the help of the widgets included."""
    for element in page.main:
        if element.type in (
            "markdown",
            "caption",
            "success",
            "info",
            "warning",
            "error",
            "exception",
        ):
            yield str(element.value)
        for name in ("help", "label"):
            yield str(getattr(element.proto, name, "") or "")


_ESCAPED = re.compile(r"\\.", re.DOTALL)
_ACTIVE = re.compile(r"<|`|!\[|\]\(|:red\[|:blue-badge|:smile:|:material/bug|\$|https?://\w")


def own_formulas() -> frozenset[str]:
    """The symbols of the graphical models as the Fit page writes them: no part of the table."""
    return frozenset(
        f"${parse_symbol(variable.symbol).latex}$: "
        for _, model in FAMILIES
        for variable in model.variables
    )


def active(page: AppTest) -> list[str]:
    """Texts of the page with something in them that Markdown would act on."""
    own = own_formulas()
    found = []
    for text in spoken(page):
        formula, colon, rest = text.partition("$: ")
        read = rest if formula + colon in own else text
        if _ACTIVE.search(_ESCAPED.sub("", read)) is not None:
            found.append(text)
    return found


_TAG = re.compile(r"<(?!/?b>|br>|extra>|/extra>)[a-zA-Z/!]")


def strings(part: Any) -> Iterator[str]:
    """All texts of a figure, its numbers in base64 left out."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for key, value in part.items():
            if key != "bdata":
                yield from strings(value)
    elif isinstance(part, list):
        for value in part:
            yield from strings(value)


def drawn(page: AppTest) -> list[str]:
    """Texts of the charts that plotly would take for tags, or that are too long to be drawn."""
    figures = [json.loads(element.proto.spec) for element in page.get("plotly_chart")]
    return [
        text
        for figure in figures
        for text in strings(figure)
        if _TAG.search(text) or len(text) > 600
    ]


def box(page: AppTest, label: str) -> Any:
    (found,) = [element for element in page.main.selectbox if element.label == label]
    return found


def fit(page: AppTest, wait: Wait, target: str, model: str, split: str, by: str) -> Job:
    """Fit a model of a target through the Fit page."""
    box(page, "Target").select(target).run()
    assert not page.exception
    if split:
        box(page, "Scored on").select(split).run()
        box(page, "By the column").select(by).run()
    assert not page.exception
    assert active(page) == []
    (steps,) = [one for one in page.main.number_input if one.label == "Steps at most"]
    steps.set_value(20).run()
    page.button(widget_key("fit", "start")).click().run()
    assert not page.exception
    job = wait(page.query_params["run"])
    assert job.status == "done", job.message
    assert (job.spec.target, job.spec.model) == (target, model)
    page.run()
    assert not page.exception
    assert active(page) == []
    return job


def predicted_elsewhere(page: AppTest, run: str, wait: Wait) -> Job:
    """Predict the first rows of the table, as another file."""
    sink = io.BytesIO()
    table().iloc[:50].to_parquet(sink)
    key = widget_key("predict", run, "upload")
    page.file_uploader(key).set_value(("=new <i>.parquet", sink.getvalue(), "a/b")).run()
    assert not page.exception
    assert active(page) == []
    (button,) = [one for one in page.main.button if one.label == "Predict"]
    button.click().run()
    job = wait(page.query_params["rows"])
    page.run()
    assert not page.exception
    return job


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "model", "split", "by"),
    [
        (TARGET, "gp_regressor", "groups", f"group {PAYLOADS[10]}"),
        (LONG, "gp_regressor", "time", f"time {PAYLOADS[11]}"),
        (f"kind {PAYLOADS[9]}", "svgp_classifier", "", ""),
    ],
    ids=["groups", "time", "classes"],
)
def test_names_of_a_target_stay_text_on_every_page_and_in_every_file(
    open_page: OpenPage, wait: Wait, target: str, model: str, split: str, by: str
) -> None:
    sink = io.BytesIO()
    table().to_parquet(sink)
    page = open_page("data")
    page.file_uploader(widget_key("data", "upload")).set_value(
        ("=evil <b>.parquet", sink.getvalue(), "application/octet-stream")
    ).run()
    box(page, "Row id").set_value(table().columns[0]).run()
    follow(page, "Fit a model")
    run = fit(page, wait, target, model, split, by)
    page = open_page("predict", run=run.id)
    assert not page.exception
    assert active(page) == []
    assert drawn(page) == []
    new = predicted_elsewhere(page, run.id, wait)
    assert active(page) == []
    assert drawn(page) == []
    for job in (run, new):
        assert list(formulas(prediction.predictions_csv(job.id))) == []
        frame = pd.read_parquet(io.BytesIO(prediction.predictions_parquet(job.id)))
        assert len(frame) == (120 if job is run else 50)
    page = open_page("runs")
    page.session_state["runs.chosen"] = (run.id,)
    page.run()
    assert not page.exception
    assert active(page) == []
