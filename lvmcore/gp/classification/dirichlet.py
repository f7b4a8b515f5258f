"""Gaussian process classification as regression on Dirichlet labels (Milios and others 2018).

A row of class y has Dirichlet parameters α_c = α_ε + [c = y], whose Gamma variables are
approximated by log-normal ones of the same mean and variance (equation 5 there):

    log Gamma(α_c, 1) ≈ N(ỹ_c, s_c²),   s_c² = log(1/α_c + 1),   ỹ_c = log α_c − s_c²/2.

So each class is a Gaussian process regression f_c ~ GP(m_c, k) with known noise,

    log p(ỹ | X) = Σ_c log N(ỹ_c | m_c 1, K + diag(s_c²) + σ²I),

and P(class c | f) = softmax(f)_c.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.gp.exact_regression import ExactGP, GPPosterior, log_density_terms
from lvmcore.kernels.composite import CompositeKernel
from lvmcore.likelihoods.classification import softmax_moments
from lvmcore.training.objective import Objective

__all__ = [
    "DirichletGP",
    "DirichletLikelihood",
    "DirichletPosterior",
    "DirichletRows",
    "dirichlet_labels",
]


def dirichlet_labels(
    codes: NDArray[np.intp], n_classes: int, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """ỹ and s² of the classes of rows, [N, C] each.

    Args:
        codes: classes of the rows, [N].
        n_classes: C.
        alpha: α_ε, positive.
    """
    alphas = alpha + (codes[:, None] == np.arange(n_classes))
    variance = np.log1p(1 / alphas)
    return np.log(alphas) - 0.5 * variance, variance


class DirichletRows:
    """The labels of rows, in units of the sd of ỹ.

    Args:
        X: standardised, [N, H].
        codes: classes, [N].
        n_classes: C.
        alpha: α_ε.
    """

    def __init__(self, X: Tensor, codes: NDArray[np.intp], n_classes: int, alpha: float) -> None:
        self.X, self.codes, self.n_classes, self.alpha = X, codes, n_classes, alpha
        labels, variance = dirichlet_labels(codes, n_classes, alpha)
        self.scale = float(labels.std())
        self.Y = torch.as_tensor(labels / self.scale).to(X)
        self.known = torch.as_tensor(variance / self.scale**2).to(X)

    def subset(self, rows: Tensor) -> DirichletRows:
        """Some of the rows."""
        return DirichletRows(self.X[rows], self.codes[rows.numpy()], self.n_classes, self.alpha)

    def with_alpha(self, alpha: float) -> DirichletRows:
        """The same rows under another α_ε."""
        return DirichletRows(self.X, self.codes, self.n_classes, alpha)


class DirichletGP(nn.Module):
    """f_c ~ GP(m_c, k), one kernel and one σ² for all classes.

    Args:
        kernel: k, at its initial parameters.
        rows: the rows, at whose mean labels m_c starts.
    """

    def __init__(self, kernel: CompositeKernel, rows: DirichletRows) -> None:
        super().__init__()
        self.gp = ExactGP(kernel, rows.X)
        self.means = nn.Parameter(rows.Y.mean(0))


class DirichletLikelihood(Objective[None]):
    """log p(ỹ | X) of all classes, of the kernel, σ² and the means.

    Args:
        model: initial model; fitted in place.
        rows: the rows.
    """

    def __init__(self, model: DirichletGP, rows: DirichletRows) -> None:
        super().__init__([model], [])
        self.model, self.rows = model, rows

    def terms(self, draws: int = 1) -> dict[str, Tensor]:
        """The fit of the labels and −½ Σ_c log|A_c|, nats."""
        del draws
        rows, gp = self.rows, self.model.gp
        K = gp.covariance(rows.X, rows.X)
        each = [
            log_density_terms(K + torch.diag(known + gp.noise), (y - mean)[:, None])
            for y, known, mean in zip(rows.Y.T, rows.known.T, self.model.means, strict=True)
        ]
        fits, log_dets = zip(*each, strict=True)
        return {"data fit": torch.stack(fits).sum(), "complexity": torch.stack(log_dets).sum()}

    @property
    def n_rows(self) -> int:
        """N."""
        return len(self.rows.X)

    def latent_mean(self, rows: NDArray[Any]) -> Tensor:
        """The columns of some rows, [n, H]."""
        return self.rows.X[torch.as_tensor(rows)]

    def relevance(self, mean: Tensor) -> dict[str, Tensor]:
        """α of the kernel."""
        del mean
        return {"layer1": self.model.gp.relevance}


class DirichletPosterior:
    """f of all classes given the rows of a fit.

    Args:
        model: fitted.
        rows: the rows.

    Raises:
        NumericalError: a covariance matrix could not be factorised.
    """

    @torch.no_grad()
    def __init__(self, model: DirichletGP, rows: DirichletRows) -> None:
        self.model, self.rows = model, rows
        self.classes = [
            GPPosterior(model.gp, rows.X, (y - mean)[:, None], known)
            for y, known, mean in zip(rows.Y.T, rows.known.T, model.means, strict=True)
        ]

    @torch.no_grad()
    def latent(self, X: Float[Tensor, "n H"]) -> tuple[Tensor, Tensor]:
        """Mean and variance of f_c at rows, without noise, in units of ỹ, [n, C] each."""
        parts = [one.moments(X) for one in self.classes]
        mean = torch.cat([mean for mean, _ in parts], 1) + self.model.means
        variance = torch.cat([variance for _, variance in parts], 1) - self.model.gp.noise
        return mean * self.rows.scale, variance.clamp_min(0.0) * self.rows.scale**2

    def probability(self, X: Float[Tensor, "n H"]) -> Tensor:
        """E softmax(f)_c at rows, [n, C], by fixed quasi-random draws."""
        return softmax_moments(*self.latent(X))[0]

    @torch.no_grad()
    def left_out_latent(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of f_c at each row of the fit given the others, [N, C] each.

        ỹ − [A⁻¹(ỹ − m)]_n / [A⁻¹]_nn and 1/[A⁻¹]_nn less the noise (Rasmussen and Williams 2006,
        equation 5.12).
        """
        means, variances = [], []
        for one, y, known in zip(self.classes, self.rows.Y.T, self.rows.known.T, strict=True):
            precision = torch.cholesky_inverse(one.factor).diagonal()
            means.append(y - one.alpha[:, 0] / precision)
            variances.append((1 / precision - known - self.model.gp.noise).clamp_min(0.0))
        scale = self.rows.scale
        return torch.stack(means, 1) * scale, torch.stack(variances, 1) * scale**2

    def left_out_log_loss(self) -> float:
        """Mean −log P(class of a row | the other rows), under the fitted parameters, nats."""
        probability = softmax_moments(*self.left_out_latent())[0]
        own = probability[torch.arange(len(probability)), torch.as_tensor(self.rows.codes)]
        return float(-own.clamp_min(1e-12).log().mean())
