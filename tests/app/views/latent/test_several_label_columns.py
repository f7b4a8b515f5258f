"""Several label columns from page to page: chosen, fitted, explored; new rows placed by them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app import navigation
from app.analysis.map.heatmaps import HeatmapRequest, heatmap
from app.analysis.map.reconstruction import reconstruct
from app.analysis.tables import model_cards
from app.analysis.tables.model_cards import map_card, refusal
from app.components.map import map_options
from app.figures import live_charts, snapshot_charts
from app.figures.row_panels import relevance_figure
from app.services import fitted_maps, runs, server, tables
from app.state.choices import RoleChoices
from app.state.widgets import widget_key
from app.views.data import column_roles
from app.views.fit.model_choice import MODEL
from lvmcore import LDGD
from lvmcore.base.table_size import TableSize
from lvmcore.data import Dataset, Table
from lvmcore.models import MODELS
from lvmcore.recommend.latent_models import TableSummary
from lvmcore.results import FitStep, Snapshot
from tests.app.conftest import OpenPage, Wait, fitted_run
from tests.scenes import scenes

UPLOAD = widget_key("data", "upload")


def frame(n: int = 48, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    kind, sex = np.arange(n) % 3, rng.integers(0, 2, n)
    columns = {
        "length": 2.0 * (kind == 0) - 2.0 * (kind == 1),
        "width": 2.0 * (kind == 2),
        "mass": 3.0 * sex,
        "depth": -2.0 * sex,
    }
    noisy = {name: values + 0.3 * rng.standard_normal(n) for name, values in columns.items()}
    words = {"species": np.array(["a", "b", "c"])[kind], "sex": np.array(["f", "m"])[sex]}
    return pd.DataFrame(noisy | words | {"island": np.array(["x", "y"])[np.arange(n) // 24 % 2]})


def two(rows: pd.DataFrame) -> Dataset:
    table = Table.from_frame(rows, name="birds")
    features = ["length", "width", "mass", "depth"]
    return table.dataset(features=features, label=["species", "sex"])


@pytest.fixture(scope="module")
def run(shared_home: Any) -> str:
    """A run that has ended: LDGD, learning from two labels."""
    settings = {"n_components": 3, "n_inducing": 10, "max_iter": 40}
    found = fitted_run(two(frame()), "ldgd", settings)
    assert server.store().get(found).has_model
    return found


def texts(page: AppTest) -> str:
    found = (*page.main.markdown, *page.main.caption, *page.main.warning, *page.main.error)
    return "\n".join(str(element.value).replace("\\", "") for element in found)


def choice(page: AppTest, kind: str, label: str) -> Any:
    (found,) = [element for element in page.get(kind) if element.label == label]
    return found


def upload(page: AppTest, key: str, rows: pd.DataFrame) -> AppTest:
    content = rows.to_csv(index=False).encode()
    return page.file_uploader(key).set_value(("birds.csv", content, "text/csv")).run()


# ---- choosing and fitting ----------------------------------------------------------------------


@pytest.mark.slow
def test_further_labels_are_chosen_on_the_data_page(open_page: OpenPage) -> None:
    page = upload(open_page("data"), UPLOAD, frame())
    choice(page, "selectbox", "Label").set_value(4).run()  # species, by its position
    further = choice(page, "multiselect", "Further labels")
    assert further.options == ["length", "width", "mass", "depth", "sex", "island"]
    further.set_value([5]).run()
    assert not page.exception
    said = texts(page)
    assert "2 labels with 3 and 2 classes" in said
    assert "sex (" not in said  # among the columns that are not used
    assert "'sex' is coded" not in said  # it is no feature any more
    editor = page.main.dataframe[-1].value
    assert not editor.loc[editor["Column"] == "sex", "Feature"].any()
    choice(page, "selectbox", "Label").set_value(-1).run()
    assert choice(page, "multiselect", "Further labels").disabled
    assert "label" not in texts(page).split("48 rows, ")[1].split("**")[0]


def test_the_fit_page_says_which_labels_a_model_learns_from(open_page: OpenPage) -> None:
    page = upload(open_page("data"), UPLOAD, frame())
    choice(page, "selectbox", "Label").set_value(4).run()
    choice(page, "multiselect", "Further labels").set_value([5]).run()
    page.switch_page("views/fit/page.py").run()
    assert not page.exception
    said = texts(page)
    assert "label species with 3 classes, label sex with 2 classes" in said
    assert "Learns from species and sex:" in said
    page.selectbox(MODEL).set_value("supervised_vae").run()
    assert "Learns from one label, species, and does not use sex." in texts(page)


def test_a_further_label_is_no_feature() -> None:
    table = Table.from_frame(frame(), name="birds")
    before = RoleChoices(("length", "width", "mass"), "species", None)
    now = replace(before, more_labels=("mass",))
    ticked = [column.name in before.features for column in table.columns]
    roles, _ = column_roles.chosen_features(
        table, before, ticked, [column_roles.NONE] * len(ticked), now
    )
    assert roles.features == ("length", "width")
    left = [
        name for names in column_roles.columns_left_out(table, roles).values() for name in names
    ]
    assert "mass" not in left


def test_cards_look_at_the_labels_that_a_model_would_learn_from() -> None:
    shape = TableSummary(rows=100, columns=5, classes=3, unlabelled=0, incomplete=0, further=(1,))
    assert "another label column has one" in str(refusal(map_card(MODELS["ldgd"]), shape))
    assert refusal(map_card(MODELS["supervised_vae"]), shape) is None
    many = replace(shape, further=(20,))
    assert map_card(LDGD).suggest(many) == LDGD.suggest(
        TableSize(n_rows=100, n_columns=5, n_classes=20)
    )
    vae = map_card(MODELS["supervised_vae"])
    assert many.classes_for(vae.model.capabilities) == (3,)
    assert "several labels" in map_card(LDGD).supports
    assert "several labels" not in vae.supports
    assert model_cards.recommend([map_card(LDGD)], many).key == "ldgd"


def test_the_shape_counts_the_classes_of_each_label() -> None:
    shape = tables.table_summary(two(frame()))
    assert (shape.classes, shape.further) == (3, (2,))


def test_curves_and_bars_have_a_colour_and_a_name_for_each_path() -> None:
    paths = ["data", "labels: species", "labels: sex", f"labels: {'long ' * 40}"]
    share = {path: np.array([0.7, 0.3]) for path in paths}
    figure = relevance_figure(share, (0, 1), dark=False)
    assert len({bar.marker.color for bar in figure.data}) == 4
    assert len(figure.data[3].name) < 80
    snapshot = Snapshot(np.zeros((2, 2)), np.arange(2), (0, 1), share)
    bars = snapshot_charts.kernel_weight_chart(snapshot)["series"]
    assert [bar["name"] for bar in bars[:3]] == paths[:3]
    assert len(bars[3]["name"]) <= 60
    step = FitStep(1, 2, 0.1, -3.0, {"label fit: species": -1.0, "label fit: sex": -2.0})
    names = [line["name"] for line in live_charts.terms_chart([step, step])["series"]]
    assert names == ["label fit: species", "label fit: sex"]


@pytest.mark.slow(quick=["data", "runs"])
@pytest.mark.parametrize("name", ["data", "fit", "compare", "impute", "runs"])
def test_every_other_page_takes_such_a_run(
    open_page: OpenPage, run: str, name: navigation.PageName
) -> None:
    page = open_page(name, run=run)
    assert not page.exception
    assert not page.main.error


# ---- the map -----------------------------------------------------------------------------------


def test_the_map_is_coloured_by_any_label(open_page: OpenPage, run: str) -> None:
    page = open_page("latent", run=run)
    assert not page.exception
    colour = choice(page, "selectbox", "Colour")
    assert colour.options[:2] == ["label: species", "label: sex"]
    assert {"a", "b", "c"} <= _names(page)
    colour.set_value("label sex").run()
    assert not page.exception
    assert {"f", "m"} <= _names(page)
    bars = {trace["name"] for trace in _charts(page)[0]["data"]}
    assert bars == {"data path", "labels: species path", "labels: sex path"}


def test_heatmaps_ask_for_a_class_of_any_label(open_page: OpenPage, run: str) -> None:
    page = open_page("latent", run=run)
    choice(page, "selectbox", "Background").set_value("class probability").run()
    of = choice(page, "selectbox", "Class")
    assert of.options == ["species: a", "species: b", "species: c", "sex: f", "sex: m"]
    of.set_value(4).run()
    assert not page.exception
    assert _bar(page).startswith("sex: probability of m")
    choice(page, "selectbox", "Background").set_value("class entropy").run()
    choice(page, "selectbox", "Labels").set_value(1).run()
    assert not page.exception
    assert _bar(page).startswith("sex: entropy of the class probabilities")


def test_a_point_tells_the_probabilities_of_each_label(open_page: OpenPage, run: str) -> None:
    page = open_page("latent", run=run)
    choice(page, "selectbox", "Row").set_value(0).run()
    assert not page.exception
    said = texts(page)
    assert "Class probability of species here" in said
    assert "Class probability of sex here" in said
    row = frame().iloc[0]
    assert f"Row 1, species: {row['species']}, sex: {row['sex']}" in said


def test_heatmaps_and_points_are_those_of_the_model(run: str) -> None:
    model, dataset = fitted_maps.model(run), fitted_maps.fitted_dataset(run)
    latent = tuple(model.embedding_.mean[3].tolist())
    expected = [found.probability[0] for found in model.decode_labels([latent])]
    for found, p in zip(reconstruct(model, dataset, latent).probability, expected, strict=True):
        np.testing.assert_allclose(found, p)
    grid = heatmap(
        model, dataset, HeatmapRequest("probability", (0, 1), (0.0,) * 3, label=1, path=1, size=3)
    )
    corner = [[grid.x[0], grid.y[0], 0.0]]
    assert grid.value[0, 0] == pytest.approx(model.decode_labels(corner)[1].probability[0, 1])


def _charts(page: AppTest) -> list[dict[str, Any]]:
    return [json.loads(element.proto.spec) for element in page.get("plotly_chart")]


def _names(page: AppTest) -> set[str]:
    return set(scenes(page)[0].legend)


def _bar(page: AppTest) -> str:
    return str(scenes(page)[0].data["heat"]["title"])


# ---- new rows ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_names_of_labels_are_no_markdown(shared_home: Any, open_page: OpenPage, wait: Wait) -> None:
    """A name that is Markdown for a picture would have the browser fetch it."""
    name = "![sex](http://example.org/x.png)"
    rows = frame(30).rename(columns={"sex": name})
    features = ["length", "width", "mass", "depth"]
    named = Table.from_frame(rows, name="named").dataset(features=features, label=["species", name])
    run = fitted_run(named, "ldgd", {"n_components": 2, "max_iter": 5})
    page = upload(open_page("new_rows", run=run), widget_key("new_rows", "upload"), rows)
    (button,) = [one for one in page.main.button if one.label == "Infer positions"]
    button.click().run()
    assert wait(page.query_params["rows"]).status == "done"
    page.run()
    assert not page.exception
    (which,) = [one for one in page.get("button_group") if one.label == "Label"]
    which.set_value(1).run()
    assert not page.exception
    written = (*page.main.markdown, *page.main.caption)
    shown = [which.options[1], *(str(one.value) for one in written)]
    assert not [text for text in shown if "![sex](" in text]
    assert [text for text in shown if "http" in text]


@pytest.mark.slow
def test_labels_that_begin_alike_are_told_apart(open_page: OpenPage, shared_home: Any) -> None:
    del shared_home  # where it is kept
    alike = [f"diagnosis of the patient at the visit in the year {year}" for year in (2019, 2020)]
    rows = frame().rename(columns={"species": alike[0], "sex": alike[1]})
    features = ["length", "width", "mass", "depth"]
    dataset = Table.from_frame(rows, name="alike").dataset(features=features, label=alike)
    colours = map_options.colour_options(dataset)
    assert len(set(colours.values())) == len(colours)
    found = fitted_run(dataset, "ldgd", {"n_components": 2, "max_iter": 5})
    page = upload(open_page("new_rows", run=found), widget_key("new_rows", "upload"), rows)
    for _ in range(2):
        labels = choice(page, "multiselect", "Labels to compare with")
        assert len(set(labels.options)) == 2
        assert labels.value == [0, 1]
        page.run()
        assert not page.exception


@pytest.mark.slow
def test_new_rows_are_looked_at_by_one_label_at_a_time(
    open_page: OpenPage, run: str, wait: Wait
) -> None:
    new = frame(30, seed=4).rename(columns={"sex": "Sex"})
    page = upload(open_page("new_rows", run=run), widget_key("new_rows", "upload"), new)
    assert not page.exception
    labels = choice(page, "multiselect", "Labels to compare with")
    assert labels.options == ["species", "Sex"]
    assert labels.value == [0, 1]
    (button,) = [one for one in page.main.button if one.label == "Infer positions"]
    button.click().run()
    assert wait(page.query_params["rows"]).status == "done"
    page.run()
    assert not page.exception
    (which,) = [one for one in page.get("button_group") if one.label == "Label"]
    assert set(page.main.dataframe[0].value["predicted"]) <= {"a", "b", "c"}
    which.set_value(1).run()
    assert not page.exception
    table = page.main.dataframe[0].value
    assert set(table["predicted"]) <= {"f", "m"}
    assert table["label"].tolist() == new["Sex"].tolist()
    assert "accuracy, sex" in texts(page)
    job = runs.job(page.query_params["rows"])
    assert job is not None
    right = np.mean(table["predicted"] == table["label"])
    assert job.metrics["accuracy: sex"].value == pytest.approx(right)


# ---- which label colours -----------------------------------------------------------------------


def _coloured(page: AppTest) -> set[str]:
    """Names in the legend of the map on the Fit page."""
    charts = [json.loads(element.proto.spec) for element in page.get("echarts_chart")]
    (found,) = [
        one
        for one in charts
        if "latent dimension" in one["xAxis"].get("name", "")
        and one["series"][0]["type"] == "scatter"
    ]
    return {series["name"] for series in found["series"]}


def test_the_label_that_colours_the_map_on_the_fit_page_is_chosen(
    open_page: OpenPage, run: str
) -> None:
    page = open_page("fit", run=run)
    assert not page.exception
    assert _coloured(page) == {"a", "b", "c"}
    asked = choice(page, "selectbox", "Colour of the map")
    assert asked.options == ["species", "sex"]
    asked.select_index(1).run()
    assert not page.exception
    assert _coloured(page) == {"f", "m"}


@pytest.mark.slow
def test_one_label_is_no_choice(open_page: OpenPage) -> None:
    table = Table.from_frame(frame(), name="birds of one label")
    dataset = table.dataset(features=["length", "width", "mass", "depth"], label="sex")
    settings = {"n_components": 2, "n_inducing": 5, "max_iter": 3}
    alone = fitted_run(dataset, "ldgd", settings)
    page = open_page("fit", run=alone)
    assert not page.exception
    assert _coloured(page) == {"f", "m"}
    assert "Colour of the map" not in [one.label for one in page.selectbox]


def test_compare_colours_by_the_label_that_is_chosen(open_page: OpenPage, run: str) -> None:
    page = open_page("compare", run=run)
    colour = choice(page, "selectbox", "Colour")
    assert colour.options[:2] == ["label: species", "label: sex"]
    colour.select_index(1).run()
    assert not page.exception
    (legend,) = [one.proto.body for one in page.get("html") if 'class="legend"' in one.proto.body]
    assert "sex" in legend
    assert "</i>f<" in legend
    assert "species" not in legend
