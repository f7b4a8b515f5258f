"""Tables registered in place on the pages: sample, fit to all rows, density, and new rows."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from app.services import fitted_maps, run_exports, runs, server, tables
from app.state.choices import ReadingChoices
from app.web import application, data_folders
from app.web.access import LOOPBACK, Access
from lvmcore.data.readers import sandbox
from lvmcore.errors import DataError
from lvmcore.jobs.file_blocks.parts import part_paths
from tests.app.conftest import OpenPage, Wait


@pytest.fixture
def folder(rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sandbox, "SAMPLE_ROWS", 80)
    made = tmp_path / "measured"
    made.mkdir()
    Z = rng.standard_normal((300, 2))
    X = np.tanh(Z @ rng.standard_normal((2, 4))) + 0.1 * rng.standard_normal((300, 4))
    for k in range(2):
        part = pd.DataFrame(X[150 * k : 150 * (k + 1)], columns=list("abcd"))
        part.to_parquet(made / f"{k}.parquet")
    return made


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that other machines can reach."""
    monkeypatch.setattr(application, "_granted", [(LOOPBACK, Access(token="secret"))])
    monkeypatch.delenv(data_folders.FOLDERS, raising=False)


def test_a_folder_is_registered_fitted_and_applied(
    folder: Path, open_page: OpenPage, wait: Wait
) -> None:
    page = open_page("data")
    page.text_area[0].input(str(folder))
    page.button(key=_register(page)).click().run()
    assert not page.exception
    assert page.header[0].value == "measured"
    shown = " ".join(caption.value for caption in page.caption)
    assert "A sample of 80 of the 300 rows of 2 files" in shown
    choice = tables.files_choice(str(folder))
    table = tables.table(choice, ReadingChoices())
    dataset = tables.dataset_of(table, tables.proposed_roles(table))
    run = runs.start_fit(dataset, "stochastic_gplvm", {"n_components": 2, "max_iter": 20})
    job = wait(run)
    assert job.status == "done", job.message
    means = fitted_maps.density_rows(run)
    assert means is not None
    assert means.shape == (300, 2)
    fitted = fitted_maps.fitted_dataset(run)
    np.testing.assert_allclose(
        means[fitted.rows], fitted_maps.model(run).embedding_.mean, rtol=1e-6, atol=1e-6
    )
    latent = open_page("latent", run=run)
    assert not latent.exception
    assert any("density in the background is that of 300 rows" in c.value for c in latent.caption)
    new = open_page("new_rows", run=run)
    new.text_area[0].input(str(folder / "1.parquet"))
    new.button(key=_register(new)).click().run()
    assert not new.exception
    (start,) = [button for button in new.button if button.label == "Infer positions"]
    start.click().run()
    (placed,) = [job for job in server.store().list("project") if job.spec.run == run]
    assert wait(placed.id).status == "done"
    parts = part_paths(server.store().job_folder(placed.id).files.parts)
    found = pd.concat([pd.read_parquet(part) for part in parts])
    assert found["row_id"].tolist() == [str(k + 1) for k in range(150)]
    again = open_page("new_rows", run=run)
    again.query_params["rows"] = placed.id
    again.run()
    assert not again.exception
    assert any("All 150 rows of the files are done" in info.value for info in again.info)


def test_a_fit_with_labels_is_watched_though_the_dataset_is_a_sample(
    folder: Path, open_page: OpenPage, wait: Wait
) -> None:
    for path in folder.iterdir():
        part = pd.read_parquet(path)
        part.assign(site=np.where(part["a"] > 0, "north", "south")).to_parquet(path)
    page = open_page("data")
    page.text_area[0].input(str(folder))
    page.button(key=_register(page)).click().run()
    assert any("300 rows, 4 features, label with 2 classes" in text.value for text in page.markdown)
    choice = tables.files_choice(str(folder))
    table = tables.table(choice, ReadingChoices())
    dataset = tables.dataset_of(table, tables.proposed_roles(table))
    run = runs.start_fit(dataset, "fast_ldgd", {"n_components": 2, "max_iter": 20})
    job = wait(run)
    assert job.status == "done", job.message
    snapshots = [event.step.snapshot for event in server.store().events(run)]
    assert max(one.rows.max() for one in snapshots if one is not None) > len(dataset)
    for name in ("fit", "latent", "export"):
        assert not open_page(name, run=run).exception
    with Image.open(io.BytesIO(run_exports.fit_animation(run, "gif"))) as gif:
        assert gif.n_frames > 1  # type: ignore[attr-defined]
    with zipfile.ZipFile(io.BytesIO(run_exports.tensorboard_log(run))) as log:
        lines = [log.read(f"{run}/{name}.tsv").splitlines() for name in ("latent", "metadata")]
    assert [len(one) for one in lines] == [len(dataset), len(dataset) + 1]


def _register(page: object) -> str:
    (button,) = [one for one in page.button if one.label == "Register"]  # type: ignore[attr-defined]
    return str(button.key)


def test_a_path_that_does_not_exist_is_refused(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page("data")
    page.text_area[0].input(str(tmp_path / "none"))
    page.button(key=_register(page)).click().run()
    assert any("There is no file or folder" in error.value for error in page.error)


@pytest.mark.usefixtures("shared")
def test_a_shared_server_offers_no_files_without_opened_folders(open_page: OpenPage) -> None:
    assert not data_folders.offers_files()
    assert not open_page("data").text_area


@pytest.mark.usefixtures("shared")
def test_a_shared_server_reads_files_of_opened_folders_alone(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(data_folders.FOLDERS, "")
    data_folders.open_folders([folder])
    assert [path.name for path in data_folders.allowed_files([str(folder)])] == [
        "0.parquet",
        "1.parquet",
    ]
    outside = tmp_path / "secret.csv"
    outside.write_text("a,b\n1,2\n")
    (folder / "link.parquet").symlink_to(outside)
    sneaky = [
        str(outside),
        f"{folder}/../secret.csv",
        str(folder / "link.parquet"),
        str(folder),  # now with the link in it
        str(tmp_path / "none"),  # whether it exists is not said
        str(tmp_path),
    ]
    for path in sneaky:
        with pytest.raises(DataError, match="is not in a folder that this server may read"):
            data_folders.allowed_files([path])


def test_a_folder_that_is_none_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is no folder"):
        data_folders.open_folders([tmp_path / "none"])
