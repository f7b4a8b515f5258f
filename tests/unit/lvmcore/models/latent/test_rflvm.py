"""RFLVM as an estimator: likelihoods, notes, stops, going on, what is told of the chains."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import expit, logsumexp
from scipy.stats import nbinom, norm

from lvmcore import RFLVM, ConfigError, DataError, load
from lvmcore.base.table_size import TableSize
from lvmcore.mcmc.chains import MAX_DRAWS, ParallelChains
from lvmcore.models.latent import rflvm
from lvmcore.results import FitStep
from lvmcore.training.checkpoint import Checkpoint

rng = np.random.default_rng(0)
N = 40
ALONG = np.linspace(-1.5, 1.5, N)
PSI = np.column_stack([2 * ALONG, 0.5 - 2 * ALONG, 2 * np.sin(2 * ALONG), 1 - ALONG**2])
TABLES = {
    "gaussian": PSI * [1, 10, 0.1, 5] + [0, 3, 0, -7] + 0.05 * rng.normal(size=(N, 4)),
    "bernoulli": (rng.random((N, 4)) < expit(PSI)).astype(float),
    "negative_binomial": rng.poisson(rng.gamma(8.0, size=(N, 4)) * np.exp(PSI)).astype(float),
}
for_likelihoods = pytest.mark.parametrize("likelihood", list(TABLES))


def model(likelihood: str = "gaussian", **settings: Any) -> RFLVM:
    usual = {"max_iter": 40, "n_features": 12, "n_mixture": 3, "random_state": 3}
    return RFLVM(likelihood=likelihood, **usual | settings)  # type: ignore[arg-type]


def stop_after(last: int) -> Callable[[FitStep], bool]:
    return lambda step: step.iteration >= last


def same(one: RFLVM, two: RFLVM) -> None:
    assert [step.terms for step in one.history_] == [step.terms for step in two.history_]
    assert [step.iteration for step in two.history_] == list(range(1, len(one.history_) + 1))
    np.testing.assert_array_equal(two.embedding_.mean, one.embedding_.mean)
    np.testing.assert_array_equal(two.embedding_.variance, one.embedding_.variance)
    assert two.notes_ == one.notes_
    assert two.converged_ == one.converged_
    np.testing.assert_equal(two.diagnostics_, one.diagnostics_)


@pytest.mark.slow(quick=["stops0-gaussian", "stops1-gaussian", "stops2-gaussian"])
@for_likelihoods
@pytest.mark.parametrize("stops", [(1,), (20,), (21,), (7, 25, 33), (40,)])
def test_a_fit_that_goes_on_ends_as_if_never_stopped(
    likelihood: str, stops: tuple[int, ...], tmp_path: Path
) -> None:
    X, path = TABLES[likelihood], tmp_path / "checkpoint.safetensors"
    whole = model(likelihood).fit(X)
    for stop in stops:
        part = model(likelihood)._fit_from(
            X, callback=stop_after(stop), checkpoint=Checkpoint(path)
        )
        assert len(part.history_) == stop
        assert not part.converged_
    same(whole, model(likelihood)._fit_from(X, checkpoint=Checkpoint(path)))


def test_other_settings_do_not_go_on_from_it(tmp_path: Path) -> None:
    X, path = TABLES["gaussian"], tmp_path / "checkpoint.safetensors"
    model()._fit_from(X, callback=stop_after(9), checkpoint=Checkpoint(path))
    other = model(n_features=8)._fit_from(X, checkpoint=Checkpoint(path))
    assert any("of other data, other settings" in note for note in other.notes_)
    np.testing.assert_array_equal(other.embedding_.mean, model(n_features=8).fit(X).embedding_.mean)


@pytest.mark.slow
def test_a_stop_in_the_warm_up_keeps_where_the_chains_stood() -> None:
    stopped = model(n_chains=3).fit(TABLES["gaussian"], callback=stop_after(5))
    assert any(note.startswith("Stopped in the warm-up") for note in stopped.notes_)
    later = model(max_iter=600).fit(TABLES["gaussian"][:12], callback=stop_after(301))
    assert any(note.startswith("Stopped just after the warm-up") for note in later.notes_)
    assert stopped.diagnostics_ == {}
    assert len(stopped._draws.W) == 3
    assert (stopped.embedding_.variance > 0).all()
    assert np.isfinite(stopped.transform(TABLES["gaussian"])).all()


def test_a_single_draw_has_the_variance_of_its_curvature() -> None:
    one = model(max_iter=1, n_chains=1).fit(TABLES["gaussian"])
    np.testing.assert_array_equal(
        one.embedding_.variance, one.posterior(TABLES["gaussian"]).variance
    )
    assert any("whether it has settled" in note for note in one.notes_)


@pytest.mark.parametrize(("max_iter", "n_chains"), [(1, 1), (7, 1), (40, 2), (90, 3), (64, 2)])
def test_kept_draws_are_few_evenly_spaced_and_end_with_the_last(
    max_iter: int, n_chains: int
) -> None:
    fitted = model(max_iter=max_iter, n_chains=n_chains).fit(TABLES["gaussian"])
    sampled = n_chains * (max_iter - max_iter // 2)
    assert n_chains <= len(fitted._draws.W) <= min(MAX_DRAWS, sampled)
    assert len(fitted._draws.W) > min(MAX_DRAWS, sampled) / 2 - n_chains


@pytest.mark.slow
@for_likelihoods
def test_the_order_along_a_curve_is_found_and_decoded(likelihood: str) -> None:
    X, psi = TABLES[likelihood], PSI
    if likelihood == "bernoulli":  # four answers tell too little of a row
        psi = np.tile(PSI, 5)
        X = (np.random.default_rng(1).random(psi.shape) < expit(psi)).astype(float)
    fitted = model(likelihood, max_iter=120, n_components=1).fit(X)
    assert abs(np.corrcoef(fitted.embedding_.mean[:, 0], ALONG)[0, 1]) > 0.85
    decoded = fitted.decode(fitted.embedding_.mean)
    expected = {
        "gaussian": X,
        "bernoulli": expit(psi),
        "negative_binomial": nbinom.mean(8.0, expit(-PSI)),
    }[likelihood]
    left = np.square(decoded.mean - expected).sum(axis=0)
    spread = np.square(expected - expected.mean(axis=0)).sum(axis=0)
    assert left.sum() / spread.sum() < 0.3
    if likelihood != "gaussian":
        assert (decoded.mean >= 0).all()


@pytest.mark.slow(quick=["gaussian"])
@for_likelihoods
def test_what_it_measures_is_kept_and_saved(likelihood: str, tmp_path: Path) -> None:
    X = TABLES[likelihood]
    fitted = model(likelihood).fit(X)
    fitted.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert isinstance(again, RFLVM)
    np.testing.assert_equal(again.diagnostics_, fitted.diagnostics_)
    np.testing.assert_array_equal(again.score_samples(X), fitted.score_samples(X))
    np.testing.assert_array_equal(again.sample(9, random_state=1), fitted.sample(9, random_state=1))
    names = list(fitted.diagnostics_)
    assert names[0] == "log likelihood"
    assert "distance of rows 1 and 6" in names
    assert ("noise variance" in names) == (likelihood == "gaussian")
    assert ("mean log dispersion" in names) == (likelihood == "negative_binomial")


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["bernoulli", "negative_binomial"])
def test_drawn_rows_are_of_the_kind_of_the_data(likelihood: str) -> None:
    fitted = model(likelihood, max_iter=80).fit(TABLES[likelihood])
    drawn = fitted.sample(4000, rows=np.arange(N), random_state=0)
    assert (drawn == np.round(drawn)).all()
    assert drawn.min() == 0
    if likelihood == "bernoulli":
        assert set(np.unique(drawn)) == {0.0, 1.0}
    decoded = fitted.decode(fitted.embedding_.draw(4000, np.random.default_rng(1)))
    sd = decoded.mean.std(axis=0) + np.sqrt(decoded.variance.mean(axis=0))
    assert (np.abs(drawn.mean(axis=0) - decoded.mean.mean(axis=0)) < 6 * sd / 63).all()


@pytest.mark.slow
def test_rows_unlike_those_of_the_fit_are_less_likely() -> None:
    X = TABLES["negative_binomial"]
    fitted = model("negative_binomial", max_iter=80).fit(X)
    strange = X[:, ::-1]
    assert fitted.score(X) > fitted.score(strange) + 1
    # A probability, not a density: below 1 for every row.
    assert (fitted.score_samples(X) < 0).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "value", "words"),
    [
        ("bernoulli", 0.5, r"The value 0\.5 in row 3, column b, is neither 0 nor 1"),
        ("negative_binomial", 1.5, r"The value 1\.5 in row 3, column b, is no whole number"),
        ("negative_binomial", -1.0, r"The value -1 in row 3, column b, is below 0"),
    ],
)
def test_cells_that_a_likelihood_cannot_have_are_named(
    likelihood: str, value: float, words: str
) -> None:
    frame = pd.DataFrame(TABLES[likelihood], columns=list("abcd"))
    frame.loc[2, "b"] = value
    with pytest.raises(DataError, match=words):
        model(likelihood).fit(frame)
    sound = frame.assign(b=TABLES[likelihood][:, 1])
    with pytest.raises(DataError, match=words):
        model(likelihood).fit(sound).transform(frame)


def test_too_many_cells_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rflvm.MOST_CELLS, "gaussian", 100)
    with pytest.raises(ConfigError, match=r"cannot be fitted to 160 cells.*at most 100"):
        model().fit(TABLES["gaussian"])


@pytest.mark.slow
def test_chains_that_do_not_agree_are_said_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = ParallelChains._quantities

    def apart(run: ParallelChains, chain: Any) -> list[float]:
        found = usual(run, chain)
        noise = chain.rng.standard_normal(len(found))
        return [100.0 * (chain is run.chains[0]) + float(noise[0]), *noise[1:].tolist()]

    monkeypatch.setattr(ParallelChains, "_quantities", apart)
    fitted = model(max_iter=400).fit(TABLES["gaussian"])
    (note,) = fitted.notes_
    assert "the most for the log likelihood" in note
    assert fitted.diagnostics_["log likelihood"].r_hat > 1.5
    assert not fitted.converged_


def test_a_chain_alone_is_not_called_several(monkeypatch: pytest.MonkeyPatch) -> None:
    def drifting(run: ParallelChains, chain: Any) -> list[float]:
        return [float(len(run._traces))] * len(run._names())

    monkeypatch.setattr(ParallelChains, "_quantities", drifting)
    (note,) = model(n_chains=1, max_iter=60).fit(TABLES["gaussian"]).notes_
    assert note.startswith("The first and second half of the chain do not agree")


def test_the_likelihood_that_cells_ask_for_is_advised() -> None:
    for cells, wanted in (("counts", "negative_binomial"), ("binary", "bernoulli")):
        found = RFLVM.suggest(TableSize(n_rows=9, n_columns=4, cells=cells))  # type: ignore[arg-type]
        assert found == {"likelihood": wanted}
    assert RFLVM.suggest(TableSize(n_rows=9, n_columns=4)) == {}


@pytest.mark.slow
def test_the_density_of_a_row_is_that_of_a_grid_over_the_map() -> None:
    X = TABLES["negative_binomial"]
    fitted = model("negative_binomial", max_iter=80, n_components=1).fit(X)
    grid = np.linspace(-7, 7, 6001)[:, None, None]
    points = torch.as_tensor(np.broadcast_to(grid, (6001, N, 1)).copy())
    joint = fitted._draws.log_density(torch.as_tensor(X), points).numpy() + norm.logpdf(
        grid[..., 0]
    )
    expected = logsumexp(joint, axis=0) + np.log(14 / 6000)
    np.testing.assert_allclose(fitted.score_samples(X), expected, atol=0.2)
    assert fitted.score(X) == pytest.approx(expected.mean(), abs=0.02)


@pytest.mark.slow
def test_chains_that_agree_have_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    def noise(run: ParallelChains, chain: Any) -> list[float]:
        return chain.rng.standard_normal(len(run._names())).tolist()

    monkeypatch.setattr(ParallelChains, "_quantities", noise)
    fitted = model(max_iter=1200, n_features=4).fit(TABLES["gaussian"][:12])
    assert fitted.converged_
    assert fitted.notes_ == ()


def test_axes_are_sorted_by_what_they_change() -> None:
    fitted = model(max_iter=80).fit(TABLES["gaussian"])
    first, second = fitted.relevance_["data"]
    assert first > second > 0
    metric = fitted.latent_metric(fitted.embedding_.mean).mean(axis=0)
    np.testing.assert_allclose(metric, np.diag(fitted.relevance_["data"]), atol=1e-6 * first)


def test_snapshots_come_from_the_first_chain_and_do_not_spin() -> None:
    shown: list[FitStep] = []
    fitted = model(max_iter=60).fit(TABLES["gaussian"], callback=lambda s: bool(shown.append(s)))
    snapshots = [step.snapshot for step in shown if step.snapshot is not None]
    assert shown[-1].ends
    assert shown[-1].snapshot is not None
    assert snapshots[0].mean.shape == (N, 2)
    assert list(shown[0].terms) == ["log likelihood"]
    assert np.isnan(fitted.elbo_)


def test_as_many_features_as_asked_for_or_one_more() -> None:
    X = TABLES["gaussian"]
    assert model(n_features=7, max_iter=2).fit(X)._draws.H.shape[1] == 8
    assert model(n_features=8, max_iter=2).fit(X)._draws.H.shape[1] == 8


@pytest.mark.slow(quick=["gaussian"])
@for_likelihoods
def test_a_given_kernel_is_sampled_saved_and_goes_on(likelihood: str, tmp_path: Path) -> None:
    data = TABLES[likelihood]
    settings = {"kernel": "matern32(z1) + periodic(z2)", "n_components": 2, "max_iter": 8}
    whole = model(likelihood, **settings).fit(data)
    draws = whole.hyperparameters_
    assert {len(values) for values in draws.values()} == {len(whole._draws.W)}
    shares = draws["share of matern32(z1)"] + draws["share of periodic(z2)"]
    np.testing.assert_allclose(shares, 1)
    assert draws["period of periodic(z2)"].std() > 0
    assert "period of periodic(z2)" in whole.diagnostics_
    # Axes are reflected, not turned: a frequency is along one dimension
    assert ((whole._draws.W != 0).sum(2) <= 1).all()
    path = tmp_path / "checkpoint.safetensors"
    model(likelihood, **settings)._fit_from(
        data, None, callback=stop_after(6), checkpoint=Checkpoint(path)
    )
    again = model(likelihood, **settings)._fit_from(data, None, checkpoint=Checkpoint(path))
    same(again, whole)
    np.testing.assert_equal(again.hyperparameters_, draws)
    whole.save(tmp_path / "model.safetensors")
    loaded: Any = load(tmp_path / "model.safetensors")
    np.testing.assert_equal(loaded.hyperparameters_, draws)
    np.testing.assert_array_equal(loaded.score_samples(data[:3]), whole.score_samples(data[:3]))


def test_draws_of_a_given_kernel_decode_as_their_chain_did() -> None:
    chains: list[Any] = []
    usual = ParallelChains.run

    def run(self: ParallelChains, *parts: Any) -> Any:
        chains.extend(self.chains)
        return usual(self, *parts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ParallelChains, "run", run)
        fitted = model(kernel="matern12 + cosine(z1)", n_components=2, n_chains=1).fit(
            TABLES["gaussian"]
        )
    (chain,) = chains
    psi = chain.features() @ chain.H
    last = list(fitted._draws)[-1]
    anchors = last.anchors  # all rows: they are few
    np.testing.assert_allclose(last.psi(anchors)[0], psi, atol=1e-9)
    assert fitted.hyperparameters_["lengthscale of matern12 z1"].shape == (len(fitted._draws.W),)


def test_a_learned_kernel_has_no_hyperparameters() -> None:
    fitted = model(max_iter=4).fit(TABLES["gaussian"])
    assert fitted.hyperparameters_ == {}
    assert "hyperparameters" not in fitted._get_state()[0]


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("linear", "has linear, whose spectrum"),
        ("rbf(z3)", "names z3, but the map has 2 dimensions"),
        (" + ".join(["rbf(z1)", "matern12", "matern32", "matern52"] * 2), "8 summands"),
    ],
)
def test_kernels_that_cannot_be_used_are_refused(kernel: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        model(kernel=kernel, n_components=2).fit(TABLES["gaussian"])
