"""Logs of a run: what TensorBoard itself reads in them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lvmcore.data import Dataset
from lvmcore.errors import DataError
from lvmcore.export.curves import curves_frame
from lvmcore.export.tensorboard import tensorboard_zip
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import JobSpec, Store
from tests.unit.lvmcore.jobs.waiting import until

SERVE = """
import sys
from tensorboard import program
board = program.TensorBoard()
board.configure(logdir=sys.argv[1], host="127.0.0.1", port=0, load_fast="false")
print(board.launch(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def run(store: Store) -> str:
    rng = np.random.default_rng(0)
    names = ["plain", "a\ttab", "two\nlines", "", "=1+1", *map(str, range(15))]
    data = Dataset.from_arrays(
        rng.standard_normal((20, 4)),
        labels=["low", "high"] * 10,
        row_ids=names,
        name="numbers",
    )
    store.datasets.put(data)
    name = store.submit(JobSpec(data.digest, data.name, "ppca", {"n_components": 3}))
    run_job(store.job_folder(name), lambda: data, lambda: None, store=store)
    return name


def unpacked(store: Store, run: str, folder: Path) -> Path:
    data = store.datasets.get(store.get(run).spec.dataset)
    means = store.load_model(run).embedding_.mean
    with zipfile.ZipFile(io.BytesIO(tensorboard_zip(store, run, (data, means)))) as archive:
        archive.extractall(folder)
    return folder / run


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of TensorBoard on these logs."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SERVE, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def test_each_row_has_a_vector_and_names(store: Store, run: str, tmp_path: Path) -> None:
    folder = unpacked(store, run, tmp_path)
    vectors = [line.split("\t") for line in (folder / "latent.tsv").read_text().splitlines()]
    np.testing.assert_array_equal(
        np.array(vectors, dtype=float), store.load_model(run).embedding_.mean
    )
    names = [line.split("\t") for line in (folder / "metadata.tsv").read_text().splitlines()]
    assert names[:6] == [
        ["row_id", "label"],
        ["plain", "low"],
        ["a tab", "high"],
        ["two lines", "low"],
        ["-", "high"],
        ["=1+1", "low"],
    ]
    assert len(names) == 21


def test_a_run_without_curves_and_map_has_no_logs(store: Store, toy: Dataset) -> None:
    store.datasets.put(toy)
    name = store.submit(JobSpec(toy.digest, toy.name, "ppca", {"n_components": 2}))
    with pytest.raises(DataError, match="neither curves nor a map"):
        tensorboard_zip(store, name)


@pytest.mark.slow
def test_tensorboard_shows_the_curves_and_the_rows(store: Store, run: str, tmp_path: Path) -> None:
    unpacked(store, run, tmp_path)
    curves = curves_frame(store, [run]).query("term == 'bound'")

    def asked(address: str) -> Any:
        with urllib.request.urlopen(f"{base}data/{address}") as answer:
            return json.loads(answer.read())

    with served(tmp_path) as base:
        until(lambda: run in asked("plugin/scalars/tags"), "the logs are read")
        assert asked("plugin/projector/runs") == [run]
        (embedding,) = asked(f"plugin/projector/info?run={run}")["embeddings"]
        assert embedding["tensorName"] == "latent mean"
        assert embedding["tensorShape"] == [20, 3]
        found = asked(f"plugin/scalars/scalars?run={run}&tag=bound")
    assert [(step, value) for _, step, value in found] == [
        (step, pytest.approx(value, rel=1e-6))
        for step, value in zip(curves["step"], curves["value"], strict=True)
    ]
