"""Non-negative matrix factorisation (NMF)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.latent_variable_model import Capabilities, FitProblem, LatentVariableModel
from lvmcore.base.settings import Components
from lvmcore.geometry import constant_metric
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.parameters import Advanced, Doc, Range
from lvmcore.preprocessing.standardiser import Standardiser
from lvmcore.results import Posterior
from lvmcore.training.outcome import FitOutcome, report_once

__all__ = ["NMF"]


# Maximum steps of a row's least squares per component; three are typical.
STEPS_A_COMPONENT = 100


@estimator_dataclass
class NMF(LatentVariableModel):
    """Non-negative matrix factorisation: rows as non-negative combinations of profiles.

    Y ≈ W H with W ≥ 0 [N, Q] and H ≥ 0 [Q, D], by least squares (Lee and Seung 1999). Columns are
    divided by their sd and not centred, so that 0 stays 0 and all columns have the same weight.
    scikit-learn's ``NMF`` finds H by coordinate descent (Cichocki and Phan 2009) from the singular
    vectors' non-negative parts (Boutsidis and Gallopoulos 2008). The position of any row is the
    exact argmin_w ‖y − w H‖² over w ≥ 0. The profiles, the rows of H, have length 1 and are sorted
    by decreasing share; a point with negative coordinates also decodes to W H. Each column's mean
    squared residual is its noise variance in ``decode``. There is no density, so no bound:
    ``elbo_`` is NaN and positions have variance 0.

    The library reports no steps, so a callback cannot stop it.

    Attributes:
        relevance_: ``data`` holds each component's share of Σ_q ‖w_q‖² ‖h_q‖², [Q].
        profiles_: H of the columns that vary, in units of their sd, [Q, D].
        noise_variance_: mean squared residual of the columns that vary, in units of their sd², [D].
    """

    key: ClassVar[str] = "nmf"
    title: ClassVar[str] = "Non-negative factors"
    summary: ClassVar[str] = (
        "Rows as sums of parts (NMF), for amounts, intensities and counts: nothing below 0."
    )
    paper: ClassVar[str] = "Lee and Seung 1999"
    order: ClassVar[int] = 42
    capabilities: ClassVar[Capabilities] = Capabilities(steps=False, cells="positive")

    n_components: Components = None
    max_iter: Annotated[int, Range(1, 100_000), Doc("Most steps of the fit.", "steps at most")] = (
        1000
    )
    tol: Annotated[
        float,
        Range(1e-10, 1.0, log=True),
        Doc("Stop when a step changes less than this share of the first.", "tolerance"),
        Advanced(),
    ] = 1e-4

    @property
    def profiles_(self) -> FloatArray:
        """H of the columns that vary, in units of their sd, [Q, D]."""
        return to_numpy(self._weights).T

    @property
    def noise_variance_(self) -> FloatArray:
        """Mean squared residual of the columns that vary, in units of their sd², [D]."""
        return to_numpy(self._noise)

    def _scaling(self, measured: Standardiser) -> Standardiser:
        return measured.uncentred()

    def _fit(self, problem: FitProblem) -> FitOutcome:
        from sklearn.decomposition import NMF as Library
        from sklearn.exceptions import ConvergenceWarning

        began = time.perf_counter()
        library = Library(
            problem.n_components,
            init="nndsvda",
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=problem.generator.initial_seed(),
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            scores = library.fit_transform(to_numpy(problem.Y))
        lengths = np.linalg.norm(library.components_, axis=1)
        profiles = library.components_ / np.where(lengths > 0, lengths, 1.0)[:, None]
        order = np.argsort(-np.square(scores * lengths).sum(axis=0), kind="stable")
        self._weights = self._to_tensor(profiles[order].T)
        mean, variance = self._posterior(problem.Y)
        residual = problem.Y - mean @ self._weights.T
        self._noise = residual.square().mean(0)
        self.embedding_ = Posterior(to_numpy(mean), to_numpy(variance))
        squares = np.square(self.embedding_.mean).sum(axis=0)
        self.relevance_ = {"data": (squares / squares.sum()).clip(np.finfo(np.float64).tiny)}
        self.inducing_inputs_ = {}
        return replace(report_once(problem.callback, began), converged=not caught)

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        # ‖y − W w‖² = ‖Bᵀy − R w‖² + const with W = B R: size Q, whatever the number of columns.
        basis, R = np.linalg.qr(to_numpy(self._weights))
        targets = to_numpy(Y) @ basis
        most = STEPS_A_COMPONENT * R.shape[1]
        found = np.array([nnls(R, target, maxiter=most)[0] for target in targets])
        mean = self._to_tensor(found.reshape(len(Y), R.shape[1])).to(Y)
        return mean, mean.new_zeros(mean.shape)

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = X @ self._weights.T
        noise = self._noise.expand_as(mean)
        return mean, noise, noise

    def _metric(self, X: Tensor) -> Tensor:
        return constant_metric(self._weights, X)

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return {"weights": to_numpy(self._weights), "noise": to_numpy(self._noise)}, {}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        del facts
        self._weights = self._to_tensor(arrays["weights"])
        self._noise = self._to_tensor(arrays["noise"])
