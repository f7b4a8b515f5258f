"""Label path of a mini-batch fit: classification Gaussian processes by natural gradients.

Notation: lvmcore/README.md.
"""

from __future__ import annotations

from torch import Tensor

from lvmcore.gp.minibatch.function_path import StochasticFunctionPath
from lvmcore.kernels.expression import KernelExpression
from lvmcore.likelihoods.classification import Link, label_expectation

__all__ = ["StochasticLabelPath"]


class StochasticLabelPath(StochasticFunctionPath):
    """Classification Gaussian processes, one a class.

    Args:
        Z: initial inducing inputs, [M, Q] (float64).
        n_classes: C.
        link: how the class values become probabilities.
        expression: of the kernel; None for the RBF kernel.
    """

    def __init__(
        self,
        Z: Tensor,
        n_classes: int,
        link: Link,
        expression: KernelExpression | None = None,
    ) -> None:
        super().__init__(Z, n_classes, expression=expression)
        self.link = link

    def expected_log_likelihood(self, X: Tensor, signs: Tensor, weights: Tensor) -> Tensor:
        """Σ_n w_n E log p(label_n | f(x_n)), averaged over the samples, [].

        Args:
            X: samples of the labelled rows' positions, [S, n, Q].
            signs: +1 for a row's class and −1 otherwise, [n, C].
            weights: w of each row, the scale N/B included, [n].
        """
        X_all = X.reshape(-1, X.shape[-1])
        a = self.project(X_all)
        mean, variance = self.functions(a, self.prior_variance(X_all))
        repeated = signs.repeat(len(X), 1)
        w = weights.repeat(len(X)) / len(X)
        terms = w * label_expectation(self.link, repeated, mean, variance)
        total = terms.sum()
        self.keep(total, mean, variance, a)
        return total
