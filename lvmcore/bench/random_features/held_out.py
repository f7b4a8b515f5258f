"""RFLVM (posterior samples) compared with SRFLVM (a variational bound): held-out density and time.

Time is processor time, which other work on the machine affects least.

A fifth of the rows is held out. log p(y) of a held-out row is the logarithm of the integral of
N(x; 0, I) p(y | x) over the map, on the same grid for both models, so that neither has to infer the
row's latent position. p(y | x) is averaged over q(h) for SRFLVM, and over the samples for RFLVM.

A single sample of RFLVM predicts worse than SRFLVM on Montreal; its advantage is the average over
distant samples. ``SRFLVM.ensemble`` has a similar average: the mean of the densities of several
fits, timed together. Their number and steps, and some fifteen other settings, were compared on
splits of the seeds below 20; the splits of ``SEEDS`` were not used for this.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lvmcore.base.table_size import TableSize
from lvmcore.bench.harness.report import BenchmarkRow, Options
from lvmcore.data.samples.paper_datasets import load_paper
from lvmcore.models.latent.rflvm import RFLVM
from lvmcore.models.latent.srflvm import SRFLVM
from lvmcore.numerics.array_types import FloatArray

__all__ = ["grid_log_marginal", "rows"]

#: (rows Y [n, D], points X [S, n, 2]) → log p(y_n | x_sn), [S, n].
LogDensity = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class EnsembleFits:
    """The fits of SRFLVM whose densities are averaged.

    Attributes:
        count: number of fits.
        first: steps of the first fit; None for the suggested number.
        further: steps of each further fit.
    """

    count: int = 1
    first: int | None = None
    further: int = 0

    def __str__(self) -> str:
        if self.count == 1:
            return ""
        return f" ({self.count} fits, of {self.first} steps and then {self.further})"


FITS = {"bridges": EnsembleFits(), "montreal": EnsembleFits(7, 300, 150)}
MODELS: dict[str, type[RFLVM] | type[SRFLVM]] = {"RFLVM": RFLVM, "SRFLVM": SRFLVM}
SEEDS = range(20, 23)
HELD_OUT_SHARE = 0.2
#: The grid: half-width, points a side, and points evaluated at a time.
REACH, SIDE, TOGETHER = 6.0, 201, 2048
#: Largest loss of SRFLVM to RFLVM in per cent, and largest share of RFLVM's seconds.
MOST_BEHIND, MOST_TIME = 2.0, 0.1


def rows(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    """Yield the measurement of each row."""
    del options
    for data in FITS:
        for name in MODELS:
            yield partial(_held_out, data, name)
        yield partial(_behind, data)
        yield partial(_time, data)


def grid_log_marginal(log_density: LogDensity, Y: Tensor) -> Tensor:
    """log ∫ p(y | x) N(x; 0, I) dx of rows over a map of two dimensions, nats, [n].

    The sum over a square grid, exact if a row's density is wider than the grid's spacing.

    Args:
        log_density: (rows [n, D], points [S, n, 2]) → log p(y_n | x_sn), [S, n].
        Y: rows, [n, D].
    """
    side = torch.linspace(-REACH, REACH, SIDE, dtype=torch.float64)
    points = torch.cartesian_prod(side, side)
    log_area = 2 * math.log(2 * REACH / (SIDE - 1))
    prior = log_area - 0.5 * points.square().sum(1) - math.log(2 * math.pi)
    points, prior = points.to(Y), prior.to(Y)
    found = torch.full((len(Y),), -math.inf).to(Y)
    for X, weight in zip(torch.split(points, TOGETHER), torch.split(prior, TOGETHER), strict=True):
        cells = log_density(Y, X[:, None].expand(-1, len(Y), -1))
        found = torch.logaddexp(found, (cells + weight[:, None]).logsumexp(0))
    return found


@cache
def _split_rows(data: str, seed: int) -> tuple[FloatArray, FloatArray]:
    """The training rows and the held-out rows."""
    table = load_paper(data)
    X = np.asarray(table.dataset(label=table.columns[-1].name).X)
    order = np.random.default_rng(seed).permutation(len(X))
    held = np.isin(np.arange(len(X)), order[: round(HELD_OUT_SHARE * len(X))])
    return X[~held], X[held]


def _model(data: str, name: str, shape: tuple[int, ...], seed: int) -> RFLVM | SRFLVM:
    advised = MODELS[name].suggest(TableSize(n_rows=shape[0], n_columns=shape[1], cells="counts"))
    settings: dict[str, Any] = {**advised, "likelihood": "negative_binomial", "random_state": seed}
    if name == "SRFLVM" and FITS[data].first is not None:
        settings["max_iter"] = FITS[data].first
    made: RFLVM | SRFLVM = MODELS[name](**settings)
    return made


@cache
def _measure(data: str, name: str, seed: int) -> tuple[float, float]:
    """log p of the held-out rows, nats per cell, and processor seconds of the fits."""
    train, held = _split_rows(data, seed)
    start = time.process_time()
    model = _model(data, name, train.shape, seed).fit(train)
    models: list[RFLVM | SRFLVM] = [model]
    if isinstance(model, SRFLVM) and FITS[data].count > 1:
        models = [*model.ensemble(train, FITS[data].count, max_iter=FITS[data].further)]
    seconds, found = time.process_time() - start, []
    for each in models:
        Y = torch.as_tensor(each._standardiser.transform(held), dtype=torch.float64)
        decoder = each._draws if isinstance(each, RFLVM) else each._decoder
        with torch.no_grad():
            found.append(grid_log_marginal(decoder.log_density, Y.to(each._device)))
    density = torch.stack(found).logsumexp(0) - math.log(len(found))
    return float(density.mean()) / held.shape[1], seconds


def _measure_seeds(data: str, name: str) -> tuple[list[float], list[float]]:
    """``_measure`` of every seed, alternating the models, so that a slow machine affects both."""
    each = [{model: _measure(data, model, seed) for model in MODELS}[name] for seed in SEEDS]
    return [one for one, _ in each], [seconds for _, seconds in each]


def _settings(data: str, name: str) -> dict[str, object]:
    held = {"data": data, "held out": HELD_OUT_SHARE, "seeds": f"{SEEDS[0]} to {SEEDS[-1]}"}
    own = _model(data, name, _split_rows(data, SEEDS[0])[0].shape, 0).get_params()
    fits = asdict(FITS[data]) if name == "SRFLVM" else {}
    return {**held, "model": name, **fits, **own}


def _held_out(data: str, name: str) -> BenchmarkRow:
    density, _ = _measure_seeds(data, name)
    return BenchmarkRow(
        f"{data}: {name}, log likelihood of rows held out{FITS[data] if name == 'SRFLVM' else ''}",
        statistics.fmean(density),
        "nats a cell",
        spread=statistics.pstdev(density),
        settings=_settings(data, name),
    )


def _behind(data: str) -> BenchmarkRow:
    reference, ours = (statistics.fmean(_measure_seeds(data, name)[0]) for name in MODELS)
    return BenchmarkRow(
        f"{data}: SRFLVM behind RFLVM on rows held out{FITS[data]}",
        100 * (reference - ours) / abs(reference),
        "%",
        ceiling=MOST_BEHIND,
        reference=f"RFLVM {reference:.3f}, SRFLVM {ours:.3f} nats a cell",
        settings=_settings(data, "SRFLVM"),
    )


def _time(data: str) -> BenchmarkRow:
    reference, ours = (statistics.median(_measure_seeds(data, name)[1]) for name in MODELS)
    return BenchmarkRow(
        f"{data}: processor's seconds{FITS[data]}, SRFLVM as a share of RFLVM",
        ours / reference,
        ceiling=MOST_TIME,
        reference=f"RFLVM {reference:.1f} s, SRFLVM {ours:.1f} s",
        settings=_settings(data, "SRFLVM"),
    )
