"""The nodes of a cluster on the Runs page."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from app.services import server
from lvmcore.data import load_sample
from lvmcore.jobs.executors.cluster_state import ClusterNode, ClusterState
from lvmcore.runs import JobSpec
from tests.app.conftest import OpenPage

NODES = (
    ClusterNode("<b>a</b>", "10.0.0.1", 4.0, 0.0, 8e9),
    ClusterNode("b", "10.0.0.2", 2.0, 1.0, 4e9),
)
IDLE = ClusterState(NODES, 5.0, 1.0, 1.05e10)


@pytest.fixture(autouse=True)
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of the test's own, on which no launcher starts anything."""
    monkeypatch.setenv("LATENTBOARD_HOME", str(tmp_path / "quiet"))
    monkeypatch.setattr(server, "warm_up", lambda: None)


def on_cluster(
    monkeypatch: pytest.MonkeyPatch, state: ClusterState | None, trouble: str = ""
) -> None:
    """Have the server use a cluster in a state, whose launcher reports a trouble."""
    monitor = SimpleNamespace(latest=lambda: state)
    cluster = SimpleNamespace(address="10.0.0.1:6379", monitor=monitor)
    monkeypatch.setattr(server, "cluster", lambda: cluster)
    monkeypatch.setattr(server, "launcher", lambda: SimpleNamespace(trouble=trouble))


def texts(page: AppTest) -> str:
    """All texts of the page."""
    kinds = ("markdown", "caption", "warning", "header")
    return "\n".join(str(one.value) for kind in kinds for one in page.get(kind))


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (None, r"Connecting to 10\.0\.0\.1\:6379\."),
        (ClusterState(error="No cluster answers."), "Queued runs start when the cluster answers"),
        (IDLE, r"Free\: 5 of 6 cores, 1 of 1 GPUs and 10\.5 GB of memory\."),
    ],
    ids=["connecting", "gone", "idle"],
)
def test_the_cluster_is_shown(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, state: ClusterState | None, said: str
) -> None:
    on_cluster(monkeypatch, state)
    page = open_page("runs")
    assert not page.exception
    assert said in texts(page)
    nodes = [table.value for table in page.dataframe if "Node" in table.value]
    assert len(nodes) == (state is IDLE)
    for frame in nodes:
        assert list(frame["Node"]) == ["<b>a</b> (10.0.0.1)", "b (10.0.0.2)"]
        assert list(frame["Memory"]) == ["8.0 GB", "4.0 GB"]


def test_what_waits_is_said_by_name_and_why(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cluster(monkeypatch, IDLE, "No node has <room>.")
    store = server.store()
    digest = store.datasets.put(load_sample("iris").dataset())
    store.submit(JobSpec(digest, "iris", "ppca", name="*one*"), memory=2_000_000_000)
    page = open_page("runs")
    assert not page.exception
    assert r"No node has \<room\>\." in texts(page)
    assert r"Waiting\: \*one\* \(2\.0 GB\)\." in texts(page)


def test_on_this_machine_there_is_no_cluster(open_page: OpenPage) -> None:
    page = open_page("runs")
    assert not page.exception
    assert "Cluster" not in texts(page)
