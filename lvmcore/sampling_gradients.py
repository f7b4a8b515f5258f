"""Stochastic-gradient Hamiltonian Monte Carlo: draws by gradients that may be noisy.

Of a density π(u) ∝ exp(−U(u)), u = L w, a step with velocities v of w is

v ← v − ε² m g,  w ← w + v/2,  v ← c v + √s ξ,  w ← w + v/2,

g an unbiased estimate of ∇_w U, c the share of v that friction leaves, m an inverse mass a number
and ξ normal. Velocities settle at the variance ε² m. A gradient's own noise of variance b adds
ε⁴ m² b to it in each step, so that s = (1 − c²) ε² m − c² ε⁴ m² b (Chen, Fox and Guestrin 2014).
With the kick, the two halves of the move and friction between them in this order (Leimkuhler and
Matthews 2013) and an exact gradient, the draws of a Gaussian u have its very mean and covariance
whatever the step is, as long as ε² m times the largest curvature of w is below 4.

In the warm-up m adapts as Springenberg and others (2016) estimate the scale of gradients: running
means of g and of g² over τ steps, τ short where g has a direction, long where it has none. Where
they take m = (E g²)^−½ it is one over the variance of g here, at which ε has no unit: of settled
draws that is the curvature and b together. On the way there g has a mean, which is left out, as it
would slow the chain down for as long as it is away. They also take E g² for b, which leaves draws
too narrow where most of it is curvature; here b is half the mean square difference of two gradients
at one place.

Notation: lvmcore/README.md; U_n units of M numbers each.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lvmcore.deep_layers import standard_normal
from lvmcore.linalg import cholesky_batch

__all__ = ["GradientChain"]

# Of the noise that friction asks for, what is left at least where the gradient's own is larger.
LEAST_NOISE = 0.05
# Steps that running means take into account at first, and at most.
FIRST_WINDOW, LONGEST_WINDOW = 10.0, 500.0


class GradientChain:
    """Where a chain stands, and its steps.

    Args:
        start: u, [U_n, M].
        generator: of the velocities.
        step_size: ε; a turn of a number takes about 2π/ε steps.
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
        """All that a step changes, in place."""
        found = [self.position, self.velocity, self.factor, self.mean, self.square]
        return [*found, self.window, self.noise, self.pairs]

    @property
    def inverse_mass(self) -> Tensor:
        """m, [U_n, M]: at most 1, so that L alone says how far a number with little noise moves."""
        return 1 / (self.square - self.mean.square()).clamp_min(1.0)

    def step(self, gradient: Tensor) -> None:
        """Move by an estimate of ∇_u U, [U_n, M]."""
        m, epsilon = self.inverse_mass, self.step_size
        asked = (1 - self.kept**2) * epsilon**2 * m
        own = self.kept**2 * epsilon**4 * m.square() * self.noise
        s = torch.maximum(asked - own, LEAST_NOISE * asked)
        xi = standard_normal(tuple(gradient.shape), gradient, self.generator)
        self.velocity.sub_(epsilon**2 * m * self._of_w(gradient))
        first = 0.5 * self.velocity
        self.velocity.mul_(self.kept).add_(s.sqrt() * xi)
        moved = self.factor @ (first + 0.5 * self.velocity)[..., None]
        self.position.add_(moved[..., 0])

    def adapt(self, gradient: Tensor) -> None:
        """Let the masses follow the scale of a gradient by u, [U_n, M]."""
        g = self._of_w(gradient)
        rate = 1 / self.window
        self.mean.lerp_(g, rate)
        self.square.lerp_(g.square(), rate)
        directed = (self.mean.square() / self.square.clamp_min(1e-300)).clamp_max(1.0)
        self.window.mul_(1 - directed).add_(1).clamp_(FIRST_WINDOW, LONGEST_WINDOW)

    def compare(self, one: Tensor, other: Tensor) -> None:
        """Learn b from two gradients by u at one place, [U_n, M] each."""
        half = 0.5 * self._of_w(one - other).square()
        self.pairs += 1
        self.noise.lerp_(half, float(1 / self.pairs.clamp_max(LONGEST_WINDOW)))

    def forget(self) -> None:
        """Measure masses and b anew from here on, as what was seen before was on the way."""
        self.window.fill_(FIRST_WINDOW)
        self.pairs.zero_()

    def shape(self, curvature: Tensor) -> None:
        """Take L with L Lᵀ = curvature⁻¹, from an estimate of the curvature by u, [U_n, M, M].

        Velocities are of w: their distribution does not depend on L, so they stay.
        """
        root = cholesky_batch(curvature, "The curvature of the log joint")
        eye = torch.eye(curvature.shape[-1]).to(curvature).expand_as(root)
        self.factor.copy_(torch.linalg.solve_triangular(root, eye, upper=False).mT)

    def _of_w(self, gradient: Tensor) -> Tensor:
        """∇_w U = Lᵀ ∇_u U."""
        return (self.factor.mT @ gradient[..., None])[..., 0]
