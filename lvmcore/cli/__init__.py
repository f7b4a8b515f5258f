"""The command line: ``lvmcore fit | transform | impute | predict | export | runs | models``."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence

from lvmcore.cli.console import CommandConsole, ExitCode
from lvmcore.cli.parser import build_parser
from lvmcore.errors import LatentboardError, NumericalError
from lvmcore.jobs.machine_limits import keep_freed_memory, limit_threads, threads_of_a_fit

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the command line without the program's name; None for ``sys.argv``.

    Returns:
        The exit status: 0 for success, 2 for data or settings that cannot be used, 130 after Ctrl-C
        before there was a result, 1 for any other error.
    """
    if argv is None:  # the process runs this command only
        keep_freed_memory()
        limit_threads(os.environ, threads_of_a_fit())
    arguments = build_parser().parse_args(argv)
    console = CommandConsole()
    try:
        module, name = arguments.command
        command: Callable[[argparse.Namespace, CommandConsole], int]
        command = getattr(importlib.import_module(module), name)
        status = command(arguments, console)
        sys.stdout.flush()  # a reader that has had enough is found here, not at the exit
        return status
    except LatentboardError as error:
        console.error(error)
        return ExitCode.FAILED if isinstance(error, NumericalError) else ExitCode.BAD_INPUT
    except BrokenPipeError:
        console.discard_output()
        return ExitCode.OK
    except KeyboardInterrupt:
        console.error("Stopped.")
        return ExitCode.INTERRUPTED
