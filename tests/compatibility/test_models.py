"""Models that version 0.1.0 saved."""

import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lvmcore
from lvmcore.models import MODELS, PREDICTORS
from tests.compatibility.earlier import ARCHIVE, facts_of

with tarfile.open(ARCHIVE) as _archive:
    SAVED = sorted(
        Path(name).stem
        for name in _archive.getnames()
        if name.endswith(".safetensors") and "/models/" in name
    )


def test_every_model_of_that_version_is_there() -> None:
    assert set(SAVED) <= {*MODELS, *PREDICTORS}
    assert len(SAVED) == 35


@pytest.mark.parametrize("key", SAVED)
def test_a_saved_model_says_what_it_said(key: str, written: Path) -> None:
    model = lvmcore.load(written / "models" / f"{key}.safetensors")
    expected = facts_of(written)["models"][key]
    if key in PREDICTORS:
        X = pd.read_csv(written / "table.csv")[["width", "height", "share"]].iloc[:5]
        found = {name: getattr(model, name)(X) for name in expected}
    else:
        counts = MODELS[key].capabilities.cells != "any"
        X = pd.read_csv(written / ("counts.csv" if counts else "table.csv")).iloc[:3]
        found = {"embedding": model.embedding_.mean}
        if "transform" in expected:
            found["transform"] = model.transform(X)
        if "decode" in expected:
            found["decode"] = model.decode(model.embedding_.mean[:3]).mean
    assert found.keys() == expected.keys()
    for name, values in found.items():
        if np.asarray(expected[name]).dtype.kind == "f":
            np.testing.assert_allclose(values, expected[name], rtol=2e-5, atol=1e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(values, expected[name], err_msg=name)
