"""The addresses under which the dashboard answers, and the token that it may ask for.

A page of another site reaches a server on this machine through the person's own browser: it opens
sockets, or gives its own name the server's address. The Host and Origin headers tell, because a
page cannot forge them. Where the dashboard can be reached from other machines, a token is needed
besides: they can send any header.
"""

from __future__ import annotations

import re
import secrets
import socket
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

__all__ = [
    "ANY_ADDRESS",
    "LOOPBACK",
    "LOOPBACK_NAMES",
    "Access",
    "Origin",
    "canonical_name",
    "is_loopback",
    "new_token",
    "parse_authority",
    "parse_origin",
]

LOOPBACK = "127.0.0.1"
LOOPBACK_NAMES = ("localhost", LOOPBACK, "::1")
#: The addresses that stand for every address of the machine.
ANY_ADDRESS = ("0.0.0.0", "::")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?", re.IGNORECASE)
_TOKEN_BYTES = 32
#: Names that are kept parsed: those of every request are the same few.
_MOST_KEPT = 64


class Origin(NamedTuple):
    """Scheme, host name and port of an address.

    Attributes:
        scheme: http or https.
        name: the name or IP address, in lower case and without brackets.
        port: the port, also where the address leaves it out.
    """

    scheme: str
    name: str
    port: int

    @property
    def authority(self) -> str:
        """Name and port as in a Host header: the default port is left out."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port == _DEFAULT_PORTS[self.scheme] else f"{name}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def socket(self) -> str:
        """The same address for a web socket."""
        return f"{'wss' if self.scheme == 'https' else 'ws'}://{self.authority}"


@lru_cache(_MOST_KEPT)
def canonical_name(name: str) -> str:
    """A host name in lower case, without brackets and final dot; an IP address in its short form.

    An IPv4 address that came in over IPv6 (``::ffff:127.0.0.1``) is the IPv4 address.
    """
    plain = name.strip().lower().removeprefix("[").removesuffix("]").rstrip(".")
    try:
        found: IPv4Address | IPv6Address = ip_address(plain)
    except ValueError:
        return plain
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return str(found)


@lru_cache(_MOST_KEPT)
def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an address."""
    name = canonical_name(address)
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def new_token() -> str:
    """A random access token."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


@lru_cache(_MOST_KEPT)
def parse_authority(text: str, scheme: str) -> Origin | None:
    """Parse a Host header; None if it is not a name or an IP address with or without a port."""
    found = _AUTHORITY.fullmatch(text)
    if found is None or scheme not in _DEFAULT_PORTS:
        return None
    port = int(found[2]) if found[2] else _DEFAULT_PORTS[scheme]
    return Origin(scheme, canonical_name(found[1]), port) if port < 65536 else None


def parse_origin(text: str) -> Origin | None:
    """Parse an Origin header; None if it is not scheme, name and port of a web page."""
    scheme, separator, authority = text.partition("://")
    return parse_authority(authority, scheme.lower()) if separator else None


@dataclass(frozen=True)
class Access:
    """Who may ask the server.

    Attributes:
        names: host names under which it answers on its own port; ``*.example.org`` stands for all
            names below.
        public: the address under which a reverse proxy serves it; None without one.
        token: what a visitor has to know; None if only this machine can reach the server.
    """

    names: tuple[str, ...] = LOOPBACK_NAMES
    public: Origin | None = None
    token: str | None = None

    def reachable(self, local: str | None) -> bool:
        """Whether a connection to a local address is answered at all.

        Without a token, only connections within this machine are.
        """
        return self.token is not None or (local is not None and is_loopback(local))

    def served(self, host: str, scheme: str, local: str | None, port: int | None) -> Origin | None:
        """The address of the page that a request asks for; None if the Host header is foreign.

        Args:
            host: the Host header.
            scheme: http or https.
            local: the IP address of this machine at which the connection came in.
            port: its port.
        """
        if self.public is not None and parse_authority(host, self.public.scheme) == self.public:
            return self.public  # the proxy itself may ask without encryption
        found = parse_authority(host, scheme)
        if found is None or found.port != port or not self._is_own(found.name, local):
            return None
        return found

    def _is_own(self, name: str, local: str | None) -> bool:
        """Whether a name is one of this machine, as seen from the end of the connection.

        The names of the loopback address count within the machine only.
        """
        end = canonical_name(local or "")
        if is_loopback(name):
            return is_loopback(end) and (name == end or self._is_named(name))
        if self._is_named(name):
            return True
        machine = socket.gethostname().lower()
        return not is_loopback(end) and name in (end, machine, f"{machine}.local")

    def _is_named(self, name: str) -> bool:
        for pattern in map(canonical_name, self.names):
            if pattern.startswith("*.") and name.endswith(pattern[1:]):
                return True
            if name == pattern:
                return True
        return False

    def is_own_page(self, origin: str, served: Origin) -> bool:
        """Whether an Origin header is the address that the page was served from."""
        found = parse_origin(origin)
        return found is not None and found in (served, self.public)
