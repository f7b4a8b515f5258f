"""How badly rows fit, as a colour of the map."""

from __future__ import annotations

import numpy as np

from app import services
from app.colouring import Numbers
from app.opened import Opened
from app.words import count

__all__ = ["BY_RESIDUAL", "TITLE", "about", "look"]

#: The colour that stands for the residual, among those of the map.
BY_RESIDUAL = "residual"
TITLE = "standardised residual"


def look(opened: Opened) -> Numbers | None:
    """Rows coloured by their residual, NaN where not looked at; None without decoding."""
    if not opened.model.capabilities.decoding:
        return None
    found = services.residuals(opened.run)
    values = np.full(len(opened.dataset), np.nan)
    values[found.rows] = found.size
    return Numbers(TITLE, values)


def about(opened: Opened) -> list[str]:
    """What to say of the colour below the map."""
    looked_at, rows = len(services.residuals(opened.run).rows), len(opened.dataset)
    said = ["Residual: 1 is what the model expects of a new row."]
    if looked_at < rows:
        said.append(f"It was measured for {count(looked_at, 'row')}; the others are hollow.")
    return said
