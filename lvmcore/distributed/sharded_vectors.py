"""LBFGS of parameters in shards: the vectors stay there, and inner products alone travel.

The two-loop recursion runs on the inner products of the last steps, changes and the gradient, which
one exchange with the shards gives; the direction is then a combination of these vectors that each
shard forms for itself.

Source: Chen, Wang and Zhou 2014, vector-free LBFGS; with a diagonal initial matrix here.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.distributed.block_vectors import BlockVectors
from lvmcore.distributed.shards import Shards
from lvmcore.numerics.lbfgs import LBFGS
from lvmcore.training.parameter_state import ParameterVectors

__all__ = ["ShardedLBFGS", "ShardedVector", "ShardedVectors"]


class VectorSpace:
    """Vectors in the parameters of all shards and in the shared ones.

    Args:
        own: vectors in the shared parameters.
        shards: the shards.
        size: P.
    """

    def __init__(self, own: BlockVectors, shards: Shards, size: int) -> None:
        self.own, self.shards, self.size = own, shards, size
        self._keys = itertools.count()
        self._freed: list[int] = []

    def new(self) -> ShardedVector:
        """A vector that is stored next."""
        return ShardedVector(self, next(self._keys))

    def free(self, key: int) -> None:
        """Delete a vector, with the next command."""
        self._freed.append(key)

    def tell(self, name: str, *arguments: Any) -> None:
        """A command on vectors to all blocks."""
        freed, self._freed = self._freed, []
        if freed:
            self.tell("free", freed)
        getattr(self.own, name)(*arguments)
        self.shards.tell(f"vectors.{name}", *arguments)

    def total(self, name: str, *arguments: Any) -> Any:
        """The sum over all blocks of the answers to a command."""
        answers = self.shards.ask(f"vectors.{name}", *arguments)
        return sum(answers, getattr(self.own, name)(*arguments))

    def combined(self, terms: Sequence[tuple[float, ShardedVector]]) -> ShardedVector:
        """Σ c v."""
        found = self.new()
        self.tell("combine", found.key, [(float(share), v.key) for share, v in terms])
        return found


class ShardedVector:
    """A vector [P] whose parts are stored in the shards under a number.

    Sums, differences, multiples and inner products are those of tensors.
    """

    def __init__(self, space: VectorSpace, key: int) -> None:
        self.space, self.key = space, key

    def __del__(self) -> None:
        self.space.free(self.key)

    def __len__(self) -> int:
        return self.space.size

    def __add__(self, other: ShardedVector) -> ShardedVector:
        return self.space.combined([(1.0, self), (1.0, other)])

    def __sub__(self, other: ShardedVector) -> ShardedVector:
        return self.space.combined([(1.0, self), (-1.0, other)])

    def __neg__(self) -> ShardedVector:
        return self.space.combined([(-1.0, self)])

    def __mul__(self, factor: float) -> ShardedVector:
        return self.space.combined([(factor, self)])

    __rmul__ = __mul__

    def __matmul__(self, other: ShardedVector) -> float:
        return float(self.space.total("dot", self.key, other.key))

    def norm(self) -> float:
        """The root of the sum of squares."""
        return float(np.sqrt(self @ self))


class ShardedLBFGS(LBFGS):
    """``LBFGS`` whose directions are formed from inner products."""

    def _inverse_hessian_product(self, gradient: Any) -> Any:
        """H g: the two-loop recursion on inner products."""
        steps: list[Any] = list(self.steps)
        changes: list[Any] = list(self.changes)
        m = len(steps)
        scales: Any = self.scales
        keys = [[v.key for v in vectors] for vectors in (steps, changes)]
        products = gradient.space.total(
            "products", *keys, gradient.key, None if scales is None else scales.key
        )
        by_step, weighted = products[:m], products[m:]  # s·[y, g] and [y, g]·W [y, g]
        curvature = by_step[:, :m].diagonal()
        # First loop: g − Σ shares y, newest pair first; then the initial matrix.
        shares = np.zeros(m)
        for i in reversed(range(m)):
            shares[i] = (by_step[i, m] - by_step[i, :m] @ shares) / curvature[i]
        size = curvature[-1] / weighted[m - 1, m - 1] if m else 1.0
        left = gradient.space.combined(
            [(1.0, gradient), *((-share, y) for share, y in zip(shares, changes, strict=True))]
        )
        product = self._scaled(left)
        # Second loop, oldest pair first: c is the factor of each step.
        by_product = size * (weighted[:m, m] - weighted[:m, :m] @ shares)
        factors = np.zeros(m)
        for i in range(m):
            factors[i] = shares[i] - (by_product[i] + factors @ by_step[:, i]) / curvature[i]
        return gradient.space.combined(
            [(size, product), *((c, s) for c, s in zip(factors, steps, strict=True))]
        )

    def _scaled(self, gradient: Any) -> Any:
        """The gradient times the squares of the scales."""
        if self.scales is None:
            return gradient
        space = gradient.space
        scales: Any = self.scales
        found = space.new()
        space.tell("scale", found.key, gradient.key, scales.key)
        return found


class ShardedVectors(ParameterVectors):
    """The shared parameters and those of the shards in one vector.

    Args:
        parameters: the shared parameters.
        shards: the shards.
        shapes: of the parameters of all rows, [N, …] each.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        shards: Shards,
        shapes: Sequence[tuple[int, ...]],
    ) -> None:
        super().__init__(parameters)
        self._shapes, self._shards = list(shapes), shards
        size = sum(p.numel() for p in parameters) + sum(int(np.prod(s)) for s in shapes)
        self._space = VectorSpace(BlockVectors(parameters), shards, size)

    def optimiser(self, slack: float) -> LBFGS:
        """LBFGS on inner products."""
        return ShardedLBFGS(slack)

    def position(self) -> ShardedVector:
        """The parameters, [P]."""
        found = self._space.new()
        self._space.tell("position", found.key)
        return found

    def move(self, x: Any) -> None:
        """Set the parameters to x, [P]."""
        self._space.tell("move", x.key)

    def gradient(self, value: Tensor) -> ShardedVector | None:
        """The gradient by the parameters; None where it is not finite."""
        found = torch.autograd.grad(value, self.parameters, allow_unused=True)
        pairs = zip(self.parameters, found, strict=True)
        vector = self._stored([torch.zeros_like(p) if g is None else g for p, g in pairs])
        self._shards.tell("store_gradient", vector.key)
        return vector if self._space.total("is_finite", vector.key) == 0 else None

    def scales(self, scales: Sequence[Tensor]) -> ShardedVector:
        """The scales of the shared parameters, with those that the shards have."""
        vector = self._stored(scales)
        self._shards.tell("store_scales", vector.key)
        return vector

    def _stored(self, parts: Sequence[Tensor]) -> ShardedVector:
        found = self._space.new()
        self._space.own.store(found.key, [part.detach() for part in parts])
        return found

    def rows(self, vectors: Sequence[Any]) -> NDArray[Any]:
        """Vectors as rows, in the order of the parameters on one machine, [n, P]."""
        keys = [vector.key for vector in vectors]
        blocks = self._shards.ask("vectors.parts", keys)
        own = [np.concatenate(parts, axis=1) for parts in zip(*blocks, strict=True)]
        return np.concatenate([*own, *self._space.own.parts(keys)], axis=1)

    def from_rows(self, rows: NDArray[Any]) -> list[Any]:
        """The vectors of ``rows``."""
        found = [self._space.new() for _ in rows]
        keys = [vector.key for vector in found]
        sizes = [int(np.prod(shape)) for shape in self._shapes]
        sizes += [parameter.numel() for parameter in self.parameters]
        parts = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
        first = len(self._shapes)
        own = [
            part.reshape(len(rows), *shape)
            for part, shape in zip(parts[:first], self._shapes, strict=True)
        ]
        self._shards.tell_each(
            "vectors.store_parts",
            [
                (keys, [part[:, block].reshape(len(rows), -1) for part in own])
                for block in self._shards.rows
            ],
        )
        self._space.own.store_parts(keys, parts[first:])
        return found
