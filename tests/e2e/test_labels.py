"""Two label columns in a real browser: chosen, learned from at once, and predicted for new rows."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect

from tests.e2e.dashboard import PATIENCE_MS, Dashboard

pytestmark = pytest.mark.timeout(600)

TERMS = "The terms of the bound at each step"
NEW_MAP = "Map of the fit with the new rows"


def _birds(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    kind, sex = np.arange(90) % 3, rng.integers(0, 2, 90)
    bill = np.array([38.8, 48.8, 47.5])[kind] + 3.4 * sex
    depth = np.array([17.6, 17.7, 14.2])[kind] + 1.5 * sex
    flipper = np.array([190.0, 195.0, 217.0])[kind] + 8 * sex
    mass = np.array([3370.0, 3530.0, 4680.0])[kind] + 650 * sex
    columns = {"bill": bill, "depth": depth, "flipper": flipper, "mass": mass}
    noise = {"bill": 1.2, "depth": 0.5, "flipper": 3.0, "mass": 180.0}
    frame = pd.DataFrame(
        {name: values + noise[name] * rng.standard_normal(90) for name, values in columns.items()}
    ).round(1)
    frame["species"] = np.array(["Adelie", "Chinstrap", "Gentoo"])[kind]
    frame["sex"] = np.array(["female", "male"])[sex]
    return frame


def test_two_labels_are_learned_from_at_once(dashboard: Dashboard, tmp_path: Path) -> None:
    page = dashboard.page
    first, second = tmp_path / "birds.csv", tmp_path / "others.csv"
    _birds(0).to_csv(first, index=False)
    others = _birds(1).rename(columns={"sex": "Sex"})
    others.to_csv(second, index=False)

    dashboard.open()
    dashboard.upload(first)
    dashboard.says("90 rows, 5 features, label with 3 classes")
    dashboard.settled()
    page.get_by_role("combobox", name="Further labels").click()
    page.get_by_role("option", name="sex").click()
    page.keyboard.press("Escape")
    dashboard.says("90 rows, 4 features, 2 labels with 3 and 2 classes")

    dashboard.to_fit()
    dashboard.says("Learns from species and sex: each has its own path")
    dashboard.number("Steps at most", 80)
    run = dashboard.start()
    dashboard.first_point()
    assert {"label fit: species", "label fit: sex"} < set(dashboard.curves(TERMS))
    dashboard.explore()

    drawn = dashboard.map()["digest"]
    colour = page.get_by_role("combobox", name="Colour")
    colour.click()
    page.get_by_role("option", name="label: sex").click()
    expect(page.get_by_text("labels: sex path").first).to_be_visible(timeout=PATIENCE_MS)
    dashboard.redrawn(drawn)
    assert set(dashboard.map()["names"]) == {"female", "male"}

    dashboard.open("new_rows", run=run)
    dashboard.upload(second)
    dashboard.says("others: 90 rows, 4 of 4 columns found")
    dashboard.button("Infer positions").click()
    dashboard.says("accuracy, species")
    page.get_by_role("radio", name="sex").click()
    dashboard.says("accuracy, sex")
    dashboard.figure(NEW_MAP)
    found = pd.read_csv(io.BytesIO(dashboard.download("New rows as CSV")))
    assert found["sex: label"].tolist() == others["Sex"].tolist()
    for name, least in (("species", 0.9), ("sex", 0.8)):
        assert np.mean(found[f"{name}: predicted"] == found[f"{name}: label"]) > least
    dashboard.no_traceback()
