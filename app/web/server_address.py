"""Where the dashboard listens, and what it says about it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from app.web.access import (
    ANY_ADDRESS,
    LOOPBACK,
    Access,
    Origin,
    canonical_name,
    is_loopback,
    new_token,
)
from app.web.access_token import PARAMETER

__all__ = ["ServerAddress", "refused_setting", "server_address"]

_SETTING = "STREAMLIT_SERVER_ADDRESS"


@dataclass(frozen=True)
class ServerAddress:
    """Where the dashboard listens, and who may ask it.

    Attributes:
        address: the IP address.
        access: who may ask.
    """

    address: str
    access: Access

    def addresses(self, port: int) -> list[str]:
        """The addresses to open in a browser, with the token if there is one."""
        public, token = self.access.public, self.access.token
        own = [Origin("http", name, port) for name in self._names()]
        ending = "" if token is None else f"/?{PARAMETER}={token}"
        return [f"{origin}{ending}" for origin in (own if public is None else [public])]

    def _names(self) -> list[str]:
        if self.address in ANY_ADDRESS:
            return _machine_addresses(six=self.address == "::") or [socket.gethostname()]
        return [self.address]

    def warning(self, port: int) -> str | None:
        """What everyone should know who makes the dashboard reachable; None if nobody does."""
        public = self.access.public
        if self.access.token is None:
            return None
        where = f"on {self.address}, port {port}" if public is None else f"at {public}"
        if self.address in ANY_ADDRESS and public is None:
            where = f"on every address of this machine ({self.address}), port {port}"
        plain = (
            ""
            if public is not None and public.scheme == "https"
            else " The connection is not encrypted: use it only in a network that you trust."
        )
        return (
            f"Warning: other machines can reach this dashboard {where}. Everyone with its address "
            f"and token can see, change and delete all data and runs.{plain}"
        )


def server_address(address: str = LOOPBACK, public: Origin | None = None) -> ServerAddress:
    """Decide who may ask a dashboard.

    Args:
        address: the IP address on which it listens.
        public: the address under which a reverse proxy serves it.

    Returns:
        The decision, with a new token if other machines can reach the dashboard.
    """
    local = is_loopback(address) and (public is None or is_loopback(public.name))
    token = None if local else new_token()
    return ServerAddress(canonical_name(address), Access(public=public, token=token))


def refused_setting(environment: Mapping[str, str] = os.environ) -> str | None:
    """Why the environment may not choose the address to listen on; None if it does not."""
    address = environment.get(_SETTING, "")
    if not address or is_loopback(address):
        return None
    return (
        f"{_SETTING} is {address}, which other machines can reach. Start the dashboard with "
        f"--listen {address} instead, which protects it with a token."
    )


def _machine_addresses(*, six: bool) -> list[str]:
    """The IP addresses of this machine that others can use, IPv4 first; asks no other machine."""
    import psutil

    families = [socket.AF_INET, *([socket.AF_INET6] if six else [])]
    return [
        found.address
        for family in families
        for interface in psutil.net_if_addrs().values()
        for found in interface
        if found.family == family
        and not is_loopback(found.address)
        and "%" not in found.address  # of one link only
    ]
