"""The Compare page: empty, two maps, a selection on both, what is missing, and the table."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app import navigation
from app.analysis.comparison import comparison_table, map_alignment
from app.analysis.comparison.comparison_table import MapScores
from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.map_axes import positions
from app.analysis.map.regions import Region
from app.analysis.map.row_colours import MISSING, OTHER, CategoryStyle, NumericColours
from app.components.map import canvas
from app.figures import legend
from app.services import fitted_maps, reference_maps, scores, server
from app.state.session import session
from app.views.compare import map_panels
from lvmcore.base.latent_variable_model import Capabilities
from lvmcore.data import Dataset
from lvmcore.metrics.metric import Metric
from lvmcore.runs import JobSpec
from tests.app.conftest import MAIN, PATIENCE_SECONDS, fitted_run
from tests.scenes import scenes

GONE = "e" * 32


def ended(run: str) -> str:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        job = server.store().get(run)
        if job.finished and job.stage == "finished":
            return run
        assert time.monotonic() < deadline, "the run has not ended"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def holed(shared_home: Path) -> Dataset:
    """Labelled rows, three of which lack a cell."""
    rng = np.random.default_rng(3)
    labels = np.repeat(["a", "b", "c"], 20)
    X = rng.normal(size=(60, 5)) + 3 * np.repeat(rng.normal(size=(3, 5)), 20, axis=0)
    X[[1, 30, 59], 2] = np.nan
    return Dataset.from_arrays(X, labels, name="holed")


@pytest.fixture(scope="module")
def two(holed: Dataset) -> tuple[str, str]:
    """PCA and linear discriminants of the same rows."""
    pca = fitted_run(holed, "pca", {"n_components": 2})
    return pca, fitted_run(holed, "lda", {})


def open_compare(*runs: str) -> AppTest:
    page = AppTest.from_file(MAIN, default_timeout=PATIENCE_SECONDS)
    page.run()
    if runs:
        page.query_params["runs"] = ",".join(runs)
    page.switch_page(navigation.PAGES["compare"]).run()
    return page


def texts(page: AppTest) -> str:
    return "\n".join(str(element.value) for element in (*page.main.markdown, *page.main.caption))


def charts(page: AppTest) -> list[dict[str, Any]]:
    return [json.loads(element.proto.spec) for element in page.get("plotly_chart")]


def opened(run: str) -> FittedMap:
    return FittedMap(run, fitted_maps.model(run), fitted_maps.fitted_dataset(run))


def button(page: AppTest, label: str) -> Any:
    (found,) = [one for one in page.main.button if one.label == label]
    return found


# ---- the page --------------------------------------------------------------------------------


@pytest.mark.slow
def test_without_a_run_there_is_one_button_that_compares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATENTBOARD_HOME", str(tmp_path / "bare"))
    page = open_compare()
    assert not page.exception
    assert [one.label for one in page.main.button] == ["Compare PCA and t-SNE on the sample"]
    assert len(charts(page)) == 2
    assert "not computed from any data" in texts(page)
    page.main.button[0].click().run()
    assert not page.exception
    runs = page.query_params["runs"].split(",")
    models = [server.store().get(run).spec.model for run in runs]
    assert models == ["pca", "tsne"]
    for run in runs:
        server.store().cancel(run)
    server.launcher().close()


def test_two_maps_side_by_side(two: tuple[str, str]) -> None:
    page = open_compare(*two)
    assert not page.exception
    assert len(scenes(page)) == 2
    said = texts(page)
    assert "aligned to the first map, disparity" in said
    assert "itted with the labels" in said
    assert page.query_params["runs"] == ",".join(two)


def test_rows_have_the_same_colour_and_name_on_both_maps(two: tuple[str, str]) -> None:
    drawn = [
        {
            row: (look, text)
            for row, look, text in zip(
                shown.array("number"), shown.looks, shown.data["texts"], strict=True
            )
        }
        for shown in scenes(open_compare(*two))
    ]
    assert drawn[0] == drawn[1]
    assert sorted(drawn[0]) == sorted(set(range(60)) - {1, 30, 59})


def test_a_run_that_is_gone_is_said_and_dropped(two: tuple[str, str]) -> None:
    page = open_compare(two[0], GONE)
    assert not page.exception
    assert "1 run of this comparison cannot be found" in page.warning[0].value
    assert page.query_params["runs"] == two[0]
    assert len(scenes(page)) == 1


def test_runs_of_other_data_are_left_out(two: tuple[str, str], fitted: str) -> None:
    page = open_compare(*two, fitted)
    assert not page.exception
    assert "1 run left out" in page.warning[0].value
    assert len(scenes(page)) == 2


@pytest.mark.slow
def test_a_method_is_added_once_and_found_again(holed: Dataset, two: tuple[str, str]) -> None:
    page = open_compare(two[1])
    button(page, "Factor analysis").click().run()
    assert not page.exception
    first, added = page.query_params["runs"].split(",")
    assert first == two[1]
    assert server.store().get(ended(added)).spec.model == "factor_analysis"
    again = open_compare(two[1])
    button(again, "Factor analysis").click().run()
    assert again.query_params["runs"] == f"{two[1]},{added}"
    assert len(scenes(again)) == 2


@pytest.mark.slow
def test_methods_that_cannot_be_added_say_why(fitted: str, shared_home: Path) -> None:
    bare = Dataset.from_arrays(np.random.default_rng(0).normal(size=(30, 4)), name="bare")
    page = open_compare(fitted_run(bare, "pca", {}))
    refused = button(page, "Linear discriminants")
    assert refused.disabled
    assert "Needs labels" in refused.help
    assert not button(page, "t-SNE").disabled


def test_a_selection_shows_on_all_maps_and_in_the_table(
    two: tuple[str, str], holed: Dataset
) -> None:
    page = open_compare(*two)
    corners = ((-9.0, -9.0), (0.0, -9.0), (0.0, 9.0), (-9.0, 9.0))
    page.session_state["compare.region"] = (two[1], Region((0, 1), (corners,)))
    page.run()
    assert not page.exception
    side = opened(two[1])
    inside = side.mean[:, 0] <= 0
    expected = set(side.dataset.row_ids[inside].tolist())
    assert 5 < len(expected) < 50
    (listing,) = [one.value for one in page.main.dataframe if "row_id" in one.value]
    assert set(listing["row_id"]) == expected
    maps = scenes(page)
    for shown in maps:
        strong = shown.array("number")[shown.array("selected") == 1]
        assert {str(row + 1) for row in strong} == expected
    assert [len(shown.data["outlines"]) for shown in maps] == [0, 1]
    button(page, "Clear the selection").click().run()
    assert not [one for one in page.main.dataframe if "row_id" in one.value]


def test_a_lasso_is_kept_in_the_units_of_its_own_map(
    two: tuple[str, str], holed: Dataset, session_state: dict[str, object]
) -> None:
    """Whatever map comes first, and so however this one is turned, the same rows stay selected."""
    side = map_alignment.align_maps([opened(run) for run in two], holed)[1]
    assert side.alignment is not None
    low, high = np.quantile(side.points, 0.3, axis=0), np.quantile(side.points, 0.9, axis=0)
    corners = ((low[0], low[1]), (high[0], low[1]), (high[0], high[1]), (low[0], high[1]))
    inside = ((side.points >= low) & (side.points <= high)).all(axis=1)
    map_panels._handle_event(side, holed.digest, canvas.DrawnPolygon(corners))
    assert session.compared_region is not None
    run, region = session.compared_region
    assert run == two[1]
    selected = side.selected(region, len(holed))
    np.testing.assert_array_equal(selected[side.row_positions], inside)
    alone = map_alignment.align_maps([opened(two[1])], holed)[0]
    np.testing.assert_array_equal(alone.selected(region, len(holed)), selected)
    (outline,) = side.outlines(region)
    np.testing.assert_allclose(np.min(outline, axis=0), low)
    assert side.outlines(Region((1, 0), region.polygons)) == ()


def test_a_row_is_marked_on_every_map_that_has_it(two: tuple[str, str], holed: Dataset) -> None:
    page = open_compare(*two)
    assert [shown.data["marked"] for shown in scenes(page)] == [None, None]
    assert not any(shown.data["places"] for shown in scenes(page))  # no place is marked
    page.session_state["compare.row"] = {holed.digest: 7}
    page.run()
    for side, shown in zip(
        map_alignment.align_maps([opened(run) for run in two], holed), scenes(page), strict=True
    ):
        (place,) = np.flatnonzero(side.row_positions == 7)
        np.testing.assert_allclose(shown.data["marked"], side.points[place])
    page.session_state["compare.row"] = {"another dataset": 7}
    page.run()
    assert [shown.data["marked"] for shown in scenes(page)] == [None, None]


def test_a_click_marks_a_row_and_selects_nothing(session_state: dict[str, object]) -> None:
    marked = []
    for what in (canvas.ClickedRow(1), canvas.ClickedPoint(0.0, 0.0), canvas.Cleared()):
        map_panels._handle_event(SimpleNamespace(axes=(0, 1)), "wine", what)  # type: ignore[arg-type]
        marked.append(session_state.pop("compare.row"))
    assert marked == [{"wine": 1}, {"wine": None}, {"wine": None}]
    assert not session_state


@pytest.mark.slow
def test_a_map_that_used_the_labels_is_scored_on_unseen_rows_without_a_click(
    two: tuple[str, str],
) -> None:
    page = open_compare(*two)
    assert not page.exception
    assert "Measure 1 map on held-out rows" not in [one.label for one in page.main.button]
    (score,) = [
        job for job in server.store().list("score") if job.spec.dataset == holed_digest(two)
    ]
    ended(score.id)
    page.run()
    after = scores.map_scores(server.store().get(two[1]))
    assert after.metrics["knn_accuracy"].value == pytest.approx(1, abs=0.3)
    assert after.refitted == {"knn_accuracy", "silhouette", "held_out_ece"}
    assert not after.unscored
    assert "Measure 1 map on held-out rows" not in [one.label for one in page.main.button]
    assert scores.start_score(server.store().get(two[1])) == score.id


def holed_digest(two: tuple[str, str]) -> str:
    return server.store().get(two[0]).spec.dataset


@pytest.mark.slow
def test_the_latent_page_shows_a_map_that_decodes_nothing(holed: Dataset) -> None:
    run = fitted_run(holed, "isomap", {})
    page = AppTest.from_file(MAIN, default_timeout=PATIENCE_SECONDS)
    page.query_params["run"] = run
    page.run()
    page.switch_page(navigation.PAGES["latent"]).run()
    assert not page.exception
    page.session_state["latent.point"] = {run: state_point(run)}
    page.run()
    assert not page.exception
    assert "cannot decode latent points" in texts(page)
    (behind,) = [one for one in page.selectbox if one.label == "Background"]
    assert behind.value == "nothing"
    behind.set_value("predictive sd").run()
    assert not page.exception
    assert "cannot decode latent points, so it has no sd" in texts(page)


def state_point(run: str) -> Any:
    from app.analysis.map.reconstruction import MapPoint

    return MapPoint(tuple(opened(run).mean[4].tolist()), 4)


@pytest.mark.slow
def test_the_page_opens_with_the_classic_maps_of_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATENTBOARD_HOME", str(tmp_path / "opening"))
    monkeypatch.setattr(server, "launcher", lambda: None)  # they stay in the queue
    X = np.random.default_rng(6).normal(size=(30, 4))
    run = fitted_run(Dataset.from_arrays(X, name="thirty"), "ppca", {"n_components": 3})

    def opened_again() -> AppTest:
        page = AppTest.from_file(MAIN, default_timeout=PATIENCE_SECONDS)
        page.query_params["run"] = run
        page.run()
        return page.switch_page(navigation.PAGES["compare"]).run()

    page = opened_again()
    assert not page.exception
    assert len(scenes(page)) == 1  # the run's own map does not wait
    assert "Queued, position 1." in texts(page)
    shown = page.query_params["runs"].split(",")
    models = [server.store().get(one).spec.model for one in shown]
    assert models == ["ppca", "pca", "tsne", "umap"]
    assert "There are 4 maps already" in button(page, "Isomap").help
    again = opened_again()
    assert again.query_params["runs"].split(",") == shown
    assert len(server.store().list()) == 4
    monkeypatch.setattr(reference_maps, "MOST_ROWS", 20)
    other = fitted_run(Dataset.from_arrays(X[:25], name="long"), "ppca", {"n_components": 2})
    page.query_params.clear()
    page.query_params["run"] = other
    page.switch_page(navigation.PAGES["compare"]).run()
    assert page.query_params["runs"] == other
    assert len(server.store().list()) == 5
    button(page, "PCA, t-SNE and UMAP").click().run()
    assert not page.exception
    assert len(page.query_params["runs"].split(",")) == 4
    assert len(server.store().list()) == 8


# ---- laying maps over one another ------------------------------------------------------------


def fake(points: np.ndarray, ids: list[str]) -> FittedMap:
    model = SimpleNamespace(
        embedding_=SimpleNamespace(mean=points),
        variance_shares=lambda: {"data": np.arange(points.shape[1], 0, -1.0)},
    )
    return FittedMap(ids[0], model, SimpleNamespace(row_ids=np.array(ids)))  # type: ignore[arg-type]


def whole_of(n: int) -> Dataset:
    return Dataset.from_arrays(np.arange(2.0 * n).reshape(n, 2))


def test_maps_of_different_rows_are_aligned_over_those_that_both_have() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(8, 2))
    B = np.vstack([4 * A[3:] @ np.array([[0.0, -1], [1, 0]]) + 7, [[100.0, 100.0]]])
    first, second = map_alignment.align_maps(
        [fake(A, [str(i) for i in range(1, 9)]), fake(B, ["4", "5", "6", "7", "8", "9"])],
        whole_of(9),
    )
    np.testing.assert_allclose(second.points[:5], first.points[3:], atol=1e-9)
    assert second.row_positions.tolist() == [3, 4, 5, 6, 7, 8]
    assert "disparity" in second.description


def test_a_map_of_one_dimension_is_shown_as_it_is() -> None:
    rng = np.random.default_rng(0)
    ids = [str(i) for i in range(1, 9)]
    line, plane = fake(rng.normal(size=(8, 1)), ids), fake(rng.normal(size=(8, 3)), ids)
    for pair in ((line, plane), (plane, line)):
        second = map_alignment.align_maps(pair, whole_of(8))[1]
        assert second.alignment is None
        assert "not aligned" in second.description
        np.testing.assert_array_equal(second.points, positions(pair[1].mean, second.axes))


def test_maps_without_a_row_in_common_are_not_aligned() -> None:
    rng = np.random.default_rng(0)
    pair = fake(rng.normal(size=(2, 2)), ["1", "2"]), fake(rng.normal(size=(2, 2)), ["3", "4"])
    second = map_alignment.align_maps(pair, whole_of(4))[1]
    assert second.alignment is None
    assert "too few common rows" in second.description


# ---- the table -------------------------------------------------------------------------------


def measured(**values: float | None) -> MapScores:
    found = {
        column.key: Metric(column.title, values.get(column.key), f"how <{column.key}>")
        for column in comparison_table.COLUMNS
    }
    return MapScores(found, {}, frozenset({"knn_accuracy"}), unscored=False, in_progress=False)


def test_the_best_of_each_column_is_marked_and_text_is_escaped() -> None:
    html = comparison_table.score_table_html(
        [
            ("<b>one</b>", measured(knn_accuracy=0.9, held_out_nlpd=3.0, seconds=2.0)),
            ("two", measured(knn_accuracy=0.8, held_out_nlpd=2.0, seconds=1.0)),
        ]
    )
    assert "&lt;b&gt;one" in html
    assert "<b>" not in html
    assert re.findall(r'class="best"[^>]*>([^<]*)', html) == ["0.900", "2.00"]
    assert html.count("–") == 10
    assert html.count("†") == 2
    assert "how &lt;silhouette&gt;" in html


def test_one_value_is_best_of_nothing() -> None:
    html = comparison_table.score_table_html(
        [("one", measured(knn_accuracy=0.9)), ("two", measured())]
    )
    assert "best" not in html


def test_the_score_of_the_picture_has_that_of_all_dimensions_below_it() -> None:
    shown = Metric("silhouette", 0.25, "by <the picture>", "dimensions 1 and 2")
    every = Metric("silhouette", 0.75, "by <all>", "all 10 dimensions")
    metrics = {"silhouette": every, "shown_silhouette": shown}
    found = comparison_table.map_scores(job(metrics=metrics), None, Capabilities())
    assert found.metrics["silhouette"] is shown
    assert found.overall == {"silhouette": every}
    html = comparison_table.score_table_html([("one", found), ("two", measured(silhouette=0.5))])
    assert 'title="by &lt;the picture&gt;">0.250<small title="by &lt;all&gt;">all 10: 0.750' in html
    assert re.findall(r'class="best"[^>]*>([^<]*)', html) == ["0.500"]  # the picture's counts
    old = Metric("silhouette", 0.75, "earlier", "all dimensions")
    found = comparison_table.map_scores(job(metrics={"silhouette": old}), None, Capabilities())
    html = comparison_table.score_table_html([("one", found)])
    assert '0.750<small title="earlier">all dimensions</small>' in html


LABELLED = Capabilities(labels="required", bound=True)


def job(**parts: Any) -> Any:
    rest = {"metrics": {}, "stage": "finished", "finished": True, "seconds": 1.0, "message": None}
    return SimpleNamespace(**rest | parts)


def test_labels_that_a_fit_has_seen_are_never_scored_on_its_own_map() -> None:
    seen = {"knn_accuracy": Metric("1-NN accuracy", 1.0, "by the fit")}
    found = comparison_table.map_scores(job(metrics=seen), None, LABELLED)
    assert found.metrics["knn_accuracy"].value is None
    assert "Not measured yet" in found.metrics["knn_accuracy"].protocol
    scored = {"knn_accuracy": Metric("1-NN accuracy", 0.7, "held out")}
    found = comparison_table.map_scores(job(metrics=seen), job(metrics=scored), LABELLED)
    assert found.metrics["knn_accuracy"].value == 0.7


def test_intervals_and_label_probabilities_are_measured_on_rows_not_seen() -> None:
    fills = Capabilities(labels="required", missing_cells=True, bound=True)
    scored = {
        "cells_coverage_90": Metric("coverage", 0.88, "hidden"),
        "held_out_ece": Metric("calibration error", 0.05, "held out"),
    }
    found = comparison_table.map_scores(job(), job(metrics=scored), fills)
    assert found.metrics["cells_coverage_90"].value == 0.88
    assert found.metrics["held_out_ece"].value == 0.05
    assert {"cells_coverage_90", "held_out_ece"} <= found.refitted
    for key, reason in (
        ("cells_coverage_90", "takes no missing cells"),
        ("held_out_ece", "no probabilities of labels"),
    ):
        assert (
            reason in comparison_table.map_scores(job(), None, Capabilities()).metrics[key].protocol
        )


def test_a_density_of_rows_that_the_dataset_holds_out_needs_no_scoring() -> None:
    held = {"held_out_nlpd": Metric("held-out NLPD", 4.0, "held out")}
    found = comparison_table.map_scores(job(metrics=held), None, Capabilities(bound=True))
    assert found.metrics["held_out_nlpd"].value == 4.0
    assert not found.unscored


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"finished": False}, "Being measured on held-out rows"),
        ({"message": "Too few rows."}, "Too few rows."),
    ],
)
def test_a_missing_score_has_its_reason(parts: dict[str, Any], reason: str) -> None:
    found = comparison_table.map_scores(job(), job(**parts), LABELLED)
    assert reason in found.metrics["held_out_nlpd"].protocol
    assert not found.unscored
    assert found.in_progress == ("finished" in parts)


def test_runs_of_one_name_are_told_apart_by_their_settings() -> None:
    def named(id: str, **settings: Any) -> Any:
        return SimpleNamespace(id=id, name="t-SNE", spec=JobSpec("0" * 64, "x", "tsne", settings))

    found = map_alignment.map_names(
        [named("1", perplexity=5.0, seed=0), named("2", perplexity=9.0, seed=0)]
    )
    assert found == {"1": "t-SNE (perplexity 5.0)", "2": "t-SNE (perplexity 9.0)"}
    assert map_alignment.map_names([named("1", perplexity=5.0)]) == {"1": "t-SNE"}


# ---- the legend ------------------------------------------------------------------------------


def test_the_legend_names_every_category_and_escapes_them() -> None:
    codes = np.array([0, 1, MISSING, OTHER])
    html = legend.legend_html(CategoryStyle("<i>kind", ("<u>a", "b"), codes, 3), dark=False)
    for text in ("&lt;i&gt;kind", "&lt;u&gt;a", "(missing)", "other (3 more)", "#0072B2"):
        assert text in html
    assert legend.legend_html(None, dark=False) == ""


def test_the_legend_of_numbers_has_their_range() -> None:
    html = legend.legend_html(NumericColours("height", np.array([1.5, np.nan, 20.0])), dark=True)
    assert "1.500" in html
    assert "20.00" in html
    assert "no value" in legend.legend_html(NumericColours("height", np.array([np.nan])), dark=True)
