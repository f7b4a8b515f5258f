"""Priors of the parameters of a kernel."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from lvmcore import GPRegressor
from lvmcore.errors import ConfigError
from lvmcore.kernels.catalogue import read_kernel
from lvmcore.kernels.composite import CompositeKernel
from lvmcore.kernels.hyperpriors import HyperPrior, check_priors, log_prior, read_priors


def test_priors_are_read_with_their_columns() -> None:
    text = (
        'lengthscale: gamma(2, 0.5), period(month) : normal(12, 1),lengthscale("a, b"):gamma(1,1)'
    )
    assert read_priors(text) == (
        HyperPrior("lengthscale", None, "gamma", (2.0, 0.5)),
        HyperPrior("period", "month", "normal", (12.0, 1.0)),
        HyperPrior("lengthscale", "a, b", "gamma", (1.0, 1.0)),
    )
    assert read_priors("  ") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lengthscale", "cannot be read from 'lengthscale' on"),
        ("lengthscale: gamma(2, 1) noise: gamma(1, 1)", "expected a comma"),
        ("lengthscal: gamma(2, 1)", "did you mean lengthscale"),
        ("noise: gama(2, 1)", "did you mean gamma"),
        ("noise(month): gamma(2, 1)", "The prior of 'noise' has no column"),
        ("noise: gamma(2)", r"has 1 numbers: expected gamma\(shape, rate\)"),
        ("noise: gamma(2, x)", "needs numbers"),
        ("noise: gamma(2, -1)", "has rate -1: expected a number above 0"),
        ("period(mnth): normal(12, 1)", "did you mean 'month'"),
    ],
)
def test_a_malformed_prior_is_said(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_priors(text, ["month", "size"])


def test_the_log_density_is_that_of_scipy_in_the_units_of_the_columns() -> None:
    scales = torch.tensor([3.0, 0.5], dtype=torch.float64)
    expression = read_kernel("rbf + periodic(month)")
    kernel = CompositeKernel(expression, ["month", "size"], scales).double()
    own = kernel.summands[0].factors[0].component.log_lengthscales  # type: ignore[union-attr]
    own.data[:] = torch.tensor([0.3, -0.2])
    noise = torch.tensor(0.04, dtype=torch.float64)
    ((_, found, _),) = kernel.parameters_of_columns("period")[:1]
    period = float(found.detach())
    assert period == pytest.approx(3 * np.log(2))  # of the initial softplus(0)
    l1, l2 = np.exp([0.3, -0.2])
    for text, expected in {
        "lengthscale: gamma(2, 3)": stats.gamma(2, scale=1 / 3).logpdf([l1, l2]).sum(),
        "lengthscale(size): log_normal(0.5, 2)": stats.lognorm(2, scale=np.exp(0.5)).logpdf(l2 / 2),
        "period(month): normal(12, 4)": stats.norm(12, 4).logpdf(period),
        "sd: half_normal(2)": 2 * stats.halfnorm(scale=2).logpdf(np.sqrt(0.5)),
        "noise: half_cauchy(0.1)": stats.halfcauchy(scale=0.1).logpdf(0.2),
    }.items():
        found = log_prior(read_priors(text), kernel, noise)
        assert float(found.detach()) == pytest.approx(expected, rel=1e-5), text
    log_prior(read_priors("lengthscale: gamma(2, 3)"), kernel, noise).backward()
    # d/dlog ℓ of log Gamma(ℓ | 2, 3) is 1 − 3ℓ.
    np.testing.assert_allclose(own.grad, 1 - 3 * np.array([l1, l2]), rtol=1e-5)


def test_a_narrow_prior_keeps_a_lengthscale_and_a_wide_one_changes_little() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": np.linspace(0, 10, 40)})
    y = np.sin(frame["x"]) + 0.1 * rng.standard_normal(40)
    plain = GPRegressor(kernel="rbf", target_transform="none").fit(frame, y)
    wide = GPRegressor(
        kernel="rbf", target_transform="none", priors="lengthscale(x): half_cauchy(1e6)"
    ).fit(frame, y)
    narrow = GPRegressor(
        kernel="rbf", target_transform="none", priors="lengthscale(x): normal(4, 0.001)"
    ).fit(frame, y)
    np.testing.assert_allclose(wide.predict(frame), plain.predict(frame), atol=1e-3)
    found = narrow.components_[0].hyperparameters
    (lengthscale,) = (one.value for one in found if one.name == "lengthscale")
    assert lengthscale == pytest.approx(4.0, abs=0.02)
    assert "log prior" in narrow.history_[-1].terms
    assert narrow.elbo_ < plain.elbo_ + 10


def test_a_prior_of_an_unknown_column_is_refused_before_the_fit() -> None:
    frame = pd.DataFrame({"month": np.arange(12.0), "same": 1.0})
    for name in ("mnth", "same"):
        model = GPRegressor(kernel="rbf", priors=f"lengthscale({name}): gamma(2, 1)")
        with pytest.raises(ConfigError, match="none of the columns of the fit"):
            model.fit(frame, np.arange(12.0))
