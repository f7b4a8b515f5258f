"""Time and memory of a fit, before it is started."""

from collections.abc import Callable

import pytest

from app.services import runs
from app.state.widgets import widget_key
from app.views.fit import cost_estimate
from lvmcore.jobs.cost_estimate import CostEstimate
from tests.app.conftest import OpenPage, Wait
from tests.app.shell.test_shell import texts
from tests.app.views.fit.test_page import choose, dataset_with_labels
from tests.unit.lvmcore.jobs.waiting import until

pytestmark = pytest.mark.usefixtures("estimates")

START = widget_key("fit", "start")
Known = Callable[[CostEstimate | None], None]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Known:
    """Gives every fit the same estimate."""
    return lambda found: monkeypatch.setattr(runs, "estimate_cost", lambda *_: (True, found))


def offered(page: object) -> bool:
    return any(button.key == START for button in page.button)  # type: ignore[attr-defined]


def test_an_estimate_is_shown_beside_the_button(open_page: OpenPage, known: Known) -> None:
    known(CostEstimate(step=0.01, rest=1.0, memory=420_000_000, free=10**9))
    page = open_page("fit")
    assert not page.exception
    assert "At most about 10 s, 0.4 GB of memory" in texts(page.caption)
    assert offered(page)


def test_a_fit_that_the_machine_cannot_hold_is_refused(
    open_page: OpenPage, known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_estimate, "total_memory", lambda: 8 * 10**9)
    known(CostEstimate(step=0.01, rest=1.0, memory=9 * 10**9, free=10**9))
    page = open_page("fit")
    said = texts(page.error).replace("\\", "")
    assert "needs about 9.0 GB of memory, and this machine has 8.0 GB" in said
    assert not offered(page)


def test_a_fit_that_finds_too_little_free_is_warned_of(
    open_page: OpenPage, known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost_estimate, "available_memory", lambda: 10**9)
    known(CostEstimate(step=0.01, rest=1.0, memory=2 * 10**9, free=10**9))
    page = open_page("fit")
    assert "Only 1.0 GB of memory are free" in texts(page.warning)
    assert offered(page)
    known(CostEstimate(step=0.0, rest=0.0, memory=None, free=10**9))
    page.run()
    assert "needs more than the 1.0 GB of memory that were free" in texts(page.warning)
    assert offered(page)


def test_what_is_being_estimated_and_what_cannot_be(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "estimate_cost", lambda *_: (False, None))
    page = open_page("fit")
    assert "are being estimated" in texts(page.caption)
    monkeypatch.setattr(runs, "estimate_cost", lambda *_: (True, None))
    page.run()
    assert not page.exception
    assert "estimated" not in texts(page.caption)
    assert offered(page)


def test_a_model_in_closed_form_needs_no_estimate(open_page: OpenPage) -> None:
    page = choose(open_page("fit"), "ppca")
    assert not page.exception
    assert "estimated" not in texts(page.caption)


@pytest.mark.slow
def test_the_estimate_is_measured_and_goes_with_the_run(wait: Wait) -> None:
    dataset = dataset_with_labels()
    settings = {"max_iter": 5, "n_inducing": 7, "n_components": 2}

    def known() -> bool:
        return runs.estimate_cost(dataset, "bayesian_gplvm", settings)[0]

    until(known, "the estimate")
    _, found = runs.estimate_cost(dataset, "bayesian_gplvm", settings)
    assert found is not None
    assert found.memory is not None
    job = wait(runs.start_fit(dataset, "bayesian_gplvm", settings))
    assert (job.status, job.memory) == ("done", found.memory)


def test_settings_that_are_not_allowed_have_none() -> None:
    settings = {"max_iter": 5, "n_inducing": -7}
    assert runs.estimate_cost(dataset_with_labels(), "ldgd", settings) == (True, None)
