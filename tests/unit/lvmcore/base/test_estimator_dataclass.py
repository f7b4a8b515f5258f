"""Estimators as keyword-only dataclasses."""

import inspect
from typing import Annotated, Any, ClassVar

import pytest
from sklearn.base import BaseEstimator, clone

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.parameters import Doc, Range, parameters_of

Size = Annotated[int, Range(1, 10), Doc("How many.")]
Name = Annotated[str, Doc("What it is called.")]


@estimator_dataclass
class Base(BaseEstimator):
    name: Name = "base"
    seed: Size = 1

    mean_: float
    scale_: float = fitted()
    _cache: float | None = fitted(default=None)


@estimator_dataclass
class Group:
    kind: ClassVar[str] = "group"

    depth: Size = 2


@estimator_dataclass
class Derived(Group, Base):
    width: Size = 3
    seed: Size = 5

    found_: int


def test_settings_of_a_class_come_before_those_of_its_bases() -> None:
    signature = inspect.signature(Derived)
    assert list(signature.parameters) == ["width", "seed", "depth", "name"]
    assert all(p.kind is p.KEYWORD_ONLY for p in signature.parameters.values())
    assert [p.name for p in parameters_of(Derived)] == list(signature.parameters)
    assert {p.name: p.default for p in parameters_of(Derived)} == {
        "width": 3,
        "seed": 5,
        "depth": 2,
        "name": "base",
    }


def test_the_constructor_stores_settings_and_nothing_else() -> None:
    model = Derived(width=7, name="x")
    assert vars(model) == {"width": 7, "seed": 5, "depth": 2, "name": "x"}
    assert clone(model).get_params() == model.get_params()
    assert repr(model) == "Derived(name='x', width=7)"
    assert model != Derived(width=7, name="x")


@pytest.mark.parametrize("name", ["mean_", "scale_", "found_"])
def test_fitted_attributes_are_no_settings_and_are_not_there(name: str) -> None:
    assert not hasattr(Derived(), name)
    unchecked: Any = Derived
    with pytest.raises(TypeError, match=name):
        unchecked(**{name: 1.0})


def test_a_fitted_attribute_may_have_a_value_before_the_fit() -> None:
    assert Derived()._cache is None
