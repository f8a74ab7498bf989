"""Random numbers inside kernels: SplitMix64 (Steele, Lea and Flood 2014), whose only state is a counter."""

from __future__ import annotations

import numpy as np

from ssvm_dsl.kernels import njit

#: What successive states of the generator differ by.
STEP = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True, inline="always")
def mixed(state: np.uint64) -> np.uint64:
    """Return the random number of a state."""
    x = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
