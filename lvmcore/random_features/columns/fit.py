"""Fit of random features to a table whose columns have likelihoods of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base.fit_problem import FitProblem
from lvmcore.errors import ConfigError
from lvmcore.gp.columns.fit import BATCH_ROWS, initial_column_map, varying_terms
from lvmcore.gp.model import GPLatentVariableModel, fit_likelihoods
from lvmcore.likelihoods.catalogue import GAUSSIAN, write_likelihoods
from lvmcore.likelihoods.mixed import MixedLikelihood
from lvmcore.random_features.columns.decoder import FeatureColumnDecoder
from lvmcore.random_features.columns.path import FeatureColumnPath
from lvmcore.random_features.construction import initial_spectrum, spectral_kernel
from lvmcore.random_features.spectrum import Spectrum
from lvmcore.training.outcome import FitOutcome

__all__ = [
    "feature_column_map",
    "fit_feature_columns",
    "read_column_decoder",
]


def feature_column_map(model: GPLatentVariableModel, problem: FitProblem) -> Callable[[], Tensor]:
    """Gives the initial map of the first start, [N, Q].

    Raises:
        ConfigError: a setting cannot be used with likelihoods by column.
    """
    assert model._column_terms is not None
    _check_settings(model.settings_)
    unused = _unused_settings(model.settings_)
    if unused is not None:
        model._note(unused)
    varying = varying_terms(model._column_terms, model._standardiser)
    return partial(initial_column_map, model, problem, varying)


def fit_feature_columns(
    model: GPLatentVariableModel, problem: FitProblem, X: Tensor
) -> tuple[FitOutcome, Spectrum]:
    """Fit a model from an initial map X, [N, Q]; store its map and the path to the columns.

    Args:
        model: of random features, with likelihoods by column.
        problem: the problem to fit.
        X: the initial map.

    Returns:
        The outcome, and the spectrum that was fitted.
    """
    assert model._column_terms is not None
    settings = model.settings_
    spectrum = initial_spectrum(
        problem,
        "free",
        kernel=spectral_kernel(settings["kernel"], problem.n_components),
        n_features=settings["n_features"],
        n_mixture=settings["n_mixture"],
        frozen=False,
        like=problem.table.like.to(torch.float64),
    )

    def path(start: Tensor, likelihood: MixedLikelihood) -> FeatureColumnPath:
        del start
        return FeatureColumnPath(spectrum, likelihood)

    size = settings["batch_size"] or BATCH_ROWS
    terms = model._column_terms
    fit = fit_likelihoods(model, problem, terms, batch_size=size, path=path, X=X)
    return fit.outcome, spectrum


def read_column_decoder(
    model: GPLatentVariableModel, arrays: Mapping[str, NDArray[Any]], like: Tensor
) -> FeatureColumnDecoder:
    """The path to the columns from the arrays of a file, as ``like``."""
    assert model._column_terms is not None
    varying = varying_terms(model._column_terms, model._standardiser)
    return FeatureColumnDecoder.from_arrays(write_likelihoods(varying), arrays, like)


def _unused_settings(settings: Mapping[str, Any]) -> str | None:
    """A sentence on the settings of a whole table that are set and not used; None without any."""
    unused = {"likelihood": GAUSSIAN, "n_trials": None, "spectral_noise": "auto"}
    given = [f"{name}={settings[name]!r}" for name, by in unused.items() if settings[name] != by]
    if not given:
        return None
    verb = "is" if len(given) == 1 else "are"
    return f"{', '.join(given)} {verb} not used: the columns have likelihoods of their own."


def _check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse settings that columns with likelihoods of their own cannot have.

    Raises:
        ConfigError: naming the setting.
    """
    wanted = {
        "covariance": ("diagonal", "q(x) of a row is then diagonal"),
        "weights": ("marginal", "their weights have a learned Gaussian already"),
        "spectral": ("free", "only a free spectrum has a posterior that the weights can follow"),
        "scaling": ("auto", "numbers are then in units of their own column's spread"),
    }
    if settings["kernel"] != "learned":
        del wanted["spectral"]
    for name, (needed, why) in wanted.items():
        given = settings[name]
        if given != needed and (name, given) != ("scaling", "column"):
            raise ConfigError(
                f"{name}={given!r} cannot be used where the columns have likelihoods of their own: "
                f"{why}. Set {name}={needed!r} or column_likelihood='gaussian'."
            )
