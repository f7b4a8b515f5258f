"""What is chosen on the Data page: transforms, one-hot, rows held out; and that it stays."""

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app import navigation
from app.services import tables
from lvmcore.data import Dataset, DateScale
from tests.app.conftest import OpenPage
from tests.app.shell.test_shell import texts
from tests.app.views.data.test_page import foot, upload


@pytest.fixture(scope="module")
def clinic() -> bytes:
    """Ninety rows: an amount, a change with cells below −1, a category with gaps, dates, text."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {
            "amount": np.exp(rng.normal(3, 1, 90)).round(2),
            "change": rng.normal(-1, 2, 90).round(2),
            "tissue": np.tile(["liver", "lung", "skin"], 30),
            "seen": pd.date_range("2024-01-01", periods=90).strftime("%Y-%m-%d"),
            "group": np.repeat(["ill", "well"], 45),
        }
    )
    frame.loc[::9, "tissue"] = None
    return frame.to_csv(index=False).encode()


def edit(page: AppTest, row: int, **cells: object) -> AppTest:
    """Edit cells of a column's row, as the browser reports it."""
    editor = page.data_editor[0]
    edits = {"edited_rows": {row: cells}, "added_rows": [], "deleted_rows": []}
    page.session_state[str(editor.key)] = edits
    return page.run()


def listed(page: AppTest, column: str) -> list[object]:
    return page.data_editor[0].value[column].tolist()


def hold_out(page: AppTest, per_cent: int) -> AppTest:
    (field,) = [field for field in page.number_input if field.label.startswith("Hold out")]
    return field.set_value(per_cent).run()


def used(page: AppTest) -> Dataset:
    """The dataset that the page would fit."""
    source, reading = page.session_state["source"], page.session_state["reading"]
    table = tables.table(source, reading)
    (types,) = page.session_state["types"].values()
    (roles,) = page.session_state["roles"].values()
    return tables.dataset_of(table.with_types(dict(types.chosen)), roles)


def test_transforms_and_rows_held_out_reach_the_fit(open_page: OpenPage, clinic: bytes) -> None:
    page = upload(open_page("data"), "clinic.csv", clinic)
    assert listed(page, "Transform") == ["none", "none", "one-hot", "none", "none"]
    edit(page, 0, Transform="log(1 + x)")
    edit(page, 2, Feature=True)
    hold_out(page, 20)
    assert not page.exception
    assert not page.error
    said = texts(page.markdown)
    assert "90 rows, 5 features, label with 2 classes, 18 rows held out" in said
    dataset = used(page)
    assert dataset.log1p.tolist() == [True, False, False, False, False]
    assert dataset.held_out.sum() == 18
    assert dataset.feature_names[2:] == ("tissue = liver", "tissue = lung", "tissue = skin")
    assert "seen \\(date, not ticked\\)" in texts(page.caption)


def test_what_was_chosen_is_there_after_another_page(open_page: OpenPage, clinic: bytes) -> None:
    page = upload(open_page("data"), "clinic.csv", clinic)
    edit(page, 0, Transform="log(1 + x)")
    edit(page, 1, Type="text")
    edit(page, 2, Feature=True)
    hold_out(page, 30)
    before = used(page).digest
    page.switch_page(navigation.PAGES["fit"]).run()
    assert "27 rows held out" in texts(page.markdown)
    page.switch_page(navigation.PAGES["data"]).run()
    assert not page.exception
    assert listed(page, "Feature") == [True, False, True, False, False]
    assert listed(page, "Type")[1] == "text"
    assert listed(page, "Transform") == ["log(1 + x)", "none", "one-hot", "none", "none"]
    assert "27 rows held out" in texts(page.markdown)
    assert used(page).digest == before


def click(page: AppTest, label: str) -> AppTest:
    (button,) = [one for one in page.main.button if one.label == label]
    assert not button.disabled
    return button.click().run()


def state(page: AppTest) -> tuple[object, ...]:
    """What the page shows of the columns, and what it would fit."""
    assert not page.exception
    assert not page.error
    (types,) = page.session_state["types"].values()
    (roles,) = page.session_state["roles"].values()
    boxes = [box.value for box in page.main.selectbox if box.label in ("Label", "Row id")]
    (further,) = [box.value for box in page.main.multiselect if box.label == "Further labels"]
    (held_out,) = [box.value for box in page.number_input if box.label.startswith("Hold out")]
    return roles, types.chosen, boxes, further, held_out, used(page).digest


def test_every_change_of_the_columns_is_undone_and_redone(
    open_page: OpenPage, clinic: bytes
) -> None:
    page = upload(open_page("data"), "clinic.csv", clinic)
    states = [state(page)]
    for change in (
        lambda: edit(page, 0, Transform="log(1 + x)"),
        lambda: edit(page, 1, Type="text"),
        lambda: edit(page, 2, Feature=True),
        lambda: hold_out(page, 30),
        lambda: _choose(page, "Label", "tissue"),
        lambda: _choose(page, "Label", "none"),
    ):
        change()
        states.append(state(page))
    assert len({repr(one) for one in states}) == len(states)
    for before in reversed(states[:-1]):
        click(page, "Undo")
        assert state(page) == before
    assert next(one for one in page.main.button if one.label == "Undo").disabled
    assert listed(page, "Transform") == ["none", "none", "one-hot", "none", "none"]
    for after in states[1:]:
        click(page, "Redo")
        assert state(page) == after
    assert next(one for one in page.main.button if one.label == "Redo").disabled
    assert listed(page, "Transform")[0] == "log(1 + x)"
    assert listed(page, "Type")[1] == "text"
    click(page, "Undo")
    page.switch_page(navigation.PAGES["fit"]).run()
    page.switch_page(navigation.PAGES["data"]).run()
    assert state(page) == states[-2]
    click(page, "Undo")
    assert state(page) == states[-3]
    hold_out(page, 10)
    assert next(one for one in page.main.button if one.label == "Redo").disabled
    click(page, "Undo")
    assert state(page) == states[-3]


def _choose(page: AppTest, label: str, option: str) -> AppTest:
    (box,) = [box for box in page.main.selectbox if box.label == label]
    return box.select(option).run()


def test_a_transform_that_the_cells_do_not_allow_is_explained(
    open_page: OpenPage, clinic: bytes
) -> None:
    page = upload(open_page("data"), "clinic.csv", clinic)
    edit(page, 1, Transform="log(1 + x)")
    assert not page.exception
    assert "'change' cannot be transformed by log" in texts(page.error).replace("\\", "")
    assert listed(page, "Transform")[1] == "none"
    page.run()
    assert page.error
    edit(page, 0, Transform="log(1 + x)")
    assert not page.error
    assert listed(page, "Transform")[0] == "log(1 + x)"
    edit(page, 1, Transform="one-hot")
    assert "Expected a category" in texts(page.error)
    page.switch_page(navigation.PAGES["fit"]).run()
    page.switch_page(navigation.PAGES["data"]).run()
    assert not page.error


def test_all_counts_are_transformed_by_one_button(open_page: OpenPage) -> None:
    rng = np.random.default_rng(6)
    frame = pd.DataFrame(rng.poisson(20, (40, 4)), columns=["g1", "g2", "g3", "g4"])
    content = frame.assign(weight=rng.normal(size=40)).to_csv(index=False).encode()
    page = upload(open_page("data"), "genes.csv", content)
    (button,) = [one for one in page.button if one.label.startswith("log(1 + x) for all")]
    assert button.label == "log(1 + x) for all 4 counts"
    button.click().run()
    assert not page.exception
    assert listed(page, "Transform") == ["log(1 + x)"] * 4 + ["none"]
    assert used(page).log1p.sum() == 4
    (button,) = [one for one in page.button if one.label == "No transform for the 4 counts"]
    button.click().run()
    assert listed(page, "Transform") == ["none"] * 5
    edit(page, 0, Feature=False)  # and what was chosen just before is not undone
    (button,) = [one for one in page.button if one.label.startswith("log(1 + x) for all")]
    button.click().run()
    assert listed(page, "Feature")[0] is False
    assert listed(page, "Transform") == ["none"] + ["log(1 + x)"] * 3 + ["none"]


def test_a_date_is_a_feature_where_it_is_ticked(open_page: OpenPage, clinic: bytes) -> None:
    page = upload(open_page("data"), "clinic.csv", clinic)
    edit(page, 3, Feature=True)
    assert not page.error
    dataset = used(page)
    assert dataset.date_scales == {"seen": DateScale("day", "2024-01-01")}
    at = dataset.feature_names.index("seen")
    np.testing.assert_array_equal(dataset.X[:, at], np.arange(90))


def test_ambiguous_dates_are_no_feature_and_the_page_says_why(open_page: OpenPage) -> None:
    lines = [f"{1 + i % 12:02d}/{1 + i % 11:02d}/2020,{i},{i * i}" for i in range(30)]
    page = upload(open_page("data"), "t.csv", "\n".join(["seen,a,b", *lines]).encode())
    edit(page, 0, Feature=True)
    said = texts(page.error).replace("\\", "")
    assert "'seen' cannot be a feature: its dates or times are kept as text" in said
    assert listed(page, "Feature")[0] is False


def test_the_profile_and_the_missing_cells_are_shown(open_page: OpenPage, clinic: bytes) -> None:
    page = upload(open_page("data"), "clinic.csv", clinic)
    assert [shown.value for shown in page.header][-2:] == [
        "Profile of a column",
        "Missing cells",
    ]
    assert len(page.get("plotly_chart")) == 2
    assert "10 cells of 450" in texts(page.markdown)
    assert "80 rows of 90 are complete" in texts(page.markdown).replace("\\", "")
    (box,) = [box for box in page.selectbox if box.label == "Column"]
    assert box.value == 0
    box.set_value(2).run()
    assert not page.exception
    assert "<dt>Most frequent</dt>" in texts(page.get("html"))


def test_without_missing_cells_there_is_no_picture_of_them(open_page: OpenPage) -> None:
    page = open_page("data")
    assert "Missing cells" not in [shown.value for shown in page.header]
    assert len(page.get("plotly_chart")) == 1


def test_a_name_that_is_html_stays_text(open_page: OpenPage) -> None:
    content = b"<img src=x onerror=alert(1)>,b\n1.5,2.5\n2.5,\n0.5,7.5\n"
    page = upload(open_page("data"), "n.csv", content)
    assert not page.exception
    for shown in page.get("html"):
        assert "<img" not in str(shown.value)
    for chart in page.get("plotly_chart"):
        assert "<img" not in chart.proto.spec
    assert "3 rows" in foot(page)
