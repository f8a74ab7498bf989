"""Whether a backend keeps to a time limit, preparation included, on one example that is far too large for it.

Many backends check the clock between the examples of a batch.  Before the first iteration on a large one they lay out
graphs, write rows, search for orders or components.  So one example grows until the backend refuses it or it is large;
each time a new session is asked with a short limit.  Only processor time counts, which other programs do not
none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np

from ssvm_dsl.array_types import I32
from ssvm_dsl.errors import OutOfTime, TooLargeError
from ssvm_dsl.ir import Caps, Group, Guarantee, Limits, Program, Question, Task, Theta, Topology
from ssvm_dsl.needs.program_needs import program_need
from ssvm_dsl.needs.properties import table_properties
from ssvm_dsl.plugin_api import Backend
from ssvm_dsl.testing.contract import opened
from ssvm_dsl.testing.report import Complaint

#: Numbers of variables of the examples; the smallest one is asked without a limit first, which compiles kernels.
SIZES = (16, 400, 10000)

#: Time limits in seconds: one ends during the first preparation, the other during preparation within the search.
LIMITS = (0.05, 0.3)

#: Seconds of processor time beyond the limit that an answer may take: single passes that cannot be cut short.
MOST_OVER = 0.4

#: A late answer may have compiled something; this many in a row have not.
TRIES = 3

#: States of a variable where nothing asks for two.
CARD = 4


@dataclass(frozen=True, eq=False)
class Large:
    """One example of a size."""

    program: Program
    theta: Theta

    @classmethod
    def of(cls, caps: Caps, n: int) -> Large:
        """Return an example of about n variables that the capabilities cover: a chain, or a grid."""
        rng, card = np.random.default_rng(n), 2 if "binary" in caps.requires else CARD
        edges = np.zeros((0, 2), np.int32) if caps.max_arity < 2 else _edges(caps.topology, n)
        var_ptr, m = np.array([0, n], dtype=np.int64), len(edges)
        regular = bool(caps.requires & {"submodular", "metric", "semimetric"})
        if not m:
            program = Program(var_ptr, np.full(n, card, np.int32)).validate()
            return cls(program, Theta.of(program, rng.normal(size=n * card)))
        group = Group.of(
            "pair", (card, card), edges, np.array([0, m], dtype=np.int64), np.arange(m, dtype=np.int32), m, var_ptr
        )
        program = Program(var_ptr, np.full(n, card, np.int32), (group,)).validate()
        tables = rng.normal(size=(m, card, card))
        if regular:  # equal states score more, by the same amount each
            tables = np.abs(rng.normal(size=(m, 1, 1))) * np.eye(card)
        return cls(program, Theta.of(program, rng.normal(size=n * card), [tables.reshape(m, -1)]))


def _edges(topology: Topology, n: int) -> I32:
    """Return the edges of a chain, or of a grid of about as many rows as columns."""
    if topology < Topology.LOOPY:
        return np.stack([np.arange(n - 1), np.arange(1, n)], axis=1).astype(np.int32)
    at = np.arange(n).reshape(int(np.sqrt(n)), -1)
    pairs = ((at[:, :-1], at[:, 1:]), (at[:-1], at[1:]))
    return np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in pairs]).astype(np.int32)


def check_large_example(backend: Backend, caps: Caps, options: Mapping[str, Any]) -> bool:
    """Ask about ever larger examples with a short limit; return whether the backend takes any of them.

    Parameters
    ----------
    backend : Backend
    caps : Caps
    options : mapping

    Raises
    ------
    Complaint
        It takes much longer than the limit.
    """
    asked = False
    for large in accepted_examples(backend, caps):
        if not asked:
            _seconds(backend, options, large, Limits())
        asked = True
        for limit in LIMITS:
            took = min(_until_in_time(backend, options, large, limit))
            if took <= limit + MOST_OVER:
                continue
            n, m = large.program.n_variables, sum(group.n_factors for group in large.program.groups)
            text = f"one example of {n} variables and {m} factors takes {took:.3g} s of the processor with"
            text += f" Limits(time={limit:g})"
            raise Complaint(f"{text}; look at the clock while the answer is prepared, and within long passes")
    return asked


def accepted_examples(backend: Backend, caps: Caps) -> Iterator[Large]:
    """Yield ever larger examples, until the backend refuses one."""
    for n in SIZES:
        large = Large.of(caps, n)
        known = table_properties(large.program, large.theta)
        need = program_need(large.program, frozenset({Task.MAP}), Guarantee.HEURISTIC, properties=known)
        if caps.refusals(need) or not backend.check(need).ok:
            return
        yield large


def _until_in_time(backend: Backend, options: Mapping[str, Any], large: Large, limit: float) -> Iterator[float]:
    """Yield the seconds that answers within a limit take, until one is in time or has been tried often enough."""
    for _ in range(TRIES):
        took = _seconds(backend, options, large, Limits(time=limit))
        yield took
        if took <= limit + MOST_OVER:
            return


def _seconds(backend: Backend, options: Mapping[str, Any], large: Large, limits: Limits) -> float:
    """Return the seconds of the processor that a new session and its answer take."""
    begin = process_time()
    try:
        session = opened(backend, large.program, options)
        session.solve(Question(large.theta, limits=limits))
    except (OutOfTime, TooLargeError):
        pass
    return process_time() - begin
