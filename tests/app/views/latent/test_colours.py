"""The colours of a column, chosen on the Latent page and used in every figure and file."""

import pytest
from streamlit.testing.v1 import AppTest

from app.services import fitted_maps, run_colours, run_exports, tables
from app.state import choices
from lvmcore.export.column_colours import PALETTES, CategoryColours, NumberColours
from tests.app.conftest import OpenPage, fitted_run
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
