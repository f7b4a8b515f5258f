import io
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from lvmcore import PCA, ProbabilisticPCA
from lvmcore.data import Dataset
from lvmcore.export.tables import to_csv_bytes, to_parquet_bytes
from lvmcore.prediction.map_table import embedding_frame


def test_the_embedding_names_its_rows_labels_means_and_sds(toy: Dataset) -> None:
    model = ProbabilisticPCA(n_components=2).fit(toy.X)
    frame = embedding_frame(model, toy)
    assert list(frame.columns) == ["row_id", "label", "z1", "z2", "z1_sd", "z2_sd"]
    assert frame["row_id"].tolist() == toy.row_ids.tolist()
    assert frame["label"].tolist() == toy.labels.tolist()  # type: ignore[union-attr]
    np.testing.assert_array_equal(frame[["z1", "z2"]], model.embedding_.mean)
    np.testing.assert_allclose(frame["z2_sd"] ** 2, model.embedding_.variance[:, 1])


def test_a_model_without_uncertainty_exports_no_sds_and_no_label_no_column(
    rng: np.random.Generator,
) -> None:
    data = Dataset.from_arrays(rng.standard_normal((9, 3)))
    frame = embedding_frame(PCA(n_components=2).fit(data.X), data)
    assert list(frame.columns) == ["row_id", "z1", "z2"]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-"])
def test_text_that_a_spreadsheet_would_run_is_escaped(text: str) -> None:
    content = to_csv_bytes(pd.DataFrame({text: [text, "plain"]}))
    back = pd.read_csv(io.BytesIO(content), keep_default_na=False)
    assert list(back.columns) == [f"'{text}"]
    assert back.iloc[:, 0].tolist() == [f"'{text}", "plain"]


def test_numbers_stay_numbers_with_every_digit() -> None:
    frame = pd.DataFrame(
        {
            "float": [-0.1 + 0.3, -1e-300, math.nan, -math.inf],
            "int": [-1, 2, -(2**53) - 1, 0],
            "Int": pd.array([-1, None, 3, 4], dtype="Int64"),
            "bool": [True, False, True, True],
            "mixed": [-1, -2.5, None, "x"],
        }
    )
    content = to_csv_bytes(frame)
    assert b"'" not in content
    back = pd.read_csv(io.BytesIO(content))
    for name in ("float", "int", "bool"):
        np.testing.assert_array_equal(back[name], frame[name])
    assert back["Int"].tolist()[0] == -1
    assert back["Int"].isna().tolist() == [False, True, False, False]
    assert back["mixed"].tolist()[:2] == ["-1", "-2.5"]


def test_commas_quotes_newlines_and_other_scripts_survive() -> None:
    cells = ['a,"b"', "two\nlines", "µ ± σ", "名前", "", None]
    content = to_csv_bytes(pd.DataFrame({"x": cells, "n": range(6)}))
    back = pd.read_csv(io.BytesIO(content), keep_default_na=False)
    assert back["x"].tolist() == [*cells[:5], ""]


def test_columns_of_the_same_name_are_all_written() -> None:
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    assert to_csv_bytes(frame) == b"a,a\r\n1,2\r\n"


def test_parquet_comes_back_equal() -> None:
    frame = pd.DataFrame({"row_id": ["1", "2"], "label": ["a", None], "z1": [0.1, -2.0]})
    back = pq.read_table(io.BytesIO(to_parquet_bytes(frame))).to_pandas()
    pd.testing.assert_frame_equal(back, frame, check_dtype=False)


@pytest.mark.parametrize("mixed", [[1, "a", None], ["a", 2.5, None]])
def test_a_column_of_mixed_types_becomes_text_in_parquet(mixed: list[Any]) -> None:
    back = pq.read_table(io.BytesIO(to_parquet_bytes(pd.DataFrame({"x": mixed})))).to_pydict()
    assert back == {"x": [str(mixed[0]), str(mixed[1]), None]}
