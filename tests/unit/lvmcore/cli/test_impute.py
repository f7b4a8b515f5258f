"""``lvmcore impute``: the missing cells of a table, filled by a fitted model."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lvmcore
from lvmcore import cli

NAMES = ["height", "width", "depth"]


@pytest.fixture
def model(rng: np.random.Generator) -> lvmcore.ProbabilisticPCA:
    X = rng.standard_normal((60, 1)) + 0.3 * rng.standard_normal((60, 3)) + 5.0
    return lvmcore.ProbabilisticPCA(n_components=1).fit(pd.DataFrame(X, columns=NAMES))


@pytest.fixture
def rows(rng: np.random.Generator) -> pd.DataFrame:
    frame = pd.DataFrame(rng.standard_normal((25, 3)) + 5.0, columns=NAMES)
    frame.iloc[3, 0], frame.iloc[8, :2], frame.iloc[9] = np.nan, np.nan, np.nan
    frame["sample"] = [f"s{i:02d}" for i in range(25)]
    return frame


def run(tmp_path: Path, model: lvmcore.PCA, frame: pd.DataFrame, *options: str) -> int:
    model.save(tmp_path / "model.safetensors")
    frame.to_csv(tmp_path / "new.csv", index=False)
    paths = [str(tmp_path / "model.safetensors"), str(tmp_path / "new.csv")]
    return cli.main(["impute", *paths, "--out", str(tmp_path / "full.csv"), *options])


def test_cells_are_filled_whatever_the_order_of_columns(
    model: lvmcore.ProbabilisticPCA,
    rows: pd.DataFrame,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    mixed = rows[["depth", "sample", "width", "height"]]
    assert run(tmp_path, model, mixed, "--row-id", "sample") == 0
    assert "6 missing cells of 75 filled by Probabilistic PCA." in capsys.readouterr().out
    found = pd.read_csv(tmp_path / "full.csv")
    assert found["row_id"].tolist() == rows["sample"].tolist()
    expected = model.impute(rows[NAMES])
    np.testing.assert_allclose(found[NAMES], expected.mean)
    for d, name in enumerate(NAMES):
        np.testing.assert_array_equal(found[f"{name} imputed"], rows[name].isna())
        np.testing.assert_allclose(found[f"{name} sd"], np.sqrt(expected.variance[:, d]))


def test_a_model_that_needs_every_cell_is_refused(
    rows: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = lvmcore.PCA(n_components=1).fit(rows[NAMES].dropna())
    assert run(tmp_path, model, rows) == 2
    assert "PCA cannot fill missing cells" in capsys.readouterr().err
    assert not (tmp_path / "full.csv").exists()


def test_a_column_that_is_not_there_is_filled_throughout(
    model: lvmcore.ProbabilisticPCA, rows: pd.DataFrame, tmp_path: Path
) -> None:
    assert run(tmp_path, model, rows.drop(columns="width"), "--no-row-id") == 0
    found = pd.read_csv(tmp_path / "full.csv")
    assert found["width imputed"].all()
    np.testing.assert_allclose(
        found["width"], model.impute(rows[NAMES].assign(width=np.nan)).mean[:, 1]
    )
