"""The single Gaussian process that a deep one begins as, and the rows that it chooses."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.kept_draws import DeepGPDraws
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.subset_of_data import SubsetDeepGP, subset_deep_gp
from lvmcore.deep.warm_start import fit_single_gp, initialise_from_single_gp
from lvmcore.gp.inducing_points import rows_by_bound
from lvmcore.kernels.stationary import RBF
from tests.unit.lvmcore.deep.small_models import generator, sod_fit, table

NOISE = torch.tensor(0.1, dtype=torch.float64)


def covariances(X: Tensor) -> Tensor:
    return RBF(X.new_tensor(1.3), X.new_tensor([0.8, 1.5, 3.0]))(X, X)


def bound(K: Tensor, Y: Tensor, rows: list[int]) -> float:
    """Σ_p log N(y_p | 0, Q + σ²I) − P tr(K − Q)/(2σ²), by dense algebra."""
    some = K[:, rows]
    Q = some @ torch.linalg.solve(K[rows][:, rows], some.T)
    low_rank = MultivariateNormal(torch.zeros(len(K)).double(), Q + NOISE * torch.eye(len(K)))
    return float(low_rank.log_prob(Y.T).sum() - Y.shape[1] * (K - Q).trace() / (2 * NOISE))


def single(rule: Any = "bound", n: int = 60, H: int = 3) -> tuple[Tensor, Any, Tensor, Tensor]:
    X, Y = table(n, H)
    given = {"steps": 100, "learning_rate": 0.04, "settings": DeepGPSettings()}
    return *fit_single_gp(X, Y, 8, rule, generator(), **given), X, Y


def deep(X: Tensor, Y: Tensor, rows: Tensor, of: Any = None, **settings: Any) -> SubsetDeepGP:
    return subset_deep_gp(DeepGPSettings(**settings), X, Y, rows, of or GaussianNoise(0.5, X))


@pytest.mark.parametrize("P", [1, 2])
def test_each_row_is_the_one_that_the_bound_gains_most_by(P: int) -> None:
    X, Y = table(25, P=P)
    K = covariances(X)
    chosen = rows_by_bound(K, Y, NOISE, 6).tolist()
    for taken in range(6):
        before = chosen[:taken]
        by_row = {r: bound(K, Y, [*before, r]) for r in range(25) if r not in before}
        assert chosen[taken] == max(by_row, key=by_row.__getitem__)


def test_rows_that_are_equal_come_last() -> None:
    X, Y = table(20)
    X[10:] = X[:10]
    chosen = rows_by_bound(covariances(X), Y, NOISE, 15)
    assert len(chosen.unique()) == 15
    assert len(X[chosen[:10]].unique(dim=0)) == 10


@pytest.mark.slow
def test_the_bound_s_rows_beat_those_near_centroids() -> None:
    """Four columns of six say nothing of the target, which k-means does not know."""
    found = {}
    for rule in ("bound", "kmeans"):
        rows, last, X, Y = single(rule, H=6)
        assert torch.equal(rows, rows.sort().values)
        assert len(rows.unique()) == 8
        model = deep(X, Y, rows, n_hidden=0)
        initialise_from_single_gp(model, last)
        terms = sod_fit(model, X, Y).batch_terms()
        found[rule] = float(torch.stack(list(terms.values())).sum().detach())
    assert found["bound"] > found["kmeans"] + 1


@pytest.mark.slow
def test_long_tables_are_seen_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lvmcore.deep.warm_start.MAX_ROWS", 30)
    rows, last, *_ = single(n=200)
    assert len(rows.unique()) == 8
    assert float(rows.max()) > 40  # positions among all rows, not among those seen
    assert float(last.likelihood.noise.detach()) < 0.05


@pytest.mark.slow
@torch.no_grad()
def test_a_deep_model_begins_as_the_single_process() -> None:
    with torch.enable_grad():
        rows, last, X, Y = single()
    alone, layered = deep(X, Y, rows, n_hidden=0), deep(X, Y, rows, n_hidden=2)
    for model in (alone, layered):
        initialise_from_single_gp(model, last)
        fit = sod_fit(model, X, Y)
        assert set(fit.frozen_in_warm_up()) == set(model.last.parameters())
        for _ in range(20):
            fit.batch_terms()
    new = table(30, seed=8)[0]
    one, other = (
        DeepGPDraws.from_model(model, 50, generator(), (X, Y)).predict(new)[0].mean(0)
        for model in (alone, layered)
    )
    sd = float(last.likelihood.noise.sqrt())
    # Two layers of three units, each of which moves the target by a tenth of the noise at most.
    assert float((one - other).abs().max()) < sd


@pytest.mark.slow
@torch.no_grad()
def test_what_the_kernel_cannot_know_stays() -> None:
    with torch.enable_grad():
        rows, last, X, Y = single()
    narrow = deep(X, Y, rows, width=2)
    before = {name: value.clone() for name, value in narrow.state_dict().items()}
    initialise_from_single_gp(narrow, last)
    assert not narrow.pretrained
    assert all(torch.equal(value, before[name]) for name, value in narrow.state_dict().items())
    wide = deep(X, Y, rows, width=5)
    initialise_from_single_gp(wide, last)
    torch.testing.assert_close(wide.last.log_lengthscales[:3], last.log_lengthscales)
    assert float(wide.hidden[0].variance.max()) <= 0.03**2 * 1.001
    signs = deep(X, Y.sign(), rows, SoftmaxClasses("probit", X))
    initialise_from_single_gp(signs, last)
    torch.testing.assert_close(signs.last.log_lengthscales, last.log_lengthscales)
    assert float(signs.last.log_variance) == 0
