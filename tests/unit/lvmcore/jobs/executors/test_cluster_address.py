"""The address of a cluster, and its token."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lvmcore.jobs.executors.cluster_address import ClusterError, cluster_address, has_token
from lvmcore.jobs.executors.node_worker import package_versions
from tests.unit.lvmcore.jobs.executors.local_cluster import LocalCluster

TOKEN = "0123456789abcdef" * 4
CONNECT = """
import sys
from lvmcore.jobs.executors.cluster_address import ClusterError, connect
from lvmcore.jobs.executors.node_worker import NodeWorker
try:
    ray = connect(sys.argv[1])
    worker = ray.remote(NodeWorker).options(num_cpus=1).remote(1)
    print(ray.get(worker.versions.remote())["latentboard"])
except ClusterError as error:
    print(error)
"""


@pytest.mark.parametrize("given", ["here", "host:port", "host:", ":6379", "ray://host:6379"])
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(ClusterError, match=r"is no address of a cluster: expected host:port"):
        cluster_address(given)


def test_a_token_is_found_where_ray_looks_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    assert not has_token()
    with monkeypatch.context() as inner:
        inner.setenv("RAY_AUTH_TOKEN", TOKEN)
        assert has_token()
    other = tmp_path / "token"
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(other))
    assert not has_token()
    other.write_text(TOKEN, encoding="utf-8")
    assert has_token()
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH")
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text(TOKEN, encoding="utf-8")
    assert has_token()


@pytest.fixture(scope="module")
def closed_cluster() -> Iterator[LocalCluster]:
    made = LocalCluster(1, token=TOKEN)
    yield made
    made.close()


def _says(cluster: LocalCluster, home: Path) -> str:
    """What a process with this home says of the cluster."""
    environment = {name: value for name, value in os.environ.items() if "RAY" not in name}
    return subprocess.run(
        [sys.executable, "-c", CONNECT, cluster.address],
        env={**environment, "HOME": str(home)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


@pytest.mark.slow
def test_a_cluster_with_a_token_is_used_by_who_has_it(
    closed_cluster: LocalCluster, tmp_path: Path
) -> None:
    assert _says(closed_cluster, tmp_path) == (
        f"The cluster at {closed_cluster.address} asks for its token: copy ~/.ray/auth_token from "
        "its head to this machine, or set RAY_AUTH_TOKEN."
    )
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text(TOKEN, encoding="utf-8")
    assert _says(closed_cluster, tmp_path) == package_versions()["latentboard"]


@pytest.mark.slow
def test_a_token_of_another_cluster_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text(TOKEN, encoding="utf-8")
    cluster = LocalCluster(1)
    found = _says(cluster, tmp_path)
    cluster.close()
    assert found == package_versions()["latentboard"]
