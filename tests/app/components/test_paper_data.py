"""Datasets of the papers on the Data page: opened where they are, or fetched first."""

import hashlib
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.services import tables
from lvmcore.data import paper_names
from lvmcore.data.samples import paper_datasets, public_datasets
from lvmcore.data.samples.paper_datasets import VARIABLE, PaperDataset, has_paper
from lvmcore.data.samples.public_datasets import (
    MIRROR,
    PublicDataset,
    PublicFile,
    public_dataset,
    public_names,
)
from tests.app.conftest import OpenPage
from tests.app.shell.test_shell import texts
from tests.data_server import serving

ROWS = b"".join(b"%d.5,%d,red\n%d.5,1,blue\n" % (n, 2 * n, 3 * n) for n in range(1, 20))


@pytest.fixture
def cars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The path at which a server has the file of "cars", the only dataset of the papers."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)
    file = PublicFile("cars.data", len(ROWS), hashlib.sha256(ROWS).hexdigest())
    public = {"cars": PublicDataset("cars", "o/r/c", (file,), ("size", "weight", "label"), ",")}
    known = {"cars": PaperDataset("cars", "Cars", "Sizes and weights of cars.", 38)}
    monkeypatch.setattr(public_datasets, "_datasets", lambda: public)
    for module in (paper_datasets, tables):
        monkeypatch.setattr(module, "paper_datasets", lambda: known)
    folder = tmp_path / "server" / "o" / "r" / "c"
    folder.mkdir(parents=True)
    return folder / "cars.data"


def choose(page: AppTest) -> AppTest:
    (box,) = [box for box in page.selectbox if box.label == "Dataset"]
    return box.set_value("cars").run()


def said(page: AppTest) -> str:
    parts = [*page.markdown, *page.caption, *page.error, *page.header]
    return texts(parts).replace("\\", "")


def test_a_dataset_that_is_elsewhere_is_fetched_and_opened(
    cars: Path, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = open_page("data")
    (box,) = [box for box in page.selectbox if box.label == "Dataset"]
    assert box.value is None
    assert box.options == ["Cars (38 rows), 1 kB to fetch"]
    choose(page)
    assert not page.exception
    assert "Sizes and weights of cars" in said(page)
    assert "178 rows" in said(page)  # as before
    assert page.button(key="data:fetch").label == "Fetch the data (1 kB)"

    with serving(cars.parents[3]) as address:
        monkeypatch.setenv(MIRROR, address)
        page.button(key="data:fetch").click().run()
        assert not page.exception
        assert "cars.data could not be fetched: the server answered 404" in said(page)
        assert f"as {public_dataset('cars').folder / 'cars.data'}" in said(page)
        assert page.code[0].value == f"{address}/o/r/c/cars.data"
        assert "178 rows" in said(page)

        cars.write_bytes(ROWS)
        page.button(key="data:fetch").click().run()
    assert not page.exception
    assert not page.error
    assert "**38 rows, 2 features, label with 2 classes**" in said(page)
    assert "Sizes and weights of cars" in said(page)
    (box,) = [box for box in page.selectbox if box.label == "Dataset"]
    assert box.value == "cars"
    assert not [button for button in page.button if button.key == "data:fetch"]

    (sample,) = [box for box in page.selectbox if box.label == "Or a sample"]
    assert sample.value is None
    sample.set_value("iris").run()
    assert not page.exception
    assert "150 rows" in said(page)
    (box,) = [box for box in page.selectbox if box.label == "Dataset"]
    assert box.value is None


def test_a_dataset_that_is_here_is_opened_at_once(cars: Path, open_page: OpenPage) -> None:
    del cars
    folder = public_dataset("cars").folder
    folder.mkdir(parents=True)
    (folder / "cars.data").write_bytes(ROWS)
    page = choose(open_page("data"))
    assert not page.exception
    assert "**38 rows, 2 features, label with 2 classes**" in said(page)
    assert tables.paper_titles() == {"cars": "Cars (38 rows)"}


def test_those_on_this_machine_are_listed_before_those_to_fetch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    (tmp_path / "mnist.npz").touch()
    (tmp_path / "newsgroups3.csv.gz").touch()  # which has no public address
    titles = tables.paper_titles()
    assert list(titles)[:2] == ["newsgroups3", "mnist"]
    assert set(titles) == {*public_names(), "newsgroups3"}
    assert titles["bridges"] == "Bridges (214 rows), 9 kB to fetch"
    assert [name for name in paper_names() if has_paper(name)] == ["newsgroups3", "mnist"]
