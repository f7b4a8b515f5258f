"""The supervised latent linear Gaussian process latent variable model."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch

from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.initial_map import start_map
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.base.settings import Components
from lvmcore.base.table_size import TableSize
from lvmcore.gp.point_estimates.labelled_model import LabelledPointGPLVM
from lvmcore.gp.point_estimates.model import advised_approximation
from lvmcore.gp.point_estimates.paths import PointPath, column_groups
from lvmcore.kernels.expression import KernelTerm
from lvmcore.kernels.expression_kernel import map_kernel
from lvmcore.parameters import Advised
from lvmcore.training.outcome import FitOutcome

__all__ = ["SLLGPLVM"]


@estimator_dataclass
class SLLGPLVM(LabelledPointGPLVM):
    """A linear path from a map of points to the columns, and Gaussian processes to the labels.

    y_n = W x_n + ε with w_dq ~ N(0, a_q) integrated out, and one-hot labels T of Gaussian
    processes with the setting ``kernel``; positions X and all parameters maximise

    L = log p(Y | X) + log p(T | X) + log p(X)

    (Jiang, Gao, Wang and Zheng 2012), X with mean 0 and sd 1 in each dimension, as in ``GPLVM``.
    log p(Y | X) is the density of a Gaussian process with a linear kernel, whose covariance has
    rank Q: with the unit vectors as inducing inputs that of ``lvmcore.gp.point_estimates`` is
    exact, and costs N Q².

    New rows and classes as in ``SGPLVM``: the linear path places a row, and its class is that of
    the largest mean of the path to the labels.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``data`` holds a, ``labels`` α = 1/ℓ², [Q].
        inducing_inputs_: ``labels`` holds Z, [M, Q]; empty for approximation "exact".
        noise_variance_: σ² of the columns that vary, standardised units, [D].
    """

    key: ClassVar[str] = "sllgplvm"
    title: ClassVar[str] = "Supervised latent linear GPLVM (SLLGPLVM)"
    summary: ClassVar[str] = (
        "A linear map of points with curved borders between classes: between SPPCA and SGPLVM."
    )
    paper: ClassVar[str] = "Jiang et al. 2012"
    order: ClassVar[int] = 7

    n_components: Components = None

    @classmethod
    def advise(cls, size: TableSize) -> dict[str, Advised]:
        """Exact for short tables, else by inducing inputs; missing cells do not matter."""
        return advised_approximation(replace(size, incomplete=False))

    def _fit(self, problem: FitProblem) -> FitOutcome:
        map_kernel(self.kernel, problem.n_components)  # what cannot be used is reported at once
        X = start_map(problem, self.start, self._note)
        groups, unit = column_groups(problem.Y, problem.observed), torch.eye(X.shape[1]).to(X)
        linear = PointPath(groups, "dtc", unit, KernelTerm("linear"), moves=False)
        return self._fit_both(problem, X, linear)
