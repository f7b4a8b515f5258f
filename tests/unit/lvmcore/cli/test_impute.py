"""``lvmcore impute``: the missing cells of a table, filled by a fitted model."""

import re
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
    assert run(tmp_path, model, mixed, "--row-id", "sample", "--details") == 0
    assert "6 missing cells of 75 filled by Probabilistic PCA." in capsys.readouterr().out
    found = pd.read_csv(tmp_path / "full.csv")
    assert list(found)[:4] == list(mixed)
    assert found["sample"].tolist() == rows["sample"].tolist()
    expected = model.impute(rows[NAMES])
    np.testing.assert_allclose(found[NAMES], expected.mean)
    for d, name in enumerate(NAMES):
        if rows[name].isna().any():
            np.testing.assert_array_equal(found[f"{name} imputed"], rows[name].isna())
        else:
            assert f"{name} imputed" not in found
        sd = np.where(rows[name].isna(), np.sqrt(expected.variance[:, d]), np.nan)
        if rows[name].isna().any():
            np.testing.assert_allclose(found[f"{name} sd"], sd)


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
    assert run(tmp_path, model, rows.drop(columns="width"), "--no-row-id", "--details") == 0
    found = pd.read_csv(tmp_path / "full.csv")
    assert found["width imputed"].all()
    np.testing.assert_allclose(
        found["width"], model.impute(rows[NAMES].assign(width=np.nan)).mean[:, 1], rtol=1e-5
    )  # of a column without observed cells six digits are written


def test_observed_cells_are_those_of_the_file_byte_for_byte(tmp_path: Path) -> None:
    """Codes, years, decimals, dates and categories; a semicolon and a decimal comma.

    Only a formula gets a quote mark, so that no spreadsheet runs it.
    """
    rng = np.random.default_rng(8)
    lines = ["Code;Year;Depth;Weight (kg);Kind;Sick;Seen;Note;Batch"]
    for n in range(120):
        x = rng.normal()
        cells = [
            f"{n:05d}",
            str(1990 + round(5 * x)),
            f"{10 + 2 * x + 0.1 * rng.normal():.2f}".replace(".", ","),
            f"{70 + 8 * x + rng.normal():.1f}".replace(".", ","),
            "abc"[int(np.digitize(x, [-0.5, 0.5]))],
            "yes" if x > 0 else "no",
            f"{1 + n % 28:02d}.03.2015",
            "=1+1" if n == 7 else f"note {n}" if n % 3 else "NA",
            f"{n % 4}",
        ]
        for d in (1, 2, 3, 4, 5):
            if rng.random() < 0.1:
                cells[d] = ("", "NA")[n % 2]
        lines.append(";".join(cells))
    source = tmp_path / "field book.csv"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    fit = ["fit", str(source), "--model", "ppca", "--out", str(tmp_path / "run"), "--no-label"]
    assert cli.main([*fit, "--one-hot", "Kind", "--row-id", "Code", "--set", "n_components=2"]) == 0
    for details in ([], ["--details"]):
        out = tmp_path / "full.csv"
        command = ["impute", str(tmp_path / "run"), str(source), "--out", str(out), *details]
        assert cli.main(command) == 0
        written = [line.split(";") for line in out.read_text(encoding="utf-8").splitlines()]
        given = [line.split(";") for line in lines]
        assert written[0][:9] == given[0]
        assert (len(written[0]) > 9) == bool(details)
        assert len(written) == len(given)
        filled: dict[str, list[str]] = {}
        for before, after in zip(given[1:], written[1:], strict=True):
            for name, cell, new in zip(given[0], before, after[:9], strict=True):
                if cell in ("", "NA") and name not in ("Note", "Code", "Seen", "Batch"):
                    filled.setdefault(name, []).append(new)
                else:
                    assert new == ("'=1+1" if cell == "=1+1" else cell), name
        assert set(filled) == {"Year", "Depth", "Weight (kg)", "Kind", "Sick"}
        forms = {
            "Year": r"(19|20)\d\d",
            "Depth": r"\d+,\d\d",
            "Weight (kg)": r"\d+,\d",
            "Kind": "[abc]",
            "Sick": "yes|no",
        }
        for name, form in forms.items():
            assert all(re.fullmatch(form, cell) for cell in filled[name]), (name, filled[name])


def test_missing_dates_are_filled_with_dates(tmp_path: Path, rng: np.random.Generator) -> None:
    t = np.arange(60)
    months = pd.date_range("1920-01-01", periods=60, freq="MS").strftime("%Y-%m").to_numpy(object)
    frame = pd.DataFrame({"when": months, "a": 2.0 * t, "b": 300.0 - t})
    frame[["a", "b"]] += 0.01 * rng.standard_normal((60, 2))
    frame.loc[[7, 31], "when"] = None
    source, out = tmp_path / "months.csv", tmp_path / "full.csv"
    frame.to_csv(source, index=False)
    fit = ["fit", str(source), "--model", "ppca", "--features", "when,a,b"]
    assert cli.main([*fit, "--set", "n_components=1", "--out", str(tmp_path / "run")]) == 0
    paths = [str(tmp_path / "run"), str(source), "--out", str(out)]
    assert cli.main(["impute", *paths]) == 0
    found = pd.read_csv(out, dtype=str)["when"]
    assert found[[7, 31]].tolist() == ["1920-08", "1922-08"]
    assert found.drop([7, 31]).tolist() == frame["when"].drop([7, 31]).tolist()
