"""Users' classes of ``Custom(y, oracle=...)``: checks that they find best structures, and problems for backends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I32
from ssvm_dsl.errors import OptionError
from ssvm_dsl.inference.rules.custom_rules import CustomRules, check_exact
from ssvm_dsl.ir.constraints import ConstraintGroup, CustomOracle
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.testing.problems import Problem


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


class FewMoved:
    """At most ``most`` variables differ from their first state: a structure for the kit.

    Parameters
    ----------
    most : int
    """

    exact = True

    def __init__(self, most: int) -> None:
        self.most = most

    def feasible(self, labels: I32) -> bool:
        """Return whether few enough variables have moved."""
        return int((labels != 0).sum()) <= self.most

    def best(self, scores: F64) -> I32 | None:
        """Return the best states: variables move where the first state is forbidden, and where moving gains most."""
        away = scores[:, 1:].argmax(axis=1)
        with np.errstate(invalid="ignore"):
            gain = np.where(scores[:, 0] == -np.inf, np.inf, scores[:, 1:].max(axis=1) - scores[:, 0])
        moved = np.argsort(-gain, kind="stable")[: self.most]
        moved = moved[gain[moved] > 0.0]
        if (gain == np.inf).sum() > self.most:
            return None
        out = np.zeros(len(scores), dtype=np.int32)
        out[moved] = 1 + away[moved]
        return out


def custom_problems(kind: str, n: int, seed: int = 0) -> Iterator[Problem]:
    """Yield small problems with the kit's structure in most examples, and an additional variable in some."""
    for number in range(n):
        rng = np.random.default_rng([seed, number])
        sizes, spare = rng.integers(0, 4, 4), rng.integers(0, 2, 4)
        there = rng.random(4) < 0.8
        n_states, most = int(rng.integers(2, 4)), int(rng.integers(0, 3))
        var_ptr, card = pointers(sizes + spare), np.full(int((sizes + spare).sum()), n_states, dtype=np.int32)
        lists = [np.tile(np.arange(size, dtype=np.int32), n_states) for size in sizes[there]]
        states = [np.repeat(np.arange(n_states, dtype=np.int32), size) for size in sizes[there]]
        group = ConstraintGroup(
            kind, "few moved", pointers(there.astype(np.int64)), pointers(sizes[there] * n_states),
            np.concatenate([np.zeros(0, np.int32), *lists]), np.concatenate([np.zeros(0, np.int32), *states]),
            np.zeros(int(sizes[there].sum()) * n_states, dtype=bool), {"size_0": sizes[there].astype(np.int64)},
        )  # fmt: skip
        name = "ssvm_dsl.testing.custom_oracles:FewMoved"
        oracle = CustomOracle(name, FewMoved, (("most", most),), (0,), n_states, True)
        group = replace(group, oracle=oracle, rules=CustomRules(oracle))
        allowed = rng.random(int(card.sum())) < 0.85 if rng.random() < 0.5 else None
        program = Program(var_ptr, card, (), (group,), allowed=allowed).validate()
        scores = rng.integers(-3, 4, program.n_states) if rng.random() < 0.5 else rng.normal(size=program.n_states)
        theta = Theta.of(program, scores.astype(float))
        yield Problem(f"custom_problems({kind!r}, seed={seed})[{number}]", program, theta)
