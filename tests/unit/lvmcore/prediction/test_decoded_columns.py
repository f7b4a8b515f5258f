"""Decoded columns in their own terms."""

import numpy as np
import pandas as pd
import pytest

from lvmcore import BayesianGPLVM, ProbabilisticPCA
from lvmcore.data import Dataset, Table
from lvmcore.data.column_likelihoods import likelihood_text
from lvmcore.prediction.decoded_columns import (
    column_terms,
    decoded_categories,
    decoded_interval,
)


@pytest.fixture(scope="module")
def fitted() -> tuple[BayesianGPLVM, Dataset]:
    """A map of a number, a count, two answers, and a category whose name has an equals sign."""
    rng = np.random.default_rng(0)
    place = rng.standard_normal(80)
    table = Table.from_frame(
        pd.DataFrame(
            {
                "height": 170 + 8 * place + rng.standard_normal(80),
                "visits": rng.poisson(np.exp(0.5 + place)),
                "smoker": np.where(place + 0.3 * rng.standard_normal(80) > 0, "yes", "no"),
                "a = b": np.array(["x", "y = 1", "z"])[np.digitize(place, [-0.5, 0.5])],
            }
        ),
        name="mixed",
    )
    dataset = table.dataset(one_hot=["a = b"], label=None)
    model = BayesianGPLVM(
        n_components=1,
        n_inducing=8,
        max_iter=40,
        start="pca",
        column_likelihood=likelihood_text(dataset),
    )
    return model.fit(pd.DataFrame(dataset.X, columns=list(dataset.feature_names))), dataset


def test_categories_have_the_names_and_levels_of_the_table(
    fitted: tuple[BayesianGPLVM, Dataset],
) -> None:
    model, dataset = fitted
    found = {one.name: one for one in decoded_categories(model, dataset)}
    assert list(found) == ["smoker", "a = b"]
    assert found["smoker"].levels == ("no", "yes")
    assert found["a = b"].levels == ("x", "y = 1", "z")


def test_probabilities_of_levels_are_those_decoded_and_add_up_to_1(
    fitted: tuple[BayesianGPLVM, Dataset],
) -> None:
    model, dataset = fitted
    decoded = model.decode([[-1.0], [0.0], [1.0]])
    for category in decoded_categories(model, dataset):
        p = category.probabilities(decoded.mean)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-6)
        observed = category.probabilities(dataset.X)
        assert set(np.unique(observed)) == {0.0, 1.0}
        column = dataset.frame[category.name].astype(str)
        names = np.array(category.levels)[observed.argmax(axis=1)]
        np.testing.assert_array_equal(names, column)
        share = category.probabilities(model.decode(model.embedding_.mean).mean)
        right = (share.argmax(axis=1) == observed.argmax(axis=1)).mean()
        assert right > 0.7


def test_the_interval_of_a_count_has_whole_ends_that_hold_most_cells(
    fitted: tuple[BayesianGPLVM, Dataset],
) -> None:
    model, dataset = fitted
    decoded = model.decode(model.embedding_.mean)
    lower, upper = decoded_interval(model, decoded, 2.0)
    visits = dataset.feature_names.index("visits")
    np.testing.assert_array_equal(lower[:, visits], np.round(lower[:, visits]))
    assert (lower[:, visits] >= 0).all()
    inside = (lower <= dataset.X) & (upper >= dataset.X)
    assert inside[:, visits].mean() > 0.9
    assert inside[:, 0].mean() > 0.9


def test_a_model_of_gaussian_columns_has_no_categories_and_symmetric_intervals() -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    dataset = Dataset.from_arrays(X)
    model = ProbabilisticPCA(n_components=1).fit(X)
    assert column_terms(model) is None
    assert decoded_categories(model, dataset) == ()
    decoded = model.decode([[0.3]])
    lower, upper = decoded_interval(model, decoded, 2.0)
    np.testing.assert_allclose(upper - decoded.mean, 2 * np.sqrt(decoded.variance))
    np.testing.assert_allclose(decoded.mean - lower, 2 * np.sqrt(decoded.variance))
