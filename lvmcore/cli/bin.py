"""The commands ``lvmcore runs bin`` and ``restore``: what was deleted, and how it comes back."""

from __future__ import annotations

import argparse

from lvmcore.cli.console import CommandConsole, ExitCode
from lvmcore.errors import ConfigError, DataError
from lvmcore.runs.bin import KEPT_DAYS, Deletion
from lvmcore.runs.store import Store

__all__ = ["list_bin", "restore"]

_ID_DIGITS = 8


def list_bin(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """List what is in the bin, newest first, or empty it.

    Args:
        arguments: the parsed command line.
        console: the output.

    Returns:
        The exit status, 0.
    """
    store = Store()
    found = store.bin.deletions()
    if not found:
        console.say("The bin is empty.")
    elif arguments.empty:
        store.bin.empty()
        console.say(f"Deleted {len(found)} from the bin permanently.")
    else:
        for one in found:
            console.say(f"{one.id[:_ID_DIGITS]}  {one.time:%Y-%m-%d %H:%M}  {_described(one)}")
        console.say(f"What was deleted is kept for {KEPT_DAYS} days.")
    return ExitCode.OK


def restore(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """Restore a deleted run or dataset.

    Args:
        arguments: the parsed command line.
        console: the output.

    Returns:
        The exit status, 0.

    Raises:
        ConfigError: several deletions have such an id.
        DataError: none has, or it cannot be restored.
    """
    store = Store()
    start = arguments.id.lower()
    found = [
        one
        for one in store.bin.deletions()
        if start and any(id.startswith(start) for id in (one.id, *one.runs))
    ]
    if not found:
        raise DataError(
            f"The bin holds no run or deletion {arguments.id!r}. `lvmcore runs bin` lists them."
        )
    if len(found) > 1:
        raise ConfigError(
            f"The ids of {len(found)} deletions begin with {arguments.id!r}: give more of its "
            "digits."
        )
    store.bin.restore(found[0].id)
    console.say(f"Restored {_described(found[0])}.")
    return ExitCode.OK


def _described(deletion: Deletion) -> str:
    if deletion.kind == "run":
        return f"run {deletion.name}"
    return f"dataset {deletion.name} with its runs: {len(deletion.runs)}"
