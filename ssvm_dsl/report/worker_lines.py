"""Who has which parts of the data: a line for each worker, at the beginning of a fit on shards that shows progress."""

from __future__ import annotations

import sys
from collections.abc import Iterable


def tell_workers(lines: Iterable[str]) -> None:
    """Write the lines to standard error, above the line of progress."""
    for line in lines:
        sys.stderr.write(f"{line}\n")
