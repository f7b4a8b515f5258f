"""The papers' figures beside the stored measurements."""

from pathlib import Path

import pytest

from app.analysis.papers.catalogue import PaperRow, PaperTable, papers
from app.analysis.papers.measured_figures import (
    Measurement,
    compare,
    comparison_table,
    figure_text,
    read_measurements,
    summary,
)
from lvmcore.data import paper_names, samples
from lvmcore.models import REGISTRY
from lvmcore.parameters import Parameter

TABLES = [(paper.key, table) for paper in papers() for table in paper.tables]


def settings_of(key: str) -> dict[str, Parameter]:
    return {setting.name: setting for setting in REGISTRY[key].parameters()}


@pytest.mark.parametrize("table", [table for _, table in TABLES], ids=[t.title for _, t in TABLES])
def test_every_figure_names_a_model_data_and_a_stored_measurement(table: PaperTable) -> None:
    stored = read_measurements()
    for row in table.rows:
        assert (table.benchmark, row.measured) in stored, row.measured
        if row.fit is None:
            continue
        assert row.fit.data in (*samples(), *paper_names())
        assert (REGISTRY.declarations[row.model].task == "map") == (row.fit.target == "")
        assert set(row.fit.settings) <= set(settings_of(row.model))
    assert all(row.model in REGISTRY for row in table.rows)


def test_every_model_of_a_paper_exists_and_every_paper_has_a_fit() -> None:
    assert [paper.key for paper in papers()] == ["ldgd", "sod", "qep", "srflvm"]
    for paper in papers():
        assert set(paper.models) <= set(REGISTRY)
    rows = [row for paper in papers() for table in paper.tables for row in table.rows]
    assert {row.data for row in rows if row.fit is None} == {
        "concrete, any depth",
        "red wine, any depth",
        *(f"CIFAR grey, k = {k}" for k in range(2, 11)),
    }


def test_a_long_title_is_its_abbreviation() -> None:
    rows = [PaperRow(key, "some data", 1.0, "no such measurement") for key in ("a", "b", "c")]
    found = compare(PaperTable("t", "m", True, "b", "p", "h", tuple(rows)), {})
    titles = {"a": "Deep sigma point process (DSPP)", "b": "Deep GP on a subset (SoD)"}
    shown = comparison_table(found, titles)["Model"]
    assert list(shown) == ["DSPP", "Deep GP on a subset (SoD)", "c"]


def measured(value: float, spread: float | None) -> Measurement:
    return Measurement(value, spread, {}, "", "")


@pytest.mark.parametrize(
    ("value", "spread", "higher", "verdict"),
    [
        (0.96, 0.01, True, "better"),
        (0.95, None, True, "equal"),
        (0.945, 0.01, True, "within one sd"),
        (0.93, 0.01, True, "behind"),
        (0.949, None, True, "behind"),
        (0.93, 0.01, False, "better"),
        (0.955, 0.01, False, "within one sd"),
        (0.97, 0.01, False, "behind"),
    ],
)
def test_the_verdict_minds_the_direction_and_the_error(
    value: float, spread: float | None, higher: bool, verdict: str
) -> None:
    row = PaperRow("ldgd", "iris", 0.95, "a figure")
    table = PaperTable("T", "accuracy", higher, "bench", "", "", (row,))
    (found,) = compare(table, {("bench", "a figure"): measured(value, spread)})
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("value", "spread", "paper_sd", "verdict"),
    [
        (0.94, None, 0.02, "within one sd"),
        (0.94, 0.001, 0.02, "within one sd"),
        (0.94, 0.02, 0.001, "within one sd"),
        (0.92, 0.01, 0.02, "behind"),
    ],
)
def test_the_error_is_the_larger_of_the_papers_and_ours(
    value: float, spread: float | None, paper_sd: float, verdict: str
) -> None:
    row = PaperRow("ldgd", "iris", 0.95, "a figure", paper_sd=paper_sd)
    table = PaperTable("T", "accuracy", True, "bench", "", "", (row,))
    (found,) = compare(table, {("bench", "a figure"): measured(value, spread)})
    assert found.verdict == verdict


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [
        (2.4312, 0.123, "2.43 ± 0.12"),
        (0.86266, 0.00234, "0.8627 ± 0.0023"),
        (128.4, 23.1, "128 ± 23"),
        (3.10621, None, "3.106"),
    ],
)
def test_a_figure_is_given_to_the_second_digit_of_its_sd(
    value: float, spread: float | None, text: str
) -> None:
    assert figure_text(measured(value, spread)) == text


def test_the_other_scores_of_the_same_fits_are_read() -> None:
    name = "tic_tac_toe: deep Q-EP, one hidden layer, accuracy, 10 seeds"
    assert "AUC" in read_measurements()["qep", name].reference


def test_every_figure_that_is_behind_says_what_was_tried() -> None:
    stored = read_measurements()
    behind = [
        figure
        for _, table in TABLES
        for figure in compare(table, stored)
        if figure.verdict == "behind"
    ]
    assert behind
    assert all(figure.row.remark for figure in behind)


def test_a_figure_without_a_measurement_is_said_to_be_one(tmp_path: Path) -> None:
    row = PaperRow("ldgd", "iris", 0.95, "a figure")
    table = PaperTable("T", "accuracy", True, "bench", "", "", (row, row))
    stored = read_measurements(tmp_path / "none.json")
    assert stored == {}
    found = compare(table, stored)
    frame = comparison_table(found, {"ldgd": "LDGD"})
    assert frame["Paper"].tolist() == [0.95, 0.95]
    assert frame["Here"].isna().all()
    assert summary(found) == "2 figures: 2 not measured."
