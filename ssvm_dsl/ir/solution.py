"""``Solution``: what a backend answers; and messages of dual bounds, to start from later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I8, I32, I64
from ssvm_dsl.errors import OptionError
from ssvm_dsl.ir.analysis.tolerance import Terms
from ssvm_dsl.ir.program import Group, Program
from ssvm_dsl.ir.ragged import members, pointers
from ssvm_dsl.notebook_tables import html_grid

#: The state of every variable of an example that has no labelling, in answers that the verifier has seen.
NO_STATE = -1

#: Examples that notebooks show.
SHOWN = 10


class Stop(IntEnum):
    """Why a backend stopped on an example."""

    FINISHED = 0
    ITERATIONS = 1
    TIME = 2
    INTERRUPTED = 3


class Primal(IntEnum):
    """The status of the labels of an example."""

    FEASIBLE = 0
    FRACTIONAL = 1
    NONE = 2
    INFEASIBLE = 3

    @staticmethod
    def codes(score: F64, bound: F64) -> I8:
        """Return the codes of labels by their scores (``-inf``: none) and upper bounds (``-inf``: there are none)."""
        missing = np.where(bound == -np.inf, INFEASIBLE, NONE)
        return np.where(score > -np.inf, FEASIBLE, missing).astype(np.int8)


#: The codes as plain numbers: looking at a member of an enumeration costs more than comparing small arrays.
FINISHED, TIME, INTERRUPTED = int(Stop.FINISHED), int(Stop.TIME), int(Stop.INTERRUPTED)
FEASIBLE, FRACTIONAL, NONE, INFEASIBLE = map(int, Primal)


@dataclass(frozen=True, eq=False)
class Marginals:
    """Marginal probabilities (or a fractional solution), packed over the examples asked for.

    Parameters
    ----------
    node : ndarray of float64
        For each variable its states, one after the other.
    tables : tuple of ndarray, shape (n_factors, prod(cards))
        For each group the joint states of its factors; of spans the expected number of segments, a row an example.
        Empty where they were not asked for and the backend left them out.
    """

    node: F64
    tables: tuple[F64, ...]


@dataclass(eq=False)
class Solution:
    """Answer to ``Session.solve``, packed over the examples asked for, in the order asked.

    Parameters
    ----------
    labels : ndarray of int32, shape (n_variables,) or (k, n_variables)
        The labelling (the k best ones, best first, for the task ``kbest``).  Where there is none the verifier sets
        :data:`NO_STATE`, so that nobody takes a state for an answer.
    score : ndarray of float64, shape (n,) or (k, n)
        Score of each labelling; the verifier recomputes it.  ``-inf`` where there is none.
    bound : ndarray of float64, shape (n,)
        Certified upper bound on the best score, ``nan`` without one.  Backends owe it up to the rounding of a score
        (:mod:`ssvm_dsl.ir.analysis.tolerance`); sessions of :func:`~ssvm_dsl.inference.session.open_plan` round it
        outwards.
    stop : ndarray of int8, shape (n,)
        :class:`Stop` values.
    primal : ndarray of int8, shape (n,)
        :class:`Primal` values.
    marginals : Marginals, optional
        For the tasks ``marginals`` and ``relaxed``.
    log_partition : ndarray of float64, shape (n,), optional
        ``log sum_y exp(score(y))``, for the task ``marginals``; ``nan`` where the answer was cut short.
    warm : object, optional
        Opaque state to start the next call from.
    stats : dict
        Counters of the backend's own.
    terms : Terms, optional
        The terms of the scores, set by sessions of :func:`~ssvm_dsl.inference.session.open_plan`.
    complete : bool
        Whether every example is known to be finished and to have its labelling, set by the same sessions: nobody then
        needs to look for those that are not.
    """

    labels: I32
    score: F64
    bound: F64
    stop: I8
    primal: I8
    marginals: Marginals | None = None
    log_partition: F64 | None = None
    warm: Any = None
    stats: dict[str, Any] = field(default_factory=dict)
    terms: Terms | None = None
    complete: bool = False

    @classmethod
    def exact(cls, labels: I32, score: F64, **extra: Any) -> Solution:
        """Return a solution whose (best) score is its own bound.

        ``-inf`` marks infeasible examples, and ``nan`` those that time did not reach (whatever their labels are).
        """
        best = score if score.ndim == 1 else score[0]
        if np.minimum.reduce(best, initial=0.0) > -np.inf:
            return cls(labels, score, best.copy(), np.zeros(len(best), np.int8), np.zeros(len(best), np.int8), **extra)
        late = np.isnan(best)
        primal = np.where(best == -np.inf, INFEASIBLE, FEASIBLE)
        primal, stop = np.where(late, NONE, primal), np.where(late, TIME, FINISHED)
        score = np.where(late, -np.inf, score)
        return cls(labels, score, best.copy(), stop.astype(np.int8), primal.astype(np.int8), **extra)

    def _repr_html_(self) -> str:
        """Return scores, bounds and statuses of the first examples, as notebooks show them."""
        best = np.atleast_2d(self.score)[0]
        rows = [
            [str(i), f"{best[i]:.6g}", f"{self.bound[i]:.6g}", Primal(self.primal[i]).name.lower(),
             Stop(self.stop[i]).name.lower()]
            for i in range(min(len(best), SHOWN))
        ]  # fmt: skip
        rest = f"and {len(best) - SHOWN} more" if len(best) > SHOWN else ""
        columns = ["example", "score", "bound", "labelling", "stopped"]
        return html_grid(f"answers to {len(best)} questions", columns, rows, note=rest)

    def needed_marginals(self) -> Marginals:
        """Return the marginals.

        Raises
        ------
        OptionError
            The backend computed log partitions alone.
        """
        if self.marginals is None:
            text = "the backend computed log partitions alone, marginals are needed"
            raise OptionError(f"{text}; leave out its option that turns them off (junction-tree: marginals='none')")
        return self.marginals

    def labels_or(self, other: I32) -> I32:
        """Return the labels, with those of another labelling for the examples that have none."""
        missing = self.labels == NO_STATE
        return np.where(missing, other, self.labels) if missing.any() else self.labels

    @property
    def best(self) -> F64:
        """Score of the best labelling of each example."""
        return self.score if self.score.ndim == 1 else self.score[0]

    def optimal(self) -> NDArray[np.bool_]:
        """Return which examples are proved optimal, as far as double precision can tell; ``shape (n,)``.

        An answer is optimal when it is feasible and no labelling can score more by as much as the tolerance: 1e-9 of
        what scores can differ by, or less than 1 where all scores are integers (:mod:`ssvm_dsl.ir.analysis.tolerance`).

        Raises
        ------
        ValueError
            There are bounds, but ``terms`` is missing: the answer does not come from a session of ``open_plan``.
        """
        if self.terms is None:
            if not np.isnan(self.bound).all():
                raise ValueError("the terms of the scores are unknown: set terms=Terms.of(program, theta, examples)")
            return np.zeros(len(self.bound), dtype=bool)
        return self.terms.closed(self.best, self.bound) & (self.primal == Primal.FEASIBLE)


def join_marginals(parts: Sequence[Marginals | None]) -> Marginals | None:
    """Return marginals of several parts as one; ``None`` without parts, or where a part has none."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    tables = zip(*(part.tables for part in known), strict=True)
    return Marginals(np.concatenate([part.node for part in known]), tuple(map(np.concatenate, tables)))


def take_marginals(program: Program, marginals: Marginals, ids: I64, which: I64) -> Marginals:
    """Return the marginals of some of the examples that they are packed over, by their places among ``ids``."""
    starts = program.state_ptr[program.var_ptr]
    node = marginals.node[members(pointers(starts[ids + 1] - starts[ids]), which)]
    counts = [group.shapes.counts[ids] for group in program.groups]
    tables = (t[members(pointers(n), which)] for t, n in zip(marginals.tables, counts, strict=True))
    return Marginals(node, tuple(tables))


def join_solutions(parts: Sequence[Solution]) -> Solution:
    """Return the solutions of several parts (at least one) as one, without what they keep for warm starts."""
    if len(parts) == 1:
        return parts[0]
    log_z = [part.log_partition for part in parts if part.log_partition is not None]
    stats: dict[str, Any] = {}
    for part in parts:
        for name, value in part.stats.items():
            stats[name] = stats.get(name, 0) + value
    return Solution(
        np.concatenate([part.labels for part in parts], axis=-1),
        np.concatenate([part.score for part in parts], axis=-1),
        np.concatenate([part.bound for part in parts]),
        np.concatenate([part.stop for part in parts]),
        np.concatenate([part.primal for part in parts]),
        marginals=join_marginals([part.marginals for part in parts]),
        log_partition=np.concatenate(log_z) if len(log_z) == len(parts) else None,
        stats=stats,
        complete=all(part.complete for part in parts),
    )


def select(program: Program, examples: I64 | None) -> I64:
    """Return the numbers of the examples asked for (all of them for ``None``)."""
    return program.every_example if examples is None else examples


def label_ptr(program: Program, examples: I64 | None) -> I64:
    """Return where each selected example's labels start in a packed labelling; ``shape (n + 1,)``."""
    if examples is None or examples is program.every_example:
        return program.var_ptr
    return pointers(program.var_ptr[1:][examples] - program.var_ptr[examples])


def chosen_states(group: Group, program: Program, labels: I32, ids: I64) -> tuple[I64, I32, I64]:
    """Return what packed labellings of some examples choose of the factors of a group, which may not be the program's.

    Returns
    -------
    owner, row, state : ndarray of int
        Of each factor its example (its number among ``ids``), its table row and its joint state, -1 of a span that is
        no segment.
    """
    counts, ptr = group.shapes.counts[ids], label_ptr(program, ids)
    moved = np.repeat(program.var_ptr[ids] - ptr[:-1], counts)
    state = group.joint_states(group.shapes.variables(ids) - moved[:, None], labels)
    return np.repeat(np.arange(len(ids)), counts), group.table_rows(ids), state


def each_marginals(program: Program, marginals: Marginals, ids: I64) -> Iterator[Marginals]:
    """Yield the marginals of each listed example, of marginals packed over them; views."""
    starts = program.state_ptr[program.var_ptr]
    node = pointers(starts[ids + 1] - starts[ids])
    rows = [pointers(group.answer_rows(ids)) for group in program.groups]
    for k in range(len(ids)):
        tables = (table[ptr[k] : ptr[k + 1]] for table, ptr in zip(marginals.tables, rows, strict=True))
        yield Marginals(marginals.node[node[k] : node[k + 1]], tuple(tables))


# -- messages, as backends that lower dual bounds hand them out to start from later ---------------------------------


@dataclass(frozen=True, eq=False)
class Messages:
    """Messages of some examples, in whatever layout the session that made them uses.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
        The examples.
    ptr : ndarray of int64, shape (n + 1,)
        Where the messages of each start.
    values : ndarray of float64
        Packed.
    """

    ids: I64
    ptr: I64
    values: F64

    def of(self, ids: I64, ptr: I64) -> F64:
        """Return the messages of other examples, zero where there are none."""
        if np.array_equal(self.ids, ids) and np.array_equal(self.ptr, ptr):
            return self.values.copy()
        out = np.zeros(int(ptr[-1]))
        place = {int(example): k for k, example in enumerate(self.ids)}
        for i, example in enumerate(ids):
            k = place.get(int(example))
            if k is not None:
                out[ptr[i] : ptr[i + 1]] = self.values[self.ptr[k] : self.ptr[k + 1]]
        return out


class DualBound(NamedTuple):
    """Dual bounds at messages, and where they are attained.

    Parameters
    ----------
    temperature : float
        T of soft maxima ``T log sum exp(. / T)``; 0 for plain ones.
    bound : ndarray of float64, shape (n,)
        Of each example at its messages.
    marginals : Marginals
        A subgradient of the bounds in the scores: distributions of variables and, apart from them, of factors.
    messages : Messages
    """

    temperature: float
    bound: F64
    marginals: Marginals
    messages: Messages


class Prices(Messages):
    """Messages that are worth keeping from one oracle call of training to the next: few, and dear to find.

    Problems keep those of each example, give them back with the next question about it, and store them in checkpoints.
    """
