"""Words and numbers of the page."""

import re

import pytest

from app import formatting


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0.000"),
        (12.3456, "12.35"),
        (-1234.5678, "−1\u202f235"),
        (0.00001234, "1.234e−05"),
        (float("nan"), "–"),
        (None, "–"),
        (float("-inf"), "−∞"),
    ],
)
def test_numbers_have_four_significant_digits(value: float | None, shown: str) -> None:
    assert formatting.number(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.04, "0.0 s"), (2.14, "2.1 s"), (12.4, "12 s"), (185, "3 min 05 s"), (7800, "2 h 10 min")],
)
def test_durations_read_as_people_say_them(seconds: float, shown: str) -> None:
    assert formatting.duration(seconds) == shown


def test_digits_of_a_sentence_are_grouped_as_on_the_pages() -> None:
    assert (
        formatting.grouped("512 of 1,234,567 rows, 3, 4") == "512 of 1\u202f234\u202f567 rows, 3, 4"
    )
    assert formatting.grouped("a,b of 10,00") == "a,b of 10,00"


def test_counts_carry_their_noun() -> None:
    assert formatting.count(1, "row") == "1 row"
    assert formatting.count(1000, "row") == "1\u202f000 rows"
    assert formatting.count(3, "class", "classes") == "3 classes"


@pytest.mark.parametrize(
    "name",
    ["![i](http://example.org/x.png)", "<b>bold</b>", "$x$", ":red[x]", "*a* _b_ `c`", "# h"],
)
def test_user_text_keeps_no_markup(name: str) -> None:
    escaped = formatting.markdown(name)
    assert escaped.replace("\\", "").replace("\u2060", "") == name
    for place, character in enumerate(escaped):
        if character in "![]()<>$:*_`#":
            assert escaped[place - 1] == "\\"


@pytest.mark.parametrize("name", ["HTTPS://example.org", "see www.example.org", "me@example.org"])
def test_an_address_becomes_no_link(name: str) -> None:
    escaped = formatting.markdown(name)
    assert escaped.replace("\\", "").replace("\u2060", "") == name
    assert not re.search(r"https?:|www\.|@\w", escaped.replace("\\", ""), re.IGNORECASE)


def test_a_backslash_is_escaped_too() -> None:
    assert formatting.markdown("\\![a](b)").startswith("\\\\\\!")


def test_line_breaks_cannot_start_a_block() -> None:
    assert "\n" not in formatting.markdown("a\n\n# b")


def test_long_names_are_cut_and_long_lists_counted() -> None:
    assert formatting.shortened("x" * 50, 10) == "x" * 9 + "…"
    assert formatting.listed(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert formatting.listed(["a", "b"], 2) == "a, b"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(5, "just now"), (600, "10 min ago"), (7200, "2 h ago"), (86400 * 3, "3 days ago")],
)
def test_when(seconds: float, shown: str) -> None:
    assert formatting.when(seconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0.0 GB"), (440_000_000, "0.4 GB"), (12_340_000_000, "12.3 GB")]
)
def test_sizes_are_in_gigabytes(count: int, shown: str) -> None:
    assert formatting.size(count) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (12, "1 kB"),
        (8994, "9 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (25_593_069, "25.6 MB"),
    ],
)
def test_files_are_in_kilobytes_or_megabytes(count: int, shown: str) -> None:
    assert formatting.file_size(count) == shown


def test_equal_texts_of_a_selector_are_told_apart() -> None:
    texts = ["run · done", "run · done", "other", "run · done (2)", "run · done"]
    told = formatting.distinct_titles(texts)
    assert told == ["run · done", "run · done (2)", "other", "run · done (2) (2)", "run · done (3)"]
    assert len(set(told)) == len(texts)
    assert formatting.distinct_titles([]) == []
