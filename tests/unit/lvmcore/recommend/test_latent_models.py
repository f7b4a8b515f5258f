"""Which model is proposed for a table, which cannot be fitted to it, and by which route it goes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lvmcore.base.latent_variable_model import Capabilities
from lvmcore.base.table_size import TableSize
from lvmcore.data import Dataset, Table
from lvmcore.models import MODELS
from lvmcore.models.latent.bayesian_gplvm import BayesianGPLVM
from lvmcore.models.latent.fast_ldgd import FastLDGD
from lvmcore.models.latent.ldgd import LDGD
from lvmcore.models.latent.pca import PCA
from lvmcore.models.latent.srflvm import SRFLVM
from lvmcore.preprocessing.cell_types import Cells
from lvmcore.recommend import latent_models
from lvmcore.recommend.latent_models import (
    TableSummary,
    advised_settings,
    obstacle,
    propose,
    route,
    suggested_settings,
    summarise,
)

LIMIT = latent_models.WHOLE_TABLE_ROWS
TABLE = TableSummary(rows=200, columns=12, classes=3, unlabelled=0, incomplete=0)
LONG = replace(TABLE, rows=LIMIT + 1)
GAPS_LIMIT = latent_models.WHOLE_INCOMPLETE_ROWS
GAPS_WIDTH = latent_models.WHOLE_INCOMPLETE_COLUMNS
SOME_GAPS = replace(TABLE, classes=0, rows=GAPS_LIMIT, columns=GAPS_WIDTH + 1, incomplete=1)

VERY_LONG = latent_models.MOST_WHOLE_INCOMPLETE_ROWS
VERY_LONG_GAPS = replace(SOME_GAPS, columns=GAPS_WIDTH, rows=VERY_LONG)


@pytest.fixture
def whole_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fast LDGD as one that needs every cell, every label, and one label column."""
    can = replace(
        FastLDGD.capabilities, missing_cells=False, missing_labels=False, several_labels=False
    )
    monkeypatch.setattr(FastLDGD, "capabilities", can)


@pytest.fixture
def every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fast LDGD as one that takes missing cells."""
    can = replace(FastLDGD.capabilities, missing_cells=True)
    monkeypatch.setattr(FastLDGD, "capabilities", can)


@pytest.mark.parametrize(
    ("shape", "key", "words"),
    [
        (TABLE, "ldgd", "3 classes"),
        (replace(TABLE, classes=0), "bayesian_gplvm", "no label"),
        (replace(TABLE, classes=1), "bayesian_gplvm", "one class only"),
        (replace(TABLE, further=(1,)), "bayesian_gplvm", "further labels has one class only"),
        (replace(TABLE, further=(2,)), "ldgd", "3 classes"),
        (replace(TABLE, rows=19), "ppca", "19 rows"),
        (replace(TABLE, rows=20), "ldgd", "3 classes"),
        (replace(TABLE, rows=1, columns=1), "ppca", "(1 row, 1 column)"),
        (replace(TABLE, rows=12, incomplete=188), "ldgd", "3 classes"),
        (replace(TABLE, rows=0, incomplete=12), "ppca", "12 rows"),
        (replace(TABLE, columns=2, classes=0), "ppca", "2 columns"),
        (replace(TABLE, rows=LIMIT), "ldgd", "3 classes"),
        (replace(SOME_GAPS, incomplete=0), "bayesian_gplvm", "no label"),
        (SOME_GAPS, "stochastic_gplvm", "no label, and with missing cells learning from 512 of"),
        (replace(SOME_GAPS, classes=1), "stochastic_gplvm", "one class only"),
        (replace(SOME_GAPS, rows=GAPS_LIMIT - 1), "bayesian_gplvm", "no label"),
        (replace(SOME_GAPS, columns=GAPS_WIDTH), "bayesian_gplvm", "no label"),
        (replace(VERY_LONG_GAPS, rows=VERY_LONG - 1), "bayesian_gplvm", "no label"),
        (VERY_LONG_GAPS, "stochastic_gplvm", "with missing cells learning from 512 of"),
        (replace(VERY_LONG_GAPS, incomplete=0), "bayesian_gplvm", "no label"),
        (LONG, "fast_ldgd", f"512 of {LIMIT + 1:,} rows at a time"),
        (replace(LONG, unlabelled=LIMIT // 2, further=(4,)), "fast_ldgd", "3 classes"),
        (replace(LONG, classes=0), "bayesian_gplvm", "no label"),
        (replace(LONG, classes=1), "bayesian_gplvm", "one class only"),
        (replace(LONG, columns=2), "ppca", "2 columns"),
    ],
)
def test_the_proposal_suits_the_table_and_says_why(
    shape: TableSummary, key: str, words: str
) -> None:
    found = propose(MODELS, shape)
    assert found.key == key
    assert words in found.reason
    assert obstacle(MODELS[key].capabilities, shape) is None


@pytest.mark.usefixtures("whole_rows_only")
@pytest.mark.parametrize(
    "more",
    [{"rows": LIMIT, "incomplete": 1}, {"unlabelled": 1}, {"further": (2,)}],
    ids=["a missing cell", "a missing label", "two labels"],
)
def test_the_faster_route_is_not_proposed_where_it_would_lose_something(
    more: dict[str, object],
) -> None:
    assert propose(MODELS, LONG).key == "fast_ldgd"
    assert propose(MODELS, replace(LONG, **more)).key == "ldgd"


@pytest.mark.usefixtures("every_row")
def test_rows_that_lack_a_cell_count_where_the_model_takes_them() -> None:
    shape = replace(TABLE, rows=LIMIT - 10, incomplete=11)
    found = propose(MODELS, shape)
    assert found.key == "fast_ldgd"
    assert f"{LIMIT + 1:,} rows" in found.reason
    assert propose(MODELS, replace(shape, incomplete=10)).key == "ldgd"


def test_of_few_models_the_first_that_can_be_fitted_is_proposed() -> None:
    few = {key: MODELS[key] for key in ("lda", "tsne", "umap")}
    assert propose(few, replace(TABLE, classes=0)).key == "tsne"
    assert propose(few, TABLE).key == "lda"
    assert propose({"ldgd": LDGD}, LONG).key == "ldgd"
    whole = {key: MODELS[key] for key in ("bayesian_gplvm", "ppca")}
    assert propose(whole, SOME_GAPS).key == "bayesian_gplvm"


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        (TABLE, None),
        (replace(TABLE, classes=0), "no label"),
        (replace(TABLE, classes=1), "one class"),
        (replace(TABLE, further=(1,)), "one class further"),
        (replace(TABLE, rows=1, incomplete=99), "few whole rows"),
    ],
)
def test_what_stands_between_a_model_and_a_table(shape: TableSummary, found: str | None) -> None:
    most = Capabilities(labels="required", several_labels=True)
    assert obstacle(most, shape) == found
    assert obstacle(Capabilities(missing_cells=True), shape) is None


@pytest.mark.parametrize(
    ("needed", "cells", "found"),
    [
        ("positive", "any", "below 0"),
        ("positive", "positive", None),
        ("positive", "counts", None),
        ("counts", "any", "below 0"),
        ("counts", "positive", "no counts"),
        ("counts", "counts", None),
        ("any", "any", None),
    ],
)
def test_a_model_is_not_given_cells_that_it_does_not_take(
    needed: Cells, cells: Cells, found: str | None
) -> None:
    assert obstacle(Capabilities(cells=needed), replace(TABLE, cells=cells)) == found


@pytest.mark.parametrize(
    ("value", "cells"),
    [
        (0.0, "counts"),
        (np.nan, "counts"),
        (1e9, "counts"),
        (1e9 + 1, "positive"),
        (0.5, "positive"),
        (-1.0, "any"),
        (-0.5, "any"),
    ],
)
def test_the_shape_says_what_the_cells_are(value: float, cells: Cells) -> None:
    X = np.arange(30.0).reshape(10, 3)
    X[4, 1] = value
    assert summarise(Dataset.from_arrays(X, name="ten")).cells == cells
    # Of rows that are held out nothing is asked.
    held_out = np.arange(10) == 4
    held = replace(Dataset.from_arrays(X, name="ten"), held_out=held_out)
    assert summarise(held).cells == "counts"


def test_what_the_cells_are_steers_the_likelihood() -> None:
    X = np.arange(30.0).reshape(10, 3)
    for values, wanted in (
        (X, {"likelihood": "negative_binomial", "n_features": 50, "max_iter": 1000}),
        (X % 2, {"likelihood": "bernoulli", "n_features": 50}),
        (X + 0.5, {}),
    ):
        shape = summarise(Dataset.from_arrays(values, name="ten"))
        assert suggested_settings(SRFLVM, shape) == wanted
        assert suggested_settings(SRFLVM, replace(shape, image=True)) == {}
    many = TableSummary(
        rows=3000, columns=100, classes=0, unlabelled=0, incomplete=0, cells="counts"
    )
    assert suggested_settings(SRFLVM, many)["dtype"] == "float32"


def test_categories_get_likelihoods_by_column_up_to_a_number_of_rows(
    rng: np.random.Generator,
) -> None:
    frame = pd.DataFrame(
        {"size": rng.standard_normal(60), "town": rng.choice(["Bonn", "Jena", "Ulm"], 60)}
    )
    shape = summarise(Table.from_frame(frame).dataset(one_hot=["town"]))
    assert shape.categories == 1
    said = advised_settings(BayesianGPLVM, shape)["column_likelihood"]
    assert said.value == "by column"
    assert "categories" in said.reason
    assert suggested_settings(PCA, shape) == PCA.suggest(shape.size_for(PCA.capabilities))
    most = latent_models.MOST_ROWS_BY_COLUMN
    for other in (replace(shape, categories=0), replace(shape, rows=most + 1)):
        assert "column_likelihood" not in suggested_settings(BayesianGPLVM, other)


def test_a_step_of_ldgd_uses_all_rows_and_says_so() -> None:
    said = route(MODELS, "ldgd", TABLE, None)
    assert said is not None
    assert "all 200 rows" in said
    assert f"{LIMIT:,} rows" in said
    assert "Fast LDGD" not in said


def test_the_slower_route_says_what_the_other_would_do() -> None:
    said = route(MODELS, "ldgd", LONG, None)
    assert said is not None
    assert "Fast LDGD learns from 512 at a time, and is faster here" in said
    said = route(MODELS, "fast_ldgd", replace(TABLE, rows=LIMIT), 256)
    assert said is not None
    assert f"256 of {LIMIT:,} rows" in said
    assert "LDGD, whose steps use all of them, is faster" in said


def test_the_faster_route_of_a_long_table_says_so_alone() -> None:
    said = route(MODELS, "fast_ldgd", LONG, 512)
    assert said is not None
    assert f"512 of {LIMIT + 1:,} rows" in said
    assert " LDGD" not in said


def test_a_table_that_fits_into_one_batch_is_said_to() -> None:
    assert "all 200 rows" in str(route(MODELS, "fast_ldgd", TABLE, 512)).lower()
    assert "one batch" not in str(route(MODELS, "fast_ldgd", TABLE, 199))


@pytest.mark.usefixtures("whole_rows_only")
def test_the_route_that_would_leave_rows_out_says_how_many() -> None:
    said = route(MODELS, "ldgd", replace(LONG, incomplete=1234), None)
    assert "leave out 1,234" in str(said)


def test_a_model_with_one_route_says_nothing() -> None:
    assert route(MODELS, "ppca", LONG, None) is None
    assert route({"ldgd": LDGD}, "ldgd", LONG, None) is None


def test_the_shape_is_of_the_rows_that_are_not_held_out() -> None:
    X = np.arange(30.0).reshape(10, 3)
    X[[0, 1, 2], 0] = np.nan
    held_out = np.zeros(10, dtype=bool)
    held_out[[2, 9]] = True
    labels = ["a", "b", None, None, "a", "b", "a", "b", "a", "c"]
    data = replace(Dataset.from_arrays(X, labels, name="ten"), held_out=held_out)
    expected = TableSummary(
        rows=6, columns=3, classes=2, unlabelled=1, incomplete=2, cells="counts"
    )
    assert summarise(data) == expected


def test_settings_suit_the_rows_and_labels_that_a_model_can_use() -> None:
    shape = replace(TABLE, rows=900, incomplete=900, further=(20,))
    assert suggested_settings(LDGD, shape) == LDGD.suggest(
        TableSize(n_rows=1800, n_columns=12, n_classes=20)
    )
    whole = MODELS["supervised_vae"]
    assert not whole.capabilities.missing_cells
    assert suggested_settings(whole, shape) == whole.suggest(
        TableSize(n_rows=900, n_columns=12, n_classes=3)
    )


def test_a_setting_is_advised_only_where_it_differs_from_the_default() -> None:
    long = replace(TABLE, rows=25_000)
    assert suggested_settings(LDGD, long)["max_iter"] == 300
    default = {parameter.name: parameter.default for parameter in LDGD.parameters()}["max_iter"]
    assert ("max_iter" in advised_settings(LDGD, long)) == (default != 300)
    longer = advised_settings(LDGD, replace(TABLE, rows=90_000))["max_iter"]
    assert longer.value < 300
    assert "90,000 rows" in longer.reason
    assert advised_settings(LDGD, TABLE) == {}
    wide = advised_settings(FastLDGD, replace(TABLE, columns=64, classes=10, rows=1800))
    assert wide["noise"].value == "shared"
    assert "64 columns" in wide["noise"].reason
    assert "10 classes" in wide["n_components"].reason
