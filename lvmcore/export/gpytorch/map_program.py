"""Predict the columns at latent points of a CSV file with the gpytorch model beside this script.

    python predict.py POINTS.csv COLUMNS.csv

POINTS.csv has the latent coordinates z1, z2, … of the points, as positions.csv has those of the
rows of the fit. COLUMNS.csv gets the mean of each column and its standard deviation ("NAME sd"),
noise included, in the column's units.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import gpytorch
import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

FOLDER = Path(__file__).resolve().parent
BLOCK = 50  # points at a time


def predict(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and standard deviations of all columns at latent points, [n, D] each.

    Args:
        points: latent coordinates, [n, Q].
    """
    facts = json.loads((FOLDER / "model.json").read_text(encoding="utf-8"))
    model = importlib.import_module("model").load(load_file(FOLDER / "model.safetensors"))
    noise = model.likelihood.noise  # [D, 1]
    # gpytorch adds its jitter to the variance of f too
    jitter = model.variational_strategy.jitter_val
    means, variances = [], []
    with (
        torch.no_grad(),
        gpytorch.settings.fast_computations(False, False, False),
        gpytorch.settings.max_cholesky_size(1 << 30),
    ):
        for block in torch.split(torch.tensor(points, dtype=torch.float64), BLOCK):
            f = model(block)
            means.append(f.mean.T)
            variances.append((f.variance - jitter + noise).T)
    columns = facts["columns"]
    centre, scale = (np.array([column[name] for column in columns]) for name in ("mean", "scale"))
    varies = np.array([not column["constant"] for column in columns])
    mean = np.tile(centre, (len(points), 1))
    sd = np.zeros_like(mean)
    mean[:, varies] += scale[varies] * torch.cat(means).numpy()
    sd[:, varies] = scale[varies] * torch.cat(variances).sqrt().numpy()
    return mean, sd


def points_of(frame: pd.DataFrame, dimensions: int) -> NDArray[np.float64]:
    """The latent coordinates of a table, [n, Q]."""
    names = [f"z{q + 1}" for q in range(dimensions)]
    absent = [name for name in names if name not in frame]
    if absent:
        sys.exit(f"The file has no column {absent[0]!r}: expected the coordinates {names}.")
    numbers = frame[names].apply(pd.to_numeric, errors="coerce")
    points: NDArray[np.float64] = numbers.to_numpy(dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(points).all(1))
    if len(wrong):
        sys.exit(f"Row {int(wrong[0]) + 1} has a coordinate that is no number: correct it.")
    return points


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("Expected two files: python predict.py POINTS.csv COLUMNS.csv")
    facts = json.loads((FOLDER / "model.json").read_text(encoding="utf-8"))
    mean, sd = predict(points_of(pd.read_csv(sys.argv[1]), facts["dimensions"]))
    found = {}
    for d, column in enumerate(facts["columns"]):
        found[column["name"]], found[f"{column['name']} sd"] = mean[:, d], sd[:, d]
    pd.DataFrame(found).to_csv(sys.argv[2], index=False)
