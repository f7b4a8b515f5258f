"""A figure with its protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Metric:
    """One figure about a fitted map, and how it was measured.

    Attributes:
        label: what it is called.
        value: the figure; None where it could not be measured (``protocol`` then says why).
        protocol: how it was measured, in a sentence.
    """

    label: str
    value: float | None
    protocol: str
