"""The address of a Ray cluster, and the connection to it."""

from __future__ import annotations

import os
import re
import socket
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from lvmcore.errors import ConfigError

__all__ = [
    "ClusterError",
    "check_answer",
    "cluster_address",
    "connect",
    "connected",
    "has_token",
    "require_ray",
]

#: Name of the variable in which Ray keeps the address of a cluster.
VARIABLE = "RAY_ADDRESS"
#: Variable with which Ray leaves the loopback address as it is, and its file with the address of
#: the cluster that was started on this machine.
_LOOPBACK_ONLY = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
#: Variable that chooses whether Ray uses a token.
_MODE = "RAY_AUTH_MODE"
_REFUSAL = "AuthenticationError"
_CURRENT = Path("/tmp/ray/ray_current_cluster")
_ANSWER_SECONDS = 2.0
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:]+\]|[^:/\s]+):(?P<port>\d{1,5})")


class ClusterError(ConfigError):
    """The cluster cannot be reached or used; the message says why."""


def require_ray() -> Any:
    """The module ``ray``.

    Raises:
        ClusterError: it is not installed.
    """
    try:
        return import_module("ray")
    except ImportError as error:
        raise ClusterError(
            "A cluster needs Ray, which is not installed: pip install 'latentboard[ray]'."
        ) from error


def cluster_address(given: str) -> str:
    """The address that Ray connects to.

    Args:
        given: "host:port", or "auto" for ``RAY_ADDRESS``, else the cluster that was started on this
            machine.

    Raises:
        ClusterError: it is no address.
    """
    address = os.environ.get(VARIABLE, "auto") if given in ("", "auto") else given
    if address != "auto" and _ADDRESS.fullmatch(address) is None:
        raise ClusterError(
            f"{address!r} is no address of a cluster: expected host:port, as 10.0.0.5:6379, "
            "or auto."
        )
    return address


def connect(address: str) -> Any:
    """Connect this process to a cluster.

    Args:
        address: from ``cluster_address``.

    Returns:
        The module ``ray``.

    Raises:
        ClusterError: the cluster does not answer, its token is missing, or its version of Ray or
            Python differs.
    """
    if _is_loopback(address):
        # Without this Ray replaces 127.0.0.1 by an address of the network, where nothing listens.
        os.environ.setdefault(_LOOPBACK_ONLY, "0")
    ray = require_ray()
    check_answer(address)
    try:
        _initialise(ray, address)
    except RuntimeError as error:  # another version of Ray or Python
        first = str(error).strip().splitlines()[0]
        raise ClusterError(f"The cluster at {address} cannot be used: {first}") from error
    except (ConnectionError, ValueError, TimeoutError) as error:
        if not _is_refused(error):
            raise ClusterError(f"No cluster answers at {address}.") from error
        _connect_with_token(ray, address)
    return ray


def connected(address: str) -> Any:
    """The module ``ray``, connected to a cluster; a process connects once.

    Args:
        address: from ``cluster_address``.

    Raises:
        ClusterError: see ``connect``.
    """
    ray = sys.modules.get("ray")
    return ray if ray is not None and ray.is_initialized() else connect(address)


def _initialise(ray: Any, address: str) -> None:
    ray.init(
        address=address,
        namespace="latentboard",
        log_to_driver=False,
        logging_level="ERROR",
        configure_logging=False,
    )


def _connect_with_token(ray: Any, address: str) -> None:
    """Connect to a cluster that has refused this process without its token.

    Ray finds the token by itself for the clusters of this machine alone. With a token for a cluster
    that has none, actors do not start, so it is not used before a cluster asks for it.
    """
    try:
        if _MODE in os.environ or not has_token():
            raise ConnectionError("There is no token.")
        os.environ[_MODE] = "token"
        import_module("ray._raylet").Config.initialize("")  # as Ray itself changes its mode
        _initialise(ray, address)
    except (ConnectionError, RuntimeError) as error:
        raise ClusterError(
            f"The cluster at {address} asks for its token: copy ~/.ray/auth_token from its "
            "head to this machine, or set RAY_AUTH_TOKEN."
        ) from error


def has_token() -> bool:
    """Whether this machine has the token of a cluster, where Ray looks for one."""
    path = os.environ.get("RAY_AUTH_TOKEN_PATH", "")
    return (
        bool(os.environ.get("RAY_AUTH_TOKEN"))
        or (bool(path) and Path(path).is_file())
        or (Path.home() / ".ray" / "auth_token").is_file()
    )


def _is_refused(error: BaseException | None) -> bool:
    """Whether an error was caused by a missing or wrong token.

    Ray keeps the error of the refusal as text of the one that follows.
    """
    while error is not None:
        if _REFUSAL in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _is_loopback(address: str) -> bool:
    """Whether the cluster listens on the loopback address of this machine."""
    if address == "auto":
        with suppress(OSError):
            address = _CURRENT.read_text(encoding="utf-8").strip()
    return address.startswith(("127.", "localhost:", "[::1]:"))


def check_answer(address: str) -> None:
    """Check within seconds that something listens: Ray itself tries for a minute.

    Args:
        address: from ``cluster_address``; "auto" is not checked.

    Raises:
        ClusterError: nothing listens there.
    """
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        return
    host, port = parts["host"].strip("[]"), int(parts["port"])
    try:
        socket.create_connection((host, port), timeout=_ANSWER_SECONDS).close()
    except OSError as error:
        raise ClusterError(
            f"No cluster answers at {address}. Start one with 'ray start --head'."
        ) from error
