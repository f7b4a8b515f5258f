"""Models by key, each imported when it is first used."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TypeVar

from lvmcore.models.declarations import ModelDeclaration

__all__ = ["ModelRegistry"]

Model = TypeVar("Model")


class ModelRegistry(Mapping[str, type[Model]]):
    """Model classes by key, in the order of the menus.

    Keys and declarations are known without importing a model; a class is imported when it is
    looked up, and ``values`` and ``items`` import all of them.
    """

    def __init__(self, declarations: Mapping[str, ModelDeclaration]) -> None:
        """Declarations of the models by key, in the order of the menus."""
        self._declarations = dict(declarations)

    @property
    def declarations(self) -> Mapping[str, ModelDeclaration]:
        """Declarations of the models by key."""
        return self._declarations

    def import_all(self) -> None:
        """Import all models, and with them torch: some seconds the first time."""
        for key in self:
            self[key]

    def __getitem__(self, key: str) -> type[Model]:
        """The class with this key.

        Raises:
            KeyError: there is none.
        """
        declared = self._declarations[key]
        found: type[Model] = getattr(importlib.import_module(declared.module), declared.class_name)
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._declarations

    def __iter__(self) -> Iterator[str]:
        return iter(self._declarations)

    def __len__(self) -> int:
        return len(self._declarations)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self)})"
