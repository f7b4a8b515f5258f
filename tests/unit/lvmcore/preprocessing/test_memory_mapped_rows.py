"""Tables that stay on disk: read on demand, with the numbers that a table in memory has."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.model_selection import cross_val_score

import lvmcore.numerics.row_blocks
from lvmcore import LDGD, DataError, FastLDGD, LinearDiscriminantAnalysis
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.base.validation import fit_fingerprint
from lvmcore.data import memory_mapped
from lvmcore.preprocessing.memory_mapped_rows import MemoryMappedRows
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.preprocessing.table_rows import InMemoryRows, TableRows
from lvmcore.training.checkpoint import Checkpoint
from lvmcore.training.outcome import FitOutcome

N, D = 700, 6


def table(n: int = N, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows about two centres, columns in units of their own, one of them constant."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    latent = rng.normal(size=(n, 2)) + 2.0 * y[:, None]
    X = np.tanh(latent @ np.random.default_rng(1).normal(size=(2, D)))
    X = (X + 0.1 * rng.normal(size=X.shape)) * np.logspace(-3, 3, D) + np.arange(D) * 1e3
    X[:, 2] = 7.5
    return X, np.where(y, "one", "two")


def on_disk(folder: Path, X: np.ndarray) -> np.memmap:
    """The table as a memory map."""
    path = folder / f"{X.dtype.str[1:]}-{len(list(folder.iterdir()))}.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


def small(**settings: Any) -> FastLDGD:
    wanted = {"n_components": 2, "n_inducing": 8, "max_iter": 12, "n_hidden": 8, "batch_size": 100}
    return FastLDGD(**wanted | settings)


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 64 rows where rows are checked and measured."""
    monkeypatch.setattr(lvmcore.numerics.row_blocks, "BLOCK_ROWS", 64)


# ---- measuring by blocks -----------------------------------------------------------------------


@pytest.mark.parametrize("gaps", [0.0, 0.3])
@pytest.mark.parametrize("order", ["C", "F"])
def test_blocks_measure_columns_as_one_pass_does(
    gaps: float, order: Any, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    X = np.array(table()[0] + np.array([0, 1e9, 0, 0, 0, 0]), order=order)
    X[rng.random(X.shape) < gaps] = np.nan
    X[:200, 4] = np.nan  # the first value lies beyond the first blocks
    names = [f"c{i}" for i in range(D)]
    whole = Standardiser.fit(X, names)
    monkeypatch.setattr(lvmcore.numerics.row_blocks, "BLOCK_ROWS", 64)
    parts = Standardiser.fit(X, names)
    np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(parts.scale, whole.scale, rtol=1e-12)
    assert parts.constant.tolist() == whole.constant.tolist()
    assert parts.constant.tolist() == [False, False, True, False, False, False]
    # The textbook's formulas in another library.
    np.testing.assert_allclose(parts.mean, pd.DataFrame(X).mean(), rtol=1e-12)
    varies = ~parts.constant
    expected = pd.DataFrame(X).std(ddof=0)[varies]
    np.testing.assert_allclose(parts.scale[varies], expected, rtol=1e-6)


@pytest.mark.usefixtures("short_blocks")
def test_a_column_that_is_constant_in_every_block_need_not_be_constant() -> None:
    X = np.column_stack([np.repeat([1.0, 2.0], 64), np.ones(128)])
    found = Standardiser.fit(X, ["a", "b"])
    assert found.constant.tolist() == [False, True]
    assert found.mean.tolist() == [1.5, 1.0]
    assert found.scale.tolist() == [0.5, 1.0]


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize(
    ("column", "message"),
    [
        (np.full(200, np.nan), "Column b has no value at all"),
        (1.5e308 * np.linspace(-1, 1, 200), "too large to be standardised"),
        (np.linspace(-1e200, 1e200, 200), "Column b has values too large"),
    ],
    ids=["empty", "difference", "square"],
)
def test_blocks_refuse_what_one_pass_refuses(column: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Standardiser.fit(np.column_stack([np.arange(200.0), column]), ["a", "b"])


# ---- rows on demand ----------------------------------------------------------------------------


def both(
    X: np.ndarray, stored: np.ndarray, dtype: torch.dtype = torch.float64
) -> tuple[TableRows, TableRows]:
    """The rows of a table held in memory, and those of what is stored of it."""
    standardiser = Standardiser.fit(X, [str(i) for i in range(X.shape[1])])
    Y = standardiser.transform(X)
    gaps = np.isnan(Y)
    mask = torch.as_tensor(~gaps) if gaps.any() else None
    held = InMemoryRows(torch.as_tensor(np.nan_to_num(Y)).to(dtype), mask)
    like = torch.zeros(0, dtype=dtype)
    return held, MemoryMappedRows(stored, standardiser, like, complete=mask is None)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("stored_as", ["<f8", ">f8", "<f4", "fortran"])
def test_rows_come_as_they_are_held(
    stored_as: str, gaps: bool, dtype: torch.dtype, tmp_path: Path
) -> None:
    X = table()[0]
    if gaps:
        X[::7, 1] = X[5] = np.nan
    if stored_as == "fortran":
        stored = on_disk(tmp_path, np.asfortranarray(X))
        assert stored.flags.f_contiguous
    else:
        stored = on_disk(tmp_path, X.astype(stored_as))
        X = np.asarray(stored, dtype=np.float64)
    held, streamed = both(X, stored, dtype)
    assert (len(streamed), streamed.n_columns) == (N, D - 1)
    assert streamed.complete is held.complete is not gaps
    assert streamed.like.shape == held.like.shape
    shuffled = torch.randperm(N, generator=torch.Generator().manual_seed(0))[:50]
    repeated = torch.tensor([5, 3, 5, 5, 699, 0])
    for wanted in (shuffled, repeated, slice(None), slice(10, 20), slice(690, 900), slice(5, 5)):
        for found, expected in zip(streamed.take(wanted), held.take(wanted), strict=True):
            if expected is None:
                assert found is None
            else:
                assert found is not None
                assert found.dtype == expected.dtype
                assert torch.equal(found, expected)
    for a, b in zip(streamed.blocks(64), held.blocks(64), strict=True):
        assert torch.equal(a[0], b[0])


def test_what_blocks_give_is_put_together() -> None:
    rows = InMemoryRows(torch.arange(10_000.0).reshape(5000, 2))
    sums = rows.map_blocks(lambda Y, _: Y.sum(1, keepdim=True), 1)
    assert sums.dtype == torch.float64
    assert torch.equal(sums, rows.Y.sum(1, keepdim=True).double())


# ---- fitting -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"batch_size": N}, {"dtype": "float32"}])
@pytest.mark.parametrize("stored_as", ["<f8", "<f4"])
def test_a_fit_from_disk_is_the_fit_from_memory(
    stored_as: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    X, y = table()
    stored = on_disk(tmp_path, X.astype(stored_as))
    held = small(**settings).fit(np.array(stored), y)
    streamed = small(**settings).fit(stored, y)
    assert streamed.elbo_ == pytest.approx(held.elbo_, rel=1e-8)
    np.testing.assert_allclose(streamed.embedding_.mean, held.embedding_.mean, atol=1e-6)
    np.testing.assert_allclose(streamed.embedding_.variance, held.embedding_.variance, atol=1e-6)
    assert streamed.notes_ == held.notes_
    assert held.notes_[0] == "1 constant column set aside: 3."


@pytest.mark.slow
@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize("stored_as", ["<f8", "<f4"])
def test_a_fit_with_gaps_from_disk_is_the_fit_from_memory(stored_as: str, tmp_path: Path) -> None:
    X, y = table()
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    X[:100, 4] = X[7] = np.nan
    stored = on_disk(tmp_path, X.astype(stored_as))
    held, streamed = small().fit(np.array(stored), y), small().fit(stored, y)
    assert streamed.elbo_ == pytest.approx(held.elbo_, rel=1e-8)
    np.testing.assert_allclose(streamed.embedding_.mean, held.embedding_.mean, atol=1e-6)
    np.testing.assert_allclose(streamed.interval_scale_, held.interval_scale_, rtol=1e-6)
    assert streamed.notes_ == held.notes_
    assert any("rows have no cell to go by" in note for note in held.notes_)
    found, expected = held.impute(stored[:150]), held.impute(np.array(stored[:150]))
    for part in ("mean", "variance", "noise_variance"):
        a, b = getattr(found, part), getattr(expected, part)
        assert a.dtype == np.float64
        np.testing.assert_allclose(a, b, rtol=1e-8)


def test_a_table_with_hardly_a_cell_is_told_of_from_disk_too(tmp_path: Path) -> None:
    X, y = table()
    X[np.random.default_rng(0).random(X.shape) < 0.85] = np.nan
    notes = small(max_iter=1).fit(on_disk(tmp_path, X), y).notes_
    assert notes == small(max_iter=1).fit(X, y).notes_
    assert any("% of the cells are missing: half of the rows have at most" in n for n in notes)


@pytest.mark.slow
def test_new_rows_from_disk_are_placed_like_those_in_memory(tmp_path: Path) -> None:
    model = small().fit(*table())
    X, y = table(5000, seed=1)
    stored = on_disk(tmp_path, X)
    for method in ("transform", "predict_proba", "score_samples"):
        expected, found = getattr(model, method)(X), getattr(model, method)(stored)
        np.testing.assert_array_equal(found, expected)
    assert model.score(stored, y) == model.score(X, y)


@pytest.mark.parametrize(("model", "kind"), [(FastLDGD, MemoryMappedRows), (LDGD, InMemoryRows)])
def test_a_table_stays_on_disk_where_the_model_streams(
    model: type[FastLDGD | LDGD], kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def look(self: Any, problem: FitProblem) -> FitOutcome:
        seen.append(type(problem.table))
        return fit(self, problem)

    fit = model._fit
    monkeypatch.setattr(model, "_fit", look)
    X, y = table(60)
    model(n_components=2, n_inducing=8, max_iter=3).fit(on_disk(tmp_path, X), y)
    assert seen == [kind]
    assert model.capabilities.streams is (kind is MemoryMappedRows)


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize(
    ("model", "value", "what"),
    [
        (small(), np.inf, "infinite"),
        (small(), -np.inf, "infinite"),
        (LinearDiscriminantAnalysis(), np.nan, "missing"),
    ],
)
def test_the_first_cell_that_cannot_be_used_is_named(
    model: FastLDGD | LinearDiscriminantAnalysis, value: float, what: str, tmp_path: Path
) -> None:
    X, y = table()
    X[600, 1] = X[300, 4] = X[300, 5] = value
    with pytest.raises(DataError, match=rf"{what}.*: 3 of .* row 301, column 5\."):
        model.fit(on_disk(tmp_path, X), y)
    model.fit(*table())
    with pytest.raises(DataError, match=rf"{what}.*: 3 of .* row 301, column 5\."):
        model.transform(on_disk(tmp_path, X))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(5), "2D array"),
        (np.ones((2, 3, 4)), "dim 3"),
        (np.ones((1, 3)), "1 sample"),
        (np.ones((4, 3)), "Every column is constant"),
        (np.array([["a", "b"], ["c", "d"]]), "numeric|string"),
        (np.ones((4, 2)) * 1j, "Complex"),
    ],
    ids=["one dimension", "three", "one row", "constant", "text", "complex"],
)
def test_what_is_no_table_of_numbers_is_refused(
    X: np.ndarray, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        small().fit(on_disk(tmp_path, X), ["a", "b"] * 2)


def test_labels_that_are_too_many_or_too_few_are_refused(tmp_path: Path) -> None:
    X, y = table()
    for labels in (np.append(y, "one"), y[:-1]):
        with pytest.raises(DataError, match=rf"y has shape \({len(labels)},\), but X has 700 rows"):
            small().fit(on_disk(tmp_path, X), labels)


def test_a_wrong_number_of_columns_is_said(tmp_path: Path) -> None:
    model = small().fit(*table())
    with pytest.raises(DataError, match=r"4 features.*expecting 6"):
        model.transform(on_disk(tmp_path, np.ones((3, 4))))


def test_some_rows_of_a_memory_map_are_a_table_too(tmp_path: Path) -> None:
    X, y = table()
    stored = on_disk(tmp_path, X)
    part = small().fit(stored[100:500:3], y[100:500:3])
    whole = small().fit(X[100:500:3], y[100:500:3])
    assert part.elbo_ == pytest.approx(whole.elbo_, rel=1e-8)


def test_a_file_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    X, y = table()
    stored = on_disk(tmp_path, X)
    model = small().fit(X, y)
    with Path(str(stored.filename)).open("r+b") as file:
        file.truncate(20_000)
    for use in (lambda: small().fit(stored, y), lambda: model.transform(stored[200:])):
        with pytest.raises(DataError, match=r"20,000 bytes: expected 33,728\. It was"):
            use()


@pytest.mark.skipif(sys.platform == "win32", reason="a file in use cannot be deleted there")
def test_a_file_may_be_deleted_while_it_is_open(tmp_path: Path) -> None:
    X, y = table()
    stored = on_disk(tmp_path, X)
    Path(str(stored.filename)).unlink()
    assert small().fit(stored, y).elbo_ == pytest.approx(small().fit(X, y).elbo_, rel=1e-8)


@pytest.mark.usefixtures("short_blocks")
def test_a_fit_goes_on_whichever_way_the_table_is_kept(tmp_path: Path) -> None:
    """A checkpoint knows its table by the cells, not by how they are stored."""
    X, y = table()
    kept = Checkpoint(tmp_path / "checkpoint.safetensors")
    begun = small()._fit_from(X, y, callback=lambda step: step.iteration >= 6, checkpoint=kept)
    assert len(begun.history_) < 12
    again = Checkpoint(kept.path)
    ended = small()._fit_from(on_disk(tmp_path, X), y, checkpoint=again)
    assert again.notes == []
    assert ended.elbo_ == pytest.approx(small().fit(X, y).elbo_, rel=1e-8)
    other = X.copy()
    other[-1, -1] += 1
    changed = Checkpoint(kept.path)
    small()._fit_from(on_disk(tmp_path, other), y, checkpoint=changed)
    assert "of other data" in changed.notes[0]
    single = X.astype(np.float32)
    double = single.astype(np.float64)
    assert fit_fingerprint(small(), single) == fit_fingerprint(small(), double)


# ---- tables made memory maps -------------------------------------------------------------------


def test_a_model_knows_the_columns_of_a_parquet_file(tmp_path: Path) -> None:
    X, y = table()
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(type=y)
    path = tmp_path / "big.parquet"
    frame.to_parquet(path, row_group_size=100)
    mapped, labels = memory_mapped(path, label="type")
    model = small().fit(mapped, labels)
    assert model.feature_names_in_.tolist() == list("abcdef")
    assert model.notes_[0] == "1 constant column set aside: c."
    expected = small().fit(frame[list("abcdef")], y)
    assert model.elbo_ == pytest.approx(expected.elbo_, rel=1e-8)
    # Whether the rows come from the file or from a frame, the names are checked.
    some = model.transform(mapped[:50])
    np.testing.assert_allclose(some, model.transform(frame[list("abcdef")][:50]), atol=1e-12)
    fewer, _ = memory_mapped(path, features=list("fedcba"))
    with pytest.raises(DataError, match="feature names"):
        model.transform(fewer)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.transform(np.asarray(mapped[:50]))


def test_a_memory_map_is_split_as_a_table_is(tmp_path: Path) -> None:
    X, y = table()
    path = tmp_path / "big.parquet"
    pd.DataFrame(X, columns=list("abcdef")).assign(type=y).to_parquet(path)
    mapped, labels = memory_mapped(path, label="type")
    found = cross_val_score(small(), mapped, labels, cv=3)
    np.testing.assert_allclose(found, cross_val_score(small(), X, y, cv=3), atol=1e-12)


def test_a_cell_of_a_parquet_file_is_named_by_its_column(tmp_path: Path) -> None:
    X, y = table()
    X[20, 3] = np.inf
    path = tmp_path / "big.parquet"
    pd.DataFrame(X, columns=list("abcdef")).to_parquet(path)
    with pytest.raises(DataError, match=r"infinite.* row 21, column d\."):
        small().fit(memory_mapped(path)[0], y)


# From a Parquet file to a map and to places of all rows, with room for three quarters of the table.
WITH_LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from lvmcore import FastLDGD
from lvmcore.data import memory_mapped

N, D, GROUP = 80_000, 200, 5_000
rng = np.random.default_rng(0)
slope = rng.normal(size=(2, D))
names = [f"c{d}" for d in range(D)]

def some(n):
    y = rng.integers(0, 2, size=n)
    latent = rng.normal(size=(n, 2)) + y[:, None]
    return latent @ slope + 0.1 * rng.normal(size=(n, D)), y

def fit(X, y):
    return FastLDGD(n_components=2, n_inducing=8, max_iter=2, n_hidden=8).fit(X, y)

path = Path(sys.argv[1]) / "big.parquet"
schema = pa.schema([*((name, pa.float64()) for name in names), ("type", pa.int64())])
with pq.ParquetWriter(path, schema, use_dictionary=False, compression="NONE") as writer:
    for _ in range(N // GROUP):
        X, y = some(GROUP)
        writer.write_table(pa.table([*X.T, y], schema=schema))
# All libraries and threads are there before the limit is.
fit(*some(1000)).transform(memory_mapped(path, features=names[:1])[0][:1000].repeat(D, axis=1))
status = Path("/proc/self/status").read_text().splitlines()
used = 1024 * int(next(line for line in status if line.startswith("VmData")).split()[1])
limit = used + 3 * (8 * N * D) // 4
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
X, y = memory_mapped(path, label="type", folder=sys.argv[1])
model = fit(X, y)
assert model.transform(X).shape == model.embedding_.mean.shape == (N, 2)
try:
    np.array(X)
except MemoryError:
    print("there is no room for a copy")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory as Linux has it")
def test_a_table_is_learnt_from_that_memory_has_no_room_for(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", WITH_LITTLE_MEMORY, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "there is no room for a copy"
