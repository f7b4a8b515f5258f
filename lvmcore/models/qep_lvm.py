"""Bayesian latent variable model of q-exponential processes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from lvmcore.base import Capabilities, Problem
from lvmcore.decoding import DataDecoder
from lvmcore.layers import DataPath, LatentRows
from lvmcore.parameters import (
    Components,
    Device,
    Doc,
    Dtype,
    Inducing,
    LearningRate,
    MaxIter,
    Noise,
    Range,
    Restarts,
    Seed,
    Start,
)
from lvmcore.psi import masked_psi_sums, psi_sums
from lvmcore.qep_bound import QEPBound, block_bound, qep_bound
from lvmcore.qexponential import LEAST_Q
from lvmcore.unlabelled import MapFit, UnlabelledMap

__all__ = ["QEPLVM"]

START_Q = 1.5


class QEPLVM(UnlabelledMap):
    """The Bayesian GPLVM with q-exponential processes, and such laws of X and of the noise.

    Maximises the bound of ``lvmcore.qep_bound`` by q(X) = ∏_n N(mean_n, diag var_n), kernel,
    inducing inputs, noise and, with ``q="learn"``, q. Latent points, inducing values and observed
    cells are one block each, of one radius, whose covariance is that of the Gaussian model: only
    how large a block may be is another law. At q = 2 it is ``BayesianGPLVM``, step for step.

    What q does: where a fit is free to choose the scale of a block, as it is with noise and map,
    the weight of the block comes out near 1 and q hardly shows. The inducing values are not free,
    as their scale is the kernel's: below 2 they are held back less, so the fit takes a smaller
    kernel variance, less is lost between the inducing inputs, and the rows are followed more
    closely. Far from the rows only that kernel variance is left, and intervals there are too
    narrow, the more so the smaller q is. A learned q falls, to its least where noise is low.

    A new row is placed and decoded by what was fitted. Given all the cells of a fit, one more row
    is all but Gaussian, its noise σ_d²/w_Y with the weight w_Y of the cells' radius
    (``QEPBound.noise_given_all``): ``noise_variance_`` is that. Its latent point is taken as
    N(0, I), although the radius of the map says that to a factor near 1 too.

    Missing cells, intervals of filled ones and restarts: as in ``BayesianGPLVM``.

    Attributes:
        q_: q, as given or as learned.
        relevance_: ``data`` holds α, [Q].
        inducing_inputs_: ``data`` holds Z, [M, Q].
        noise_variance_: σ_d²/w_Y of the columns that vary, standardised units, [D].
        interval_scale_: factor of the standard deviation of filled cells, [D].
        restarts_: bounds, seeds and latent means of the starts; None after a single one.
    """

    key: ClassVar[str] = "qep_lvm"
    title: ClassVar[str] = "Q-EP LVM"
    summary: ClassVar[str] = (
        "The Bayesian GPLVM with a setting for how closely its curves follow the rows; no labels."
    )
    paper: ClassVar[str] = "Chang, Obite, Zhou and Lan 2025"
    order: ClassVar[int] = 11
    capabilities: ClassVar[Capabilities] = Capabilities(
        missing_cells=True, sampling=True, uncertainty=True, bound=True
    )

    q_: float

    def __init__(
        self,
        *,
        q: Annotated[
            float | Literal["learn"],
            Range(LEAST_Q, 2.0),
            Doc(
                "2 is the Gaussian process; less follows the rows more closely, and is too sure "
                "far from them.",
                "q",
            ),
        ] = 1.5,
        n_components: Components = None,
        n_inducing: Inducing = 25,
        max_iter: MaxIter = 500,
        noise: Noise = "column",
        learning_rate: LearningRate = 0.1,
        start: Start = "pca",
        n_restarts: Restarts = 1,
        device: Device = "auto",
        dtype: Dtype = "float64",
        random_state: Seed = 0,
    ) -> None:
        self.q = q
        self.n_components = n_components
        self.n_inducing = n_inducing
        self.max_iter = max_iter
        self.noise = noise
        self.learning_rate = learning_rate
        self.start = start
        self.n_restarts = n_restarts
        self.device = device
        self.dtype = dtype
        self.random_state = random_state

    def _objective(self, rows: LatentRows, path: DataPath, problem: Problem) -> MapFit:
        if self.q == 2:
            return MapFit(rows, path, problem)
        return QEPFit(rows, path, problem, Shape(self.q))

    def _keep(self, fit: MapFit) -> None:
        super()._keep(fit)
        self.q_ = float(fit.shape.q.detach()) if isinstance(fit, QEPFit) else 2.0

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        arrays, facts = super()._get_state()
        return arrays, {**facts, "q": self.q_}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        super()._set_state(arrays, facts)
        self.q_ = float(facts["q"])


class Shape(torch.nn.Module):
    """q: fixed, or learned between its ends, as the logit of where it lies.

    Args:
        q: its value, or "learn".
    """

    def __init__(self, q: float | Literal["learn"]) -> None:
        super().__init__()
        self.fixed = None if q == "learn" else float(q)
        if self.fixed is None:
            share = (START_Q - LEAST_Q) / (2 - LEAST_Q)
            logit = torch.tensor(math.log(share / (1 - share)), dtype=torch.float64)
            self.logit = torch.nn.Parameter(logit)

    @property
    def q(self) -> Tensor:
        """[], float64."""
        if self.fixed is not None:
            return torch.tensor(self.fixed, dtype=torch.float64)
        return LEAST_Q + (2 - LEAST_Q) * torch.sigmoid(self.logit)


class QEPFit(MapFit):
    """The objective: the bound of the columns, and that of the map's block.

    Args:
        rows: as of ``MapFit``.
        path: likewise.
        problem: likewise.
        shape: q, where it begins.
    """

    def __init__(self, rows: LatentRows, path: DataPath, problem: Problem, shape: Shape) -> None:
        super().__init__(rows, path, problem)
        self.shape = shape

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        return [*super().parameters(), *self.shape.parameters()]

    def held(self) -> Iterable[torch.nn.Parameter]:
        return [*super().held(), *self.shape.parameters()]

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        del draws
        q = self.shape.q
        of_map = block_bound(self.rows.mean, self.rows.variance, q)
        return {"data fit": self._bound(q).value, "KL of the map": of_map}

    def _bound(self, q: Tensor) -> QEPBound:
        kernel, Z, data = self.path.kernel, self.path.Z, self.data
        place = (kernel, self.rows.mean, self.rows.variance, Z, data.Y)
        noise = self.path.noise.expand(data.Y.shape[1])
        if data.cells is None:
            counts = noise.new_full(noise.shape, len(data.Y))
            sums = psi_sums(*place)
            return qep_bound(sums, kernel(Z, Z), noise, data.squares, counts, q)
        masked = masked_psi_sums(*place, data.cells)
        return qep_bound(masked, kernel(Z, Z), noise, data.squares, data.cells.counts, q)

    @torch.no_grad()
    def decoder(self) -> DataDecoder:
        found = self._bound(self.shape.q)
        return self.path.decoder(found.inducing, found.noise_given_all(self.path.noise))

    def elsewhere(self, problem: Problem) -> Self:
        rows, path = deepcopy(self.rows), deepcopy(self.path)
        return type(self)(rows, path, problem, deepcopy(self.shape))
