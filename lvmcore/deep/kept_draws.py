"""Predictions of a deep Gaussian process from fixed draws of its functions.

All rows use the same draws and the same normal numbers, so the prediction of a row does not depend
on the other rows or on the block size. The last layer's q is stored with the draws, as it may
differ between draws.

Notation: lvmcore/README.md and lvmcore/deep/hidden_layer.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor

from lvmcore.deep.deep_gp import DeepGP, FunctionDraw
from lvmcore.deep.output_layer import InducingPosterior

__all__ = ["DeepGPDraws"]


@dataclass(frozen=True)
class DeepGPDraws:
    """Draws of the functions of every hidden layer, and the last layer's q under them.

    Attributes:
        model: whose functions they are.
        draw: the draws.
        noise: normal numbers shared by all rows, [S, 1, D] of each hidden layer.
        posterior: of the last layer's values.
    """

    model: DeepGP
    draw: FunctionDraw
    noise: tuple[Tensor, ...]
    posterior: InducingPosterior

    @classmethod
    @torch.no_grad()
    def from_model(
        cls,
        model: DeepGP,
        n_samples: int,
        generator: torch.Generator,
        rows: tuple[Tensor, Tensor] | None = None,
    ) -> Self:
        """Draw functions of a fitted model.

        Args:
            model: fitted.
            n_samples: S.
            generator: of the draws.
            rows: X [N, H] and Y [N, P] of the fit, for a q of each draw.

        Raises:
            NumericalError: a kernel matrix could not be factorised.
        """
        draw, noise = model.draw(n_samples, generator), model.shared_noise(n_samples, generator)
        if rows is None:
            posterior = model.posterior(draw)
        else:
            others = model.remaining_rows(len(rows[0]))
            posterior = model.optimal_posterior(draw, rows[0][others], rows[1][others], generator)
        # Through the stored form, so that a loaded model agrees to the last digit.
        return cls.from_tensors(model, cls(model, draw, noise, posterior).tensors())

    @torch.no_grad()
    def predict(
        self, X: Float[Tensor, "n H"]
    ) -> tuple[Float[Tensor, "S n P"], Float[Tensor, "S n P"]]:
        """Means and variances of the last layer's f at rows X [n, H] by draw, [S, n, P] each."""
        draw, means, variances = self.draw, [], []
        for some in self._blocks(X):
            inputs = self.model.inputs(draw, some, self.noise)
            mean, variance = self.posterior.moments(
                draw.last, draw.last.cross(inputs), draw.last.diagonal(inputs)
            )
            shape = (draw.samples, *mean.shape[-2:])
            means.append(mean.expand(shape))
            variances.append(variance.expand(shape))
        return torch.cat(means, 1), torch.cat(variances, 1)

    @torch.no_grad()
    def hidden_means(self, X: Float[Tensor, "n H"], layer: int) -> Float[Tensor, "n D"]:
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
        """Blocks of rows, [B, H] each; one empty block without rows."""
        yield from torch.split(X, self.model.block_size(self.draw.samples))

    # ---- storage -------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """All tensors of the draws, by name."""
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
        """The draws of ``tensors()``, for the model with the same parameters."""
        # In memory allocated by torch: the last digit of a product depends on the alignment.
        kept = {
            name: tensor.clone(memory_format=torch.contiguous_format)
            for name, tensor in kept.items()
        }

        def numbered(name: str) -> tuple[Tensor, ...]:
            found = (kept.get(f"{name}{number}") for number in range(1, len(model.hidden) + 2))
            return tuple(tensor for tensor in found if tensor is not None)

        noise, mean = numbered("noise"), kept["mean"]
        samples = len(noise[0]) if noise else len(mean) if mean.dim() > 2 else 1
        draw = model.draw_from_values(numbered("inputs"), numbered("values"), samples)
        return cls(model, draw, noise, InducingPosterior(mean, kept["root"]))
