"""The Latent page: empty, with a linear run, and with one that learned from labels."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.heatmaps import MapChoices
from app.analysis.map.map_axes import positions
from app.analysis.map.reconstruction import MapPoint
from app.analysis.map.regions import Region
from app.analysis.map.selections import RowFilter
from app.components.map import canvas, map_chart, relevance_panel
from app.formatting import number
from app.services import fitted_maps, runs, server, tables
from app.state import choices
from app.state.session import session
from app.state.widgets import map_widget_key
from lvmcore.data import Dataset, Table
from tests.app.conftest import OpenPage, Wait, fitted_run
from tests.scenes import scenes

GONE = "f" * 32


@pytest.fixture(scope="module")
def labelled(shared_home: Path) -> str:
    """A run that has ended: LDGD on iris, three dimensions."""
    table = tables.table(choices.SampleChoice("iris"), choices.ReadingChoices())
    dataset = tables.dataset_of(table, tables.proposed_roles(table))
    run = fitted_run(dataset, "ldgd", {"n_components": 3, "max_iter": 40})
    assert server.store().get(run).has_model
    return run


def opened(run: str) -> FittedMap:
    return FittedMap(run, fitted_maps.model(run), fitted_maps.fitted_dataset(run))


def charts(page: AppTest) -> list[dict[str, Any]]:
    return [json.loads(element.proto.spec) for element in page.get("plotly_chart")]


def axis_titles(page: AppTest) -> tuple[str, str]:
    horizontal, vertical = scenes(page)[0].data["titles"]
    return horizontal, vertical


def box(page: AppTest, label: str) -> Any:
    (found,) = [element for element in page.selectbox if element.label == label]
    return found


def frame_with(page: AppTest, column: str) -> pd.DataFrame:
    """The one table of the page that has such a column."""
    (found,) = [one.value for one in page.dataframe if column in one.value]
    assert isinstance(found, pd.DataFrame)
    return found


def texts(page: AppTest) -> str:
    return "\n".join(str(element.value) for element in (*page.main.markdown, *page.main.caption))


# ---- the page --------------------------------------------------------------------------------


def test_without_a_run_there_is_a_picture_and_one_button(open_page: OpenPage) -> None:
    page = open_page("latent")
    assert not page.exception
    assert [button.label for button in page.main.button] == ["Fit the sample"]
    assert len(charts(page)) == 1
    assert "not computed from any data" in texts(page)


def test_a_run_that_is_gone_is_said_to_be_gone(open_page: OpenPage) -> None:
    page = open_page("latent", run=GONE)
    assert not page.exception
    assert "does not exist" in page.warning[0].value


def test_the_button_fits_the_sample(open_page: OpenPage) -> None:
    page = open_page("latent")
    page.main.button[0].click().run()
    assert not page.exception
    job = runs.job(page.query_params["run"])
    assert job is not None
    assert job.spec.dataset_name == choices.DEFAULT_SAMPLE
    server.store().cancel(job.id)


def test_a_linear_run_shows_its_map_and_says_why_nothing_is_behind_it(
    open_page: OpenPage, fitted: str
) -> None:
    page = open_page("latent", run=fitted)
    assert not page.exception
    assert axis_titles(page) == ("Latent dimension 1", "Latent dimension 2")
    assert "everywhere on this map" in texts(page)
    (shown,) = scenes(page)
    assert shown.data["heat"] is None
    np.testing.assert_allclose(shown.points, opened(fitted).mean[:, :2], rtol=1e-6)
    assert shown.array("number").tolist() == list(range(len(shown.points)))


def test_class_heatmaps_of_a_model_without_labels_are_refused_with_a_reason(
    open_page: OpenPage, fitted: str
) -> None:
    page = open_page("latent", run=fitted)
    assert "class entropy (needs labels)" in box(page, "Background").options
    box(page, "Background").set_value("class entropy").run()
    assert not page.exception
    assert "does not use labels" in texts(page)
    assert scenes(page)[0].data["heat"] is None


def test_a_run_with_labels_says_that_its_map_has_seen_them(
    open_page: OpenPage, labelled: str
) -> None:
    page = open_page("latent", run=labelled)
    assert not page.exception
    assert "The fit used the labels" in texts(page)
    assert (scenes(page)[0].heat > 0).all()
    assert {trace["name"] for trace in charts(page)[0]["data"]} == {"data path", "labels path"}


@pytest.mark.slow(quick=["magnification-magnification"])
@pytest.mark.parametrize(
    ("behind", "title"),
    [
        ("predictive sd", "predictive sd without noise, mean over columns"),
        ("decoded mean", "decoded sepal length"),
        ("magnification", "magnification"),
        ("class probability", "probability of setosa"),
        ("class entropy", "entropy of the class probabilities"),
        ("class probability variance", "variance of the probability of setosa"),
    ],
)
def test_each_heatmap_is_drawn_with_its_name(
    open_page: OpenPage, labelled: str, behind: str, title: str
) -> None:
    page = open_page("latent", run=labelled)
    box(page, "Background").set_value(behind).run()
    assert not page.exception
    (shown,) = scenes(page)
    assert shown.data["heat"]["title"].startswith(title)
    assert any(said.startswith(f"background: {title}") for said in shown.legend)


def test_magnification_says_what_it_is_and_what_it_is_far_from_all_rows(
    open_page: OpenPage, labelled: str
) -> None:
    page = open_page("latent", run=labelled)
    box(page, "Background").set_value("magnification").run()
    assert not page.exception
    said = texts(page)
    assert "change of the columns per unit area of the map" in said
    model = fitted_maps.model(labelled)
    x, y = (int(box(page, name).value) for name in ("Horizontal", "Vertical"))
    decoder = model._decoder  # type: ignore[attr-defined]
    slope = len(decoder.noise) * decoder.kernel.variance / decoder.kernel.lengthscales.square()
    far = float((slope[x] * slope[y]).sqrt())
    assert f"Far from all rows, at the prior, it is {number(far, 3)}." in said


def test_nothing_behind_draws_no_heatmap(open_page: OpenPage, labelled: str) -> None:
    page = open_page("latent", run=labelled)
    box(page, "Background").set_value("nothing").run()
    assert scenes(page)[0].data["heat"] is None


def test_equal_axes_of_late_values_are_told_apart(open_page: OpenPage, labelled: str) -> None:
    """With a point chosen, whose fields have a key an axis."""
    page = open_page("latent", run=labelled)
    box(page, "Row").set_value(box(page, "Row").options[1]).run()
    for name in ("Horizontal", "Vertical"):
        key = box(page, name).key
        assert key is not None
        page.session_state[key] = 0
    page.run()
    assert not page.exception
    assert len({int(box(page, name).value) for name in ("Horizontal", "Vertical")}) == 2


def test_the_same_dimension_is_never_on_both_axes(open_page: OpenPage, labelled: str) -> None:
    page = open_page("latent", run=labelled)
    first, second = axis_titles(page)
    box(page, "Horizontal").set_value(box(page, "Vertical").value).run()
    assert not page.exception
    assert axis_titles(page) == (second, first)


def test_rows_are_coloured_by_any_column(open_page: OpenPage, fitted: str) -> None:
    page = open_page("latent", run=fitted)
    box(page, "Colour").set_value("column alcohol").run()
    assert not page.exception
    (shown,) = scenes(page)
    assert shown.legend == ["alcohol", "11.03", "14.83"]
    alcohol = fitted_maps.fitted_dataset(fitted).frame["alcohol"].to_numpy()
    codes = shown.array("code")
    assert (np.diff(codes[np.argsort(alcohol)].astype(int)) >= 0).all()
    assert codes.max() > 50


def test_a_row_of_an_earlier_map_is_looked_at_where_it_is_now(
    open_page: OpenPage, labelled: str
) -> None:
    """A run that was resumed has another map than when its row was clicked."""
    page = open_page("latent", run=labelled)
    mean = fitted_maps.model(labelled).embedding_.mean
    elsewhere = tuple((mean[4] + 1.0).tolist())
    for row, expected in ((4, MapPoint(tuple(mean[4].tolist()), 4)), (len(mean), None)):
        page.session_state["latent.point"] = {labelled: MapPoint(elsewhere, row)}
        page.run()
        assert not page.exception
        assert page.session_state["latent.point"] == {labelled: expected}


def test_what_was_drawn_on_an_earlier_map_is_let_go_of(open_page: OpenPage, labelled: str) -> None:
    """A run was resumed: what was drawn encircles other rows, what was found is found again."""
    page = open_page("latent", run=labelled)
    drawn = Region((0, 1), (((0.0, 0.0), (1.0, 0.0), (1.0, 1.0)),))
    found = RowFilter(None, "contains", "1")
    page.session_state["latent.selection"] = {labelled: drawn}
    page.run()
    page.session_state["latent.selection"] = {labelled: found}
    page.run()
    page.session_state["latent.selection"] = {labelled: drawn}
    page.run()
    assert page.session_state["latent.selection"] == {labelled: drawn}
    page.session_state["latent.attempt"] = {labelled: fitted_maps.attempt(labelled) - 1}
    page.run()
    assert not page.exception
    assert page.session_state["latent.selection"] == {labelled: None}
    earlier = page.session_state["latent.views.earlier"][labelled]
    assert [one.selection for one in earlier] == [None, None, found]


def test_a_row_found_by_its_name_is_marked_and_decoded(open_page: OpenPage, labelled: str) -> None:
    page = open_page("latent", run=labelled)
    box(page, "Row").set_value(4).run()
    assert not page.exception
    point = page.session_state["latent.point"][labelled]
    run = opened(labelled)
    assert point.row == 4
    np.testing.assert_allclose(point.latent, run.mean[4])
    axes = [int(box(page, name).value) for name in ("Horizontal", "Vertical")]
    np.testing.assert_allclose(scenes(page)[0].data["marked"], run.mean[4, axes])
    values = frame_with(page, "reconstruction")
    np.testing.assert_allclose(values["observed"], run.dataset.X[4])
    np.testing.assert_allclose(values["reconstruction"], run.model.decode([point.latent]).mean[0])
    assert "Class probability here" in texts(page)


def test_a_row_learned_as_log1p_is_shown_in_its_own_units(open_page: OpenPage) -> None:
    table = tables.table(choices.SampleChoice("wine"), choices.ReadingChoices())
    roles = replace(tables.proposed_roles(table), log1p=("proline",), hold_out=0.2)
    run = fitted_run(tables.dataset_of(table, roles), "ppca", {})
    page = open_page("latent", run=run)
    box(page, "Row").set_value(4).run()
    assert not page.exception
    fitted = opened(run)
    values = frame_with(page, "reconstruction").set_index("column")
    row = fitted.dataset.rows[4]
    assert values.loc["proline", "observed"] == pytest.approx(table.frame["proline"].iloc[row])
    assert values.loc["alcohol", "observed"] == pytest.approx(table.frame["alcohol"].iloc[row])
    point = page.session_state["latent.point"][run]
    found = fitted_maps.reconstruction(run, point.latent)
    assert values.loc["proline", "reconstruction"] == pytest.approx(found.value[-1])
    interval = f"{number(found.low[-1], 2)} to {number(found.high[-1], 2)}"
    assert values.loc["proline", "2 sd interval"] == interval
    assert "1 column of these was fitted as log(1 + x)" in texts(page)
    assert len(fitted.dataset) == len(fitted.mean) == 142
    assert "142 rows" in texts(page)
    assert r"held\-out NLPD: **" in texts(page)


@pytest.mark.slow
def test_typed_coordinates_move_the_point_off_its_row(open_page: OpenPage, labelled: str) -> None:
    page = open_page("latent", run=labelled)
    box(page, "Row").set_value(4).run()
    before = page.session_state["latent.point"][labelled]
    page.number_input[0].set_value(0.25).run()
    assert not page.exception
    after = page.session_state["latent.point"][labelled]
    dimension = int(page.number_input[0].label.rsplit(" ", 1)[1]) - 1
    assert after.row is None
    assert after.latent[dimension] == 0.25
    assert (
        np.delete(after.latent, dimension).tolist() == np.delete(before.latent, dimension).tolist()
    )
    assert "A point of the map" in texts(page)


def test_a_region_lists_exactly_its_rows(open_page: OpenPage, labelled: str) -> None:
    run = opened(labelled)
    points = positions(run.mean, (0, 1))
    middle = np.median(points, axis=0)
    low = points.min(axis=0) - 1
    corners = ((low[0], low[1]), (middle[0], low[1]), (middle[0], middle[1]), (low[0], middle[1]))
    page = open_page("latent", run=labelled)
    page.session_state["latent.selection"] = {labelled: Region((0, 1), (corners,))}
    page.run()
    assert not page.exception
    expected = (points <= middle).all(axis=1)
    assert 0 < expected.sum() < len(expected)
    frame = frame_with(page, "row_id")
    assert frame["row_id"].tolist() == run.dataset.row_ids[expected].tolist()
    assert f"{expected.sum()} rows of {len(expected)} rows" in texts(page)
    assert "Contrast to the other rows" in texts(page)
    ranked = frame_with(page, "distance")
    assert len(ranked) == 5  # four columns and the label
    assert ranked["distance"].is_monotonic_decreasing
    (clear,) = [button for button in page.main.button if button.label == "Clear the selection"]
    clear.click().run()
    assert page.session_state["latent.selection"] == {labelled: None}
    assert not page.dataframe


# ---- what a click does -----------------------------------------------------------------------


def three_clouds() -> Dataset:
    """A table of this module's own: nobody else measures its maps."""
    rng = np.random.default_rng(17)
    codes = np.arange(90) % 3
    X = 3 * np.eye(3, 5)[codes] + rng.standard_normal((90, 5))
    table = Table.from_frame(pd.DataFrame(X, columns=list("abcde")), name="three clouds")
    return table.dataset()


@pytest.mark.slow
def test_a_map_is_measured_on_held_out_rows_when_asked(open_page: OpenPage, wait: Wait) -> None:
    """Intervals and density of a run that held no rows out: a fit anew to 80 % of them."""
    run = fitted_run(three_clouds(), "ppca", {"n_components": 2})
    digest = server.store().get(run).spec.dataset
    page = open_page("latent", run=run)
    assert "intervals" not in texts(page)
    (button,) = [one for one in page.button if one.label == "Measure this map on held-out rows"]
    page = button.click().run()
    assert not page.exception
    (score,) = [one for one in server.store().list("score") if one.spec.dataset == digest]
    wait(score.id)
    page = open_page("latent", run=run)
    assert "Measure this map on held-out rows" not in [one.label for one in page.button]
    shown = texts(page)
    for level in (50, 90, 95):
        metric = server.store().get(score.id).metrics[f"cells_coverage_{level}"]
        assert metric.value is not None
        assert 0 < metric.value <= 1
        assert metric.protocol in shown.replace("\\", "")


def test_the_picture_says_what_it_retains_of_all_dimensions(open_page: OpenPage) -> None:
    run = fitted_run(three_clouds(), "pca", {"n_components": 4})
    page = open_page("latent", run=run)
    assert not page.exception
    value = server.store().get(run).metrics["retained_neighbours"].value
    assert value is not None
    sentence = f"retain **{value:.0%}** of the 10 nearest neighbours in all 4 dimensions; "
    assert f"Dimensions 1 and 2 {sentence}" in texts(page)
    assert "trustworthiness, dimensions 1 and 2: **" in texts(page)
    (across,) = [one for one in page.selectbox if one.label == "Horizontal"]
    across.set_value(3).run()
    assert not page.exception
    assert "Dimensions 4 and 2 retain" in texts(page)
    assert "trustworthiness, dimensions 4 and 2: **" not in texts(page)
    page.session_state[f"latent:{run}:scores"] = True  # as a click on the expander does
    page.run()
    assert "trustworthiness, dimensions 4 and 2: **" in texts(page)
    assert "trustworthiness, all 4 dimensions: **" in texts(page)
    flat = open_page("latent", run=fitted_run(three_clouds(), "pca", {"n_components": 2}))
    assert "retain" not in texts(flat)


def panel(run: str) -> str:
    """Key of the panel beside the map."""
    return map_widget_key(opened(run), "panel")


def test_the_panel_beside_the_map_shows_what_was_touched_last(
    open_page: OpenPage, labelled: str
) -> None:
    page = open_page("latent", run=labelled)
    assert [tab.label for tab in page.tabs] == ["Point", "Selection", "Columns", "Relevance"]
    assert page.session_state[panel(labelled)] == "Relevance"
    point, selection, columns, relevance = page.tabs
    assert "Click a row" in texts_of(point)
    assert "No rows are selected" in texts_of(selection)
    assert "Select rows on the map" in texts_of(columns)
    assert relevance.get("plotly_chart")
    box(page, "Row").set_value(4).run()
    assert page.session_state[panel(labelled)] == "Point"
    assert "Row 5" in texts_of(page.tabs[0])
    page.session_state["latent.selection"] = {labelled: RowFilter(None, "contains", "1")}
    page.run()
    assert not page.exception
    _, selection, columns, _ = page.tabs
    assert "Contrast to the other rows" in texts_of(selection)
    assert [one.value for one in selection.dataframe if "row_id" in one.value]
    assert "Kolmogorov" in texts_of(columns)


def texts_of(block: Any) -> str:
    return "\n".join(str(element.value) for element in (*block.markdown, *block.caption))


def take(run: str, what: canvas.MapEvent) -> None:
    map_chart._handle_event(
        opened(run), MapChoices((2, 0), None, None, False, False, None, False), what
    )


def test_a_click_on_a_row_takes_its_exact_position(
    labelled: str, session_state: dict[str, Any]
) -> None:
    take(labelled, canvas.ClickedRow(9))
    point = MapPoint(tuple(opened(labelled).mean[9].tolist()), 9)
    assert session_state == {"latent.point": {labelled: point}, panel(labelled): "Point"}


def test_a_click_on_open_ground_takes_the_place_on_the_shown_axes(
    labelled: str, session_state: dict[str, Any]
) -> None:
    take(labelled, canvas.ClickedPoint(0.5, -1.5))
    point = MapPoint((-1.5, 0.0, 0.5))
    assert session_state == {"latent.point": {labelled: point}, panel(labelled): "Point"}


def test_an_outline_is_kept_as_drawn(labelled: str, session_state: dict[str, Any]) -> None:
    corners = ((0.0, 0.0), (2.0, 0.0), (2.0, 1.0), (0.0, 1.0))
    take(labelled, canvas.DrawnPolygon(corners))
    assert session.selection[labelled] == Region((2, 0), (corners,))
    assert "latent.point" not in session_state
    assert session_state[panel(labelled)] == "Selection"


def test_a_double_click_forgets_the_point_and_keeps_the_region(
    labelled: str, session_state: dict[str, Any]
) -> None:
    take(labelled, canvas.Cleared())
    assert session_state == {"latent.point": {labelled: None}}


def test_a_row_that_is_no_more_lets_go_of_the_point(
    labelled: str, session_state: dict[str, Any]
) -> None:
    """As after a resumed run that is fitted to fewer rows."""
    take(labelled, canvas.ClickedRow(len(opened(labelled).mean)))
    assert session_state == {"latent.point": {labelled: None}}


def test_a_clicked_bar_goes_to_the_horizontal_axis(
    labelled: str, session_state: dict[str, Any]
) -> None:
    run = opened(labelled)
    event = SimpleNamespace(selection=SimpleNamespace(points=[{"customdata": [2]}]))
    session_state["key"] = event
    relevance_panel._handle_bar_click(run, (0, 1), "key")
    expected = {map_widget_key(run, "x"): 2, map_widget_key(run, "y"): 0}
    assert session_state == {"key": event, **expected}


# ---- files -----------------------------------------------------------------------------------


def test_the_embedding_reads_back_as_csv_and_parquet(labelled: str) -> None:
    run = opened(labelled)
    from_csv = pd.read_csv(io.BytesIO(fitted_maps.embedding_csv(labelled)), dtype={"row_id": str})
    from_parquet = pd.read_parquet(io.BytesIO(fitted_maps.embedding_parquet(labelled)))
    for frame in (from_csv, from_parquet):
        assert frame["row_id"].tolist() == run.dataset.row_ids.tolist()
        assert run.dataset.labels is not None
        assert frame["label"].tolist() == run.dataset.labels.tolist()
        for q in range(3):
            np.testing.assert_array_equal(frame[f"z{q + 1}"], run.mean[:, q])
            sd = np.sqrt(run.model.embedding_.variance[:, q])
            np.testing.assert_array_equal(frame[f"z{q + 1}_sd"], sd)
