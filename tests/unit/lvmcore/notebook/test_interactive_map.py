"""The map of a model in a notebook: what the widget gets, and what it refuses."""

import sys

import numpy as np
import pandas as pd
import pytest

import lvmcore
from lvmcore.data import load_sample
from lvmcore.errors import ConfigError, DataError, UnsupportedError
from lvmcore.notebook.map_rows import row_colours
from lvmcore.notebook.map_widget import MapWidget

IRIS = load_sample("iris").dataset(label="species")


@pytest.fixture(scope="module")
def model() -> lvmcore.ProbabilisticPCA:
    return lvmcore.ProbabilisticPCA(n_components=3).fit(IRIS.X)


def numbers(content: bytes, kind: str = "<f4") -> np.ndarray:
    return np.frombuffer(content, dtype=kind)


def test_the_two_most_relevant_dimensions_are_drawn(model: lvmcore.ProbabilisticPCA) -> None:
    widget = lvmcore.show(model, IRIS.labels)
    points = numbers(widget._points).reshape(-1, 2)
    np.testing.assert_allclose(points, model.embedding_.mean[:, :2], rtol=1e-6)
    sd = numbers(widget._sd).reshape(-1, 2)
    np.testing.assert_allclose(sd, np.sqrt(model.embedding_.variance[:, :2]), rtol=1e-6)
    assert widget._content["titles"] == ["Latent dimension 1", "Latent dimension 2"]


def test_other_dimensions_are_drawn_where_they_are_named(
    model: lvmcore.ProbabilisticPCA,
) -> None:
    widget = lvmcore.show(model, dimensions=(2, 0))
    points = numbers(widget._points).reshape(-1, 2)
    np.testing.assert_allclose(points, model.embedding_.mean[:, [2, 0]], rtol=1e-6)
    assert widget._content["titles"] == ["Latent dimension 3", "Latent dimension 1"]


def test_a_map_of_one_dimension_has_one_axis() -> None:
    model = lvmcore.ProbabilisticPCA(n_components=1).fit(IRIS.X)
    widget = lvmcore.show(model)
    points = numbers(widget._points).reshape(-1, 2)
    np.testing.assert_allclose(points[:, 0], model.embedding_.mean[:, 0], rtol=1e-6)
    assert not points[:, 1].any()
    assert widget._content["titles"][1] == ""


def test_labels_are_categories_by_name(model: lvmcore.ProbabilisticPCA) -> None:
    assert IRIS.labels is not None
    widget = lvmcore.show(model, IRIS.labels)
    named = {code: name for name, code in widget._content["legend"]}
    shown = [named[code] for code in numbers(widget._codes, "<u2").tolist()]
    assert shown == [str(label) for label in IRIS.labels]
    assert len({colour for colour, _ in widget._content["light"][:3]}) == 3


def test_many_numbers_are_a_scale() -> None:
    values = np.array([*range(20), np.nan])
    found = row_colours(pd.Series(values), 21)
    assert found.legend == []
    assert found.values is not None
    assert found.codes[0] == 0
    assert found.codes[19] == 255
    assert (np.diff(found.codes[:20].astype(int)) > 0).all()
    assert found.looks[found.codes[20]][0] == "#8A9099"  # missing


def test_few_numbers_and_truth_values_are_categories() -> None:
    found = row_colours(pd.Series([3, 1, 1, None]), 4)
    assert found.legend == [("1", 0), ("3", 1), ("missing", 3)]
    assert found.codes.tolist() == [1, 0, 0, 3]
    assert row_colours(pd.Series([True, False]), 2).legend == [("False", 0), ("True", 1)]


def test_the_selection_is_read_and_set(model: lvmcore.ProbabilisticPCA) -> None:
    widget = lvmcore.show(model)
    changes = []
    widget.observe(lambda change: changes.append(change["new"]), "selected")
    widget.selected = [7, 3, 3]
    assert widget.selected == [3, 7]
    assert changes == [[3, 7]]
    assert np.flatnonzero(widget.mask).tolist() == [3, 7]
    assert len(widget.mask) == len(IRIS.X)
    with pytest.raises(DataError, match="no row 150: the map has 150 rows"):
        widget.selected = [150]
    with pytest.raises(DataError, match="no row -1"):
        widget.selected = [-1]
    assert widget.selected == [3, 7]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"labels": [1, 2, 3]}, DataError, r"labels has the shape \(3,\)"),
        ({"labels": np.zeros((150, 2))}, DataError, r"labels has the shape \(150, 2\)"),
        ({"names": ["one"]}, DataError, r"names has the shape \(1,\)"),
        ({"dimensions": (0, 3)}, ConfigError, "the map has the dimensions 0 to 2"),
        ({"dimensions": (-1, 0)}, ConfigError, "the map has the dimensions 0 to 2"),
        ({"height": 100}, ConfigError, "expected pixels from 200 to 2000"),
    ],
)
def test_a_wrong_argument_is_refused(
    model: lvmcore.ProbabilisticPCA,
    arguments: dict[str, object],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        lvmcore.show(model, **arguments)


def test_without_the_package_the_message_says_what_to_install(
    model: lvmcore.ProbabilisticPCA, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "lvmcore.notebook.map_widget", raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(UnsupportedError, match=r"install latentboard\[notebook\]"):
        lvmcore.show(model)


def test_the_widget_is_closed_without_a_kernel(model: lvmcore.ProbabilisticPCA) -> None:
    widget = lvmcore.show(model)
    assert isinstance(widget, MapWidget)
    widget.close()
