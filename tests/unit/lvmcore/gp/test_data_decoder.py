"""The frozen data path on rows with gaps, against Monte Carlo and against fewer columns."""

import pytest
import torch
from scipy.stats import norm
from torch import Tensor

from lvmcore.gp.data_decoder import DataDecoder
from lvmcore.gp.latent_inference import infer_rows
from lvmcore.gp.paths import DataPath, LatentRows
from lvmcore.preprocessing.observed_cells import ObservedCells
from tests.unit.lvmcore.small_problems import Small, small_decoder, small_problem

D = 4


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def masked_decoder(p: Small) -> DataDecoder:
    """A decoder fitted to a table with gaps: columns 0 and 2 have the same rows."""
    mask = normal(*p.Y.shape, seed=8) > -0.5
    mask[:, 2] = mask[:, 0]
    path, rows = DataPath(p.Z, p.noise), LatentRows(p.mean, 0.3)
    cells = ObservedCells.from_mask(mask, p.Y)
    return path.decoder(path.masked_optimum(rows, p.Y * mask, cells))


@pytest.fixture(params=["all cells", "gaps"])
def fitted(request: pytest.FixtureRequest) -> tuple[Small, DataDecoder]:
    p = small_problem(N=20, D=D, M=6)
    return p, small_decoder(p) if request.param == "all cells" else masked_decoder(p)


def only(decoder: DataDecoder, columns: list[int]) -> DataDecoder:
    """A decoder that has never heard of the other columns."""
    groups = None if decoder.groups is None else decoder.groups[columns]
    return DataDecoder(
        decoder.kernel,
        decoder.Z,
        decoder.basis,
        decoder.weights[:, columns],
        decoder.shrinkage[:, columns],
        decoder.noise[columns],
        groups,
    )


def test_moments_are_those_of_drawn_positions_and_functions(
    fitted: tuple[Small, DataDecoder],
) -> None:
    p, decoder = fitted
    draws = 200_000
    got_mean, got_variance, noise = decoder.moments(p.mean[:3], p.variance[:3])
    got_variance = got_variance - noise
    for n in range(3):
        X = p.mean[n] + p.variance[n].sqrt() * normal(draws, 2, seed=n)
        mean, variance = decoder.predict(X)
        error = mean.std(0) / draws**0.5
        assert bool(((got_mean[n] - mean.mean(0)).abs() < 5 * error).all())
        # Var f = E Var(f | x) + Var E(f | x).
        away = (mean - mean.mean(0)).square() + variance
        error = away.std(0) / draws**0.5
        assert bool(((got_variance[n] - away.mean(0)).abs() < 5 * error).all())
        assert bool((error < 0.05 * got_variance[n]).all())


def test_observed_cells_count_as_in_a_table_without_the_other_columns(
    fitted: tuple[Small, DataDecoder],
) -> None:
    p, decoder = fitted
    kept = [[0, 1], [3], [0, 1, 2, 3], [2, 3], []]
    Y = torch.full((len(kept), D), torch.nan, dtype=torch.float64)
    for n, columns in enumerate(kept):
        Y[n, columns] = p.Y[n, columns]
    rows = torch.tensor([4, 3, 2, 1, 0])
    got = decoder.observed_rows(Y).expected_log_density(rows, p.mean[rows], p.variance[rows])
    density = decoder.log_density(Y, p.mean[None, :5])[0]
    for place, n in enumerate(rows.tolist()):
        place_of = p.mean[n : n + 1], p.variance[n : n + 1]
        fewer = only(decoder, kept[n])
        y = p.Y[n : n + 1, kept[n]]
        expected = fewer.expected_log_density(y, *place_of) if kept[n] else torch.zeros(1)
        assert float(got[place]) == pytest.approx(float(expected[0]), abs=1e-8)
        mean, variance = fewer.predict(place_of[0])
        sd = (variance + fewer.noise).sqrt().numpy()
        assert float(density[n]) == pytest.approx(
            norm.logpdf(y.numpy(), mean.numpy(), sd).sum(), abs=1e-9
        )


@pytest.mark.slow(quick=["gaps"])
def test_rows_with_gaps_are_placed_as_by_their_own_columns(
    fitted: tuple[Small, DataDecoder],
) -> None:
    """Alone or among others; and a row without any cell gets the prior."""
    p, decoder = fitted
    Y = p.Y[:6] + 0.1 * normal(6, D)
    Y[0, 1], Y[1, [0, 3]], Y[3, 2], Y[5] = torch.nan, torch.nan, torch.nan, torch.nan
    together = torch.cat(infer_rows(decoder, Y, p.mean, p.variance), 1)
    for n in range(6):
        alone = torch.cat(infer_rows(decoder, Y[n : n + 1], p.mean, p.variance), 1)
        torch.testing.assert_close(alone[0], together[n], rtol=0, atol=1e-6)
        columns = torch.nonzero(~torch.isnan(Y[n]))[:, 0].tolist()
        if columns:
            fewer = infer_rows(only(decoder, columns), Y[n : n + 1, columns], p.mean, p.variance)
            torch.testing.assert_close(torch.cat(fewer, 1)[0], together[n], rtol=0, atol=1e-5)
    assert together[5].tolist() == [0.0, 0.0, 1.0, 1.0]


def test_what_is_stored_comes_back(fitted: tuple[Small, DataDecoder]) -> None:
    p, decoder = fitted
    again = DataDecoder.from_arrays(decoder.arrays(), torch.zeros(1, dtype=torch.float64))
    for got, expected in zip(again.predict(p.mean), decoder.predict(p.mean), strict=True):
        assert torch.equal(got, expected)
    assert torch.equal(again.noise, decoder.noise)


def test_columns_with_inducing_inputs_of_their_own_are_as_each_alone() -> None:
    """The inputs of all in one list, and of each column a basis with as many columns as its own."""
    p = small_problem(N=20, D=2, M=6)
    each = [only(small_decoder(small_problem(N=20, D=2, M=6, seed=seed)), [0]) for seed in range(2)]
    kernel, noise = each[0].kernel, torch.tensor([0.1, 0.3], dtype=torch.float64)
    alone = [
        DataDecoder(kernel, one.Z + 0.1 * k, one.basis, one.weights, one.shrinkage, noise[[k]])
        for k, one in enumerate(each)
    ]
    weights, basis = torch.zeros(12, 2).double(), torch.zeros(2, 12, 6).double()
    for k, one in enumerate(alone):
        own = slice(6 * k, 6 * k + 6)
        weights[own, k], basis[k, own] = one.weights[:, 0], one.basis
    together = DataDecoder(
        kernel,
        torch.cat([one.Z for one in alone]),
        basis,
        weights,
        torch.cat([one.shrinkage for one in alone], 1),
        noise,
        torch.arange(2),
    )
    X, Y = p.mean[:5], normal(5, 2, seed=3)
    close = torch.testing.assert_close
    for k, one in enumerate(alone):
        for found, expected in zip(together.predict(X), one.predict(X), strict=True):
            close(found[:, [k]], expected)
        moments = together.moments(X, p.variance[:5]), one.moments(X, p.variance[:5])
        for found, expected in zip(*moments, strict=True):
            close(found[:, [k]], expected)
    close(together.metric(X), sum((one.metric(X) for one in alone), torch.zeros(5, 2, 2).double()))
    shares = torch.stack([one.prior_variance_share(X) for one in alone])
    close(together.prior_variance_share(X), shares.mean(0))
    logs = [one.expected_log_density(Y[:, [k]], X, p.variance[:5]) for k, one in enumerate(alone)]
    close(together.expected_log_density(Y, X, p.variance[:5]), logs[0] + logs[1])
