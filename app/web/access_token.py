"""The access token of a dashboard that other machines can reach: in an address, then in a cookie.

The first answer sets the cookie and leads on to the same address without the token, from a page of
its own: after a redirect, a browser that came from another site would not send a strict cookie.
"""

from __future__ import annotations

import hmac
from html import escape
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.types import Scope

from app.web.access import Origin

__all__ = ["PARAMETER", "cookie_name", "first_page", "in_address", "in_cookie"]

#: Name of the token in an address.
PARAMETER = "token"


def cookie_name(scope: Scope) -> str:
    """Name of the cookie: with the port, because the servers of a machine share their cookies."""
    return f"latentboard_{PARAMETER}_{scope['server'][1]}"


def in_address(scope: Scope, token: str) -> bool:
    """Whether the address of a request holds the token."""
    return any(name == PARAMETER and _same(value, token) for name, value in _query(scope))


def in_cookie(scope: Scope, token: str) -> bool:
    """Whether the cookies of a request hold the token."""
    name = cookie_name(scope)
    for key, value in scope["headers"]:
        if key == b"cookie":
            try:
                cookies = SimpleCookie(value.decode("latin-1"))
            except CookieError:
                continue
            if name in cookies and _same(cookies[name].value, token):
                return True
    return False


def first_page(scope: Scope, token: str, served: Origin) -> tuple[str, str]:
    """The first answer to a visitor with the token.

    Args:
        scope: of the request.
        token: the access token.
        served: the address of the page.

    Returns:
        The value of the header Set-Cookie, and a page that leads on.
    """
    cookie = f"{cookie_name(scope)}={token}; Path=/; HttpOnly; SameSite=Strict"
    if served.scheme == "https":
        cookie += "; Secure"
    rest = urlencode([pair for pair in _query(scope) if pair[0] != PARAMETER])
    page = (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Latentboard</title>'
        f'<meta http-equiv="refresh" content="0; url=?{escape(rest)}"></head><body>'
        f'<a href="?{escape(rest)}">Open Latentboard</a></body></html>'
    )
    return cookie, page


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())
