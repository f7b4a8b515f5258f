"""Independent calls made by a cluster: their results, whatever is lost, full or stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.unit.lvmcore.jobs.executors.local_cluster import LocalCluster
from tests.unit.lvmcore.jobs.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MAIN = "from tests.unit.lvmcore.jobs.executors.caller_process import main; main()"
Lines = Iterator[dict[str, Any]]
Start = Callable[..., Lines]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    made = LocalCluster(nodes=2)
    yield made
    made.close()


@contextmanager
def caller(
    address: str, items: range | list[int], folder: Path, own: float = 0.5, elsewhere: float = 0.5
) -> Iterator[Lines]:
    """The lines of a process that makes calls."""
    arguments = [address, str(own), str(elsewhere), str(folder), *map(str, items)]
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield (json.loads(line) for line in process.stdout if line.startswith("{"))
    assert process.returncode == 0


def squares(lines: list[dict[str, Any]]) -> dict[int, int]:
    """The values by place; none comes twice."""
    found = [(line["place"], line["value"]) for line in lines if "place" in line]
    assert len(dict(found)) == len(found)
    return dict(found)


def test_calls_are_made_here_and_on_the_nodes(cluster: LocalCluster, tmp_path: Path) -> None:
    with caller(cluster.address, range(40), tmp_path, own=5.0) as lines:
        found = list(lines)
    assert squares(found) == {n: n * n for n in range(40)}
    pids = {line["pid"] for line in found if "place" in line}
    assert found[0]["pid"] in pids
    assert len(pids) == 3


def test_a_single_call_needs_no_cluster(cluster: LocalCluster, tmp_path: Path) -> None:
    with caller(cluster.address, [7], tmp_path, own=0.5) as lines:
        begin, done, end = lines
    assert (done["value"], done["pid"]) == (49, begin["pid"])
    assert end == {"connected": False}


def test_a_cluster_that_does_not_answer_changes_nothing(tmp_path: Path) -> None:
    with caller("127.0.0.1:1", range(4), tmp_path, own=0.1) as lines:
        found = list(lines)
    assert squares(found) == {n: n * n for n in range(4)}
    assert {line["pid"] for line in found if "place" in line} == {found[0]["pid"]}


def test_the_calls_of_a_lost_node_are_made_again(cluster: LocalCluster, tmp_path: Path) -> None:
    with caller(cluster.address, range(6), tmp_path, own=8.0, elsewhere=6.0) as lines:
        begin = next(lines)

        def begun() -> dict[int, int]:
            """The processes of the nodes that have begun a call, by its item."""
            names = (path.name.split(" by ") for path in tmp_path.iterdir())
            by = {int(item): int(pid) for item, pid in names}
            return {item: pid for item, pid in by.items() if pid != begin["pid"]}

        until(lambda: len(begun()) >= 2, "both nodes at work")
        lost = begun()
        cluster.lose_nodes()
        found = list(lines)
    assert squares(found) == {n: n * n for n in range(6)}
    pids = {line["place"]: line["pid"] for line in found if "place" in line}
    again = [item for item, pid in lost.items() if pids[item] != pid]
    assert again


def test_a_stop_ends_the_tasks(cluster: LocalCluster, tmp_path: Path) -> None:
    with caller(cluster.address, range(9), tmp_path, elsewhere=0.5, own=6.0) as lines:
        begin = next(lines)
        there = next(line for line in lines if line["pid"] != begin["pid"])
        (tmp_path / "stop").touch()
        *_, error, end = lines
    assert error["error"].startswith("CancelledError")
    assert end["connected"]

    def is_at_work() -> bool:
        try:
            return "ray::_call" in " ".join(psutil.Process(there["pid"]).cmdline())
        except psutil.NoSuchProcess:
            return False

    until(lambda: not is_at_work(), "the end of the task")


def test_an_error_of_a_call_elsewhere_is_raised(cluster: LocalCluster, tmp_path: Path) -> None:
    with caller(cluster.address, [1, -2, 3], tmp_path, own=60.0) as lines:
        found = list(lines)
    assert found[-2] == {"error": "ValueError: -2 is negative."}


def test_a_cluster_without_a_free_core_holds_nothing_up(tmp_path: Path) -> None:
    full = LocalCluster(nodes=1)
    holding = MAIN.replace("main", "hold")
    with subprocess.Popen(
        [sys.executable, "-c", holding, full.address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with caller(full.address, range(4), tmp_path, elsewhere=600.0) as lines:
            found = list(lines)
        holder.communicate("")
    full.close()
    assert squares(found) == {n: n * n for n in range(4)}
    assert {line["pid"] for line in found if "place" in line} == {found[0]["pid"]}
    assert found[-1] == {"connected": True}
