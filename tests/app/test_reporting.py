"""The report of real runs, and where it is offered."""

import hashlib

import pytest

from app import report, reporting, services
from lvmcore.data import Dataset
from lvmcore.runs import JobSpec
from lvmcore.runs.execute import execute
from tests.app.conftest import OpenPage
from tests.app.test_fit_page import dataset_with_labels
from tests.unit.test_report import Read


def ran(dataset: Dataset, model: str, **settings: object) -> str:
    """A run that was fitted in this process."""
    store = services.store()
    store.put_dataset(dataset)
    with store.own(JobSpec(dataset.digest, dataset.name, model, settings)) as folder:
        execute(folder, lambda: dataset, lambda: None)
        return folder.path.name


@pytest.mark.parametrize("model", ["ldgd", "bayesian_gplvm", "ppca", "tsne", "factor_analysis"])
def test_a_run_of_any_kind_has_its_report(model: str) -> None:
    settings = {"max_iter": 30, "n_inducing": 8} if model in ("ldgd", "bayesian_gplvm") else {}
    run = ran(dataset_with_labels(), model, **settings)
    job = services.store().get(run)
    found = reporting.gather(job)
    page = Read(report.make(found).decode())
    said = "\n".join(page.texts)
    for metric in services.figures(job):
        assert metric.protocol[:600] in said
    for name, version in job.spec.versions.items():
        assert f"version of {name}" in said
        assert version in said
    content = services.store().job_folder(run).model_path.read_bytes()
    assert hashlib.sha256(content).hexdigest() in said
    assert "Python that repeats the run" in said
    assert str(services.store().home) not in said, "a report names no folder of this machine"
    assert len(found.rows.points) == len(services.fitted_dataset(run))
    assert {setting.name for setting in found.settings} == set(
        services.model(run).get_params(deep=False)
    )


def test_what_the_table_left_out_is_told() -> None:
    dataset = dataset_with_labels()
    holed = dataset.X.copy()
    holed[:3, 0] = float("nan")
    gaps = Dataset.from_arrays(holed, dataset.labels, name="gaps")
    found = reporting.gather(services.store().get(ran(gaps, "tsne")))
    assert found.shape[0] == found.shape[1] + 3
    assert any("3" in note for note in found.left_out)


def test_it_is_offered_on_the_latent_and_the_runs_page(open_page: OpenPage, fitted: str) -> None:
    page = open_page("latent", run=fitted)
    assert not page.exception
    assert "Report" in [button.proto.label for button in page.get("download_button")]
    page = open_page("runs", run=fitted)
    page.session_state["runs.chosen"] = (fitted,)
    page.run()
    assert not page.exception
    assert "Report" in [button.proto.label for button in page.get("download_button")]
