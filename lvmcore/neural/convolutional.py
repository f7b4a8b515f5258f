"""Convolutional network from the pixels of small images, grey or in colour, to features.

Two convolutions, each followed by 2 × 2 max pooling, a dense layer and the features, with weights
at unit scale divided by √(inputs) as in ``networks``. A fit starts from random convolutions whose
features have unit variance; a linear skip connection from the pixels, from which the networks of
columns start, gave a lower density of held-out rows. The convolutions are computed in single
precision for any dtype of the model: double precision takes many times as long, and no quadratic
form is computed before the features.

Notation: H non-constant columns, U features; an image has R × C pixels of K channels.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lvmcore.neural.networks import DenseLayer
from lvmcore.preprocessing.picture_shape import AUTO_SHAPE, picture_shape
from lvmcore.preprocessing.standardiser import Standardiser

__all__ = ["ConvolutionalNetwork", "PixelScaling"]

#: Channels of the two convolutions, and the side of their kernels.
CHANNELS, WINDOW = (16, 32), 3
# Of a feature at its start.
LEAST_SD = 1e-6


class PixelScaling(nn.Module):
    """Converts standardised columns to images with one brightness and one contrast.

    Args:
        standardiser: of the columns, which are pixels row by row, the channels of a pixel side by
            side.
        like: dtype and device of the rows.
        shape: of the images, such as "32x48x3"; "auto" for that of the columns' names, else for
            squares, grey or in colour.

    Raises:
        ConfigError: ``shape`` is no shape.
        DataError: the columns do not form images of that shape of at least 8 × 8 pixels.
    """

    kept: Tensor
    gain: Tensor
    empty: Tensor

    def __init__(self, standardiser: Standardiser, like: Tensor, shape: str = AUTO_SHAPE) -> None:
        super().__init__()
        self.shape = picture_shape(len(standardiser.mean), shape, standardiser.names)
        varies = ~standardiser.constant
        variance = np.where(varies, standardiser.scale, 0.0) ** 2
        middle = standardiser.mean.mean()
        spread = math.sqrt(float((variance + (standardiser.mean - middle) ** 2).mean()))

        def put(values: NDArray[np.float64]) -> Tensor:
            return torch.as_tensor(values).to(like)

        self.register_buffer("kept", torch.as_tensor(np.flatnonzero(varies), device=like.device))
        self.register_buffer("gain", put(standardiser.scale[varies] / spread))
        self.register_buffer("empty", put((standardiser.mean - middle) / spread))

    def forward(self, X: Tensor) -> Tensor:
        """Images of rows X [B, H], in single precision, [B, K, R, C]."""
        flat = self.empty.float().repeat(len(X), 1)
        flat = flat.index_add(1, self.kept, (X * self.gain).float())
        return flat.reshape(-1, *self.shape).permute(0, 3, 1, 2).contiguous()


class _Convolution(nn.Module):
    """3 × 3 convolution, SiLU, and 2 × 2 max pooling; weights at unit scale."""

    def __init__(self, n_in: int, n_out: int, like: Tensor, draws: torch.Generator) -> None:
        super().__init__()
        self.scale = 1 / math.sqrt(n_in * WINDOW**2)
        shape = (n_out, n_in, WINDOW, WINDOW)
        weight = torch.randn(shape, generator=draws, dtype=torch.float64)
        self.weight = nn.Parameter(weight.to(like))
        self.bias = nn.Parameter(like.new_zeros(n_out))

    def forward(self, x: Tensor) -> Tensor:
        kernel = (self.weight * self.scale).float()
        seen = nn.functional.conv2d(x, kernel, self.bias.float(), padding="same")
        return nn.functional.silu(nn.functional.max_pool2d(seen, 2))


class ConvolutionalNetwork(nn.Module):
    """Features of images.

    Args:
        pixels: converts rows to images.
        n_hidden: units of the dense layer.
        n_out: U.
        like: dtype and device of the rows.
        generator: of the initial weights, drawn in float64.
    """

    def __init__(
        self,
        pixels: PixelScaling,
        n_hidden: int,
        n_out: int,
        like: Tensor,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.pixels = pixels
        rows, columns, channels = pixels.shape
        self.first = _Convolution(channels, CHANNELS[0], like, generator)
        self.second = _Convolution(CHANNELS[0], CHANNELS[1], like, generator)
        left = (rows // 2 // 2) * (columns // 2 // 2)
        self.dense = DenseLayer(CHANNELS[1] * left, n_hidden, like, generator)
        self.last = DenseLayer(n_hidden, n_out, like, generator)

    @torch.no_grad()
    def start(self, X: Tensor) -> None:
        """Scale the features to mean 0 and variance 1 over rows X [N, H]."""
        features = self(X)
        mean, sd = features.mean(0), features.std(0, correction=0).clamp_min(LEAST_SD)
        self.last.weight.div_(sd)
        self.last.bias.copy_((self.last.bias - mean) / sd)

    def forward(self, X: Tensor) -> Tensor:
        """Features [B, U] of rows X [B, H]."""
        seen = self.second(self.first(self.pixels(X))).flatten(1).to(X)
        out: Tensor = self.last(nn.functional.silu(self.dense(seen)))
        return out

    def slopes(self, X: Tensor) -> Tensor:
        """∂ out_u/∂ x_h at rows X [B, H], [B, H, U]."""
        with torch.enable_grad():
            rows = X.detach().requires_grad_()
            out = self(rows)
            found = [
                torch.autograd.grad(out[:, u].sum(), rows, retain_graph=u + 1 < out.shape[1])[0]
                for u in range(out.shape[1])
            ]
        return torch.stack(found, -1)
