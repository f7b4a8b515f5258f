"""Deep kernels on convolutions and a plain network: all of MNIST, with its own test set.

Means and standard errors over seeds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.data.samples.paper_datasets import load_paper_images
from lvmcore.models.supervised.cnn import CNNClassifier
from lvmcore.models.supervised.deep_kernel import DeepKernelGPClassifier, DeepKernelQEPClassifier

__all__ = ["rows"]

SEEDS, MNIST_ROWS = range(3), 60_000
#: Chosen on a sample of 6000 training rows.
PICTURES: dict[str, Any] = {
    "network": "pictures",
    "batch_size": 125,
    "max_iter": 4800,
    "n_hidden": 128,
    "learning_rate": 0.008,
    "weight_scale": 3.0,
    "validation": 0.0,
}
IMAGES: dict[str, tuple[Callable[..., Any], str, float | None]] = {
    "deep kernel Q-EP on convolutions": (
        DeepKernelQEPClassifier,
        "paper .9819, its CNN .9769",
        0.985,
    ),
    "deep kernel GP on convolutions": (DeepKernelGPClassifier, "paper .9814", None),
    "convolutional network": (CNNClassifier, "paper .9769", None),
}


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    for name in IMAGES:
        yield partial(_pictures, name)


def _pictures(name: str) -> BenchmarkRow:
    make, paper, floor = IMAGES[name]
    images, classes = load_paper_images("mnist")
    assert classes is not None
    X = images.reshape(len(images), -1).astype(np.float64)
    asked, shares, losses, seconds = classes[MNIST_ROWS:], [], [], []
    model: Any = None
    for seed in SEEDS:
        model = make(**PICTURES, random_state=seed).fit(X[:MNIST_ROWS], classes[:MNIST_ROWS])
        probability = np.concatenate(
            [model.predict_proba(some) for some in np.array_split(X[MNIST_ROWS:], 10)]
        )
        shares.append(float(np.mean(model.classes_[probability.argmax(1)] == asked)))
        of_truth = probability[np.arange(len(asked)), np.searchsorted(model.classes_, asked)]
        losses.append(float(-np.log(of_truth).mean()))
        seconds.append(model.history_[-1].seconds)
    return BenchmarkRow(
        f"MNIST: {name}, accuracy on its 10 000 own rows held out, three seeds",
        statistics.fmean(shares),
        spread=statistics.stdev(shares) / len(shares) ** 0.5,
        floor=floor,
        reference=f"{paper}; −log p {statistics.fmean(losses):.4f} nats a row, "
        f"{statistics.median(seconds):.0f} s to the last step",
        settings={"seeds": len(SEEDS), **model.get_params()},
    )
