"""The model file: round trip, and files that are something else."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from lvmcore import DataError, load
from lvmcore.persistence import history_arrays, history_from_arrays, read, write, write_atomically
from lvmcore.results import FitStep

ARRAYS = {
    "a.one": np.arange(6, dtype=np.float64).reshape(2, 3),
    "a.two": np.array([1, -1], dtype=np.int64),
    "scalar": np.array(3.5),
}
META = {"model": "ppca", "note": "ß", "elbo": float("nan"), "list": [1, None, True]}


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    # A transposed view is not laid out row by row: it must be stored by value all the same.
    write(path, {**ARRAYS, "transposed": ARRAYS["a.one"].T}, META)
    arrays, meta = read(path)
    assert set(arrays) == {*ARRAYS, "transposed"}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
    np.testing.assert_array_equal(arrays["transposed"], ARRAYS["a.one"].T)
    assert np.isnan(meta.pop("elbo"))
    assert meta == {name: value for name, value in META.items() if name != "elbo"}


def test_history_round_trip() -> None:
    terms = [{"fit": -1.5, "kl": -0.25}, {"fit": -1.0, "kl": -0.5}]
    history = tuple(FitStep(i + 1, 10, 0.1 * i, sum(t.values()), t) for i, t in enumerate(terms))
    assert history_from_arrays(history_arrays(history)) == history


def test_empty_history_round_trip() -> None:
    assert history_from_arrays(history_arrays(())) == ()


def test_history_without_terms_round_trip() -> None:
    history = (FitStep(1, 1, 0.5, 2.0),)
    assert history_from_arrays(history_arrays(history)) == history


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"There is no model file at .*gone"):
        load(tmp_path / "gone.safetensors")


@pytest.mark.parametrize("keep", [0, 5, 40, -1])
def test_torn_file(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "model.safetensors"
    write(path, ARRAYS, META)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match="cannot be read as a model file"):
        load(path)


def test_other_files(tmp_path: Path) -> None:
    text = tmp_path / "table.csv"
    text.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="cannot be read as a model file"):
        load(text)
    with pytest.raises(DataError, match="cannot be read as a model file"):
        load(tmp_path)
    foreign = tmp_path / "foreign.safetensors"
    save_file({"w": np.zeros(3)}, foreign)
    with pytest.raises(DataError, match="not a model file of this package"):
        load(foreign)


def test_model_of_another_version(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write(path, ARRAYS, {**META, "model": "tomorrows"})
    with pytest.raises(DataError, match=r"'tomorrows'.*It knows: .*ppca"):
        load(path)


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write(path, ARRAYS, META)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write(path, ARRAYS, {"model": object()})
    with pytest.raises(TypeError):
        write_atomically(path, "text")  # type: ignore[arg-type]
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_facts_are_plain_json(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write(path, ARRAYS, META)
    header_length = int.from_bytes(path.read_bytes()[:8], "little")
    header = json.loads(path.read_bytes()[8 : 8 + header_length])
    assert json.loads(header["__metadata__"]["json"])["model"] == "ppca"
