"""The learned kernel between the rows of a map, beside the true one of a simulated table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lvmcore.errors import UnsupportedError
from lvmcore.metrics.scores import kernel_error

if TYPE_CHECKING:
    from lvmcore.base.latent_variable_model import LatentVariableModel

__all__ = ["KernelRecovery", "kernel_recovery"]


@dataclass(frozen=True)
class KernelRecovery:
    """Correlations between the rows of a fit, in their order in the table.

    Attributes:
        true: of the functions that the table was drawn from, [N, N].
        found: of the learned kernel at the posterior means of the rows, [N, N].
        error: relative error of ``found``, both centred, with the best scale.
    """

    true: NDArray[np.float64]
    found: NDArray[np.float64]
    error: float


def kernel_recovery(
    model: LatentVariableModel, rows: NDArray[np.intp], true: NDArray[np.float64]
) -> KernelRecovery:
    """Compare the kernel of a model of random features with the true one.

    Args:
        model: the fitted model.
        rows: positions of its rows in the table, [N].
        true: correlations between all rows of the table.

    Raises:
        UnsupportedError: the model has no spectrum.
    """
    spectrum = getattr(model, "spectral_", None)
    if spectrum is None:
        raise UnsupportedError(f"{model.title} has no learned spectrum. Choose SRFLVM.")
    found = spectrum.correlation_matrix(model.embedding_.mean)
    own = true[np.ix_(rows, rows)]
    return KernelRecovery(own, found, kernel_error(found, own))
