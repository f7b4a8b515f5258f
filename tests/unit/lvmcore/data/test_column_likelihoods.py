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
from lvmcore.errors import ConfigError, DataError


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
