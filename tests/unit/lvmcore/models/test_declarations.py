"""The file of declarations says what the classes say, and a new module is found without it."""

import json
from pathlib import Path
from types import ModuleType

import pytest

from lvmcore.models import MODELS, PREDICTORS, REGISTRY, declarations, registry
from lvmcore.models.declarations import (
    DECLARATIONS_FILE,
    declarations_json,
    declare,
    read_declarations,
)


def test_the_file_is_what_the_classes_declare() -> None:
    written = DECLARATIONS_FILE.read_text(encoding="utf-8")
    assert written == declarations_json(), "run: python -m lvmcore.models"


def test_declarations_read_from_the_file_equal_those_of_the_classes() -> None:
    assert list(REGISTRY.declarations) == list(REGISTRY)
    for key, model in REGISTRY.items():
        assert REGISTRY.declarations[key] == declare(model)
        assert REGISTRY.declarations[key].parameters() == model.parameters()
        for read, declared in zip(
            REGISTRY.declarations[key].parameters(), model.parameters(), strict=True
        ):  # 1 and 1.0 are equal, and differ on a form
            assert type(read.default) is type(declared.default)
            assert type(read.low) is type(declared.low)


def test_models_are_in_the_order_of_the_menus() -> None:
    assert list(REGISTRY) == [*MODELS, *PREDICTORS]
    orders = [model.order for model in MODELS.values()]
    assert orders == sorted(orders)


def test_a_module_that_the_file_does_not_name_is_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    by_module = json.loads(DECLARATIONS_FILE.read_text(encoding="utf-8"))
    del by_module["lvmcore.models.latent.pca"]
    by_module["lvmcore.models.latent.deleted"] = by_module["lvmcore.models.latent.nmf"]
    shorter = tmp_path / "declarations.json"
    shorter.write_text(json.dumps(by_module), encoding="utf-8")
    monkeypatch.setattr(declarations, "DECLARATIONS_FILE", shorter)
    assert read_declarations() == dict(REGISTRY.declarations)


@pytest.mark.parametrize(
    "content",
    [
        None,
        "<<<<<<< HEAD\n{}",
        "[]",
        '{"lvmcore.models.latent.pca": [{"key": "pca"}]}',
        '{"lvmcore.models.latent.pca": [{"capabilities": {"retired": true}, "settings": []}]}',
    ],
    ids=["none", "in conflict", "a list", "incomplete", "of another version"],
)
def test_without_a_file_that_can_be_read_all_models_are_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "declarations.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    monkeypatch.setattr(declarations, "DECLARATIONS_FILE", file)
    assert read_declarations() == dict(REGISTRY.declarations)


def test_all_models_can_be_imported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    import_module = registry.importlib.import_module

    def recorded(name: str) -> ModuleType:
        found.append(name)
        return import_module(name)

    monkeypatch.setattr(registry.importlib, "import_module", recorded)
    PREDICTORS.import_all()
    assert found == [model.module for model in PREDICTORS.declarations.values()]


def test_an_unknown_key_is_a_key_error() -> None:
    assert "none" not in MODELS
    assert MODELS.get("none") is None
    with pytest.raises(KeyError):
        MODELS["none"]
