"""Bounds that are lowered by few calls of the oracles at a time, for scores that change little in between.

Training on dual losses asks about an example again and again (Meshi et al. 2010, section 6).  Besides the prices it
keeps the planes of the parts, labellings with their weights in the combination: they are scored anew, and the method of
:mod:`ssvm_backends.decomposition.bundle` goes on as if it had never stopped.

A part's best labelling is the slope of its maximum.  A factor has its joint state in the part that it is in.  A
variable shares its scores equally among the parts that have it, so that its marginals are the mean of theirs.
"""

from __future__ import annotations

import numpy as np

from ssvm_backends.decomposition.bundle import PriceBundle, clear, new_bundle
from ssvm_backends.decomposition.descent import PriceDescent
from ssvm_backends.decomposition.parts import DualSubproblem, owners_of
from ssvm_dsl.ir import (
    F64,
    I32,
    I64,
    Bools,
    DualBound,
    Marginals,
    Messages,
    Prices,
    Program,
    Question,
    Terms,
    Theta,
    pointers,
    positions,
)
from ssvm_dsl.plugin_api import Clock

# -- Prices as they are kept from one question about an example to the next one, in training -------------------------
#
# Weights change little from call to call, and so do the best prices and the lengths of steps.  Of an example these are
# its step, then the prices of those parts that have variables of it, part by part.

#: Steps that were kept are taken to be within this factor of the usual ones.
FURTHEST = 1e3


class PriceStore:
    """Reads and writes the prices of a program's examples.

    Parameters
    ----------
    program : Program
    member : ndarray of bool, shape (K, V)
        Which variables are in a part.
    """

    def __init__(self, program: Program, member: Bools) -> None:
        self.program, self.member = program, member

    def places(self, i: int) -> tuple[slice, I64, Bools]:
        """Return the states of an example, the parts that it has, and which states these have."""
        variables = slice(*self.program.var_ptr[i : i + 2].tolist())
        states = slice(*self.program.state_ptr[self.program.var_ptr[i : i + 2]].tolist())
        mine = self.member[:, variables]
        parts = np.flatnonzero(mine.any(axis=1))
        return states, parts, np.repeat(mine[parts], self.program.card[variables], axis=1)

    def read(self, prices: Messages, center: F64, step: F64) -> None:
        """Write prices and steps of the examples that there are any of; those of other parts than today's are left out.

        Parameters
        ----------
        prices : Messages
        center : ndarray of float64, shape (K, S)
            Written; the prices of a state sum to zero over the parts that have it.
        step : ndarray of float64, shape (B,)
            Written.
        """
        for k, i in enumerate(prices.ids.tolist()):
            values = prices.values[prices.ptr[k] : prices.ptr[k + 1]]
            states, parts, there = self.places(i)
            if len(values) != 1 + there.size or not np.isfinite(values).all():
                continue
            mine = np.where(there, values[1:].reshape(there.shape), 0.0)
            mine -= there * (mine.sum(axis=0) / np.maximum(there.sum(axis=0), 1))
            center[parts, states] = mine
            step[i] = np.clip(values[0], step[i] / FURTHEST, step[i] * FURTHEST)

    def written(self, ids: I64, center: F64, step: F64) -> Prices:
        """Return the prices and steps of some examples."""
        rows = []
        for i in ids.tolist():
            states, parts, _ = self.places(i)
            rows.append(np.concatenate([step[i : i + 1], center[parts, states].ravel()]))
        ptr = pointers(np.array([len(one) for one in rows], dtype=np.int64))
        return Prices(ids.copy(), ptr, np.concatenate([np.zeros(0), *rows]))


#: Labellings that each part of an example keeps.
FEW_PLANES = 12


class DualSteps:
    """Bounds of the examples of a program that is cut into parts.

    Parameters
    ----------
    program : Program
    parts : list of DualSubproblem
    tol : float
        As for :class:`~ssvm_backends.decomposition.descent.PriceDescent`.
    """

    def __init__(self, program: Program, parts: list[DualSubproblem], tol: float) -> None:
        self.program, self.parts, self.tol = program, parts, tol
        self.members, self.owners = np.stack([part.member for part in parts]), owners_of(program, parts)
        self.prices = PriceStore(program, self.members)

    def lowered(self, question: Question, most: int, clock: Clock) -> DualBound:
        """Return bounds after so many calls of the oracles, or those that the question allows, with their slopes.

        Raises
        ------
        OutOfTime
        """
        program, ids, given = self.program, question.ids(self.program), question.theta
        theta = Theta(question.masked_node(program), given.pool, given.tables, given.const)
        bundle = new_bundle(program.var_ptr, program.state_ptr, self.members, FEW_PLANES)
        descent = PriceDescent(program, self.parts, bundle, self._terms(theta, ids), self.tol)
        limit = question.limits.iterations
        most = most if limit is None else min(most, limit)
        kept = question.warm if isinstance(question.warm, Messages) else None
        if kept is not None:
            self.prices.read(self._prices_alone(kept), bundle.center, descent.step)
        clear(bundle, ids)
        if kept is not None and most:
            self._read_planes(kept, theta, bundle)
        lowest = descent.lower(ids, theta, clock, most)
        return DualBound(0.0, lowest.bound, self._slope(ids, lowest.labels), self._written(ids, bundle, descent.step))

    def _terms(self, theta: Theta, ids: I64) -> Terms:
        """Return the terms of some examples, in arrays for all."""
        n, some = self.program.n_examples, Terms.of(self.program, theta, ids)
        count, size, spread = np.zeros(n, some.count.dtype), np.zeros(n), np.zeros(n)
        count[ids], size[ids], spread[ids] = some.count, some.size, some.spread
        return Terms(count, size, spread, np.zeros(n, dtype=bool))

    def _slope(self, ids: I64, labels: list[I32]) -> Marginals:
        """Return the marginals of the labellings of the parts, which are packed over some examples."""
        program, variables = self.program, positions(self.program.var_ptr, ids)
        card = program.card[variables]
        node, first = np.zeros(int(card.sum())), pointers(card.astype(np.int64))[:-1]
        full = np.zeros((len(labels), program.n_variables), np.int32)
        share = 1.0 / self.members[:, variables].sum(axis=0)
        for k, mine in enumerate(labels):
            full[k, variables] = mine
            there = self.members[k, variables]
            node[first[there] + mine[there]] += share[there]
        tables = []
        for group, owner in zip(program.groups, self.owners, strict=True):
            here, scope = owner[positions(group.ptr, ids)], group.shapes.variables(ids)
            config = full[here[:, None], scope] @ group.strides
            tables.append((config[:, None] == np.arange(group.n_configs)).astype(np.float64))
        return Marginals(node, tuple(tables))

    # -- kept of an example: its step and prices, then of each part the number of planes, their weights and labels -----

    def _n_prices(self, i: int) -> int:
        return 1 + int(self.prices.places(i)[2].size)

    def _prices_alone(self, kept: Messages) -> Messages:
        """Return messages without planes."""
        ends = [kept.ptr[n] + self._n_prices(i) for n, i in enumerate(kept.ids.tolist())]
        some = [kept.values[first:end] for first, end in zip(kept.ptr[:-1].tolist(), ends, strict=True)]
        sizes = np.array([len(one) for one in some], dtype=np.int64)
        return Messages(kept.ids, pointers(sizes), np.concatenate([np.zeros(0), *some]))

    def _read_planes(self, kept: Messages, theta: Theta, bundle: PriceBundle) -> None:
        """Take over the planes of examples, at other scores."""
        program = self.program
        for n, i in enumerate(kept.ids.tolist()):
            first, stop = program.var_ptr[i : i + 2].tolist()
            if first == stop:
                continue
            variables = np.arange(first, stop)
            values, at = kept.values[: kept.ptr[n + 1]], int(kept.ptr[n]) + self._n_prices(i)
            for k in range(len(self.parts)):
                if at >= len(values):
                    break  # there are none: messages of a search
                size, at = int(values[at]), at + 1
                weight = values[at : at + size]
                end = at + size * (1 + len(variables))
                labels = values[at + size : end].reshape(size, len(variables)).astype(np.int32)
                at = end
                if not size:
                    continue
                bundle.size[k, i], bundle.weight[k, :size, i] = size, weight
                bundle.labels[k, :size, variables] = labels.T
                bundle.height[k, :size, i] = self._heights(k, i, labels, theta)
                mine = variables[self.members[k, variables]]
                states = (program.state_ptr[mine] + labels[:, mine - first]).ravel()
                amount = np.repeat(weight, len(mine))
                np.add.at(bundle.nu[k], states, amount)
                np.add.at(bundle.mean, states, amount / np.tile(bundle.n_members[mine], size))

    def _heights(self, k: int, i: int, labels: I32, theta: Theta) -> F64:
        """Return the scores of labellings of an example in a part, without prices."""
        program, first = self.program, self.program.var_ptr[i]
        variables = np.arange(first, program.var_ptr[i + 1])
        mine = variables[self.members[k, variables]]
        shares = theta.node[program.state_ptr[mine] + labels[:, mine - first]] / self.members[:, mine].sum(axis=0)
        total: F64 = shares.sum(axis=1)
        example = np.array([i], dtype=np.int64)
        for group, owner, table in zip(program.groups, self.owners, theta.tables, strict=True):
            here = owner[group.ptr[i] : group.ptr[i + 1]] == k
            if here.any():
                config = labels[:, group.shapes.variables(example)[here] - first] @ group.strides
                total += table[group.table_rows(example)[here], config].sum(axis=1)
        return total

    def _written(self, ids: I64, bundle: PriceBundle, step: F64) -> Messages:
        """Return the prices, steps and planes of some examples."""
        prices, chosen = self.prices.written(ids, bundle.center, step), []
        for n, i in enumerate(ids.tolist()):
            rows = [prices.values[prices.ptr[n] : prices.ptr[n + 1]]]
            lo, hi = self.program.var_ptr[i : i + 2]
            for k in range(len(self.parts)):
                size = int(bundle.size[k, i])
                rows += [np.array([float(size)]), bundle.weight[k, :size, i]]
                rows.append(bundle.labels[k, :size, lo:hi].ravel().astype(np.float64))
            chosen.append(np.concatenate(rows))
        ptr = pointers(np.array([len(one) for one in chosen], dtype=np.int64))
        return Messages(ids.copy(), ptr, np.concatenate([np.zeros(0), *chosen]))
