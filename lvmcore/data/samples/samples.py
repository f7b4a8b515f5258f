"""Small sample datasets, bundled or simulated."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.readers.read_table import read_table
from lvmcore.data.samples import bundled, simulated
from lvmcore.data.table import Table
from lvmcore.errors import ConfigError

__all__ = ["SampleDataset", "load_sample", "samples", "true_correlations"]


@dataclass(frozen=True)
class SampleDataset:
    """A sample dataset.

    Attributes:
        key: Its key in `load_sample`.
        title: Its name in the dashboard.
        about: Its description in one line.
        rows: Number of rows.
        columns: Number of columns, the label included.
        classes: Number of classes; 0 without a label.
    """

    key: str
    title: str
    about: str
    rows: int
    columns: int
    classes: int


_FIXED: dict[str, tuple[SampleDataset, Callable[[], pd.DataFrame]]] = {
    sample.key: (sample, make)
    for sample, make in (
        (
            SampleDataset(
                "iris", "Iris", "Four lengths of the flowers of three irises.", 150, 5, 3
            ),
            bundled.iris,
        ),
        (
            SampleDataset("wine", "Wine", "Chemistry of wines of three cultivars.", 178, 14, 3),
            bundled.wine,
        ),
        (
            SampleDataset(
                "breast_cancer",
                "Breast cancer",
                "Shapes of cell nuclei, benign or malignant.",
                569,
                31,
                2,
            ),
            bundled.breast_cancer,
        ),
        (
            SampleDataset("digits", "Digits", "Handwritten digits, 8 by 8 pixels.", 1797, 65, 10),
            bundled.digits,
        ),
    )
}
_DRAWN: dict[str, tuple[SampleDataset, Callable[[int], pd.DataFrame]]] = {
    **{
        f"moons{d}": (
            SampleDataset(
                f"moons{d}",
                f"Moons in {d} dimensions",
                f"Two moons mixed into {d // 2} columns, beside {d // 2} columns of noise.",
                500,
                d + 1,
                2,
            ),
            simulated.moons(d),
        )
        for d in (10, 20, 30, 40)
    },
    "s_curve": (
        SampleDataset(
            "s_curve",
            "S-curve",
            "Twelve smooth random functions of a point on an S, with noise.",
            300,
            13,
            3,
        ),
        simulated.s_curve,
    ),
    "s_curve_wide": (
        SampleDataset(
            "s_curve_wide",
            "S-curve, 100 columns",
            "A hundred smooth random functions of a point on an S, with noise.",
            300,
            101,
            3,
        ),
        simulated.s_curve_wide,
    ),
    "s_curve_binary": (
        SampleDataset(
            "s_curve_binary",
            "S-curve, 0 and 1",
            "A hundred yes/no columns, each likelier over a part of the S.",
            300,
            101,
            3,
        ),
        simulated.s_curve_binary,
    ),
    "series_jumps": (
        SampleDataset(
            "series_jumps", "Series with jumps", "A step function of time, with noise.", 150, 2, 0
        ),
        simulated.series(simulated.jumps),
    ),
    "series_kinks": (
        SampleDataset(
            "series_kinks",
            "Series with kinks",
            "A piecewise linear function of time, with noise.",
            150,
            2,
            0,
        ),
        simulated.series(simulated.kinks),
    ),
    "rhombus": (
        SampleDataset("rhombus", "Rhombus", "Points of a plane in rhombic rings.", 625, 3, 3),
        simulated.rhombus,
    ),
}


def samples() -> dict[str, SampleDataset]:
    """The sample datasets by key, in display order."""
    return {key: sample for key, (sample, _) in (_FIXED | _DRAWN).items()}


def true_correlations(key: str) -> NDArray[np.float64] | None:
    """Correlations of the functions behind a simulated sample between its rows, [N, N].

    Args:
        key: One of `samples()`.

    Returns:
        The matrix for the seed 0; None for a sample that is not drawn from a Gaussian process.
    """
    return simulated.s_curve_correlations() if key.startswith("s_curve") else None


def load_sample(key: str, *, random_state: int | None = None) -> Table:
    """Load a sample as a table, by the same reader as an uploaded file.

    Args:
        key: One of `samples()`.
        random_state: Seed of the simulated samples (moons, S-curve, series, rhombus), by default 0.

    Raises:
        ConfigError: There is no such sample, or it is not simulated and takes no seed.
    """
    if key in _DRAWN:
        frame = _DRAWN[key][1](0 if random_state is None else random_state)
    elif key not in _FIXED:
        raise ConfigError(f"There is no sample {key!r}. Expected one of {', '.join(samples())}.")
    elif random_state is not None:
        raise ConfigError(f"The sample {key!r} is not drawn at random: it takes no random_state.")
    else:
        frame = _FIXED[key][1]()
    return read_table(frame.to_csv(index=False).encode(), name=key)
