"""Types of arrays that the engine and the pages share."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["FloatArray"]

FloatArray = NDArray[np.float64]
