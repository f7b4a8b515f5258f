"""Colours of columns: their form, their file, and the looks of categories."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from lvmcore.errors import ConfigError
from lvmcore.export.categories import MISSING, OTHER, category_style, class_style
from lvmcore.export.column_colours import (
    OKABE_ITO,
    PALETTES,
    SHAPES,
    CategoryColours,
    ColumnColours,
    NumberColours,
    read_colours,
    write_colours,
)
from lvmcore.export.map_markers import draw_rows
from lvmcore.runs.atomic_files import write_json


def test_colours_return_from_their_file_and_defaults_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "colours.json"
    colours: dict[str, ColumnColours] = {
        "species": CategoryColours("Paired", (("a", "#123456"),), ("b", "a")),
        "mass": NumberColours("Magma", "diverging", -1.0, None, 0.5),
    }
    write_colours(path, {**colours, "sex": CategoryColours(), "height": NumberColours()})
    assert read_colours(path) == colours


def test_a_missing_or_damaged_file_has_no_colours_and_invalid_entries_are_left_out(
    tmp_path: Path,
) -> None:
    path = tmp_path / "colours.json"
    assert read_colours(path) == {}
    path.write_text("[")
    assert read_colours(path) == {}
    valid = {"palette": "Dark 2", "own": []}
    others = [
        {"palette": "Neon", "own": []},
        {"palette": "Dark 2", "own": [["a", "url(x)"]]},
        {"palette": "Dark 2"},
        {"palette": "Dark 2", "own": [], "order": 3},
        {"scale": None, "transform": "cubic", "low": None, "high": None, "centre": 0},
        {"scale": None, "transform": "log", "low": "x", "high": None, "centre": 0},
        7,
    ]
    write_json(path, {"kept": valid} | {str(i): one for i, one in enumerate(others)})
    assert read_colours(path) == {"kept": CategoryColours("Dark 2")}


def test_wrong_choices_are_refused() -> None:
    with pytest.raises(ConfigError, match="Unknown palette 'Neon'"):
        CategoryColours("Neon")
    with pytest.raises(ConfigError, match="expected #RRGGBB"):
        CategoryColours(own=(("a", "red"),))
    with pytest.raises(ConfigError, match="Unknown colour scale"):
        NumberColours("Grey")
    with pytest.raises(ConfigError, match="from 2 to 1"):
        NumberColours(low=2.0, high=1.0)


def test_looks_go_through_the_palette_then_the_shapes_and_own_colours_win() -> None:
    names = [f"{i:02d}" for i in range(12)]
    style = category_style(pd.Series(names), "kind")
    assert style.looks()[:8] == [(one, "circle") for one in (*OKABE_ITO, "#000000")]
    assert style.looks(dark=True)[7] == ("#FFFFFF", "circle")
    assert style.looks()[8] == (OKABE_ITO[0], SHAPES[1])
    chosen = CategoryColours("Dark 2", (("09", "#010203"),))
    looks = (
        category_style(pd.Series(names), "kind")
        .__class__(style.title, style.names, style.codes, colours=chosen)
        .looks()
    )
    assert looks[0] == (PALETTES["Dark 2"][0], "circle")
    assert looks[9] == ("#010203", SHAPES[1])


def test_the_order_is_of_legends_and_layers_and_leaves_the_looks() -> None:
    style = category_style(pd.Series(["a", "b", "c", None]), "kind")
    assert (style.in_order, style.layers) == ([0, 1, 2], None)
    order = ("c", "gone", "a", "c")
    moved = replace(style, colours=CategoryColours(order=order))
    assert moved.in_order == [2, 0, 1]
    assert moved.layers == [MISSING, OTHER, 1, 0, 2]
    assert moved.looks() == style.looks()


def test_a_picture_has_the_classes_in_order_and_the_first_on_top() -> None:
    style = category_style(pd.Series(["a", "b", "c", None] * 3), "kind")
    for order, names, top in ((), "abc", None), (("b", "c", "a"), "bca", "b"):
        figure = Figure(layout="constrained")
        plot = figure.add_subplot()
        draw_rows(
            figure, plot, np.zeros((12, 2)), replace(style, colours=CategoryColours(order=order))
        )
        said = [text.get_text() for text in figure.legends[0].get_texts()]
        assert said == [*names, "(missing)"]
        layers = {one.get_label(): one.get_zorder() for one in plot.collections}
        assert all(1 <= layer < 2 for layer in layers.values())
        if top is None:
            assert len(set(layers.values())) == 1
        else:
            assert sorted(layers, key=layers.__getitem__) == ["(missing)", *names[::-1]]


def test_a_run_keeps_the_order_of_a_limited_number_of_categories(tmp_path: Path) -> None:
    colours = {"kind": CategoryColours(order=tuple(map(str, range(201))))}
    with pytest.raises(ConfigError, match="200 columns and categories"):
        write_colours(tmp_path / "colours.json", colours)


def test_the_palettes_have_distinct_colours() -> None:
    for name, colours in PALETTES.items():
        assert len(set(colours)) == len(colours) >= 7, name
        CategoryColours(own=tuple((str(i), one) for i, one in enumerate(colours)))


def test_classes_of_a_dataset_without_labels_have_no_style(numbers: np.ndarray) -> None:
    from lvmcore.data import Table

    frame = pd.DataFrame(numbers, columns=list("abc"))
    assert class_style(Table.from_frame(frame, name="t").dataset(features=list("abc"))) is None


@pytest.fixture
def numbers() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((5, 3))
