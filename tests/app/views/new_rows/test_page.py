"""The New rows page: empty, checking a table, placing it, and looking at what came of it."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app import navigation
from app.services import fitted_maps, placement, server, tables
from app.state.choices import ReadingChoices, SampleChoice
from app.state.widgets import widget_key
from app.views.new_rows import placement_map
from lvmcore import cli
from tests.app.conftest import MAIN, PATIENCE_SECONDS, OpenPage, Wait, fitted_run, follow

GONE = "e" * 32
UPLOAD = widget_key("new_rows", "upload")


def fit(sample: str, model: str, **settings: Any) -> str:
    table = tables.table(SampleChoice(sample), ReadingChoices())
    dataset = tables.dataset_of(table, tables.proposed_roles(table))
    return fitted_run(dataset, model, settings)


@pytest.fixture(scope="module")
def labelled(shared_home: Path) -> str:
    """A run that has ended: LDGD on iris."""
    return fit("iris", "ldgd", n_components=2, max_iter=40)


@pytest.fixture(scope="module")
def strict(shared_home: Path) -> str:
    """A run of a model that needs every cell."""
    return fit("iris", "lda")


@pytest.fixture(scope="module")
def mapped(shared_home: Path) -> str:
    """A run of a method that places no new rows."""
    return fit("iris", "isomap")


@pytest.fixture
def iris() -> pd.DataFrame:
    return (
        tables.table(SampleChoice("iris"), ReadingChoices()).frame.iloc[::3].reset_index(drop=True)
    )


def upload(page: AppTest, frame: pd.DataFrame, name: str = "second.csv") -> AppTest:
    content = frame.to_csv(index=False).encode()
    return page.file_uploader(UPLOAD).set_value((name, content, "text/csv")).run()


def texts(page: AppTest) -> str:
    found = (*page.main.markdown, *page.main.caption, *page.main.warning, *page.main.error)
    return "\n".join(str(element.value).replace("\\", "") for element in found)


def button(page: AppTest, label: str) -> Any:
    (found,) = [element for element in page.main.button if element.label == label]
    return found


def labels(page: AppTest) -> list[str]:
    return [element.label for element in page.main.button]


def box(page: AppTest, label: str) -> Any:
    (found,) = [element for element in page.selectbox if element.label == label]
    return found


def traces(page: AppTest) -> list[dict[str, Any]]:
    (chart,) = [json.loads(element.proto.spec) for element in page.get("plotly_chart")]
    found: list[dict[str, Any]] = chart["data"]
    return found


def numbers(array: Any) -> np.ndarray:
    """An array of a figure, which plotly sends as text."""
    if isinstance(array, dict):
        return np.frombuffer(base64.b64decode(array["bdata"]), dtype=array["dtype"])
    return np.asarray(array)


def place(page: AppTest, wait: Wait) -> AppTest:
    button(page, "Infer positions").click().run()
    assert not page.exception
    assert wait(page.query_params["rows"]).status == "done"
    return page.run()


# ---- before a table is there -----------------------------------------------------------------


def test_without_a_run_it_says_what_it_is_for(open_page: OpenPage) -> None:
    page = open_page("new_rows")
    assert not page.exception
    assert "takes another table with the same columns" in texts(page)
    assert labels(page) == ["Fit the sample"]


def test_a_run_that_is_gone_is_said_to_be_gone(open_page: OpenPage) -> None:
    page = open_page("new_rows", run=GONE)
    assert not page.exception
    assert "does not exist" in page.warning[0].value


def test_a_method_that_places_no_rows_says_so(open_page: OpenPage, mapped: str) -> None:
    page = open_page("new_rows", run=mapped)
    assert not page.exception
    assert "cannot infer the positions of new rows" in page.info[0].value
    assert not page.get("file_uploader")


def test_the_latent_page_leads_here(open_page: OpenPage, labelled: str) -> None:
    page = open_page("latent", run=labelled)
    follow(page, "New rows")
    assert not page.exception
    assert page.title[0].value == "New rows"


# ---- checking --------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_matched_ignored_and_suspicious_is_on_one_screen(
    open_page: OpenPage, labelled: str, iris: pd.DataFrame
) -> None:
    names = list(iris.columns)
    frame = iris.iloc[:, ::-1].assign(batch="b1")
    frame[names[0]] *= 10
    frame = frame.rename(columns={names[1]: names[1].upper()})
    page = upload(open_page("new_rows", run=labelled), frame)
    assert not page.exception
    said = texts(page)
    assert "second: 50 rows, 4 of 4 columns found" in said
    assert f"'{names[0]}' looks 10 times larger" in said
    assert "No value is converted" in said
    assert "Not used, since the model has no such features: 'batch'" in said
    shown = page.dataframe[0].value.set_index("column of the fit")
    assert shown.loc[names[1], "in this file"] == names[1].upper()
    assert shown["remark"].tolist() == ["other units?", "other case or spacing", "", ""]
    assert shown.loc[names[0], "median here"] == frame[names[0]].median()
    assert shown.loc[names[0], "in the fit"] == pytest.approx(5.8)
    assert box(page, "Label to compare with").value == "species"
    assert not button(page, "Infer positions").disabled


@pytest.mark.slow
def test_a_missing_column_is_named_and_nothing_is_lost(
    open_page: OpenPage, strict: str, iris: pd.DataFrame, wait: Wait
) -> None:
    name = iris.columns[2]
    frame = iris.rename(columns={name: f"{name} of all"})
    page = upload(open_page("new_rows", run=strict), frame)
    assert not page.exception
    assert f"lacks '{name}'" in page.error[0].value.replace("\\", "")
    assert f"may be called '{name} of all' here" in page.error[0].value.replace("\\", "")
    assert "Infer positions" not in labels(page)
    first = page.dataframe[0].value.iloc[0]
    assert first["column of the fit"] == name
    assert first["remark"].startswith("missing")
    place(upload(page, iris), wait)
    assert "50 rows" in texts(page)


@pytest.mark.slow
def test_a_missing_column_is_missing_cells_where_the_model_takes_those(
    open_page: OpenPage, labelled: str, iris: pd.DataFrame, wait: Wait
) -> None:
    name = iris.columns[2]
    page = upload(open_page("new_rows", run=labelled), iris.drop(columns=name))
    assert not page.exception
    assert f"Not there, so missing in every row: '{name}'" in texts(page)
    assert "3 of 4 columns found" in texts(page)
    place(page, wait)
    assert not page.exception
    assert "50 rows" in texts(page)
    model = fitted_maps.model(labelled)
    X = iris.iloc[:, :4].assign(**{name: np.nan})
    expected = model.transform(X)
    frame = placement.placements(page.query_params["rows"])
    np.testing.assert_allclose(frame[["z1", "z2"]], expected, atol=1e-6)
    assert f"Not there, so missing in every row: '{name}'" in texts(page)


@pytest.mark.slow(quick=["-empty"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"sepal length,sepal width\n", "row"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(
    open_page: OpenPage, labelled: str, content: bytes, said: str
) -> None:
    page = open_page("new_rows", run=labelled)
    page.file_uploader(UPLOAD).set_value(("bad.csv", content, "text/csv")).run()
    assert not page.exception
    assert said in page.error[0].value
    assert page.query_params["run"] == labelled


@pytest.mark.slow
def test_text_in_a_column_of_numbers_names_its_row(
    open_page: OpenPage, labelled: str, iris: pd.DataFrame
) -> None:
    frame = iris.astype(object)
    frame.iloc[:, 0] = [f"about {value}" for value in frame.iloc[:, 0]]
    page = upload(open_page("new_rows", run=labelled), frame)
    assert not page.exception
    assert "row 1 has 'about" in page.error[0].value.replace("\\", "")


@pytest.mark.slow
def test_rows_without_a_cell_are_announced(
    open_page: OpenPage, strict: str, iris: pd.DataFrame, wait: Wait
) -> None:
    frame = iris.copy()
    frame.iloc[2, 1] = np.nan
    page = upload(open_page("new_rows", run=strict), frame)
    assert "1 row will be left out" in texts(page)
    place(page, wait)
    assert "49 rows" in texts(page)
    assert "1 row left out: a cell is missing, first in row 3" in texts(page)


@pytest.mark.slow
def test_a_table_can_be_read_in_another_way(
    open_page: OpenPage, labelled: str, iris: pd.DataFrame
) -> None:
    content = iris.to_csv(index=False, sep=";", decimal=",").encode()
    page = open_page("new_rows", run=labelled)
    page.file_uploader(UPLOAD).set_value(("second.csv", content, "text/csv")).run()
    assert "4 of 4 columns found" in texts(page)
    box(page, "Decimal mark").set_value(".")
    button(page, "Read again").click().run()
    assert not page.exception
    assert "cannot be a feature" in page.error[0].value
    box(page, "Decimal mark").set_value(",")
    button(page, "Read again").click().run()
    assert "4 of 4 columns found" in texts(page)


# ---- placed ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_placed_rows_lie_where_the_model_puts_them(
    open_page: OpenPage, labelled: str, iris: pd.DataFrame, wait: Wait
) -> None:
    page = place(upload(open_page("new_rows", run=labelled), iris), wait)
    assert not page.exception
    model = fitted_maps.model(labelled)
    where = model.transform(iris.iloc[:, :4])
    drawn = [trace for trace in traces(page) if str(trace["name"]).startswith("new: ")]
    assert {trace["name"] for trace in drawn} <= {f"new: {name}" for name in model.classes_}
    axes = [int(box(page, title).value) for title in ("Horizontal", "Vertical")]
    points = np.vstack([np.column_stack([numbers(t["x"]), numbers(t["y"])]) for t in drawn])
    order = np.lexsort(points.T)
    expected = where[:, axes]
    np.testing.assert_allclose(points[order], expected[np.lexsort(expected.T)], atol=1e-6)
    assert any(trace["name"] == "ellipses" for trace in traces(page))
    said = texts(page)
    assert "accuracy" in said
    assert "expected calibration error" in said
    assert page.dataframe[0].value["row_id"].tolist() == [str(i + 1) for i in range(50)]


@pytest.mark.slow
def test_a_refresh_finds_the_placed_rows_again(
    open_page: OpenPage, labelled: str, iris: pd.DataFrame, wait: Wait
) -> None:
    page = place(upload(open_page("new_rows", run=labelled), iris.drop(columns="species")), wait)
    rows = page.query_params["rows"]
    again = AppTest.from_file(MAIN)
    again.default_timeout = PATIENCE_SECONDS
    again.query_params["run"], again.query_params["rows"] = labelled, rows
    again.run()
    again.switch_page(navigation.PAGES["new_rows"])
    again.query_params["run"], again.query_params["rows"] = labelled, rows
    again.run()
    assert not again.exception
    assert "50 rows" in texts(again)
    assert "accuracy" not in texts(again)
    assert again.query_params["rows"] == rows
    assert "Back to the columns" not in labels(again)


@pytest.mark.slow
def test_the_slider_decides_which_rows_are_decided(
    open_page: OpenPage, labelled: str, iris: pd.DataFrame, wait: Wait
) -> None:
    page = place(upload(open_page("new_rows", run=labelled), iris), wait)
    page.slider[0].set_value(1.0).run()
    assert not page.exception
    assert "50 not decided" in texts(page)
    assert {t["name"] for t in traces(page) if str(t["name"]).startswith("new")} == {
        "new: not decided"
    }
    frame = placement.placements(page.query_params["rows"])
    content = placement.placements_csv(page.query_params["rows"], 1.0)
    assert not pd.read_csv(io.BytesIO(content))["decided"].any()
    control = page.get("button_group")[0]
    assert any("not decided (50)" in option.content for option in control.proto.options)
    assert len(frame) == 50


@pytest.mark.slow
def test_unusual_rows_are_ringed_and_listed(
    open_page: OpenPage, labelled: str, iris: pd.DataFrame, wait: Wait
) -> None:
    frame = iris.copy()
    frame.iloc[0, :4] = [30.0, 25.0, 28.0, 19.0]
    page = place(upload(open_page("new_rows", run=labelled), frame), wait)
    flagged = placement.placements(page.query_params["rows"])["unusual"] >= 0.99
    assert flagged[0]
    (ring,) = [trace for trace in traces(page) if trace["name"] == "unusual"]
    assert len(numbers(ring["x"])) == flagged.sum()
    assert f"{flagged.sum()} unusual" in texts(page)
    box(page, "Colour").set_value("how unusual").run()
    assert not page.exception
    (new,) = [trace for trace in traces(page) if trace["name"] == "new rows"]
    assert new["marker"]["colorbar"]["title"]["text"].startswith("more unusual than")


@pytest.mark.slow(quick=["parquet"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_file_is_what_lvmcore_transform_writes(
    open_page: OpenPage,
    labelled: str,
    iris: pd.DataFrame,
    wait: Wait,
    tmp_path: Path,
    ending: str,
) -> None:
    frame = iris.iloc[:, ::-1].assign(batch="b1")
    page = place(upload(open_page("new_rows", run=labelled), frame), wait)
    export = placement.placements_csv if ending == "csv" else placement.placements_parquet
    content = export(page.query_params["rows"], 0.5)
    source, out = tmp_path / "second.csv", tmp_path / f"out.{ending}"
    frame.to_csv(source, index=False)
    folder = server.store().job_folder(labelled).path
    assert cli.main(["transform", str(folder), str(source), "--out", str(out)]) == 0
    read = pd.read_csv if ending == "csv" else pd.read_parquet
    expected = read(out)
    assert {"label", "decided", "unusual", "probability of setosa"} <= set(expected)
    pd.testing.assert_frame_equal(read(io.BytesIO(content)), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_placing_the_same_rows_twice_is_done_once(
    open_page: OpenPage, labelled: str, iris: pd.DataFrame, wait: Wait
) -> None:
    page = place(upload(open_page("new_rows", run=labelled), iris), wait)
    first = page.query_params["rows"]
    button(page, "Back to the columns").click().run()
    assert "rows" not in page.query_params
    button(page, "Infer positions").click().run()
    assert page.query_params["rows"] == first


def test_rows_of_another_run_are_not_shown(
    open_page: OpenPage, labelled: str, fitted: str, iris: pd.DataFrame, wait: Wait
) -> None:
    page = place(upload(open_page("new_rows", run=labelled), iris), wait)
    page.query_params["run"] = fitted
    page.run()
    assert not page.exception
    assert "rows" not in page.query_params
    assert "lacks 'alcohol'" in texts(page)


@pytest.mark.slow
def test_a_model_without_labels_places_rows_all_the_same(
    open_page: OpenPage, fitted: str, wait: Wait
) -> None:
    frame = tables.table(SampleChoice("wine"), ReadingChoices()).frame.iloc[::5]
    page = place(upload(open_page("new_rows", run=fitted), frame), wait)
    assert not page.exception
    assert not page.slider
    assert box(page, "Colour").options == ["how unusual", "own label", "one colour"]
    for colour in ("own label", "one colour"):
        box(page, "Colour").set_value(colour).run()
        assert not page.exception


def test_rows_that_were_deleted_are_said_to_be_gone(open_page: OpenPage, labelled: str) -> None:
    page = open_page("new_rows", run=labelled)
    page.query_params["rows"] = GONE
    page.run()
    assert not page.exception
    assert "new rows in the address do not exist" in texts(page)


@pytest.mark.parametrize(
    ("value", "shown"), [(1.0, "100 %"), (0.9986, "99.8 %"), (0.9999, "99.9 %"), (0.0, "0 %")]
)
def test_a_share_is_never_rounded_up(value: float, shown: str) -> None:
    assert placement_map.percentage(value) == shown
