"""The Data page: samples, uploads good and bad, ways of reading, columns."""

import gzip
import io

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app import navigation
from app.state.widgets import widget_key
from tests.app.conftest import OpenPage, follow, ways
from tests.app.shell.test_shell import texts
from tests.unit.lvmcore.data.readers.workbooks import Cell, workbook

UPLOAD = widget_key("data", "upload")
CSV = b"name,height,weight,kind\na,1.5,10,x\nb,1.7,12,y\nc,1.9,11,x\nd,1.2,9,y\n"


def upload(page: AppTest, name: str, content: bytes) -> AppTest:
    page.file_uploader(UPLOAD).set_value((name, content, "text/csv")).run()
    return page


def foot(page: AppTest) -> str:
    return texts(page.sidebar.text) + texts(page.sidebar.caption)


def test_a_first_visit_finds_a_sample_ready_to_fit(open_page: OpenPage) -> None:
    page = open_page("data")
    said = texts(page.markdown)
    assert "178 rows" in said
    assert "label with 3 classes" in said
    assert len(page.dataframe[0].value) == 8
    follow(page, "Fit a model")
    assert page.title[0].value == "Fit"


def test_another_sample_can_be_picked(open_page: OpenPage) -> None:
    page = open_page("data")
    keys = [box.key for box in page.selectbox if box.key and "sample" in box.key]
    page.selectbox(keys[0]).set_value("iris").run()
    assert not page.exception
    assert "iris" in foot(page)
    assert "150 rows" in foot(page)


def rows() -> list[list[Cell]]:
    return [list(row.split(",")) for row in CSV.decode().splitlines()]


def npz() -> bytes:
    sink = io.BytesIO()
    np.savez(sink, X=np.arange(8.0).reshape(4, 2) ** 2, y=np.array(["u", "v", "u", "v"]))
    return sink.getvalue()


def choose(page: AppTest, label: str, value: object) -> None:
    next(box for box in page.selectbox if box.label == label).set_value(value)


def read_again(page: AppTest) -> AppTest:
    return next(button for button in page.button if button.label == "Read again").click().run()


def parquet() -> bytes:
    sink = io.BytesIO()
    pd.read_csv(io.BytesIO(CSV)).to_parquet(sink)
    return sink.getvalue()


@pytest.mark.slow(quick=["animals.csv-content7"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("animals.csv", CSV),
        ("animals.tsv", CSV.replace(b",", b"\t")),
        ("animals.csv.gz", gzip.compress(CSV, mtime=0)),
        ("animals.parquet", parquet()),
        ("animals.xlsx", workbook({"May": rows()})),
        (
            "animals.jsonl",
            pd.read_csv(io.BytesIO(CSV)).to_json(orient="records", lines=True).encode(),
        ),
        ("animals.npz", npz()),
        ("animals.csv", CSV.decode().replace(",", ";").replace(".", ",").encode("utf-16")),
    ],
)
def test_a_table_is_uploaded_and_used(open_page: OpenPage, name: str, content: bytes) -> None:
    page = upload(open_page("data"), name, content)
    assert not page.exception
    assert not page.error
    assert "animals" in foot(page)
    assert "4 rows" in foot(page)
    page.switch_page(navigation.PAGES["fit"]).run()
    assert "animals" in texts(page.markdown)


@pytest.mark.slow(quick=["objects.npz-content6"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.csv", b""),
        ("picture.csv", b"\x89PNG\r\n\x1a\n" + bytes(64)),
        ("header.csv", b"a,b,c\n"),
        ("broken.csv.gz", gzip.compress(CSV, mtime=0)[:-12]),
        ("bomb.csv.gz", gzip.compress(b"0,0\n" * (1 << 23), mtime=0)),
        ("cut.xlsx", workbook({"May": rows()})[:-30]),
        ("objects.npz", npz()[:200]),
    ],
)
def test_a_bad_file_is_explained_and_the_data_stay(
    open_page: OpenPage, name: str, content: bytes
) -> None:
    page = upload(upload(open_page("data"), "animals.csv", CSV), name, content)
    assert not page.exception
    assert len(page.error) == 1
    assert "Traceback" not in page.error[0].value
    assert "animals" in foot(page)
    upload(page, "animals.csv", CSV)
    assert not page.error


@pytest.mark.slow
def test_a_table_can_be_read_in_another_way(open_page: OpenPage) -> None:
    page = upload(open_page("data"), "n.csv", b"a,b\n1,-999\n2,5\n3,7\n4,8\n")
    page.text_input[0].set_value("-999")
    read_again(page)
    assert not page.exception
    said = texts(page.caption)
    assert "1 row with missing cells" in said


@pytest.mark.slow
def test_another_sheet_of_a_workbook_can_be_chosen(open_page: OpenPage) -> None:
    content = workbook({"Cover": [], "May": rows(), "June": rows()[:3]})
    page = upload(open_page("data"), "animals.xlsx", content)
    assert "4 rows" in foot(page)
    assert "June" in texts(page.caption)
    choose(page, "Sheet", "June")
    read_again(page)
    assert not page.exception
    assert "2 rows" in foot(page)
    labels = [box.label for box in page.selectbox]
    assert "Delimiter" not in labels
    assert next(box for box in page.selectbox if box.label == "Sheet").value == "June"


@pytest.mark.slow
def test_a_workbook_whose_first_sheet_is_no_table_can_be_read(open_page: OpenPage) -> None:
    content = workbook({"Cover": [["Our animals"]], "May": rows()})
    page = upload(open_page("data"), "animals.xlsx", content)
    assert len(page.error) == 1
    next(field for field in page.text_input if field.label == "Sheet").set_value("May")
    read_again(page)
    assert not page.error
    assert "4 rows" in foot(page)


@pytest.mark.slow
def test_header_and_thousands_mark_can_be_said(open_page: OpenPage) -> None:
    page = upload(open_page("data"), "n.csv", b"u;v\na;b\n1.234;1\n2.345;7\n3.456;4\n")
    choose(page, "Header", "row 2")
    choose(page, "Thousands mark", ".")
    read_again(page)
    assert not page.exception
    assert "3 rows" in foot(page)
    assert page.dataframe[0].value["a"].tolist() == [1234, 2345, 3456]
    assert next(box for box in page.selectbox if box.label == "Header").value == "row 2"


def test_names_of_columns_are_shown_as_they_are(open_page: OpenPage) -> None:
    name = "![i](http://example.org/x.png)"
    content = f"{name},b,{name} 2\n1,2,x\n3,4,\n5,7,\n".encode()
    page = upload(open_page("data"), "n.csv", content)
    assert not page.exception
    for said in (*page.markdown, *page.caption, *page.error, *page.warning):
        assert "![i](http" not in said.value


def test_a_column_is_unticked_and_left_out(open_page: OpenPage) -> None:
    page = upload(open_page("data"), "animals.csv", CSV)
    editor = page.data_editor[0]
    row = editor.value["Column"].tolist().index("weight")
    edits = {"edited_rows": {row: {"Feature": False}}, "added_rows": [], "deleted_rows": []}
    page.session_state[str(editor.key)] = edits
    page.run()
    assert not page.exception
    assert "1 feature" in foot(page)
    assert "weight" in texts(page.caption)


def test_without_a_feature_there_is_a_hint_and_no_way_on(open_page: OpenPage) -> None:
    page = upload(open_page("data"), "words.csv", b"a,b\nx,some long text\ny,and more\nz,end\n")
    assert not page.exception
    assert "Tick at least one" in texts(page.warning)
    assert not ways(page)


def test_the_data_of_a_run_follow_its_link(open_page: OpenPage, fitted: str) -> None:
    page = open_page("data", run=fitted)
    assert "the data of the open run" in texts(page.markdown)
    assert "178 rows" in foot(page)
