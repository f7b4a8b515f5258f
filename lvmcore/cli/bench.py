"""The command ``lvmcore bench``: benchmarks of the models and of reference implementations."""

from __future__ import annotations

import argparse

from lvmcore import bench
from lvmcore.cli.console import CommandConsole

__all__ = ["run"]


def run(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """Run a benchmark.

    Args:
        arguments: the parsed command line.
        console: not used: the benchmarks print their own report.

    Returns:
        The exit status.
    """
    del console
    return bench.run_bench(
        arguments.name, json_path=arguments.json, full=arguments.full, cluster=arguments.cluster
    )
