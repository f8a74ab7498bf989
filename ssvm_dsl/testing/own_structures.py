"""Checks of structures that are your own: classes of ``Custom(y, oracle=...)``, and output spaces, by enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np

from ssvm_dsl.errors import OptionError
from ssvm_dsl.ir.constraints import CustomOracle
from ssvm_dsl.learning.counting.outputs.output_spaces import OutputSpace
from ssvm_dsl.plugin_api.hosting.rules import check_exact


def check_oracle(
    oracle: type, *, n_states: int, sizes: tuple[int, ...] = (0,), trials: int = 200, seed: int = 0, **options: Any
) -> int:
    """Compare the answers of a class with the best of all labellings, on small random problems; return their number.

    The host does the same, with fewer problems, before it trusts a class with ``exact = True``.

    Parameters
    ----------
    oracle : class
        A :class:`~ssvm_dsl.plugin_api.StructureOracle`.
    n_states : int
        States of the label.
    sizes : tuple of int
        Sizes of its axes, 0 for ragged ones.
    trials, seed : int
    **options
        Options of the class.

    Raises
    ------
    PluginError
        It is not exact, breaks its contract, or fails; names the problem.

    Examples
    --------
    >>> check_oracle(Top, n_states=2, k=3)
    200
    """
    if not isinstance(oracle, type):
        raise OptionError(f"the oracle must be a class, got {oracle!r}")
    path = f"{oracle.__module__}:{oracle.__qualname__}"
    return check_exact(CustomOracle(path, oracle, tuple(sorted(options.items())), sizes, n_states, True), trials, seed)


#: Relative rounding errors that sums may differ by.
ROUNDING = 1e-9


def check_output_space(space: OutputSpace, n: int = 20, random_state: int = 0) -> None:
    """Compare size, sums, means, canonical forms and decoders of a small space with its listed outputs.

    Parameters
    ----------
    space : OutputSpace
        One that lists its outputs, small enough to do so.
    n : int
        Vectors of normal scores that each decoder is tried on.
    random_state : int

    Raises
    ------
    AssertionError
        Says what differs, and by how much.
    """
    outputs = list(space.outputs())
    _expect(len(outputs) == space.size, f"size is {space.size}, {len(outputs)} outputs are listed")
    _expect(len({space.canonical(z) for z in outputs}) == len(outputs), "two listed outputs have one canonical form")
    _expect(all(space.canonical(z) == z for z in outputs), "a listed output is not in canonical form")
    features = np.array([space.features(z) for z in outputs], dtype=np.float64)
    _expect(features.shape == (len(outputs), space.n_features), f"features have shape {features.shape[1:]}")
    squares = features.T @ features
    _expect_close("Phi", space.Phi, features.sum(axis=0))
    _expect_close("C", space.C, squares)
    _expect_close("mean", space.mean, features.mean(axis=0))
    _expect_close("second_moment", space.second_moment, squares / len(outputs))
    scores = np.random.default_rng(random_state).normal(size=(n, space.n_features))
    every = scores @ features.T
    for name, share in space.decoders.items():
        found = [space.features(space.canonical(z)) for z in space.decode(scores, name)]
        gain, best, worst = (scores * np.array(found)).sum(axis=1), every.max(axis=1), every.min(axis=1)
        short = worst + share * (best - worst) - gain
        text = f"decoder {name}: an output is {short.max():.3g} short of {share:.0%} of the way from worst to best"
        _expect(bool((short <= ROUNDING * (1.0 + np.abs(every).max())).all()), text)


def _expect(good: bool, text: str) -> None:
    if not good:
        raise AssertionError(text)


def _expect_close(name: str, given: np.ndarray, enumerated: np.ndarray) -> None:
    """Compare an array with the result of enumeration."""
    _expect(given.shape == enumerated.shape, f"{name} has shape {given.shape}, enumeration gives {enumerated.shape}")
    worst = float(np.abs(given - enumerated).max())
    _expect(worst <= ROUNDING * (1.0 + float(np.abs(enumerated).max())), f"{name} is off by up to {worst:.3g}")
