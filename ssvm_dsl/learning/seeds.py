"""What ``random_state`` of an estimator may be."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

GENERATORS = (np.random.RandomState, np.random.Generator)

#: A seed, or a generator whose next number is one.
Seed = int | np.random.RandomState | np.random.Generator | None


def seed_of(random_state: Any) -> int | None:
    """Return a seed: the one given, or the next number of a generator, which is left as it was."""
    if isinstance(random_state, np.random.RandomState):
        return int(deepcopy(random_state).randint(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(deepcopy(random_state).integers(2**31))
    return None if random_state is None else int(random_state)
