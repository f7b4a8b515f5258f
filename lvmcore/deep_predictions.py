"""What a fitted deep Gaussian process predicts with: draws of its functions that it keeps.

Every row meets the same draws and the same normal numbers, so that what is said of a row does not
depend on the rows beside it, nor on how many there are at a time; and the last layer's q is kept
with the draws, as it may be that of each draw.

Notation: lvmcore/README.md and lvmcore/deep_layers.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from lvmcore.deep_outputs import Posterior
from lvmcore.deep_paths import DeepGP, Draw

__all__ = ["KeptDraws"]


@dataclass(frozen=True)
class KeptDraws:
    """Draws of the functions of every hidden layer, and the last layer's q under them.

    Attributes:
        model: whose functions they are.
        draw: of them.
        noise: normal numbers that all rows share, [S, 1, D] of each hidden layer.
        posterior: of the last layer's values.
    """

    model: DeepGP
    draw: Draw
    noise: tuple[Tensor, ...]
    posterior: Posterior

    @classmethod
    @torch.no_grad()
    def of(
        cls,
        model: DeepGP,
        n_samples: int,
        generator: torch.Generator,
        rows: tuple[Tensor, Tensor] | None = None,
    ) -> Self:
        """Draw what is kept.

        Args:
            model: fitted.
            n_samples: S.
            generator: of the draws.
            rows: X [N, H] and Y [N, P] of the fit, needed where q is that of each draw.

        Raises:
            NumericalError: a kernel matrix could not be factorised.
        """
        draw, noise = model.draw(n_samples, generator), model.shared_noise(n_samples, generator)
        if rows is None:
            posterior = model.posterior(draw)
        else:
            others = model.others(len(rows[0]))
            posterior = model.given_rows(draw, rows[0][others], rows[1][others], generator)
        # By way of what is stored, so that a model that was read back agrees to the last digit.
        return cls.from_tensors(model, cls(model, draw, noise, posterior).tensors())

    @torch.no_grad()
    def predict(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances of the last layer's f at rows X [n, H] by draw, [S, n, P] each."""
        draw, means, variances = self.draw, [], []
        for some in self._blocks(X):
            k = draw.last.cross(self.model.inputs(draw, some, self.noise))
            mean, variance = self.posterior.moments(draw.last, k)
            shape = (draw.samples, *mean.shape[-2:])
            means.append(mean.expand(shape))
            variances.append(variance.expand(shape))
        return torch.cat(means, 1), torch.cat(variances, 1)

    @torch.no_grad()
    def hidden_means(self, X: Tensor, layer: int) -> Tensor:
        """Means of a hidden layer's f at rows X [n, H], averaged over draws, [n, D].

        Args:
            X: rows.
            layer: which, counted from 1.
        """
        found = [
            self.model.hidden_mean(self.draw, self.noise, some, layer) for some in self._blocks(X)
        ]
        return torch.cat(found)

    def _blocks(self, X: Tensor) -> Iterator[Tensor]:
        """Rows some at a time, [B, H] each; one empty block where there is none."""
        yield from torch.split(X, self.model.rows_at_a_time(self.draw.samples))

    # ---- storage -------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """All that is drawn, by name."""
        kept = {"mean": self.posterior.mean, "root": self.posterior.root}
        for name, each in (
            ("inputs", self.draw.inputs),
            ("values", self.draw.values),
            ("noise", self.noise),
        ):
            kept |= {f"{name}{number}": tensor for number, tensor in enumerate(each, start=1)}
        return {name: tensor.detach() for name, tensor in kept.items()}

    @classmethod
    @torch.no_grad()
    def from_tensors(cls, model: DeepGP, kept: Mapping[str, Tensor]) -> Self:
        """The same again, for a model with the parameters that it had."""
        # In memory of torch's own, on whose alignment the last digit of a product depends.
        kept = {
            name: tensor.clone(memory_format=torch.contiguous_format)
            for name, tensor in kept.items()
        }

        def numbered(name: str) -> tuple[Tensor, ...]:
            found = (kept.get(f"{name}{number}") for number in range(1, len(model.hidden) + 2))
            return tuple(tensor for tensor in found if tensor is not None)

        noise, mean = numbered("noise"), kept["mean"]
        samples = len(noise[0]) if noise else len(mean) if mean.dim() > 2 else 1
        draw = model.drawn(numbered("inputs"), numbered("values"), samples)
        return cls(model, draw, noise, Posterior(mean, kept["root"]))
