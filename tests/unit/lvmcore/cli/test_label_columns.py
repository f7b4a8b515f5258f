"""``--label`` more than once: a fit from several label columns, and new rows on its map."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore import cli, load


@pytest.fixture
def file(rng: np.random.Generator, tmp_path: Path) -> Path:
    kind, size = np.arange(40) % 2, rng.integers(0, 2, 40)
    X = np.column_stack([3.0 * kind, -2.0 * kind, 3.0 * size, 2.0 * size])
    frame = pd.DataFrame(X + 0.3 * rng.standard_normal(X.shape), columns=["a", "b", "c", "d"])
    frame["kind"], frame["size"] = np.where(kind, "oak", "elm"), np.where(size, "big", "small")
    path = tmp_path / "trees.csv"
    frame.to_csv(path, index=False)
    return path


def fit(file: Path, folder: Path, *options: str) -> int:
    settings = ["--set", "n_components=2", "--set", "max_iter=20", "--out", str(folder)]
    labels = ["--label", "kind", "--label", "size"]
    return cli.main(["fit", str(file), *labels, *settings, *options])


@pytest.mark.slow
def test_a_fit_and_its_new_rows(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "run", tmp_path / "placed.csv"
    assert fit(file, folder, "--model", "ldgd", "--hold-out", "0.2") == 0
    said = capsys.readouterr().out
    assert "4 columns, label kind with 2 classes, label size with 2 classes." in said
    assert "held-out accuracy, kind:" in said
    assert "held-out accuracy, size:" in said
    assert load(folder / "model.safetensors").label_names_ == ("kind", "size")
    assert cli.main(["transform", str(folder), str(file), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "Label: kind, size, as in the fit" in said
    placed = pd.read_csv(out)
    for name, classes in (("kind", ("elm", "oak")), ("size", ("big", "small"))):
        probability = placed[[f"{name}: probability of {level}" for level in classes]]
        np.testing.assert_allclose(probability.sum(axis=1), 1)
        np.testing.assert_array_equal(placed[f"{name}: probability"], probability.max(axis=1))
        assert np.mean(placed[f"{name}: predicted"] == placed[f"{name}: label"]) > 0.9


@pytest.mark.slow
def test_new_rows_are_compared_with_the_labels_asked_for(file: Path, tmp_path: Path) -> None:
    folder, out = tmp_path / "run", tmp_path / "placed.parquet"
    assert fit(file, folder, "--model", "ldgd") == 0
    place = ["transform", str(folder), str(file), "--out", str(out)]
    assert cli.main([*place, "--label", "size"]) == 0
    assert [name for name in pd.read_parquet(out) if name.endswith(": label")] == ["size: label"]
    assert cli.main([*place, "--label", "size", "--label", "size"]) == 0
    assert [name for name in pd.read_parquet(out) if name.endswith(": label")] == ["size: label"]
    assert cli.main([*place, "--no-label"]) == 0
    assert not [name for name in pd.read_parquet(out) if name.endswith(": label")]


def test_a_model_for_one_label_says_which_it_uses(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert fit(file, folder, "--model", "supervised_vae") == 0
    assert "one label column: 'kind' is used, and not 'size'." in capsys.readouterr().out
