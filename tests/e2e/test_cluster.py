"""The dashboard beside a Ray cluster of three nodes: from a sample to its map, with a node lost."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.dashboard import LIVE, PATIENCE_MS, Dashboard
from tests.e2e.server import Server, running
from tests.unit.lvmcore.jobs.executors.local_cluster import LocalCluster

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    made = LocalCluster(3)
    yield made
    made.close()


@pytest.fixture
def app_server(tmp_path: Path, cluster: LocalCluster) -> Iterator[Server]:
    with running(tmp_path / "dashboard", arguments=["--cluster", cluster.address]) as server:
        yield server


def test_a_sample_is_fitted_on_a_cluster_that_loses_its_nodes(
    dashboard: Dashboard, cluster: LocalCluster
) -> None:
    page = dashboard.page
    dashboard.open()
    dashboard.sample("Wine (178 rows)")
    dashboard.to_fit()
    dashboard.number("Steps at most", 1000)
    run = dashboard.start()
    dashboard.grows(3)
    for name in LIVE:
        dashboard.chart(name)
    seen = len(dashboard.store().events(run))
    cluster.lose_nodes()
    expect(page.get_by_text(re.compile("done in")).first).to_be_visible(timeout=3 * PATIENCE_MS)
    job = dashboard.store().get(run)
    assert (job.status, job.attempt > 1) == ("done", True)
    events = [event.step.iteration for event in dashboard.store().events(run)]
    assert len(events) > seen
    assert events == sorted(set(events))

    dashboard.explore()
    numbers, _ = dashboard.rows()
    assert len(numbers) == 178
    dashboard.open("runs", run=run)
    expect(page.get_by_role("heading", name="Cluster")).to_be_visible()
    dashboard.says(re.compile("Free: 3 of 3 cores"))
    dashboard.no_traceback()
