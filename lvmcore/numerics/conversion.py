"""Conversion of torch tensors to NumPy arrays."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from lvmcore.numerics.array_types import FloatArray


def to_numpy(tensor: Tensor) -> FloatArray:
    """A tensor as a float64 NumPy array."""
    return np.asarray(tensor.detach().cpu().numpy(), dtype=np.float64)
