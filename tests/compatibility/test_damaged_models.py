"""Damaged files of every model: refused with a sentence, or usable as they are."""

import os
import random
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lvmcore
from lvmcore import DataError
from lvmcore.base.predictor import Predictor
from tests.compatibility.test_models import SAVED
from tests.damaged_models import KINDS, damaged


def check(key: str, kind: str, content: bytes, path: Path) -> bool:
    """Load a damaged file; whether it was refused."""
    path.write_bytes(content)
    try:
        model = lvmcore.load(path)
    except DataError as refusal:
        message = str(refusal)
    else:
        predicts(model)
        return False
    assert str(path) in message, (key, kind)
    assert len(message) < 2000 + len(str(path)), (key, kind)
    return True


def predicts(model: lvmcore.models.AnyModel) -> None:
    """A model that was loaded can be used."""
    columns = [str(name) for name in model._column_names()]
    if isinstance(model, Predictor):
        rows = pd.DataFrame(np.tile(model.standardiser_.mean, (3, 1)), columns=columns)
        assert len(model.predict(rows)) == 3
    elif model.capabilities.decoding:
        assert model.decode(model.embedding_.mean[:3]).mean.shape[1] == len(columns)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("key", SAVED)
def test_a_damaged_model_file_is_refused_with_a_sentence(
    key: str, written: Path, tmp_path: Path
) -> None:
    content = (written / "models" / f"{key}.safetensors").read_bytes()
    rng = random.Random(key)
    refused = [
        check(key, kind, damaged(content, kind, rng), tmp_path / "model.safetensors")
        for kind in KINDS
    ]
    assert sum(refused) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("key", SAVED)
def test_sixty_more_damages(key: str, written: Path, tmp_path: Path) -> None:
    content = (written / "models" / f"{key}.safetensors").read_bytes()
    rng = random.Random(f"{key} again")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(60):
            kind = rng.choice(KINDS)
            check(key, kind, damaged(content, kind, rng), tmp_path / "model.safetensors")


def test_a_changed_value_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    X = np.random.default_rng(0).standard_normal((20, 3))
    lvmcore.models.MODELS["ppca"](n_components=2).fit(X).save(path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1  # the lowest digits of the last value
    path.write_bytes(content)
    with pytest.raises(DataError, match="does not have its digest"):
        lvmcore.load(path)


def test_a_pipe_in_place_of_a_model_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(DataError, match="no regular file"):
        lvmcore.load(tmp_path / "model.safetensors")
