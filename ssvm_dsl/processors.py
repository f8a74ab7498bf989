"""How many processors there are for this process."""

from __future__ import annotations

import os


def available() -> int:
    """Return the number of processors that this process may run on; of all where the system does not tell."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1
