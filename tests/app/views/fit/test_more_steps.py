"""The verdict on a fit that ended still rising, and the click that lets it go on."""

import pytest
from streamlit.testing.v1 import AppTest

from app.services import runs, server
from app.state.widgets import widget_key
from app.views.fit import more_steps
from lvmcore.errors import DataError
from lvmcore.jobs.run_job import run_job
from lvmcore.persistence import branch_path
from lvmcore.runs import JobSpec
from lvmcore.runs.continuation import Continuation
from tests.app.conftest import OpenPage, Wait, follow, ways
from tests.app.shell.test_shell import texts
from tests.app.views.fit.test_page import dataset_with_labels

# A fit of 200 steps with these has not converged.
SETTINGS = {"n_components": 3, "n_inducing": 20, "noise": "column", "start": "pca"}


@pytest.fixture
def short() -> str:
    """A run of 200 steps, fitted in this process."""
    return fitted("bayesian_gplvm", max_iter=200, **SETTINGS)


def fitted(model: str, **settings: object) -> str:
    dataset = dataset_with_labels()
    store = server.store()
    store.datasets.put(dataset)
    with store.own(JobSpec(dataset.digest, dataset.name, model, settings)) as folder:
        run_job(folder, lambda: dataset, lambda: None)
        return folder.path.name


def more(page: AppTest, run: str) -> AppTest:
    return page.button(widget_key("fit", run, "more")).click().run()


def plain(page: AppTest) -> str:
    return texts([*page.warning, *page.caption]).replace("\\", "")


@pytest.mark.slow
def test_one_click_lets_a_fit_go_on_as_a_run_of_its_own(
    open_page: OpenPage, wait: Wait, short: str
) -> None:
    page = open_page("fit", run=short)
    assert not page.exception
    found = runs.proposed_continuation(short)
    assert found is not None
    assert found.gain is None
    said = plain(page)
    assert f"The bound was still rising after its 200 steps: {found.steps} more?" in said
    assert "their gain cannot be estimated" in said  # the longer fit takes another course
    assert "Continues after step 80" in said
    page = more(page, short)
    assert not page.exception
    longer = page.query_params["run"]
    assert longer != short
    job = wait(longer)
    assert job.spec.continues == short
    assert job.spec.parameters["max_iter"] == found.total
    whole = fitted("bayesian_gplvm", max_iter=found.total, **SETTINGS)
    assert job.elbo == pytest.approx(server.store().get(whole).elbo, abs=1e-8, rel=0)
    page = open_page("fit", run=short)
    (way,) = [label for label in ways(page) if label.startswith("Open its longer fit")]
    assert follow(page, way).query_params["run"] == longer
    again = more(open_page("fit", run=short), short)
    assert again.query_params["run"] == longer, "the same run is not made twice"


def test_a_run_whose_state_is_gone_says_so(open_page: OpenPage, short: str) -> None:
    branch_path(server.store().job_folder(short).path, 1).unlink()
    page = open_page("fit", run=short)
    assert not page.exception
    assert "deleted, so the fit starts from the first step" in plain(page)


def test_a_model_without_a_bound_offers_nothing(open_page: OpenPage, fitted: str) -> None:
    page = open_page("fit", run=fitted)
    assert not [button for button in page.button if "more step" in button.label]
    assert runs.proposed_continuation(fitted) is None


def test_the_map_leads_to_more_steps(open_page: OpenPage, short: str) -> None:
    page = open_page("latent", run=short)
    assert not page.exception
    assert "More steps" in ways(page)
    assert "still rising" in plain(follow(page, "More steps"))


def test_what_keeps_a_fit_from_going_on_is_said(
    open_page: OpenPage, short: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(run: str, steps: int) -> str:
        raise DataError("The run could not be written: No space left on device.")

    page = open_page("fit", run=short)
    monkeypatch.setattr(runs, "continue_run", full)
    page = more(page, short)
    assert not page.exception
    assert "No space left" in texts(page.error)


def test_the_verdict_is_in_plain_words() -> None:
    found = Continuation(steps=300, total=700, gain=(11.6, 39.9), seconds=4.6, anew=False)
    said = more_steps.continuation_text(found, "still improving")
    assert "after its 400 steps: 300 more?" in said
    assert "about 4.6 s" in said
    assert "some 12 to 40 nats" in said
    unknown = Continuation(steps=300, total=700, gain=None, seconds=4.6, anew=False)
    assert "cannot be estimated" in more_steps.continuation_text(unknown, "still improving")
    unclear = Continuation(steps=300, total=700, gain=(0.0, 39.9), seconds=4.6, anew=False)
    said = more_steps.continuation_text(unclear, "noisy")
    assert "After its 400 steps the bound differed too much from batch to batch" in said
    assert "some 40 nats at most" in said
