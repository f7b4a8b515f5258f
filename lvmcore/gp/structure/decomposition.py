"""A Gaussian process as the sum of its kernel's summands, in the units of the table.

y = c + Σ_i f_i(x) + ε, f_i ~ GP(0, v_i k_i), c the mean of the target in the fit. Given the rows
of the fit each f_i is Gaussian (Rasmussen and Williams 2006, section 2.2, of a sum).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from lvmcore.gp.conjugate_gradients.posterior import BlockPosterior
from lvmcore.gp.exact_regression import GPPosterior
from lvmcore.gp.structure.kernel_sentence import summand_phrases
from lvmcore.kernels.composite import Hyperparameter
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy

__all__ = ["ComponentSummary", "Decomposition", "component_summaries", "decompose"]


@dataclass(frozen=True)
class ComponentSummary:
    """A summand of a fitted kernel, or the noise.

    Attributes:
        expression: text of the summand; "noise" of the noise.
        phrase: the same in words, with the fitted periods and lengthscales.
        columns: names of the columns that it acts on.
        sd: √v, the prior sd in units of the target; of a kernel that is linear, at one sd from the
            mean of the columns; of the noise σ.
        share: Cov(m_i, y) / Var(y) over the rows of the fit, m_i the posterior mean of f_i; of the
            noise Cov(y − c − Σ_i m_i, y) / Var(y). They add up to 1. One below 0 is possible, of a
            summand that counteracts another.
        hyperparameters: the others, in the order of the expression; the sd of a slope in units of
            the target a unit of the column.
    """

    expression: str
    phrase: str
    columns: tuple[str, ...]
    sd: float
    share: float
    hyperparameters: tuple[Hyperparameter, ...] = ()


@dataclass(frozen=True)
class Decomposition:
    """The summands f_i at some rows, in units of the target.

    Attributes:
        expressions: their texts, I of them.
        offset: c; with the means of a row it adds up to the mean of the prediction.
        mean: posterior means, [n, I].
        variance: posterior variances, [n, I]; they do not add up to that of the sum.
        noise_variance: σ².
    """

    expressions: tuple[str, ...]
    offset: float
    mean: FloatArray
    variance: FloatArray
    noise_variance: float


def decompose(
    posterior: GPPosterior | BlockPosterior, X: Tensor, target_mean: float, target_scale: float
) -> Decomposition:
    """The summands at rows.

    Args:
        posterior: of the fit.
        X: rows, standardised, [n, H].
        target_mean: mean of the target in the fit.
        target_scale: its sd.
    """
    mean, variance = posterior.summand_moments(X)
    return Decomposition(
        tuple(str(summand.expression) for summand in posterior.gp.kernel.summands),
        target_mean,
        to_numpy(mean) * target_scale,
        to_numpy(variance) * target_scale**2,
        float(posterior.gp.noise.detach()) * target_scale**2,
    )


@torch.no_grad()
def component_summaries(
    posterior: GPPosterior | BlockPosterior,
    target_scale: float,
    units: Mapping[str, str] | None = None,
) -> tuple[ComponentSummary, ...]:
    """The summands in the order of the expression, and the noise.

    Args:
        posterior: of the fit.
        target_scale: sd of the target in the fit.
        units: units of columns in the plural, by name, for the phrases; None where none is known.
    """
    gp, y = posterior.gp, posterior.Y[:, 0]
    centred = y - y.mean()
    shares = (posterior.summand_means() @ centred / centred.square().sum()).tolist()
    found = []
    phrases = summand_phrases(gp.kernel, units)
    for summand, phrase, share in zip(gp.kernel.summands, phrases, shares, strict=True):
        sd = float(summand.variance.sqrt()) * target_scale
        parts = tuple(
            Hyperparameter(one.kernel, one.name, one.value * sd, one.column)
            if one.name == "slope sd"
            else one
            for one in summand.hyperparameters()
        )
        text = str(summand.expression)
        found.append(ComponentSummary(text, phrase, summand.columns, sd, share, parts))
    noise = float(gp.noise.sqrt()) * target_scale
    return (*found, ComponentSummary("noise", "noise", (), noise, 1 - sum(shares)))
