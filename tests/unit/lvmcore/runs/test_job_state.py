"""What people may change about a run, and what of a store can be thrown away."""

import json
from pathlib import Path

import pytest

from lvmcore.data import Dataset
from lvmcore.errors import ConfigError, DataError
from lvmcore.runs import JobSpec, Store
from lvmcore.runs.job_notes import LONGEST_NAME, LONGEST_NOTE, LONGEST_TAG, MOST_TAGS
from tests.unit.lvmcore.conftest import Submit
from tests.unit.lvmcore.runs.test_store import mark_running

SPEC = JobSpec("0" * 64, "toy", "ppca")


def test_a_run_is_renamed_and_its_description_stays(store: Store) -> None:
    name = store.submit(SPEC)
    before = (store.job_folder(name).path / "spec.json").read_bytes()
    assert (store.get(name).name, store.get(name).note) == ("ppca on toy", "")
    store.rename(name, "  the\n good  one ")
    store.annotate(name, " two lines\nof it \n")
    for seen in (store, Store(store.home)):
        job = seen.get(name)
        assert (job.name, job.note) == ("the good one", "two lines\nof it")
        assert job.spec.name == "ppca on toy"
        assert seen.list()[0].name == "the good one"
    assert (store.job_folder(name).path / "spec.json").read_bytes() == before
    with pytest.raises(DataError, match="The run the good one is queued"):
        store.load_model(name)


def test_a_blank_name_gives_the_first_one_back_and_keeps_the_note(store: Store) -> None:
    name = store.submit(SPEC)
    store.annotate(name, "keep")
    store.rename(name, "other")
    store.rename(name, "   ")
    assert (store.get(name).name, store.get(name).note) == ("ppca on toy", "keep")


def test_names_and_notes_without_end_are_refused(store: Store) -> None:
    name = store.submit(SPEC)
    with pytest.raises(ConfigError, match="201 characters: expected at most 200"):
        store.rename(name, "x" * (LONGEST_NAME + 1))
    with pytest.raises(ConfigError, match="10,001 characters"):
        store.annotate(name, "x" * (LONGEST_NOTE + 1))
    assert not (store.job_folder(name).path / "about.json").exists()
    for change in (store.rename, store.annotate):
        with pytest.raises(DataError, match="may have been deleted"):
            change("0" * 32, "x")


def test_a_run_has_tags_beside_its_name_and_note(store: Store) -> None:
    name = store.submit(SPEC)
    assert store.get(name).tags == ()
    store.annotate(name, "keep")
    store.tag(name, [" for the\n paper ", "", "old", "for the paper", "Old"])
    store.rename(name, "other")
    job = Store(store.home).get(name)
    assert (job.name, job.note, job.tags) == ("other", "keep", ("for the paper", "old", "Old"))
    with pytest.raises(ConfigError, match="has 41 characters: expected at most 40"):
        store.tag(name, ["x" * (LONGEST_TAG + 1)])
    with pytest.raises(ConfigError, match="has 21 tags: expected at most 20"):
        store.tag(name, [str(i) for i in range(MOST_TAGS + 1)])
    assert store.list()[0].tags == ("for the paper", "old", "Old")
    store.tag(name, [])
    assert store.get(name).tags == ()


@pytest.mark.parametrize(
    "content", ["", "[]", '{"name": 3, "note": null, "tags": "a"}', '{"tags": [1, null]}']
)
def test_a_damaged_name_hides_no_run(store: Store, content: str) -> None:
    name = store.submit(SPEC)
    (store.job_folder(name).path / "about.json").write_text(content)
    assert [(job.name, job.note, job.tags) for job in store.list()] == [("ppca on toy", "", ())]


def files(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_the_size_is_that_of_the_files(store: Store, toy: Dataset, submit: Submit) -> None:
    assert store.size().total == 0
    runs = [submit(toy), submit(toy, "pca")]
    size = store.size()
    assert size.datasets == {toy.digest: files(store.home / "datasets" / toy.digest)}
    assert size.runs == {run: files(store.job_folder(run).path) for run in runs}
    assert size.total == files(store.home / "datasets") + files(store.home / "jobs")
    assert (
        json.loads((store.job_folder(runs[0]).path / "status.json").read_text())["status"]
        == "queued"
    )


def test_datasets_are_known_by_name_and_a_damaged_one_says_so(
    store: Store, toy: Dataset, big: Dataset
) -> None:
    store.datasets.put(toy)
    store.datasets.put(big)
    assert store.datasets.names() == {toy.digest: "toy", big.digest: "big"}
    (store.home / "datasets" / big.digest / "dataset.json").write_text("{")
    (store.home / "datasets" / "notes").mkdir()  # not of the store
    names = store.datasets.names()
    assert names == {toy.digest: "toy", big.digest: f"Damaged dataset {big.digest[:8]}"}
    store.datasets.delete(big.digest)
    assert store.datasets.names() == {toy.digest: "toy"}


def test_a_dataset_goes_with_its_runs_and_no_others(
    store: Store, toy: Dataset, big: Dataset, submit: Submit
) -> None:
    first, second, other = submit(toy), submit(toy, "pca"), submit(big)
    store.cancel(first)
    store.datasets.delete(toy.digest)
    assert [job.id for job in store.list()] == [other]
    assert list(store.size().datasets) == [big.digest]
    assert not list(store.home.glob(".deleted-*"))
    with pytest.raises(DataError, match="no dataset"):
        store.datasets.delete(toy.digest)
    with pytest.raises(DataError, match="may have been deleted"):
        store.get(second)
    with pytest.raises(ConfigError, match="digest"):
        store.datasets.delete("../jobs")


def test_a_dataset_with_a_run_under_way_stays_whole(
    store: Store, toy: Dataset, submit: Submit
) -> None:
    queued, running = submit(toy), submit(toy, "pca")
    store.rename(running, "the slow one")
    folder = store.job_folder(running)
    with folder.lock():
        mark_running(folder)
        with pytest.raises(ConfigError, match="under way: the slow one"):
            store.datasets.delete(toy.digest)
    assert {job.id for job in store.list()} == {queued, running}
    assert store.datasets.get(toy.digest).digest == toy.digest
