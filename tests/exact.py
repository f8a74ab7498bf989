"""Scores of all labellings in exact arithmetic: every double is a whole number times a power of two."""

from __future__ import annotations

from fractions import Fraction

import numpy as np


def whole_numbers(values, unit):
    """Return finite doubles as Python integers, in multiples of ``2**unit`` (0 where they are ``-inf``)."""
    finite = np.isfinite(values)
    mantissa, exponent = np.frexp(np.where(finite, values, 0.0))
    whole = (mantissa * 2.0**53).astype(np.int64)
    shift = np.where(whole == 0, 0, exponent - 53 - unit)
    return [int(m) << s if s >= 0 else int(m) >> -s for m, s in zip(whole.ravel().tolist(), shift.ravel().tolist())]


def finest(*arrays):
    """Return the power of two that all finite numbers of some arrays are multiples of."""
    values = np.concatenate([np.ravel(one) for one in arrays])
    values = values[np.isfinite(values) & (values != 0.0)]
    if not len(values):
        return 0
    mantissa, exponent = np.frexp(values)
    whole = np.abs((mantissa * 2.0**53).astype(np.int64))
    zeros = np.log2((whole & -whole).astype(float)).astype(int)
    return int((exponent - 53 + zeros).min())


class Exact:
    """All labellings of one example, scored exactly.

    ``scores`` is a tensor of Python integers with an axis for each variable, in multiples of ``2**unit``; ``there``
    says which labellings are possible under masks, forbidden scores and clamps.
    """

    def __init__(self, program, theta, example, clamp=None):
        first, stop = program.var_ptr[example : example + 2]
        self.card = tuple(int(c) for c in program.card[first:stop])
        states = slice(program.state_ptr[first], program.state_ptr[stop])
        rows = [t[g.table[slice(*g.ptr[example : example + 2])]] for g, t in zip(program.groups, theta.tables)]
        self.unit = finest(theta.node[states], theta.const[[example]], *rows)
        self.scores = np.full(self.card, whole_numbers(theta.const[[example]], self.unit)[0], dtype=object)
        self.there = np.ones(self.card, dtype=bool)
        for v in range(first, stop):
            node = theta.node[program.state_ptr[v] : program.state_ptr[v + 1]]
            allowed = np.isfinite(node)
            if program.allowed is not None:
                allowed &= program.allowed[program.state_ptr[v] : program.state_ptr[v + 1]]
            if clamp is not None and clamp[v] >= 0:
                allowed &= np.arange(len(node)) == clamp[v]
            self._add(node, (int(v - first),), allowed)
        for group, tables in zip(program.groups, rows):
            for scope, row in zip(group.scope[slice(*group.ptr[example : example + 2])], tables):
                self._add(row, tuple(int(v - first) for v in scope), np.isfinite(row))

    def _add(self, row, scope, possible):
        shape = [self.card[v] for v in scope]
        order = np.argsort(scope)
        wide = [self.card[v] if v in scope else 1 for v in range(len(self.card))]
        spread = [np.asarray(one).reshape(shape).transpose(order).reshape(wide) for one in (self._whole(row), possible)]
        self.scores = self.scores + spread[0]
        self.there = self.there & spread[1]

    def _whole(self, row):
        return np.array(whole_numbers(row, self.unit), dtype=object)

    def best(self, k=1):
        """Return the k best scores (fewer where there are fewer labellings), exact fractions."""
        found = sorted(self.scores[self.there].tolist(), reverse=True)[:k]
        return [self.fraction(one) for one in found]

    def score(self, labels):
        """Return the exact score of a labelling, ``None`` where it is not possible."""
        at = tuple(int(s) for s in labels)
        return self.fraction(self.scores[at]) if self.there[at] else None

    def fraction(self, multiple):
        """Return a multiple of the unit as a fraction."""
        return Fraction(int(multiple)) * Fraction(2) ** self.unit
