"""Class labels: what counts as missing, what counts as a class, and what is refused."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import DataConversionWarning

from lvmcore.errors import DataError
from lvmcore.preprocessing.class_labels import ClassLabels, row_weights


@pytest.mark.parametrize(
    ("y", "classes", "codes"),
    [
        (["b", "a", "b"], ["a", "b"], [1, 0, 1]),
        ([3, -1, 3], [-1, 3], [1, 0, 1]),
        ([True, False, True], [False, True], [1, 0, 1]),
        ([1.0, 2.0, 1.0], [1.0, 2.0], [0, 1, 0]),
        (["b", None, "a"], ["a", "b"], [1, -1, 0]),
        ([-1, None, 0], [-1, 0], [0, -1, 1]),
        ([True, None, False], [False, True], [1, -1, 0]),
        ([2.0, np.nan, 1.0], [1.0, 2.0], [1, -1, 0]),
        (["b", np.nan, "a"], ["a", "b"], [1, -1, 0]),
        (["b", float("nan"), None, "a"], ["a", "b"], [1, -1, -1, 0]),
        (["nan", "None", "nan"], ["None", "nan"], [1, 0, 1]),
        (np.array(["b", np.nan, "a"], dtype=object), ["a", "b"], [1, -1, 0]),
        (pd.Series(["b", None, "a"]), ["a", "b"], [1, -1, 0]),
        (pd.Series([1, None, 0], dtype="Int64"), [0, 1], [1, -1, 0]),
        (pd.Series(["b", None, "a"], dtype="category"), ["a", "b"], [1, -1, 0]),
    ],
    ids=str,
)
def test_encoding(y: Any, classes: list[Any], codes: list[int]) -> None:
    labels = ClassLabels.encode(y, len(y))
    assert labels.classes.tolist() == classes
    assert labels.codes.tolist() == codes


def test_a_column_is_taken_with_a_warning() -> None:
    with pytest.warns(DataConversionWarning):
        labels = ClassLabels.encode([["a"], ["b"]], 2)
    assert labels.codes.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "y is None"),
        (["a", "b"], "expected one label a row"),
        (["a", "a", "a"], r"one class \(a\)"),
        (["a", None, "a"], r"one class \(a\)"),
        ([None, None, None], "no class"),
        ([np.nan, np.nan, np.nan], "no class"),
        ([0.1, 0.25, 3.7], "Unknown label type"),
        ([1.0, np.inf, 2.0], "infinity"),
        ([[1, 2], [3, 4], [5, 6]], "expected one label a row"),
    ],
)
def test_refusals_say_why(y: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ClassLabels.encode(y, 3)


@pytest.mark.parametrize("classes", [["a", "ß"], [-1, 7], [False, True], [0.5, 1.5]])
def test_classes_survive_json_with_their_type(classes: list[Any]) -> None:
    before = ClassLabels(np.array(classes), np.array([0, 1]))
    after = ClassLabels.from_json(json.loads(json.dumps(before.to_json())))
    assert after.classes.dtype == before.classes.dtype
    assert after.classes.tolist() == classes


def test_equal_weights_count_the_labelled_rows() -> None:
    codes = np.array([0, -1, 2, 2, 1])
    assert row_weights(codes, "equal").tolist() == [1, 0, 1, 1, 1]


def test_balanced_weights_give_every_class_the_same_and_the_rows_one_on_average() -> None:
    codes = np.array([0] * 12 + [1] * 3 + [-1] * 5)
    weights = row_weights(codes, "balanced")
    assert weights[codes == 0].sum() == pytest.approx(weights[codes == 1].sum())
    assert weights[codes >= 0].mean() == pytest.approx(1)
    assert weights[codes < 0].max() == 0
