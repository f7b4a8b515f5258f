"""The headers of every answer: what a browser may load, run, frame and pass on.

The policy names no host but the server's own. Its sources beside ``'self'`` are those that the
pages need:

- scripts: ``blob:`` is how Streamlit loads the scripts of the map, which are given to it as text;
  the inline scripts of its page and of ours are allowed by their digests.
- styles: the pages set styles at run time, which has no digest.
- images: charts and canvases are exported and copied as ``data:`` and ``blob:``.

There is no ``'unsafe-eval'``: plotly generates code for WebGL alone, so all charts are SVG.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from pathlib import Path

from app.web.access import Origin

__all__ = ["INLINE_SCRIPTS", "RawHeaders", "closed_policy", "page_policy", "with_headers"]

RawHeaders = list[tuple[bytes, bytes]]

#: Scripts in `app/static` that a page puts into the document as text.
INLINE_SCRIPTS = ("scroll_to_top.js",)
_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_FLOOR = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_POLICY = b"content-security-policy"
_REPLACED = {name for name, _ in _FLOOR} | {_POLICY}
_CROSS_ORIGIN = b"access-control-"


def _digest(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


@cache
def _inline_digests() -> str:
    """Digests of the inline scripts of Streamlit's page and of this package."""
    from streamlit import file_util

    page = Path(file_util.get_static_dir(), "index.html").read_text(encoding="utf-8")
    static = files("app").joinpath("static")
    scripts = _INLINE.findall(page)
    scripts += [static.joinpath(name).read_text(encoding="utf-8") for name in INLINE_SCRIPTS]
    return " ".join(map(_digest, scripts))


@cache
def page_policy(served: Origin) -> bytes:
    """The content security policy of the pages.

    Args:
        served: the address of the page. Its socket is named, because older browsers do not count
            it among ``'self'``.
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' blob: {_inline_digests()}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "media-src 'self' data: blob:",
            "worker-src 'self' blob:",
            "manifest-src 'self'",
            f"connect-src 'self' {served.socket}",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    ).encode()


def closed_policy() -> bytes:
    """The policy of answers that are no page: nothing is loaded, and nothing runs."""
    return b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def with_headers(headers: RawHeaders, policy: bytes) -> RawHeaders:
    """The headers of an answer with those that every answer has.

    Headers that open an answer to pages of other origins are left out.

    Args:
        headers: of the answer, names in lower case.
        policy: the content security policy.
    """
    kept = [
        (name, value)
        for name, value in headers
        if name.lower() not in _REPLACED and not name.lower().startswith(_CROSS_ORIGIN)
    ]
    return [*kept, *_FLOOR, (_POLICY, policy)]
