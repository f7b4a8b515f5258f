"""Warm start of a deep Gaussian process: the subset of rows and kernel of a single process.

A sparse Gaussian process whose inducing inputs are rows is nearly as good as one that optimises
them, if the rows are chosen by its bound under its kernel (compare Burt, Rasmussen and van der Wilk
2020). So optimisation steps and choices of rows alternate, from rows near centroids. The deep model
is then initialised as this one: linear hidden layers, and a last layer with this kernel and noise.

A period, and the terms of a sum, have optima of the bound far from each other. The marginal
likelihood of an exact process on at most 1000 rows tells them apart in seconds, so a kernel that is
not stationary starts at the one that it finds.

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from jaxtyping import Float
from torch import Tensor

from lvmcore.deep.deep_gp import DeepGP
from lvmcore.deep.dsvi import InducedDeepGP, induced_deep_gp
from lvmcore.deep.initialisation import DeepGPSettings
from lvmcore.deep.layer_kernel import stationary_covariance
from lvmcore.deep.likelihoods import GaussianNoise, SoftmaxClasses
from lvmcore.deep.objective import DeepGPObjective, deep_schedule
from lvmcore.deep.output_layer import InducingPosterior, OutputLayer
from lvmcore.deep.subset_of_data import SubsetDeepGP, subset_deep_gp
from lvmcore.errors import NumericalError
from lvmcore.gp.exact_regression import (
    ExactGP,
    GPPosterior,
    choice_rows,
    choose_kernel,
    distinct_rows,
)
from lvmcore.gp.inducing_points import SubsetRule, choose_subset, rows_by_bound
from lvmcore.kernels.definition import KernelDefinition
from lvmcore.kernels.stationary import RBF
from lvmcore.training.loop import train

__all__ = [
    "copy_kernel_and_noise",
    "exact_process",
    "fit_induced",
    "fit_single_gp",
    "fitted_start",
    "initialise_from_single_gp",
    "start_first_layer",
]

# Rows that a single process is fitted to besides the subset; rounds, and steps of each at most.
MAX_ROWS, SUBSET_ROUNDS, STEPS = 2000, 3, 100
#: Initial σ² of the standardised targets, or of signs of classes.
START_NOISE = 0.05
# Steps for a process with learned inducing inputs, and their learning rate.
INDUCED_STEPS, INDUCED_RATE = 500, 0.04
# Initial sd of hidden functions: their effect on the target over the sd of the noise, and at most.
MAX_NOISE_SHARE, MAX_SPREAD = 0.1, 0.03


def fit_single_gp(
    X: Float[Tensor, "N H"],
    Y: Float[Tensor, "N P"],
    size: int,
    rule: SubsetRule,
    generator: torch.Generator,
    *,
    steps: int,
    learning_rate: float,
    settings: DeepGPSettings,
) -> tuple[Tensor, OutputLayer]:
    """The subset of M rows, and the layer of a single Gaussian process on it.

    Args:
        X: inputs, standardised, [N, H].
        Y: targets: standardised numbers, or signs of classes, treated as numbers, [N, P].
        size: M.
        rule: ``bound`` chooses rows by ``rows_by_bound`` under the kernel of the previous round;
            any other is a rule of `choose_subset`, with fixed rows.
        generator: of random numbers.
        steps: of each round, 100 at most.
        learning_rate: of the steps.
        settings: of the deep model, whose last kernel it gets.

    Returns:
        Positions of S in increasing order, [min(M, N)]; the layer.

    Raises:
        NumericalError: the optimisation failed repeatedly.
    """
    chosen = choose_subset(X, size, "kmeans" if rule == "bound" else rule, generator)
    used = torch.arange(len(X))
    if len(X) > MAX_ROWS:
        others = torch.randperm(len(X), generator=generator)[:MAX_ROWS]
        used = torch.unique(torch.cat([chosen, others]))
    rows, some, targets = torch.searchsorted(used, chosen), X[used], Y[used]
    single = settings.single(X.shape[1], len(used))
    model = _single_gp(single, some, targets, rows)
    for _ in range(SUBSET_ROUNDS):
        fit = DeepGPObjective(
            model, some, targets, n_samples=1, batch_size=len(used), generator=generator
        )
        train(fit, deep_schedule(fit, min(steps, STEPS), learning_rate), None)
        if rule == "bound":
            last = model.last
            rows = _best_rows(last, some, targets, len(rows))
            model = _single_gp(single, some, targets, rows)
            copy_kernel_and_noise(last, model.last)
    return used[rows], model.last


def fit_induced(
    X: Float[Tensor, "N H"],
    Y: Float[Tensor, "N P"],
    Z: Float[Tensor, "M H"],
    likelihood: GaussianNoise | SoftmaxClasses,
    batch_size: int,
    generator: torch.Generator,
    *,
    steps: int,
    learned: bool,
    settings: DeepGPSettings,
) -> InducedDeepGP:
    """A single Gaussian process with free inducing inputs (SVGP), by 500 steps at most.

    Args:
        X: inputs, standardised, [N, H].
        Y: standardised numbers, or signs of classes, [N, P].
        Z: initial inducing inputs, [M, H].
        likelihood: initial one of the targets; a copy is fitted.
        batch_size: B.
        generator: of the batches.
        steps: at most.
        learned: whether inducing inputs are optimised.
        settings: of the deep model, whose last kernel it gets.

    Raises:
        NumericalError: the optimisation failed repeatedly.
    """
    single = settings.single(X.shape[1], batch_size)
    model = induced_deep_gp(single, X, Y, Z, deepcopy(likelihood), learned=learned)
    fit = DeepGPObjective(model, X, Y, n_samples=1, batch_size=batch_size, generator=generator)
    train(fit, deep_schedule(fit, min(steps, INDUCED_STEPS), INDUCED_RATE), None)
    return model


def initialise_from_single_gp(model: DeepGP, single: OutputLayer) -> None:
    """Initialise a deep model as a single Gaussian process.

    The last layer gets the kernel, and the noise of a numeric target. Unit d of the hidden layers
    gets the sd 0.1 σ ℓ_d/√v, at which it changes the target by a tenth of the noise, at most 0.03;
    the noise of hidden layers is at most the smallest sd, so that it does not dominate a last layer
    that is almost exact. A model with fewer units than columns is not changed, as the kernel has a
    lengthscale for every column; nor is one with more, of a kernel that is not stationary.

    Args:
        model: initial model; changed in place, and marked as pretrained.
        single: the layer of the single process, of the first layer's inputs.
    """
    more = model.last.n_inputs - single.n_inputs
    if more < 0 or (more > 0 and single.composite is not None):
        return
    copy_kernel_and_noise(single, model.last)
    with torch.no_grad():
        share = MAX_NOISE_SHARE * (single.likelihood.site_scale / single.variance).sqrt()
        sd = (share * _lengthscales(model.last)).clamp_max(MAX_SPREAD)
        for layer in model.hidden:
            layer.log_variance.copy_(2 * sd.log())
            layer.log_noise.clamp_(max=2 * float(sd.min().log()))
    model.pretrained = True


def exact_process(
    definition: KernelDefinition, X: Float[Tensor, "N H"], Y: Float[Tensor, "N P"], max_iter: int
) -> ExactGP:
    """The exact process with a kernel, of the highest marginal likelihood, on 1000 rows at most.

    Args:
        definition: of the kernel.
        X: inputs, standardised, [N, H].
        Y: targets: standardised numbers, or signs of classes, treated as numbers; of several their
            first principal component, [N, P].
        max_iter: steps of each fit at most.

    Raises:
        NumericalError: the optimisation failed repeatedly.
    """
    y = _one_target(Y)
    rows = distinct_rows(X, y)
    X, y = X[rows], y[rows]
    return choose_kernel(X, y, definition.starts(X, y[:, 0]), max_iter)


def fitted_start(
    definition: KernelDefinition, X: Float[Tensor, "N H"], Y: Float[Tensor, "N P"], max_iter: int
) -> tuple[KernelDefinition, GPPosterior | None]:
    """A definition that starts at ``exact_process``, and that process given its rows.

    The definition is as it was, without a process, if that could not be fitted.
    """
    try:
        gp = exact_process(definition, X, Y, max_iter)
        posterior = GPPosterior(gp, *choice_rows(X, _one_target(Y)))
    except NumericalError:
        return definition, None
    return definition.starting_at(gp.kernel), posterior


@torch.no_grad()
def start_first_layer(
    model: DeepGP, f: GPPosterior | None, X: Float[Tensor, "N J"] | None = None
) -> None:
    """Start a unit of the first layer at an exact process, given its rows.

    The last unit, whose linear mean is 0, gets the optimal q of a sparse process at the inducing
    inputs Z of the layer, Λ = I + A Aᵀ/σ², h = A y/σ², A = C⁻¹k(Z, X). Further layers pass it on,
    so that the last layer can use it from the first step on: a first layer that is almost linear
    says nothing of a period, and the target would be explained as noise.

    Args:
        model: initial model; changed in place.
        f: the exact process with the first layer's kernel; None for no such unit.
        X: its rows as inputs of the layer, [N, J], where that has further ones.
    """
    if f is None:
        return
    layer, Z = model.hidden[0], model.first_inputs
    layer.log_variance[-1] = 0.0
    layer_kernel, sd = layer.kernel_at(Z), layer.variance[-1].sqrt()
    A = sd * layer_kernel.inverse @ layer_kernel.cross(f.X if X is None else X)
    precision = torch.eye(len(Z)).to(Z) + A @ A.T / f.gp.noise
    q = InducingPosterior.from_natural_parameters(precision[None], (A @ f.Y).T / f.gp.noise)
    model.start_last_unit(q, sd * layer_kernel.C @ q.mean[0])


def _lengthscales(last: OutputLayer) -> Tensor:
    """ℓ of a layer, [H]; α^{−1/2} of a kernel that is not stationary."""
    return last.log_lengthscales.exp() if last.composite is None else last.relevance.rsqrt()


def _single_gp(settings: DeepGPSettings, X: Tensor, Y: Tensor, rows: Tensor) -> SubsetDeepGP:
    return subset_deep_gp(settings, X, Y, rows, GaussianNoise(START_NOISE, X))


@torch.no_grad()
def _best_rows(last: OutputLayer, X: Tensor, Y: Tensor, size: int) -> Tensor:
    """Rows chosen by the bound under a layer's kernel and noise, in increasing order."""
    if last.composite is not None:
        K = last.composite.forward(X, X)
    elif last.kernel == "rbf":
        K = RBF(last.variance, last.log_lengthscales.exp())(X, X)
    else:
        K = stationary_covariance(last.variance, last.log_lengthscales.exp(), X, last.kernel)
    return rows_by_bound(K, Y, last.likelihood.site_scale, size).sort().values


@torch.no_grad()
def copy_kernel_and_noise(single: OutputLayer, last: OutputLayer) -> None:
    """Copy kernel and noise; lengthscales of further inputs are not changed.

    The variance of a stationary kernel is not that of the classes' functions if the single process
    treats their signs as numbers.
    """
    if single.composite is not None and last.composite is not None:
        last.composite.load_state_dict(single.composite.state_dict())
    else:
        last.log_lengthscales[: single.n_inputs] = single.log_lengthscales
        if single.closed_form == last.closed_form:
            last.log_variance.copy_(single.log_variance)
    if isinstance(single.likelihood, GaussianNoise) and isinstance(last.likelihood, GaussianNoise):
        last.likelihood.log_noise.copy_(single.likelihood.log_noise)


def _one_target(Y: Float[Tensor, "N P"]) -> Float[Tensor, "N 1"]:
    if Y.shape[1] == 1:
        return Y
    centred = Y - Y.mean(0)
    _, vectors = torch.linalg.eigh(centred.T @ centred)  # in ascending order
    y: Tensor = centred @ vectors[:, -1:]
    return y / y.square().mean().sqrt().clamp_min(1e-12)
