"""Graphical models: every model of the menus has one, and each says what the model has."""

from __future__ import annotations

from graphlib import TopologicalSorter

import pytest

from app.analysis.graphical_models.graphical_model import GraphicalModel, parse_symbol
from app.analysis.graphical_models.model_families import FAMILIES, graphical_model
from lvmcore.models import MODELS, PREDICTORS

MENUS = [*MODELS, *PREDICTORS]
DRAWN = pytest.mark.parametrize("model", [model for _, model in FAMILIES], ids=lambda m: m.title)


@pytest.mark.parametrize("key", MENUS)
def test_every_model_of_the_menus_has_one(key: str) -> None:
    assert any(one.kind == "observed" for one in graphical_model(key).variables)


def test_every_family_is_of_models_of_the_menus_and_no_model_is_of_two() -> None:
    keys = [key for keys, _ in FAMILIES for key in keys.split()]
    assert len(keys) == len(set(keys))
    known = {key.removesuffix("_regressor").removesuffix("_classifier") for key in MENUS}
    assert set(keys) == known


def test_a_model_without_a_family_is_refused() -> None:
    with pytest.raises(KeyError):
        graphical_model("no_such_model")


@pytest.mark.parametrize("key", MODELS)
def test_classes_are_drawn_for_the_models_that_learn_from_them(key: str) -> None:
    drawn = {one.symbol for one in graphical_model(key).variables}
    assert bool(drawn & {"c_n", "t_nk"}) == (MODELS[key].capabilities.labels != "none")


@pytest.mark.parametrize("key", PREDICTORS)
def test_a_target_depends_on_the_columns(key: str) -> None:
    model = graphical_model(key)
    assert {"x_n", "y_n"} <= {one.symbol for one in model.variables if one.kind == "observed"}
    assert "x_n" in _ancestors(model, "y_n")


def _ancestors(model: GraphicalModel, symbol: str) -> set[str]:
    found = {start for start, end in model.edges if end == symbol}
    return found.union(*(_ancestors(model, one) for one in found))


@DRAWN
def test_arrows_and_plates_are_of_declared_variables(model: GraphicalModel) -> None:
    symbols = [one.symbol for one in model.variables]
    places = [one.at for one in model.variables]
    assert len(symbols) == len(set(symbols))
    assert len(places) == len(set(places))
    joined = {symbol for edge in (*model.edges, *model.inference_edges) for symbol in edge}
    assert joined == set(symbols)
    assert {symbol for plate in model.plates for symbol in plate.symbols} <= set(symbols)


@DRAWN
def test_no_variable_depends_on_itself(model: GraphicalModel) -> None:
    graph = TopologicalSorter[str]()
    for start, end in model.edges:
        graph.add(end, start)
    graph.prepare()  # raises a CycleError


@DRAWN
def test_a_variable_is_in_the_plates_of_its_indices(model: GraphicalModel) -> None:
    """So ``y_nd`` is in those of the rows n and of the columns d, and ``h_n^ℓ`` in that of ℓ."""
    for one in model.variables:
        symbol = parse_symbol(one.symbol)
        if len(symbol.base) > 1:  # a network, which has no index
            continue
        indices = set(symbol.below + symbol.above) & set("ndkmiℓ")
        inside = {plate.label[-1] for plate in model.plates if one.symbol in plate.symbols}
        assert inside == indices, one.symbol


@DRAWN
def test_parameters_have_no_parents_unless_they_are_a_position(model: GraphicalModel) -> None:
    ends = {end for _, end in model.edges}
    for one in model.variables:
        if one.kind == "parameter" and one.symbol != "x_n":
            assert one.symbol not in ends
        if one.kind == "function":
            assert one.symbol in ends | {end for _, end in model.inference_edges}


@DRAWN
def test_the_description_names_everything(model: GraphicalModel) -> None:
    text = model.description
    assert model.title in text
    assert all(f"{one.symbol} ({one.kind})" in text for one in model.variables)
    assert all(f"{start} to {end}" in text for start, end in model.edges)
    assert all(plate.label in text for plate in model.plates)


def test_symbols_have_parts() -> None:
    assert parse_symbol("h_n^ℓ") == ("h", "n", "ℓ")
    assert parse_symbol("σ^2").latex == "σ^{2}"
    assert parse_symbol("y_nd").latex == "y_{nd}"
    assert parse_symbol("dec").latex == r"\mathrm{dec}"
