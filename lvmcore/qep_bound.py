"""The collapsed bound of q-exponential processes with uncertain inputs, complete or with gaps.

A block of n numbers of covariance C has the log density ψ_n(e) − ½ log|C| at e = uᵀ C⁻¹ u, and
E ψ_n(e) is no less than ψ_n(E e) (`qexponential_blocks`). Three blocks of one radius each: the
latent points, n = N Q; the whitened inducing values V of all columns, n = M D; and the observed
cells given F, n = Σ_d n_d. Given U, F has the covariance of the Gaussian process, and needs no more
of its law: with q(F, V, X) = p(F | U, X) q(V) q(X) it cancels, and the evidence of
p(Y | F) p(F | U) p(U) p(X) is no less than

ψ_n(e_Y) − ½ Σ_d n_d log σ_d² + [H(q(V)) + ψ_MD(e_V)] + [H(q(X)) + ψ_NQ(e_X)],

e_Y = Σ_d E‖y_d − f_d‖²/σ_d², e_V = Σ_d ‖m_d‖² + tr S_d, e_X = Σ_nq mean² + variance. Of q(V) only
mean, covariance and entropy enter, and of all laws with a covariance the Gaussian has the greatest
entropy: no q-exponential q(V) does better than N(m_d, S_d). The psi statistics stay those of a
Gaussian q(X), in closed form.

The optimal q(V). A convex ψ is the highest of its tangents, of slope −w/2 with w = −2ψ'. For given
weights w_Y and w_V the best q(V) is that of a Gaussian problem,

S_d = (w_Y G_d/σ_d² + w_V I)⁻¹, m_d = w_Y S_d P_d/σ_d²,

and the best tangent at that q(V) has the weights at its e_Y and e_V: two numbers that are brought
to a fixed point, each step of which raises the bound. All is diagonal in the basis of G_d, so a
step costs M × D. At the fixed point the gradient by q(V) is zero, and what is left of it is that of
e_Y by psi statistics, kernel and noise. At q = 2 both weights are 1, and the bound is
``variational.collapsed_bound``.

Source: the model is that of Li, O'Connor and Lan 2023 and of Chang, Obite, Zhou and Lan 2025, with
the covariances said above; the weights are ours. The published bound leaves ρ out and is none.

Notation: lvmcore/README.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lvmcore.linalg import cholesky, solve_lower, solve_upper
from lvmcore.masked import whitened
from lvmcore.psi import MaskedPsiSums, PsiSums
from lvmcore.qexponential_blocks import block_factor, block_tangent, log_block
from lvmcore.variational import LOG_2PI, OptimalInducing, eigen

__all__ = ["QEPBound", "block_bound", "qep_bound"]

# Steps to the fixed point of the weights at most, and how near it is: of their logarithms.
MOST_STEPS, NEAR = 40, 1e-11


def block_bound(mean: Tensor, variance: Tensor, q: Tensor | float) -> Tensor:
    """H(q(X)) + ψ_n(e_X), [], of q(X) = N(mean, diag variance) and a block X of unit covariance.

    E log p(X)/q(X) is no less; −KL(q(X) ‖ N(0, I)) at q = 2. n is the number of its numbers.
    """
    mean, variance = mean.double(), variance.double()
    entropy = 0.5 * (variance.log() + LOG_2PI + 1).sum()
    return entropy + log_block((mean.square() + variance).sum(), mean.numel(), q)


@dataclass(frozen=True)
class QEPBound:
    """The bound, and the q(V) that it is at.

    Attributes:
        value: without the part of X, float64, [].
        inducing: the optimal q(V), detached; ``shrinkage`` is 1 − S in its basis, which is below 0
            where large values of V are likelier than a Gaussian has them.
        weights: w_Y and w_V, [2].
    """

    value: Tensor
    inducing: OptimalInducing
    weights: Tensor

    def noise_given_all(self, noise: Tensor) -> Tensor:
        """σ²/w_Y: the noise of one more row, given the radius that the cells of the fit show.

        Conditional covariances of a q-exponential block are the Gaussian's times a factor that
        depends on how far out the known part is (``qexponential.shrinkage_given``); where many
        numbers are known it is 1/w_Y, and so near to certain that the conditional is Gaussian.
        """
        return noise / self.weights[0].to(noise)


def qep_bound(
    sums: PsiSums | MaskedPsiSums,
    Kuu: Tensor,
    noise: Tensor,
    squares: Tensor,
    counts: Tensor,
    q: Tensor | float,
) -> QEPBound:
    """The bound with q(V) at its optimum, H(q(X)) + ψ(e_X) not included.

    Args:
        sums: psi statistics summed over rows, of each column's own rows where cells are missing.
        Kuu: kernel matrix of the inducing inputs, [M, M].
        noise: σ², one a column, [D].
        squares: ‖y_d‖² of the observed cells, [D].
        counts: n_d, [D].
        q: from 0.1 to 2; a tensor where it is learned.

    Raises:
        NumericalError: a matrix could not be factorised.
    """
    L, _ = cholesky(Kuu, "The kernel matrix of the inducing inputs")
    noise, counts = noise.double(), counts.double()
    P = solve_lower(L, sums.psi1Y.double())
    sets, G = _whitened(sums, L)
    found, vectors = eigen(0.5 * (G + G.mT).detach())
    G = vectors.mT @ G @ vectors  # diagonal, with a gradient that is not
    diagonal = G.diagonal(dim1=1, dim2=2)
    rotated, values = torch.empty_like(P), torch.empty_like(P)
    trace = torch.empty_like(noise)
    for k, columns in enumerate(sets):
        rotated[:, columns] = vectors[k].T @ P[:, columns]
        values[:, columns] = found[k][:, None]
        trace[columns] = diagonal[k].sum()
    left = squares.double() + sums.psi0 - trace
    spectrum = _Spectrum(values.detach(), rotated.detach(), left.detach(), noise.detach(), counts)
    weights, mean, covariance = spectrum.optimum(_plain(q))

    inside = torch.empty_like(left)
    for k, columns in enumerate(sets):
        m = mean[:, columns]
        inside[columns] = (m * (G[k] @ m)).sum(0) + diagonal[k] @ covariance[:, columns]
    squared = left - 2 * (mean * rotated).sum(0) + inside  # E‖y_d − f_d‖²
    n = int(counts.sum())
    e_V = (mean.square() + covariance).sum()
    entropy = 0.5 * (covariance.log() + LOG_2PI + 1).sum()
    value = log_block((squared / noise).sum(), n, q) - 0.5 * (counts * noise.log()).sum()
    value = value + entropy + log_block(e_V, mean.numel(), q)

    basis, groups = solve_upper(L.detach(), vectors), None
    if isinstance(sums, MaskedPsiSums):
        groups = sums.groups
    else:
        basis = basis[0]
    inducing = OptimalInducing(basis, mean, 1 - covariance, groups)
    return QEPBound(value, inducing, weights)


def _whitened(sums: PsiSums | MaskedPsiSums, L: Tensor) -> tuple[list[slice | Tensor], Tensor]:
    """The columns of each set of rows, and G of these rows, [K, M, M]."""
    if isinstance(sums, PsiSums):
        half = solve_lower(L, sums.psi2.double())
        return [slice(None)], solve_lower(L, half.T)[None]
    K = sums.psi2.shape[1]
    return [torch.nonzero(sums.groups == k)[:, 0] for k in range(K)], whitened(sums.psi2, L)


def _plain(q: Tensor | float) -> Tensor:
    return torch.as_tensor(q, dtype=torch.float64).detach()


@dataclass(frozen=True)
class _Spectrum:
    """All that the optimal q(V) depends on, diagonal.

    Attributes:
        values: λ of each column's G, [M, D].
        rotated: P_d in the basis of G_d, [M, D].
        left: ‖y_d‖² + psi0 − tr G_d, [D].
        noise: σ², [D].
        counts: n_d, [D].
    """

    values: Tensor
    rotated: Tensor
    left: Tensor
    noise: Tensor
    counts: Tensor

    def optimum(self, q: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The weights [2], and m and S of every column, [M, D] each.

        The fixed point is that of log w ↦ log w(e(w)), by Newton's steps; where one of them does
        not raise the bound, the plain step that never lowers it is taken in its place.
        """
        sizes = self.counts.new_tensor([float(self.counts.sum()), self.values.numel()])
        factor = block_factor(sizes, q)
        a, b = self.values / self.noise, self.rotated / self.noise
        constant = (self.left / self.noise).sum()
        log_w = torch.zeros_like(sizes)
        best, plain = -math.inf, log_w
        for _ in range(MOST_STEPS):
            w = log_w.exp()
            S = 1 / (w[0] * a + w[1])
            m = w[0] * b * S
            second = m.square() + S
            e = torch.stack([constant + (a * second - 2 * b * m).sum(), second.sum()])
            logs, now = block_tangent(e, sizes, q, factor)
            value = float(logs.sum() + 0.5 * S.log().sum())
            if not (value >= best - 1e-12 * abs(best) or torch.equal(log_w, plain)):
                log_w = plain
                continue
            best, plain = value, now.log()
            if float((plain - log_w).abs().max()) < NEAR:
                break
            log_w = self._newton(log_w, plain, e, self._slopes(w, a, b, S), sizes, q)
        return w, m, S

    @staticmethod
    def _slopes(w: Tensor, a: Tensor, b: Tensor, S: Tensor) -> Tensor:
        """∂e/∂w, [2, 2], symmetric."""
        pull, S2 = b.square() * S**3, S.square()
        crossed = 2 * w[0] * w[1] * pull.sum() - (a * S2).sum()
        first = -2 * w[1].square() * pull.sum() - (a.square() * S2).sum()
        last = -2 * w[0].square() * pull.sum() - S2.sum()
        return torch.stack([first, crossed, crossed, last]).reshape(2, 2)

    @staticmethod
    def _newton(
        log_w: Tensor, plain: Tensor, e: Tensor, slopes: Tensor, sizes: Tensor, q: Tensor
    ) -> Tensor:
        """Where log w − log w(e(w)) is zero by its slope at hand."""
        w = plain.exp()
        elasticity = -(1 - q / 2) * (1 + (q / 2) * sizes / (e * w))  # ∂log w/∂log e
        jacobian = (elasticity / e)[:, None] * slopes * log_w.exp()
        (a, b), (c, d) = jacobian.tolist()
        x, y = (plain - log_w).tolist()
        determinant = (1 - a) * (1 - d) - b * c
        if determinant == 0:
            return plain
        step = ((1 - d) * x + b * y) / determinant, (c * x + (1 - a) * y) / determinant
        return log_w + log_w.new_tensor(step).clamp(-2, 2)
