"""Linear projections of a latent space to two dimensions, and the one of its principal axes.

A latent dimension has no unit of its own: under a standard normal prior the latent means have about
the same spread in every dimension that is in use, whether the columns change much along it or
hardly. The expected metric G (``lvmcore.geometry``) has a unit: a step δ changes the columns by
√(δᵀ G δ), in their sd. In the coordinates u = G^{1/2} x, with the mean of G over the rows, a
distance is a change of the columns, and the principal components of u are the two coordinates that
keep most of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lvmcore.numerics.array_types import FloatArray

__all__ = ["BEST_VIEW", "LatentProjection", "metric_root", "principal_projection"]

#: Name of the principal projection in texts.
BEST_VIEW = "the best 2-D view"

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class LatentProjection:
    """A linear projection z = Wᵀ (x − c) of latent points x, and a plane of points c + B z.

    Wᵀ B = I: the point of the plane at z is projected to z, unless all z are on a line. Hashable,
    so that it can be part of a key.

    Attributes:
        weights: W, [Q, 2].
        basis: B, [Q, 2].
        centre: c, [Q].
    """

    weights: Matrix
    basis: Matrix
    centre: tuple[float, ...]

    @classmethod
    def from_arrays(
        cls, weights: FloatArray, basis: FloatArray, centre: FloatArray
    ) -> LatentProjection:
        """A projection from its arrays, W [Q, 2], B [Q, 2] and c [Q]."""
        return cls(_nested(weights), _nested(basis), tuple(centre.tolist()))

    def points(self, latent: FloatArray) -> FloatArray:
        """Projected points [n, 2] of latent points [n, Q]."""
        W = np.array(self.weights)
        return np.asarray(latent @ W - np.array(self.centre) @ W)

    def latent(self, points: FloatArray, through: FloatArray | None = None) -> FloatArray:
        """Latent points [n, Q] with the projections ``points`` [n, 2].

        Args:
            points: projected points, [n, 2].
            through: a latent point of the plane, [Q], parallel to that of ``basis``; None for the
                centre.
        """
        origin = np.array(self.centre) if through is None else through
        steps = points - self.points(origin[None])
        return np.asarray(origin + steps @ np.array(self.basis).T)

    def covariance(self, variance: FloatArray) -> FloatArray:
        """Covariances Wᵀ diag(s) W of the projections of Gaussians, [n, 2, 2].

        Args:
            variance: s, the variances of independent latent coordinates, [n, Q].
        """
        W = np.array(self.weights)
        return np.asarray(np.einsum("qa,nq,qb->nab", W, variance, W))


def metric_root(metric: FloatArray) -> FloatArray:
    """The symmetric root R of a metric G = R R, [Q, Q]; G may be singular.

    Distances of the points x R are those of the points x under G.
    """
    values, vectors = np.linalg.eigh(metric)
    return np.asarray((vectors * np.sqrt(values.clip(min=0.0))) @ vectors.T)


def principal_projection(latent: FloatArray, metric: FloatArray) -> LatentProjection:
    """The two principal components of latent points in the units of a metric.

    With R = G^{1/2} and the covariance S of the points, the two leading eigenvectors V of R S R
    (eigenvalues Λ) give W = R V: of all projections of u = R x to two orthonormal directions, this
    one keeps most of the squared distances. B = S W Λ⁻¹ is the regression of x on z, so that the
    plane c + B z has the other directions at their mean given z. The covariance of z is Λ. The
    weight of the most spread latent coordinate is positive on both axes.

    Args:
        latent: x, [N, Q], Q ≥ 2.
        metric: G, symmetric and positive semi-definite, [Q, Q].
    """
    centre = latent.mean(axis=0)
    S = np.cov(latent, rowvar=False, bias=True)
    R = metric_root(metric)
    values, vectors = np.linalg.eigh(R @ S @ R)
    values, V = values[:-3:-1], vectors[:, :-3:-1]
    W = R @ V
    spread = np.abs(W * np.sqrt(np.diag(S))[:, None]).argmax(axis=0)
    W = W * np.where(W[spread, [0, 1]] < 0, -1.0, 1.0)
    flat = values <= 1e-12 * values[0]  # an axis without any spread has no step
    B = np.where(flat, 0.0, S @ W / np.where(flat, 1.0, values))
    return LatentProjection.from_arrays(W, B, centre)


def _nested(matrix: FloatArray) -> Matrix:
    return tuple(tuple(row) for row in matrix.tolist())
