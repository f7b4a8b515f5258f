"""A store and a saved model of every kind, as version 0.1.0 wrote them.

``store_0.1.0.tar.xz`` holds ``store`` (the home of a dashboard), ``models`` (one saved model a
file), the tables that they were fitted to, and ``facts.json``: what that version said of them.
It was written once, by the version itself, and is never made anew.
"""

import json
import tarfile
from pathlib import Path
from typing import Any

ARCHIVE = Path(__file__).with_name("store_0.1.0.tar.xz")


def unpack(folder: Path) -> Path:
    """Unpack all of it into a folder."""
    with tarfile.open(ARCHIVE) as archive:
        # Python 3.11.0 to 3.11.3 have no filters; the archive is the project's own.
        archive.extractall(
            folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {})
        )
    return folder


def facts_of(folder: Path) -> dict[str, Any]:
    """What version 0.1.0 said of its runs and models."""
    facts: dict[str, Any] = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    return facts
