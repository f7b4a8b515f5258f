"""A metric: its value and its protocol."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A metric of a fit and its protocol.

    Attributes:
        label: its name on the pages.
        value: its value; None if it could not be computed (``protocol`` then says why).
        protocol: how it was computed, in a sentence.
    """

    label: str
    value: float | None
    protocol: str
