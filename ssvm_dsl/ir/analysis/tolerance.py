r"""What numbers can decide: how far scores are apart, how exactly they are known, and when an answer is optimal.

A labelling's score is a sum of N terms, one for each variable and factor, and a constant (see
:class:`~ssvm_dsl.ir.theta.Theta`).  Let t range over the finite terms of a variable (states that are allowed) or of a
factor.  For each example

    size     = |const| + sum over variables and factors of max |t|       what its scores are sums of
    spread   =           sum over variables and factors of max t - min t   how far two scores can differ
    roundoff = (N + 3) 2^-53 size,   0 for whole problems                 error of a score in double precision

A problem is *whole* when all terms and the constant are integers and ``size < 2^53``: then every sum of terms is exact,
and so is the comparison of two scores.  (A sum of N numbers is off by at most N - 1 roundings of its partial sums;
Higham, Accuracy and Stability of Numerical Algorithms, section 4.2.)

A labelling counts as optimal when no other one can score more by as much as the *tolerance*:

    tolerance = 1e-9 spread      of ordinary problems
    gap < 1                      of whole problems

Neither constants nor large terms that all labellings share make it wider: what decides is what labellings differ by.
The gap is taken after rounding: ``bound - score + 2 roundoff``.  Where roundoff alone is wider than the tolerance no
answer is called optimal: double precision cannot tell.

Scores that differ by less than 2^-900 (1e-271) are ties: solvers make whole numbers of scores, by powers of two that
end near 2^960, and what is smaller than 2^-1022 has lost its digits.

Backends owe bounds that are right up to ``roundoff`` (for whole problems: right).  :func:`round_outwards` adds it, so
that what users see is at least the true optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ssvm_dsl.array_types import F64, I64, Bools
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import positions, reduced, slices
from ssvm_dsl.ir.theta import Theta

#: A gap of at most this share of the spread is none.
RELATIVE = 1e-9

#: Rounding of one operation in double precision, relative to its result.
UNIT = 2.0**-53

#: Violations of an inequality up to this share of the entries they come from are rounding, where these are no integers.
ROUNDING = 2.0**-46

#: Integers below this are exact in double precision.
EXACT_BELOW = 2.0**53

#: Scores that differ by less are ties.
TINY = 2.0**-900

_NOTHING = np.zeros(0), np.zeros(0), np.zeros(0, dtype=bool)


@dataclass(frozen=True, eq=False)
class Terms:
    """The terms whose sums are the scores of n examples.

    Parameters
    ----------
    count : ndarray of int64, shape (n,)
        Variables and factors of each example.
    size : ndarray of float64, shape (n,)
        Sum of the largest absolute terms, and of the constant.
    spread : ndarray of float64, shape (n,)
        The most that the scores of two labellings can differ by.
    integers : ndarray of bool, shape (n,)
        Whether all terms are integers.
    """

    count: I64
    size: F64
    spread: F64
    integers: Bools

    @classmethod
    def of(cls, program: Program, theta: Theta, examples: I64 | None = None) -> Terms:
        """Return the terms of the scores of the selected examples (all by default); O(number of terms)."""
        ids = np.arange(program.n_examples, dtype=np.int64) if examples is None else examples
        const = theta.const[ids]
        total = _Sums(len(ids))
        total.add(np.arange(len(ids)), np.abs(const), np.zeros(len(ids)), const == np.rint(const))
        total.count -= 1
        node = theta.node[positions(program.state_ptr[program.var_ptr], examples)]
        if program.allowed is not None:
            node = np.where(program.allowed[positions(program.state_ptr[program.var_ptr], examples)], node, -np.inf)
        owner = np.repeat(np.arange(len(ids)), program.var_ptr[ids + 1] - program.var_ptr[ids])
        total.add(owner, *block_terms(node, program.own_state_ptr(examples)[:-1]))
        for group, tables in zip(program.groups, theta.tables, strict=True):
            whole = group.shapes.count(examples) >= group.n_tables
            begin = np.arange(len(tables)) * group.n_configs
            size, spread, integers = block_terms(tables.ravel(), begin) if whole else _NOTHING
            if group.of_spans:  # it may score nothing as well
                spread = np.maximum(spread, size)
            for part in group.shapes.chunks(ids):
                rows = group.table_rows(ids[part])
                owner = np.repeat(np.arange(part.start, part.stop), group.shapes.counts[ids[part]])
                if whole:
                    total.add(owner, size[rows], spread[rows], integers[rows])
                else:
                    total.add(owner, *block_terms(tables[rows].ravel(), np.arange(len(rows)) * group.n_configs))
        return cls(total.count, total.size, total.spread, total.integers)

    @property
    def whole(self) -> Bools:
        """Whether scores are integers that double precision holds exactly."""
        return self.integers & (self.size < EXACT_BELOW)

    @property
    def roundoff(self) -> F64:
        """How far a labelling's score, added up in double precision, may be from the true one."""
        return np.where(self.whole, 0.0, self.rounding)

    @property
    def rounding(self) -> F64:
        """How far a sum of as many numbers of this size may be off, whether they are integers or not."""
        return np.asarray((self.count + 3) * UNIT * self.size)

    def closed(self, score: F64, bound: F64) -> Bools:
        """Return which scores are optimal, given upper bounds on all scores (``nan`` where there is none)."""
        with np.errstate(invalid="ignore"):
            gap = bound - score + 2.0 * self.roundoff
            enough = np.maximum(RELATIVE * self.spread, TINY)
            near = np.where(self.whole, gap < 1.0, (gap <= enough) & np.isfinite(gap))
            return np.asarray(near | ((self.spread == 0.0) & (bound >= score)))

    def outwards(self, bound: F64, score: F64, labelled: bool) -> F64:
        """Return upper bounds that are right whatever rounding did to those given, which are right up to roundoff.

        Parameters
        ----------
        bound : ndarray of float64, shape (n,)
            ``nan`` and infinities stay as they are.
        score : ndarray of float64, shape (n,)
            Of a labelling, ``-inf`` without one; no bound is below it.
        labelled : bool
            The bounds are on scores of labellings (not of fractional solutions): those of whole problems are integers.
        """
        with np.errstate(invalid="ignore"):
            out = np.maximum(bound, score) + self.roundoff
            out = np.where((self.roundoff > 0.0) & np.isfinite(out), np.nextafter(out, np.inf), out)
            down = np.where(self.whole & labelled, np.floor(out), out)
            return np.where(np.isnan(bound), bound, np.maximum(down, score))


class _Sums:
    """Adds up what blocks say, example by example."""

    def __init__(self, n: int) -> None:
        self.count, self.size, self.spread = np.zeros(n, np.int64), np.zeros(n), np.zeros(n)
        self.integers = np.ones(n, dtype=bool)

    def add(self, owner: I64, size: F64, spread: F64, integers: Bools) -> None:
        """Add blocks that belong to examples."""
        n = len(self.count)
        self.count += np.bincount(owner, minlength=n)
        self.size += np.bincount(owner, size, n)
        self.spread += np.bincount(owner, spread, n)
        self.integers &= np.bincount(owner, ~integers, n) == 0


def block_terms(values: F64, starts: I64) -> tuple[F64, F64, Bools]:
    """Return for each block of values its size, its spread and whether all are integers; ``-inf`` does not count.

    Parameters
    ----------
    values : ndarray of float64
        The blocks, one after the other.
    starts : ndarray of int64, shape (n,)
        Where each (not empty) block starts.
    """
    n, ends = len(starts), np.append(starts, len(values))
    size, spread, integers = np.zeros(n), np.zeros(n), np.zeros(n, dtype=bool)
    for part in slices(n):  # as much as the processor's cache holds, about
        lo, hi = int(ends[part.start]), int(ends[min(part.stop, n)])
        size[part], spread[part], integers[part] = _few_block_terms(values[lo:hi], starts[part] - lo)
    return size, spread, integers


def _few_block_terms(values: F64, starts: I64) -> tuple[F64, F64, Bools]:
    """Return what :func:`block_terms` does, at once; there is a block."""
    finite = np.isfinite(values)
    every = bool(finite.all())
    high = reduced(np.maximum, values if every else np.where(finite, values, -np.inf), starts)
    low = reduced(np.minimum, values if every else np.where(finite, values, np.inf), starts)
    if not every:
        any_left = high > -np.inf
        high, low = np.where(any_left, high, 0.0), np.where(any_left, low, 0.0)
    integers = reduced(np.logical_and, ~finite | (np.rint(values) == values), starts)
    return np.maximum(np.abs(high), np.abs(low)), high - low, integers
