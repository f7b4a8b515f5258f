"""Files that stay in place on the command line: fit, transform, and going on after a kill."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pyarrow.parquet as pq
import pytest

import lvmcore
from lvmcore import cli
from lvmcore.data.readers import sandbox
from lvmcore.jobs.file_blocks.parts import part_paths
from lvmcore.models import load
from lvmcore.runs.job_folder import JobFolder

NAMES = list("abcd")


def table(rng: np.random.Generator, n: int) -> pd.DataFrame:
    Z = rng.standard_normal((n, 2))
    X = np.tanh(Z @ rng.standard_normal((2, 4))) + 0.1 * rng.standard_normal((n, 4))
    return pd.DataFrame(X, columns=NAMES).assign(kind=np.where(Z[:, 0] > 0, "x", "y"))


@pytest.fixture
def folder(rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sandbox, "SAMPLE_ROWS", 100)
    made = tmp_path / "measured"
    made.mkdir()
    frame = table(rng, 400)
    frame.iloc[:250].to_parquet(made / "0.parquet")
    frame.iloc[250:].to_parquet(made / "1.parquet")
    return made


def test_a_fit_has_all_rows_and_its_pages_the_sample(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    settings = ["--set", "n_components=2", "--set", "max_iter=20", "--set", "n_inducing=10"]
    assert cli.main(["fit", str(folder), "--out", str(out), "--name", "long", *settings]) == 0
    said = capsys.readouterr().out
    assert "A sample of 100 of the 400 rows of 2 files" in said
    assert "Model: Fast LDGD, as the rows stay on disk" in said
    assert "The fit has all 400 rows of the files" in said
    frame = pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("*"))])
    model = lvmcore.FastLDGD(**load(out / "model.safetensors", "map").get_params(deep=False))
    model.fit(frame[NAMES], frame["kind"].to_numpy())
    found = pd.read_parquet(out / "all_rows.parquet")
    assert found["row"].tolist() == list(range(1, 401))
    assert found["label"].tolist() == frame["kind"].tolist()
    np.testing.assert_allclose(found[["z1", "z2"]], model.embedding_.mean, rtol=1e-9, atol=1e-12)
    sample = pd.read_parquet(out / "embedding.parquet")
    assert len(sample) == 100
    at = sample["row_id"].astype(int).to_numpy() - 1
    np.testing.assert_array_equal(sample["z1"], found["z1"].to_numpy()[at])
    kept = load(out / "model.safetensors", "map")
    np.testing.assert_array_equal(kept.embedding_.mean[:, 0], sample["z1"])
    np.testing.assert_allclose(kept.transform(frame[NAMES]), model.transform(frame[NAMES]))
    assert not (out / "rows").exists()
    assert JobFolder(out).state().status == "done"


def test_a_model_that_needs_all_rows_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert cli.main(["fit", str(folder), "--model", "ppca", "--out", str(out)]) == 2
    assert "needs all rows in memory" in capsys.readouterr().err
    assert JobFolder(out).state().status == "failed"


def test_a_cell_that_does_not_fit_ends_the_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rng: np.random.Generator
) -> None:
    path = tmp_path / "long.csv"
    text = table(rng, 60).to_csv(index=False)
    sample = "".join(text.splitlines(keepends=True)[1:]) * 200  # longer than the sample
    path.write_text(f"{text}{sample}1,2,oops,4,x\n")
    out = tmp_path / "run"
    assert cli.main(["fit", str(path), "--in-place", "--out", str(out)]) == 2
    message = "Row 12,061 of 'long.csv' has 'oops' in column 'c', which holds numbers"
    assert message in capsys.readouterr().err


def test_rows_of_files_are_placed_in_parts(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("*"))])
    model = lvmcore.ProbabilisticPCA(n_components=2).fit(frame[NAMES])
    model.save(tmp_path / "model.safetensors")
    out = tmp_path / "placed"
    command = ["transform", str(tmp_path / "model.safetensors"), str(folder), "--out", str(out)]
    assert cli.main([*command, "--workers", "1"]) == 0
    assert "400 rows done" in capsys.readouterr().out
    found = pd.concat([pd.read_parquet(path) for path in part_paths(out)])
    np.testing.assert_allclose(found[["z1", "z2"]], model.transform(frame[NAMES]), rtol=1e-9)
    assert cli.main([*command, "--label", "kind"]) == 2 or part_paths(out)


@pytest.mark.slow
def test_placing_goes_on_after_a_kill_and_leaves_no_process(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    frame = table(rng, 150_000)  # three parts
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path)
    model = lvmcore.FastLDGD(n_components=2, max_iter=2, n_inducing=5)
    model.fit(frame[NAMES][:500], frame["kind"][:500].to_numpy())
    model.save(tmp_path / "model.safetensors")
    out = tmp_path / "placed"
    command = [
        *(sys.executable, "-m", "lvmcore.cli", "transform", str(tmp_path / "model.safetensors")),
        *(str(path), "--in-place", "--out", str(out), "--workers", "2"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not part_paths(out) and time.monotonic() < deadline:
        time.sleep(0.01)
    children = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive
    kept = {part.name: part.stat().st_mtime_ns for part in part_paths(out)}
    assert kept
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for name, written in kept.items():
        assert (out / name).stat().st_mtime_ns == written
    parts = [pq.read_table(part) for part in part_paths(out)]
    ids = np.concatenate([part["row_id"].to_numpy() for part in parts]).astype(int)
    np.testing.assert_array_equal(ids, np.arange(1, 150_001))
    z = np.concatenate([part["z1"].to_numpy() for part in parts])
    np.testing.assert_allclose(z[:500], model.transform(frame[NAMES][:500])[:, 0], rtol=1e-9)


_PASS = """
import resource, sys
from pathlib import Path
from lvmcore.data.long_tables.mapped_rows import map_rows
from lvmcore.data.readers.sandbox import read_files_sandboxed
dataset = read_files_sandboxed([sys.argv[1]]).dataset()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = map_rows(dataset, Path(sys.argv[2]))
print(len(rows.X), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the unit of ru_maxrss")
def test_the_memory_of_the_pass_does_not_grow_with_the_rows(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    used = []
    for n in (200_000, 1_000_000):
        path = tmp_path / f"{n}.parquet"
        X = rng.standard_normal((n, 10))
        pd.DataFrame(X, columns=[f"x{d}" for d in range(10)]).to_parquet(
            path, row_group_size=50_000
        )
        found = subprocess.run(
            [sys.executable, "-c", _PASS, str(path), str(tmp_path / f"array{n}")],
            check=True,
            capture_output=True,
            text=True,
        )
        rows, kilobytes = map(int, found.stdout.split())
        assert rows == n
        used.append(kilobytes)
    # The array of the longer table takes 80 MB, that of the shorter one 16 MB.
    assert used[1] - used[0] < 32_000
