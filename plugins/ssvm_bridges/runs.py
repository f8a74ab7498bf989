"""``runs-to-ages``: how long states of a chain last becomes ages along it, auxiliary variables of few states.

The age a[t] is how many positions the class of position t has lasted, up to the largest number that a bound tells
apart, A.  s[t] says whether the class changes at t.  With y[t] for the class (Ferguson 1980 has hidden Markov models of
explicit durations; here the duration is counted, and any other factors stay as they are)::

    s[t] = (y[t] != y[t - 1])                       one table of K x K x 2
    a[t] = 1 if s[t] else min(a[t - 1] + 1, A)      one table of 2 x A x A
    s[t] only if a[t - 1] >= least of y[t - 1],     one table of K x A x 2
    not s[t] only if a[t - 1] < most of y[t - 1]

Elimination along the chain takes O(n K A (K + A)): tables of four variables, (y[t - 1], a[t - 1], y[t], a[t]), would
take O(n K^2 A^2).  Ages and changes are functions of the labelling, so that each labelling has one completion.  Where
the ends of a sequence may cut runs, ages of the first run are states of their own: nothing need be old enough there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ssvm_dsl.ir import I64, Bools, ConstraintGroup, Program
from ssvm_dsl.plugin_api import Rewrite, Verdict, pause

#: Entries that elimination looks at for one position at most, and for all of an example.
MOST_ENTRIES, MOST_IN_ALL = 2.0**22, 2.0**31


@dataclass(frozen=True, eq=False)
class Lasting:
    """The bounds of the classes of a chain.

    Parameters
    ----------
    variable : ndarray of int64, shape (n,)
        Of each position.
    least, most : ndarray of int64, shape (K,)
        ``most`` is 0 where there is no bound.
    cut : bool
        Whether the first and the last run may be shorter.
    """

    variable: I64
    least: I64
    most: I64
    cut: bool

    @property
    def n_ages(self) -> int:
        """The largest age that is told apart."""
        return int(max(self.least.max(), self.most.max(), 1))

    @property
    def n_first(self) -> int:
        """States of the ages of the first run, where it may be shorter."""
        return int(max(self.most.max(), 1)) if self.cut else 0

    def old_enough(self) -> Bools:
        """Return which classes may end at which ages; ``shape (K, n_ages + n_first)``."""
        ages = np.arange(1, self.n_ages + 1)
        grown = ages >= self.least[:, None]
        return np.concatenate([grown, np.ones((len(self.least), self.n_first), dtype=bool)], axis=1)

    def young_enough(self, spare: int) -> Bools:
        """Return which classes may have which ages, with so many positions to come; as :meth:`old_enough`."""
        ages = np.concatenate([np.arange(1, self.n_ages + 1), np.arange(1, self.n_first + 1)])
        return (ages + spare <= self.most[:, None]) | (self.most == 0)[:, None]

    def next_age(self) -> I64:
        """Return the age that follows each one within a run; ``shape (n_ages + n_first,)``."""
        ages = np.minimum(np.arange(1, self.n_ages + 1), self.n_ages - 1)
        first = self.n_ages + np.minimum(np.arange(1, self.n_first + 1), self.n_first - 1)
        return np.concatenate([ages, first])


class RunsToAges:
    """Ages of the runs of classes, of chains whose positions have one variable each."""

    def check(self, example: Program) -> Verdict:
        """Accept bounds on all positions of a variable each, of few ages."""
        group, total = example.constraints[0], 0.0
        for k in range(group.n_constraints):
            pause()
            lasting = _lasting(example, group, k)
            if lasting is None:
                why = "it takes runs of states of one variable at each position, and the literals are others"
                return Verdict(False, reasons=(why,))
            classes, ages = float(len(lasting.least)), float(lasting.n_ages + lasting.n_first)
            entries = 2.0 * classes * ages * (classes + ages)
            if entries > MOST_ENTRIES:
                why = f"{ages:.0f} ages and {classes:.0f} states make tables of {entries:.2g} entries at each position"
                return Verdict(False, reasons=(why,))
            total += entries * len(lasting.variable)
        if total > MOST_IN_ALL:
            return Verdict(False, reasons=(f"tables of {total:.2g} entries in all",))
        return Verdict(True, total)

    def lower(self, example: Program) -> Rewrite:
        """Return the ages of each constraint."""
        group, made = example.constraints[0], Rewrite.of(example)
        for k in range(group.n_constraints):
            lasting = _lasting(example, group, k)
            assert lasting is not None, "check has accepted it"
            if len(lasting.variable):
                _add_ages(made, lasting)
        return made


def _add_ages(made: Rewrite, lasting: Lasting) -> None:
    """Add the variables and tables of one chain."""
    classes, ages = len(lasting.least), lasting.n_ages + lasting.n_first
    old, young = lasting.old_enough(), lasting.young_enough(0)
    every = np.arange(ages)
    changes = np.broadcast_to(np.stack([np.eye(classes, dtype=bool), ~np.eye(classes, dtype=bool)], axis=2),
                              (classes, classes, 2))  # fmt: skip
    grows = np.zeros((2, ages, ages), dtype=bool)
    grows[0, every, lasting.next_age()] = True
    grows[1, :, 0] = True
    may = np.stack([lasting.young_enough(1), old], axis=2) & young[:, :, None]
    previous, age = int(lasting.variable[0]), made.variable(ages)
    begun = np.zeros(ages, dtype=bool)
    begun[lasting.n_ages if lasting.cut else 0] = True
    made.table((age,), begun)
    for y in lasting.variable[1:].tolist():
        pause()
        change, older = made.variable(2), made.variable(ages)
        made.table((previous, y, change), np.ascontiguousarray(changes))
        made.table((previous, age, change), may)
        made.table((change, age, older), grows)
        previous, age = y, older
    made.table((previous, age), young if lasting.cut else young & old)


def _lasting(example: Program, group: ConstraintGroup, k: int) -> Lasting | None:
    """Return the bounds of constraint k; ``None`` where its literals are others than those of a chain."""
    part, n = group.literals(k), int(group.meta["n"][k])
    position, least, most = (group.literal_meta[name][part].astype(np.int64) for name in ("position", "least", "most"))
    variable, state = group.variable[part].astype(np.int64), group.state[part].astype(np.int64)
    kind = group.literal_meta["class"][part].astype(np.int64)
    if n == 0:
        return Lasting(variable[:0], np.ones(1, np.int64), np.zeros(1, np.int64), False)
    if not len(position) or len(position) % n or (position < 0).any() or (position >= n).any():
        return None
    at = np.full(n, -1, dtype=np.int64)
    at[position] = variable
    classes = example.card[at[0]]
    place = np.zeros((classes, n), dtype=np.int64)
    if (at < 0).any() or (example.card[at] != classes).any() or len(np.unique(at)) < n:
        return None
    np.add.at(place, (state, position), 1)
    whole = (place == place[:, :1]).all() and place.max() == 1 and (at[position] == variable).all()
    if not whole or group.negated[part].any():
        return None
    low, high, names = np.ones(classes, np.int64), np.zeros(classes, np.int64), np.full(classes, -1, dtype=np.int64)
    low[state], names[state] = least, kind
    high[state] = np.where(most >= n, 0, most)
    bounded = np.flatnonzero(names >= 0)
    if (names[state] != kind).any() or len(np.unique(names[bounded])) < len(bounded):
        return None
    return Lasting(at, np.minimum(low, n + 1), high, bool(group.meta["cut"][k]))
