"""Any frame that is written in some dialect and encoding is read back equal."""

import gzip

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lvmcore.data import read_table
from lvmcore.errors import DataError

WORDS = st.text(alphabet="abcdefghijklmnopqrstuvwxyzäéñß ,;'", min_size=1, max_size=12)
NUMBERS = st.floats(min_value=-1e6, max_value=1e6, allow_subnormal=False).map(lambda x: round(x, 4))


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    """Two to five columns of decimals, at least one of them, some of words, with gaps."""
    rows = draw(st.integers(min_value=4, max_value=25))
    columns: dict[str, list[float] | list[str]] = {}
    for index in range(draw(st.integers(min_value=2, max_value=5))):
        if index and draw(st.booleans()):
            word = WORDS.map(lambda text: "w" + text.strip())
            columns[f"word {index}"] = draw(st.lists(word, min_size=rows, max_size=rows))
        else:
            values = draw(st.lists(NUMBERS, min_size=rows, max_size=rows))
            values[0] = 0.5 + index
            columns[f"number {index}"] = values
    return pd.DataFrame(columns)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    frame=frames(),
    dialect=st.sampled_from(
        [(",", "."), (";", "."), (";", ","), ("\t", "."), ("\t", ","), ("|", ".")]
    ),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le"]),
    packed=st.booleans(),
)
def test_round_trip(
    frame: pd.DataFrame, dialect: tuple[str, str], encoding: str, packed: bool
) -> None:
    delimiter, decimal = dialect
    content = frame.to_csv(index=False, sep=delimiter, decimal=decimal).encode(encoding)
    table = read_table(gzip.compress(content) if packed else content)
    assert table.detected.delimiter == delimiter
    assert list(table.frame.columns) == list(frame.columns)
    for name in frame:
        read, written = table.frame[name].tolist(), frame[name].tolist()
        assert read == (pytest.approx(written, rel=0, abs=0) if "number" in name else written)


def read_or_refuse(content: bytes) -> None:
    """Either there is a consistent table, or a DataError with something to say."""
    try:
        table = read_table(content)
    except DataError as error:
        message = str(error)
    else:
        message = f"a table of {len(table.frame)} rows and {len(table.columns)} columns"
        assert table.frame.columns.is_unique
        assert table.frame.shape == (len(table.frame), len(table.columns))
        assert len(table.frame) >= 1
    assert len(message) > 20


@settings(max_examples=60)
@given(content=st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    read_or_refuse(content)


@settings(max_examples=150)
@given(text=st.text(alphabet="ab1290.,;-\"'\n\t #N/A:", max_size=120))
def test_any_text_is_read_or_refused(text: str) -> None:
    read_or_refuse(text.encode())
