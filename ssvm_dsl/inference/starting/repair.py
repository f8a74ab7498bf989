"""Repairs labellings that tables or constraints rule out.

States that no table rules out are looked for where the score is ``-inf``; constraints that are broken are repaired one
after the other, by what their kinds know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.deadline import Deadline
from ssvm_dsl.errors import PluginError
from ssvm_dsl.ir.constraints import ConstraintGroup, broken_constraints
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import pointers, runs, slices
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api.constraints import ConstraintScores, StartingKind
from ssvm_dsl.scores.labellings import score_labels


@dataclass(frozen=True, eq=False)
class HardFactors:
    """The factors of a program whose tables rule joint states out.

    Parameters
    ----------
    program : Program
    pool : ndarray of float64
        The tables.
    slot_ptr : ndarray of int64, shape (F + 1,)
    scope : ndarray of int32
        The variable of each slot.
    table : ndarray of int64, shape (F,)
        Where the table of each factor begins.
    factor_ptr : ndarray of int64, shape (V + 1,)
    factor : ndarray of int64
        The factors of each variable.
    """

    program: Program
    pool: F64
    slot_ptr: I64
    scope: I32
    table: I64
    factor_ptr: I64
    factor: I64

    @classmethod
    def of(cls, program: Program, theta: Theta) -> HardFactors:
        """Return those of a program with these scores; tables that allow everything are left out."""
        scopes, tables, arity = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for group, table, offset in zip(program.groups, theta.tables, theta.offsets, strict=False):
            hard = np.asarray(np.isneginf(table).any(axis=1))
            if not group.n_factors or not hard.any():
                continue
            row = group.table_rows()
            mine = np.flatnonzero(hard[row])
            scopes.append(group.shapes.variables()[mine].ravel())
            tables.append(offset + row[mine].astype(np.int64) * group.n_configs)
            arity.append(np.full(len(mine), group.arity, dtype=np.int64))
        slot_ptr, scope = pointers(np.concatenate(arity)), np.concatenate(scopes)
        of_slot = np.repeat(np.arange(len(slot_ptr) - 1, dtype=np.int64), np.diff(slot_ptr))
        degree = np.bincount(scope, minlength=program.n_variables)
        by_variable = of_slot[np.argsort(scope, kind="stable")]
        return cls(program, theta.pool, slot_ptr, scope, np.concatenate(tables), pointers(degree), by_variable)

    @property
    def n_factors(self) -> int:
        """How many there are."""
        return len(self.table)

    def labels(self, score: F64) -> tuple[I32, Bools]:
        """Return (labels, which variables have no state that is in any joint state: a proof that there are none).

        Parameters
        ----------
        score : ndarray of float64, shape (S,)
            What is best; ``-inf`` rules a state out.
        """
        from ssvm_dsl.kernels.flat import FactorLists
        from ssvm_dsl.kernels.propagation import take_states

        program = self.program
        labels, dead = np.zeros(program.n_variables, np.int32), np.zeros(program.n_variables, dtype=bool)
        lists = FactorLists(
            program.card, program.state_ptr, self.slot_ptr, self.scope, self.table, self.factor_ptr, self.factor
        )
        take_states(lists, score, self.pool, score > -np.inf, labels, dead)
        return labels, dead

    def hurt(self, labels: I32) -> I64:
        """Return the factors whose joint states are ruled out."""
        return np.flatnonzero(self.pool[self._entries(labels)] == -np.inf)

    def _entries(self, labels: I32) -> I64:
        """Return where in the pool the joint state of each factor is."""
        card = self.program.card[self.scope].astype(np.int64)
        position = np.zeros(self.n_factors, dtype=np.int64)
        arity = np.diff(self.slot_ptr)
        for k in range(int(arity.max(initial=0))):
            mine = np.flatnonzero(arity > k)
            slot = self.slot_ptr[mine] + k
            position[mine] = position[mine] * card[slot] + labels[self.scope[slot]]
        return self.table + position


#: How often all that is broken is repaired.
ROUNDS = 12


class Repair:
    """Labellings on their way to ones that keep tables and constraints.

    What a repair has changed is worth more from then on, twice as much in each round, so that constraints which share
    variables come to an end: each is repaired where it costs least, and that is where the others did not have to.

    Parameters
    ----------
    program : Program
        With the rules of its constraints.
    theta : Theta
        Its scores; ``-inf`` where masks and clamps rule a state out.
    labels : ndarray of int32, shape (V,)
        To begin with; not written to.
    hard : HardFactors, optional
        Those of the program, where they are there already.
    """

    def __init__(self, program: Program, theta: Theta, labels: I32, hard: HardFactors | None = None) -> None:
        self.program, self.theta, self.labels = program, theta, labels.copy()
        self.hard = HardFactors.of(program, theta) if hard is None else hard
        largest = max((_size(theta.node[part]) for part in slices(len(theta.node))), default=0.0)
        self._score, self._number = theta.node.copy(), 0
        self._worth, self._rng = largest + 1.0, np.random.default_rng(0)

    def run(self, until: Deadline, rounds: int = ROUNDS) -> Bools:
        """Repair what is broken, in a few rounds; return which examples keep everything."""
        for _ in range(rounds):
            broken, hurt = list(self._broken()), bool(len(self.hard.hurt(self.labels)))
            if (not broken and not hurt) or (self._number and until.over):
                break
            for place in self._order(broken):
                self._restart(*broken[place])
            if self.hard.n_factors and len(self.hard.hurt(self.labels)):
                self._take(np.arange(self.program.n_variables), self.hard.labels(self._score)[0])
            self._worth, self._number = 2.0 * self._worth, self._number + 1
        return self.kept()

    def kept(self) -> Bools:
        """Return which examples keep tables and constraints; ``ndarray, shape (B,)``."""
        program = self.program
        ids = np.arange(program.n_examples, dtype=np.int64)
        ruled_out = score_labels(program, self.theta, self.labels, ids) == -np.inf
        broken = broken_constraints(program.constraints, self.labels, program.var_ptr, ids)
        return np.asarray(~(ruled_out | broken))

    def example(self, i: int) -> Repair:
        """Return one example where it stands, to go on with."""
        program = self.program
        inner = slice(*program.var_ptr[i : i + 2].tolist())
        states = slice(int(program.state_ptr[inner.start]), int(program.state_ptr[inner.stop]))
        theta = replace(self.theta, node=self.theta.node[states], const=self.theta.const[i : i + 1])
        made = Repair(program.example(i), theta, self.labels[inner])
        made._score, made._number, made._worth = self._score[states].copy(), self._number, self._worth
        return made

    def _broken(self) -> Iterator[tuple[ConstraintGroup, int]]:
        """Yield the constraints that are broken."""
        for group in self.program.constraints:
            for k in np.flatnonzero(group.broken(self.labels, self.program.var_ptr)).tolist():
                yield group, k

    def _order(self, broken: list[tuple[ConstraintGroup, int]]) -> list[int]:
        """Return an order of constraints: the rich ones first, later any."""
        if self._number > 1:
            return [int(one) for one in self._rng.permutation(len(broken))]
        return sorted(range(len(broken)), key=lambda place: _poverty(broken[place][0]))

    def _restart(self, group: ConstraintGroup, k: int) -> None:
        """Take the states that the kind of a constraint proposes for it, if it does."""
        if not isinstance(group.rules, StartingKind):
            return
        variables, scores = scores_of(self.program, self._score, group, k)
        try:
            states = group.rules.start(group, k, scores)
        except PluginError:  # a stranger's kind fails: others of its methods may do
            return
        if states is not None:
            self._take(variables, states)

    def _take(self, variables: I64, states: I32) -> None:
        """Change labels; what is changed is worth more from now on."""
        changed = self.labels[variables] != states
        at = self.program.state_ptr[:-1][variables[changed]] + states[changed]
        self._score[at] += self._worth
        self.labels[variables] = states


def _size(score: F64) -> float:
    """Return the largest finite absolute score."""
    return float(np.abs(score[np.isfinite(score)]).max(initial=0.0))


def _poverty(group: ConstraintGroup) -> tuple[float, float]:
    """Return how little a constraint says of its literals, for sorting: bounds on sums leave most to choose."""
    return -len(group.literal_meta), -len(group.variable) / max(1, group.n_constraints)


def scores_of(program: Program, score: F64, group: ConstraintGroup, k: int) -> tuple[I64, ConstraintScores]:
    """Return (the variables of a constraint, each once; what their states score).

    Parameters
    ----------
    program : Program
    score : ndarray of float64, shape (S,)
    group : ConstraintGroup
        Of this program.
    k : int
    """
    part = group.literals(k)
    variables: I32 = group.variable[part]
    place: I64 = np.arange(len(variables), dtype=np.int64)
    if (np.diff(variables) <= 0).any():
        variables, place = np.unique(variables, return_inverse=True)
    place = place.reshape(-1).astype(np.int64, copy=False)
    named = place, group.state[part], group.negated[part]
    if len(variables) == program.n_variables:  # all there are, in order
        number = np.arange(program.n_variables, dtype=np.int64)
        return number, ConstraintScores(*named, program.state_ptr, score.copy())
    number = program.var_ptr[group.example_of[k]] + variables.astype(np.int64)
    card = program.card[number]
    own = score[runs(program.state_ptr[:-1][number], card)]
    return number, ConstraintScores(*named, pointers(card), own)
