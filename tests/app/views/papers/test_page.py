"""The Papers page: figures beside ours, the fit behind one, and data that are fetched first."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.analysis.papers import catalogue
from app.analysis.papers.catalogue import FigureFit, FitRecipe, PaperFigure, papers
from app.formatting import number
from app.services import fitted_maps, imputation, prediction, runs, server
from app.views.papers import fit_recipes
from app.views.papers.fit_recipes import start_recipe
from lvmcore.data import paper_names, samples
from lvmcore.data.samples.paper_datasets import VARIABLE
from lvmcore.data.samples.public_datasets import MIRROR, public_dataset
from lvmcore.data.samples.samples import true_correlations
from lvmcore.models import REGISTRY
from tests.app.conftest import OpenPage, Wait, fitted_run
from tests.app.shell.test_shell import texts
from tests.data_server import serving
from tests.needs import unavailable


def shown(page: AppTest) -> str:
    """The words of the page, without the marks that keep them from being read as Markdown."""
    parts = [*page.markdown, *page.caption, *page.info, *page.error, *page.header]
    return texts(parts).replace("\\", "")


def select(page: AppTest, paper: str, table: int, row: int) -> AppTest:
    """Select a figure, as a click on a row does."""
    page.session_state["papers.row"] = {paper: (table, row)}
    return page.run()


def test_each_paper_has_its_claim_tables_and_verdicts(open_page: OpenPage) -> None:
    page = open_page("papers")
    for paper in papers():
        page.segmented_control[0].set_value(paper.key)
        page.run()
        assert not page.exception
        said = shown(page)
        assert paper.claim in said
        assert all(table.title in said for table in paper.tables)
        assert len(page.dataframe) == len(paper.tables) + 1
        verdicts = page.dataframe[0].value["Verdict"]
        assert set(verdicts) <= {"better", "equal", "within one sd", "behind"}
        assert "Select a row" in said


def test_a_figure_is_fitted_with_its_data_and_settings(open_page: OpenPage) -> None:
    page = select(open_page("papers"), "ldgd", 0, 0)
    assert not page.exception
    said = shown(page)
    assert "LDGD, moons, 10 columns" in said
    assert "accuracy: 1 in the paper" in said
    page.button(key="papers:fit").click().run()
    assert not page.exception
    assert page.title[0].value == "Fit"
    (run,) = [job for job in server.store().list() if job.spec.dataset_name == "moons10"]
    assert run.spec.model == "ldgd"
    given = dict(run.spec.parameters)
    assert (given["n_components"], given["n_inducing"]) == (10, 25)
    runs.cancel(run.id, patience=60)


def test_data_that_are_not_here_are_fetched_first_and_a_failure_is_a_sentence(
    open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = os.environ.get(VARIABLE) or unavailable(f"the raw files need {VARIABLE}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(VARIABLE)
    with serving(tmp_path / "nothing") as address:
        monkeypatch.setenv(MIRROR, address)
        page = select(open_page("papers"), "ldgd", 0, 4)
        assert "kept in" in shown(page)
        page.button(key="papers:fetch").click().run()
        assert not page.exception
        assert "DataTrn.txt could not be fetched: the server answered 404" in shown(page)
    with serving(Path(raw) / "raw") as address:
        monkeypatch.setenv(MIRROR, address)
        page.button(key="papers:fetch").click().run()
        assert not page.exception
    assert public_dataset("oil_flow_train").is_fetched
    assert page.button(key="papers:fit").label == "Fit this"


def test_data_without_a_public_address_say_what_they_need(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    page = open_page("papers")
    page.segmented_control[0].set_value("srflvm")
    page = select(page, "srflvm", 0, 4)
    assert "newsgroups" in shown(page)
    assert not page.exception
    assert "no public address" in shown(page)


def test_a_figure_of_a_target_starts_a_fit_of_its_target() -> None:
    if not os.environ.get(VARIABLE):
        unavailable(f"the papers' data are needed: set {VARIABLE} to their folder")
    sod = next(paper for paper in papers() if paper.key == "sod")
    row = sod.tables[0].rows[0]
    assert row.fit is not None
    run = start_recipe(row.model, row.fit)
    job = server.store().get(run)
    assert (job.spec.model, job.spec.target) == ("sod_regressor", "target")
    assert dict(job.spec.parameters)["n_layers"] == 2
    runs.cancel(run, patience=60)


def test_every_figure_names_models_settings_and_pages_that_exist() -> None:
    for paper in papers():
        assert paper.figures
        for figure in paper.figures:
            assert len({one.title + one.fit.data for one in figure.fits}) == len(figure.fits)
            for one in figure.fits:
                settings = {setting.name for setting in REGISTRY[one.model].parameters()}
                assert set(one.fit.settings) <= settings, (figure.title, one.title)
                target = REGISTRY.declarations[one.model].task != "map"
                assert bool(one.fit.target) == target
                assert one.fit.data in (*samples(), *paper_names())
                of_maps = ("maps", "pictures", "kernels", "learning curves")
                assert target or figure.drawing in of_maps
                if figure.drawing == "kernels":
                    assert true_correlations(one.fit.data) is not None
                assert bool(one.fit.sizes) == (figure.drawing == "learning curves")
            assert (figure.score != "") == (figure.drawing in ("scores", "learning curves"))


def figure_page(
    monkeypatch: pytest.MonkeyPatch, open_page: OpenPage, figure: PaperFigure
) -> tuple[AppTest, list[str]]:
    """The page with one figure, whose fits are done, and their runs."""
    known = (replace(papers()[0], figures=(figure,)), *papers()[1:])
    monkeypatch.setattr(catalogue, "papers", lambda: known)
    done = [fitted_run(*fit_recipes._choices(one.model, one.fit)) for one in figure.fits]
    page = open_page("papers")
    page.session_state["papers.figure"] = {known[0].key: 0}
    page.run()
    assert not page.exception
    assert not page.error
    return page, done


def charts(page: AppTest) -> list[dict[str, Any]]:
    return [json.loads(element.proto.spec) for element in page.get("plotly_chart")]


def one_fit(model: str, title: str, **recipe: Any) -> FigureFit:
    return FigureFit(model, title, FitRecipe(**recipe))


def test_a_series_is_drawn_with_a_band_and_a_third_of_its_rows_held_out(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"kernel": "matern32", "n_inducing": 8, "max_iter": 5}
    recipe = {"data": "series_kinks", "target": "y", "hold_out": 0.3333, "settings": settings}
    figure = PaperFigure(
        "A figure", "", "predict", (one_fit("svgp_regressor", "GP", **recipe),), drawing="curves"
    )
    page, (run,) = figure_page(monkeypatch, open_page, figure)
    (drawn,) = charts(page)
    counts = {t["name"]: t for t in drawn["data"]}
    assert {"mean", "90 % band", "rows of the fit", "held-out rows"} <= set(counts)
    assert int(prediction.training_rows(run).held_out.sum()) == 50
    mae = server.store().get(run).metrics["mae"].value
    assert f"mean absolute error {number(mae, 3)}" in shown(page)


def test_classes_are_drawn_over_the_plane_of_their_columns(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = {"data": "rhombus", "target": "label", "settings": {"n_inducing": 8, "max_iter": 5}}
    figure = PaperFigure(
        "A figure", "", "predict", (one_fit("svgp_classifier", "GP", **recipe),), drawing="planes"
    )
    page, (run,) = figure_page(monkeypatch, open_page, figure)
    (drawn,) = charts(page)
    assert drawn["data"][0]["type"] == "image"
    assert int((~prediction.training_rows(run).held_out).sum()) == 500
    assert sum(len(t["hovertext"]) for t in drawn["data"][1:]) == 500
    accuracy = server.store().get(run).metrics["accuracy"].value
    assert f"accuracy {number(accuracy, 3)}" in shown(page)


def test_scores_of_repeated_fits_are_on_a_line_and_their_bounds_are_drawn(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = tuple(
        replace(
            one_fit(
                "svgp_regressor",
                f"GP, seed {seed}",
                data="series_jumps",
                target="y",
                settings={"n_inducing": 8, "max_iter": 5, "kernel": "rbf", "random_state": seed},
            ),
            group="GP",
        )
        for seed in (0, 1)
    )
    figure = PaperFigure("A figure", "", "predict", fits, drawing="scores", score="rmse")
    page, done = figure_page(monkeypatch, open_page, figure)
    (drawn,) = charts(page)
    values = [server.store().get(run).metrics["rmse"].value for run in done]
    assert drawn["layout"]["yaxis"]["ticktext"] == ["GP"]
    assert drawn["data"][1]["x"] == pytest.approx([np.mean(values)])
    assert [link.label for link in page.get("page_link") if "GP" in link.label] == ["GP, seed 0"]
    page, _ = figure_page(monkeypatch, open_page, replace(figure, drawing="bounds", page="fit"))
    (drawn,) = charts(page)
    assert [trace["name"] for trace in drawn["data"]] == ["GP, seed 0", "GP, seed 1"]


def test_pictures_with_hidden_pixels_are_reconstructed(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = {"data": "digits", "rows": 80, "hidden": 0.3, "settings": {"n_components": 2}}
    figure = PaperFigure(
        "A figure", "", "impute", (one_fit("ppca", "PPCA", **recipe),), drawing="pictures"
    )
    page, (run,) = figure_page(monkeypatch, open_page, figure)
    (drawn,) = charts(page)
    assert drawn["data"][0]["type"] == "image"
    truth = fit_recipes.recipe_dataset(replace(figure.fits[0].fit, hidden=0.0))
    found = imputation.reconstructed_pictures(run, truth, 5)
    seen = ~np.isnan(found.seen)
    assert seen.mean() == pytest.approx(0.7, abs=0.08)
    np.testing.assert_array_equal(found.seen[seen], found.truth[seen])
    hidden_error = np.square(found.mean - found.truth)[~seen].mean()
    assert hidden_error < np.square(found.truth.mean(axis=0) - found.truth)[~seen].mean() * 1.5
    assert found.mean.shape == found.truth.shape == (5, 64)


def test_kernels_are_drawn_beside_the_true_one_of_each_sample(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"n_components": 2, "n_features": 8, "max_iter": 5}
    fits = tuple(
        one_fit(
            "srflvm", f"{weights} weights", data=data, settings={**settings, "weights": weights}
        )
        for data in ("s_curve", "s_curve_binary")
        for weights in ("variational", "marginal")
    )
    figure = PaperFigure("A figure", "", "latent", fits, drawing="kernels")
    page, runs_ = figure_page(monkeypatch, open_page, figure)
    drawn = charts(page)
    assert [trace["type"] for chart in drawn for trace in chart["data"]] == ["heatmap"] * 6
    said = shown(page)
    for run, one in zip(runs_, fits, strict=True):
        found = fitted_maps.kernel_recovery(run, one.fit.data)
        model = fitted_maps.model(run)
        points, X = model.spectral_.points, model.embedding_.mean
        expected = np.cos((X[3] - X[70]) @ points.T).mean()
        assert found.found[3, 70] == pytest.approx(expected)
        np.testing.assert_array_equal(found.true, true_correlations(one.fit.data))
        assert f"relative error {number(found.error, 3)}" in said


@pytest.mark.slow
def test_a_figure_is_drawn_from_fits_that_it_starts(open_page: OpenPage, wait: Wait) -> None:
    page = open_page("papers")
    page.session_state["papers.figure"] = {"srflvm": 0}
    page.segmented_control[0].set_value("srflvm").run()
    assert not page.exception
    assert "Figure 3: an S recovered" in shown(page)
    earlier = {job.id for job in server.store().list()}
    page.button(key="papers:figure:start").click().run()
    assert not page.exception
    assert "of 3 fits done" in shown(page)
    fits = [job for job in server.store().list() if job.id not in earlier]
    assert [job.spec.dataset_name for job in fits] == ["s_curve"] * 3
    for job in fits:
        assert wait(job.id).status == "done"
    page.run()
    assert not page.exception
    assert len(page.get("plotly_chart")) == 3
    assert {link.label for link in page.get("page_link")} >= {"SRFLVM", "GPLVM-SVI"}
