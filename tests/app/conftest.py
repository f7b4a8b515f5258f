"""What the tests of the pages share: one home and one launcher, and a page opened by AppTest."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import pytest
import streamlit as st
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest, local_script_runner

from app import navigation
from app.services import runs, server, tables
from app.state import choices
from app.state.choices import TargetChoice
from lvmcore.data import Dataset
from lvmcore.jobs.launcher import Launcher
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import Job, Store

MAIN = Path(navigation.__file__).with_name("main.py")
#: Long, for a busy machine; nothing is measured here.
PATIENCE_SECONDS = 120.0

OpenPage = Callable[..., AppTest]
Wait = Callable[[str], Job]


@pytest.fixture(scope="session", autouse=True)
def one_scan_for_components() -> Iterator[None]:
    """Look for packages with components once in a process, as a server does.

    AppTest does so for each of its sessions, and reads the metadata of every installed package.
    """
    scan = functools.cache(manifest_scanner.scan_component_manifests)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", lambda: list(scan()))
        yield


@pytest.fixture(scope="session", autouse=True)
def quiet_wait_for_a_page() -> Iterator[None]:
    """Sleep while a page runs; AppTest asks whether it has ended a thousand times a second."""
    ended = local_script_runner.require_widgets_deltas

    def wait(runner: local_script_runner.LocalScriptRunner, timeout: float = 3) -> None:
        assert runner._script_thread is not None
        runner._script_thread.join(timeout)
        ended(runner, timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_script_runner, "require_widgets_deltas", wait)
        yield


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One home and one launcher for all tests of pages.

    It keeps no spare worker: a spare would warm up after every run, which few runs here would use.
    """
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "Launcher", functools.partial(Launcher, spare=False))
        patch.setenv("LATENTBOARD_HOME", str(folder))
        yield folder
        server.close()


@pytest.fixture(autouse=True)
def home(shared_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The pages' home, in place of one for each test."""
    monkeypatch.setenv("LATENTBOARD_HOME", str(shared_home))
    return shared_home


@pytest.fixture(autouse=True)
def no_estimates(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what a fit will cost: each first estimate starts a process that imports torch."""
    if "estimates" not in request.fixturenames:
        monkeypatch.setattr(runs, "estimate_cost", lambda *_: (True, None))


@pytest.fixture
def estimates() -> None:
    """Have the pages estimate what a fit will cost."""


@pytest.fixture
def session_state(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """The session state of a test that calls a page's functions without a script run."""
    state: dict[str, object] = {}
    monkeypatch.setattr(st, "session_state", state)
    return state


@pytest.fixture
def quiet_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of an empty home of the test's own, on which no launcher starts anything."""
    monkeypatch.setenv("LATENTBOARD_HOME", str(tmp_path / "quiet"))
    monkeypatch.setattr(server, "launcher", lambda: SimpleNamespace(trouble=""))
    monkeypatch.setattr(server, "warm_up", lambda: None)
    return server.store()


@pytest.fixture
def open_page(home: Path) -> OpenPage:
    """Open a page: ``open_page("fit", run=…)`` is what a link to it does."""

    def open_it(name: navigation.PageName, *, run: str | None = None) -> AppTest:
        page = AppTest.from_file(MAIN, default_timeout=PATIENCE_SECONDS)
        if run is not None:
            page.query_params["run"] = run
        page.run()
        if name != "data":
            page.switch_page(navigation.PAGES[name]).run()
        return page

    return open_it


def ways(page: AppTest) -> list[str]:
    """What the links say that lead on to other pages."""
    return [str(link.proto.label) for link in page.get("page_link")]


def follow(page: AppTest, label: str) -> AppTest:
    """Follow a link as a browser does: to its page, with its own query."""
    (link,) = [one.proto for one in page.get("page_link") if one.proto.label == label]
    (name,) = [
        name for name in navigation.PAGES if link.page == name or (name, link.page) == ("data", "")
    ]
    page.query_params.clear()
    for key, (value,) in parse_qs(link.query_string).items():
        page.query_params[key] = value
    return page.switch_page(navigation.PAGES[name]).run()


@pytest.fixture
def wait(home: Path) -> Wait:
    """Wait until a run has ended."""

    def until_ended(run: str) -> Job:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            job = server.store().get(run)
            if job.finished:
                return job
            time.sleep(0.1)
        pytest.fail(f"the run {run} has not ended in {PATIENCE_SECONDS:.0f} s")

    return until_ended


def fitted_run(
    dataset: Dataset,
    key: str,
    parameters: Mapping[str, Any],
    target: TargetChoice | None = None,
) -> str:
    """Fit a model in the test's own process, and measure it.

    A page that only shows a run needs no worker, whose start takes longer than the fit.

    Returns:
        Id of the run.
    """
    store = server.store()
    store.datasets.put(dataset)
    with store.own(runs.fit_spec(dataset, key, parameters, target=target)) as folder:
        run_job(folder, lambda: store.datasets.get(dataset.digest), lambda: None)
    assert store.get(folder.path.name).stage == "finished"
    return folder.path.name


@pytest.fixture(scope="session")
def fitted(shared_home: Path) -> str:
    """A run that has ended: probabilistic PCA on the first sample."""
    table = tables.table(choices.SampleChoice(choices.DEFAULT_SAMPLE), choices.ReadingChoices())
    return fitted_run(tables.dataset_of(table, tables.proposed_roles(table)), "ppca", {})
