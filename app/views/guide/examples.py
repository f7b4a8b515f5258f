"""The fits that the guide's figures show: computed once, kept beside the code. Pure.

``python -m app.views.guide.examples`` computes them again, which takes some ten seconds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.analysis.map.heatmaps import Heatmap
from app.analysis.map.map_axes import Axes
from lvmcore.numerics.array_types import FloatArray

__all__ = ["HELD_OUT", "ExampleFit", "compute", "examples", "main"]


#: Number of held-out rows of the sample, and weight of the shuffled labels.
HELD_OUT, SHUFFLED_WEIGHT = 45, 13.0
_SAMPLE, _SEED, _CELLS, _DIGITS = "wine", 0, 40, 4
_FILE = "static/guide.json"


@dataclass(frozen=True)
class ExampleFit:
    """A fit of LDGD to three quarters of the sample.

    Attributes:
        mean: latent means on the two leading dimensions, [N, 2].
        sd: posterior sds on these dimensions, [N, 2].
        labels: class of each row in the fit, [N].
        axes: the two dimensions.
        relevance: share of each latent dimension per path, each [Q].
        bound: bound at each step, total nats.
        background: predictive sd over the map.
        on_map: 1-NN accuracy on the map, rows of the fit, five folds.
        held_out: accuracy on held-out rows.
        n_classes: number of classes.
    """

    mean: FloatArray
    sd: FloatArray
    labels: tuple[str, ...]
    axes: Axes
    relevance: dict[str, FloatArray]
    bound: FloatArray
    background: Heatmap
    on_map: float
    held_out: float
    n_classes: int


@cache
def examples() -> dict[str, ExampleFit]:
    """The fit to the sample, "true", and the fit to the same rows with "shuffled" labels."""
    stored = json.loads(files("app").joinpath(_FILE).read_text(encoding="utf-8"))
    return {name: _read(parts) for name, parts in stored.items()}


def _read(parts: dict[str, Any]) -> ExampleFit:
    first, second = parts["axes"]
    x, y, value = (np.array(cells) for cells in parts["behind"])
    return ExampleFit(
        mean=np.array(parts["mean"]),
        sd=np.array(parts["sd"]),
        labels=tuple(parts["labels"]),
        axes=(int(first), int(second)),
        relevance={path: np.array(share) for path, share in parts["relevance"].items()},
        bound=np.array(parts["bound"]),
        background=Heatmap(
            x, y, value, "predictive sd, mean over columns", "sd of a column", None, True
        ),
        on_map=float(parts["on_map"]),
        held_out=float(parts["held_out"]),
        n_classes=int(parts["n_classes"]),
    )


def compute() -> dict[str, dict[str, Any]]:
    """Compute both fits as JSON values (loads torch)."""
    from lvmcore.data import load_sample, propose_label

    table = load_sample(_SAMPLE)
    dataset = table.dataset(label=propose_label(table))
    rng = np.random.default_rng(_SEED)
    held = np.zeros(len(dataset), dtype=bool)
    held[rng.permutation(len(dataset))[:HELD_OUT]] = True
    labels = np.asarray(dataset.labels)
    shuffled = rng.permutation(labels)
    return {
        "true": _fit(dataset, labels, held, 1.0),
        "shuffled": _fit(dataset, shuffled, held, SHUFFLED_WEIGHT),
    }


def _fit(
    dataset: Any, labels: NDArray[Any], held: NDArray[np.bool_], weight: float
) -> dict[str, Any]:
    from app.analysis.map.heatmaps import HeatmapRequest, heatmap
    from lvmcore import LDGD
    from lvmcore.metrics.scores import knn_accuracy
    from lvmcore.relevance import leading_dimensions

    fitted = dataset.subset(~held)
    model = LDGD(max_iter=400, label_weight=weight, random_state=_SEED).fit(fitted.X, labels[~held])
    axes = leading_dimensions(model.variance_shares())
    pair = [axis for axis in axes if axis is not None]
    mean = model.embedding_.mean
    ask = HeatmapRequest(
        kind="sd", axes=axes, fixed=tuple(np.median(mean, axis=0).tolist()), size=_CELLS
    )
    grid = heatmap(model, fitted, ask)
    return {
        "mean": _rounded(mean[:, pair]),
        "sd": _rounded(np.sqrt(model.embedding_.variance[:, pair])),
        "labels": [str(label) for label in labels[~held]],
        "axes": pair,
        "relevance": {path: _rounded(share) for path, share in model.variance_shares().items()},
        "bound": _rounded(np.array([step.objective for step in model.history_]), 6),
        "behind": [_rounded(cells) for cells in (grid.x, grid.y, grid.value)],
        "on_map": knn_accuracy(mean[:, pair], labels[~held], k=1),
        "held_out": float(model.score(dataset.X[held], labels[held])),
        "n_classes": len(set(labels.tolist())),
    }


def _rounded(values: FloatArray, digits: int = _DIGITS) -> Any:
    """Values as nested lists, rounded to ``digits`` significant digits."""
    flat = [float(f"{value:.{digits}g}") for value in np.asarray(values).flat]
    return np.array(flat).reshape(np.shape(values)).tolist()


def main() -> None:
    """Compute the fits and store them."""
    text = json.dumps(compute(), separators=(",", ":"))
    Path(str(files("app").joinpath(_FILE))).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
