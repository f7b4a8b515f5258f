"""The content security policy of a file that opens offline, and its inline scripts."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

__all__ = ["content_policy", "static_text"]


def content_policy(*scripts: str) -> str:
    """A policy that loads nothing and runs these inline scripts alone.

    Args:
        *scripts: the scripts, without carriage returns: a browser's digest does not include them.
    """
    return (
        f"default-src 'none'; script-src {' '.join(map(_source, scripts))}; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def static_text(*names: str) -> str:
    """Files of the application's folder of static files, joined.

    Args:
        *names: their names.
    """
    static = files("app").joinpath("static")
    return "\n".join(static.joinpath(name).read_text(encoding="utf-8") for name in names)


def _source(script: str) -> str:
    """The source expression of one inline script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
