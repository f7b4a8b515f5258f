"""A spare worker: what it does before it has a request."""

import pytest

from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.jobs import worker
from lvmcore.models import MODELS


def warmed_up(monkeypatch: pytest.MonkeyPatch, requests: list[bool]) -> list[str]:
    """The models that a warm-up fits, if these are the answers whether there is a request."""
    fitted: list[str] = []
    answers = iter(requests)
    monkeypatch.setattr(worker, "has_request", lambda: next(answers, False))
    monkeypatch.setattr(
        LatentVariableModel, "fit", lambda model, *rows, **named: fitted.append(model.key)
    )
    worker._warm_up()
    return fitted


def test_every_model_that_loads_quickly_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = [key for key, model in MODELS.items() if model.quick_to_load]
    assert warmed_up(monkeypatch, []) == quick
    assert len(quick) < len(MODELS)


def test_a_request_ends_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, *_ = MODELS
    assert warmed_up(monkeypatch, [False, False, True]) == [first, second]
    assert warmed_up(monkeypatch, [True]) == []
