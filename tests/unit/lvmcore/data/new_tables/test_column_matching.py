"""Columns of another table: found by name alone, and what is said where one is not."""

import numpy as np
import pandas as pd
import pytest

from lvmcore.data import Table, match_columns, matching_dataset, read_table
from lvmcore.errors import DataError

NAMES = ["sepal length", "sepal width", "petal length"]


def table(*columns: str, rows: int = 4) -> Table:
    frame = pd.DataFrame(np.arange(rows * len(columns)).reshape(rows, -1) / 7, columns=columns)
    return Table.from_frame(frame, name="second")


def test_names_decide_and_places_do_not() -> None:
    found = match_columns(table("petal length", "extra", "sepal width", "sepal length"), NAMES)
    assert dict(found.columns) == {name: name for name in NAMES}
    assert found.unused == ("extra",)
    assert not found.missing
    assert not found.approximate
    assert found.notes() == ("Not used, since the model has no such features: 'extra'.",)


@pytest.mark.parametrize("name", ["Sepal Length", "sepal_length", " SEPAL-LENGTH ", "sepallength"])
def test_case_and_spacing_may_differ_with_a_note(name: str) -> None:
    there = table("petal length", name, "sepal width")
    found = match_columns(there, NAMES)
    called = there.frame.columns[1]
    assert found.columns["sepal length"] == called
    assert f"Column {called!r} is taken for 'sepal length'" in found.notes()[0]
    again = matching_dataset(there, NAMES)
    np.testing.assert_array_equal(again.X[:, 0], there.frame[called])
    assert again.feature_names == tuple(NAMES)


def test_an_exact_name_comes_before_one_that_is_like_it() -> None:
    found = match_columns(table("Sepal length", *NAMES), NAMES)
    assert found.columns["sepal length"] == "sepal length"
    assert found.unused == ("Sepal length",)


def test_a_name_that_could_be_several_is_none_of_them() -> None:
    there = table("Sepal Length", "sepal_length", "sepal width", "petal length")
    found = match_columns(there, NAMES)
    assert found.missing == ("sepal length",)
    with pytest.raises(DataError, match="could be 'Sepal Length' or 'sepal_length': give one"):
        matching_dataset(there, NAMES)


def test_two_columns_of_the_model_never_share_one_of_the_file() -> None:
    found = match_columns(table("dose"), ["dose", "Dose"])
    assert dict(found.columns) == {"dose": "dose"}
    assert match_columns(table("DOSE"), ["dose", "Dose"]).missing == ("dose", "Dose")


def test_missing_columns_are_refused_by_name_with_the_nearest_beside() -> None:
    there = table("sepal length", "petal lenght", "notes")
    with pytest.raises(DataError) as caught:
        matching_dataset(there, NAMES)
    said = str(caught.value)
    assert "'second' lacks 'sepal width', 'petal length'" in said
    assert "'petal length' may be called 'petal lenght' here" in said
    assert "'sepal width' may be" not in said
    assert "Its other columns: 'petal lenght', 'notes'" in said


def test_missing_columns_are_missing_cells_where_the_model_takes_those() -> None:
    again = matching_dataset(table("sepal length", "petal length"), NAMES, missing_cells=True)
    assert np.isnan(again.X[:, 1]).all()
    assert not np.isnan(again.X[:, [0, 2]]).any()
    assert any("Not there, so missing in every row: 'sepal width'" in n for n in again.notes)
    with pytest.raises(DataError, match="lacks 'sepal length', 'sepal width', 'petal length'"):
        matching_dataset(table("a", "b"), NAMES, missing_cells=True)


def test_a_column_that_stands_twice_is_said_to() -> None:
    there = read_table(b"x,y,x\n1,2,3\n4,5,6\n7,8,10\n", name="twice")
    again = matching_dataset(there, ["x", "y"])
    assert again.X[:, 0].tolist() == [1, 4, 7]
    assert any("'x' occurs more than once in the file: the first is used" in n for n in again.notes)


def test_the_table_of_the_fit_tells_a_name_from_a_logarithm() -> None:
    names = ["log(1 + mass)"]
    both = Table.from_frame(pd.DataFrame({"mass": [1.0, 2.0], "log(1 + mass)": [5.0, 6.0]}))
    of_mass = Table.from_frame(pd.DataFrame({"mass": [3.0, 4.0]})).dataset(log1p=["mass"])
    again = matching_dataset(both, names, origin=of_mass)
    np.testing.assert_allclose(again.X[:, 0], np.log1p([1.0, 2.0]))
    assert again.log1p.all()


def test_a_column_of_two_words_keeps_the_code_of_the_fit() -> None:
    fit = Table.from_frame(pd.DataFrame({"x": [1.0, 2, 3, 4], "sex": ["m", "f", "f", "m"]}))
    dataset = fit.dataset(features=["x", "sex"])
    one = Table.from_frame(pd.DataFrame({"x": [1.0, 2.0, 3.0], "sex": ["m", "m", "?"]}))
    again = matching_dataset(one, dataset.transformed_names, origin=dataset)
    assert again.X[:2, 1].tolist() == [dataset.X[0, 1]] * 2
    assert np.isnan(again.X[2, 1])
    assert any("values that the model does not know: '?'" in note for note in again.notes)


def test_text_in_a_column_of_numbers_is_refused_with_its_row() -> None:
    fit = table(*NAMES).dataset()
    frame = table(*NAMES).frame.astype({"sepal width": object})
    frame.loc[2, "sepal width"] = "tall"
    with pytest.raises(DataError, match=r"'sepal width' cannot be a feature: row 3 has 'tall'"):
        matching_dataset(Table.from_frame(frame), NAMES, origin=fit)
    frame["sepal width"] = ["1,5", "2,5", "1,5", "2,5"]  # two words, but numbers in the fit
    with pytest.raises(DataError, match="was fitted to numbers there"):
        matching_dataset(Table.from_frame(frame), NAMES, origin=fit)


def test_the_label_comes_along_and_decides_nothing() -> None:
    frame = table(*NAMES).frame.assign(kind=["a", None, "b", "a"])
    again = matching_dataset(Table.from_frame(frame), NAMES, label="kind")
    assert again.labels is not None
    assert again.labels.tolist() == ["a", None, "b", "a"]
    assert again.label_name == "kind"
    assert not any("kind" in note for note in again.notes)
    with pytest.raises(DataError, match="lacks 'colour', which is to be the label"):
        matching_dataset(Table.from_frame(frame), NAMES, label="colour")


def test_a_match_of_nothing_asked_for_is_empty() -> None:
    found = match_columns(table("a"), [])
    assert not found.columns
    assert found.suggestion_text() == ""
