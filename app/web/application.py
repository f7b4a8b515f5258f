"""The parts of the dashboard's web application that the script `app/main.py` puts together."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.middleware import Middleware

from app.web.access import LOOPBACK, LOOPBACK_NAMES, Access, is_loopback
from app.web.request_guard import RequestGuard

__all__ = ["grant", "is_shared", "lifespan", "middleware"]

_granted: list[tuple[str, Access]] = []


def grant(listen: str, access: Access) -> None:
    """Decide before the start on which address the server may listen, and who may ask it.

    Args:
        listen: the IP address.
        access: who may ask; its names are completed by the setting server.allowedHosts.
    """
    _granted[:] = [(listen, access)]


def is_shared() -> bool:
    """Whether other machines can reach the dashboard."""
    return bool(_granted) and _granted[-1][1].token is not None


def middleware() -> list[Middleware]:
    """The middleware before Streamlit's own.

    Raises:
        SystemExit: the settings let the server listen beyond this machine without a grant.
    """
    from streamlit import config, net_util

    listen, access = _granted[-1] if _granted else (LOOPBACK, Access())
    address = config.get_option("server.address") or "0.0.0.0"
    if address != listen and not is_loopback(address):
        raise SystemExit(
            f"The setting server.address is {address}, which other machines can reach. "
            f"Start the dashboard with `latentboard --listen {address}`, which protects it with a "
            "token."
        )
    names = tuple(config.get_option("server.allowedHosts")) or LOOPBACK_NAMES
    if "*" in names:
        raise SystemExit(
            "The setting server.allowedHosts is *, which lets pages of any site reach the "
            "dashboard. Name each host under which it is opened."
        )
    # Streamlit asks the internet for these two addresses where it finds them missing.
    net_util._internal_ip = net_util._external_ip = LOOPBACK
    _quiet(logging.getLogger("uvicorn.error"))
    own = Access(names=names, public=access.public, token=access.token)
    return [Middleware(RequestGuard, access=own)]


def _quiet(log: logging.Logger) -> None:
    """Leave out where uvicorn listens, which the launcher says, and each refused socket.

    A handshake that was answered with a refusal counts there as one without an answer.
    """
    log.setLevel(logging.WARNING)
    log.addFilter(lambda record: "without completing handshake" not in record.getMessage())


@asynccontextmanager
async def lifespan(_: object) -> AsyncIterator[dict[str, Any]]:
    """Print the address if no launcher did, and open it in a browser.

    No browser is opened if the server is headless or needs a token: other users of the machine can
    read the command that opens it.
    """
    from streamlit import cli_util, config
    from streamlit.web.server import server_util

    url = server_util.get_url(config.get_option("server.address"))
    if not _granted:
        print(f"Latentboard is at {url} (Ctrl-C stops it).", flush=True)
    token = _granted[-1][1].token if _granted else None
    if token is None and not config.get_option("server.headless"):
        threading.Thread(target=cli_util.open_browser, args=[url], daemon=True).start()
    yield {}
