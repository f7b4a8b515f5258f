"""Whole numbers above 2^53: kept where they can be, and a note where digits are lost."""

import decimal
import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lvmcore.data import Table, read_table
from tests.unit.lvmcore.data.readers.bad_files import npz, parquet
from tests.unit.lvmcore.data.readers.workbooks import workbook

BIG = 2**53 + 1


def uint_parquet(*cells: int | None) -> bytes:
    return parquet(pd.DataFrame({"a": pd.array(cells, dtype="UInt64")}))


def decimals() -> bytes:
    buffer = io.BytesIO()
    cells = [decimal.Decimal("1.5"), None, decimal.Decimal("12345678901234567890123.5")]
    pq.write_table(pa.table({"a": cells}), buffer)
    return buffer.getvalue()


#: Files whose column "a" is kept exactly, and models round it.
EXACT: dict[str, bytes] = {
    "csv": f"a,b\n5,1\n{BIG},2\n7,3\n".encode(),
    "csv with a gap": f"a,b\nNA,1\n-{BIG},2\n7,3\n".encode(),
    "json": b'{"a":5}\n{"a":%d}\n{"a":7}\n' % BIG,
    "parquet": uint_parquet(5, 2**64 - 1, 7),
    "parquet with a gap": uint_parquet(None, 2**64 - 1, 7),
    "npz": npz(X=np.array([[5], [BIG], [7]]), feature_names=["a"]),
}
#: Files whose column "a" is rounded when it is read.
ROUNDED: dict[str, bytes] = {
    "csv": f"a,b\n5,1\n{BIG},2\n7.5,3\n".encode(),
    "csv above 64 bits": f"a,b\n5,1\n-{2**64 + 1},2\n7,3\n".encode(),
    "decimal commas": b"a;b\n5;1\n9.007.199.254.740.995;2\n7,5;3\n",
    "json": b'{"a":5}\n{"a":18446744073709551617}\n{"a":7.5}\n',
    "npz": npz(X=np.array([[5], [BIG], [7]], dtype=np.uint64), feature_names=["a"]),
}


def told(table: Table) -> list[str]:
    return [note for note in table.notes if "2^53" in note]


@pytest.mark.parametrize("kind", EXACT)
def test_a_large_whole_number_is_kept_and_told(kind: str) -> None:
    table = read_table(EXACT[kind])
    assert abs(int(table.frame["a"].iloc[1])) in (BIG, 2**64 - 1)
    (note,) = told(table)
    assert note.startswith("Column 'a' has 1 whole number above 2^53, the first in row 2.")


@pytest.mark.parametrize("kind", ROUNDED)
def test_a_rounded_number_is_told(kind: str) -> None:
    table = read_table(ROUNDED[kind])
    assert table.frame["a"].dtype == np.float64
    (note,) = told(table)
    assert note.startswith("Column 'a' has numbers above 2^53 with more digits than are read")
    assert "the first in row 2" in note


def test_a_rounded_decimal_is_told() -> None:
    (note,) = told(read_table(decimals()))
    assert "the first in row 3" in note


@pytest.mark.parametrize(
    "text", ["a,b\n1e300,1\n1152921504606846976.0,2\n7.5,3\n", "a,b\n9007199254740991,1\n5,2\n"]
)
def test_a_number_that_keeps_its_digits_needs_no_note(text: str) -> None:
    assert told(read_table(text.encode())) == []


def test_a_rounded_number_of_a_workbook_is_told() -> None:
    (note,) = told(read_table(workbook({"s": [["a", "b"], [5, 1], [BIG, 2], [7, 3]]})))
    assert note.startswith("The number in cell A3 is above 2^53")
    assert told(read_table(workbook({"s": [["a"], [2**53], [2**60], [0.1]]}))) == []


def test_codes_above_64_bits_stay_text() -> None:
    table = read_table(b"a,b\n18446744073709551615,1\n9007199254740993,2\n")
    assert table.frame["a"].tolist() == ["18446744073709551615", "9007199254740993"]
