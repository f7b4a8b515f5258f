"""When the server was last asked for something, so that work in the background can wait for quiet.

A page is a few dozen files, fetched by the browser one after another. A thread that imports a
large library meanwhile holds the interpreter lock, and the page is late by as much.
"""

from __future__ import annotations

import time

__all__ = ["note_request", "wait_until_quiet"]

_last_request = [time.monotonic()]


def note_request() -> None:
    """Note that the server is asked for something now."""
    _last_request[0] = time.monotonic()


def wait_until_quiet(seconds: float, most: float) -> None:
    """Wait until nothing was asked for during some seconds.

    Args:
        seconds: how long it has to be quiet.
        most: seconds after which the wait ends in any case.
    """
    end = time.monotonic() + most
    while (left := min(_last_request[0] + seconds, end) - time.monotonic()) > 0:
        time.sleep(left)
