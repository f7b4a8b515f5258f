"""The collapsed bound of q-exponential processes with uncertain inputs, complete or with gaps.

A block of n numbers of covariance C has the log density ψ_n(e) − ½ log|C| at e = uᵀ C⁻¹ u, and
E ψ_n(e) ≥ ψ_n(E e) (`qep.blocks`). There are three blocks with one radius each: the latent
positions, n = N Q; the whitened inducing values V of all columns, n = M D; and the observed cells
given F, n = Σ_d n_d. Given U, F has the covariance of the Gaussian process, and only its covariance
is needed: with q(F, V, X) = p(F | U, X) q(V) q(X) it cancels, and the log evidence of
p(Y | F) p(F | U) p(U) p(X) is at least

ψ_n(e_Y) − ½ Σ_d n_d log σ_d² + [H(q(V)) + ψ_MD(e_V)] + [H(q(X)) + ψ_NQ(e_X)],

e_Y = Σ_d E‖y_d − f_d‖²/σ_d², e_V = Σ_d ‖m_d‖² + tr S_d, e_X = Σ_nq mean² + variance. The
bound depends on mean, covariance and entropy of q(V), and a Gaussian has the greatest entropy for a
covariance: no q-exponential q(V) gives a higher bound than N(m_d, S_d). The psi statistics are
those of a Gaussian q(X), in closed form.

The optimal q(V). A convex ψ is the supremum of its tangents, of slope −w/2 with w = −2ψ'. For given
weights w_Y and w_V the optimal q(V) is that of a Gaussian model,

S_d = (w_Y G_d/σ_d² + w_V I)⁻¹, m_d = w_Y S_d P_d/σ_d²,

and the best tangent at that q(V) has the weights at its e_Y and e_V. The two weights are iterated
to a fixed point, and each step raises the bound. Everything is diagonal in the basis of G_d, so a
step costs M × D. At the fixed point the gradient by q(V) is zero, and the gradient of e_Y by psi
statistics, kernel and noise remains. At q = 2 both weights are 1, and the bound is
``gp.bounds.collapsed_bound``.

Source: the model is that of Li, O'Connor and Lan 2023 and of Chang, Obite, Zhou and Lan 2025, with
the covariances above; the weights are ours. The published bound omits ρ and is no lower bound.

Notation: lvmcore/README.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from lvmcore.gp.bounds import OptimalInducing, kernel_eigensystem
from lvmcore.gp.masked_bound import whitened
from lvmcore.kernels.psi_statistics import MaskedPsiSums, PsiSums
from lvmcore.numerics.gaussians import LOG_2PI
from lvmcore.numerics.linalg import cholesky, solve_lower, solve_upper
from lvmcore.qep.blocks import block_factor, block_tangent, log_block

__all__ = ["QEPBound", "block_bound", "moment_bound", "qep_bound"]

# Newton steps to the fixed point of the weights at most, and the tolerance on their logarithms.
MAX_NEWTON_STEPS, NEWTON_TOLERANCE = 40, 1e-11


def block_bound(
    mean: Float[Tensor, "N Q"], variance: Float[Tensor, "N Q"], q: Tensor | float
) -> Float[Tensor, ""]:
    """H(q(X)) + ψ_n(e_X), [], of q(X) = N(mean, diag variance) and a block X of unit covariance.

    A lower bound on E log p(X)/q(X); −KL(q(X) ‖ N(0, I)) at q = 2. n = N Q.
    """
    mean, variance = mean.double(), variance.double()
    squares = (mean.square() + variance).sum()
    return moment_bound(variance.log().sum(), squares, mean.numel(), q)


def moment_bound(
    log_variance: Float[Tensor, ""], squares: Float[Tensor, ""], n: int, q: Tensor | float
) -> Float[Tensor, ""]:
    """``block_bound`` from sums over the block, [].

    Args:
        log_variance: Σ log variance.
        squares: Σ (mean² + variance).
        n: N Q.
        q: as of the fit.
    """
    return 0.5 * (log_variance + n * (LOG_2PI + 1)) + log_block(squares, n, q)


@dataclass(frozen=True)
class QEPBound:
    """The bound and the optimal q(V).

    Attributes:
        value: without the terms of X, float64, [].
        inducing: the optimal q(V), detached; ``shrinkage`` is 1 − S in its basis, which is below 0
            where the prior has heavier tails than a Gaussian.
        weights: w_Y and w_V, [2].
    """

    value: Float64[Tensor, ""]
    inducing: OptimalInducing
    weights: Float64[Tensor, "2"]

    def conditional_noise(self, noise: Float[Tensor, "D"]) -> Float[Tensor, "D"]:
        """σ²/w_Y, [D]: the noise of a new row, given the radius of the observed cells.

        Conditional covariances of a q-exponential block are the Gaussian's times a factor that
        depends on the radius of the known part (``distribution.conditional_shrinkage``); where many
        numbers are known it is 1/w_Y, and its distribution so narrow that the conditional is
        Gaussian.
        """
        return noise / self.weights[0].to(noise)


def qep_bound(
    sums: PsiSums | MaskedPsiSums,
    Kuu: Float[Tensor, "M M"],
    noise: Float[Tensor, "D"],
    squares: Float[Tensor, "D"],
    counts: Float[Tensor, "D"],
    q: Tensor | float,
) -> QEPBound:
    """The bound at the optimal q(V), without H(q(X)) + ψ(e_X).

    Args:
        sums: psi statistics summed over rows, over each column's observed rows if cells are
            missing.
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
    # P = L⁻¹ psi1ᵀY, and G = L⁻¹ psi2 L⁻ᵀ for each set of rows.
    P = solve_lower(L, sums.psi1Y.double())
    sets, G = _whitened(sums, L)
    found, vectors = kernel_eigensystem(0.5 * (G + G.mT).detach())
    G = vectors.mT @ G @ vectors  # diagonal in value, not in its gradient
    diagonal = G.diagonal(dim1=1, dim2=2)
    rotated, values = torch.empty_like(P), torch.empty_like(P)
    trace = torch.empty_like(noise)
    for k, columns in enumerate(sets):
        rotated[:, columns] = vectors[k].T @ P[:, columns]
        values[:, columns] = found[k][:, None]
        trace[columns] = diagonal[k].sum()
    residual = squares.double() + sums.psi0 - trace  # ‖y_d‖² + psi0 − tr G_d
    spectrum = _DiagonalisedBound(
        values.detach(), rotated.detach(), residual.detach(), noise.detach(), counts
    )
    weights, mean, covariance = spectrum.optimum(_is_gaussian(q))

    # m_dᵀ G_d m_d + tr G_d S_d
    inside = torch.empty_like(residual)
    for k, columns in enumerate(sets):
        m = mean[:, columns]
        inside[columns] = (m * (G[k] @ m)).sum(0) + diagonal[k] @ covariance[:, columns]
    squared = residual - 2 * (mean * rotated).sum(0) + inside  # E‖y_d − f_d‖²
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
    """The columns with each set of rows, and G of these rows, [K, M, M]."""
    if isinstance(sums, PsiSums):
        half = solve_lower(L, sums.psi2.double())
        return [slice(None)], solve_lower(L, half.T)[None]
    K = sums.psi2.shape[1]
    return [torch.nonzero(sums.groups == k)[:, 0] for k in range(K)], whitened(sums.psi2, L)


def _is_gaussian(q: Tensor | float) -> Tensor:
    return torch.as_tensor(q, dtype=torch.float64).detach()


@dataclass(frozen=True)
class _DiagonalisedBound:
    """The bound as a function of q(V), in the basis that diagonalises it.

    Attributes:
        values: λ of each column's G, [M, D].
        rotated: P_d in the basis of G_d, [M, D].
        residual: ‖y_d‖² + psi0 − tr G_d, [D].
        noise: σ², [D].
        counts: n_d, [D].
    """

    values: Float64[Tensor, "M D"]
    rotated: Float64[Tensor, "M D"]
    residual: Float64[Tensor, "D"]
    noise: Float64[Tensor, "D"]
    counts: Float64[Tensor, "D"]

    def optimum(
        self, q: Tensor
    ) -> tuple[Float64[Tensor, "2"], Float64[Tensor, "M D"], Float64[Tensor, "M D"]]:
        """The weights [2], and m and S of every column, [M, D] each.

        Newton steps to the fixed point of log w ↦ log w(e(w)). Where a Newton step does not raise
        the bound, a fixed-point step, which never lowers it, replaces it.
        """
        sizes = self.counts.new_tensor([float(self.counts.sum()), self.values.numel()])
        factor = block_factor(sizes, q)
        a, b = self.values / self.noise, self.rotated / self.noise
        constant = (self.residual / self.noise).sum()
        log_w = torch.zeros_like(sizes)
        best, plain = -math.inf, log_w
        for _ in range(MAX_NEWTON_STEPS):
            w = log_w.exp()
            # q(V) at these weights: S, m and E v².
            S = 1 / (w[0] * a + w[1])
            m = w[0] * b * S
            second = m.square() + S
            # e_Y and e_V
            e = torch.stack([constant + (a * second - 2 * b * m).sum(), second.sum()])
            logs, now = block_tangent(e, sizes, q, factor)
            value = float(logs.sum() + 0.5 * S.log().sum())
            if not (value >= best - 1e-12 * abs(best) or torch.equal(log_w, plain)):
                log_w = plain
                continue
            best, plain = value, now.log()
            if float((plain - log_w).abs().max()) < NEWTON_TOLERANCE:
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
        """The Newton step: the zero of the linearised log w − log w(e(w)), [2]."""
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
