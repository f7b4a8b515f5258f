"""The papers' tables and the speed figures: ``lvmcore bench NAME [--json FILE] [--full]``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

from lvmcore.bench.report import Options, Report, Row
from lvmcore.errors import ConfigError

__all__ = ["BENCHES", "run_bench"]


def _classify(options: Options) -> Iterator[Callable[[], Row]]:
    from lvmcore.bench import classify

    return classify.rows(options)


def _impute(options: Options) -> Iterator[Callable[[], Row]]:
    from lvmcore.bench import impute

    return impute.rows(options)


def _ldgd(options: Options) -> Iterator[Callable[[], Row]]:
    from lvmcore.bench import ldgd, training_size

    return chain(ldgd.rows(options), training_size.rows(options))


def _mnist(options: Options) -> Iterator[Callable[[], Row]]:
    from lvmcore.bench import mnist

    return mnist.rows(options)


def _psi(options: Options) -> Iterator[Callable[[], Row]]:
    from lvmcore.bench import psi

    return psi.rows(options)


def _qep(options: Options) -> Iterator[Callable[[], Row]]:
    from lvmcore.bench import qep, qep_pictures, qep_tables

    parts = (qep, qep_pictures, qep_tables)
    return chain.from_iterable(part.rows(options) for part in parts)


def _sod_dgp(options: Options) -> Iterator[Callable[[], Row]]:
    from lvmcore.bench import sod_dgp

    return sod_dgp.rows(options)


def _srflvm(options: Options) -> Iterator[Callable[[], Row]]:
    from lvmcore.bench import count_ensembles, counts, held_out, long_tables, pixels, srflvm

    parts = (srflvm, long_tables, pixels, counts, count_ensembles, held_out)
    return chain.from_iterable(part.rows(options) for part in parts)


BENCHES: dict[str, Callable[[Options], Iterator[Callable[[], Row]]]] = {
    "classify": _classify,
    "impute": _impute,
    "ldgd": _ldgd,
    "mnist": _mnist,
    "psi": _psi,
    "qep": _qep,
    "sod-dgp": _sod_dgp,
    "srflvm": _srflvm,
}


def run_bench(name: str, *, json_path: Path | None = None, full: bool = False) -> int:
    """Run a benchmark and print its rows, the reference beside ours.

    Args:
        name: a key of ``BENCHES``, or "all".
        json_path: where to keep the results; rows already there, measured with the same settings
            by the same version, are not measured again.
        full: the papers' own protocols, as far as they are longer.

    Returns:
        0 where every floor holds, 1 otherwise.

    Raises:
        ConfigError: there is no such benchmark.
    """
    if name != "all" and name not in BENCHES:
        raise ConfigError(f"There is no benchmark {name!r}: expected all, {', '.join(BENCHES)}.")
    report = Report(json_path)
    for key in BENCHES if name == "all" else [name]:
        report.measure(key, BENCHES[key](Options(full)))
    return report.finish()
