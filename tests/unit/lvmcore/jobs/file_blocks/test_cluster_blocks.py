"""Blocks of rows on a Ray cluster: the same parts as on this machine, also after lost nodes."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import lvmcore
from lvmcore.cli import main
from lvmcore.jobs.file_blocks.parts import part_paths
from tests.unit.lvmcore.jobs.executors.local_cluster import LocalCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    made = LocalCluster()
    yield made
    made.close()


def test_the_parts_are_those_of_this_machine(
    cluster: LocalCluster,
    rng: np.random.Generator,
    tmp_path: Path,
) -> None:
    frame = pd.DataFrame(rng.standard_normal((100_000, 3)), columns=list("abc"))
    frame.to_parquet(tmp_path / "rows.parquet")
    model = lvmcore.ProbabilisticPCA(n_components=2).fit(frame[:500])
    model.save(tmp_path / "model.safetensors")
    command = ["transform", str(tmp_path / "model.safetensors"), str(tmp_path / "rows.parquet")]
    command += ["--in-place", "--workers", "2", "--out"]
    assert main([*command, str(tmp_path / "here")]) == 0
    # In a process of its own: Ray stays connected to a cluster that later tests do not have.
    cli = [sys.executable, "-m", "lvmcore.cli", *command, str(tmp_path / "there")]
    subprocess.run([*cli, "--cluster", cluster.address], check=True, stdout=subprocess.DEVNULL)
    here, there = part_paths(tmp_path / "here"), part_paths(tmp_path / "there")
    assert len(here) == 2
    assert [part.name for part in here] == [part.name for part in there]
    for one, two in zip(here, there, strict=True):
        assert pq.read_table(one).equals(pq.read_table(two))
