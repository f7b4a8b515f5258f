"""The likelihood of each column of a table: proposed, chosen, kept and checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lvmcore.data import Dataset, Table, proposed_likelihood
from lvmcore.data.column_likelihoods import check_dataset_likelihoods, likelihood_text
from lvmcore.data.dataset_storage import load_dataset, save_dataset
from lvmcore.data.new_tables.matching_dataset import matching_dataset
from lvmcore.errors import ConfigError, DataError
from lvmcore.models import load
from lvmcore.models.latent.bayesian_gplvm import BayesianGPLVM
from lvmcore.prediction.decoded_columns import decoded_categories


@pytest.fixture(scope="module")
def table() -> Table:
    """Thirty visits: a number, a count, yes or no, a category and ranges of age."""
    return Table.from_frame(
        pd.DataFrame(
            {
                "height": [150.5 + k for k in range(30)],
                "visits": [0, 1, 2, 1, 3, 0] * 5,
                "smoker": ["yes", "no", "no"] * 10,
                "region": ["north", "south", "east"] * 10,
                "age": ["18-29", "30-44", "45-64"] * 10,
            }
        ),
        name="visits",
    )


def _dataset(table: Table, **more: object) -> Dataset:
    names = [column.name for column in table.columns]
    return table.dataset(features=names, one_hot=["region", "age"], **more)  # type: ignore[arg-type]


def test_each_type_has_a_proposal_with_a_reason(table: Table) -> None:
    found = {column.name: proposed_likelihood(table, column) for column in table.columns}
    assert {name: one.name for name, one in found.items()} == {
        "height": "gaussian",
        "visits": "poisson",
        "smoker": "bernoulli",
        "region": "categorical",
        "age": "ordinal",
    }
    assert "ranges in order" in found["age"].reason
    numeric = table.with_types({"visits": "numeric"})
    assert proposed_likelihood(numeric, numeric.column("visits")).name == "gaussian"


def test_text_of_a_dataset_and_chosen_likelihoods(table: Table) -> None:
    dataset = _dataset(table)
    assert likelihood_text(dataset) == "gaussian, poisson, bernoulli, categorical(3), ordinal(3)"
    chosen = _dataset(table, likelihoods={"visits": "negative_binomial", "age": "categorical"})
    assert likelihood_text(chosen) == "gaussian, negative_binomial, bernoulli, categorical(3)*2"
    assert chosen.digest != dataset.digest
    logs = _dataset(table, log1p=["visits"])
    assert likelihood_text(logs).startswith("gaussian*2, bernoulli")
    assert likelihood_text(chosen.subset(np.arange(30) < 20)) == likelihood_text(chosen)


ORDER = "ordinal(south < east < north)"


def test_an_order_of_levels_is_that_of_the_features(table: Table, tmp_path: Path) -> None:
    dataset = _dataset(table, likelihoods={"region": "Ordinal(south<east < north)"})
    assert dataset.likelihoods == {"region": ORDER}
    regions = [name for name in dataset.feature_names if name.startswith("region")]
    assert regions == ["region = south", "region = east", "region = north"]
    given = table.frame["region"].to_numpy()
    for name in regions:
        column = dataset.X[:, dataset.feature_names.index(name)]
        np.testing.assert_array_equal(column, given == name.removeprefix("region = "))
    text = likelihood_text(dataset)
    assert text == f"gaussian, poisson, bernoulli, {ORDER}, ordinal(3)"
    assert any("in the order that was set, south < east < north." in n for n in dataset.notes)
    check_dataset_likelihoods(dataset, text)
    with pytest.raises(ConfigError, match="another order than its features: south < east < north"):
        check_dataset_likelihoods(dataset, text.replace("south < east", "east < south"))
    save_dataset(dataset, tmp_path / "kept")
    again = load_dataset(tmp_path / "kept")
    assert (again.digest, likelihood_text(again)) == (dataset.digest, text)
    new = matching_dataset(table, dataset.transformed_names)
    np.testing.assert_array_equal(new.X, dataset.X)


def test_levels_are_decoded_in_the_order_that_was_set(table: Table, tmp_path: Path) -> None:
    dataset = _dataset(table, likelihoods={"region": ORDER})
    X = pd.DataFrame(dataset.X, columns=list(dataset.transformed_names))
    text = likelihood_text(dataset)
    model = BayesianGPLVM(column_likelihood=text, n_components=1, n_inducing=5, max_iter=3).fit(X)
    assert model.column_likelihood_ == text
    model.save(tmp_path / "model.safetensors")
    for one in (model, load(tmp_path / "model.safetensors")):
        category = next(c for c in decoded_categories(one, dataset) if c.name == "region")
        assert category.levels == ("south", "east", "north")
        np.testing.assert_array_equal(one.impute(X).mean, model.impute(X).mean)


def test_the_true_order_has_the_higher_bound() -> None:
    rng = np.random.default_rng(0)
    z = np.linspace(-2, 2, 60)
    frame = pd.DataFrame(
        {
            "up": z + 0.1 * rng.standard_normal(60),
            "down": -z + 0.1 * rng.standard_normal(60),
            "region": np.array(["south", "east", "north"])[np.digitize(z, [-0.7, 0.7])],
        }
    )
    table = Table.from_frame(frame, name="regions")

    def fitted(order: str) -> tuple[float, float]:
        """The bound, and the mean log probability of the levels of the rows."""
        dataset = table.dataset(
            features=["up", "down", "region"],
            one_hot=["region"],
            likelihoods={"region": f"ordinal({order})"},
        )
        model = BayesianGPLVM(
            column_likelihood=likelihood_text(dataset), n_components=1, n_inducing=6, max_iter=60
        ).fit(pd.DataFrame(dataset.X, columns=list(dataset.transformed_names)))
        p = model.decode(model.embedding_.mean).mean[:, 2:]
        return model.elbo_, float(np.log((p * dataset.X[:, 2:]).sum(1)).mean())

    right, by_name = fitted("south < east < north"), fitted("east < north < south")
    assert right[0] > by_name[0] + 5
    assert right[1] > by_name[1] + 0.05


def test_chosen_likelihoods_are_kept_on_disk(table: Table, tmp_path: Path) -> None:
    chosen = _dataset(table, likelihoods={"visits": "negative_binomial"})
    save_dataset(chosen, tmp_path / "kept")
    again = load_dataset(tmp_path / "kept")
    assert again.digest == chosen.digest
    assert again.likelihoods == {"visits": "negative_binomial"}


@pytest.mark.parametrize(
    ("column", "name", "part"),
    [
        ("height", "poisson", "row 1 has 150.5. Expected whole numbers"),
        ("visits", "log_normal", "row 1 has 0. Expected numbers above 0"),
        ("visits", "ordinal", "its type is count. Make its type a category"),
        ("region", "gaussian", "its type is category. Make its type numeric"),
        ("region", "ordinal(south < north)", "column 'region' lacks 'east'"),
        ("region", "ordinal(south < east < west)", "column 'region' names 'west'"),
        ("region", "ordinal(south < east < east)", "Column 'region' .* has 'east' twice"),
        ("region", "ordinal(south < )", "Column 'region' .* cannot be read"),
        ("visits", "ordinal(0 < 1)", "its type is count. Make its type a category"),
        ("visits", "poison", "cannot have the likelihood 'poison'"),
        ("weight", "poisson", "There is no column 'weight'"),
    ],
)
def test_a_likelihood_that_does_not_suit_a_column(
    table: Table, column: str, name: str, part: str
) -> None:
    with pytest.raises(DataError, match=part):
        _dataset(table, likelihoods={column: name})


def test_a_setting_is_checked_against_the_cells(table: Table) -> None:
    dataset = _dataset(table)
    for text in ("gaussian", "by column", "gaussian*2, bernoulli, categorical(3), ordinal(3)"):
        check_dataset_likelihoods(dataset, text)
    with pytest.raises(ConfigError, match="of 2 features, but the table has 9"):
        check_dataset_likelihoods(dataset, "gaussian*2")
    X = dataset.X.copy()
    X[4, 1] = -1
    bad = replace(dataset, X=X, likelihoods={"visits": "poisson"})
    with pytest.raises(DataError, match="'visits' cannot have the likelihood poisson: row 5"):
        check_dataset_likelihoods(bad, "by column")
