"""Learning curves on the pages: the form, a curve that is done, and one that was stopped."""

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.components.learning_curves import has_learning_curve
from app.services import scores, server, tables
from app.state.choices import ReadingChoices, SampleChoice, TargetChoice
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import JobSpec
from tests.app.conftest import OpenPage, Wait, fitted_run
from tests.app.shell.test_shell import texts


@pytest.fixture(scope="module")
def classes(shared_home: object) -> str:
    """A classifier of the wines."""
    table = tables.table(SampleChoice("wine"), ReadingChoices())
    dataset = tables.dataset_of(table, tables.proposed_roles(table))
    settings = {"max_iter": 10, "n_inducing": 8}
    return fitted_run(dataset, "svgp_classifier", settings, TargetChoice("cultivar"))


def words(page: AppTest) -> str:
    return texts([*page.main.markdown, *page.main.caption, *page.main.warning, *page.main.error])


def curves(page: AppTest) -> list[dict[str, Any]]:
    drawn = [json.loads(element.proto.spec) for element in page.get("plotly_chart")]
    title = "rows of the fit"
    return [
        one for one in drawn if one["layout"].get("xaxis", {}).get("title", {}).get("text") == title
    ]


def by_label(elements: Any, label: str) -> Any:
    (found,) = [one for one in elements if one.label.startswith(label)]
    return found


def learned(spec: JobSpec, *, fits: int | None = None) -> str:
    """Execute a learning curve in this process, stopped after some fits if asked to."""
    store = server.store()
    name = store.submit(spec)
    folder = store.job_folder(name)

    def should_stop() -> Any:
        written = folder.files.learning_curve.is_file()
        done = len(scores.learning_curve(name).points) if written else 0
        return "cancelled" if fits is not None and done >= fits else None

    with folder.lock():
        run_job(folder, lambda: store.datasets.get(spec.dataset), should_stop)
    return name


def test_the_form_proposes_sizes_and_refuses_others(open_page: OpenPage, classes: str) -> None:
    page = open_page("predict", run=classes)
    assert not page.exception
    sizes = by_label(page.main.text_input, "Rows of the fits")
    rows = scores.rows_to_learn_from(classes, 1)
    assert sizes.label == f"Rows of the fits, at most {rows}"
    assert sizes.value.endswith(f", {rows}")
    assert not curves(page)
    for text, message in (("20, 10", "at least two increasing"), ("a few", "whole numbers")):
        by_label(page.main.text_input, "Rows of the fits").set_value(text)
        by_label(page.main.button, "Start").click().run()
        assert not page.exception
        assert message in words(page)
    assert not server.store().list("learning curve")


def test_a_curve_is_drawn_and_one_that_was_stopped_goes_on(
    open_page: OpenPage, classes: str
) -> None:
    spec = scores.learning_curve_spec(server.store().get(classes).spec, (15, 60), 2)
    run = learned(spec, fits=3)
    job = server.store().get(run)
    assert job.status == "cancelled"
    page = open_page("predict", run=classes)
    assert not page.exception
    assert "those done were kept" in words(page)
    (drawn,) = curves(page)
    assert "3 fits" in words(page)
    by_label(page.main.segmented_control, "Score").set_value("macro_f1").run()
    (drawn,) = curves(page)
    assert drawn["layout"]["yaxis"]["title"]["text"] == "macro F1"
    assert "Resume" in [button.label for button in page.main.button]
    server.store().delete(run)
    learned(spec)
    page = open_page("predict", run=classes)
    assert not page.exception
    assert "4 fits" in words(page)
    assert "the seed of the repeat" in words(page)
    assert "Resume" not in [button.label for button in page.main.button]
    assert scores.start_learning_curve(spec) == scores.learning_curve_job(spec).id  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_curve_of_a_map_is_started_on_compare(open_page: OpenPage, wait: Wait) -> None:
    table = tables.table(SampleChoice("iris"), ReadingChoices())
    dataset = tables.dataset_of(table, tables.proposed_roles(table))
    run = fitted_run(dataset, "sppca", {"n_components": 2})
    page = open_page("compare", run=run)
    assert not page.exception
    by_label(page.main.text_input, "Rows of the fits").set_value("10, 100")
    by_label(page.main.number_input, "Repeats").set_value(2)
    by_label(page.main.button, "Start").click().run()
    assert not page.exception
    job = scores.learning_curve_job(server.store().get(run).spec)
    assert job is not None
    assert (job.spec.sizes, job.spec.repeats) == ((10, 100), 2)
    assert wait(job.id).status == "done"
    page.run()
    assert not page.exception
    assert len(curves(page)) == 1


def test_a_map_that_learns_from_no_labels_has_none() -> None:
    assert not has_learning_curve(JobSpec("d", "data", "bayesian_gplvm"))
    assert has_learning_curve(JobSpec("d", "data", "ldgd"))
    assert has_learning_curve(JobSpec("d", "data", "svgp_regressor", target="y"))
