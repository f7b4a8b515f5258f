"""The layout of the inducing inputs of the Bayesian GPLVM and the Q-EP LVM: free, or a grid."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lvmcore import load
from lvmcore.errors import ConfigError
from lvmcore.models import MODELS
from lvmcore.numerics.array_types import FloatArray

BOTH = pytest.mark.parametrize("key", ["bayesian_gplvm", "qep_lvm"])


def curved_table(n_rows: int) -> FloatArray:
    """Three smooth columns of two latent dimensions, with noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_rows, 2))
    columns = np.stack([np.sin(x[:, 0]), x[:, 0] * x[:, 1], np.cos(x[:, 1])], 1)
    return columns + 0.1 * rng.normal(size=columns.shape)


def fit(key: str, X: FloatArray, **settings: Any) -> Any:
    return MODELS[key](max_iter=5, random_state=0, **settings).fit(X)


def layout(model: Any) -> tuple[str, int]:
    """The layout and M that a fit used."""
    found = model.settings_["inducing_layout"], len(model.inducing_inputs_["data"])
    assert found[1] == model.settings_["n_inducing"]
    return found


@BOTH
def test_a_table_of_many_rows_has_a_grid(key: str) -> None:
    model = fit(key, curved_table(520))
    assert layout(model) == ("grid", 100)
    Z = model.inducing_inputs_["data"]
    assert [len(np.unique(Z[:, q])) for q in range(2)] == [10, 10]


def test_a_table_of_few_rows_has_free_inducing_inputs() -> None:
    assert layout(fit("bayesian_gplvm", curved_table(120))) == ("free", 25)


def test_more_dimensions_and_missing_cells_have_free_inducing_inputs() -> None:
    X = curved_table(520)
    assert layout(fit("bayesian_gplvm", X, n_components=3)) == ("free", 50)
    X[::9, 1] = np.nan
    assert layout(fit("bayesian_gplvm", X)) == ("free", 25)
    assert layout(fit("bayesian_gplvm", X, n_components=2)) == ("free", 25)


def test_the_number_on_a_grid_is_that_of_the_nearest_square() -> None:
    model = fit("bayesian_gplvm", curved_table(60), n_inducing=23, inducing_layout="grid")
    assert layout(model) == ("grid", 25)


def test_free_inducing_inputs_can_be_chosen() -> None:
    model = fit("bayesian_gplvm", curved_table(520), inducing_layout="free")
    assert layout(model) == ("free", 50)


def test_a_grid_where_there_can_be_none_is_refused() -> None:
    X = curved_table(60)
    with pytest.raises(
        ConfigError, match=r"inducing_layout='grid'.*this map has 3\. Choose 'free'"
    ):
        fit("bayesian_gplvm", X, n_components=3, inducing_layout="grid")
    X[3, 1] = np.nan
    with pytest.raises(ConfigError, match=r"with missing cells\. Choose 'free'"):
        fit("bayesian_gplvm", X, n_components=2, inducing_layout="grid")


@BOTH
def test_a_fit_on_a_grid_is_read_from_its_file(key: str, tmp_path: Path) -> None:
    X = curved_table(520)
    model = fit(key, X)
    model.save(tmp_path / "model.zip")
    again = load(tmp_path / "model.zip")
    assert layout(again) == layout(model)
    decoded = [one.decode(X[:4, :2]) for one in (model, again)]
    np.testing.assert_array_equal(decoded[0].mean, decoded[1].mean)
    np.testing.assert_array_equal(model.transform(X[:4]), again.transform(X[:4]))


def test_a_grid_raises_the_bound_of_a_table_of_many_rows() -> None:
    X = curved_table(520)
    free, grid = (
        MODELS["bayesian_gplvm"](random_state=0, inducing_layout=layout, n_inducing=M).fit(X)
        for layout, M in (("free", 9), ("grid", 81))
    )
    assert grid.elbo_ > free.elbo_ + 20
