"""Properties of score tables that cuts rely on: ``binary``, ``submodular``, ``metric``, ``semimetric``.

In the convention of this package, where scores t are maximised (energies are ``-t``):

``binary``
    No variable has more than two states.
``submodular``
    ``t(a, b) + t(a + 1, b + 1) >= t(a, b + 1) + t(a + 1, b)`` for all neighbouring states of any two variables of a
    factor, whatever the states of its others.  On binary variables that is the condition of Kolmogorov and Zabih
    (PAMI 2004) under which one minimum cut finds the best labelling.
``metric``
    ``t(a, b) + t(c, c) >= t(a, c) + t(c, b)`` for all states, in every factor of two variables: what alpha-expansion
    needs.  With ``d(a, b) = -t(a, b)`` and ``d(c, c) = 0`` it is the triangle inequality; symmetry is not needed.
``semimetric``
    ``t(a, a) + t(b, b) >= t(a, b) + t(b, a)``: what alpha-beta swaps need (Boykov, Veksler and Zabih, PAMI 2001).

States are identified by their number, also between variables that have different numbers of states: c runs over
the states both variables have.  The last two say nothing about factors of three or more variables and do not hold
when there are some.  All three are closed under sums and non-negative multiples, so they can be guaranteed before the
weights are known: see :func:`guaranteed_properties`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir.features import NODE, FeatureMap, SparseRows
from ssvm_dsl.ir.parameters import ParameterMap
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.theta import Theta

F64 = NDArray[np.float64]

BINARY, SUBMODULAR, METRIC, SEMIMETRIC = "binary", "submodular", "metric", "semimetric"

#: Violations up to this fraction of the entries they come from are rounding, where these are no integers.
ROUNDING = 2.0**-46


def table_properties(program: Program, theta: Theta) -> frozenset[str]:
    """Return which properties the tables of all factors have.

    Tables with ``-inf`` have none of them, but for one case: a table of two binary variables is submodular also with
    ``-inf`` where the inequality holds in extended arithmetic.  Masks and clamps are not looked at; they cannot
    destroy a property.
    """
    found = _of_structure(program)
    for group, tables in zip(program.groups, theta.tables, strict=True):
        if group.n_factors and found - {BINARY}:
            used = tables if group.n_tables <= group.n_factors else tables[np.unique(group.table)]
            found -= _lacking(used, group.cards, found)
    return found


def guaranteed_properties(parameters: ParameterMap) -> frozenset[str]:
    """Return which properties the tables have for all weights within their bounds.

    A table is a sum of basis tables times feature times weight.  Where no weight and no feature can be negative it
    has every property that all basis tables have; otherwise only those that their negatives have too.  Without
    factors of two or more variables all properties hold.
    """
    found = _of_structure(parameters.program)
    for fmap in parameters.maps:
        if fmap.group != NODE and fmap.n_factors and found - {BINARY}:
            parts = _parts(fmap)
            found -= _lacking(parts, fmap.cards, found)
            if _may_be_negative(fmap):
                found -= _lacking(-parts, fmap.cards, found)
    return found


def _of_structure(program: Program) -> frozenset[str]:
    """Return the properties that numbers of states and variables do not rule out."""
    found = {SUBMODULAR, METRIC, SEMIMETRIC}
    if program.card.max(initial=1) <= 2:
        found.add(BINARY)
    if program.max_arity > 2:
        found -= {METRIC, SEMIMETRIC}
    return frozenset(found)


def _parts(fmap: FeatureMap) -> F64:
    """Return the tables that weights and features multiply; ``shape (m, prod(cards))``."""
    if fmap.joint:
        assert isinstance(fmap.features, np.ndarray)
        stacked = fmap.features.reshape(fmap.n_factors, fmap.n_configs, fmap.width)
        return np.ascontiguousarray(np.moveaxis(stacked, 2, 1)).reshape(-1, fmap.n_configs)
    return np.eye(fmap.n_configs) if fmap.basis is None else fmap.basis


def _may_be_negative(fmap: FeatureMap) -> bool:
    """Whether some weight times feature can be negative (with joint features: some weight)."""
    if fmap.block.lower_bound < 0.0:
        return True
    if fmap.features is None or fmap.joint:
        return False
    values = fmap.features.data if isinstance(fmap.features, SparseRows) else fmap.features
    return bool(values.min(initial=0.0) < 0.0)


def _lacking(tables: F64, cards: tuple[int, ...], wanted: frozenset[str]) -> frozenset[str]:
    """Return which of the wanted properties some table lacks."""
    if cards != (2, 2) and tables.min(initial=0.0) == -np.inf:
        return wanted - {BINARY}
    shaped = tables.reshape(len(tables), *cards)
    tests: dict[str, Callable[[F64], bool]] = {
        SUBMODULAR: _submodular,
        METRIC: _metric,
        SEMIMETRIC: _semimetric,
    }
    return frozenset(name for name, test in tests.items() if name in wanted and not test(shaped))


def _holds(*terms: F64) -> bool:
    """Whether ``terms[0] + terms[1] >= terms[2] + terms[3]``, entry by entry; up to rounding, integers exactly."""
    left, right = terms[0] + terms[1], terms[2] + terms[3]
    low = left < right
    if not low.any():
        return True
    terms = tuple(np.broadcast_to(term, low.shape)[low] for term in terms)
    size = sum(np.where(np.isfinite(term), np.abs(term), 0.0) for term in terms)
    integers = np.logical_and.reduce([np.rint(term) == term for term in terms])
    return bool((left[low] >= right[low] - np.where(integers, 0.0, ROUNDING * size)).all())


def _submodular(tables: F64) -> bool:
    """Whether tables of any number of variables have non-negative second differences in every two of them."""
    for i, j in combinations(range(1, tables.ndim), 2):
        moved = np.moveaxis(tables, (i, j), (0, 1))
        if not _holds(moved[:-1, :-1], moved[1:, 1:], moved[:-1, 1:], moved[1:, :-1]):
            return False
    return True


def _metric(tables: F64) -> bool:
    """Whether tables of two variables are finite and satisfy the triangle inequality."""
    return bool(np.isfinite(tables).all()) and all(
        _holds(tables, tables[:, c, c, None, None], tables[:, :, c, None], tables[:, c, None, :])
        for c in range(min(tables.shape[1:]))
    )


def _semimetric(tables: F64) -> bool:
    """Whether tables of two variables are finite and going to another state and back costs something."""
    if not np.isfinite(tables).all():
        return False
    c = min(tables.shape[1:])
    square = tables[:, :c, :c]
    diagonal = np.einsum("kaa->ka", square)
    return _holds(diagonal[:, :, None], diagonal[:, None, :], square, np.swapaxes(square, 1, 2))
