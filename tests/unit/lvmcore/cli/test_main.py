import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lvmcore
from lvmcore import bench, cli
from lvmcore.cli import fit
from lvmcore.models import MODELS
from lvmcore.recommend import latent_models
from lvmcore.runs import Store
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.python_snippet import snippet

COMMAND = [sys.executable, "-m", "lvmcore.cli"]


@pytest.fixture
def csv(tmp_path: Path, rng: np.random.Generator) -> Path:
    """Forty rows in two groups, semicolons and decimal commas, one cell missing."""
    values = rng.standard_normal((40, 4)) + np.repeat([[0.0], [4.0]], 20, axis=0)
    frame = pd.DataFrame(values, columns=["a", "b", "c", "d,e"])
    frame.loc[3, "b"] = np.nan
    frame.insert(0, "sample", [f"s{i:02d}" for i in range(40)])
    frame["species"] = np.repeat(["x", "y"], 20)
    path = tmp_path / "table.csv"
    frame.to_csv(path, sep=";", decimal=",", index=False)
    return path


def test_a_fit_writes_the_folder_of_a_run_and_says_so(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    command_line = ["fit", str(csv), "--model", "ppca", "--label", "species", "--row-id", "sample"]
    options = ["--features", "a,b", "--features", "d,e", "--set", "n_components=2", "--seed", "5"]
    assert cli.main([*command_line, *options, "--device", "cpu", "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert "40 rows, 3 columns, label species with 2 classes" in said.out
    assert "bound" in said.out
    assert "1-NN accuracy" in said.out
    assert str(out) in said.out
    assert said.err == ""
    spec = JobFolder(out).spec()
    assert spec.parameters["n_components"] == 2
    assert spec.parameters["random_state"] == 5
    assert spec.parameters["device"] == "cpu"
    assert JobFolder(out).state().status == "done"
    frame = pd.read_parquet(out / "embedding.parquet")
    assert len(frame) == 40
    notes = JobFolder(out).state().notes
    assert "1 of the 120 cells is missing, in 1 of 40 rows: the fit goes by the others." in notes
    assert set(frame["label"]) == {"x", "y"}
    model = lvmcore.load(out / "model.safetensors")
    assert list(model.feature_names_in_) == ["a", "b", "d,e"]
    assert json.loads((out / "events.jsonl").read_text().splitlines()[0])["iteration"] == 1


def test_rows_left_out_are_said_to_be(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    command_line = ["fit", str(csv), "--model", "pca", "--row-id", "sample", "--out", str(out)]
    assert cli.main([*command_line, "--set", "n_components=2"]) == 0
    assert "1 row left out" in capsys.readouterr().out
    frame = pd.read_parquet(out / "embedding.parquet")
    assert len(frame) == 39
    assert "s03" not in set(frame["row_id"])


def test_without_out_the_run_is_in_the_store(
    csv: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["fit", str(csv), "--model", "pca", "--name", "a first look"]) == 0
    said = capsys.readouterr().out
    assert "Label: species" in said
    assert "Row id: sample" in said
    (job,) = Store(home).list()
    assert (job.status, job.name) == ("done", "a first look")
    assert Store(home).datasets.get(job.spec.dataset).label_name == "species"


@pytest.mark.slow
def test_columns_are_transformed_and_rows_held_out(
    csv: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.read_csv(csv, sep=";", decimal=",").assign(
        amount=np.arange(40) ** 2, colour=["red", "green", "blue", "red"] * 10
    )
    frame.to_csv(csv, sep=";", decimal=",", index=False)
    command_line = ["fit", str(csv), "--model", "ppca", "--label", "species", "--seed", "1"]
    options = ["--log1p", "amount", "--one-hot", "colour", "--hold-out", "0.2"]
    assert cli.main([*command_line, *options, "--hold-out-seed", "3"]) == 0
    said = capsys.readouterr().out
    assert "Transformed by log(1 + x): 'amount'." in said
    assert "'colour' is one-hot encoded as 3 features" in said
    assert "8 rows are held out of the fit, of 40, drawn with seed 3" in said
    assert "held-out NLPD: " in said
    (job,) = Store(home).list()
    data = Store(home).datasets.get(job.spec.dataset)
    assert data.feature_names[-3:] == ("colour = blue", "colour = green", "colour = red")
    assert data.held_out.sum() == 8
    amount = data.feature_names.index("amount")
    np.testing.assert_array_equal(data.X[:, amount], np.log1p(np.arange(40.0) ** 2))

    assert cli.main([*command_line, "--log1p", "colour"]) == 2
    assert "'colour' cannot be transformed by log(1 + x)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "key", "reason"),
    [
        ([], "fast_ldgd", "Model: Fast LDGD, as the label has 2 classes, and learning from"),
        (["--hold-out", "0.1"], "ldgd", "Model: LDGD, as the label has 2 classes to learn from"),
        (["--no-label"], "bayesian_gplvm", "Model: Bayesian GPLVM, as there is no label"),
    ],
)
def test_the_model_is_proposed_where_none_is_asked_for(
    csv: Path,
    home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    key: str,
    reason: str,
) -> None:
    monkeypatch.setattr(latent_models, "WHOLE_TABLE_ROWS", 39)
    command_line = ["fit", str(csv), "--features", "a,c", "--features", "d,e", *options]
    assert cli.main([*command_line, "--set", "max_iter=2"]) == 0
    said = capsys.readouterr().out
    (line,) = [line for line in said.splitlines() if line.startswith("Model: ")]
    assert line.startswith(reason)
    assert line.endswith("(override with --model).")
    (job,) = Store(home).list()
    assert (job.status, job.spec.model) == ("done", key)
    assert snippet(job, home).count(MODELS[key].__name__) > 0


def test_no_label_and_no_row_id_mean_none(csv: Path, home: Path) -> None:
    assert cli.main(["fit", str(csv), "--model", "pca", "--no-label", "--no-row-id"]) == 0
    (job,) = Store(home).list()
    data = Store(home).datasets.get(job.spec.dataset)
    assert data.labels is None
    assert data.row_ids[0] == "1"


def test_a_feature_that_is_asked_for_is_not_taken_as_the_row_id(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pd.DataFrame({"month": range(30), "level": np.arange(30.0) ** 2}).to_csv(
        tmp_path / "rows.csv", index=False
    )
    asked = ["--model", "pca", "--features", "month,level"]
    assert cli.main(["fit", str(tmp_path / "rows.csv"), *asked]) == 0
    assert "30 rows, 2 columns." in capsys.readouterr().out


def test_a_fit_by_column_takes_the_categories_too(
    tmp_path: Path, home: Path, rng: np.random.Generator, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.DataFrame({"size": rng.standard_normal(30), "colour": ["red", "green", "blue"] * 10})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    by_column = ["--set", "column_likelihood=by column", "--set", "max_iter=5", "--no-label"]
    asked = ["--model", "bayesian_gplvm", *by_column]
    assert cli.main(["fit", str(tmp_path / "rows.csv"), *asked]) == 0
    assert "30 rows, 4 columns." in capsys.readouterr().out


def test_the_file_is_read_as_told(tmp_path: Path, home: Path) -> None:
    path = tmp_path / "odd.txt"
    rows = ["1|10|x", "2|20|y", "-200|30|x", "4|40|z", "5|51|y", "7|60|y"]
    path.write_bytes("\n".join(rows).encode("utf-16-le"))
    reading = ["--delimiter", "|", "--encoding", "utf-16-le", "--decimal", ".", "--header", "no"]
    model = ["--model", "pca", "--no-label", "--set", "n_components=1"]
    assert cli.main(["fit", str(path), *reading, "--missing=-200,z", *model]) == 0
    (job,) = Store(home).list()
    data = Store(home).datasets.get(job.spec.dataset)
    assert data.frame.shape == (6, 3)
    assert np.isnan(data.X[2, 0])
    assert data.frame.isna().to_numpy().sum() == 2


def test_the_reading_of_a_column_is_chosen_and_used_for_new_rows(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "doses.csv"
    rows = [f"{i}.{j}34;{i + j}.5" for i in range(1, 5) for j in range(1, 5)]
    path.write_text("\n".join(["dose;x", *rows]))
    model = ["--model", "pca", "--set", "n_components=1"]
    assert cli.main(["fit", str(path), *model]) == 0
    said = capsys.readouterr().out
    assert "'dose': '1.134' was read as 1.134 (decimal point); it could also be 1134" in said
    assert cli.main(["fit", str(path), *model, "--column-decimal", "dose=,"]) == 0
    assert "'dose': '1.134' was read as 1134 (point between thousands), as chosen" in (
        capsys.readouterr().out
    )
    chosen = next(
        job
        for job in Store(home).list()
        if Store(home).datasets.get(job.spec.dataset).column_decimals == {"dose": ","}
    )
    assert Store(home).datasets.get(chosen.spec.dataset).X[0, 0] == 1134
    folder = Store(home).job_folder(chosen.id).path
    out = tmp_path / "placed.csv"
    assert cli.main(["transform", str(folder), str(path), "--out", str(out)]) == 0
    assert "'dose': '1.134' was read as 1134" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["dose", "=,", "dose=;", "dose="])
def test_a_column_decimal_that_cannot_be_shows_the_usage(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["fit", "x.csv", "--column-decimal", text])
    assert "a column and its decimal mark" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "value"), [("yes", True), ("no", False), ("3", 3), ("0,1", [0, 1])]
)
def test_the_header_option(text: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def record(_: str, **options: Any) -> None:
        seen.update(options)
        raise lvmcore.DataError("enough")

    monkeypatch.setattr(fit, "read_table_sandboxed", record)
    assert cli.main(["fit", "x.csv", "--header", text]) == 2
    assert seen["header"] is value or seen["header"] == value


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["nowhere.csv"], "nowhere.csv"),
        (["sample:tarot"], "tarot"),
        (["paper:tarot"], "tarot"),
        (["sample:iris", "--model", "tarot"], "no model 'tarot'"),
        (["sample:iris", "--label", "colour"], "colour"),
        (["sample:iris", "--features", "a,b"], "'a'"),
        (["sample:iris", "--set", "n_inducing"], "expected name=value"),
        (["sample:iris", "--set", "n_inducing=-3"], "n_inducing"),
        (["sample:iris", "--seed", "-1"], "random_state"),
        (["sample:iris", "--device", "abacus"], "device"),
        (["sample:iris", "--model", "ldgd", "--no-label"], "choose a label column"),
        (["sample:iris", "--model", "pca", "--set", "n_components=5"], "n_components=5"),
    ],
)
def test_what_cannot_be_used_is_said_plainly(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["fit", *options]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert "Traceback" not in shown.err + shown.out


def test_a_folder_with_something_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious").write_text("x")
    assert cli.main(["fit", "sample:iris", "--model", "pca", "--out", str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["precious"]


@pytest.mark.parametrize("words", [[], ["bake"], ["fit"], ["fit", "x", "--header", "perhaps"]])
def test_a_command_line_that_makes_no_sense_shows_the_usage(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(words)
    assert stopped.value.code == 2
    assert "usage: lvmcore" in capsys.readouterr().err


def test_ctrl_c_while_reading_is_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fit, "read_table_sandboxed", interrupted)
    assert cli.main(["fit", "x.csv"]) == 130
    assert capsys.readouterr().err == "Stopped.\n"


def test_a_fit_that_breaks_is_1_and_gives_its_message(
    csv: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise lvmcore.NumericalError("The matrix broke.")

    monkeypatch.setattr(MODELS["ppca"], "_fit", broken)
    assert cli.main(["fit", str(csv), "--model", "ppca"]) == 1
    assert capsys.readouterr().err == "The matrix broke.\n"


def test_models_lists_every_model_with_what_it_supports(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models"]) == 0
    shown = capsys.readouterr().out
    for key in MODELS:
        assert key in shown
    assert "missing" in shown


@pytest.mark.parametrize("key", list(MODELS))
def test_models_shows_every_setting_of_one(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models", "--model", key]) == 0
    shown = capsys.readouterr().out
    for parameter in MODELS[key].parameters():
        assert parameter.name in shown


def test_the_help_names_every_benchmark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        cli.main(["bench", "--help"])
    assert {"all", *bench.BENCHES} <= set(re.findall(r"[\w-]+", capsys.readouterr().out))


def test_bench_hands_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[Any] = []

    def record(name: str, *, json_path: Path | None, full: bool, cluster: str | None) -> int:
        seen.append((name, json_path, full, cluster))
        return 0

    monkeypatch.setattr(bench, "run_bench", record, raising=False)
    assert cli.main(["bench", "psi"]) == 0
    assert cli.main(["bench", "all", "--full", "--json", str(tmp_path / "f.json")]) == 0
    assert cli.main(["bench", "psi", "--cluster"]) == 0
    assert seen == [
        ("psi", None, False, None),
        ("all", tmp_path / "f.json", True, None),
        ("psi", None, False, "auto"),
    ]


@pytest.mark.slow
def test_end_to_end_in_a_process_of_its_own(csv: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = [
        "fit",
        str(csv),
        "--model",
        "bayesian_gplvm",
        "--set",
        "max_iter=20",
        "--out",
        str(out),
    ]
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert "step 1/20" in done.stdout
    assert "step 20/20" in done.stdout
    assert (out / "model.safetensors").is_file()


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_fitted(tmp_path: Path, rng: np.random.Generator) -> None:
    path, out = tmp_path / "big.csv", tmp_path / "run"
    latent = rng.standard_normal((2000, 3))
    pd.DataFrame(np.sin(latent @ rng.standard_normal((3, 12)))).add_prefix("f").to_csv(
        path, index=False
    )
    words = ["fit", str(path), "--set", "max_iter=10000", "--set", "n_inducing=60"]
    with subprocess.Popen(
        [*COMMAND, *words, "--out", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 120
        events = out / "events.jsonl"
        while not (events.is_file() and events.stat().st_size):
            assert process.poll() is None
            assert time.monotonic() < deadline, "the fit did not begin"
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "Stopping" in err
    assert "Traceback" not in err
    assert JobFolder(out).state().status == "cancelled"
    assert len(lvmcore.load(out / "model.safetensors").history_) < 10_000
