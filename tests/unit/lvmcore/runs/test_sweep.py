"""Sweeps: values from text, and the grid of settings."""

import pytest

from lvmcore.errors import ConfigError
from lvmcore.models import MODELS
from lvmcore.parameters import parameters_of
from lvmcore.runs.sweep import MOST_FITS, new_sweep, sweep_grid, swept_settings, values_of

LDGD = MODELS["ldgd"]
KNOWN = {parameter.name: parameter for parameter in parameters_of(LDGD)}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("n_components", "2, 5,10", [2, 5, 10]),
        ("random_state", "0..4", [0, 1, 2, 3, 4]),
        ("random_state", "3, 0..2, 1", [3, 0, 1, 2]),
        ("n_components", "auto, 2", None),
        ("n_components", "none, 2", [None, 2]),
        ("noise", "shared, column", ["shared", "column"]),
        ("label_weight", "0.5, 1, 1.0", [0.5, 1.0]),
        ("label_weight", "0..4", None),
    ],
)
def test_values_are_read_from_text(name: str, text: str, expected: list[object] | None) -> None:
    if expected is None:
        with pytest.raises(ConfigError, match=name):
            values_of(KNOWN[name], text)
    else:
        assert values_of(KNOWN[name], text) == expected


@pytest.mark.parametrize("text", ["", " , ", "0..10000", "1001", "two"])
def test_what_is_no_value_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(ConfigError, match="n_components"):
        values_of(KNOWN["n_components"], text)


def test_a_grid_holds_every_combination_once() -> None:
    found = sweep_grid(LDGD, {"max_iter": 20}, {"n_components": [2, 3], "random_state": [0, 1, 2]})
    assert [(one["n_components"], one["random_state"]) for one in found] == [
        (2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2),
    ]  # fmt: skip
    assert {one["max_iter"] for one in found} == {20}
    assert swept_settings(found) == {"n_components": [2, 3], "random_state": [0, 1, 2]}


def test_a_sweep_of_too_many_fits_is_refused_with_their_number() -> None:
    axes = {"n_components": list(range(1, 101)), "random_state": list(range(100))}
    with pytest.raises(ConfigError, match=r"10,000 fits \(100 of n_components × 100 of random"):
        sweep_grid(LDGD, {}, axes)
    with pytest.raises(ConfigError, match="at least two fits"):
        sweep_grid(LDGD, {}, {"n_components": [2]})
    with pytest.raises(ConfigError, match="at least two fits"):
        sweep_grid(LDGD, {}, {})
    with pytest.raises(ConfigError, match="no setting 'perplexity'"):
        sweep_grid(LDGD, {}, {"perplexity": [1, 2]})
    assert len(sweep_grid(LDGD, {}, {"random_state": list(range(MOST_FITS))})) == MOST_FITS


def test_a_setting_that_only_some_fits_name_differs() -> None:
    assert swept_settings([{"a": 1}, {"a": 1, "b": 2}]) == {"b": [None, 2]}
    assert len(new_sweep()) == 32
