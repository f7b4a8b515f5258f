"""The first-run tour: offered once, never in the way, gone once left."""

import pytest
from streamlit.testing.v1 import AppTest

from app import navigation
from app.services import runs
from app.shell.tour import STEPS
from app.state.widgets import widget_key
from lvmcore.errors import ConfigError
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import Store
from tests.app.conftest import OpenPage, follow, ways
from tests.app.shell.test_shell import texts

TAKE = widget_key("tour", "take")
LEAVE = widget_key("tour", "leave")


def onward(page: AppTest, place: int) -> AppTest:
    """Take the way on from a step."""
    keys = [button.key for button in page.button]
    key = widget_key("tour", "next", place)
    if key in keys:
        page.button(key).click().run()
        return page
    return follow(page, STEPS[place].onward)


def shown(page: AppTest) -> str:
    said = [caption.value for caption in page.caption if str(caption.value).startswith("Tour")]
    return str(said[0]) if said else ""


def fit_all(store: Store) -> None:
    """Run what is queued, in this process."""
    for run in store.queue.ids():
        folder = store.job_folder(run)
        with folder.lock():
            dataset = store.datasets.get(folder.spec().dataset)
            run_job(folder, lambda dataset=dataset: dataset, lambda: None)  # type: ignore[misc]


@pytest.mark.slow
def test_it_leads_from_the_sample_to_the_export(open_page: OpenPage, quiet_store: Store) -> None:
    page = open_page("data")
    page.button(TAKE).click().run()
    assert not page.exception
    for place, step in enumerate(STEPS):
        assert shown(page) == f"Tour, {place + 1} of {len(STEPS)}: {navigation.TITLES[step.page]}"
        assert step.text in texts(page.markdown).replace("\\", "")
        assert page.title[0].value == navigation.TITLES[step.page]
        if step.page == "fit":
            assert step.onward not in ways(page)
        fit_all(quiet_store)
        page.run()
        if step.page == "fit":
            assert "The fit has converged." in texts(page.success)
        page = onward(page, place)
        assert not page.exception
        if page.title[0].value == "Fit" and place == 0:
            assert page.query_params["run"]
    assert shown(page) == ""
    jobs = quiet_store.list()  # the fit, and those that Compare shows beside it
    assert sorted(job.spec.model for job in jobs) == ["ldgd", "pca", "tsne", "umap"]
    assert all(job.has_model for job in jobs)
    again = open_page("data")
    assert TAKE not in [button.key for button in again.button]


def test_it_is_gone_once_left_and_not_offered_again(
    open_page: OpenPage, quiet_store: Store
) -> None:
    page = open_page("data")
    page.button(TAKE).click().run()
    page.button(LEAVE).click().run()
    assert not page.exception
    assert shown(page) == ""
    assert TAKE not in [button.key for button in page.button]
    page.switch_page(navigation.PAGES["fit"]).run()
    assert shown(page) == ""
    assert quiet_store.list() == []


def test_it_never_blocks(open_page: OpenPage, quiet_store: Store) -> None:
    """Any page can be opened meanwhile; the line says where the tour goes on."""
    page = open_page("data")
    page.button(TAKE).click().run()
    for name in ("runs", "guide", "latent", "compare"):
        page.switch_page(navigation.PAGES[name]).run()
        assert not page.exception
        assert page.title[0].value == navigation.TITLES[name]
        assert shown(page).endswith("Data")
        assert "Back to the tour" in ways(page)
    page = follow(page, "Back to the tour")
    assert page.title[0].value == "Data"
    page.switch_page(navigation.PAGES["fit"]).run()  # the next step by another way
    assert shown(page).endswith("Fit")


def test_a_fit_that_cannot_start_is_said(
    open_page: OpenPage, quiet_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> str:
        raise ConfigError("The queue is full.")

    monkeypatch.setattr(runs, "start_sample_fit", refused)
    page = open_page("data")
    page.button(TAKE).click().run()
    onward(page, 0)
    assert not page.exception
    assert "queue is full" in texts(page.error)
    assert shown(page).endswith("Data")


def test_it_is_not_offered_where_something_was_chosen_or_fitted(
    open_page: OpenPage, fitted: str
) -> None:
    page = open_page("data")
    assert TAKE not in [button.key for button in page.button]
