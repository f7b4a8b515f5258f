"""Weights of random features with a learned Gaussian: bound, gradients, and fits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import (
    Bernoulli,
    Distribution,
    MultivariateNormal,
    NegativeBinomial,
    Normal,
    Poisson,
    kl_divergence,
)

from lvmcore import load
from lvmcore.base.fit_problem import FitProblem
from lvmcore.base.validation import fit_fingerprint
from lvmcore.errors import ConfigError
from lvmcore.models.latent.srflvm import SRFLVM
from lvmcore.preprocessing.table_rows import InMemoryRows
from lvmcore.random_features.construction import column_term
from lvmcore.random_features.count_terms import CountTerm
from lvmcore.random_features.decoder import FeatureDecoder
from lvmcore.random_features.fourier import RandomFourierFeatures
from lvmcore.random_features.gaussian_term import FeatureSample, FeatureTerm, GaussianTerm
from lvmcore.random_features.variational_weights import VariationalWeightTerm

KINDS = ("gaussian", "bernoulli", "binomial", "negative_binomial", "poisson")
N, D, L = 9, 3, 2


def normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(seed).standard_normal(shape))


def cells(kind: str) -> torch.Tensor:
    drawn = normal(N, D, seed=1)
    if kind == "gaussian":
        return drawn
    counts = torch.as_tensor(np.random.default_rng(1).poisson(3.0, (N, D))).double()
    return (drawn > 0).double() if kind == "bernoulli" else counts


def seen(gaps: bool) -> torch.Tensor | None:
    return torch.as_tensor(np.random.default_rng(3).random((N, D)) < 0.7) if gaps else None


def term_of(
    kind: Any, *, gaps: bool = False, shared: bool = True, weights: Any = "variational"
) -> FeatureTerm:
    observed = seen(gaps)
    Y = cells(kind)
    Y = Y if observed is None else Y * observed
    generator = torch.Generator().manual_seed(0)
    problem = FitProblem(InMemoryRows(Y, observed), (), 2, generator, None)
    return column_term(
        problem,
        kind,
        n_features=2 * L,
        shared_noise=shared,
        n_trials=None,
        names=["a", "b", "c"],
        weights=weights,
    )


def variational(kind: str, **given: Any) -> VariationalWeightTerm:
    """A term with some q(H) that is neither its start nor its optimum."""
    term = term_of(kind, **given)
    assert isinstance(term, VariationalWeightTerm)
    with torch.no_grad():
        term.mean += 0.4 * normal(*term.mean.shape, seed=6)
        term.log_sd += 0.5 * normal(*term.log_sd.shape, seed=7)
        term.lower += 0.2 * normal(*term.lower.shape, seed=8)
        for parameter in term.frozen_in_warm_up():
            parameter.add_(0.3 * normal(*parameter.shape, seed=4))
    return term


def features(term: FeatureTerm) -> RandomFourierFeatures:
    return term.features(normal(L, 2, seed=5))


X = normal(N, 2, seed=2)


def set_posterior(term: VariationalWeightTerm, found: FeatureDecoder) -> None:
    """Give a term the q(h) of a decoder."""
    q = found.weights
    with torch.no_grad():
        term.mean.copy_(q.mean)
        for d in range(D):
            basis = q.basis if q.basis.dim() == 2 else q.basis[d]
            covariance = (basis * q.spread[:, d]) @ basis.T
            # V = TᵀT with T lower triangular: the Cholesky factor of V in reversed order
            T = torch.linalg.cholesky(covariance.flip(0, 1)).flip(0, 1).T
            term.lower[d] = T
            term.log_sd[d] = T.diagonal().log()


@pytest.mark.parametrize("gaps", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_the_bound_is_the_marginal_one_at_the_optimal_weights_and_lower_elsewhere(
    gaps: bool, shared: bool
) -> None:
    term = variational("gaussian", gaps=gaps, shared=shared)
    Phi = features(term)(X).detach()
    with torch.no_grad():
        highest = float(term.marginal.bound(Phi, step=False))
        assert float(term.bound(Phi, step=False)) < highest - 1
        set_posterior(term, term.marginal.decoder(features(term), X[None]))
        assert float(term.bound(Phi, step=False)) == pytest.approx(highest, abs=1e-5)
        for seed in range(20):  # any change of the optimum lowers it
            other = variational("gaussian", gaps=gaps, shared=shared)
            other.load_state_dict(term.state_dict())
            other.mean += 0.05 * normal(*term.mean.shape, seed=seed)
            other.lower += 0.05 * normal(*term.lower.shape, seed=seed)
            assert float(other.bound(Phi, step=False)) < highest


def test_gradient_steps_of_the_weights_alone_reach_the_marginal_bound() -> None:
    term = variational("gaussian", gaps=True)
    Phi = features(term)(X).detach()
    parameters = [term.mean, term.log_sd, term.lower]
    optimiser = torch.optim.LBFGS(parameters, max_iter=500, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = -term.bound(Phi, step=True)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        highest = float(term.marginal.bound(Phi, step=False))
        assert float(term.bound(Phi, step=False)) == pytest.approx(highest, abs=1e-4)


def likelihood(term: VariationalWeightTerm, kind: str, psi: torch.Tensor) -> Distribution:
    """p(y | ψ) of torch's own, for counts in their own parameters."""
    marginal = term.marginal
    if isinstance(marginal, GaussianTerm):
        return Normal(psi, marginal.noise.sqrt())
    assert isinstance(marginal, CountTerm)
    size = marginal.family.size
    if kind == "poisson":
        return Poisson(psi.exp())
    if kind == "negative_binomial":
        return NegativeBinomial(size, logits=psi)
    if kind == "binomial":
        return torch.distributions.Binomial(size.round(), logits=psi)
    return Bernoulli(logits=psi)


@pytest.mark.parametrize("gaps", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_by_drawn_weights(kind: str, gaps: bool) -> None:
    term = variational(kind, gaps=gaps)
    with torch.no_grad():
        if kind != "gaussian":  # the level's weight stands for 5 ψ
            term.mean[-1] *= 0.2
            term.log_sd[:, -1] = -4.0
            term.lower[:, -1] *= 0.1
        Phi = features(term)(X)
        value = float(term.bound(Phi, step=False))
        covariance = term.roots.mT @ term.roots
        q = MultivariateNormal(term.mean.T, covariance)
        zero = torch.zeros_like(term.mean.T)
        prior = MultivariateNormal(zero, torch.eye(zero.shape[1]).double())
        noise = normal(40_000, *zero.shape, seed=9)
        H = q.mean + (torch.linalg.cholesky(covariance) @ noise[..., None])[..., 0]
        psi = torch.einsum("nr,sdr->snd", Phi, H)
        logs = likelihood(term, kind, psi).log_prob(cells(kind))
        mask = torch.ones(N, D) if term.observed is None else term.observed
        drawn = (logs * mask).sum((1, 2))
        expected = float(drawn.mean() - kl_divergence(q, prior).sum())
        assert abs(value - expected) < 4 * float(drawn.std()) / len(drawn) ** 0.5


@pytest.mark.parametrize("gaps", [True, False])
@pytest.mark.parametrize("kind", ["gaussian", "bernoulli", "negative_binomial"])
def test_gradients_are_differences(kind: str, gaps: bool) -> None:
    term = variational(kind, gaps=gaps)
    own = {name: part for name, part in term.named_parameters() if part.requires_grad}
    sample = [normal(L, 2, seed=5).requires_grad_(), X.clone().requires_grad_()]

    def bound(points: torch.Tensor, places: torch.Tensor, *parts: torch.Tensor) -> torch.Tensor:
        values = dict(zip(own, parts, strict=True))
        found = torch.func.functional_call(
            _Value(term),
            {f"term.{name}": part for name, part in values.items()},
            (FeatureSample(points, places, step=True),),
            tie_weights=True,
        )
        assert isinstance(found, torch.Tensor)
        return found

    parts = [part.detach().clone().requires_grad_() for part in own.values()]
    assert torch.autograd.gradcheck(bound, (*sample, *parts))


class _Value(torch.nn.Module):
    """The bound as the call of a module."""

    def __init__(self, term: VariationalWeightTerm) -> None:
        super().__init__()
        self.term = term

    def forward(self, sample: FeatureSample) -> torch.Tensor:
        return self.term.value(sample)


def test_columns_some_at_a_time_give_the_same_bound_and_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    term = variational("bernoulli", gaps=True)
    Phi = features(term)(X).detach().requires_grad_()
    leaves = [Phi, term.mean, term.log_sd, term.lower]
    whole = term.bound(Phi, step=True)
    slopes = torch.autograd.grad(whole, leaves)
    monkeypatch.setattr("lvmcore.random_features.variational_weights.CHUNK_CELLS", 1)
    blocks = term.bound(Phi, step=True)
    torch.testing.assert_close(blocks, whole)
    for one, other in zip(torch.autograd.grad(blocks, leaves), slopes, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", ["gaussian", "poisson"])
def test_the_decoder_has_the_learned_weights(kind: str) -> None:
    term = variational(kind)
    phi = features(term)
    found = term.decoder(phi, X[None])
    new = normal(5, 2, seed=10)
    mean, variance = found.functions(new)
    Phi, covariance = phi(new).detach(), (term.roots.mT @ term.roots).detach()
    torch.testing.assert_close(mean, Phi @ term.mean.detach())
    torch.testing.assert_close(variance, torch.einsum("nr,drs,ns->nd", Phi, covariance, Phi))


# ---- fits --------------------------------------------------------------------------------------


def table(n_rows: int = 40) -> np.ndarray:
    """Six smooth columns of two latent dimensions, with noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_rows, 2))
    columns = [np.sin(x[:, 0]), x[:, 0], x[:, 0] * x[:, 1], np.cos(x[:, 1]), x[:, 1], x.sum(1)]
    return np.stack(columns, 1) + 0.1 * rng.normal(size=(n_rows, 6))


NUMBERS = table()
HOLED = np.where(np.random.default_rng(2).random(NUMBERS.shape) < 0.1, np.nan, NUMBERS)
BINARY = (NUMBERS > 0).astype(float)
HOLED_BINARY = np.where(np.isnan(HOLED), np.nan, BINARY)
COUNTS = np.random.default_rng(1).poisson(np.exp(1 + NUMBERS / 2)).astype(float)


def model(**settings: Any) -> SRFLVM:
    usual: dict[str, Any] = {"n_components": 2, "n_features": 12, "max_iter": 60}
    return SRFLVM(**{**usual, "random_state": 0, "weights": "variational", **settings})


@pytest.mark.parametrize(
    ("rows", "settings"),
    [
        (NUMBERS, {}),
        (NUMBERS, {"noise": "column", "covariance": "full", "dtype": "float32"}),
        (NUMBERS, {"kernel": "rbf"}),
        (HOLED, {"n_restarts": 2}),
        (BINARY, {"likelihood": "bernoulli"}),
        (HOLED_BINARY, {"likelihood": "bernoulli"}),
        (COUNTS, {"likelihood": "negative_binomial"}),
        (COUNTS, {"likelihood": "binomial"}),
        (COUNTS, {"likelihood": "poisson"}),
    ],
)
def test_a_fit_places_decodes_fills_and_comes_back(
    rows: np.ndarray, settings: dict[str, Any], tmp_path: Path
) -> None:
    fitted = model(**settings).fit(rows)
    totals = [step.objective for step in fitted.history_]
    assert np.mean(totals[-10:]) > np.mean(totals[:10])
    fitted.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert isinstance(again, SRFLVM)
    assert again.weights == "variational"
    places = fitted.transform(rows[:7])
    np.testing.assert_allclose(again.transform(rows[:7]), places)
    np.testing.assert_allclose(again.decode(places).mean, fitted.decode(places).mean)
    filled = fitted.impute(rows[:7])
    assert np.isfinite(filled.mean).all()
    assert np.isfinite(fitted.sample(3, random_state=0)).all()
    # The rows that it decodes are nearer to the table than its column means.
    known = ~np.isnan(rows)
    away = np.where(known, rows - fitted.decode(fitted.embedding_.mean).mean, 0)
    flat = np.where(known, rows - np.nanmean(rows, axis=0), 0)
    assert np.square(away).sum() < 0.9 * np.square(flat).sum()


def test_a_map_of_numbers_has_at_most_the_bound_with_marginal_weights() -> None:
    settings = {"max_iter": 300, "n_features": 16}
    best, found = (
        model(weights=weights, **settings).fit(NUMBERS).elbo_
        for weights in ("marginal", "variational")
    )
    assert best - 150 < found < best


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"spectral": "mixture"}, "spectral='mixture'"),
        ({"spectral": "moment"}, "spectral='moment'"),
        ({"batch_size": 20}, "batch_size=20"),
        ({"column_likelihood": "student_t*6"}, "weights='variational'"),
    ],
)
def test_settings_that_need_marginal_weights_are_refused(
    settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        model(max_iter=5, **settings).fit(NUMBERS)


def test_an_ensemble_is_refused() -> None:
    fitted = model(max_iter=5).fit(NUMBERS)
    with pytest.raises(ConfigError, match="weights='variational'"):
        fitted.ensemble(NUMBERS, 2)


def test_stored_fits_of_marginal_weights_keep_their_fingerprint() -> None:
    marginal = model(weights="marginal")
    before = fit_fingerprint(marginal, NUMBERS)
    settings = marginal.get_params(deep=False)
    del settings["weights"]

    class Earlier(SRFLVM):
        def get_params(self, deep: bool = True) -> dict[str, Any]:
            return settings

    assert fit_fingerprint(Earlier(), NUMBERS) == before
    assert fit_fingerprint(model(), NUMBERS) != before
