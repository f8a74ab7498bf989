"""The base of sessions whose kernels take a batch of examples: chunks within a limit, packing, log partitions.

A backend fills in :meth:`BatchSession.solve_map`, and :meth:`BatchSession.solve_sum` where it sums over all
labellings.  Both write the answers of a chunk of the examples and return how many; examples that the time limit cuts
off are left out of the answer here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ssvm_backends.graphs.deadline import chunks_until
from ssvm_dsl.ir import F64, I8, I32, I64, Bools, Marginals, Primal, Program, Question, Solution, Stop, Task, pointers
from ssvm_dsl.kernels import njit
from ssvm_dsl.plugin_api import Clock, score_labels


@dataclass(eq=False)
class BatchCall:
    """One question, and the best labellings as far as they are known.

    Parameters
    ----------
    program : Program
    question : Question
    clock : Clock
        Started with the call.
    ids : ndarray of int64, shape (n,)
        The examples asked for.
    node : ndarray of float64, shape (S,)
        Unary scores, ``-inf`` at states that are ruled out.
    ptr : ndarray of int64, shape (n + 1,)
        Where the labels of each start.
    labels : ndarray of int32
        Written.
    feasible : ndarray of bool, shape (n,)
        Whether an example has a labelling; written.
    excess : ndarray of float64, shape (n,)
        How much better than the labels the best ones might be; added to.
    """

    program: Program
    question: Question
    clock: Clock
    ids: I64
    node: F64
    ptr: I64
    labels: I32
    feasible: Bools
    excess: F64

    @classmethod
    def start(cls, program: Program, question: Question) -> BatchCall:
        """Return the record of a call in which no example is answered yet."""
        clock, ids, ptr = Clock.start(question.limits), question.ids(program), question.label_ptr(program)
        labels, feasible = np.zeros(int(ptr[-1]), dtype=np.int32), np.zeros(len(ids), dtype=bool)
        node = question.masked_node(program)
        return cls(program, question, clock, ids, node, ptr, labels, feasible, np.zeros(len(ids)))

    def solution(self, reached: int) -> Solution:
        """Return the best labellings of the first ``reached`` examples."""
        score = score_labels(self.program, self.question.theta, self.labels, self.ids)
        score = np.where(self.feasible, score, -np.inf)
        score[reached:] = np.nan
        solution = Solution.exact(self.labels, score)
        solution.bound += self.excess
        return solution


@dataclass(eq=False)
class SummedAnswers:
    """Marginals and log partitions of the examples asked for, as they are found.

    Parameters
    ----------
    program : Program
    ids : ndarray of int64, shape (n,)
    start : ndarray of int64, shape (n + 1,)
        Where the marginals of each example's states are in ``node``.
    node : ndarray of float64
        Marginals of states; written.
    rows : list of ndarray of int64, shape (n + 1,)
        For each group where the rows of each example are in its table.
    offset : ndarray of int64, shape (number of groups + 1,)
        Where the tables of each group are in ``pool``.
    pool : ndarray of float64
        Marginals of joint states; written.
    tables : tuple of ndarray, shape (rows, n_configs)
        Those of each group: views of ``pool``.
    log_z : ndarray of float64, shape (n,)
        Log partitions without the constants, ``-inf`` or ``nan`` where there is no labelling; written.
    """

    program: Program
    ids: I64
    start: I64
    node: F64
    rows: list[I64]
    offset: I64
    pool: F64
    tables: tuple[F64, ...]
    log_z: F64

    @classmethod
    def start_of(cls, program: Program, ids: I64, tables: bool = True) -> SummedAnswers:
        """Return space for the answers of some examples, with that of joint states or without."""
        starts, groups = program.state_ptr[program.var_ptr], program.groups if tables else ()
        start, rows = pointers(starts[ids + 1] - starts[ids]), [pointers(group.answer_rows(ids)) for group in groups]
        sizes = [int(ptr[-1]) * group.n_configs for ptr, group in zip(rows, groups, strict=True)]
        offset = pointers(np.array(sizes, dtype=np.int64))
        pool, ends = np.zeros(int(offset[-1])), zip(offset[:-1], offset[1:], groups, strict=True)
        views = tuple(pool[lo:hi].reshape(-1, group.n_configs) for lo, hi, group in ends)
        return cls(program, ids, start, np.zeros(int(start[-1])), rows, offset, pool, views, np.zeros(len(ids)))

    @property
    def table_start(self) -> I64:
        """Where the tables of each group and example start in ``pool``; ``shape (number of groups, n + 1)``."""
        starts = np.zeros((len(self.rows), len(self.ids) + 1), dtype=np.int64)
        for g, (ptr, group) in enumerate(zip(self.rows, self.program.groups[: len(self.rows)], strict=True)):
            starts[g] = self.offset[g] + ptr * group.n_configs
        return starts

    def solution(self, const: F64, reached: int) -> Solution:
        """Return the answers of the first ``reached`` examples; those without a labelling have zeros."""
        log_z = self.log_z
        log_z[np.isnan(log_z)] = -np.inf  # of a variable without states
        for i in np.flatnonzero(log_z[:reached] == -np.inf):
            self.node[self.start[i] : self.start[i + 1]] = 0.0
            for table, ptr in zip(self.tables, self.rows, strict=True):
                table[ptr[i] : ptr[i + 1]] = 0.0
        log_z += np.where(log_z > -np.inf, const[self.ids], 0.0)
        stop = np.full(len(log_z), Stop.FINISHED, dtype=np.int8)
        stop[reached:] = Stop.TIME
        return summed_solution(log_z, stop, Marginals(self.node, self.tables))


def summed_solution(log_z: F64, stop: I8, marginals: Marginals | None) -> Solution:
    """Return log partitions and marginals as a solution; ``log_z`` becomes ``nan`` where the search did not finish."""
    late, unknown = stop != Stop.FINISHED, np.full(len(log_z), np.nan)
    primal = np.where((log_z == -np.inf) & ~late, Primal.INFEASIBLE, Primal.NONE).astype(np.int8)
    log_z[late] = np.nan
    none = np.zeros(0, dtype=np.int32)
    return Solution(none, unknown, unknown.copy(), stop, primal, marginals=marginals, log_partition=log_z)


class BatchSession(ABC):
    """Answers about a batch of examples, chunk by chunk.

    Parameters
    ----------
    program : Program
    """

    #: Whether marginals of joint states take no memory where they are not asked for.
    leaves_tables_out: ClassVar[bool] = False

    def __init__(self, program: Program) -> None:
        self.program = program

    @abstractmethod
    def solve_map(self, call: BatchCall, lo: int, hi: int) -> int:
        """Write the best labels of the examples ``lo:hi`` of a call; return up to which they are written."""

    def solve_sum(self, call: BatchCall, sums: SummedAnswers, lo: int, hi: int) -> int:
        """Write the marginals and log partitions of the examples ``lo:hi``; return up to which they are written."""
        raise NotImplementedError

    def solve_kbest(self, question: Question) -> Solution:
        """Answer the task ``kbest``: the k best labellings of each example, best first."""
        raise NotImplementedError

    def seconds(self, ids: I64, task: Task) -> F64 | None:
        """Return the expected seconds of each example where nothing can cut it short; ``shape (n,)``."""
        return None

    def solve(self, question: Question) -> Solution:
        """Answer a question; see :class:`~ssvm_dsl.plugin_api.Session`."""
        if question.task is Task.KBEST:
            return self.solve_kbest(question)
        call, reached = BatchCall.start(self.program, question), 0
        chunks = chunks_until(len(call.ids), question.limits, self.seconds(call.ids, question.task))
        if question.task is Task.MARGINALS:
            sums = SummedAnswers.start_of(self.program, call.ids, question.tables or not self.leaves_tables_out)
            for lo, hi in chunks:
                reached = self.solve_sum(call, sums, lo, hi)
                if reached < hi:
                    break
            return sums.solution(question.theta.const, reached)
        for lo, hi in chunks:
            reached = self.solve_map(call, lo, hi)
            if reached < hi:
                break
        return call.solution(reached)


# -- Labellings that are worth most by two counts: what pairs of counts are worth, and the best one ------------------


class Wanted(NamedTuple):
    """What pairs of counts are worth, and where answers go.

    Parameters
    ----------
    const : ndarray of float64, shape (B,)
        Constants of all examples.
    shape, start, offset, scale
        As in :class:`~ssvm_dsl.ir.CountTables`, for m examples.
    label_ptr : ndarray of int64, shape (m + 1,)
        Where the labels of each start.
    labels : ndarray of int32
        Zeros on entry; written where a labelling is wanted.
    worth : ndarray of float64, shape (m,)
        ``-inf`` on entry; raised where a labelling is found.
    """

    const: F64
    shape: I64
    start: I64
    offset: F64
    scale: F64
    label_ptr: I64
    labels: I32
    worth: F64


@njit(cache=True, nogil=True, borrowed=True)
def best_counts(wanted: Wanted, e: int, const: float, best: F64, width: int) -> tuple[int, int]:
    """Return the pair of counts that is worth most for an example, (-1, -1) without one; raise its ``worth``.

    Parameters
    ----------
    wanted : Wanted
    e : int
        The example, among those asked for.
    const : float
        What is added to all scores.
    best : ndarray of float64
        The best score of each pair of counts, row by row.
    width : int
        Length of a row.
    """
    best_cell = -1
    for cell in range(len(best)):
        score, at = best[cell] + const, wanted.start[e] + cell // width * wanted.shape[e, 1] + cell % width
        if score > -np.inf and wanted.offset[at] > -np.inf:
            value = wanted.offset[at] + wanted.scale[at] * score
            if value > wanted.worth[e]:
                wanted.worth[e], best_cell = value, cell
    return (best_cell // width, best_cell % width) if best_cell >= 0 else (-1, -1)
