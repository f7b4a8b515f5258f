"""``lvmcore transform``: rows of a table on the map of a fitted model."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lvmcore
from lvmcore import cli
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.models import MODELS

NAMES = ["height", "width", "depth, mm"]


@pytest.fixture
def model(rng: np.random.Generator) -> LatentVariableModel:
    X = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 3)) + 5.0
    return lvmcore.ProbabilisticPCA(n_components=2).fit(pd.DataFrame(X, columns=NAMES))


@pytest.fixture
def file(model: LatentVariableModel, tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    model.save(path)
    return path


@pytest.fixture
def strict(model: LatentVariableModel, tmp_path: Path) -> Path:
    """The file of a model that needs every cell."""
    path = tmp_path / "strict.safetensors"
    lvmcore.PCA(n_components=2).fit(pd.DataFrame(model.sample(60), columns=NAMES)).save(path)
    return path


@pytest.fixture
def rows(rng: np.random.Generator) -> pd.DataFrame:
    frame = pd.DataFrame(rng.standard_normal((25, 3)) + 5.0, columns=NAMES)
    frame["sample"] = [f"=s{i:02d}" for i in range(25)]
    frame["colour"] = ["red", "green", "blue", "red", "red"] * 5
    return frame


def run(tmp_path: Path, file: Path, frame: pd.DataFrame, *options: str) -> int:
    path = tmp_path / "new.csv"
    frame.to_csv(path, index=False)
    return cli.main(["transform", str(file), str(path), *options])


def test_rows_lie_where_the_model_puts_them_whatever_the_order_of_columns(
    model: LatentVariableModel,
    file: Path,
    rows: pd.DataFrame,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "embedding.csv"
    mixed = rows[["colour", "depth, mm", "sample", "width", "height"]]
    assert run(tmp_path, file, mixed, "--row-id", "sample", "--out", str(out)) == 0
    said = capsys.readouterr()
    assert "25 rows placed in 2 dimensions by Probabilistic PCA" in said.out
    assert "Not used, since the model has no such features: 'colour'" in said.out
    assert said.err == ""
    found = pd.read_csv(out)
    assert list(found) == ["row_id", "z1", "z2", "z1_sd", "z2_sd", "surprise"]
    assert found["row_id"].tolist() == ["'" + name for name in rows["sample"]]  # no formula
    where = model.posterior(rows[NAMES])
    np.testing.assert_array_equal(found[["z1", "z2"]], where.mean)
    np.testing.assert_array_equal(found[["z1_sd", "z2_sd"]], np.sqrt(where.variance))


def test_a_run_folder_will_do_and_parquet_comes_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "run", tmp_path / "embedding.parquet"
    fit = ["fit", "sample:iris", "--model", "pca", "--set", "n_components=2", "--out", str(folder)]
    assert cli.main(fit) == 0
    assert cli.main(["transform", str(folder), "sample:iris", "--out", str(out)]) == 0
    found = pd.read_parquet(out)
    fitted = pd.read_parquet(folder / "embedding.parquet")
    assert list(found) == ["row_id", "z1", "z2"]
    np.testing.assert_allclose(found[["z1", "z2"]], fitted[["z1", "z2"]], atol=1e-12)
    assert found["row_id"].tolist() == fitted["row_id"].tolist()
    assert "'species'" in capsys.readouterr().out


def test_columns_enter_as_they_did_in_the_fit(
    rows: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out, path = tmp_path / "run", tmp_path / "out.parquet", tmp_path / "rows.csv"
    rows["height"] = np.exp(rows["height"])
    rows.to_csv(path, index=False)
    fit = ["fit", str(path), "--model", "pca", "--set", "n_components=3", "--no-label"]
    options = ["--log1p", "height", "--one-hot", "colour", "--row-id", "sample"]
    assert cli.main([*fit, *options, "--out", str(folder)]) == 0
    few = rows.iloc[:4].drop(columns="sample")
    assert run(tmp_path, folder, few, "--no-row-id", "--out", str(out)) == 0
    fitted = pd.read_parquet(folder / "embedding.parquet")
    places = ["z1", "z2", "z3"]
    np.testing.assert_allclose(pd.read_parquet(out)[places], fitted[places][:4], atol=1e-10)
    assert "Not used" not in capsys.readouterr().out


def test_rows_that_lack_a_cell_are_left_out_and_said_to_be(
    strict: Path,
    rows: pd.DataFrame,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows.loc[[3, 9], "width"] = np.nan
    out = tmp_path / "embedding.csv"
    assert run(tmp_path, strict, rows, "--no-row-id", "--out", str(out)) == 0
    assert "2 rows left out: a cell is missing, first in row 4" in capsys.readouterr().out
    found = pd.read_csv(out)
    assert found["row_id"].tolist() == [i for i in range(1, 26) if i not in (4, 10)]
    np.testing.assert_array_equal(
        found["z1"], lvmcore.load(strict).transform(rows[NAMES].dropna())[:, 0]
    )


def test_rows_that_lack_a_cell_are_placed_where_the_model_takes_them(
    model: LatentVariableModel, file: Path, rows: pd.DataFrame, tmp_path: Path
) -> None:
    rows.loc[[3, 9], "width"] = np.nan
    out = tmp_path / "embedding.csv"
    assert run(tmp_path, file, rows, "--no-row-id", "--out", str(out)) == 0
    where = model.posterior(rows[NAMES])
    np.testing.assert_array_equal(pd.read_csv(out)[["z1", "z2"]], where.mean)
    assert where.variance[3, 0] > where.variance[4, 0]


def test_a_model_without_names_takes_as_many_columns_in_their_order(
    rng: np.random.Generator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    X = rng.standard_normal((40, 3))
    file, out = tmp_path / "bare.safetensors", tmp_path / "out.csv"
    model = lvmcore.PCA(n_components=2).fit(X)
    model.save(file)
    frame = pd.DataFrame(X, columns=["p", "q", "r"])
    assert run(tmp_path, file, frame, "--out", str(out)) == 0
    np.testing.assert_allclose(pd.read_csv(out)["z1"], model.transform(X)[:, 0], atol=1e-12)
    capsys.readouterr()
    assert run(tmp_path, file, frame[["p", "q"]], "--out", str(out)) == 2
    assert "3 columns without names" in capsys.readouterr().err


@pytest.mark.slow
def test_logarithms_and_levels_are_made_as_the_run_learned_them(
    tmp_path: Path, rng: np.random.Generator, capsys: pytest.CaptureFixture[str]
) -> None:
    table, folder, out = tmp_path / "table.csv", tmp_path / "run", tmp_path / "out.csv"
    frame = pd.DataFrame(rng.standard_normal((60, 2)), columns=["p", "q"])
    frame["dose"] = np.exp(2 * rng.standard_normal(60))
    frame["site"] = ["north", "south = far", "west"] * 20
    frame.to_csv(table, index=False)
    fit = ["fit", str(table), "--model", "ppca", "--no-label", "--set", "n_components=2"]
    learned = ["--features", "p,q,dose", "--log1p", "dose", "--one-hot", "site"]
    assert cli.main([*fit, *learned, "--out", str(folder)]) == 0
    fitted = pd.read_parquet(folder / "embedding.parquet")
    some = frame.iloc[[7, 4, 1]].reset_index(drop=True)  # one level only
    for rows, places in ((frame, range(60)), (some, [7, 4, 1])):
        assert run(tmp_path, folder, rows, "--out", str(out)) == 0
        found = pd.read_csv(out)
        expected = fitted.iloc[list(places)]
        np.testing.assert_allclose(found[["z1", "z2"]], expected[["z1", "z2"]], atol=1e-9)
    capsys.readouterr()
    some.loc[1, "site"] = "east"
    assert run(tmp_path, folder, some, "--out", str(out)) == 0
    assert "levels that the model does not know" in (said := capsys.readouterr().out)
    assert "'east'" in said


def test_missing_and_further_columns_are_named(
    strict: Path, rows: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"
    wrong = rows.rename(columns={"width": "widths", "depth, mm": "depth"})
    assert run(tmp_path, strict, wrong, "--out", str(out)) == 2
    said = capsys.readouterr().err
    assert "lacks 'width', 'depth, mm'" in said
    assert "the 3 columns that the model was fitted to" in said
    assert "'width' may be called 'widths' here" in said
    assert "Its other columns: 'widths', 'depth', 'colour'" in said
    assert not out.exists()


def test_a_column_without_any_cell_is_named(
    strict: Path, rows: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows["width"] = np.nan
    assert run(tmp_path, strict, rows, "--out", str(tmp_path / "out.csv")) == 2
    assert "Every cell of 'width' is missing" in capsys.readouterr().err


def test_text_where_the_model_wants_numbers_is_refused(
    file: Path, rows: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows["width"] = rows["colour"]
    assert run(tmp_path, file, rows, "--out", str(tmp_path / "out.csv")) == 2
    assert "'width' cannot be a feature" in capsys.readouterr().err


def test_a_run_in_the_store_says_how_unusual_rows_are_and_which_label_was_meant(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LATENTBOARD_HOME", str(tmp_path / "home"))
    assert cli.main(["fit", "sample:iris", "--model", "lda"]) == 0
    capsys.readouterr()
    (folder,) = (tmp_path / "home" / "jobs").iterdir()
    out = tmp_path / "out.csv"
    assert cli.main(["transform", str(folder), "sample:iris", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "Label: species, as in the fit" in said
    assert "accuracy: 0.98" in said
    assert "expected calibration error: " in said
    assert "has no density" in said
    found = pd.read_csv(out)
    names = [f"probability of {name}" for name in ("setosa", "versicolor", "virginica")]
    assert list(found) == [
        "row_id", "label", "z1", "z2", "predicted", "decided", "probability", *names,
    ]  # fmt: skip
    np.testing.assert_allclose(found[names].sum(axis=1), 1.0)
    assert found["decided"].all()
    strict = ["--abstain", "0.99", "--no-label"]
    assert cli.main(["transform", str(folder), "sample:iris", "--out", str(out), *strict]) == 0
    found = pd.read_csv(out)
    assert found["decided"].tolist() == (found["probability"] >= 0.99).tolist()
    assert 0 < found["decided"].sum() < 150
    assert "label" not in found


@pytest.mark.slow
def test_the_table_of_the_fit_may_be_given_beside_a_model_file(
    file: Path, rows: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, path = tmp_path / "out.csv", tmp_path / "fitted.csv"
    rows.to_csv(path, index=False)
    few = rows.iloc[:5].assign(width=lambda frame: 1000 * frame["width"])
    assert run(tmp_path, file, few, "--out", str(out), "--fitted", str(path)) == 0
    said = capsys.readouterr().out
    assert "'width' looks 1000 times larger" in said
    assert "unusual rows: 5." in said
    assert pd.read_csv(out)["unusual"].tolist() == [1.0] * 5
    assert run(tmp_path, file, few, "--out", str(out)) == 0
    assert "Unusual rows are not marked" in capsys.readouterr().out
    assert "unusual" not in pd.read_csv(out)


@pytest.mark.parametrize("given", ["1.5", "-0.1", "often"])
def test_only_a_probability_can_be_abstained_below(
    given: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["transform", str(file), "x.csv", "--out", "y.csv", f"--abstain={given}"])
    assert ended.value.code == 2
    assert "expected a probability from 0 to 1" in capsys.readouterr().err


def test_a_model_that_cannot_place_new_rows_says_so(
    file: Path,
    rows: pd.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cls = MODELS["ppca"]
    fixed = cls.capabilities.__class__(uncertainty=True, bound=True, new_rows=False)
    monkeypatch.setattr(cls, "capabilities", fixed)
    assert run(tmp_path, file, rows, "--out", str(tmp_path / "out.csv")) == 2
    assert "ProbabilisticPCA cannot place new rows on its map" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.safetensors", "sample:iris", "--out", "x.csv"], "no model file at nowhere"),
        ([".", "sample:iris", "--out", "x.csv"], "holds no fitted model"),
        (
            ["nowhere.safetensors", "sample:iris", "--out", "x.doc"],
            "expected .csv, .parquet or .h5ad",
        ),
    ],
)
def test_what_cannot_be_used_is_said_plainly(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["transform", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_named(
    file: Path, rows: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "nowhere" / "out.csv"
    assert run(tmp_path, file, rows, "--out", str(out)) == 2
    assert f"{out} cannot be written" in capsys.readouterr().err
