"""The papers' datasets by name."""

from pathlib import Path

import numpy as np
import pytest

from lvmcore.data import ColumnType, load_paper, load_paper_images, paper_names
from lvmcore.errors import ConfigError, DataError

# Rows, columns, and the columns that are numbers.
SIZES = {
    "bridges": (214, 5, 4),
    "congress109": (529, 1001, 1000),
    "montreal": (319, 9, 8),
    "montreal2015_all": (319, 23, 21),
    "newsgroups3": (2979, 113, 112),
    "oil_flow_fractions": (3000, 3, 2),
    "oil_flow_train": (1000, 13, 13),
    "oil_flow_validation": (1000, 13, 13),
    "sc_mouse_bladder_2100x500": (2100, 501, 501),
    "sc_pbmc68k_700x765": (700, 766, 765),
    "uci_bike": (17379, 18, 18),
    "uci_boston": (506, 14, 14),
    "uci_car": (1728, 7, 0),
    "uci_concrete": (1030, 9, 9),
    "uci_elevators": (16599, 19, 19),
    "uci_energy": (768, 9, 9),
    "uci_gas": (2565, 129, 129),
    "uci_haberman": (306, 4, 4),
    "uci_keggundirected": (63608, 28, 28),
    "uci_kin40k": (40000, 9, 9),
    "uci_naval": (11934, 17, 17),
    "uci_nursery": (12960, 9, 0),
    "uci_parkinsons": (5875, 21, 21),
    "uci_pol": (15000, 27, 27),
    "uci_power_plant": (9568, 5, 5),
    "uci_protein": (45730, 10, 10),
    "uci_seismic_bumps": (2584, 19, 15),
    "uci_tic_tac_toe": (958, 10, 0),
    "uci_wine_red": (1599, 12, 12),
}
IMAGES = {
    "brendan_faces": (1965, 28, 20, 0),
    "yale_faces": (164, 61, 80, 15),
    "cifar10_grey20": (10000, 20, 20, 10),
    "cifar10_grey20_2000": (2000, 20, 20, 5),
}


@pytest.mark.slow(quick=["bridges", "montreal", "uci_haberman"])
@pytest.mark.parametrize("name", SIZES)
def test_table(data_dir: Path, name: str) -> None:
    rows, columns, numeric = SIZES[name]
    table = load_paper(name)
    assert table.frame.shape == (rows, columns)
    assert sum(table.frame[key].dtype.kind in "iuf" for key in table.frame) == numeric
    missing = sum(column.missing for column in table.columns)
    assert missing == (903 if name == "montreal2015_all" else 0)
    assert all(column.unparsed == 0 for column in table.columns)
    assert not any("means missing" in note for note in table.notes)


def test_every_name_is_tested() -> None:
    assert set(paper_names()) == {*SIZES, *IMAGES, "mnist"}


def test_every_file_is_named(data_dir: Path) -> None:
    there = {
        path.name.split(".")[0] for path in data_dir.iterdir() if path.suffix in {".gz", ".npz"}
    }
    assert there <= set(paper_names())


def test_oil_flow_labels(data_dir: Path) -> None:
    table = load_paper("oil_flow_train")
    assert table.column("label").type is ColumnType.CATEGORY
    dataset = table.dataset(label="label")
    assert dataset.X.shape == (1000, 12)
    counts = [int(np.sum(dataset.labels == key)) for key in ("0", "1", "2")]
    assert counts == [343, 316, 341]


@pytest.mark.slow(quick=["brendan_faces", "cifar10_grey20_2000"])
@pytest.mark.parametrize("name", IMAGES)
def test_images(data_dir: Path, name: str) -> None:
    rows, height, width, classes = IMAGES[name]
    table = load_paper(name)
    dataset = table.dataset(label="label" if classes else None)
    assert dataset.X.shape == (rows, height * width)
    assert dataset.image_shape == (height, width)
    assert len(dataset.classes) == classes
    assert 0 <= dataset.X.min() <= dataset.X.max() <= 255


@pytest.mark.slow(quick=["brendan_faces", "cifar10_grey20", "cifar10_grey20_2000"])
@pytest.mark.parametrize("name", IMAGES)
def test_images_as_they_are_on_file(data_dir: Path, name: str) -> None:
    images, labels = load_paper_images(name)
    dataset = load_paper(name).dataset(label="label" if IMAGES[name][3] else None)
    np.testing.assert_array_equal(images.reshape(len(images), -1), dataset.X)
    assert (labels is None) == (dataset.labels is None)
    if labels is not None:
        assert [str(label) for label in labels] == [str(label) for label in dataset.labels]


@pytest.mark.slow
def test_mnist(data_dir: Path) -> None:
    dataset = load_paper("mnist").dataset(label="label")
    assert dataset.X.shape == (70000, 784)
    assert dataset.image_shape == (28, 28)
    assert dataset.labels is not None
    assert dataset.labels[:5].tolist() == ["5", "0", "4", "1", "9"]


def test_a_table_is_no_image_set() -> None:
    with pytest.raises(ConfigError, match=r"no image set 'oil_flow_train'.*brendan_faces, yale"):
        load_paper_images("oil_flow_train")


def test_unknown_name() -> None:
    with pytest.raises(ConfigError, match="oil_flow_train"):
        load_paper("oil")


def test_variable_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LVMCORE_DATA", raising=False)
    with pytest.raises(DataError, match=r"newsgroups3\.csv\.gz is needed.*LVMCORE_DATA is not set"):
        load_paper("newsgroups3")


def test_file_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LVMCORE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DataError, match=r"uci_pol\.csv\.gz is needed.*LVMCORE_DATA"):
        load_paper("uci_pol")
    with pytest.raises(DataError, match="mnist is not on this machine: fetch it, or save http"):
        load_paper("mnist")
