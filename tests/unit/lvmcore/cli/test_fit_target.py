"""The command line learns to predict a column."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore import cli
from lvmcore.models import PREDICTORS
from lvmcore.runs import Store
from lvmcore.runs.job_folder import JobFolder

QUICK = ["--set", "max_iter=20", "--set", "n_inducing=10"]


@pytest.fixture
def csv(tmp_path: Path, rng: np.random.Generator) -> Path:
    """Houses: the price follows size and quarter."""
    size = rng.uniform(0, 10, 60)
    quarter = np.array(["north", "south", "west"] * 20)
    price = 50 + 6 * size + 20 * (quarter == "west") + rng.standard_normal(60)
    frame = pd.DataFrame({"size": size, "quarter": quarter, "price": price})
    frame.insert(0, "house", [f"h{k:02d}" for k in range(60)])
    path = tmp_path / "houses.csv"
    frame.to_csv(path, index=False)
    return path


def test_a_target_is_learned_and_predicted_for_another_file(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    asked = ["fit", str(csv), "--target", "price", "--out", str(out), "--seed", "1"]
    assert cli.main([*asked, "--set", "max_iter=100"]) == 0
    said = capsys.readouterr().out
    assert "Target: price, a number." in said
    assert "Model: Gaussian process (exact), as 'price' is a number, and a single layer" in said
    assert "'quarter' is one-hot encoded as 3 features" in said
    assert "Fitted to 48 rows and measured on 12" in said
    assert "RMSE: " in said
    assert "12 held-out rows" in said  # the best of the model and the baselines
    assert "    histogram boosting: RMSE " in said
    assert JobFolder(out).spec().target == "price"
    assert len(pd.read_parquet(out / "predictions.parquet")) == 60

    other = pd.read_csv(csv).iloc[::-1].drop(columns="price")
    other.loc[0, "quarter"] = "east"
    other.to_csv(tmp_path / "other.csv", index=False)
    written = tmp_path / "predictions.csv"
    assert cli.main(["predict", str(out), str(tmp_path / "other.csv"), "--out", str(written)]) == 0
    said = capsys.readouterr().out
    assert "price of 60 rows predicted by Gaussian process (exact)." in said
    assert "Rows with them have 0 in all of the column's features." in said
    found = pd.read_csv(written)
    assert list(found) == ["row_id", "mean", "sd", "q05", "q95"]
    assert list(found["row_id"]) == list(other["house"])
    truth = pd.read_csv(csv)["price"][::-1].to_numpy()[:-1]  # that of the last row changed
    assert np.sqrt(np.mean((found["mean"][:-1] - truth) ** 2)) < 3


def test_a_stored_run_shows_the_baselines(
    csv: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATENTBOARD_HOME", str(tmp_path / "home"))
    assert cli.main(["fit", str(csv), "--target", "price", *QUICK]) == 0
    (job,) = Store().list()
    capsys.readouterr()
    assert cli.main(["runs", "show", job.id]) == 0
    assert "    a linear model: RMSE " in capsys.readouterr().out
    assert cli.main(["runs", "show", job.id, "--json"]) == 0
    stored = json.loads(capsys.readouterr().out)["comparison"]
    assert [one["method"] for one in stored["methods"]] == ["model", "linear", "boosting", "forest"]
    assert stored["methods"][0]["values"]["rmse"] == job.metrics["rmse"].value
    Store().job_folder(job.id).files.comparison.unlink()  # a run of an earlier version
    assert cli.main(["runs", "show", job.id]) == 0
    assert "linear model" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_file_with_the_target_is_measured(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, written = tmp_path / "run", tmp_path / "found.parquet"
    assert cli.main(["fit", str(csv), "--target", "quarter", "--out", str(out), *QUICK]) == 0
    said = capsys.readouterr().out
    assert "Target: quarter, one of 3 classes." in said
    assert "accuracy: " in said
    assert "'quarter' left out" not in said  # it is the target, which was said
    assert cli.main(["predict", str(out), str(csv), "--out", str(written)]) == 0
    assert "log loss: " in capsys.readouterr().out
    found = pd.read_parquet(written)
    assert list(found["truth"]) == list(pd.read_csv(csv)["quarter"])
    chances = found[[name for name in found if name.startswith("probability of ")]]
    assert np.allclose(chances.sum(axis=1), 1)


def test_groups_and_time_are_kept_with_the_run(
    csv: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["fit", str(csv), "--target", "price", *QUICK]
    assert cli.main([*asked, "--groups", "quarter", "--name", "by quarter"]) == 0
    (job,) = Store(home).list()
    assert job.spec.model == "svgp_regressor"  # the exact process has no n_inducing
    assert (job.name, job.spec.groups) == ("by quarter", "quarter")
    capsys.readouterr()
    assert cli.main(["runs", "show", job.id[:8]]) == 0
    assert "target    price" in capsys.readouterr().out
    assert cli.main(["runs", "show", job.id[:8], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["target"] == "price"
    found = pd.read_parquet(Store(home).job_folder(job.id).path / "predictions.parquet")
    assert found["held_out"].sum() == 20


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--target", "cost"], "There is no column 'cost'"),
        (["--target", "house"], "'house' can be no target"),
        (["--target", "price", "--model", "ppca"], "draws a map"),
        (["--model", "svgp_regressor"], "name it by --target"),
        (["--target", "quarter", "--model", "svgp_regressor"], "holds classes"),
        (["--groups", "quarter"], "name it by --target"),
        (["--target", "price", "--embedding", "map.csv"], "has none"),
    ],
)
def test_what_does_not_go_together_is_refused(
    csv: Path,
    tmp_path: Path,
    options: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["fit", str(csv), "--out", str(tmp_path / "run"), *options]) == 2
    assert said in capsys.readouterr().err


def test_a_map_predicts_nothing_and_a_predictor_has_no_map(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, written = tmp_path / "run", str(tmp_path / "x.csv")
    assert cli.main(["fit", str(csv), "--target", "price", "--out", str(out), *QUICK]) == 0
    assert cli.main(["transform", str(out), str(csv), "--out", written]) == 2
    assert "has no map" in capsys.readouterr().err
    assert cli.main(["fit", str(csv), "--model", "ppca", "--out", str(tmp_path / "map")]) == 0
    assert cli.main(["predict", str(tmp_path / "map"), str(csv), "--out", written]) == 2
    assert "predicts no target" in capsys.readouterr().err


@pytest.mark.slow
def test_a_column_of_two_words_means_the_same_in_every_file(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though a file may hold one of them alone, or the others first; the run holds no table."""
    whole = pd.read_csv(csv).drop(columns="house")
    whole["quarter"] = whole["quarter"].replace("west", "south")
    whole["price"] = 100 * (whole["quarter"] == "south") + whole["size"]
    whole.to_csv(csv, index=False)
    out, written = tmp_path / "run", tmp_path / "found.csv"
    asked = ["fit", str(csv), "--target", "price", "--out", str(out), "--set", "max_iter=100"]
    assert cli.main(asked) == 0
    assert JobFolder(out).spec().codes == {"quarter": ("north", "south")}

    def predicted(rows: pd.DataFrame) -> np.ndarray:
        rows.to_csv(tmp_path / "some.csv", index=False)
        some = str(tmp_path / "some.csv")
        assert cli.main(["predict", str(out), some, "--out", str(written)]) == 0
        return pd.read_csv(written)["mean"].to_numpy()

    whole = whole.drop(columns="price")
    expected = predicted(whole)
    for word in ("south", "north"):
        chosen = (whole["quarter"] == word).to_numpy()
        np.testing.assert_allclose(predicted(whole[chosen]), expected[chosen], rtol=1e-9)
    capsys.readouterr()
    predicted(whole.assign(quarter=["east", "south"] * 30))
    said = " ".join(capsys.readouterr().out.split())
    assert "'quarter' has values that the model does not know: 'east'" in said


def test_the_models_of_a_target_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models"]) == 0
    listed = capsys.readouterr().out
    assert all(key in listed for key in PREDICTORS)
    assert cli.main(["models", "--model", "sod_regressor"]) == 0
    assert "n_inducing" in capsys.readouterr().out


@pytest.fixture
def months(tmp_path: Path, rng: np.random.Generator) -> Path:
    """Sales by month: a trend and a yearly wave."""
    t = np.arange(48)
    sold = 20 + 0.5 * t + 6 * np.sin(2 * np.pi * t / 12) + 0.3 * rng.standard_normal(48)
    path = tmp_path / "sales.csv"
    when = pd.date_range("1960-01-01", periods=48, freq="MS").strftime("%Y-%m")
    pd.DataFrame({"Month": when, "Sold": sold}).to_csv(path, index=False)
    return path


def test_a_series_of_months_is_learned_and_forecast(
    months: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, other, written = tmp_path / "run", tmp_path / "later.csv", tmp_path / "forecast.csv"
    kernel = ["--set", "kernel=linear + periodic(Month, period=12)", "--set", "max_iter=40"]
    asked = ["fit", str(months), "--target", "Sold", "--model", "gp_regressor", *kernel]
    assert cli.main([*asked, "--time", "Month", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert said.count("Column 'Month' is the number of months since 1960-01.") == 1
    assert "'Month' left out" not in said
    assert "the last 21% of the rows by 'Month'" in said
    assert JobFolder(out).spec().date_scales == {"Month": ("month", "1960-01")}

    other.write_text("Month\n1964-01\n1964-01-16T12:00\n1964-02\n1964-07\n", encoding="utf-8")
    assert cli.main(["predict", str(out), str(other), "--out", str(written)]) == 0
    assert "is the number of months since 1960-01" in capsys.readouterr().out
    found = pd.read_csv(written)["mean"].to_numpy()
    at = np.array([48, 48.5, 49, 54])
    np.testing.assert_allclose(found, 20 + 0.5 * at + 6 * np.sin(2 * np.pi * at / 12), atol=1.5)

    other.write_text("Month\n1964-01\nsoon\n", encoding="utf-8")
    assert cli.main(["predict", str(out), str(other), "--out", str(written)]) == 2
    said = capsys.readouterr().err
    assert "Column 'Month' cannot be a feature: row 2 has 'soon', which is no date" in said

    model = out / "model.safetensors"  # alone it does not say from when it counts
    other.write_text("Month\n1964-01\n1964-02\n", encoding="utf-8")
    assert cli.main(["predict", str(model), str(other), "--out", str(written)]) == 2
    assert "its file does not say which" in capsys.readouterr().err
    beside = ["--fitted", str(months), "--out", str(written)]
    assert cli.main(["predict", str(model), str(other), *beside]) == 0
    np.testing.assert_allclose(pd.read_csv(written)["mean"], found[[0, 2]])


def test_classes_over_time_have_the_date_as_their_feature(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "phases.csv"
    when = pd.date_range("2001-01-01", periods=40, freq="YS").strftime("%Y-%m-%d")
    phase = np.repeat(["early", "late"], 20)
    pd.DataFrame({"when": when, "phase": phase}).to_csv(path, index=False)
    asked = ["fit", str(path), "--target", "phase", "--model", "svgp_classifier", *QUICK]
    assert cli.main([*asked, "--out", str(tmp_path / "run")]) == 0
    assert "Column 'when' is the number of years since 2001." in capsys.readouterr().out
