"""``logic-to-tables``: constraints over few variables become tables of the joint states that keep them."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from ssvm_dsl.ir import I32, I64, Bools, ConstraintGroup, Program, pointers
from ssvm_dsl.plugin_api import Rewrite, Verdict, pause

#: Base-2 logarithm of the entries of one table at most, and variables of it.
MOST_BITS, MOST_VARIABLES = 12, 12

#: Literals of a constraint that are looked at first: most constraints that are too large show it there.
LOOKED_AT = 4 * MOST_VARIABLES


class LogicToTables:
    """Asks the kind about all joint states of the variables of each constraint."""

    def check(self, example: Program) -> Verdict:
        """Accept constraints over few variables each; nothing but their joint states is looked at."""
        group, total = example.constraints[0], 0
        if group.without_rows:
            return Verdict(False, reasons=("such a constraint is asked about whole labellings, as a Custom is",))
        for k in range(group.n_constraints):
            pause()
            most = f"tables have up to {MOST_VARIABLES} variables and {2**MOST_BITS} entries, a constraint has"
            if len(np.unique(group.variable[group.literals(k)][:LOOKED_AT])) > MOST_VARIABLES:
                return Verdict(False, reasons=(f"{most} more",))
            scope = _scope(group, k)
            bits = float(np.log2(example.card[scope]).sum())
            if len(scope) > MOST_VARIABLES or bits > MOST_BITS:
                return Verdict(False, reasons=(f"{most} {len(scope)} and {_power(bits)}",))
            total += prod(example.card[scope].tolist())
        return Verdict(True, float(total))

    def lower(self, example: Program) -> Rewrite:
        """Return a table for each constraint that rules anything out; equal ones are computed once."""
        group, made = example.constraints[0], Rewrite.of(example)
        known: dict[tuple[object, ...], Bools] = {}
        for k in range(group.n_constraints):
            pause()
            scope = _scope(group, k)
            cards = example.card[scope]
            constraint = _alone(group, k)
            place = np.searchsorted(scope, constraint.variable).astype(np.int32)
            numbers = (*constraint.meta.values(), *constraint.literal_meta.values())
            arrays = (cards, place, constraint.state, constraint.negated, *numbers)
            key = tuple(array.tobytes() for array in arrays)
            if key not in known:
                known[key] = _allowed(constraint, place, cards)
            if len(scope):
                made.table(scope.tolist(), known[key])
            elif not known[key].all():
                made.never()
        return made


def _power(bits: float) -> str:
    """Return a number in words; one of more digits than can be printed as a power of two."""
    return str(round(2.0**bits)) if bits < 50.0 else f"2^{bits:.0f}"


def _scope(group: ConstraintGroup, k: int) -> I32:
    """Return the variables of a constraint, each once."""
    return np.unique(group.variable[group.literals(k)])


def _alone(group: ConstraintGroup, k: int) -> ConstraintGroup:
    """Return one constraint of an example."""
    return group.only(np.array([k], dtype=np.int64))


def _allowed(constraint: ConstraintGroup, place: I32, cards: I32) -> Bools:
    """Return which joint states of the variables keep a constraint; ``shape (*cards)``.

    The kind is asked about one constraint for each joint state.
    """
    n = prod(cards.tolist())
    l = len(constraint.variable)
    literal_ptr: I64 = np.arange(n + 1, dtype=np.int64) * l
    several = replace(
        constraint,
        ptr=pointers(np.ones(n, dtype=np.int64)),
        literal_ptr=literal_ptr,
        variable=np.tile(place, n),
        state=np.tile(constraint.state, n),
        negated=np.tile(constraint.negated, n),
        meta={name: np.repeat(value, n, axis=0) for name, value in constraint.meta.items()},
        literal_meta={name: np.concatenate([value] * n) for name, value in constraint.literal_meta.items()},
    )
    labels = np.indices(cards.tolist()).reshape(len(cards), n).T.astype(np.int32)
    broken = several.broken(labels.ravel(), np.arange(n + 1, dtype=np.int64) * len(cards))
    return np.asarray(~broken.reshape(cards.tolist()))
