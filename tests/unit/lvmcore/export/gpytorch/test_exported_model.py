"""Exported models predict as the fitted ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lvmcore
from lvmcore.data import Dataset, Table, load_sample, matching_dataset
from lvmcore.errors import ConfigError, UnsupportedError
from lvmcore.export.gpytorch.archive import write_gpytorch
from lvmcore.export.gpytorch.exported_model import exported_model
from lvmcore.export.gpytorch.run_export import exported_run
from lvmcore.prediction.target_rows import target_features
from lvmcore.runs import JobSpec
from tests.unit.lvmcore.export.gpytorch.programs import program_of, run_programs

COLUMNS = ["a", "b c", "same"]


def rows(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    cells = [rng.normal(5.0, 2.0, n), rng.normal(0.0, 1e-2, n), np.ones(n)]
    return pd.DataFrame(dict(zip(COLUMNS, cells, strict=True)))


def target(frame: pd.DataFrame) -> np.ndarray[Any, Any]:
    noise = 0.1 * np.random.default_rng(9).normal(size=len(frame))
    return np.asarray(3 * np.sin(frame["a"]) + 100 * frame["b c"] + 50 + noise)


def table(n: int = 40) -> pd.DataFrame:
    """Five columns of a curve, and one that is constant."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, 1))
    Y = np.sin(x + np.arange(5)) * [1, 1, 10, 1, 0.1] + 0.05 * rng.normal(size=(n, 5))
    return pd.DataFrame({**{f"y{d}": Y[:, d] for d in range(5)}, "same": 7.0})


@pytest.mark.slow(quick=["exact", "sum", "sparse sum"])
@pytest.mark.parametrize(
    "model",
    [
        lvmcore.GPRegressor(kernel="matern52", max_iter=5),
        lvmcore.GPRegressor(
            kernel="linear * linear('b c') + rbf(a) * (constant + periodic(a))", max_iter=3
        ),
        lvmcore.GPRegressor(kernel="rbf", max_iter=5, target_transform="log"),
        lvmcore.GPRegressor(kernel="rbf", max_iter=5, target_transform="yeo-johnson"),
        lvmcore.SVGPRegressor(n_inducing=10, kernel="rbf", max_iter=5),
        lvmcore.SVGPRegressor(n_inducing=50, kernel="rbf", max_iter=5),
        lvmcore.SVGPRegressor(n_inducing=10, kernel="linear + matern32(a) * rbf", max_iter=3),
        lvmcore.SVGPRegressor(n_inducing=10, kernel="rbf", batch_size=20, max_iter=5),
    ],
    ids=[
        "exact",
        "sum",
        "log",
        "yeo-johnson",
        "sparse",
        "as many inputs as rows",
        "sparse sum",
        "mini-batches",
    ],
)
def test_a_regressor_predicts_the_same(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned, new = rows(50, 0), rows(30, 1)
    model.fit(learned, target(learned))
    mean, sd = model.predict(new, return_std=True)
    program = program_of(exported_model(model), tmp_path / "out", monkeypatch)
    found = program.predict(new)
    np.testing.assert_allclose(found[0], mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found[1], sd, rtol=0, atol=1e-6)


@pytest.mark.slow(quick=["BayesianGPLVM0", "BayesianGPLVM2", "LDGD"])
@pytest.mark.parametrize(
    "model",
    [
        lvmcore.BayesianGPLVM(max_iter=10, n_components=2, start="pca"),
        lvmcore.BayesianGPLVM(max_iter=10, inducing_layout="grid", n_inducing=36, start="pca"),
        lvmcore.BayesianGPLVM(
            max_iter=10, n_components=2, start="pca", kernel="linear + rational_quadratic(z1)"
        ),
        lvmcore.StochasticGPLVM(max_iter=10),
        lvmcore.StochasticGPLVM(max_iter=10, latent_posterior="free"),
        lvmcore.LDGD(max_iter=10),
        lvmcore.FastLDGD(max_iter=10),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_map_decodes_the_same(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Y = table()
    model.fit(Y, np.where(Y["y0"] > 0, "u", "v"))
    check_map(model, tmp_path, monkeypatch)


def test_a_map_of_missing_cells_decodes_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Y = table(20)
    Y.iloc[3, 0] = Y.iloc[5, 2] = Y.iloc[5, 3] = np.nan
    model = lvmcore.BayesianGPLVM(max_iter=3, n_components=2, n_inducing=8, start="pca").fit(Y)
    assert model._decoder.groups is not None
    check_map(model, tmp_path, monkeypatch)


def check_map(model: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    positions = model.embedding_.mean
    far = 2 * np.random.default_rng(2).normal(size=(10, positions.shape[1]))
    points = np.concatenate([positions[:10], far])
    expected = model.decode(points)
    program = program_of(exported_model(model), folder / "out", monkeypatch)
    mean, sd = program.predict(points)
    np.testing.assert_allclose(mean, expected.mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(sd, np.sqrt(expected.variance), rtol=0, atol=1e-6)
    stored = pd.read_csv(folder / "out" / "positions.csv")
    Q = positions.shape[1]
    np.testing.assert_allclose(stored.to_numpy()[:, :Q], positions)
    np.testing.assert_allclose(stored.to_numpy()[:, Q:] ** 2, model.embedding_.variance)


def wine_run() -> tuple[Any, JobSpec, Dataset, pd.DataFrame]:
    """A fit to a table with a logarithm, levels and words."""
    frame = load_sample("wine").frame.head(60)[["alcohol", "ash", "cultivar", "hue"]].copy()
    frame["size"] = np.where(frame["hue"] > 1, "large", "small")
    from lvmcore.data import read_table

    content = frame.to_csv(index=False).encode()
    read = read_table(content, name="wine.csv")
    dataset = read.dataset(
        features=["ash", "size", "hue"], log1p=["hue"], one_hot=["cultivar"], label=None
    )
    spec = JobSpec(dataset.digest, "wine", "gp_regressor", target="alcohol")
    X = pd.DataFrame(dataset.X, columns=list(dataset.transformed_names))
    model = lvmcore.GPRegressor(kernel="rbf", max_iter=5).fit(X, frame["alcohol"])
    return model, spec, dataset, frame


@pytest.mark.slow
def test_the_scripts_run_on_their_own(tmp_path: Path) -> None:
    """Without this project on the path."""
    model, spec, dataset, frame = wine_run()
    write_gpytorch(exported_run(model, spec, dataset), tmp_path / "target")
    Y = table()
    gplvm = lvmcore.BayesianGPLVM(max_iter=10, n_components=2, start="pca").fit(Y)
    write_gpytorch(exported_model(gplvm), tmp_path / "map")
    positions = pd.read_csv(tmp_path / "map" / "positions.csv")
    folders = [tmp_path / "target", tmp_path / "map"]
    predicted, decoded = run_programs(folders, [frame, positions])
    X = pd.DataFrame(dataset.X, columns=list(dataset.transformed_names))
    mean, sd = model.predict(X, return_std=True)
    np.testing.assert_allclose(predicted["mean"], mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(predicted["sd"], sd, rtol=0, atol=1e-6)
    expected = gplvm.decode(gplvm.embedding_.mean)
    np.testing.assert_allclose(decoded[list(Y)], expected.mean, rtol=0, atol=1e-6)
    sds = decoded[[f"{name} sd" for name in Y]]
    np.testing.assert_allclose(sds, np.sqrt(expected.variance), rtol=0, atol=1e-6)


def test_the_transforms_of_columns_are_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, spec, dataset, frame = wine_run()
    program = program_of(exported_run(model, spec, dataset), tmp_path / "out", monkeypatch)
    X = pd.DataFrame(dataset.X, columns=list(dataset.transformed_names))
    mean, sd = model.predict(X, return_std=True)
    found = program.predict(frame)
    np.testing.assert_allclose(found[0], mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found[1], sd, rtol=0, atol=1e-6)
    with pytest.raises(SystemExit, match="no column 'hue'"):
        program.predict(frame.drop(columns="hue"))
    wrong = frame.astype({"ash": object})
    wrong.loc[4, "ash"] = "?"
    with pytest.raises(SystemExit, match=r"Row 5 has '\?' in the column 'ash'"):
        program.predict(wrong)


@pytest.mark.parametrize(
    "model",
    [
        lvmcore.PCA(),
        lvmcore.SVGPClassifier(max_iter=2, n_inducing=5),
        lvmcore.QEPRegressor(max_iter=2, n_inducing=5),
        lvmcore.DSVIDeepGPRegressor(max_iter=2, n_inducing=5),
    ],
    ids=lambda model: type(model).__name__,
)
def test_other_models_say_what_to_use_instead(model: Any) -> None:
    learned = rows(30, 0)
    y = target(learned)
    model.fit(learned, np.where(y > 50, "u", "v") if model.task == "class" else y)
    with pytest.raises(UnsupportedError, match=r"cannot be exported to gpytorch.*lvmcore\.load"):
        exported_model(model)


def test_known_noise_is_not_exported() -> None:
    learned = rows(30, 0).assign(error=0.2)
    model = lvmcore.GPRegressor(kernel="rbf", max_iter=2, noise_sd="error")
    model.fit(learned, target(learned))
    with pytest.raises(UnsupportedError, match="a column of known noise cannot be exported"):
        exported_model(model)


def test_a_folder_with_files_is_not_overwritten(tmp_path: Path) -> None:
    learned = rows(30, 0)
    exported = exported_model(
        lvmcore.GPRegressor(kernel="rbf", max_iter=2).fit(learned, target(learned))
    )
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty"):
        write_gpytorch(exported, tmp_path)


@pytest.mark.parametrize(
    ("freq", "cells"),
    [
        ("YS", ["1960", "1999-07-02T12:00", "2004-12-31"]),
        ("MS", ["1960-01", "1960-02-15", "1955-12"]),
        ("D", ["1960-01-31", "1960-03-01T06:00", "1959-12-31"]),
        ("7h", ["1960-01-01T07:30", "1960-03-01", "1960-01-02 03:00:00+01:00"]),
    ],
)
def test_dates_count_from_the_origin_of_the_fit(
    freq: str, cells: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dates = pd.date_range("1960-01-01", periods=20, freq=freq)
    made = Table.from_frame(pd.DataFrame({"when": dates, "y": np.sin(np.arange(20.0))}))
    data = made.dataset()
    model = lvmcore.GPRegressor(kernel="rbf", max_iter=2)
    model.fit(pd.DataFrame({"when": np.arange(20.0)}), np.sin(np.arange(20)))
    spec = JobSpec(data.digest, "series", "gp_regressor", target="y")
    program = program_of(exported_run(model, spec, data), tmp_path / "out", monkeypatch)
    new = Table.from_frame(
        pd.DataFrame({"when": pd.to_datetime(cells, format="ISO8601", utc=True)})
    )
    rows = matching_dataset(new, ["when"], origin=target_features(data, "y"))
    expected = model.predict(pd.DataFrame(rows.X, columns=["when"]))
    found, _ = program.predict(pd.DataFrame({"when": cells}))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    with pytest.raises(SystemExit, match="Row 2 has 'soon' in the column 'when'"):
        program.predict(pd.DataFrame({"when": ["1960-01-01", "soon"]}))
