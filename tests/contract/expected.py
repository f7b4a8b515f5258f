"""Checks of scikit-learn that a model is known to fail, each with the reason: the one place."""

from typing import Any

__all__ = ["EXPECTED_FAILURES"]

# Model key → name of the check → reason.
EXPECTED_FAILURES: dict[str, dict[str, Any]] = {}
