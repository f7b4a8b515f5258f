"""Two readings of a column: the question, the warning, the choice, and what keeps it."""

from pathlib import Path

import pytest

from lvmcore.data import Dataset, NumberQuestion, NumberReading, Table, known_answers, read_table
from lvmcore.data.dataset_storage import load_dataset, save_dataset
from lvmcore.data.number_questions import question_notes
from lvmcore.data.readers.sandbox import read_table_sandboxed
from lvmcore.errors import ConfigError, NumberFormatWarning

TEXT = b"dose;x\n1.234;1\n2.345;4\n3.456;7\n4.567;2\n"


def asked(content: bytes, column: str = "dose") -> Table:
    with pytest.warns(NumberFormatWarning, match=f"Column '{column}'"):
        return read_table(content)


def test_the_question_has_both_readings_of_a_cell() -> None:
    table = asked(TEXT)
    assert table.questions == (
        NumberQuestion(
            column="dose",
            example="1.234",
            readings=(NumberReading(".", "1.234"), NumberReading(",", "1234")),
            taken=".",
        ),
    )
    assert table.questions[0].words == {
        ".": "1.234 (decimal point)",
        ",": "1234 (point between thousands)",
    }
    assert table.questions[0].note in table.notes
    assert table.frame["dose"].tolist() == [1.234, 2.345, 3.456, 4.567]


@pytest.mark.parametrize(
    ("mark", "cells"),
    [(".", [1.234, 2.345, 3.456, 4.567]), (",", [1234, 2345, 3456, 4567])],
)
def test_a_choice_answers_it(mark: str, cells: list[float]) -> None:
    table = read_table(TEXT, column_decimals={"dose": mark})
    assert table.frame["dose"].tolist() == cells
    assert [question.chosen for question in table.questions] == [True]
    assert "as chosen" in table.notes[-1]


def test_the_digest_has_the_choice() -> None:
    unasked = read_table(b"a,b\n1.5,2\n2.5,3\n")
    assert unasked.digest == read_table(b"a,b\n1.5,2\n2.5,3\n", column_decimals={}).digest
    digests = {read_table(TEXT, column_decimals={"dose": mark}).digest for mark in (".", ",", "")}
    assert len(digests | {asked(TEXT).digest}) == 4


def test_a_column_can_be_chosen_to_stay_text() -> None:
    table = read_table(TEXT, column_decimals={"dose": ""})
    assert table.frame["dose"].tolist() == ["1.234", "2.345", "3.456", "4.567"]


@pytest.mark.parametrize("marks", [{"decimal": "."}, {"thousands": "."}, {"thousands": ""}])
def test_marks_of_the_whole_table_answer_it(marks: dict[str, str]) -> None:
    table = read_table(TEXT, decimal=marks.get("decimal"), thousands=marks.get("thousands"))
    assert not table.questions


@pytest.mark.parametrize("choice", [{"Dose": "."}, {"dose": ";"}])
def test_a_choice_that_cannot_be_is_refused(choice: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="decimal mark"):
        read_table(TEXT, column_decimals=choice)


def test_the_question_comes_out_of_the_reading_process() -> None:
    assert read_table_sandboxed(TEXT).questions == asked(TEXT).questions
    chosen = read_table_sandboxed(TEXT, column_decimals={"dose": ","})
    assert chosen.frame["dose"].tolist() == [1234, 2345, 3456, 4567]
    assert chosen.questions[0].chosen


def test_a_version_beside_decimal_commas_stays_text_and_is_asked() -> None:
    content = b"version;x\n1.2;0,5\n1.10;-1,5\n1.1;2,5\n2.0;3,25\n"
    table = asked(content, "version")
    assert table.frame["version"].tolist() == ["1.2", "1.10", "1.1", "2.0"]
    assert table.column("version").type == "text"
    read = read_table(content, column_decimals={"version": "."})
    assert read.frame["version"].tolist() == [1.2, 1.1, 1.1, 2.0]


def test_the_choice_is_kept_with_the_dataset(tmp_path: Path) -> None:
    dataset = read_table(TEXT, column_decimals={"dose": ","}).dataset()
    assert dataset.column_decimals == {"dose": ","}
    assert any("'dose'" in note and "as chosen" in note for note in dataset.notes)
    stored = load_dataset(save_dataset(dataset, tmp_path))
    assert stored.column_decimals == {"dose": ","}
    assert stored.notes == dataset.notes
    assert stored.digest == dataset.digest
    assert known_answers(asked(TEXT).questions, stored.column_decimals) == {"dose": ","}
    answered = read_table(TEXT, column_decimals={"dose": "."}).questions
    assert known_answers(answered, stored.column_decimals) == {}


def test_a_dataset_without_a_question_keeps_nothing() -> None:
    assert read_table(b"a,b\n1.5,2\n2.5,3\n").dataset().column_decimals == {}
    assert Dataset.from_arrays([[1.0, 2.0]]).column_decimals == {}


def test_an_unchosen_reading_is_noted_in_the_dataset() -> None:
    assert any("could also be 1234" in note for note in asked(TEXT).dataset().notes)
    assert not any("dose" in note for note in asked(TEXT).dataset(features=["x"]).notes)


def test_many_questions_have_few_notes_that_name_all_columns() -> None:
    names = [f"c{i}" for i in range(12)]
    rows = [",".join(f"{i + 1}.{j}34" for i in range(12)) for j in range(1, 5)]
    with pytest.warns(NumberFormatWarning):
        table = read_table("\n".join([",".join(names), *rows]).encode())
    notes = question_notes(table.questions)
    assert len(notes) == 9
    assert all(any(repr(name) in note for note in notes) for name in names)


def test_numbers_with_both_marks_are_named() -> None:
    table = read_table(b"x;y\n0,5;1\n0.5;2\n1,5;3\n2.5;4\n-0,5;5\n")
    assert table.column("x").type == "text"
    assert any("'x' has numbers with both decimal marks" in note for note in table.notes)
