"""Stochastic-gradient Hamiltonian Monte Carlo: sampling with noisy gradients.

For a density π(u) ∝ exp(−U(u)), u = L w, a step with velocities v of w is

v ← v − ε² m g,  w ← w + v/2,  v ← c v + √s ξ,  w ← w + v/2,

with g an unbiased estimate of ∇_w U, c = 1 − friction, m an inverse mass for each number and ξ
normal. The stationary variance of the velocities is ε² m. Noise of variance b in the gradient adds
ε⁴ m² b in each step, so s = (1 − c²) ε² m − c² ε⁴ m² b (Chen, Fox and Guestrin 2014). With the
splitting in this order (Leimkuhler and Matthews 2013) and an exact gradient, the draws of a
Gaussian u have the exact mean and covariance for any step size with ε² m times the largest
curvature of w below 4.

The warm-up adapts m by the scale of the gradients as in Springenberg et al. (2016): running means
of g and g² over τ steps, τ short where g has a direction and long where it has none. They use m =
(E g²)^−½; here m is one over the variance of g, at which ε is dimensionless: for stationary draws
that variance is the curvature plus b. The mean of g is subtracted, as it would slow the chain down
before it is stationary. They also use E g² for b, which gives too narrow draws where most of it is
curvature; here b is half the mean squared difference of two gradients at one position.

Notation: lvmcore/README.md; U_n units of M numbers each.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lvmcore.numerics.linalg import cholesky_batch
from lvmcore.numerics.quasi_random import standard_normal

__all__ = ["SGHMCSampler"]

# Injected noise at least, as a share of the noise without gradient noise.
MIN_NOISE_SHARE = 0.05
# Window of the running means, initial and at most.
FIRST_WINDOW, MAX_WINDOW = 10.0, 500.0


class SGHMCSampler:
    """The state of a chain, and its steps.

    Args:
        start: initial u, [U_n, M].
        generator: of the velocities.
        step_size: ε; an oscillation of a number takes about 2π/ε steps.
        friction: 1 − c.
    """

    def __init__(
        self, start: Tensor, generator: torch.Generator, *, step_size: float, friction: float
    ) -> None:
        self.generator, self.step_size, self.kept = generator, step_size, 1 - friction
        self.position = start.detach().clone()
        self.factor = torch.eye(start.shape[1]).to(start).expand(*start.shape, -1).clone()
        self.mean, self.square = torch.zeros_like(start), torch.ones_like(start)
        self.window = torch.full_like(start, FIRST_WINDOW)
        self.noise, self.pairs = torch.zeros_like(start), start.new_zeros(())
        self.velocity = step_size * standard_normal(tuple(start.shape), start, generator)

    def tensors(self) -> list[Tensor]:
        """All tensors that a step changes in place."""
        found = [self.position, self.velocity, self.factor, self.mean, self.square]
        return [*found, self.window, self.noise, self.pairs]

    @property
    def inverse_mass(self) -> Tensor:
        """m, [U_n, M], at most 1: the step of a number with little noise depends on L only."""
        return 1 / (self.square - self.mean.square()).clamp_min(1.0)

    def step(self, gradient: Tensor) -> None:
        """One step with an estimate of ∇_u U, [U_n, M]."""
        m, epsilon = self.inverse_mass, self.step_size
        target_noise = (1 - self.kept**2) * epsilon**2 * m
        gradient_noise = self.kept**2 * epsilon**4 * m.square() * self.noise
        s = torch.maximum(target_noise - gradient_noise, MIN_NOISE_SHARE * target_noise)
        xi = standard_normal(tuple(gradient.shape), gradient, self.generator)
        self.velocity.sub_(epsilon**2 * m * self._gradient_in_w(gradient))
        first = 0.5 * self.velocity
        self.velocity.mul_(self.kept).add_(s.sqrt() * xi)
        moved = self.factor @ (first + 0.5 * self.velocity)[..., None]
        self.position.add_(moved[..., 0])

    def update_masses(self, gradient: Tensor) -> None:
        """Update the running means of a gradient by u, [U_n, M], which determine the masses."""
        g = self._gradient_in_w(gradient)
        rate = 1 / self.window
        self.mean.lerp_(g, rate)
        self.square.lerp_(g.square(), rate)
        directed = (self.mean.square() / self.square.clamp_min(1e-300)).clamp_max(1.0)
        self.window.mul_(1 - directed).add_(1).clamp_(FIRST_WINDOW, MAX_WINDOW)

    def update_gradient_noise(self, one: Tensor, other: Tensor) -> None:
        """Update b from two gradients by u at one position, [U_n, M] each."""
        half = 0.5 * self._gradient_in_w(one - other).square()
        self.pairs += 1
        self.noise.lerp_(half, float(1 / self.pairs.clamp_max(MAX_WINDOW)))

    def reset_averages(self) -> None:
        """Restart the running means of masses and b, as earlier steps were not stationary."""
        self.window.fill_(FIRST_WINDOW)
        self.pairs.zero_()

    def set_preconditioner(self, curvature: Tensor) -> None:
        """Set L with L Lᵀ = curvature⁻¹ from an estimate of the curvature by u, [U_n, M, M].

        The distribution of velocities of w does not depend on L, so they are not changed.
        """
        root = cholesky_batch(curvature, "The curvature of the log joint")
        eye = torch.eye(curvature.shape[-1]).to(curvature).expand_as(root)
        self.factor.copy_(torch.linalg.solve_triangular(root, eye, upper=False).mT)

    def _gradient_in_w(self, gradient: Tensor) -> Tensor:
        """∇_w U = Lᵀ ∇_u U."""
        return (self.factor.mT @ gradient[..., None])[..., 0]
