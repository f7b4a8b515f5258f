"""How a process that fits keeps its memory."""

from __future__ import annotations

import ctypes
import sys

__all__ = ["keep_freed_memory"]

# glibc's numbers for its two thresholds, and bytes.
_TRIM, _MAP, _KEPT = -1, -3, 1 << 28


def keep_freed_memory() -> bool:
    """Let glibc keep up to 256 MB that were freed, in place of handing them back at once.

    A step makes and frees the same arrays as the one before. Those of some megabytes would each be
    fetched from the system anew, page by page, which can take as long as what is computed in them.

    Returns:
        Whether it is so; other systems' allocators are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(mallopt(_MAP, _KEPT)) and bool(mallopt(_TRIM, _KEPT))
