"""The mean difference of two methods' losses on the same rows, against its standard error."""

from __future__ import annotations

import math

from lvmcore.numerics.array_types import FloatArray

__all__ = ["STANDARD_ERRORS", "exceeds_noise"]

#: Standard errors that a mean difference has to exceed.
STANDARD_ERRORS = 2.0
_LEAST = 1e-9


def exceeds_noise(difference: FloatArray) -> bool:
    """Whether the mean of paired differences is above two of its standard errors.

    Args:
        difference: loss of one method less that of the other, on the same rows, [n].
    """
    if len(difference) < 2:
        return False
    error = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    return bool(difference.mean() > max(STANDARD_ERRORS * error, _LEAST))
