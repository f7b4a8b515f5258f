"""The report of a run, opened from a file: drawn, offline, and nothing in its names runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page

from app.report import document
from tests.app.report.test_document import PAYLOADS, subject

WATCH = """() => {
  window.ran = [];
  window.alert = text => window.ran.push(String(text));
}"""


@pytest.mark.parametrize("rows", [40, 3000])  # the page itself would draw so many by WebGL
def test_a_report_draws_itself_offline_and_runs_nothing_of_its_names(
    page: Page, tmp_path: Path, rows: int
) -> None:
    found = subject(" ".join(PAYLOADS[:-1])[:4000], n=rows)
    codes = np.arange(rows) % len(PAYLOADS)
    look = replace(found.rows.colouring, names=PAYLOADS, codes=codes)  # type: ignore[type-var]
    hover = [[PAYLOADS[code]] for code in codes]
    found = replace(found, rows=replace(found.rows, colouring=look, hover=hover))
    path = tmp_path / "report.html"
    path.write_bytes(document.report_html(found))
    asked: list[str] = []
    dialogs: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.add_init_script(f"({WATCH})()")
    page.goto(path.as_uri())
    page.wait_for_function(
        "() => document.querySelectorAll('.figure .main-svg').length >= 4"
        " && document.querySelector('#map .legendtext') !== null"
    )
    page.wait_for_function(
        "rows => document.querySelectorAll('#map .points path').length === rows", arg=rows
    )
    page.mouse.move(400, 520)
    for shade in ("dark", "light"):
        page.emulate_media(color_scheme=shade)  # type: ignore[arg-type]
        colour = "rgb(232, 234, 237)" if shade == "dark" else "rgb(26, 29, 33)"
        page.wait_for_function(
            "colour => [...document.querySelectorAll('#map .xtitle')]"
            ".some(title => getComputedStyle(title).fill === colour)",
            arg=colour,
        )
    assert page.evaluate("window.ran") == []
    assert dialogs == []
    outside = [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
    assert outside == []
