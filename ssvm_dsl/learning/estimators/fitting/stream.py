"""``Stream``: the state from which ``partial_fit`` continues, in the estimator and in the file of a saved model.

A trainer that learns from streams says what its next call depends on (step counters, averages, random generators), as
arrays and values that JSON can hold.  Going on from a file is therefore the same as going on in one process, bit for
bit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import FileFormatError, PluginError, TrainingError
from ssvm_dsl.learning.driver.checkpoint import differences

#: Types that arrays of a state may have.
TYPES = ("float64", "int64", "int32", "int8", "bool")


@dataclass(frozen=True, eq=False)
class Stream:
    """The state from which a stream continues.

    Parameters
    ----------
    fingerprint : dict
        Settings that must not change during the stream: trainer, options, risk, power.
    n_seen : int
        Examples so far.
    values : dict
        The part of the trainer's state that JSON can hold.
    arrays : dict of str to ndarray
        The rest of it.
    """

    fingerprint: dict[str, Any]
    n_seen: int
    values: dict[str, Any]
    arrays: dict[str, NDArray[Any]]

    @classmethod
    def of(cls, trainer: str, fingerprint: Mapping[str, Any], n_seen: int, state: Any) -> Stream:
        """Return the stream after a call of ``partial``.

        Raises
        ------
        PluginError
            The state is something else than arrays, and values that JSON can hold, by name.
        """
        try:
            arrays = {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
            values = {name: value for name, value in state.items() if name not in arrays}
            known = all(isinstance(name, str) for name in state) and json.loads(json.dumps(values)) == values
        except (AttributeError, TypeError, ValueError):
            known = False
        if not known or any(str(array.dtype) not in TYPES for array in arrays.values()):
            text = "partial() returns (weights, state), the state a dict of arrays, and values that JSON can hold"
            raise PluginError(f"trainer '{trainer}' broke its contract: {text}")
        return cls(json.loads(json.dumps(dict(fingerprint))), n_seen, values, arrays)

    def state(self) -> dict[str, Any]:
        """Return the trainer's state, a copy."""
        values: dict[str, Any] = json.loads(json.dumps(self.values))
        return values | {name: array.copy() for name, array in self.arrays.items()}

    def check(self, fingerprint: Mapping[str, Any]) -> None:
        """Refuse to continue with something else.

        Raises
        ------
        TrainingError
            What differs.
        """
        now = json.loads(json.dumps(dict(fingerprint)))
        if now != self.fingerprint:
            found = "\n".join(f"  {text}" for text in differences(self.fingerprint, now))
            text = "to continue the stream, restore that setting; to start another stream, use a new estimator (clone)"
            raise TrainingError(f"partial_fit: the stream so far was learnt with other settings:\n{found}\n{text}")

    def json(self) -> dict[str, Any]:
        """Return the part of it that a file holds in addition to the arrays."""
        return {
            "fingerprint": self.fingerprint,
            "n_seen": self.n_seen,
            "values": self.values,
            "arrays": sorted(self.arrays),
        }

    @classmethod
    def of_json(cls, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Stream:
        """Return the stream of a file.

        Raises
        ------
        FileFormatError
            It is none.
        """
        fingerprint, n_seen, values = content["fingerprint"], content["n_seen"], content["values"]
        if not (isinstance(fingerprint, dict) and isinstance(values, dict) and type(n_seen) is int and n_seen >= 0):
            raise FileFormatError("expected settings, a count of examples and values")
        stored = {str(name): arrays[name] for name in content["arrays"]}
        for name, array in stored.items():
            if str(array.dtype) not in TYPES or not np.isfinite(array).all():
                raise FileFormatError(f"array '{name}' is not of finite numbers")
        return cls(fingerprint, n_seen, values, stored)


def check_weights(learnt: Any, dim: int, trainer: str) -> tuple[F64, Any]:
    """Return what ``partial`` of a trainer returned: weights and a state.

    Raises
    ------
    PluginError
        It is something else.
    TrainingError
        The weights are not finite.
    """
    if not (isinstance(learnt, tuple) and len(learnt) == 2):
        text = f"partial() returns (weights, state), got {type(learnt).__name__}"
        raise PluginError(f"trainer '{trainer}' broke its contract: {text}")
    w, state = learnt
    if not (isinstance(w, np.ndarray) and w.dtype == np.float64 and w.shape == (dim,)):
        text = f"partial() returns an array of {dim} float64, got {type(w).__name__}"
        raise PluginError(f"trainer '{trainer}' broke its contract: {text}")
    if not np.isfinite(w).all():
        text = "its weights are no longer finite; set options that shorten its steps"
        raise TrainingError(f"trainer '{trainer}': {text}")
    return w, state
