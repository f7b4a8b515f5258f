"""Small sample datasets, bundled or simulated."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lvmcore.data.readers.read_table import read_table
from lvmcore.data.samples import bundled
from lvmcore.data.table import Table
from lvmcore.errors import ConfigError

__all__ = ["SampleDataset", "load_sample", "samples"]


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


def _moons_sampler(dimensions: int) -> Callable[[int], pd.DataFrame]:
    def draw(random_state: int = 0) -> pd.DataFrame:
        """Two moons mixed linearly into D/2 columns, and D/2 columns of white noise.

        The synthetic data of Ziaei et al., "Latent Discriminative Gaussian Decoder": 500 rows in
        two classes of 250; the 2-D moons times a random D/2 x 2 matrix; independent noise of unit
        variance in as many further columns.
        """
        rng = np.random.default_rng(random_state)
        half, per_class = dimensions // 2, 250
        angle = np.linspace(0.0, np.pi, per_class)
        upper = np.column_stack([np.cos(angle), np.sin(angle)])
        lower = np.column_stack([1.0 - np.cos(angle), 0.5 - np.sin(angle)])
        points = np.vstack([upper, lower]) + 0.1 * rng.normal(size=(2 * per_class, 2))
        mixing = rng.normal(size=(half, 2))
        noise = rng.normal(size=(2 * per_class, half))
        labels = np.repeat(["upper moon", "lower moon"], per_class)
        order = rng.permutation(2 * per_class)
        values = np.hstack([points @ mixing.T, noise])[order]
        names = [f"signal{i + 1}" for i in range(half)] + [f"noise{i + 1}" for i in range(half)]
        return _labelled(values, names, labels[order], "label")

    return draw


def _s_curve(random_state: int = 0) -> pd.DataFrame:
    """Twelve outputs of a Gaussian process over an S-shaped curve in the plane.

    With t in [-1, 1]: latent x(t) = (sin(1.5 pi t), sign(t) (cos(1.5 pi t) - 1)), standardised;
    each output a sample of GP(0, exp(-|x - x'|^2 / 2)), plus noise of standard deviation 0.1.
    """
    rng = np.random.default_rng(random_state)
    n, outputs = 300, 12
    t = np.sort(rng.uniform(-1.0, 1.0, size=n))
    turn = 1.5 * np.pi * t
    curve = np.column_stack([np.sin(turn), np.sign(t) * (np.cos(turn) - 1.0)])
    curve = (curve - curve.mean(axis=0)) / curve.std(axis=0)
    squared = ((curve[:, None, :] - curve[None, :, :]) ** 2).sum(axis=-1)
    values, vectors = np.linalg.eigh(np.exp(-0.5 * squared))
    root = vectors * np.sqrt(np.clip(values, 0.0, None))
    drawn = root @ rng.normal(size=(n, outputs)) + 0.1 * rng.normal(size=(n, outputs))
    third = np.digitize(t, np.quantile(t, [1 / 3, 2 / 3]))
    labels = np.array(["begin", "middle", "end"])[third]
    names = [f"output{i + 1}" for i in range(outputs)]
    return _labelled(drawn, names, labels, "part")


def _labelled(
    values: NDArray[np.float64] | NDArray[np.int64],
    names: list[str],
    labels: NDArray[np.generic],
    label: str,
) -> pd.DataFrame:
    frame = pd.DataFrame(values, columns=[str(name) for name in names])
    return frame.assign(**{label: labels.tolist()})


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
            _moons_sampler(d),
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
        _s_curve,
    ),
}


def samples() -> dict[str, SampleDataset]:
    """The sample datasets by key, in display order."""
    return {key: sample for key, (sample, _) in (_FIXED | _DRAWN).items()}


def load_sample(key: str, *, random_state: int | None = None) -> Table:
    """Load a sample as a table, by the same reader as an uploaded file.

    Args:
        key: One of `samples()`.
        random_state: Seed of the simulated samples (moons, S-curve), by default 0.

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
