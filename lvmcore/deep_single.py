"""A single Gaussian process, fitted before a deep one: which rows stand for all, and its kernel.

A sparse Gaussian process whose inducing inputs are rows comes close to one that moves them if its
bound has chosen the rows, under its own kernel (compare Burt, Rasmussen and van der Wilk 2020). So
a few steps on rows near centroids and a choice of better rows take turns. The deep one then begins
as this one: a linear path to its last layer, which has the kernel and the noise found here.

Notation: lvmcore/README.md and lvmcore/deep_layers.py.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lvmcore.deep_fit import DeepFit, deep_schedule
from lvmcore.deep_likelihoods import Gaussian
from lvmcore.deep_outputs import LastLayer
from lvmcore.deep_paths import DeepGP
from lvmcore.deep_starts import DeepSettings
from lvmcore.deep_subset import SubsetDeepGP, subset_deep_gp
from lvmcore.deep_variational import InducedDeepGP, induced_deep_gp
from lvmcore.kernels import RBF
from lvmcore.subsets import SubsetRule, choose_subset, rows_by_bound
from lvmcore.training import train

__all__ = ["fit_induced", "fit_single", "start_from"]

# Rows that a single process is fitted to, those of the subset aside; turns, and most steps of each.
MOST_ROWS, TURNS, STEPS = 2000, 3, 100
#: σ² of the standardised targets, or of signs of classes, that it starts from.
START_NOISE = 0.05
# Steps of one whose inducing inputs are its own, and their rate.
INDUCED_STEPS, INDUCED_RATE = 500, 0.04
# Hidden functions begin with so much of the noise's standard deviation, seen at the target, and
# no wider than that.
SHARE_OF_NOISE, WIDEST = 0.1, 0.03


def fit_single(
    X: Tensor,
    Y: Tensor,
    size: int,
    rule: SubsetRule,
    generator: torch.Generator,
    *,
    steps: int,
    learning_rate: float,
) -> tuple[Tensor, LastLayer]:
    """The subset of M rows, and the layer of a single Gaussian process on it.

    Args:
        X: inputs, standardised, [N, H].
        Y: targets: standardised numbers, or signs of classes, which it takes for numbers, [N, P].
        size: M.
        rule: ``bound`` chooses rows by ``rows_by_bound`` under the kernel of the turn before; any
            other is `choose_subset`'s, and its rows stay.
        generator: of what is drawn.
        steps: of each turn, 100 at most.
        learning_rate: of the steps.

    Returns:
        Positions of S in increasing order, [min(M, N)]; the layer.

    Raises:
        NumericalError: the computation broke down again and again.
    """
    chosen = choose_subset(X, size, "kmeans" if rule == "bound" else rule, generator)
    seen = torch.arange(len(X))
    if len(X) > MOST_ROWS:
        others = torch.randperm(len(X), generator=generator)[:MOST_ROWS]
        seen = torch.unique(torch.cat([chosen, others]))
    rows, some, targets = torch.searchsorted(seen, chosen), X[seen], Y[seen]
    model = _single(some, targets, rows)
    for _ in range(TURNS):
        fit = DeepFit(model, some, targets, n_samples=1, batch_size=len(seen), generator=generator)
        train(fit, deep_schedule(fit, min(steps, STEPS), learning_rate), None)
        if rule == "bound":
            last = model.last
            rows = _best_rows(last, some, targets, len(rows))
            model = _single(some, targets, rows)
            _copy(last, model.last)
    return seen[rows], model.last


def fit_induced(
    X: Tensor,
    Y: Tensor,
    Z: Tensor,
    batch_size: int,
    generator: torch.Generator,
    *,
    steps: int,
    learned: bool,
) -> InducedDeepGP:
    """A single Gaussian process with inducing inputs of its own (SVGP), by 500 steps at most.

    Args:
        X: inputs, standardised, [N, H].
        Y: standardised numbers, [N, P].
        Z: inducing inputs to start from, [M, H].
        batch_size: B.
        generator: of the batches.
        steps: most of them.
        learned: whether inducing inputs move.

    Raises:
        NumericalError: the computation broke down again and again.
    """
    settings = DeepSettings(n_hidden=0, batch_size=batch_size)
    model = induced_deep_gp(settings, X, Y, Z, Gaussian(START_NOISE, X), learned=learned)
    fit = DeepFit(model, X, Y, n_samples=1, batch_size=batch_size, generator=generator)
    train(fit, deep_schedule(fit, min(steps, INDUCED_STEPS), INDUCED_RATE), None)
    return model


def start_from(model: DeepGP, single: LastLayer) -> None:
    """Let a deep model begin as a single Gaussian process.

    Its last layer takes the kernel, and the noise where it is a number's. Unit d of the hidden
    layers begins with the standard deviation 0.1 σ ℓ_d/√v, at which it moves the target by a tenth
    of the noise, or 0.03; the layers' own noise is no wider than the narrowest unit, as a last
    layer that is all but exact would be lost in it. Nothing is changed where the units are fewer
    than the columns, as the kernel is of all columns.

    Args:
        model: at its start; changed in place, and marked as settled.
        single: the layer of the single process, of the first layer's inputs.
    """
    if len(model.last.log_lengthscales) < len(single.log_lengthscales):
        return
    _copy(single, model.last)
    with torch.no_grad():
        share = SHARE_OF_NOISE * (single.likelihood.unit / single.variance).sqrt()
        sd = (share * model.last.log_lengthscales.exp()).clamp_max(WIDEST)
        for layer in model.hidden:
            layer.log_variance.copy_(2 * sd.log())
            layer.log_noise.clamp_(max=2 * float(sd.min().log()))
    model.settled = True


def _single(X: Tensor, Y: Tensor, rows: Tensor) -> SubsetDeepGP:
    settings = DeepSettings(n_hidden=0, batch_size=len(X))
    return subset_deep_gp(settings, X, Y, rows, Gaussian(START_NOISE, X))


@torch.no_grad()
def _best_rows(last: LastLayer, X: Tensor, Y: Tensor, size: int) -> Tensor:
    """Rows that the bound asks for under a layer's kernel and noise, in increasing order."""
    K = RBF(last.variance, last.log_lengthscales.exp())(X, X)
    return rows_by_bound(K, Y, last.likelihood.unit, size).sort().values


@torch.no_grad()
def _copy(single: LastLayer, last: LastLayer) -> None:
    """Kernel and noise; lengthscales of inputs beyond the single process's stay."""
    last.log_lengthscales[: len(single.log_lengthscales)] = single.log_lengthscales
    if isinstance(single.likelihood, Gaussian) and isinstance(last.likelihood, Gaussian):
        last.log_variance.copy_(single.log_variance)
        last.likelihood.log_noise.copy_(single.likelihood.log_noise)
