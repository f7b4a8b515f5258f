"""Objectives: sums of named terms, which the training loop maximises."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.results import Snapshot
from lvmcore.training.parameter_state import ParameterState, ParameterVectors
from lvmcore.training.snapshots import snapshot_of, thinned

__all__ = ["KLTerm", "Objective", "Term", "total_values"]

#: What the terms are evaluated at: rows of a batch, samples of latent variables or of functions.
Sample = TypeVar("Sample")
Sample_contra = TypeVar("Sample_contra", contravariant=True)


class Term(ABC, Generic[Sample_contra]):
    """One named summand of an objective.

    Attributes:
        name: key of the term in ``FitStep.terms``.
    """

    name: str

    @abstractmethod
    def value(self, sample: Sample_contra) -> Tensor:
        """The term at a sample, total nats, []."""

    def frozen_in_warm_up(self) -> Iterable[nn.Parameter]:
        """Parameters of this term that the first steps do not update."""
        return ()

    def update(self) -> None:
        """Natural-gradient step of parameters not optimised by Adam, after a step's terms."""


class Divergence(Protocol):
    """Parameters of a variational distribution."""

    def kl(self) -> Tensor:
        """Its KL divergence from the prior, []."""


class KLTerm(Term[object]):
    """−Σ KL(q ‖ p) of one or several variational distributions.

    Args:
        name: of the term.
        distributions: those that it sums over.
    """

    def __init__(self, name: str, distributions: Sequence[Divergence]) -> None:
        self.name, self.distributions = name, distributions

    def value(self, sample: object) -> Tensor:
        """−Σ KL, []; it needs no sample."""
        del sample
        return -torch.stack([q.kl() for q in self.distributions]).sum()


class Objective(ABC, Generic[Sample]):
    """A sum of named terms over parameters that the loop updates in place.

    A subclass defines the map, and either the sample of all rows (``draw_sample``) or the sum of
    the terms over all rows (``terms``). Objectives with mini-batches or closed-form updates
    override ``batch_terms`` and ``state`` too.

    Args:
        modules: their parameters are optimised.
        summands: the terms, in the order in which they are reported.
    """

    def __init__(self, modules: Sequence[nn.Module], summands: Sequence[Term[Sample]]) -> None:
        self.modules, self.summands = tuple(modules), tuple(summands)

    def parameters(self) -> Iterable[nn.Parameter]:
        """Unconstrained parameters, updated in place by Adam."""
        return [p for module in self.modules for p in module.parameters() if p.requires_grad]

    def parameter_scales(self) -> Iterable[Tensor]:
        """The expected scale of each parameter, in the shape of ``parameters``: by default 1.

        A scale s means that the bound's curvature is about 1/s². The quasi-Newton finish begins
        with such an inverse Hessian.
        """
        return [torch.ones_like(parameter) for parameter in self.parameters()]

    def frozen_in_warm_up(self) -> Iterable[nn.Parameter]:
        """Parameters that the first ``Schedule.hold`` steps do not update."""
        return [p for term in self.summands for p in term.frozen_in_warm_up()]

    def state(self) -> Iterable[Tensor]:
        """Other tensors that a step changes in place: saved and restored as parameters are."""
        return ()

    def parameter_state(self) -> ParameterState:
        """The parameters and the other tensors of ``state``, with their optimiser and copies."""
        return ParameterState(list(self.parameters()), list(self.state()))

    def parameter_vectors(self) -> ParameterVectors:
        """The parameters in one vector, for the quasi-Newton finish."""
        return ParameterVectors(list(self.parameters()))

    def draw_sample(self, draws: int) -> Sample:
        """The sample of all rows at which ``terms`` evaluates the terms.

        Args:
            draws: Monte-Carlo samples to average over, where the objective samples.
        """
        raise NotImplementedError

    def values(self, sample: Sample) -> dict[str, Tensor]:
        """The terms at a sample, by name."""
        return {term.name: term.value(sample) for term in self.summands}

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """Named scalars that add up to the bound of all rows that are placed.

        Args:
            draws: new samples that a sampled term averages.
        """
        return self.values(self.draw_sample(draws))

    def bound(self, draws: int = 1) -> float:
        """The sum of the terms of all rows, which are placed first, nats.

        Args:
            draws: as in ``terms``.
        """
        while self.place_rows():
            pass
        with torch.no_grad():
            return math.fsum(float(term) for term in self.terms(draws).values())

    def step_rows(self, rate: float) -> None:
        """Update what belongs to the rows of the last batch by its gradient; by default nothing.

        Called after Adam's step of ``parameters``.

        Args:
            rate: the learning rate of that step.
        """

    def relocate_rows(self) -> None:
        """Move rows to distant positions where that raises the bound; by default none is moved."""

    @property
    def row_share(self) -> float:
        """Share of the rows that ``terms`` uses, by default all."""
        return 1.0

    def place_rows(self) -> bool:
        """Place rows that ``terms`` has left out; returns whether it has, by default not."""
        return False

    def batch_terms(self) -> dict[str, Tensor]:
        """The terms that a step maximises: of all rows, or unbiased estimates from a batch."""
        return self.terms()

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """N."""

    @abstractmethod
    def latent_mean(self, rows: NDArray[np.intp]) -> Tensor:
        """Latent means of some rows, by position, [n, Q]."""

    @abstractmethod
    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        """Relevance α of each latent dimension by path, [Q] each.

        Args:
            mean: latent means of the rows of a snapshot, [n, Q].
        """

    def snapshot(self) -> Snapshot:
        """The current map, of at most 2000 rows."""
        rows = thinned(self.n_rows)
        with torch.no_grad():
            mean = self.latent_mean(rows)
            return snapshot_of(mean, self.relevance(mean), rows)


def total_values(terms: Sequence[Term[Sample]], samples: Iterable[Sample]) -> dict[str, Tensor]:
    """The sums of some terms over samples of disjoint blocks of rows, by name."""
    parts = [[term.value(sample) for term in terms] for sample in samples]
    names = [term.name for term in terms]
    return {
        name: torch.stack(part).sum()
        for name, part in zip(names, zip(*parts, strict=True), strict=True)
    }
