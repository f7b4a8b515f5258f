"""The discriminative Gaussian process latent variable model."""

from __future__ import annotations

from typing import Annotated, ClassVar

from lvmcore.base.estimator_dataclass import estimator_dataclass
from lvmcore.base.initial_map import start_map
from lvmcore.base.latent_variable_model import FitProblem
from lvmcore.base.settings import Components
from lvmcore.gp.point_estimates.labelled_model import LabelledPointGPLVM
from lvmcore.gp.point_estimates.model import (
    data_path,
)
from lvmcore.gp.point_estimates.objective import (
    ClassScatterTerm,
    PathTerm,
    PointObjective,
    PositionPrior,
    direct_schedule,
)
from lvmcore.gp.point_estimates.paths import PointPath
from lvmcore.gp.point_estimates.positions import FreePositions
from lvmcore.kernels.expression_kernel import map_kernel
from lvmcore.parameters import Doc, Range
from lvmcore.training.loop import train
from lvmcore.training.outcome import FitOutcome

__all__ = ["DiscriminativeGPLVM"]

# Steps of the path to the labels, at the fitted map.
LABEL_STEPS = 50


@estimator_dataclass
class DiscriminativeGPLVM(LabelledPointGPLVM):
    """The GPLVM with a prior of its map that draws classes together and apart from one another.

    Positions X and the parameters of kernel and noise maximise

    L = log p(Y | X) + log p(X) − λ/tr(S_w⁻¹ S_b)

    (Urtasun and Darrell 2007), S_w and S_b the scatter of X within and between classes, 0.001 of
    the mean diagonal of S_w added to it. X has mean 0 and sd 1 in each dimension, as in ``GPLVM``,
    which λ = 0 is; the ratio of scatters does not depend on such scales. λ, 1/σ_d² of the paper, is
    ``class_strength`` nats a cell of the table, so that its effect does not depend on the size.

    A row without a label is left out of the scatter, a missing cell out of log p(Y | X). New rows
    are placed by their columns alone. Their classes are those of Gaussian processes from the map to
    one-hot labels, which are fitted after it, as the paper's classifier is, and are no part of L.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``data`` and ``labels`` hold α = 1/ℓ² of each path, [Q].
        inducing_inputs_: under the same names Z, [M, Q]; empty for approximation "exact".
        noise_variance_: σ² of the columns that vary, standardised units, [D].
    """

    key: ClassVar[str] = "discriminative_gplvm"
    title: ClassVar[str] = "Discriminative GPLVM"
    summary: ClassVar[str] = (
        "A curved map of points whose classes are drawn apart by a prior: for few labelled rows."
    )
    paper: ClassVar[str] = "Urtasun and Darrell 2007"
    order: ClassVar[int] = 8

    n_components: Components = 2
    class_strength: Annotated[
        float,
        Range(0.0, 1000.0),
        Doc("Strength of the prior that draws classes apart, nats a cell; 0 is the GPLVM."),
    ] = 0.1

    def _fit(self, problem: FitProblem) -> FitOutcome:
        expression = map_kernel(self.kernel, problem.n_components)
        labels = problem.labels[0]
        X = start_map(problem, self.start, self._note)
        path = data_path(self, problem, X, expression)
        label_path = self._label_path(problem, X)
        terms = [
            PathTerm("data fit", path),
            PositionPrior(),
            ClassScatterTerm(labels.codes, self.class_strength * path.count, X),
        ]
        paths = {"data": path, "labels": label_path}
        fit = PointObjective(FreePositions(X), paths, terms)
        outcome = self._train(problem, fit)
        self._fit_labels(fit, label_path)
        self._store_scores(label_path, labels)
        self._store_paths(fit)
        return outcome

    def _fit_labels(self, fit: PointObjective, path: PointPath) -> None:
        """Fit the path to the labels at the fitted map."""
        X = fit.draw_sample(1).detach()
        terms = [PathTerm("label fit", path)]
        alone = PointObjective(fit.positions, {"labels": path}, terms, fixed=X)
        train(alone, direct_schedule(min(self.max_iter, LABEL_STEPS), path.count), None)
