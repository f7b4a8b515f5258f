"""What the models declare (titles, capabilities, settings), readable without importing them.

``declarations.json`` holds the declarations of the classes. ``python -m lvmcore.models`` writes it
from them, and a test compares the two. A model in a module that the file does not name is imported
instead, so that a new model is found before the file is written again.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lvmcore.base.capabilities import Capabilities
from lvmcore.parameters import Parameter

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.base.predictor import Predictor

__all__ = [
    "DECLARATIONS_FILE",
    "ModelDeclaration",
    "declarations_json",
    "declare",
    "import_declarations",
    "read_declarations",
]

DECLARATIONS_FILE = Path(__file__).with_suffix(".json")
_PACKAGES = ("latent", "supervised")
#: Attributes that the file leaves out.
_USUAL_CAPABILITIES = asdict(Capabilities())
_USUAL_SETTING: dict[str, Any] = {
    "optional": False,
    "low": None,
    "high": None,
    "log": False,
    "choices": (),
    "advanced": False,
    "array": False,
    "word": None,
    "syntax": None,
    "example": "",
    "suggestions": (),
}


@dataclass(frozen=True)
class ModelDeclaration:
    """What a model class declares.

    Attributes:
        key: key of the model.
        module: its module.
        class_name: name of its class.
        task: "map", or what it predicts: "number" or "class".
        title: its name in menus.
        summary: one line on when to use it.
        paper: its source.
        order: position in menus, smallest first.
        quick_to_load: False if the import of its library takes seconds.
        capabilities: its capabilities.
        settings: its parameters, in the order of its constructor.
    """

    key: str
    module: str
    class_name: str
    task: Literal["map", "number", "class"]
    title: str
    summary: str
    paper: str
    order: int
    quick_to_load: bool
    capabilities: Capabilities
    settings: tuple[Parameter, ...]

    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the constructor with their metadata, as the class's own method."""
        return self.settings

    @property
    def place(self) -> tuple[bool, int]:
        """Sort key of the menus: models of a map first."""
        return self.task != "map", self.order


def declare(model: type[LatentVariableModel | Predictor]) -> ModelDeclaration:
    """The declaration of a model class."""
    return ModelDeclaration(
        key=model.key,
        module=model.__module__,
        class_name=model.__name__,
        task=model.task,
        title=model.title,
        summary=model.summary,
        paper=model.paper,
        order=model.order,
        quick_to_load=model.quick_to_load,
        capabilities=model.capabilities,
        settings=model.parameters(),
    )


def read_declarations() -> dict[str, ModelDeclaration]:
    """The declarations of all models by key, in the order of the menus.

    They are those of ``DECLARATIONS_FILE``; modules that it does not name are imported. A file that
    this version cannot read is not used, so that it can be written again.
    """
    try:
        by_module = _file_declarations()
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        by_module = {}
    found: list[ModelDeclaration] = []
    for module in _modules():
        found += by_module[module] if module in by_module else import_declarations(module)
    return {one.key: one for one in sorted(found, key=lambda one: one.place)}


def _file_declarations() -> dict[str, list[ModelDeclaration]]:
    """The declarations of ``DECLARATIONS_FILE`` by module."""
    by_module = json.loads(DECLARATIONS_FILE.read_text(encoding="utf-8"))
    return {
        module: [_from_json(module, one) for one in models] for module, models in by_module.items()
    }


def import_declarations(module: str) -> list[ModelDeclaration]:
    """The declarations of the models of a module, which is imported."""
    from lvmcore.base.latent_variable_model import LatentVariableModel
    from lvmcore.base.predictor import Predictor

    return [
        declare(member)
        for member in vars(importlib.import_module(module)).values()
        if isinstance(member, type)
        and issubclass(member, LatentVariableModel | Predictor)
        and member.__module__ == module
        and "key" in vars(member)
    ]


def declarations_json() -> str:
    """The content of ``DECLARATIONS_FILE`` for the classes as they are; imports all models.

    A setting is on a line of its own.
    """
    modules = []
    for module in _modules():
        models = []
        for declared in import_declarations(module):
            values = _to_json(declared)
            settings = ",\n".join(f"   {_dump(one)}" for one in values.pop("settings"))
            models.append(f'  {_dump(values)[:-1]}, "settings": [\n{settings}\n  ]}}')
        modules.append(f" {_dump(module)}: [\n" + ",\n".join(models) + "\n ]")
    return "{\n" + ",\n".join(modules) + "\n}\n"


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _modules() -> Iterable[str]:
    """The names of the modules of models, those of packages within the two included."""
    root = Path(__file__).parent
    for package in _PACKAGES:
        yield from _modules_within(root / package, f"{__package__}.{package}")


def _modules_within(folder: Path, name: str) -> Iterator[str]:
    for module in pkgutil.iter_modules([str(folder)]):
        if module.ispkg:
            yield from _modules_within(folder / module.name, f"{name}.{module.name}")
        else:
            yield f"{name}.{module.name}"


def _to_json(declaration: ModelDeclaration) -> dict[str, Any]:
    """A declaration without its module, and of capabilities and settings what is not usual."""
    return {
        **{name: value for name, value in vars(declaration).items() if name != "module"},
        "capabilities": _unusual(declaration.capabilities, _USUAL_CAPABILITIES),
        "settings": [_unusual(setting, _USUAL_SETTING) for setting in declaration.settings],
    }


def _unusual(values: Capabilities | Parameter, usual: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that are not the usual ones."""
    return {
        name: value
        for name, value in asdict(values).items()
        if name not in usual or value != usual[name] or type(value) is not type(usual[name])
    }


def _from_json(module: str, values: Mapping[str, Any]) -> ModelDeclaration:
    capabilities = Capabilities(**{**_USUAL_CAPABILITIES, **values["capabilities"]})
    settings = tuple(
        Parameter(
            **{
                **_USUAL_SETTING,
                **one,
                "choices": tuple(one.get("choices", ())),
                "suggestions": tuple(one.get("suggestions", ())),
            }
        )
        for one in values["settings"]
    )
    rest = {**values, "capabilities": capabilities, "settings": settings}
    return ModelDeclaration(module=module, **rest)
