"""Predict the target of the rows of a CSV file with the gpytorch model beside this script.

    python predict.py ROWS.csv PREDICTIONS.csv

ROWS.csv has the columns of the fit, by name, in their own units; dates in ISO 8601, such as 1920-01
or 1920-01-31. PREDICTIONS.csv gets the mean of
the target and its standard deviation, noise included, in the target's units.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import gpytorch
import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

FOLDER = Path(__file__).resolve().parent
BLOCK = 200  # rows at a time


def cell_text(value: Any) -> str:
    """A cell as the text of a level."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def cells_of(frame: pd.DataFrame, column: dict[str, Any]) -> NDArray[np.float64]:
    """The cells of a feature before standardisation, [n]; NaN where missing."""
    name = column["column"]
    if name not in frame:
        sys.exit(f"The file has no column {name!r}, which the model was fitted to: add it.")
    values = frame[name]
    if column["kind"] == "level":
        known = [cell_text(value) == column["level"] for value in values]
        cells = np.where(values.isna(), np.nan, np.array(known, dtype=np.float64))
    elif column["dates"]:
        cells = date_numbers(values, *column["dates"])
    elif column["words"]:
        codes = {word: float(code) for code, word in enumerate(column["words"])}
        cells = np.array([codes.get(cell_text(value), np.nan) for value in values])
    else:
        cells = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64)
    if column["kind"] == "log1p":
        cells = np.log1p(np.where(cells > -1, cells, np.nan))
    wrong = np.flatnonzero(~np.isfinite(cells))
    if len(wrong):
        row = int(wrong[0])
        sys.exit(f"Row {row + 1} has {values.iloc[row]!r} in the column {name!r}, which the model "
                 "cannot use: correct the cell, or leave the row out.")  # fmt: skip
    return cells


def date_numbers(values: pd.Series[Any], unit: str, origin: str) -> NDArray[np.float64]:
    """Dates in ISO 8601 as units since the origin, [n]; NaN for other cells.

    Args:
        values: the cells, [n].
        unit: "year", "month", "day" or "hour"; a date within a year or month is its share.
        origin: the date of 0.
    """
    texts = values.astype("str").where(values.notna())
    parsed = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
    dates = parsed.dt.tz_localize(None).to_numpy().astype("M8[us]")
    if unit in ("day", "hour"):
        away = dates - np.array(origin, dtype="M8[us]")
        return np.asarray(away / np.timedelta64(24 if unit == "day" else 1, "h"))
    kind = "M8[Y]" if unit == "year" else "M8[M]"
    units = dates.astype(kind)
    begin, end = units.astype("M8[us]"), (units + 1).astype("M8[us]")
    whole = np.where(np.isnat(dates), np.nan, units.astype(np.int64))
    first = np.array(origin, dtype=kind).astype(np.int64)
    return np.asarray(whole - first + (dates - begin) / (end - begin))


def predict(frame: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of the target, [n] each.

    Args:
        frame: a table with the columns of the fit.
    """
    facts = json.loads((FOLDER / "model.json").read_text(encoding="utf-8"))
    module, weights = importlib.import_module("model"), load_file(FOLDER / "model.safetensors")
    model = module.load(weights)
    draws = module.load_draws(weights) if hasattr(module, "load_draws") else []
    cells = [
        (cells_of(frame, column) - column["mean"]) / column["scale"] for column in facts["columns"]
    ]
    X = torch.tensor(np.column_stack(cells), dtype=torch.float64)
    means, variances = [], []
    with (
        torch.no_grad(),
        gpytorch.settings.fast_computations(False, False, False),
        gpytorch.settings.max_cholesky_size(1 << 30),
        gpytorch.settings.debug(False),  # which warns of rows that are those of the fit
    ):
        for rows in torch.split(X, BLOCK):
            mean, variance = normal(model, rows)
            means.append(mean)
            variances.append(integrated(draws, rows, mean, variance))
    mean = facts["target_mean"] + facts["target_scale"] * torch.cat(means).numpy()
    sd = facts["target_scale"] * torch.cat(variances).sqrt().numpy()
    return moments(facts["target_transform"], mean, sd)


def normal(model: Any, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance of the standardised target, [n] each."""
    # gpytorch adds its jitter to the variance of f too
    jitter = getattr(getattr(model, "variational_strategy", None), "jitter_val", 0.0)
    f = model(rows)
    return f.mean, f.variance - jitter + model.likelihood.noise


def integrated(
    draws: list[tuple[float, Any]], rows: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor
) -> torch.Tensor:
    """The variance with the uncertainty of the parameters, [n].

    Args:
        draws: weights and models of other parameters, two along each direction.
        rows: standardised, [n, H].
        mean: at the parameters of the fit, [n].
        variance: likewise.
    """
    ratio, spread = torch.ones_like(variance), torch.zeros_like(variance)
    for pair in zip(draws[::2], draws[1::2], strict=True):
        change = torch.zeros_like(variance)
        for weight, model in pair:
            m, v = normal(model, rows)
            change += weight * (v / variance - 1)
            spread += weight * (m - mean) ** 2
        ratio *= 1 + change
    return ratio * variance + spread


def moments(
    transform: dict[str, Any], mean: NDArray[np.float64], sd: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and sd of the target, of which a transform is normal with this mean and sd, [n] each."""
    if transform["name"] == "none":
        return mean, sd
    if transform["name"] == "log":
        first = np.exp(mean + 0.5 * sd**2)
        return first, first * np.sqrt(np.expm1(sd**2))
    nodes, weights = np.polynomial.hermite_e.hermegauss(96)
    values = inverse_yeo_johnson(mean[:, None] + sd[:, None] * nodes, transform["exponent"])
    values = np.clip(transform["unit"] * values, -1e150, 1e150)
    first = values @ weights / weights.sum()
    return first, np.sqrt(np.square(values - first[:, None]) @ weights / weights.sum())


def inverse_yeo_johnson(z: NDArray[np.float64], exponent: float) -> NDArray[np.float64]:
    """The argument of which z is the Yeo-Johnson transform, [...]."""
    ends = []
    for size, power in ((z.clip(0), exponent), ((-z).clip(0), 2 - exponent)):
        logs = size if abs(power) < 1e-12 else np.log1p(power * size) / power
        ends.append(np.expm1(np.minimum(logs, 700.0)))
    return np.where(z >= 0, ends[0], -ends[1])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("Expected two files: python predict.py ROWS.csv PREDICTIONS.csv")
    mean, sd = predict(pd.read_csv(sys.argv[1]))
    pd.DataFrame({"mean": mean, "sd": sd}).to_csv(sys.argv[2], index=False)
