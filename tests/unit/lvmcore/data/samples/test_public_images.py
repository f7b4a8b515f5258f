"""Image sets from their public files, fetched from a server on this machine."""

import gzip
import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lvmcore import ConfigError, DataError
from lvmcore.data import load_paper, load_paper_images
from lvmcore.data.samples import public_datasets
from lvmcore.data.samples.paper_datasets import VARIABLE, has_paper, paper_datasets
from lvmcore.data.samples.public_datasets import (
    MIRROR,
    PublicDataset,
    PublicFile,
    fetch_public,
    public_dataset,
    public_names,
)
from lvmcore.data.samples.public_images import read_public_images
from tests.data_server import serving

Fetch = Any


@pytest.fixture
def fetch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fetch:
    """Fetches a dataset of the given files, and of others that are kept with it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)

    def fetched(name: str, contents: dict[str, bytes], beside: str = "") -> None:
        folder = tmp_path / "server" / "o" / "r" / "c"
        folder.mkdir(parents=True)
        for file, content in contents.items():
            (folder / file).write_bytes(content)
        files = tuple(
            PublicFile(file, len(content), hashlib.sha256(content).hexdigest())
            for file, content in contents.items()
        )
        known = {name: PublicDataset(name, "o/r/c", files)}
        if beside:
            known[beside] = PublicDataset(beside, "o/r/c", files[:-1], kept_with=name)
        monkeypatch.setattr(public_datasets, "_datasets", lambda: known)
        with serving(tmp_path / "server") as address:
            monkeypatch.setenv(MIRROR, address)
            assert not has_paper(name)
            fetch_public(name)
        assert has_paper(name)

    return fetched


def saved(pixels: np.ndarray[Any, Any], kind: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format=kind)
    return file.getvalue()


def idx(values: np.ndarray[Any, Any]) -> bytes:
    header = b"\0\0\x08" + bytes([values.ndim]) + np.array(values.shape, ">u4").tobytes()
    return gzip.compress(header + values.tobytes())


def test_frames_of_a_pickled_array_are_images_without_labels(fetch: Fetch) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (3, 560), np.uint8)
    fetch("brendan_faces", {"freyfaces.pkl": pickle.dumps([frames], 4)})
    images, labels = load_paper_images("brendan_faces")
    assert labels is None
    np.testing.assert_array_equal(images.reshape(3, -1), frames)
    table = load_paper("brendan_faces")
    assert table.columns[21].name == "pixel_1_1"
    np.testing.assert_array_equal(table.frame.to_numpy(), frames)
    assert table.dataset(label=None).image_shape == (28, 20)


def test_a_pickle_of_something_else_has_no_frames(fetch: Fetch) -> None:
    fetch("brendan_faces", {"freyfaces.pkl": pickle.dumps({"x": 1}, 4)})
    with pytest.raises(DataError, match=r"freyfaces\.pkl has not one array"):
        load_paper("brendan_faces")


def test_training_rows_of_digits_come_before_the_test_rows(fetch: Fetch) -> None:
    generator = np.random.default_rng(0)
    train, test = (generator.integers(0, 256, (n, 28, 28), np.uint8) for n in (5, 2))
    classes = np.arange(7, dtype=np.uint8)
    contents = {"a.gz": idx(train), "b.gz": idx(classes[:5]), "c.gz": idx(test)}
    fetch("mnist", {**contents, "d.gz": idx(classes[5:])})
    images, labels = load_paper_images("mnist")
    np.testing.assert_array_equal(images, [*train, *test])
    np.testing.assert_array_equal(labels, classes)
    frame = load_paper("mnist").frame
    assert frame["label"].tolist() == list(range(7))
    assert frame.loc[6, "pixel_27_3"] == test[1, 27, 3]


def test_the_first_photographs_of_each_class_are_grey_and_smaller(fetch: Fetch) -> None:
    colours = np.random.default_rng(0).integers(0, 256, (1001, 3))
    pixels = np.repeat(colours[:, None], 32 * 32, axis=1).astype(np.uint8)
    ramp = np.tile(np.arange(32) * 7, 32)
    pixels[3] = ramp[:, None]
    labels = [1, 2] * 500 + [7]
    labels[3] = 7
    fetch(
        "cifar10_grey20",
        {
            "labels.js": f"var labels={labels};\n".encode(),
            "batch_0.png": saved(pixels[:1000], "PNG"),
            "batch_1.png": saved(np.repeat(pixels[1000:], 1000, axis=0), "PNG"),
        },
        beside="cifar10_grey20_2000",
    )
    images, classes = load_paper_images("cifar10_grey20")
    assert images.shape == (1001, 20, 20)
    np.testing.assert_array_equal(classes, labels)
    luma = colours @ [0.299, 0.587, 0.114]
    plain = np.delete(np.arange(1001), 3)
    assert np.abs(images[plain].reshape(1000, -1) - luma[plain, None]).max() <= 1
    centres = ((np.arange(20) + 0.5) * 32 / 20 - 0.5) * 7
    np.testing.assert_allclose(images[3][:, 2:-2], np.tile(centres[2:-2], (20, 1)), atol=1)

    # of the first batch only: classes 1 to 5, 400 each
    few, few_classes = load_paper_images("cifar10_grey20_2000")
    assert few_classes is not None
    assert np.bincount(few_classes).tolist() == [0, 400, 400]
    chosen = [*range(0, 800, 2), *(row for row in range(1, 802, 2) if row != 3)]
    np.testing.assert_array_equal(few, images[np.sort(chosen)])


def test_a_face_is_named_by_its_subject_and_condition(fetch: Fetch) -> None:
    across = np.tile(np.arange(320) // 4, (243, 1)).astype(np.uint8)
    upright = np.tile((np.arange(243) * 61 / 243)[:, None], (1, 320)).astype(np.uint8)
    contents = {
        "subject01.happy": saved(across, "GIF"),
        "subject02.sad": saved(upright, "GIF"),
        "subject15.wink": saved(np.full((243, 320), 9, np.uint8), "GIF"),
    }
    fetch("yale_faces", contents)
    images, labels = load_paper_images("yale_faces")
    assert images.shape == (3, 61, 80)
    np.testing.assert_array_equal(images[0], np.tile(np.arange(80), (61, 1)))
    np.testing.assert_allclose(images[1], np.tile(np.arange(61)[:, None], (1, 80)), atol=1)
    np.testing.assert_array_equal(images[2], np.full((61, 80), 9))
    assert labels is not None
    assert labels.tolist() == [1, 2, 15]
    frame = load_paper("yale_faces").frame
    assert frame["condition"].tolist() == ["happy", "sad", "wink"]
    assert frame["label"].tolist() == [1, 2, 15]


def test_an_image_set_that_was_not_fetched_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(DataError, match="mnist is not on this machine: fetch it, or save http"):
        load_paper_images("mnist")
    with pytest.raises(ConfigError, match="no image set 'bridges'"):
        read_public_images("bridges")


def test_the_public_files_are_those_of_datasets_that_are_known() -> None:
    assert set(public_names()) <= set(paper_datasets())
    for name in public_names():
        files = public_dataset(name).files
        assert len({file.name for file in files}) == len(files)
        assert all(len(file.sha256) == 64 and file.bytes > 0 for file in files)
    large, small = public_dataset("cifar10_grey20"), public_dataset("cifar10_grey20_2000")
    assert set(small.files) < set(large.files)
    assert small.folder == large.folder
    assert len(public_dataset("yale_faces").files) == 164
