"""The map on its canvas in a real browser: pointed at, zoomed, hidden in part, used by keys."""

import re

import numpy as np
import pytest
from matplotlib.path import Path as Outline
from playwright.sync_api import Locator, expect

from lvmcore.data import Dataset
from lvmcore.evaluation.map_dimensions import best_view
from tests.e2e.dashboard import CANVAS, MAP, PATIENCE_MS, Dashboard

pytestmark = pytest.mark.timeout(300)

NASTY = "<img src=x onerror=document.title='run'>"


def _fitted(dashboard: Dashboard) -> str:
    """A run of two classes that was fitted in this process."""
    rng = np.random.default_rng(2)
    labels = np.array([NASTY, "plain"] * 20, dtype=object)
    X = rng.normal(size=(40, 4)) + 3 * (labels == "plain")[:, None]
    dataset = Dataset.from_arrays(X, labels, feature_names=list("abcd"), label_name="kind")
    return dashboard.fitted(dataset, "ppca", n_components=2)


def _hidden(canvas: Locator) -> list[int]:
    found: list[int] = canvas.evaluate("(canvas) => canvas.latentboard().hidden")
    return found


def test_the_map_is_pointed_at_zoomed_and_used_by_keys(dashboard: Dashboard) -> None:
    page = dashboard.page
    run = _fitted(dashboard)
    dashboard.open("latent", run=run)
    dashboard.still()
    canvas = page.get_by_role("application", name=MAP, exact=True)
    around = canvas.locator("..").locator("..")
    numbers, places = dashboard.rows()
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1) + 1e9 * np.eye(len(places))
    pick = int(apart.min(axis=1).argmax())
    row = int(numbers[pick])
    page.mouse.move(*places[pick])
    expect(around.locator(".tip b")).to_have_text(f"row {row + 1}")
    expect(around.locator(".tip span")).to_have_text(f"kind: {NASTY if row % 2 == 0 else 'plain'}")

    # What was zoomed into stays when something is clicked, and a digest tells of the new mark.
    whole = dashboard.map()
    around.get_by_role("button", name="Zoom in").click()
    expect(around.get_by_role("button", name="Zoom out")).to_be_visible()
    zoomed = dashboard.map()["x"]["range"]
    assert np.ptp(zoomed) == pytest.approx(np.ptp(whole["x"]["range"]) / 1.5)
    canvas.focus()
    for key in ("ArrowLeft", "ArrowUp", "Enter"):
        page.keyboard.press(key)
    after = dashboard.map(other=whole["digest"])
    assert after["marked"] is not None
    assert after["x"]["range"] == zoomed
    expect(page.get_by_role("spinbutton", name="Latent dimension 1")).to_be_visible(
        timeout=PATIENCE_MS
    )
    page.keyboard.press("Control+0")  # the browser's own
    assert dashboard.map()["x"]["range"] == zoomed

    # The whole map in the corner moves the view, and so do the keys at the edge.
    small = around.locator("canvas.minimap")
    box = small.bounding_box()
    assert box is not None
    small.click(position={"x": box["width"] / 4, "y": box["height"] / 4})
    view, part = dashboard.map(), {}
    for axis, share in (("x", 0.25), ("y", 0.75)):
        low, high = whole[axis]["range"]
        part[axis] = low + share * (high - low)
        assert np.mean(view[axis]["range"]) == pytest.approx(part[axis], abs=0.02 * (high - low))
        assert np.ptp(view[axis]["range"]) == pytest.approx((high - low) / 1.5)
    canvas.focus()
    for _ in range(6):
        page.keyboard.press("Shift+ArrowRight")
    assert dashboard.map()["x"]["range"][0] > view["x"]["range"][0]
    assert dashboard.map()["y"]["range"] == view["y"]["range"]
    page.keyboard.press("0")
    assert dashboard.map()["x"]["range"] == whole["x"]["range"]
    expect(small).to_be_hidden()

    around.get_by_role("button", name="plain", exact=True).click()
    assert _hidden(canvas) == [1]
    around.get_by_role("button", name="plain", exact=True).click()
    assert _hidden(canvas) == []
    assert page.title() != "run"
    dashboard.no_traceback()


def test_pictures_mark_their_rows_where_they_do_not_overlap(dashboard: Dashboard) -> None:
    rng = np.random.default_rng(4)
    shade = rng.uniform(size=(300, 1))
    X = shade * np.linspace(0, 1, 48) + 0.05 * rng.standard_normal((300, 48))
    dataset = Dataset.from_arrays(X, np.where(shade[:, 0] > 0.5, "a", "b"), image_shape=(6, 8))
    run = dashboard.fitted(dataset, "ppca", n_components=2)
    page = dashboard.page
    dashboard.open("latent", run=run)
    plain = dashboard.map()["digest"]
    canvas = page.get_by_role("application", name=MAP, exact=True)
    bare = canvas.evaluate("(one) => one.previousElementSibling.toDataURL()")
    dashboard.button("Appearance").click()
    page.get_by_text("Pictures as marks", exact=True).click()
    dashboard.map(other=plain)
    expect(page).to_have_url(re.compile(r"[?&]view="))
    loaded = "(name) => { const one = (" + CANVAS + ")(name); return one.latentboard().pictures; }"
    page.wait_for_function(f"(name) => ({loaded})(name) === 300", arg=MAP)
    assert canvas.evaluate("(one) => one.previousElementSibling.toDataURL()") != bare
    page.goto(page.url)
    page.wait_for_function(
        f"(name) => ({CANVAS})(name) && ({loaded})(name) === 300", arg=MAP, timeout=PATIENCE_MS
    )
    dashboard.no_traceback()


def test_the_best_view_is_chosen_linked_and_selected_on(dashboard: Dashboard) -> None:
    """What a link opens is what was chosen, and clicks and lassos are in its plane."""
    rng = np.random.default_rng(8)
    sources = rng.standard_normal((60, 4)) * (3.0, 2.0, 1.5, 1.0)
    X = sources @ np.linalg.qr(rng.standard_normal((6, 6)))[0][:4]
    dataset = Dataset.from_arrays(X + 0.1 * rng.standard_normal((60, 6)), name="sources")
    run = dashboard.fitted(dataset, "bayesian_gplvm", n_components=4, max_iter=60)
    model = dashboard.model(run)
    view = best_view(model)
    assert view is not None
    points = view.points(model.embedding_.mean)

    page = dashboard.page
    dashboard.open("latent", run=run)
    before = dashboard.map()
    page.get_by_role("combobox", name="Horizontal").click()
    page.get_by_role("option", name="best view", exact=True).click()
    shown = dashboard.map(other=before["digest"])
    assert shown["titles"] == ["First axis of the best view", "Second axis, in the same unit"]
    np.testing.assert_allclose(shown["places"], points, rtol=1e-5, atol=1e-6)
    unit = [axis["pixels"] / np.ptp(axis["range"]) for axis in (shown["x"], shown["y"])]
    assert unit[0] == pytest.approx(unit[1], rel=0.01)
    expect(page.get_by_text("Its axes mix all dimensions")).to_be_visible()
    expect(page).to_have_url(re.compile(r"[?&]view=best"))

    page.goto(page.url)
    again = dashboard.map()
    assert again["titles"] == shown["titles"]
    assert again["digest"] == shown["digest"]
    corners = dashboard.lasso(((0.2, 0.2), (0.7, 0.3), (0.6, 0.8), (0.2, 0.7)))
    n = int(Outline(corners).contains_points(points).sum())
    assert 0 < n < 60
    dashboard.says(re.compile(rf"^{n} rows of .*, drawn on the best 2-D view"))
    dashboard.no_traceback()


def test_all_rows_of_a_large_map_are_drawn_and_found(dashboard: Dashboard) -> None:
    rng = np.random.default_rng(11)
    N, far = 30_000, 12_345
    X = rng.normal(size=(N, 3)) * (2.0, 1.0, 0.2)
    labels = np.where(X[:, 0] > 0, "right", "left").astype(object)
    X[far, :2] = (25.0, 9.0)  # alone on the map
    labels[far] = "right"
    dataset = Dataset.from_arrays(X, labels, name="many", label_name="side")
    run = dashboard.fitted(dataset, "pca", n_components=2)
    page = dashboard.page
    dashboard.open("latent", run=run)
    dashboard.all_rows(N)
    dashboard.still()
    seen = dashboard.map()
    assert seen["rows"] == []
    points = dashboard.model(run).embedding_.mean
    place = dashboard.pixel(seen, *points[far])
    empty = dashboard.pixel(seen, points[far, 0], 0.5 * points[far, 1])
    panel = dashboard.colour_at(empty)
    for _ in range(100):  # the rows are drawn in the frame after they have come
        if dashboard.colour_at(place) != panel:
            break
        page.wait_for_timeout(100)
    colour = dashboard.colour_at(place)
    assert colour != panel
    dense = dashboard.colour_at(dashboard.pixel(seen, *np.median(points, axis=0)))
    assert dense not in (panel, colour)  # of both groups

    around = page.get_by_role("application", name=MAP, exact=True).locator("..").locator("..")
    page.mouse.move(*place)
    expect(around.locator(".tip b")).to_have_text(f"row {far + 1}")
    expect(around.locator(".tip span")).to_have_text("side: right")
    page.mouse.click(*place)
    expect(page.get_by_role("spinbutton", name="Latent dimension 1")).to_be_visible(
        timeout=PATIENCE_MS
    )
    clicked = dashboard.map(other=seen["digest"])
    np.testing.assert_allclose(clicked["marked"], points[far], rtol=1e-6)

    around.get_by_role("button", name="right", exact=True).click()
    assert dashboard.colour_at(place) == panel
    around.get_by_role("button", name="right", exact=True).click()
    assert dashboard.colour_at(place) == colour

    # Few rows in view have markers, each with its name.
    page.mouse.move(*place)
    before = dashboard.map()["digest"]
    page.keyboard.down("Control")
    for _ in range(6):
        page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    near = dashboard.map(other=before)
    assert near["rows"] == [far]
    np.testing.assert_allclose(near["places"], points[[far]], rtol=1e-5)
    dashboard.no_traceback()
