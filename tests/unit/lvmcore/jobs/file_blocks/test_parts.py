"""Models applied to registered files block by block: equal to the whole table, and resumable."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import lvmcore
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data import Dataset, Table, matching_dataset, read_table
from lvmcore.data.long_tables.file_blocks import ArrowBlock
from lvmcore.data.readers import sandbox
from lvmcore.data.readers.sandbox import read_files_sandboxed
from lvmcore.errors import CancelledError, DataError
from lvmcore.jobs.file_blocks.block_model import BlockModel
from lvmcore.jobs.file_blocks.job_parts import block_model
from lvmcore.jobs.file_blocks.parts import apply_to_files, part_paths
from lvmcore.jobs.file_blocks.pools import BlockPool, LocalPool
from lvmcore.jobs.impute import completed_table
from lvmcore.jobs.predict import predict_rows
from lvmcore.prediction.placement import place_rows

N, BLOCK = 210, 64


class DirectPool(BlockPool):
    """Computes each block in this process; the results come in reverse order."""

    def __init__(self, model: BlockModel) -> None:
        self.most = 3
        self.model, self.done = model, dict[int, bytes]()
        self.submitted: list[int] = []

    def submit(self, number: int, block: ArrowBlock) -> None:
        self.submitted.append(number)
        self.done[number] = self.model.apply(block)

    def finished(self, seconds: float) -> list[tuple[int, bytes]]:
        number = max(self.done)
        return [(number, self.done.pop(number))]

    def close(self) -> None:
        self.done.clear()


@pytest.fixture
def frame(rng: np.random.Generator) -> pd.DataFrame:
    Z = rng.standard_normal((N, 2))
    X = np.tanh(Z @ rng.standard_normal((2, 5))) + 0.1 * rng.standard_normal((N, 5))
    found = pd.DataFrame(X, columns=list("abcde"))
    found["kind"] = np.where(Z[:, 0] > 0, "x", "y")
    found["name"] = [f"r{i}" for i in range(N)]
    found["target"] = X @ np.arange(5.0) + 1 + 0.5 * rng.standard_normal(N)
    return found


@pytest.fixture
def files(frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setattr(sandbox, "SAMPLE_ROWS", 50)
    paths = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
    frame.iloc[:100].to_parquet(paths[0])
    frame.iloc[100:].to_parquet(paths[1])
    return paths


def sample_of(files: list[Path], names: list[str], **how: Any) -> Dataset:
    return matching_dataset(read_files_sandboxed(files), names, **how)


def whole_of(frame: pd.DataFrame, names: list[str], **how: Any) -> Dataset:
    return matching_dataset(Table.from_frame(frame, name="0"), names, **how)


def results(folder: Path) -> pd.DataFrame:
    return pd.concat([pd.read_parquet(path) for path in part_paths(folder)], ignore_index=True)


def saved(model: Any, tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    model.save(path)
    return path


@pytest.fixture
def ldgd(frame: pd.DataFrame) -> LatentVariableModel:
    X = frame[list("abcde")]
    return lvmcore.FastLDGD(n_components=2, max_iter=15).fit(X, frame["kind"].to_numpy())


def test_placed_rows_are_those_of_the_table_in_memory(
    frame: pd.DataFrame, files: list[Path], ldgd: LatentVariableModel, tmp_path: Path
) -> None:
    how: dict[str, Any] = {"row_id": "name", "label": "kind", "missing_cells": True}
    names = list("abcde")
    fitted = Dataset.from_arrays(frame[names], frame["kind"], names)
    expected = place_rows(ldgd, whole_of(frame, names, **how), fitted).frame
    blocks = block_model(
        "project",
        saved(ldgd, tmp_path),
        ldgd,
        sample_of(files, names, **how),
        fitted,
        surprise=True,
    )
    n = apply_to_files(blocks, tmp_path / "parts", DirectPool, block_rows=BLOCK)
    assert n == N
    assert len(part_paths(tmp_path / "parts")) == 4  # 64 and 36 of the first, 64 and 46
    found = results(tmp_path / "parts")
    # The rank of a row among those of the fit, itself included, is exact up to a tie with itself.
    np.testing.assert_allclose(found.pop("unusual"), expected.pop("unusual"), atol=1.01 / N)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, rtol=1e-8, atol=1e-10)


def test_rows_that_cannot_be_placed_are_left_out_as_in_memory(
    frame: pd.DataFrame, files: list[Path], tmp_path: Path
) -> None:
    names = list("abcde")
    model = lvmcore.PCA(n_components=2).fit(frame[names])
    frame.loc[100:170, "b"] = np.nan  # the first block of the second file, and more
    frame.iloc[100:].to_parquet(files[1])
    expected = place_rows(model, whole_of(frame, names), None).frame
    blocks = block_model("project", saved(model, tmp_path), model, sample_of(files, names), None)
    apply_to_files(blocks, tmp_path / "parts", DirectPool, block_rows=BLOCK)
    found = results(tmp_path / "parts")
    assert found["row_id"].tolist() == expected["row_id"].tolist()
    np.testing.assert_allclose(found["z1"], expected["z1"], rtol=1e-9)


def test_predicted_rows_are_those_of_the_table_in_memory(
    frame: pd.DataFrame, files: list[Path], tmp_path: Path
) -> None:
    names = list("abcde")
    model = lvmcore.SVGPRegressor(max_iter=20, n_inducing=10)
    model.fit(frame[names], frame["target"].to_numpy())
    frame.loc[3:180:7, "c"] = np.nan
    frame.loc[110:, "target"] = np.nan  # no block of the second file has a truth
    for k, part in enumerate((frame.iloc[:100], frame.iloc[100:])):
        part.to_parquet(files[k])
    expected = predict_rows(model, whole_of(frame, names), "target").frame
    blocks = block_model(
        "predict", saved(model, tmp_path), model, sample_of(files, names), None, target="target"
    )
    apply_to_files(blocks, tmp_path / "parts", DirectPool, block_rows=BLOCK)
    found = results(tmp_path / "parts")
    scored = ["log_density", "cumulative"]  # of rows with a target
    found.loc[110:, scored] = expected.loc[110:, scored] = np.nan
    # The products of another number of rows are rounded otherwise on some processors.
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, rtol=1e-6, atol=1e-8)


def test_filled_cells_are_those_of_the_table_in_memory(
    frame: pd.DataFrame, files: list[Path], rng: np.random.Generator, tmp_path: Path
) -> None:
    names = [*"abcde", "kind = x", "kind = y"]
    frame.loc[rng.random(N) < 0.2, "b"] = np.nan
    frame.loc[rng.random(N) < 0.2, "kind"] = None
    for k, part in enumerate((frame.iloc[:100], frame.iloc[100:])):
        part.to_parquet(files[k])
    fitted = Table.from_frame(frame, name="0").dataset(
        features=[*"abcde", "kind"], one_hot=["kind"]
    )
    assert list(fitted.transformed_names) == names
    model = lvmcore.StochasticGPLVM(n_components=2, max_iter=15)
    model.fit(pd.DataFrame(fitted.X, columns=names))
    rows = whole_of(frame, names, missing_cells=True)
    expected = completed_table(model, rows)
    sample = sample_of(files, names, missing_cells=True)
    blocks = block_model("impute", saved(model, tmp_path), model, sample, fitted, details=True)
    apply_to_files(blocks, tmp_path / "parts", DirectPool, block_rows=BLOCK)
    found = results(tmp_path / "parts")
    assert list(found.columns[: len(frame.columns)]) == list(frame.columns)
    # Where a search for the most probable position stops depends on the rounding of its products.
    np.testing.assert_allclose(found["b"], expected["b"], rtol=1e-8, atol=1e-5)
    np.testing.assert_allclose(found["b sd"], expected["b sd"], rtol=1e-6, atol=1e-5)
    missing = frame["kind"].isna().to_numpy()
    assert found["kind"][~missing].tolist() == frame["kind"][~missing].tolist()
    likely = np.where(expected["kind = x"] >= expected["kind = y"], "x", "y")
    assert found["kind"][missing].tolist() == likely[missing].tolist()
    assert found["name"].tolist() == frame["name"].tolist()


@pytest.fixture
def placing(frame: pd.DataFrame, files: list[Path], tmp_path: Path) -> Callable[[], BlockModel]:
    names = list("abcde")
    model = lvmcore.PCA(n_components=2).fit(frame[names])
    path = saved(model, tmp_path)
    return lambda: block_model("project", path, model, sample_of(files, names), None)


def test_a_run_that_was_stopped_computes_the_missing_parts_alone(
    placing: Callable[[], BlockModel], tmp_path: Path
) -> None:
    folder = tmp_path / "parts"
    with pytest.raises(CancelledError):
        apply_to_files(placing(), folder, DirectPool, lambda done, _: done > 0, block_rows=BLOCK)
    assert len(part_paths(folder)) == 1
    kept = part_paths(folder)[0]
    written = kept.stat().st_mtime_ns
    (folder / "part-000000.parquet").write_bytes(b"PAR1")  # cut off by a crash of the machine
    pools: list[DirectPool] = []

    def pool(model: BlockModel) -> DirectPool:
        pools.append(DirectPool(model))
        return pools[-1]

    apply_to_files(placing(), folder, pool, block_rows=BLOCK)
    assert kept.stat().st_mtime_ns == written
    missing = {0, 1, 2, 3} - {int(kept.stem.removeprefix("part-"))}
    assert pools[0].submitted == sorted(missing)
    apply_to_files(placing(), folder, pool, block_rows=BLOCK)
    assert len(pools) == 1  # nothing was left to do
    assert results(folder)["row_id"].tolist() == [str(k + 1) for k in range(N)]


def test_parts_of_something_else_are_not_mixed(
    placing: Callable[[], BlockModel], tmp_path: Path
) -> None:
    folder = tmp_path / "parts"
    apply_to_files(placing(), folder, DirectPool, block_rows=BLOCK)
    with pytest.raises(DataError, match="of another model, table or settings"):
        apply_to_files(placing(), folder, DirectPool, block_rows=BLOCK + 1)
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("keep")
    with pytest.raises(DataError, match="is not empty"):
        apply_to_files(placing(), other, DirectPool, block_rows=BLOCK)


def test_a_cell_that_cannot_be_used_is_named_with_its_file_and_row(
    frame: pd.DataFrame, tmp_path: Path
) -> None:
    model = lvmcore.PCA(n_components=2).fit(frame[list("abcde")])
    first, second = tmp_path / "0.csv", tmp_path / "1.csv"
    frame.to_csv(first, index=False)
    second.write_text(first.read_text().replace("r5,", "r5,oops"))
    sample = sample_of([first, second], list("abcde"))
    blocks = block_model("project", saved(model, tmp_path), model, sample, None)
    apply_to_files(blocks, tmp_path / "parts", DirectPool, block_rows=BLOCK)  # not a feature
    text = first.read_text().splitlines()
    text[150] = text[150].replace(text[150].split(",")[2], "oops", 1)
    second.write_text("\n".join(text) + "\n")
    sample = sample_of([first, second], list("abcde"))
    blocks = block_model("project", saved(model, tmp_path), model, sample, None)
    with pytest.raises(DataError, match=r"Row 150 of '1.csv' has 'oops' in column 'c'"):
        apply_to_files(blocks, tmp_path / "more", DirectPool, block_rows=BLOCK)


def test_processes_give_the_same_parts(placing: Callable[[], BlockModel], tmp_path: Path) -> None:
    apply_to_files(placing(), tmp_path / "one", DirectPool, block_rows=BLOCK)
    apply_to_files(placing(), tmp_path / "two", lambda model: LocalPool(model, 2), block_rows=BLOCK)
    for one, two in zip(part_paths(tmp_path / "one"), part_paths(tmp_path / "two"), strict=True):
        assert one.name == two.name
        assert pq.read_table(one).equals(pq.read_table(two))


def test_a_table_in_memory_and_its_file_have_one_name(files: list[Path]) -> None:
    assert read_files_sandboxed(files).name == read_table(files[0]).name == "0"
