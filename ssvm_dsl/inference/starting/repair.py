"""Repairs labellings that break constraints, one constraint after the other, by what their kinds know."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.errors import PluginError
from ssvm_dsl.inference.deadline import Deadline
from ssvm_dsl.inference.starting.tables import HardFactors
from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import runs
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api.starting import ConstraintScores, StartingKind

#: How often all that is broken is repaired.
ROUNDS = 12


class Repair:
    """A labelling of one example on its way to one that keeps tables and constraints.

    What a repair has changed is worth more from then on, twice as much in each round, so that constraints which share
    variables come to an end: each is repaired where it costs least, and that is where the others did not have to.

    Parameters
    ----------
    program : Program
        One example, with the rules of its constraints.
    theta : Theta
        Its scores; ``-inf`` where masks and clamps rule a state out.
    labels : ndarray of int32, shape (V,)
        To begin with.
    """

    def __init__(self, program: Program, theta: Theta, labels: I32) -> None:
        self.program, self.labels = program, labels.copy()
        self.hard = HardFactors.of(program, theta)
        self._score = theta.node.copy()
        known = np.abs(theta.node[np.isfinite(theta.node)])
        self._worth, self._rng = float(known.max(initial=0.0)) + 1.0, np.random.default_rng(0)

    def run(self, until: Deadline) -> bool:
        """Repair what is broken, in a few rounds; return whether nothing is."""
        for number in range(ROUNDS):
            broken, hurt = list(self._broken()), bool(len(self.hard.hurt(self.labels)))
            if not broken and not hurt:
                return True
            if number and until.over:
                return False
            for place in self._order(broken, number):
                self._restart(*broken[place])
            if self.hard.n_factors and len(self.hard.hurt(self.labels)):
                self._take(np.arange(self.program.n_variables), self.hard.labels(self._score)[0])
            self._worth *= 2.0
        return False

    def _broken(self) -> Iterator[tuple[ConstraintGroup, int]]:
        """Yield the constraints that are broken."""
        for group in self.program.constraints:
            for k in np.flatnonzero(group.broken(self.labels, self.program.var_ptr)).tolist():
                yield group, k

    def _order(self, broken: list[tuple[ConstraintGroup, int]], number: int) -> list[int]:
        """Return an order of constraints: large ones first, later any."""
        if number > 1:
            return [int(one) for one in self._rng.permutation(len(broken))]
        sizes = [group.literal_ptr[k] - group.literal_ptr[k + 1] for group, k in broken]
        return [int(one) for one in np.argsort(np.array(sizes, dtype=np.int64), kind="stable")]

    def _restart(self, group: ConstraintGroup, k: int) -> None:
        """Take the states that the kind of a constraint proposes for it, if it does."""
        if not isinstance(group.rules, StartingKind):
            return
        variables, scores = scores_of(self.program, self._score, group, k)
        try:
            found = group.rules.start(group, k, scores)
        except PluginError:  # a stranger's kind fails: others of its methods may do
            return
        if found is not None:
            self._take(variables, found)

    def _take(self, variables: I64, states: I32) -> None:
        """Change labels; what is changed is worth more from now on."""
        changed = self.labels[variables] != states
        at = self.program.state_ptr[:-1][variables[changed]] + states[changed]
        self._score[at] += self._worth
        self.labels[variables] = states


def scores_of(program: Program, score: F64, group: ConstraintGroup, k: int) -> tuple[I64, ConstraintScores]:
    """Return (the variables of a constraint of one example, each once; what their states score).

    Parameters
    ----------
    program : Program
        One example.
    score : ndarray of float64, shape (S,)
    """
    part = group.literals(k)
    variables, place = np.unique(group.variable[part], return_inverse=True)
    number: I64 = variables.astype(np.int64)
    card = program.card[number]
    ptr = np.zeros(len(number) + 1, dtype=np.int64)
    np.cumsum(card, out=ptr[1:])
    own = score[runs(program.state_ptr[:-1][number], card)]
    place = place.reshape(-1).astype(np.int64)
    return number, ConstraintScores(place, group.state[part], group.negated[part], ptr, own)
