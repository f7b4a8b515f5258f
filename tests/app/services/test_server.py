"""What the server does once, beside its pages."""

from __future__ import annotations

import gc

import pytest

from app.services import server
from lvmcore.models import REGISTRY
from lvmcore.models.registry import ModelRegistry


def test_what_was_loaded_is_set_apart_from_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every run of a page ends with a walk through all of torch and plotly."""
    monkeypatch.setattr(server, "_launcher", lambda home: None)
    imported: list[set[str]] = []
    import_all = ModelRegistry.import_all

    def recorded(models: ModelRegistry[object]) -> None:
        imported.append(set(models))
        import_all(models)

    monkeypatch.setattr(ModelRegistry, "import_all", recorded)
    try:
        server._load(None)
        assert imported == [set(REGISTRY)]
        assert gc.get_freeze_count() > 100_000
        assert len(gc.get_objects()) < 10_000
    finally:
        gc.unfreeze()
