"""Missing cells filled, in a real browser: a CSV with gaps, fitted, filled, checked and taken."""

import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore.data import load_sample
from tests.e2e.dashboard import Dashboard

pytestmark = pytest.mark.timeout(600)


def test_gaps_are_filled_checked_and_exported(dashboard: Dashboard, tmp_path: Path) -> None:
    page = dashboard.page
    frame = load_sample("wine").frame.iloc[::2].reset_index(drop=True)
    rng = np.random.default_rng(4)
    gappy = ["malic_acid", "ash", "magnesium"]
    given = frame.copy()
    given[gappy] = given[gappy].mask(rng.random((len(frame), len(gappy))) < 0.15)
    file = tmp_path / "gappy.csv"
    given.to_csv(file, index=False)
    gaps = given[gappy].isna()

    dashboard.open()
    dashboard.upload(file)
    dashboard.says("89 rows, 13 features, label with 3 classes")
    dashboard.to_fit()
    dashboard.choose("ppca")
    dashboard.says("Settings of Probabilistic PCA")
    dashboard.start()
    dashboard.says("done in")
    dashboard.explore()
    dashboard.follow("Missing cells")
    dashboard.says(f"lacks {gaps.to_numpy().sum()} cells in 3 of 13 columns")
    dashboard.button("Impute the missing cells").click()
    dashboard.says(re.compile(r"90 % intervals contain \d+ % of \d+ hidden cells"))
    plot = dashboard.plot("Predictions of hidden cells over their true values")
    assert sum(len(trace["x"]) for trace in plot["traces"] if trace["name"] != "exact") > 5
    dashboard.settled()
    dashboard.has_rows(dashboard.table("The completed table"), int(gaps.any(axis=1).sum()))

    content = dashboard.download("Completed table as CSV")
    texts, own = (
        pd.read_csv(source, dtype=str, keep_default_na=False)
        for source in (io.BytesIO(content), file)
    )
    assert list(texts) == list(own)
    observed = (own != "").to_numpy()
    assert (texts.to_numpy()[observed] == own.to_numpy()[observed]).all()
    assert (texts.to_numpy() != "").all()

    page.get_by_text("With details", exact=True).click()
    dashboard.settled()
    found = pd.read_csv(io.BytesIO(dashboard.download("Completed table with details as CSV")))
    assert len(found) == len(frame)
    for name in frame.select_dtypes("number"):
        known = given[name].notna()
        np.testing.assert_array_equal(found[name][known], given[name][known])
    for name in gappy:
        np.testing.assert_array_equal(found[f"{name} imputed"], gaps[name])
        np.testing.assert_array_equal(found[f"{name} sd"].notna(), gaps[name])
        error = (found[name] - frame[name])[gaps[name]]
        assert np.sqrt(np.square(error).mean()) < 1.5 * frame[name].std()

    page.reload()
    dashboard.says("90 % intervals contain")
    dashboard.no_traceback()
