"""The choice of a column to predict: columns whose names begin alike are told apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app.services import runs, server
from app.state.choices import TargetChoice
from lvmcore.data import Table
from tests.app.conftest import OpenPage, Wait

ALIKE = "expression of the protein in the left ventricle, replicate "


def box(page: AppTest, label: str) -> Any:
    (found,) = [element for element in page.main.selectbox if element.label == label]
    return found


@pytest.mark.slow
def test_columns_and_classes_whose_names_begin_alike_are_told_apart(
    open_page: OpenPage, wait: Wait
) -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.standard_normal((60, 3)), columns=[f"{ALIKE}{k}" for k in (1, 2, 3)])
    frame["kind"] = np.where(frame[f"{ALIKE}1"] > 0, f"{ALIKE}high", f"{ALIKE}low")
    for name in ("first", "second"):
        frame[f"{ALIKE}{name} batch"] = [f"{name} {k % 6}" for k in range(60)]
    dataset = Table.from_frame(frame, name="alike").dataset()
    aim = TargetChoice("kind")
    run = runs.start_fit(dataset, "svgp_classifier", {"max_iter": 3}, aim)
    page = open_page("fit", run=run)
    assert not page.exception
    assert len(set(box(page, "Target").options)) == 1 + len(frame.columns)
    box(page, "Target").select(f"{ALIKE}2").run()
    assert box(page, "Target").value == f"{ALIKE}2"
    box(page, "Scored on").select("groups").run()
    options = box(page, "By the column").options
    assert len(set(options)) == len(options) == 3
    assert wait(run).status == "done"
    page = open_page("predict", run=run)
    options = box(page, "Show").options
    assert len(set(options)) == len(server.store().load_model(run, "target").classes_) == 2
