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

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.ir.analysis.tolerance import ROUNDING
from ssvm_dsl.ir.features import NODE, FeatureMap, SlicedRows, SparseRows
from ssvm_dsl.ir.loss import LossFactors
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.scores.parameter_map import ParameterMap

BINARY, SUBMODULAR, METRIC, SEMIMETRIC = "binary", "submodular", "metric", "semimetric"


def table_properties(program: Program, theta: Theta) -> frozenset[str]:
    """Return which properties the tables of all factors have.

    Tables with ``-inf`` have none of them, but for one case: a table of two binary variables is submodular also with
    ``-inf`` where the inequality holds in extended arithmetic.  Masks and clamps are ignored; they cannot
    destroy a property.
    """
    kept = _of_structure(program)
    for group, tables in zip(program.groups, theta.tables, strict=True):
        if group.n_factors and kept - {BINARY}:
            used = tables if group.n_tables <= group.n_factors else tables[group.table_uses() > 0]
            kept -= _lacking(used, group.cards, kept)
    return kept


def guaranteed_properties(parameters: ParameterMap) -> frozenset[str]:
    """Return which properties the tables have for all weights within their bounds: those without :func:`doubts`."""
    return _of_structure(parameters.program) - frozenset(doubts(parameters))


def doubts(parameters: ParameterMap, first: int = 0, priced: Sequence[LossFactors] = ()) -> dict[str, str]:
    """Return for each of ``submodular``, ``metric`` and ``semimetric`` that is not guaranteed why it is not, in words.

    A table is a sum of basis tables times feature times weight.  Where no weight and no feature can be negative it has
    every property that all basis tables have; otherwise only those that their negatives have too.  Without factors of
    two or more variables all properties hold.

    All factor templates of the model count, whether the examples at hand have such factors or not, so that the
    answer does not depend on them; of data only the signs of features (and joint features) matter.

    Parameters
    ----------
    parameters : ParameterMap
    first : int
        Number of the first example, for texts about a part of a longer list.
    priced : sequence of LossFactors
        Prices that are added to the tables, whatever the true joint states.
    """
    of_tables, why = frozenset({SUBMODULAR, METRIC, SEMIMETRIC}), dict[str, str]()
    for fmap in parameters.maps:
        left = of_tables - why.keys()
        if fmap.group == NODE or not left:
            continue
        if parameters.program.groups[fmap.group].of_spans:
            why |= dict.fromkeys(left, f"factor '{fmap.name}' scores whole segments")
            continue
        if len(fmap.cards) > 2:
            large = f"factor '{fmap.name}' joins {len(fmap.cards)} variables"
            why |= dict.fromkeys(left & {METRIC, SEMIMETRIC}, large)
        why |= _doubts_of_form(fmap, left - why.keys(), first)
        left -= why.keys()
        if left and (text := _may_be_negative(fmap, first)):
            why |= dict.fromkeys(_lacking(-_parts(fmap), fmap.cards, left), text)
    constants, groups = parameters.constants, parameters.program.groups
    fixed = [] if constants is None else [(groups[g], table) for g, table in constants.tables.items()]
    for group, table in (*fixed, *((loss.group, loss.prices) for loss in priced)):
        left = of_tables - why.keys()
        lacking = left & {METRIC, SEMIMETRIC} if len(group.cards) > 2 else frozenset()
        lacking |= _lacking(table, group.cards, left - lacking)
        why |= {name: f"the tables of '{group.name}' are not {name}" for name in lacking}
    return why


def _of_structure(program: Program) -> frozenset[str]:
    """Return the properties that numbers of states and variables do not rule out."""
    possible = {SUBMODULAR, METRIC, SEMIMETRIC}
    for group in program.groups:
        if group.of_spans:
            possible.clear()
        elif group.arity > 2 and group.n_factors:
            possible -= {METRIC, SEMIMETRIC}
    return frozenset(possible | {BINARY} if program.card.max(initial=1) <= 2 else possible)


def _doubts_of_form(fmap: FeatureMap, wanted: frozenset[str], first: int) -> dict[str, str]:
    """Return which of the wanted properties the basis tables lack, and why."""
    if fmap.basis is None and not fmap.joint and sum(card > 1 for card in fmap.cards) > 1:
        lacking = wanted  # a table with a single one has none of them
    else:
        lacking = _lacking(_parts(fmap), fmap.cards, wanted)
    if not fmap.joint:
        return {name: f"the form of factor '{fmap.name}' is not {name}" for name in lacking}
    ends, parts, reasons = (fmap.row_ptr // fmap.n_configs * fmap.width).tolist(), _parts(fmap), dict[str, str]()
    for name in lacking:
        of_examples = (parts[lo:hi] for lo, hi in pairwise(ends))
        example = next(i for i, tables in enumerate(of_examples) if _lacking(tables, fmap.cards, frozenset({name})))
        reasons[name] = f"the joint features of factor '{fmap.name}' are not {name} in example {first + example}"
    return reasons


def _parts(fmap: FeatureMap) -> F64:
    """Return the tables that weights and features multiply; ``shape (m, prod(cards))``."""
    if fmap.joint:
        assert isinstance(fmap.features, np.ndarray)
        stacked = fmap.features.reshape(-1, fmap.n_configs, fmap.width)
        return np.ascontiguousarray(np.moveaxis(stacked, 2, 1)).reshape(-1, fmap.n_configs)
    return np.eye(fmap.n_configs) if fmap.basis is None else fmap.basis


def _may_be_negative(fmap: FeatureMap, first: int) -> str:
    """Return why some weight times feature may be negative (with joint features: some weight); empty when none can."""
    if fmap.block.lower_bound < 0.0:
        return f"weights of factor '{fmap.name}' may be negative (nonneg=True keeps them from it)"
    if fmap.features is None or fmap.joint:
        return ""
    if isinstance(fmap.features, SlicedRows):
        return f"{fmap.source} of factor '{fmap.name}' are not kept, so that their signs are not known"
    values = fmap.features.data if isinstance(fmap.features, SparseRows) else fmap.features.ravel()
    if values.min(initial=0.0) >= 0.0:
        return ""
    at = int(np.argmax(values < 0.0))
    if isinstance(fmap.features, SparseRows):
        row = int(np.searchsorted(fmap.features.ptr, at, side="right")) - 1
    else:
        row = at // fmap.width
    example = first + int(np.searchsorted(fmap.row_ptr, row, side="right")) - 1
    return f"{fmap.source} of factor '{fmap.name}' is negative in example {example} ({float(values[at]):.4g})"


def _lacking(tables: F64, cards: tuple[int, ...], wanted: frozenset[str]) -> frozenset[str]:
    """Return which of the wanted properties some table lacks; metrics and semimetrics are tables of two variables."""
    if cards != (2, 2) and tables.min(initial=0.0) == -np.inf:
        return wanted - {BINARY}
    t, lacking = tables.reshape(len(tables), *cards), set[str]()
    if SUBMODULAR in wanted:  # second differences in every two variables
        for i, j in combinations(range(1, t.ndim), 2):
            of_two = np.moveaxis(t, (i, j), (0, 1))
            if not _holds(of_two[:-1, :-1], of_two[1:, 1:], of_two[:-1, 1:], of_two[1:, :-1]):
                lacking.add(SUBMODULAR)
                break
    distances = wanted & {METRIC, SEMIMETRIC}
    if distances and not np.isfinite(t).all():
        return frozenset(lacking | distances)
    if METRIC in wanted:  # the triangle inequality
        for c in range(min(cards)):
            if not _holds(t, t[:, c, c, None, None], t[:, :, c, None], t[:, c, None, :]):
                lacking.add(METRIC)
                break
    if SEMIMETRIC in wanted:  # to go to another state and back costs something
        both = min(cards)
        square = t[:, :both, :both]
        own = np.einsum("kaa->ka", square)
        if not _holds(own[:, :, None], own[:, None, :], square, np.swapaxes(square, 1, 2)):
            lacking.add(SEMIMETRIC)
    return frozenset(lacking)


def _holds(a: F64, b: F64, c: F64, d: F64) -> bool:
    """Whether ``a + b >= c + d``, entry by entry; up to rounding, integers exactly."""
    left, right = a + b, c + d
    low = left < right
    if not low.any():
        return True
    size, integers = np.zeros(int(low.sum())), np.ones(int(low.sum()), dtype=bool)
    for term in (a, b, c, d):
        values = np.broadcast_to(term, low.shape)[low]
        size += np.where(np.isfinite(values), np.abs(values), 0.0)
        integers &= np.rint(values) == values
    return bool((left[low] >= right[low] - np.where(integers, 0.0, ROUNDING * size)).all())
