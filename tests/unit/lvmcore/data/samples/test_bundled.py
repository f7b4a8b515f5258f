"""scikit-learn's sample tables, read from its folder."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets

from lvmcore.data import load_sample
from lvmcore.data.samples import bundled
from lvmcore.errors import DataError


@pytest.mark.parametrize(
    ("ours", "theirs", "label"),
    [
        (bundled.iris, datasets.load_iris, "species"),
        (bundled.wine, datasets.load_wine, "cultivar"),
        (bundled.breast_cancer, datasets.load_breast_cancer, "diagnosis"),
        (bundled.digits, datasets.load_digits, "digit"),
    ],
)
def test_table_is_what_scikit_learn_loads(
    ours: Callable[[], pd.DataFrame], theirs: Callable[[], Any], label: str
) -> None:
    frame, expected = ours(), theirs()
    assert list(frame.columns) == [*map(str, expected.feature_names), label]
    np.testing.assert_array_equal(frame.drop(columns=label).to_numpy(float), expected.data)
    assert frame[label].tolist() == expected.target_names[expected.target].tolist()


@pytest.mark.slow
def test_reading_a_sample_does_not_import_scikit_learn() -> None:
    code = (
        "import sys\n"
        "from lvmcore.data import load_sample\n"
        "load_sample('wine')\n"
        "sys.exit(', '.join({'sklearn', 'scipy', 'torch'} & set(sys.modules)) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_missing_file_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"iris\.csv was not found in scikit-learn's package"):
        load_sample("iris")
