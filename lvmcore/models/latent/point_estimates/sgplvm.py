"""The supervised Gaussian process latent variable model."""

from __future__ import annotations

from typing import ClassVar

from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.initial_map import start_map
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.base.settings import Components
from lvmcore.gp.point_estimates.labelled_model import LabelledPointGPLVM
from lvmcore.gp.point_estimates.model import (
    data_path,
)
from lvmcore.kernels.expression_kernel import map_kernel
from lvmcore.training.outcome import FitOutcome

__all__ = ["SGPLVM"]


@estimator_dataclass
class SGPLVM(LabelledPointGPLVM):
    """Gaussian processes from one map of points to the columns and to the class labels.

    With T the one-hot labels less the class shares, positions X and the parameters of both kernels
    and noises maximise

    L = log p(Y | X) + log p(T | X) + log p(X)

    (Gao, Wang, Tao and Li 2010), each density that of a Gaussian process with its own kernel and
    noise, X with mean 0 and sd 1 in each dimension, as in ``GPLVM``. A row without a label drops
    out of log p(T | X), a missing cell out of log p(Y | X).

    A new row is placed by the optimum of log p(y* | x*) + log p(x*), by its columns alone. Its
    class is that of the largest mean of the path to the labels; ``predict_proba`` is the
    probability that its score with noise is the largest
    (``lvmcore.gp.point_estimates.class_scores``).

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``data`` and ``labels`` hold α = 1/ℓ² of each path, [Q].
        inducing_inputs_: under the same names Z, [M, Q]; empty for approximation "exact".
        noise_variance_: σ² of the columns that vary, standardised units, [D].
    """

    key: ClassVar[str] = "sgplvm"
    title: ClassVar[str] = "Supervised GPLVM (SGPLVM)"
    summary: ClassVar[str] = (
        "A curved map of points shaped by columns and a class label: the baseline for LDGD."
    )
    paper: ClassVar[str] = "Gao et al. 2010"
    order: ClassVar[int] = 6

    n_components: Components = None

    def _fit(self, problem: FitProblem) -> FitOutcome:
        expression = map_kernel(self.kernel, problem.n_components)
        X = start_map(problem, self.start, self._note)
        return self._fit_both(problem, X, data_path(self, problem, X, expression))
