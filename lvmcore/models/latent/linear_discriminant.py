"""Linear discriminant analysis, as scikit-learn computes it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from torch import Tensor

from lvmcore.base.estimator_dataclass import estimator_dataclass, fitted
from lvmcore.base.latent_variable_model import Capabilities, FitProblem, LatentVariableModel
from lvmcore.base.settings import Components
from lvmcore.base.validation import require_labels
from lvmcore.errors import DataError
from lvmcore.numerics.conversion import to_numpy
from lvmcore.results import Posterior
from lvmcore.training.outcome import FitOutcome, report_once


@estimator_dataclass
class LinearDiscriminantAnalysis(ClassifierMixin, LatentVariableModel):
    """Linear discriminant analysis: the linear map with the best separation of classes.

    Classes are Gaussians with one covariance; the axes of the map maximise the variance between
    class means in units of the variance within classes (Fisher 1936; Rao 1948), at most C − 1 axes
    for C classes. scikit-learn's ``LinearDiscriminantAnalysis`` does the fit, on the standardised
    columns, by singular value decomposition.

    ``predict`` is the library's and uses all directions. Class probabilities at latent points,
    P(class k | x) ∝ π_k exp(−½‖x − μ_k‖²) with the class frequencies π and their centres μ on the
    map, use the dimensions of the map; if it has all directions the two agree.

    Attributes:
        classes_: the classes, sorted, [C].
        relevance_: ``labels`` holds each direction's share of the variance between classes, [Q].
    """

    key: ClassVar[str] = "lda"
    title: ClassVar[str] = "Linear discriminants"
    summary: ClassVar[str] = (
        "The linear map that keeps classes apart (LDA): the baseline for label-aware maps."
    )
    paper: ClassVar[str] = "Fisher 1936; Rao 1948"
    order: ClassVar[int] = 50
    capabilities: ClassVar[Capabilities] = Capabilities(labels="required", decoding=False)

    classes_: NDArray[Any] = fitted()

    n_components: Components = 2

    def _fit(self, problem: FitProblem) -> FitOutcome:
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis as Library

        began = time.perf_counter()
        labels = problem.labels[0]
        if len(problem.Y) <= len(labels.classes):
            raise DataError(
                f"Linear discriminants need more rows than classes: there are {len(problem.Y)} "
                f"rows of {len(labels.classes)} classes. Choose a label with fewer classes."
            )
        library = Library()
        with warnings.catch_warnings():
            # The decomposition is also valid for collinear columns.
            warnings.filterwarnings("ignore", "Variables are collinear", UserWarning)
            library.fit(to_numpy(problem.Y), labels.codes)
        Q = self._directions(problem, library)
        self._centre = self._to_tensor(library.xbar_)
        self._scalings = self._to_tensor(library.scalings_[:, :Q])
        self._coefficients = self._to_tensor(library.coef_)
        self._intercepts = self._to_tensor(library.intercept_)
        self._centres = self._posterior(self._to_tensor(library.means_))[0]
        self._shares = self._to_tensor(library.priors_)
        mean, variance = self._posterior(problem.Y)
        self.embedding_ = Posterior(to_numpy(mean), to_numpy(variance))
        self.relevance_ = {"labels": np.asarray(library.explained_variance_ratio_[:Q])}
        self.inducing_inputs_ = {}
        return report_once(problem.callback, began)

    def _directions(self, problem: FitProblem, library: Any) -> int:
        """Q: the setting, at most the number of discriminant directions."""
        n_classes = len(problem.labels[0].classes)
        most = min(n_classes - 1, int(library.scalings_.shape[1]))
        if problem.n_components > most:
            self._note(
                f"n_components reduced from {problem.n_components} to {most}: no further direction "
                f"tells the {n_classes} classes apart."
            )
        return min(problem.n_components, most)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Class probabilities of rows, normalised, [N, C], from all directions.

        Raises:
            DataError: the rows do not fit the model (columns, infinite or missing cells).
        """
        require_labels(self)
        Y = self._to_tensor(self._standardiser.transform(self._check_rows(X, reset=False)))
        score = Y @ self._coefficients.T + self._intercepts
        if len(self.classes_) == 2:  # one score, the log-odds of the second class
            return to_numpy(torch.cat([-score, score], dim=1).sigmoid())
        return to_numpy(score.softmax(dim=1))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class of each row, [N]."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Accuracy of ``predict(X)`` against the labels y."""
        return float(ClassifierMixin.score(self, X, y))

    def _posterior(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        mean = (Y - self._centre) @ self._scalings
        return mean, torch.zeros_like(mean)

    def _decode(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        raise NotImplementedError  # not in the capabilities: decode() raises an error before

    def _decode_labels(self, X: Tensor, column: int) -> tuple[Tensor, Tensor, Tensor]:
        del column  # there is only one
        square = (X[:, None, :] - self._centres).square().sum(-1)
        p = (self._shares.log() - 0.5 * square).softmax(dim=1)
        return p, p, torch.zeros_like(p)

    def _get_state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        return {name: to_numpy(getattr(self, f"_{name}")) for name in _LDA_STATE}, {}

    def _set_state(self, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
        del facts
        for name in _LDA_STATE:
            setattr(self, f"_{name}", self._to_tensor(arrays[name]))


_LDA_STATE = ("centre", "scalings", "coefficients", "intercepts", "centres", "shares")
