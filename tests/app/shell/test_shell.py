"""The shell: navigation, what is open at its foot, and the run in the address."""

import subprocess
import sys

import pytest

from app import navigation
from app.services import runs as runs_service
from app.services import scores, server, tables
from app.shell import sidebar
from app.state import choices
from app.state.widgets import widget_key
from lvmcore.errors import DataError
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import Job, JobSpec
from tests.app.conftest import OpenPage, fitted_run, ways

GONE = "0" * 32


def texts(elements: object) -> str:
    """What some elements of a page say, together."""
    return "\n".join(str(element.value) for element in elements)  # type: ignore[attr-defined]


@pytest.mark.slow(quick=["compare", "impute", "predict"])
@pytest.mark.parametrize("name", list(navigation.PAGES))
def test_every_page_opens_on_a_first_visit(open_page: OpenPage, name: navigation.PageName) -> None:
    page = open_page(name)
    assert not page.exception
    assert page.title[0].value == navigation.TITLES[name]


@pytest.mark.slow(quick=["data", "fit", "guide"])
@pytest.mark.parametrize("name", list(navigation.PAGES))
def test_every_page_opens_with_a_run(
    open_page: OpenPage, fitted: str, name: navigation.PageName
) -> None:
    page = open_page(name, run=fitted)
    assert not page.exception
    assert page.query_params["run"] == fitted
    assert not page.subheader  # sections come right below the title: no level is left out


def test_the_foot_names_the_data_and_the_run(open_page: OpenPage, fitted: str) -> None:
    first = texts(open_page("data").sidebar.text)
    assert choices.DEFAULT_SAMPLE in first
    assert "none yet" in first
    later = open_page("data", run=fitted)
    assert "Probabilistic PCA on wine" in texts(later.sidebar.text)
    assert "done" in texts(later.sidebar.markdown)


def test_a_change_of_page_keeps_the_run_in_the_address(open_page: OpenPage, fitted: str) -> None:
    page = open_page("data", run=fitted)
    page.query_params.clear()
    page.switch_page(navigation.PAGES["fit"]).run()
    assert page.query_params["run"] == fitted


def test_an_earlier_run_can_be_reopened(
    open_page: OpenPage, fitted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sidebar, "MOST_RUNS", 10_000)  # other tests have made many since
    page = open_page("fit")
    selector = page.sidebar.selectbox(widget_key("foot", "earlier"))
    selector.set_value(fitted).run()
    assert not page.exception
    assert page.query_params["run"] == fitted
    assert ways(page) == ["Explore the map"]


def test_a_run_that_is_gone_is_said_to_be(open_page: OpenPage) -> None:
    for run in (GONE, "../../etc/passwd"):
        page = open_page("fit", run=run)
        assert not page.exception
        assert "does not exist" in texts(page.warning)
        assert page.button(widget_key("fit", "start")).label == "Fit"


def test_one_store_and_one_launcher_serve_every_session() -> None:
    assert server.store() is server.store()
    assert server.launcher() is server.launcher()


@pytest.mark.slow
def test_the_first_page_is_drawn_without_torch() -> None:
    code = (
        "import sys\n"
        "from app.services import tables\n"
        "from app.state.choices import DEFAULT_SAMPLE, ReadingChoices, SampleChoice\n"
        "from app.shell import sidebar\n"
        "from app.views.data import column_editor, page\n"
        "from app.views.fit import live_run, parameter_form\n"
        "table = tables.table(SampleChoice(DEFAULT_SAMPLE), ReadingChoices())\n"
        "tables.table_summary(tables.dataset_of(table, tables.proposed_roles(table)))\n"
        "print('torch' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "False"


@pytest.mark.slow
def test_runs_of_one_name_can_each_be_reopened(open_page: OpenPage) -> None:
    """Streamlit knows an option by its text: two runs with one title must not become one."""
    table = tables.table(choices.SampleChoice("iris"), choices.ReadingChoices())
    dataset = tables.dataset_of(table, tables.proposed_roles(table))
    runs = [fitted_run(dataset, "pca", {}) for _ in range(2)]
    for run in runs:
        page = open_page("fit")
        page.sidebar.selectbox(widget_key("foot", "earlier")).set_value(run).run()
        assert page.query_params["run"] == run


@pytest.mark.slow(quick=["impute-1", "new_rows-1", "runs-2"])
@pytest.mark.parametrize("looks", [1, 2])
@pytest.mark.parametrize("name", list(navigation.PAGES))
def test_a_run_deleted_while_its_page_is_drawn_is_said_to_be(
    open_page: OpenPage, name: navigation.PageName, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another window may delete it at any moment: here after so many looks at it."""
    table = tables.table(choices.SampleChoice("iris"), choices.ReadingChoices())
    dataset = tables.dataset_of(table, tables.proposed_roles(table))
    store = server.store()
    store.datasets.put(dataset)
    with store.own(JobSpec(dataset.digest, dataset.name, "pca", {})) as folder:
        run_job(folder, lambda: dataset, lambda: None)
        run = folder.path.name
    page = open_page("guide", run=run)
    look, left = runs_service.job, looks

    def look_and_delete(asked: str | None) -> Job | None:
        nonlocal left
        found = look(asked)
        if found is not None and found.id == run:
            left -= 1
            if left == 0:
                runs_service.delete_runs([run])
        return found

    monkeypatch.setattr(runs_service, "job", look_and_delete)
    page.switch_page(navigation.PAGES[name]).run()
    assert not page.exception
    assert look(run) is None
    assert page.title[0].value == navigation.TITLES[name]
    page.run()
    assert not page.exception


def test_a_page_that_cannot_be_drawn_to_its_end_says_why_and_leads_on(
    open_page: OpenPage, fitted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def torn(*_: object) -> None:
        raise DataError("The file of the map <b>is torn</b>.")

    monkeypatch.setattr(scores, "score_values", torn)
    page = open_page("latent", run=fitted)
    assert not page.exception
    assert "The file of the map \\<b\\>is torn" in texts(page.main.error)
    assert ways(page)[-1] == "Choose a run"
