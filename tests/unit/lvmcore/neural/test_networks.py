"""Networks: where they start, what they see, and that they can be put back."""

import numpy as np
import pytest
import torch
from torch import Tensor

from lvmcore.neural import networks
from lvmcore.neural.networks import (
    LOG_VARIANCE,
    REACH,
    START_VARIANCE,
    Encoder,
    Network,
    fit_linear_layer,
    network_arrays,
    restore_network,
)
from lvmcore.preprocessing.table_rows import InMemoryRows


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def encoder(D: int = 5, Q: int = 2, *, masked: bool = False, dtype: torch.dtype = torch.float64):  # type: ignore[no-untyped-def]
    draws = torch.Generator().manual_seed(0)
    return Encoder(D, 16, Q, torch.zeros((), dtype=dtype), draws, masked=masked)


def stirred(module: torch.nn.Module) -> torch.nn.Module:
    """With every weight away from its start."""
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.add_(0.3 * normal(*parameter.shape, seed=i).to(parameter))
    return module


def test_a_line_is_the_least_squares_one() -> None:
    inputs, targets = normal(50, 4) + 3, normal(50, 2, seed=1) - 1
    slope, offset = fit_linear_layer(InMemoryRows(inputs), targets)
    with_one = np.column_stack([inputs, np.ones(50)])
    expected, *_ = np.linalg.lstsq(with_one, targets.numpy(), rcond=None)
    np.testing.assert_allclose(slope, expected[:-1], atol=1e-5)
    np.testing.assert_allclose(offset, expected[-1], atol=1e-5)


def test_a_line_through_fewer_rows_than_columns_is_finite_and_fits() -> None:
    inputs, targets = normal(4, 30), normal(4, 2, seed=1)
    slope, offset = fit_linear_layer(InMemoryRows(inputs), targets)
    torch.testing.assert_close(inputs @ slope + offset, targets, rtol=0, atol=1e-4)


def test_an_encoder_starts_at_the_places_given() -> None:
    Y = normal(40, 5)
    X = Y @ normal(5, 2, seed=1) / 3 + 0.2
    network = encoder()
    network.start(InMemoryRows(Y), X)
    mean, log_variance = network(Y)
    torch.testing.assert_close(mean, X, rtol=0, atol=1e-4)
    torch.testing.assert_close(
        log_variance.exp(), torch.full_like(X, START_VARIANCE), rtol=1e-9, atol=0
    )


def test_a_network_learns_what_no_line_can() -> None:
    x = torch.linspace(-2, 2, 60, dtype=torch.float64)[:, None]
    target = x.square()
    network = Network(1, 16, 1, x, torch.Generator().manual_seed(0))
    network.start(*fit_linear_layer(InMemoryRows(x), target))
    adam = torch.optim.Adam(network.parameters(), lr=0.03)
    losses = []
    for _ in range(150):
        adam.zero_grad()
        loss = (network(x) - target).square().mean()
        loss.backward()
        losses.append(float(loss.detach()))
        adam.step()
    assert losses[-1] < 0.05 * losses[0]


def test_slopes_are_the_derivatives() -> None:
    network = stirred(Network(3, 8, 4, torch.zeros(()).double(), torch.Generator().manual_seed(0)))
    x = normal(5, 3)
    expected = [torch.autograd.functional.jacobian(network, row[None])[0, :, 0] for row in x]
    torch.testing.assert_close(network.slopes(x), torch.stack(expected).mT)


def test_the_metric_is_that_of_the_slopes_however_many_places_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(networks, "PLACES_AT_A_TIME", 3)
    network = stirred(Network(2, 7, 9, normal(1), torch.Generator().manual_seed(1)))
    x = normal(8, 2, seed=4)
    slopes = network.slopes(x)
    torch.testing.assert_close(network.metric(x), slopes @ slopes.mT)


def test_a_missing_cell_says_nothing_but_that_it_is_missing() -> None:
    network = stirred(encoder(masked=True))
    Y = normal(6, 5)
    observed = normal(6, 5, seed=2) > 0
    other = torch.where(observed, Y, 7.0)
    torch.testing.assert_close(network(Y, observed), network(other, observed), rtol=0, atol=0)
    assert not torch.allclose(network(Y, observed)[0], network(Y)[0])
    everything = torch.ones_like(observed)
    torch.testing.assert_close(network(Y, everything), network(Y), rtol=0, atol=0)


def test_cells_far_out_do_not_throw_a_row_off_the_map() -> None:
    network = stirred(encoder())
    Y = normal(3, 5)
    Y[0, 2], other = 1e6, Y.clone()
    other[0, 2] = REACH
    torch.testing.assert_close(network(Y), network(other), rtol=0, atol=0)


def test_variances_stay_within_their_range() -> None:
    network = encoder()
    with torch.no_grad():
        network.network.line.bias[2:] = torch.tensor([-1e3, 1e3], dtype=torch.float64)
    _, log_variance = network(normal(3, 5))
    assert log_variance.unique().tolist() == list(LOG_VARIANCE)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_weights_are_kept_and_put_back(dtype: torch.dtype) -> None:
    network = stirred(encoder(dtype=dtype))
    again = encoder(dtype=dtype)
    restore_network(again, network_arrays(network, "e."), "e.")
    Y = normal(4, 5).to(dtype)
    torch.testing.assert_close(again(Y), network(Y), rtol=0, atol=0)


def test_the_start_is_the_same_in_either_precision() -> None:
    for one, two in zip(
        encoder().parameters(), encoder(dtype=torch.float32).parameters(), strict=True
    ):
        torch.testing.assert_close(one.float(), two, rtol=0, atol=0)
