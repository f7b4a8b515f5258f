"""How far the starts of a run agree on its rows: as colours, and in words."""

from __future__ import annotations

import numpy as np

from app import services
from app.colouring import Numbers
from app.words import number

__all__ = ["BY_STARTS", "TITLE", "about", "look"]

#: The colour that stands for the disagreement of the starts, among those of the map.
BY_STARTS = "starts"
TITLE = "disagreement of restarts"


def look(run: str) -> Numbers | None:
    """Rows coloured by how far the starts disagree on them; None where a run had one start."""
    found = services.agreement(run)
    if found is None:
        return None
    return Numbers(f"{TITLE}, radii of the map", found["disagreement"].to_numpy(np.float64))


def about(run: str, row: int) -> str | None:
    """What the starts of a run make of one of its rows, in a sentence; None after one start."""
    found = services.agreement(run)
    if found is None:
        return None
    apart, shared = found["disagreement"].iloc[row], found["neighbour_agreement"].iloc[row]
    return (
        f"Two starts place it {number(float(apart), 2)} radii of the map apart (root mean square), "
        f"and share {shared:.0%} of its nearest rows."
    )
