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

from dataclasses import dataclass, field

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

    Attributes
    ----------
    whole : ndarray of bool, shape (n,)
        Whether scores are integers that double precision holds exactly.
    rounding : ndarray of float64, shape (n,)
        How far a sum of as many numbers of this size may be off, whether they are integers or not.
    roundoff : ndarray of float64, shape (n,)
        How far a labelling's score, added up in double precision, may be from the true one.
    """

    count: I64
    size: F64
    spread: F64
    integers: Bools
    whole: Bools = field(init=False, repr=False)
    rounding: F64 = field(init=False, repr=False)
    roundoff: F64 = field(init=False, repr=False)

    def __post_init__(self) -> None:
        whole, rounding = self.integers & (self.size < EXACT_BELOW), (self.count + 3) * UNIT * self.size
        vars(self).update(whole=whole, rounding=rounding, roundoff=np.where(whole, 0.0, rounding))

    @classmethod
    def of(cls, program: Program, theta: Theta, examples: I64 | None = None) -> Terms:
        """Return the terms of the scores of the selected examples (all by default); O(number of terms)."""
        ids = program.every_example if examples is None else examples
        n, const = len(ids), theta.const[ids]
        count, size, spread = np.zeros(n, dtype=np.int64), np.abs(const), np.zeros(n)
        integers = const == np.rint(const)

        def add(owner: I64, sizes: F64, spreads: F64, whole: Bools) -> None:
            nonlocal count, size, spread, integers
            count += np.bincount(owner, minlength=n)
            size += np.bincount(owner, sizes, n)
            spread += np.bincount(owner, spreads, n)
            integers &= np.bincount(owner, ~whole, n) == 0

        states = positions(program.state_ptr[program.var_ptr], examples)
        node = theta.node[states]
        if program.allowed is not None:
            node = np.where(program.allowed[states], node, -np.inf)
        owner = np.repeat(np.arange(n), program.var_ptr[ids + 1] - program.var_ptr[ids])
        add(owner, *block_terms(node, program.own_state_ptr(examples)[:-1]))
        for group, tables in zip(program.groups, theta.tables, strict=True):
            counts = group.shapes.counts[ids]
            at_once = int(counts.sum()) >= group.n_tables  # few tables, of many factors
            if at_once:
                of_tables = block_terms(tables.ravel(), np.arange(len(tables)) * group.n_configs)
            for part in group.shapes.chunks(ids):
                rows = group.table_rows(ids[part])
                if at_once:
                    sizes, spreads, whole = of_tables[0][rows], of_tables[1][rows], of_tables[2][rows]
                else:
                    sizes, spreads, whole = block_terms(tables[rows].ravel(), np.arange(len(rows)) * group.n_configs)
                if group.of_spans:  # it may score nothing as well
                    spreads = np.maximum(spreads, sizes)
                add(np.repeat(np.arange(part.start, part.stop), counts[part]), sizes, spreads, whole)
        return cls(count, size, spread, integers)

    def closed(self, score: F64, bound: F64) -> Bools:
        """Return which scores are optimal, given upper bounds on all scores (``nan`` where there is none)."""
        with np.errstate(invalid="ignore"):
            gap = bound - score + 2.0 * self.roundoff
            enough = np.maximum(RELATIVE * self.spread, TINY)
            near = np.where(self.whole, gap < 1.0, (gap <= enough) & np.isfinite(gap))
            return np.asarray(near | ((self.spread == 0.0) & (score > -np.inf) & (bound >= score)))

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
        block, begin = values[lo:hi], starts[part] - lo
        finite = np.isfinite(block)
        every = bool(finite.all())
        high = reduced(np.maximum, block if every else np.where(finite, block, -np.inf), begin)
        low = reduced(np.minimum, block if every else np.where(finite, block, np.inf), begin)
        if not every:
            any_left = high > -np.inf
            high, low = np.where(any_left, high, 0.0), np.where(any_left, low, 0.0)
        size[part], spread[part] = np.maximum(np.abs(high), np.abs(low)), high - low
        integers[part] = reduced(np.logical_and, ~finite | (np.rint(block) == block), begin)
    return size, spread, integers
