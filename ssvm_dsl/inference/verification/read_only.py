"""Read-only arrays for foreign code."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np


def read_only(value: Any) -> Any:
    """Return arrays, and records and tuples of them, as views that cannot be written through."""
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if isinstance(value, tuple):
        return tuple(map(read_only, value))
    if isinstance(value, dict):
        return {name: read_only(one) for name, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        made = replace(value, **{one.name: read_only(getattr(value, one.name)) for one in fields(value) if one.init})
        cached = {name: read_only(one) for name, one in vars(value).items() if name not in vars(made)}
        vars(made).update(cached)  # what the record has computed once, such as pointers
        return made
    return value
