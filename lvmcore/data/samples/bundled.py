"""The sample tables of scikit-learn's package, read without importing scikit-learn.

The import takes most of a second, which would delay the dashboard's first page.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from lvmcore.errors import DataError
from lvmcore.preprocessing.picture_shape import pixel_names

__all__ = ["breast_cancer", "digits", "iris", "wine"]

_IRIS = [f"{part} {side} (cm)" for part in ("sepal", "petal") for side in ("length", "width")]
_WINE = [
    "alcohol",
    "malic_acid",
    "ash",
    "alcalinity_of_ash",
    "magnesium",
    "total_phenols",
    "flavanoids",
    "nonflavanoid_phenols",
    "proanthocyanins",
    "color_intensity",
    "hue",
    "od280/od315_of_diluted_wines",
    "proline",
]
_NUCLEUS = (
    "radius",
    "texture",
    "perimeter",
    "area",
    "smoothness",
    "compactness",
    "concavity",
    "concave points",
    "symmetry",
    "fractal dimension",
)
_BREAST_CANCER = [
    *(f"mean {name}" for name in _NUCLEUS),
    *(f"{name} error" for name in _NUCLEUS),
    *(f"worst {name}" for name in _NUCLEUS),
]


def iris() -> pd.DataFrame:
    """Fisher's irises, 150 x 4, and their species."""
    return _labelled("iris.csv", _IRIS, "species")


def wine() -> pd.DataFrame:
    """Chemistry of wines, 178 x 13, and their cultivars."""
    return _labelled("wine_data.csv", _WINE, "cultivar")


def breast_cancer() -> pd.DataFrame:
    """Shapes of cell nuclei, 569 x 30, and the diagnoses."""
    return _labelled("breast_cancer.csv", _BREAST_CANCER, "diagnosis")


def digits() -> pd.DataFrame:
    """Handwritten digits, 1797 images of 8 x 8 pixels from 0 to 16, and which digit each is."""
    frame = pd.read_csv(_path("digits.csv.gz"), header=None).astype(np.int64)
    frame.columns = [*pixel_names((8, 8)), "digit"]
    return frame


def _labelled(file: str, names: list[str], label: str) -> pd.DataFrame:
    """A file whose first line holds the number of rows and of columns, then the class names."""
    path = _path(file)
    with path.open(encoding="utf-8") as lines:
        classes = lines.readline().strip().split(",")[2:]
    frame = pd.read_csv(path, header=None, skiprows=1, names=[*names, label], encoding="utf-8")
    values = frame[names].astype(np.float64)
    return values.assign(**{label: [classes[code] for code in frame[label]]})


def _path(file: str) -> Path:
    """Path of a file of scikit-learn's sample data."""
    found = find_spec("sklearn")
    for folder in [] if found is None else found.submodule_search_locations or []:
        path = Path(folder, "datasets", "data", file)
        if path.is_file():
            return path
    raise DataError(
        f"The sample's file {file} was not found in scikit-learn's package. Install scikit-learn "
        "again, or choose another sample."
    )
