"""The colours of a column, chosen on the Latent page and used in every figure and file."""

from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.components.map import map_chart
from app.components.map.canvas import MapEvent, MovedCategories
from app.figures.canvas_scene import Scene
from app.services import fitted_maps, run_colours, run_exports, tables
from app.state import choices
from lvmcore.export.column_colours import PALETTES, CategoryColours, NumberColours
from tests.app.conftest import OpenPage, fitted_run
from tests.app.controls import unexplained
from tests.scenes import scenes


@pytest.fixture(scope="module")
def wine(shared_home: object) -> str:
    table = tables.table(choices.SampleChoice("wine"), choices.ReadingChoices())
    dataset = tables.dataset_of(table, tables.proposed_roles(table))
    return fitted_run(dataset, "ppca", {"n_components": 2})


@pytest.fixture
def run(wine: str) -> str:
    for column in list(run_colours.column_colours(wine)):
        for default in (CategoryColours(), NumberColours()):
            run_colours.choose_colours(wine, column, default)
    return wine


def opened(open_page: OpenPage, run: str, column: str) -> AppTest:
    page = open_page("latent", run=run)
    page.session_state[f"latent:{run}:colours {column}"] = True  # as a click on the expander does
    return page.run()


def colours(page: AppTest) -> set[str]:
    (scene,) = scenes(page)
    return {colour for colour, _ in scene.looks}


def test_a_palette_is_shown_at_once_and_kept_with_the_run(open_page: OpenPage, run: str) -> None:
    label = fitted_maps.fitted_dataset(run).label_name
    assert label is not None
    page = opened(open_page, run, label)
    page.selectbox(key=f"latent:{run}:colours palette {label}").set_value("Tableau 10").run()
    assert not page.exception
    assert colours(page) == set(PALETTES["Tableau 10"][:3])
    assert run_colours.column_colours(run) == {label: CategoryColours("Tableau 10")}
    assert colours(open_page("latent", run=run)) == set(PALETTES["Tableau 10"][:3])


def test_a_category_has_its_own_colour_until_it_is_removed(open_page: OpenPage, run: str) -> None:
    dataset = fitted_maps.fitted_dataset(run)
    label = dataset.label_name
    assert label is not None
    first = dataset.label_classes(label)[0]
    page = opened(open_page, run, label)
    key = f"latent:{run}:colours 0 {PALETTES['Okabe–Ito'][0]} {label}"
    page.color_picker(key=key).set_value("#abcdef").run()
    assert not page.exception
    assert "#abcdef" in colours(page)
    style = run_colours.class_style(run)
    assert style is not None
    assert style.colours.own == ((first, "#abcdef"),)
    plain = run_exports.map_file(run, (0, 1), "svg", sd_behind=False)
    assert b"#abcdef" in plain
    page.button(key=f"latent:{run}:colours reset {label}").click().run()
    assert "#abcdef" not in colours(page)
    assert b"#abcdef" not in run_exports.map_file(run, (0, 1), "svg", sd_behind=False)


def test_the_order_of_the_legend_is_kept_with_the_run(
    open_page: OpenPage, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = fitted_maps.fitted_dataset(run)
    label = dataset.label_name
    assert label is not None
    names = list(map(str, dataset.label_classes(label)))
    draw, moves = map_chart.draw_canvas, [(2, 0, 1), (0, 1), (0, 0, 1)]

    def moved(scene: Scene, *, on_event: Callable[[MapEvent], None], **settings: Any) -> None:
        if moves:  # wrong ones, of another legend, change nothing
            on_event(MovedCategories(moves.pop(0)))
        draw(scene, on_event=on_event, **settings)

    monkeypatch.setattr(map_chart, "draw_canvas", moved)
    page = opened(open_page, run, label)
    while moves:
        page.run()
    page.run()
    assert not page.exception
    order = (names[2], names[0], names[1])
    assert run_colours.column_colours(run) == {label: CategoryColours(order=order)}
    (scene,) = scenes(page)
    assert [entry["text"] for entry in scene.data["legend"][0]["entries"]] == list(order)
    assert scene.data["layers"][-3:] == [1, 0, 2]
    assert unexplained(page) == set()

    page.selectbox(key=f"latent:{run}:colours palette {label}").set_value("Tableau 10").run()
    assert run_colours.column_colours(run) == {label: CategoryColours("Tableau 10", order=order)}
    style = run_colours.class_style(run)
    assert style is not None
    assert style.in_order == [2, 0, 1]

    page.button(key=f"latent:{run}:colours order {label}").click().run()
    assert run_colours.column_colours(run) == {label: CategoryColours("Tableau 10")}
    assert scenes(page)[0].data["layers"] is None


def test_numbers_have_a_scale_a_transform_and_ends(open_page: OpenPage, run: str) -> None:
    column = fitted_maps.fitted_dataset(run).feature_names[0]
    page = opened(open_page, run, column)
    page.selectbox(key=f"latent:{run}:colour").set_value(f"column {column}").run()
    (before,) = scenes(page)
    transform = page.segmented_control(key=f"latent:{run}:colours transform {column}")
    transform.set_value("diverging").run()
    page.number_input(key=f"latent:{run}:colours centre {column}").set_value(13.0).run()
    assert not page.exception
    (after,) = scenes(page)
    assert f"{column}, middle 13" in after.legend
    assert after.looks != before.looks
    assert run_colours.column_colours(run)[column] == NumberColours(
        transform="diverging", centre=13.0
    )
    page.number_input(key=f"latent:{run}:colours low {column}").set_value(14.0).run()
    page.number_input(key=f"latent:{run}:colours high {column}").set_value(12.0).run()
    assert not page.exception
    assert any("choose a lower end below the upper one" in one.value for one in page.error)


def test_labels_of_groups_are_sent_with_the_map(open_page: OpenPage, run: str) -> None:
    page = open_page("latent", run=run)
    assert scenes(page)[0].data["groupLabels"] == []
    page.toggle(key=f"latent:{run}:group labels").set_value(True).run()
    assert not page.exception
    dataset = fitted_maps.fitted_dataset(run)
    assert dataset.label_name is not None
    sent = scenes(page)[0].data["groupLabels"]
    assert {one["text"] for one in sent} == set(dataset.label_classes(dataset.label_name))
