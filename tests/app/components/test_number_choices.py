"""The page asks for the reading of columns whose numbers allow two."""

from streamlit.testing.v1 import AppTest

from app.components.table_upload import HEADERS, reading_choices
from app.services import fitted_maps, tables
from app.state.choices import ReadingChoices, Upload
from app.state.widgets import widget_key
from lvmcore.runs.store import Store
from tests.app.conftest import OpenPage, fitted_run
from tests.app.shell.test_shell import texts

CONTENT = (
    b"dose;mass;x\n1.234;1,234;-1,5\n2.345;2,345;4\n3.456;3,456;7\n4.567;4,567;2\n5.678;5,678;3\n"
)
ASKED = b"dose;mass\n1.234;2.5\n2.345;4.5\n3.456;7.5\n4.567;2.5\n5.678;3.5\n"
TWO = b"dose,mass\n1.234,2.345\n2.345,4.567\n3.456,7.891\n4.567,2.123\n5.678,3.111\n"
UPLOADS = {page: widget_key(page, "upload") for page in ("data", "new_rows")}


def upload(page: AppTest, content: bytes, name: str = "doses.csv", at: str = "data") -> AppTest:
    page.file_uploader(UPLOADS[at]).set_value((name, content, "text/csv")).run()
    assert not page.exception
    return page


def frame(page: AppTest, name: str = "dose") -> list[float]:
    found: list[float] = page.dataframe[0].value[name].tolist()
    return found


def test_a_column_with_two_readings_is_asked_with_both(open_page: OpenPage) -> None:
    page = upload(open_page("data"), ASKED)
    assert "The numbers of 1 column can be read in two ways" in texts(page.warning)
    (radio,) = page.radio
    assert radio.value is None
    options = [option.replace("\\", "") for option in radio.options]
    assert options == ["1.234 (decimal point)", "1234 (point between thousands)"]
    assert "dose" in radio.label
    assert "now read as 1.234" in radio.label.replace("\\", "")
    assert not any("could also be" in caption.value for caption in page.caption)


def test_the_choice_reads_the_file_again_and_can_be_changed(open_page: OpenPage) -> None:
    page = upload(open_page("data"), ASKED)
    page.radio[0].set_value(",").run()
    assert not page.exception
    assert frame(page) == [1234, 2345, 3456, 4567, 5678]
    assert not page.warning
    assert "as chosen" in texts(page.caption)
    page.radio[0].set_value(".").run()
    assert not page.exception
    assert frame(page) == [1.234, 2.345, 3.456, 4.567, 5.678]
    assert not page.warning


def test_all_columns_can_be_chosen_at_once(open_page: OpenPage) -> None:
    page = upload(open_page("data"), TWO)
    assert len(page.radio) == 2
    (button,) = [one for one in page.button if one.label == "Decimal comma in 2 columns"]
    button.click().run()
    assert not page.exception
    assert frame(page) == [1234, 2345, 3456, 4567, 5678]
    assert frame(page, "mass") == [2345, 4567, 7891, 2123, 3111]


def test_a_settled_table_is_not_asked_and_names_its_groups(open_page: OpenPage) -> None:
    page = upload(open_page("data"), CONTENT)
    assert not page.radio
    assert not page.warning
    assert frame(page) == [1234, 2345, 3456, 4567, 5678]
    assert "separates thousands in column 'dose'" in texts(page.caption).replace("\\", "")


def test_names_and_cells_are_shown_as_they_are(open_page: OpenPage) -> None:
    name = "![i](http://example.org/x.png)"
    page = upload(open_page("data"), ASKED.replace(b"dose", name.encode()))
    for label in (radio.label for radio in page.radio):
        assert "![i](http" not in label


def test_columns_that_are_no_features_are_named_beside_the_size(open_page: OpenPage) -> None:
    content = b"age,dose,x\n0-4,0.5,1\n5-9,1.5,5\n10-14,2.5,7\n15-19,3.25,2\n20-24,-1.5,3\n"
    page = upload(open_page("data"), content)
    (caption,) = [one.value for one in page.caption if one.value.startswith("Not used")]
    assert caption.replace("\\", "") == "Not used: age (text)."


def test_columns_are_named_where_no_feature_is_left(open_page: OpenPage) -> None:
    page = upload(open_page("data"), b"age,text\n0-4,a b\n5-9,c d\n10-14,e f\n15-19,g h\n")
    assert "Tick at least one" in texts(page.warning)
    said = texts(page.caption).replace("\\", "")
    assert "age (text)" in said


def test_a_column_that_may_be_numbers_is_named_as_such(open_page: OpenPage) -> None:
    content = b"version;x;y\n1.2;0,5;3\n1.10;-1,5;4\n1.1;2,5;7\n2.0;3,25;5\n"
    page = upload(open_page("data"), content)
    assert "version (text, may be numbers)" in texts(page.caption).replace("\\", "")
    page.radio[0].set_value(".").run()
    assert page.dataframe[0].value["version"].tolist() == [1.2, 1.1, 1.1, 2.0]


def test_nested_header_rows_can_be_chosen(open_page: OpenPage) -> None:
    page = upload(open_page("data"), b"id,height,mass\n,cm,kg\na,150,55\nb,160,66\nc,170,77\n")
    header = next(box for box in page.selectbox if box.label == "Header")
    header.set_value("rows 1 and 2")
    next(button for button in page.button if button.label == "Read again").click().run()
    assert not page.exception
    assert list(page.dataframe[0].value) == ["id", "height / cm", "mass / kg"]
    header = next(box for box in page.selectbox if box.label == "Header")
    assert header.value == "rows 1 and 2"


def test_the_form_keeps_the_decimal_marks_of_columns_that_stay(open_page: OpenPage) -> None:
    page = upload(open_page("data"), ASKED)
    page.radio[0].set_value(",").run()
    page.text_input[0].set_value("2345")
    next(button for button in page.button if button.label == "Read again").click().run()
    assert not page.exception
    assert frame(page)[0] == 1234
    header = next(box for box in page.selectbox if box.label == "Header")
    header.set_value("row 2")
    next(button for button in page.button if button.label == "Read again").click().run()
    assert not page.exception
    assert not page.error


def test_each_option_of_the_header_is_a_choice() -> None:
    for name, header in HEADERS.items():
        assert reading_choices(None, None, None, name, "") == ReadingChoices(header=header)


def test_new_rows_are_read_as_the_rows_of_the_fit(open_page: OpenPage) -> None:
    reading = ReadingChoices(column_decimals=(("dose", ","),))
    table = tables.table(Upload("doses.csv", "d" * 64, ASKED), reading)
    dataset = tables.dataset_of(table, tables.proposed_roles(table))
    run = fitted_run(dataset, "pca", {"n_components": 1})
    assert fitted_maps.stored_dataset(Store().get(run).spec.dataset).column_decimals == {
        "dose": ","
    }
    page = upload(open_page("new_rows", run=run), ASKED, "again.csv", "new_rows")
    assert not page.error
    assert "can be read in two ways" not in texts(page.warning)
    assert "'dose': '1.234' was read as 1234" in texts(page.caption).replace("\\", "")
