"""Auxiliary variables that say whether all variables of a factor have the same state.

A table over n variables with K states has K^n entries.  A Potts factor with a weight gamma >= 0 needs none of them
(the P^n Potts model of Kohli, Kumar and Torr, CVPR 2007): with one more variable a, which names a state or is free,

    gamma [y_1 = ... = y_n]  =  max_a  sum over i of t(a, y_i) + u(a),

    u(k) = gamma,   t(k, s) = -gamma [s != k];       u(free) = 0,   t(free, s) = 0,

as naming a state is worth ``gamma (1 - m)`` where m variables have another one.  Scores are linear in gamma, factors
are pairs, and tables are metrics.  For two states there are two variables, one for each state, with two states of their
own, in such an order that tables are submodular: one minimum cut is exact.

At the best labelling, and at labels that are known, a follows from the others: training stays convex, and its loss and
predictions do not see a.  Sums over labellings would: log Z and the k best labellings are not those of y alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.lang.outputs.labels import Label, Latent, Target

#: Factors of fewer variables have tables.
LEAST_ARITY = 4


class Auxiliary(Label):
    """Variables of the compiler beside those of the user, whose states follow from these."""

    @property
    def is_latent(self) -> bool:
        """Whether they follow from variables that are never observed."""
        return False


class Agreement(Auxiliary):
    """The auxiliary variables of a Potts factor, one for each of its sets of variables.

    Parameters
    ----------
    of : Target
        The sets.
    named : tuple of int or None
        The state of the set's variables that each auxiliary state names; ``None``: it is free.
    name : str
    """

    of: Target
    named: tuple[int | None, ...]

    def __init__(self, of: Target, named: tuple[int | None, ...], name: str) -> None:
        super().__init__(len(named))
        for key, value in (("of", of), ("named", named), ("name", name)):
            object.__setattr__(self, key, value)

    @property
    def is_latent(self) -> bool:
        """Whether the variables of the sets are never observed."""
        return isinstance(self.of.label, Latent)

    def states_of(self, states: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the states that follow from those of the sets' variables, ``shape (n, r)``."""
        first = states[:, 0]
        alike = (states == first[:, None]).all(axis=1)
        out = np.full(len(states), self.named.index(None), dtype=np.int32)
        for state, name in enumerate(self.named):
            if name is not None:
                out[alike & (first == name)] = state
        return out


class FactorTerm(NamedTuple):
    """Factors that the compiler makes of a template, with its weights.

    Parameters
    ----------
    name : str
    target : Target
        What they join.
    basis : ndarray, shape (p, prod(target.cards)), optional
        Their form; ``None``: a weight for each joint state.
    """

    name: str
    target: Target
    basis: NDArray[np.float64] | None


def agreements_of(target: Target, name: str) -> tuple[Agreement, ...]:
    """Return the auxiliary variables of a Potts factor."""
    k = target.label.n_states
    if k == 2:
        orders: list[tuple[int | None, ...]] = [(0, None), (None, 1)]
        return tuple(Agreement(target, order, f"{name}: all {state}") for state, order in enumerate(orders))
    return (Agreement(target, (*range(k), None), f"{name}: all alike"),)


def factor_terms(agreements: tuple[Agreement, ...]) -> tuple[FactorTerm, ...]:
    """Return the factors that join auxiliary variables with the variables of their sets."""
    out = []
    for one in agreements:
        label = one.of.label
        unary = np.array([[float(name is not None) for name in one.named]])
        pair = [[-float(name is not None and name != s) for s in range(label.n_states)] for name in one.named]
        alone = Target("agreement", (one, label))
        members = Target("members", (one, label))
        out.append(FactorTerm(one.name, alone, unary))
        out.append(FactorTerm(f"{one.name}, members", members, np.array(pair).reshape(1, -1)))
    return tuple(out)
