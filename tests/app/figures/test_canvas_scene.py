"""What a map on a canvas is sent, what it sends back, and the picture of very many rows."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from app.analysis.map import subsampling
from app.analysis.map.heatmaps import Heatmap
from app.analysis.map.row_colours import (
    MISSING,
    OTHER,
    CategoryStyle,
    NumericColours,
    group_of_rows,
)
from app.components.map import canvas, large_maps
from app.figures import canvas_scene, density, row_traces, theme
from app.figures.theme import category
from lvmcore.export.column_colours import CategoryColours
from tests.scenes import Drawn, drawn

N = 12
NASTY = "<img src=x onerror=alert(1)>"
RANGES = ((-3.0, 3.0), (-4.0, 4.0))


def rows(**changes: object) -> row_traces.MapRows:
    rng = np.random.default_rng(3)
    given: dict[str, object] = {
        "points": rng.standard_normal((N, 2)),
        "number": np.arange(N) + 100,
        "hover": [[f"row {i}", f"{NASTY}\nsplit"] for i in range(N)],
    }
    return row_traces.MapRows(**(given | changes))  # type: ignore[arg-type]


def scene(of: row_traces.MapRows | None = None, **changes: object) -> canvas_scene.Scene:
    given: dict[str, object] = {"ranges": RANGES, "titles": ("one", "two"), "alt": "a map"}
    return canvas_scene.Scene(of or rows(), **(given | changes))  # type: ignore[arg-type]


def grid(value: np.ndarray, limits: tuple[float, float] | None = None) -> Heatmap:
    axis = np.arange(float(len(value)))
    return Heatmap(axis, axis, value, NASTY, "sd", limits, True)


def test_held_out_rows_are_open_marks_with_an_entry_in_the_legend() -> None:
    held = np.arange(N) >= 9
    shown = drawn(scene(held_out=held))
    assert shown.array("hollow").tolist() == held.tolist()
    assert "held-out rows" in shown.legend
    plain = drawn(scene(held_out=~held & held))
    assert "held-out rows" not in plain.legend
    assert "hollow" not in drawn(scene()).data["points"]


def test_rows_arrive_as_they_are() -> None:
    given = rows(selected=np.arange(N) < 5, size=np.arange(N) + 4.0)
    shown = drawn(scene(given))
    np.testing.assert_allclose(shown.points, given.points, rtol=1e-6)
    assert shown.array("number").tolist() == list(range(100, 100 + N))
    assert shown.array("selected").tolist() == [1] * 5 + [0] * 7
    assert shown.array("size").tolist() == given.size.tolist()
    assert shown.data["points"]["n"] == N


def test_categories_are_listed_and_layered_in_their_order() -> None:
    codes = np.array([0, 1, 2, MISSING, OTHER, 0, 0, 1, OTHER, MISSING, 0, 2])
    plain = CategoryStyle("kind", ("a", "b", "c"), codes, others=4)
    shown = drawn(scene(rows(colouring=plain)))
    assert shown.data["layers"] is None
    assert not any("movable" in entry for entry in shown.data["legend"][0]["entries"])
    style = replace(plain, colours=CategoryColours(order=("c", "a", "b")))
    moved = drawn(scene(rows(colouring=style), reorders=True))
    assert moved.looks == shown.looks
    entries = moved.data["legend"][0]["entries"]
    assert [entry["text"] for entry in entries] == ["c", "a", "b", "other (4 more)", "(missing)"]
    assert [entry.get("movable", False) for entry in entries] == [True] * 3 + [False] * 2
    listed = [entry["code"] for entry in entries]
    assert moved.data["layers"] == listed[::-1]


def test_a_text_has_a_line_for_each_thing_told() -> None:
    assert drawn(scene()).data["texts"][3] == f"row 3\n{NASTY} split"
    assert drawn(scene(rows(hover=()))).data["texts"] is None


def test_categories_keep_their_looks_and_the_legend_names_what_is_there() -> None:
    codes = np.array([0, 1, 1, MISSING, OTHER, 0, 0, 1, OTHER, MISSING, 0, 0])
    look = CategoryStyle("kind", ("a", NASTY), codes, others=4)
    shown = drawn(scene(rows(colouring=look)))
    assert shown.looks[0] == category(0, False)
    assert shown.looks[1] == category(1, False)
    assert shown.looks[3] == (theme.page_colours(False).muted, "circle-open")
    assert shown.looks[4] == (theme.page_colours(False).muted, "circle")
    assert shown.legend == ["kind", "a", NASTY, "other (4 more)", "(missing)"]
    entries = shown.data["legend"][0]["entries"]
    for entry in entries:  # what a click on it hides
        hidden = shown.array("code") == entry["code"]
        assert {shown.looks[i] for i in np.flatnonzero(hidden)} == {
            (entry["colour"], entry["shape"])
        }


def test_numbers_that_have_no_colour_are_in_the_legend() -> None:
    values = np.arange(float(N))
    values[2] = np.inf
    shown = drawn(scene(rows(colouring=NumericColours("n", values))))
    assert shown.looks[2][1] == "circle-open"
    assert shown.legend == ["n", "0.000", "11.00", "(missing)"]


def test_some_of_the_rows_have_the_colours_that_they_have_among_all() -> None:
    look = NumericColours("n", np.linspace(0.0, 10.0, N))
    some = np.array([4, 5, 6])
    whole = drawn(scene(rows(colouring=look)))
    part = rows(points=np.zeros((3, 2)), hover=(), number=some, colouring=group_of_rows(look, some))
    shown = drawn(scene(part))
    assert shown.array("code").tolist() == whole.array("code")[some].tolist()
    assert shown.legend == whole.legend == ["n", "0.000", "10.00"]


def test_rows_without_a_number_are_hollow_and_said_to_be_missing() -> None:
    shown = drawn(scene(rows(colouring=NumericColours("n", np.array([np.nan, *range(11)])))))
    assert shown.looks[0][1] == "circle-open"
    assert shown.legend[-1] == "(missing)"
    nothing = drawn(scene(rows(colouring=NumericColours("n", np.full(N, np.nan)))))
    assert nothing.legend == ["n", "(missing)"]


def test_what_is_behind_comes_with_its_values_and_ends() -> None:
    value = np.arange(9.0).reshape(3, 3)
    shown = drawn(scene(grid=grid(value)))
    np.testing.assert_array_equal(shown.heat, value)
    assert shown.data["heat"]["limits"] == [0.0, 8.0]
    assert shown.legend == [f"background: {NASTY} (sd)", "0.00", "8.00"]
    assert drawn(scene(grid=grid(value, (0.0, 40.0)))).data["heat"]["limits"] == [0.0, 40.0]
    flat = drawn(scene(grid=grid(np.ones((3, 3)))))
    assert flat.data["heat"] is None
    assert flat.legend == []


def test_inducing_inputs_of_each_path_have_their_own_mark() -> None:
    inducing = {"data": np.zeros((4, 2)), "labels": np.ones((5, 2))}
    shown = drawn(scene(inducing=inducing))
    data, labels = shown.data["inducing"]
    assert (len(data["x"]), len(labels["x"])) == (4, 5)
    assert data["shape"] != labels["shape"]
    assert shown.legend == ["inducing inputs, data path", "inducing inputs, labels path"]


def test_the_picture_of_the_page_has_no_number_that_is_none() -> None:
    """JSON knows no NaN: a browser would refuse the whole scene."""
    sd = np.full((N, 2), np.nan)
    text = json.dumps(drawn(scene(rows(sd=sd))).data, allow_nan=False)
    assert np.isnan(Drawn(json.loads(text)).array("sx")).all()


# ---- what comes back ---------------------------------------------------------------------------


def test_what_was_clicked_or_drawn() -> None:
    def told(**parts: object) -> canvas.MapEvent | None:
        return canvas.parse_event({**parts, "scene": "now"}, "now")

    assert told(kind="row", row=7) == canvas.ClickedRow(7)
    assert told(kind="place", x=1, y=-2.5) == canvas.ClickedPoint(1.0, -2.5)
    corners = [[0, 0], [4, 0], [4, 4]]
    for kind in ("box", "lasso"):
        found = told(kind=kind, polygon=corners)
        assert found == canvas.DrawnPolygon(((0.0, 0.0), (4.0, 0.0), (4.0, 4.0)))
    assert told(kind="lasso", polygon=corners[:2]) is None
    assert told(kind="order", codes=[2, 0, 1]) == canvas.MovedCategories((2, 0, 1))
    assert told(kind="nothing") == canvas.Cleared()


def test_what_was_said_of_another_scene_is_not_heard() -> None:
    assert canvas.parse_event({"kind": "row", "row": 7, "scene": "before"}, "now") is None
    assert canvas.parse_event(None, "now") is None
    said = {"x": 0.5, "y": 0.25, "held": True, "scene": "now"}
    assert canvas.parse_cursor(said, "now") == canvas.CursorPosition(0.5, 0.25, held=True)
    assert canvas.parse_cursor({**said, "scene": "before"}, "now") is None
    assert canvas.parse_cursor(None, "now") is None


# ---- very many rows ----------------------------------------------------------------------------


def picture(points: np.ndarray, look: object, **more: object) -> np.ndarray:
    text = density.density_picture(points, look, RANGES, dark=False, **more)  # type: ignore[arg-type]
    kind, _, content = text.partition(",")
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(content)))).astype(float)


def test_the_picture_is_denser_where_more_rows_lie() -> None:
    here, there = [2.99, 3.99], [-2.99, -3.99]  # upper right, lower left
    found = picture(np.array([here] * 100 + [there]), None)
    assert found.shape == (density.SIZE[1], density.SIZE[0], 4)
    assert found[0, -1, 3] > 2 * found[-1, 0, 3] > 0
    assert (found[..., 3] > 0).sum() == 2
    np.testing.assert_array_equal(
        found[0, -1, :3], [int(category(0, False)[0][i : i + 2], 16) for i in (1, 3, 5)]
    )


def test_a_cell_has_the_mean_colour_of_its_rows() -> None:
    look = CategoryStyle("g", ("a", "b"), np.array([0, 1, 1, 1]))
    found = picture(np.zeros((4, 2)), look)
    (cell,) = found[found[..., 3] > 0]
    parts = np.array(
        [[int(category(code, False)[0][i : i + 2], 16) for i in (1, 3, 5)] for code in (0, 1)]
    )
    np.testing.assert_allclose(cell[:3], (parts[0] + 3 * parts[1]) / 4, atol=0.6)


def test_rows_outside_a_selection_are_faint() -> None:
    points = np.array([[-1.0, 0.0]] * 5 + [[1.0, 0.0]] * 5)
    plain = picture(points, None)
    found = picture(points, None, selected=np.arange(10) < 5)
    left, right = (half.max() for half in np.split(found[..., 3], 2, axis=1))
    assert left == plain[..., 3].max()
    assert right == pytest.approx(0.2 * left, rel=0.02)
    none = picture(points, None, selected=np.zeros(10, dtype=bool))
    assert none[..., 3].max() == pytest.approx(0.2 * left, rel=0.02)


def test_a_closer_look_draws_what_lies_there() -> None:
    points = np.array([[0.0, 0.0], [0.4, 0.4], [2.0, 2.0]])
    whole = density.density_picture(points[:2], None, ((-0.5, 0.5), (-0.5, 0.5)), dark=False)
    near = density.density_picture(points, None, ((-0.5, 0.5), (-0.5, 0.5)), dark=False)
    assert near == whole
    shown = drawn(scene(density=(near, ((-0.5, 0.5), (-0.5, 0.5)))))
    assert shown.data["density"] == {"picture": near, "ranges": [[-0.5, 0.5], [-0.5, 0.5]]}


def test_of_very_many_rows_those_in_view_have_markers_where_they_are_few(
    session_state: dict[str, object],
) -> None:
    points = np.random.default_rng(0).uniform(-1, 1, size=(40_000, 2))
    far, near = ((-1, 1), (-1, 1)), ((0, 0.2), (0, 0.2))
    assert len(large_maps.rows_in_view(points, far, sample=True)) == large_maps.SAMPLED
    assert not len(large_maps.rows_in_view(points, far, sample=False))
    inside = np.flatnonzero(((points >= 0) & (points <= 0.2)).all(axis=1)).tolist()
    for sample in (True, False):
        assert large_maps.rows_in_view(points, near, sample=sample).tolist() == inside
        assert len(large_maps.rows_in_view(points[:20_000], near, sample=sample)) == 20_000
    assert len(large_maps.rows_in_view(points[:20_000], near, 4, sample=False)) < 300
    session_state["key"] = {"view": {"x": [0, 1], "y": [2.0, 3], "scene": "now"}}
    assert canvas.zoomed_ranges("key", "now") == ((0.0, 1.0), (2.0, 3.0))
    assert canvas.zoomed_ranges("key", "before") is None
    session_state["key"] = None
    assert canvas.zoomed_ranges("key", "now") is None


def test_the_files_of_all_rows_have_their_places_and_colours() -> None:
    rng = np.random.default_rng(1)
    points = rng.normal(size=(500, 2)) * (1e-3, 40.0) + (7.0, -3.0)
    codes = rng.integers(-2, 3, 500)  # with other and missing categories
    look = CategoryStyle("g", ("a", "b", "c"), codes, others=4)
    rows_of = density.AllRows(points, look, number=np.arange(500) * 3, selected=codes == 1)
    files = density.all_rows_files(rows_of, dark=False)
    found = json.loads(json.dumps(density.all_rows_data(rows_of, {"codes": "/x"}, dark=False)))
    steps = np.frombuffer(files["positions"], "<u2").reshape(2, 500)
    for axis, (low, high) in enumerate(found["ranges"]):
        step = (high - low) / 65535
        np.testing.assert_allclose(low + steps[axis] * step, points[:, axis], atol=0.51 * step)
        assert {0, 65535} <= set(steps[axis].tolist())
    looks = [*((colour) for colour, _ in look.looks(dark=False))]
    muted = theme.page_colours(False).muted
    for code, shown in zip(codes, np.frombuffer(files["codes"], "u1"), strict=True):
        colour = looks[code] if code >= 0 else muted
        assert found["colours"][shown] == [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    assert np.frombuffer(files["numbers"], "<u4").tolist() == list(range(0, 1500, 3))
    bits = np.frombuffer(base64.b64decode(found["selected"]), "u1")
    chosen = [bool(bits[i >> 3] >> (i & 7) & 1) for i in range(500)]
    assert chosen == (codes == 1).tolist()
    assert (found["n"], found["codes"], found["numbers"]) == (500, "/x", None)


def test_rows_at_one_place_have_steps() -> None:
    files = density.all_rows_files(density.AllRows(np.full((3, 2), 2.5)), dark=False)
    assert np.frombuffer(files["positions"], "<u2").tolist() == [0] * 6
    assert set(files) == {"positions", "codes"}


def test_rows_are_picked_once_and_by_the_seed() -> None:
    assert subsampling.sampled_rows(5, 10, 0).tolist() == [0, 1, 2, 3, 4]
    found = subsampling.sampled_rows(1000, 100, 0)
    assert len(set(found.tolist())) == 100
    assert (np.diff(found) > 0).all()
    assert found.tolist() == subsampling.sampled_rows(1000, 100, 0).tolist()
    assert found.tolist() != subsampling.sampled_rows(1000, 100, 1).tolist()
