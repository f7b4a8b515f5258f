"""Fast LDGD and the autoencoders on data whose answer is known."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from lvmcore import LDGD, VAE, FastLDGD, ProbabilisticPCA, SupervisedVAE
from lvmcore.base.latent_variable_model import LatentVariableModel
from lvmcore.data import load_paper, load_sample
from lvmcore.metrics.scores import coverage
from lvmcore.numerics.gaussians import kl_standard_normal

Array = NDArray[np.float64]
Split = tuple[Array, Array, NDArray[np.str_], NDArray[np.str_]]


def split(key: str, label: str, size: float = 0.4) -> Split:
    dataset = load_sample(key).dataset(label=label)
    y = np.array(dataset.labels)
    parts = train_test_split(dataset.X, y, test_size=size, stratify=y, random_state=0)
    return tuple(parts)  # type: ignore[return-value]


@pytest.fixture(scope="module")
def moons() -> Split:
    return split("moons10", "label")


@pytest.mark.slow(quick=["SupervisedVAE"])
@pytest.mark.parametrize("model", [FastLDGD, SupervisedVAE])
def test_iris_is_told_apart(model: type[LatentVariableModel]) -> None:
    X, unseen, y, y_unseen = split("iris", "species")
    before = model(max_iter=1).fit(X, y)
    after = model(max_iter=200).fit(X, y)
    assert after.elbo_ > before.elbo_ + 2 * len(X)
    assert after.score(unseen, y_unseen) >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [64, 4096])
def test_moons_are_told_apart_in_batches_and_at_once(moons: Split, batch_size: int) -> None:
    X, unseen, y, y_unseen = moons
    model = FastLDGD(n_components=10, max_iter=300, batch_size=batch_size).fit(X, y)
    assert model.score(unseen, y_unseen) >= 0.97


@pytest.mark.slow
def test_batches_come_near_the_bound_of_all_rows_at_once(moons: Split) -> None:
    X, _, y, _ = moons
    settings = {"n_components": 4, "n_inducing": 15, "max_iter": 300, "n_hidden": 32}
    start = FastLDGD(**settings | {"max_iter": 1}).fit(X, y).elbo_
    whole = FastLDGD(**settings, batch_size=4096).fit(X, y).elbo_
    parts = FastLDGD(**settings, batch_size=100).fit(X, y).elbo_
    assert parts - start > 0.8 * (whole - start)


def holed(X: Array, share: float, seed: int = 0) -> Array:
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


@pytest.mark.slow
def test_with_gaps_batches_come_near_the_bound_of_all_rows_at_once(moons: Split) -> None:
    X, _, y, _ = moons
    settings = {"n_components": 4, "n_inducing": 15, "max_iter": 200, "n_hidden": 32}
    start = FastLDGD(**settings | {"max_iter": 1}).fit(holed(X, 0.2), y).elbo_
    whole = FastLDGD(**settings, batch_size=4096).fit(holed(X, 0.2), y).elbo_
    parts = FastLDGD(**settings, batch_size=100).fit(holed(X, 0.2), y).elbo_
    assert parts - start > 0.8 * (whole - start)


@pytest.mark.slow
@pytest.mark.parametrize("n_inducing", [20, 40])  # closed form, and draws
def test_with_gaps_classes_are_told_and_cells_filled(moons: Split, n_inducing: int) -> None:
    X, unseen, y, y_unseen = moons
    model = FastLDGD(n_components=4, n_inducing=n_inducing, max_iter=300, batch_size=128)
    model.fit(holed(X, 0.2), y)
    assert model.score(unseen, y_unseen) >= 0.92
    gaps = holed(unseen, 0.3, seed=1)
    assert model.score(gaps, y_unseen) >= 0.85
    missing, filled = np.isnan(gaps), model.impute(gaps)
    sd = unseen.std(axis=0)
    ours = ((filled.mean - unseen) / sd)[missing]
    flat = ProbabilisticPCA(n_components=4).fit(holed(X, 0.2)).impute(gaps)
    assert np.square(ours).mean() < np.square(((flat.mean - unseen) / sd)[missing]).mean()
    held = coverage(unseen[missing], filled.mean[missing], filled.variance[missing], 0.9)
    assert 0.85 < held < 0.97


def test_a_network_never_told_of_gaps_leaves_them_to_the_columns(moons: Split) -> None:
    """Rows with gaps are placed as well as by refining what the network says of filled-in rows."""
    X, unseen, y, _ = moons
    model = FastLDGD(n_components=4, max_iter=100, n_hidden=16).fit(X, y)
    gaps = holed(unseen, 0.3)
    place, guess = model.posterior(gaps), model.posterior(np.where(np.isnan(gaps), X.mean(0), gaps))
    complete = ~np.isnan(gaps).any(axis=1)
    np.testing.assert_allclose(place.mean[complete], guess.mean[complete], atol=1e-10)
    bounds = []
    for found in (place, guess):
        mean, variance = torch.as_tensor(found.mean), torch.as_tensor(found.variance)
        rows = model._decoder.observed_rows(torch.as_tensor(model._standardiser.transform(gaps)))
        fit = rows.expected_log_density(torch.arange(len(gaps)), mean, variance)
        bounds.append((fit - kl_standard_normal(mean, variance)).numpy()[~complete])
    assert np.mean(bounds[0] > bounds[1]) > 0.95
    assert bounds[0].mean() > bounds[1].mean() + 0.5


def test_labels_that_mean_nothing_are_not_predicted() -> None:
    X, unseen, y, y_unseen = split("iris", "species")
    shuffled = np.random.default_rng(0).permutation(y)
    assert FastLDGD(max_iter=60).fit(X, shuffled).score(unseen, y_unseen) < 0.6


@pytest.mark.slow
def test_probabilities_know_what_cannot_be_known(moons: Split) -> None:
    """A fifth of the labels is swapped at random, so nobody can be surer than 0.8."""
    X, unseen, y, y_unseen = moons
    rng = np.random.default_rng(1)
    swap = rng.random(len(y)) < 0.2, rng.random(len(y_unseen)) < 0.2
    codes = [(part == np.unique(y)[1]) ^ s for part, s in zip((y, y_unseen), swap, strict=True)]
    model = FastLDGD(n_components=5, max_iter=200).fit(X, codes[0])
    surest = model.predict_proba(unseen).max(axis=1)
    right = model.predict(unseen) == codes[1]
    assert abs(surest.mean() - right.mean()) < 0.1


@pytest.mark.slow
def test_swapped_labels_are_not_learned_by_heart(moons: Split) -> None:
    """The chosen weight predicts other rows better than the largest one does."""
    X, unseen, y, y_unseen = moons
    codes, truth = (np.unique(part, return_inverse=True)[1] for part in (y, y_unseen))
    swapped = codes ^ (np.random.default_rng(1).random(len(y)) < 0.2)
    settings = {"n_inducing": 20, "max_iter": 400, "random_state": 0}
    chosen = FastLDGD(**settings).fit(X, swapped)
    largest = FastLDGD(**settings, label_weight=4.0).fit(X, swapped)
    assert chosen.settings_["label_weight"] == 1
    assert chosen.score(unseen, truth) > max(0.9, largest.score(unseen, truth) + 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_refinement_raises_the_bound_of_every_new_row(moons: Split, share: float) -> None:
    X, unseen, y, _ = moons
    X, unseen = holed(X, share), holed(unseen, share, seed=1)
    settings = {"n_components": 4, "max_iter": 60, "n_hidden": 16}
    plain = FastLDGD(**settings).fit(X, y)
    refined = FastLDGD(**settings, n_refinement=30).fit(X, y)
    Y = torch.as_tensor(plain._standardiser.transform(unseen))
    bounds = []
    for model in (plain, refined):
        posterior = model.posterior(unseen)
        mean, variance = torch.as_tensor(posterior.mean), torch.as_tensor(posterior.variance)
        # The two fits are the same; what differs is how they place new rows.
        rows = plain._decoder.observed_rows(Y)
        fit = rows.expected_log_density(torch.arange(len(Y)), mean, variance)
        bounds.append(fit - kl_standard_normal(mean, variance))
    assert bool((bounds[1] >= bounds[0] - 1e-9).all())
    assert float((bounds[1] - bounds[0]).mean()) > 0.02


@pytest.mark.slow
def test_an_autoencoder_bends_where_a_plane_cannot() -> None:
    rng = np.random.default_rng(0)
    t = rng.uniform(-2, 2, 400)
    curve = np.column_stack([t, t**2, np.sin(2 * t)]) + 0.1 * rng.standard_normal((400, 3))
    bent = VAE(n_components=1, max_iter=600).fit(curve[:200])
    flat = ProbabilisticPCA(n_components=1).fit(curve[:200])
    assert bent.score(curve[200:]) > flat.score(curve[200:]) + 0.5
    errors = [
        np.square(model.inverse_transform(model.transform(curve[200:])) - curve[200:]).mean()
        for model in (bent, flat)
    ]
    assert errors[0] < 0.6 * errors[1]


@pytest.mark.slow
def test_oil_flow_from_few_rows_is_no_worse_than_by_the_autoencoder(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LVMCORE_DATA", str(data_dir))
    dataset = load_paper("oil_flow_train").dataset(label="label")
    y = np.array(dataset.labels)
    X, unseen, y, y_unseen = train_test_split(
        dataset.X, y, train_size=100, test_size=400, stratify=y, random_state=0
    )
    found = [
        model(n_components=7).fit(X, y).score(unseen, y_unseen) for model in (LDGD, SupervisedVAE)
    ]
    assert found[0] >= found[1] - 2 / 400  # two of the unseen rows
