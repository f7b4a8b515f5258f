"""The objective of a latent variable model by random features, with steps over all rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import deepcopy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.base.fit_problem import FitProblem
from lvmcore.gp.paths import LatentRows
from lvmcore.random_features.decoder import FeatureDecoder
from lvmcore.random_features.fourier import RandomFourierFeatures
from lvmcore.random_features.gaussian_term import FeatureSample, FeatureTerm, GaussianTerm
from lvmcore.random_features.spectrum import Spectrum
from lvmcore.random_features.variational_weights import VariationalWeightTerm
from lvmcore.training.objective import KLTerm, Objective

__all__ = ["RandomFeatureObjective"]

# Features of all rows in memory for the final q(h): long tables average fewer samples.
MOST_FEATURE_VALUES = 1 << 25


class RandomFeatureObjective(Objective[FeatureSample]):
    """E[bound of the columns] − KL(q(X) ‖ N(0, I)) − KL(q(W) ‖ p), by one sample of W and X a step.

    Args:
        rows: q(X).
        spectrum: q of the spectral points W and of their mixture.
        columns: the term of the columns.
        generator: draws the latent positions.
        modules: their parameters are optimised by Adam; by default all three.
    """

    def __init__(
        self,
        rows: LatentRows,
        spectrum: Spectrum,
        columns: FeatureTerm,
        generator: torch.Generator,
        *,
        modules: Sequence[nn.Module] | None = None,
    ) -> None:
        optimised = [rows, spectrum, columns] if modules is None else modules
        super().__init__(
            optimised,
            [
                columns,
                KLTerm("KL of the map", [rows]),
                KLTerm("KL of the spectrum", [spectrum]),
            ],
        )
        self.rows, self.spectrum, self.columns = rows, spectrum, columns
        self.generator = generator
        self.all = torch.arange(len(rows.mean))

    def with_problem(self, problem: FitProblem) -> RandomFeatureObjective:
        """An objective of other cells of numbers with a copy of the current parameters."""
        assert isinstance(self.columns, GaussianTerm | VariationalWeightTerm)
        return RandomFeatureObjective(
            deepcopy(self.rows),
            deepcopy(self.spectrum),
            self.columns.with_problem(problem),
            problem.generator,
        )

    @property
    def batch_share(self) -> tuple[int, int]:
        """Number of columns, and how many of them a step uses."""
        return self.columns.Y.shape[1], self.columns.at_a_time

    def state(self) -> Iterable[Tensor]:
        """Tensors of the closed-form updates, and sites of the counts."""
        return [*self.spectrum.tensors(), *self.columns.state()]

    def batch_terms(self) -> dict[str, Tensor]:
        """The terms of a step: closed-form updates, then one sample of W and X."""
        self.spectrum.update()
        return self.values(self._sample(self.spectrum.draw(), step=True))

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The terms of the bound, averaged over new samples."""
        parts = [self._evaluate(self.spectrum.draw()) for _ in range(draws)]
        return {name: torch.stack([part[name] for part in parts]).mean() for name in parts[0]}

    @torch.no_grad()
    def fresh_bound(self, draws: int) -> float:
        """The bound at spectral points that the fit has not used."""
        parts = [self._evaluate(self.spectrum.fresh()) for _ in range(draws)]
        return math.fsum(float(term) for part in parts for term in part.values()) / draws

    def _evaluate(self, points: Tensor) -> dict[str, Tensor]:
        """The terms at spectral points [L, Q], without an update."""
        return self.values(self._sample(points, step=False))

    def _sample(self, points: Tensor, *, step: bool) -> FeatureSample:
        X = self.rows.draw(1, self.all, self.generator)[0]
        return FeatureSample(points, X, step, self.spectrum.amplitudes())

    def features(self, points: Tensor) -> RandomFourierFeatures:
        """φ of spectral points [L, Q], at the current scale and amplitudes."""
        return self.columns.features(points, self.spectrum.amplitudes())

    @property
    def n_rows(self) -> int:
        """N."""
        return len(self.all)

    def latent_mean(self, rows: NDArray[np.intp]) -> Tensor:
        """Means of q(x) of some rows, [n, Q]."""
        return self.rows.mean[torch.as_tensor(rows)]

    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        """α of the spectrum, see ``Spectrum.relevance``."""
        del mean
        return {"data": self.spectrum.relevance()}

    @torch.no_grad()
    def decoder(self) -> FeatureDecoder:
        """The columns at the fit's own spectral points, q(h) at its optimum under q(X)."""
        features = self.features(self.spectrum.points())
        samples = max(1, MOST_FEATURE_VALUES // (len(self.all) * features.width))
        X = self.rows.draw(min(self.columns.final_draws, samples), self.all, self.generator)
        return self.columns.decoder(features, X)
