"""The planes that block-coordinate methods keep, and the visits of them, as kernels read them.

Planes are labellings, or vectors of marginals (fractional labellings) for the risk ``relaxed``.  A plane of marginals
has a number for each score of its example: first the states of its variables, then the joint states of its factors,
group by group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.ir import F64, I32, I64, pointers, runs
from ssvm_dsl.plugin_api import Planes, TrainProblem
from ssvm_trainers.shared.arrays import basis_space

if TYPE_CHECKING:
    from ssvm_dsl.ir import Program

#: Where the new planes of visits come from: an oracle, the caller; or there are none; or planes are added up only.
ASKED, GIVEN, KEPT, SUMMED = range(4)

#: The number of an iteration that is never reached: every plane is older than it.
LAST_ITERATION = 2**30


class DensePlanes(NamedTuple):
    """Planes as vectors of all weights, where there are few; arrays of no weights elsewhere.

    Parameters
    ----------
    psi : ndarray of float64, shape (n, K + 1, dim)
        One place of each example is spare.
    metric, lower : ndarray of float64, shape (dim,)
        ``1 / scale`` and lower bound of each weight.
    """

    psi: F64
    metric: F64
    lower: F64


class Cache(NamedTuple):
    """Planes of every example; K is the capacity.

    Parameters
    ----------
    n_planes : ndarray of int32, shape (n,)
    alpha, loss : ndarray of float64, shape (n, K)
        Dual weight (the truth's is ``1 - sum``) and loss of each plane.
    gram : ndarray of float64, shape (n, K, K)
        ``psi_k . psi_l`` in the metric of the regulariser.
    age : ndarray of int32, shape (n, K)
        Iteration in which the plane last had weight.
    labels : ndarray of int32, shape ((K + 1) * V,)
        Example i's labellings one after the other from ``(K + 1) * var_ptr[i]``; one place is spare.
    values : ndarray of float64, shape ((K + 1) * E,)
        The same for vectors of marginals, unless they are kept as ``dense``; E is the number of them of all examples.
    dense : DensePlanes
        The same planes as vectors of weights.
    """

    n_planes: I32
    alpha: F64
    loss: F64
    gram: F64
    age: I32
    labels: I32
    values: F64
    dense: DensePlanes


def places(planes: Cache) -> NDArray[np.bool_]:
    """Return where planes are kept; ``shape (n, K)``."""
    return np.arange(planes.alpha.shape[1]) < planes.n_planes[:, None]


class Entries(NamedTuple):
    """Where the numbers of each example's planes belong.

    Parameters
    ----------
    ptr : ndarray of int64, shape (n + 1,)
        Entries of each example.
    where : ndarray of int64
        The score of each entry, in ``[theta.node, theta.pool]``.
    truth_ptr : ndarray of int64, shape (n + 1,)
    truth : ndarray of int64
        The entries of the truth, counted within the example.
    first : ndarray of int64, shape (M, n)
        Where the entries of each map's factors start within the example; -1 for maps of single variables.
    var_ptr, state_ptr : ndarray of int64
    """

    ptr: I64
    where: I64
    truth_ptr: I64
    truth: I64
    first: I64
    var_ptr: I64
    state_ptr: I64


class Fractional(NamedTuple):
    """Where the numbers of planes belong, and work space for those of one example.

    Parameters
    ----------
    entries : Entries
    begin : ndarray of int64, shape (G + 2, n)
        Where within each example the states of variables start, then the joint states of each group, then the end.
    given : ndarray of float64
        The candidate plane.
    flat, node, pool : ndarray of float64
        Scores, all in one array, and two views of it: those of states, shape (S,), and those of tables.
    nothing : ndarray of float64, shape (S,)
        Zeros.
    scores : ndarray of float64
        Work space of the scoring kernel.
    delta : ndarray of float64
        By how much marginals change, entry by entry.
    """

    entries: Entries
    begin: I64
    given: F64
    flat: F64
    node: F64
    pool: F64
    nothing: F64
    scores: F64
    delta: F64

    @classmethod
    def of(cls, problem: TrainProblem) -> Fractional:
        """Return the layout of a problem's planes."""
        program = problem.parameters.program
        begin = kinds_of_entries(program)
        entries = lay_out(problem, begin)
        longest, n = int(np.diff(entries.ptr).max(initial=1)), program.n_states
        flat = np.zeros(n + sum(g.n_tables * g.n_configs for g in program.groups))
        return cls(
            entries, begin, np.zeros(longest), flat, flat[:n], flat[n:], np.zeros(n), basis_space(problem),
            np.zeros(longest),
        )  # fmt: skip

    def packed(self, planes: Planes) -> F64:
        """Return the marginals of planes, which are packed by kind (states, groups), packed by example."""
        assert planes.marginals is not None
        starts = self.begin[:, planes.examples]
        ptr = pointers(starts[-1])
        out = np.empty(int(ptr[-1]))
        for k, values in enumerate([planes.marginals.node, *planes.marginals.tables]):
            out[runs(ptr[:-1] + starts[k], starts[k + 1] - starts[k])] = values.ravel()
        return out


def lay_out(problem: TrainProblem, begin: I64) -> Entries:
    """Return where the entries of planes belong: by example its states, then its factors' joint states."""
    program, n = problem.parameters.program, problem.n
    starts, sizes, ptr = program.state_ptr[program.var_ptr], np.diff(begin, axis=0), pointers(begin[-1])
    where = np.empty(int(ptr[-1]), dtype=np.int64)
    problem.pause()
    where[runs(ptr[:-1], sizes[0])] = np.arange(program.n_states)
    problem.pause()
    owner = np.repeat(np.arange(n), np.diff(program.var_ptr))
    owner_of, at = [owner], [program.state_ptr[:-1] + problem.loss.truth - starts[owner]]
    offset = program.n_states
    for k, group in enumerate(program.groups):
        problem.pause()
        cells = group.table_rows().astype(np.int64)[:, None] * group.n_configs + np.arange(group.n_configs)
        problem.pause()
        where[runs(ptr[:-1] + begin[k + 1], sizes[k + 1])] = offset + cells.ravel()
        problem.pause()
        offset += group.n_tables * group.n_configs
        owner = np.repeat(np.arange(n), np.diff(group.ptr))
        number = np.arange(group.n_factors) - group.ptr[owner]
        config = problem.loss.truth[group.shapes.variables()] @ group.strides
        owner_of.append(owner)
        at.append(begin[k + 1][owner] + number * group.n_configs + config)
    problem.pause()
    owners = np.concatenate(owner_of)
    truth = np.concatenate(at)[np.argsort(owners, kind="stable")].astype(np.int64)
    return Entries(
        ptr, where, pointers(np.bincount(owners, minlength=n)), truth, first_entries(problem, begin),
        program.var_ptr, program.state_ptr,
    )  # fmt: skip


def kinds_of_entries(program: Program) -> I64:
    """Return where within each example the states of variables start, then each group's, then the end."""
    states = np.diff(program.state_ptr[program.var_ptr])
    sizes = [np.zeros_like(states), states, *(np.diff(g.ptr) * g.n_configs for g in program.groups)]
    return np.cumsum(sizes, axis=0, dtype=np.int64)


def first_entries(problem: TrainProblem, begin: I64) -> I64:
    """Return where the entries of each map's factors start within an example (-1: variables); ``shape (M, n)``."""
    maps, nowhere = problem.parameters.maps, np.full(problem.n, -1, dtype=np.int64)
    return np.stack([begin[m.group + 1] if m.group >= 0 else nowhere for m in maps])


class Visits(NamedTuple):
    """The examples to visit, and the rule of visits.

    Parameters
    ----------
    source : int
        ``ASKED``: the oracle is called for new planes; ``GIVEN``: they are given; ``KEPT``: none, and examples whose
        last visit gained too little are skipped; ``SUMMED``: nothing is changed but the weights, to which
        ``sum_i share_i sum_k alpha_ik psi_ik`` is added.
    examples : ndarray of int64, shape (n_listed,)
    planes : ndarray of int32 or float64
        With ``GIVEN``, a labelling of each, or marginals, one after the other.
    losses : ndarray of float64, shape (n_listed,)
        Of these planes.
    now, keep : int
        Number of the iteration; labellings without dual weight for more than ``keep`` iterations are dropped.
    threshold : float
        With ``KEPT``, examples whose last visit gained less are skipped.
    """

    source: int
    examples: I64
    planes: I32 | F64
    losses: F64
    now: int = 0
    keep: int = 0
    threshold: float = 0.0


class DualPoint(NamedTuple):
    """The current iterate.

    Parameters
    ----------
    w, free : ndarray of float64, shape (dim,)
        The weights, and, for maps with a lower bound, the weights without it; one array where there are no bounds.
    gap, gain : ndarray of float64, shape (n,)
        Duality gap before each example's last visit with a new plane, and gain of its last visit.
    """

    w: F64
    free: F64
    gap: F64
    gain: F64
