"""What a test does when something that it needs is not on this machine."""

import os
from typing import NoReturn

import pytest

__all__ = ["strict", "unavailable"]


def strict() -> bool:
    """Whether this is a run that must leave nothing out (`LATENTBOARD_CI` is set)."""
    return os.environ.get("LATENTBOARD_CI", "") not in ("", "0")


def unavailable(reason: str) -> NoReturn:
    """Skip the test for want of something, or fail it where nothing may be left out.

    Args:
        reason: What is missing and what it is for.
    """
    if strict():
        pytest.fail(f"{reason} (LATENTBOARD_CI is set: this may not be skipped)", pytrace=False)
    pytest.skip(reason)
