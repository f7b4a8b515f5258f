"""The report of real runs, and where it is offered."""

import hashlib

import pytest

from app.report import document, download
from app.services import fitted_maps, scores, server
from lvmcore.data import Dataset
from lvmcore.jobs.run_job import run_job
from lvmcore.runs import JobSpec
from tests.app.conftest import OpenPage
from tests.app.report.test_document import Read
from tests.app.views.fit.test_page import dataset_with_labels


def ran(dataset: Dataset, model: str, **settings: object) -> str:
    """A run that was fitted in this process."""
    store = server.store()
    store.datasets.put(dataset)
    with store.own(JobSpec(dataset.digest, dataset.name, model, settings)) as folder:
        run_job(folder, lambda: dataset, lambda: None)
        return folder.path.name


@pytest.mark.slow(quick=["bayesian_gplvm", "factor_analysis", "ppca"])
@pytest.mark.parametrize("model", ["ldgd", "bayesian_gplvm", "ppca", "tsne", "factor_analysis"])
def test_a_run_of_any_kind_has_its_report(model: str) -> None:
    settings = {"max_iter": 30, "n_inducing": 8} if model in ("ldgd", "bayesian_gplvm") else {}
    run = ran(dataset_with_labels(), model, **settings)
    job = server.store().get(run)
    found = download.report_subject(job)
    page = Read(document.report_html(found).decode())
    said = "\n".join(page.texts)
    for metric in scores.score_values(job):
        assert metric.protocol[:600] in said
    for name, version in job.spec.versions.items():
        assert f"version of {name}" in said
        assert version in said
    content = server.store().job_folder(run).files.model.read_bytes()
    assert hashlib.sha256(content).hexdigest() in said
    assert "Python that repeats the run" in said
    assert str(server.store().home) not in said, "a report names no folder of this machine"
    assert len(found.rows.points) == len(fitted_maps.fitted_dataset(run))
    assert {setting.name for setting in found.settings} == set(
        fitted_maps.model(run).get_params(deep=False)
    )


def test_what_the_table_left_out_is_told() -> None:
    dataset = dataset_with_labels()
    holed = dataset.X.copy()
    holed[:3, 0] = float("nan")
    gaps = Dataset.from_arrays(holed, dataset.labels, name="gaps")
    found = download.report_subject(server.store().get(ran(gaps, "tsne")))
    assert found.shape[0] == found.shape[1] + 3
    assert any("3" in note for note in found.left_out)


def test_it_is_offered_on_the_latent_and_the_export_page(open_page: OpenPage, fitted: str) -> None:
    page = open_page("latent", run=fitted)
    assert not page.exception
    assert "Report" in [button.proto.label for button in page.get("download_button")]
    page = open_page("export", run=fitted)
    assert not page.exception
    assert "Report" in [button.proto.label for button in page.get("download_button")]
