"""Benchmarks: the papers' tables and timings; ``lvmcore bench NAME [--json FILE] [--full]``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from lvmcore.bench.harness.report import (
    BenchmarkRow,
    Measurements,
    Options,
    Report,
    measured_here,
)
from lvmcore.errors import ConfigError

__all__ = ["BENCHES", "run_bench"]


def _classify(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.latent import classify

    return classify.rows(options)


def _files_in_place(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.latent import files_in_place

    return files_in_place.rows(options)


def _first_fit(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.latent import first_fit

    return first_fit.rows(options)


def _impute(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.latent import impute

    return impute.rows(options)


def _kernels(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.deep import kernels

    return kernels.rows(options)


def _ldgd(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.latent import ldgd, training_size

    return chain(ldgd.rows(options), training_size.rows(options))


def _map_methods(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.random_features import map_methods, picture_methods

    return chain(map_methods.rows(options), picture_methods.rows(options))


def _maps(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.latent import maps

    return maps.rows(options)


def _mixed(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.latent import gross_cells, mixed

    return chain(gross_cells.rows(options), mixed.rows(options))


def _mnist(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.latent import mnist

    return mnist.rows(options)


def _precision(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.deep import precision

    return precision.rows(options)


def _psi(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.latent import psi

    return psi.rows(options)


def _qep(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.deep import qep, qep_pictures, qep_uci_tables

    parts = (qep, qep_pictures, qep_uci_tables)
    return chain.from_iterable(part.rows(options) for part in parts)


def _s_curve(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.random_features import s_curve

    return s_curve.rows(options)


def _shards(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.latent import shards, step_cost

    return chain(shards.rows(options), step_cost.rows(options))


def _shard_batches(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.latent import shard_batches

    return shard_batches.rows(options)


def _short_tables(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.deep import short_tables

    return short_tables.rows(options)


def _sod_dgp(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.deep import deep_gp, sod_depths

    return chain(deep_gp.rows(options), sod_depths.rows(options))


def _srflvm(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.random_features import (
        count_ensembles,
        counts,
        held_out,
        long_tables,
        pixels,
        srflvm,
    )

    parts = (srflvm, long_tables, pixels, counts, count_ensembles, held_out)
    return chain.from_iterable(part.rows(options) for part in parts)


def _verdict(options: Options) -> Iterator[Callable[[], BenchmarkRow]]:
    from lvmcore.bench.latent import verdict

    return verdict.rows(options)


BENCHES: dict[str, Callable[[Options], Iterator[Callable[[], BenchmarkRow]]]] = {
    "classify": _classify,
    "files-in-place": _files_in_place,
    "first-fit": _first_fit,
    "impute": _impute,
    "kernels": _kernels,
    "ldgd": _ldgd,
    "map-methods": _map_methods,
    "maps": _maps,
    "mixed": _mixed,
    "mnist": _mnist,
    "precision": _precision,
    "psi": _psi,
    "qep": _qep,
    "s-curve": _s_curve,
    "shard-batches": _shard_batches,
    "shards": _shards,
    "short-tables": _short_tables,
    "sod-dgp": _sod_dgp,
    "srflvm": _srflvm,
    "verdict": _verdict,
}


def run_bench(
    name: str, *, json_path: Path | None = None, full: bool = False, cluster: str | None = None
) -> int:
    """Run a benchmark and print its rows with their references.

    Args:
        name: a key of ``BENCHES``, or "all".
        json_path: JSON file of the results; its rows of the same protocol and version are not
            measured again.
        full: whether to use the papers' longer protocols.
        cluster: address of a Ray cluster that measures the rows at once; None for this machine,
            one row after the other.

    Returns:
        0 if every target is met, 1 otherwise.

    Raises:
        ConfigError: there is no such benchmark, or the cluster cannot be used.
    """
    if name != "all" and name not in BENCHES:
        raise ConfigError(f"There is no benchmark {name!r}: expected all, {', '.join(BENCHES)}.")
    measurements = measured_here if cluster is None else _on_cluster(cluster)
    report = Report(json_path)
    for key in BENCHES if name == "all" else [name]:
        report.measure(key, BENCHES[key](Options(full)), measurements)
    return report.finish()


def _on_cluster(address: str) -> Measurements:
    from lvmcore.bench.harness.cluster_rows import ClusterRows

    return ClusterRows(address)
