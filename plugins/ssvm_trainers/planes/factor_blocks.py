"""The run of ``bcfw`` for the relaxed risk where blocks are single factors, and messages make them agree.

No oracle is called while training.  An outer iteration is a sweep: a step on every factor and variable of every
example (:mod:`ssvm_trainers.planes.factor_kernels`).  Weights move from the first one on, although no
relaxation has been solved for any weights yet, which is the idea of dual losses (Meshi et al. 2010); that weights and
messages both follow from cheap steps on factors is that of Yen et al. (2016).  :data:`SWEEPS` sweeps count as a pass
with an oracle.

The certificate is made of two bounds.  Messages bound the relaxed objective at w from above.  The marginals, rounded to
the local polytope, are a point of the dual, whose value bounds the optimum from below.  Both are valid at any time.

The penalty follows the residuals as in AD3 (Martins et al. 2015): they should shrink alike.

It is compared with ``dlpw`` on the data sets of Meshi et al.: ``ssvm reproduce dual-losses``, ``docs/results``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import OptionError
from ssvm_dsl.ir import (
    F64,
    I32,
    I64,
    FeatureMap,
    Marginals,
    Program,
    SparseRows,
    Theta,
    bounded_slices,
    labelling_marginals,
    members,
    owners,
    pointers,
)
from ssvm_dsl.kernels import FlatMaps, ScoreSpace, StateScores, borrow, njit, score_example
from ssvm_dsl.plugin_api import Iterate, StopRule, TrainProblem, add_labels, add_marginals, consistent
from ssvm_trainers.planes.cache import Entries, first_entries, kinds_of_entries
from ssvm_trainers.planes.factor_kernels import sweep, table_values
from ssvm_trainers.planes.factor_records import (
    Curvature,
    Dual,
    FactorProblem,
    FactorRule,
    Factors,
    Metric,
    SweepWorkspace,
)
from ssvm_trainers.shared.arrays import bounded_maps, follow_plane, map_scales, threshold
from ssvm_trainers.shared.passes import chunks, visit_cost
from ssvm_trainers.shared.resumable import COUNTS, NUMBERS, PART, SHARES, Run, StateRule

if TYPE_CHECKING:
    from ssvm_dsl.plugin_api import Planes

#: Sweeps that count as a pass, and pairwise steps of a factor in each.
SWEEPS, STEPS = 10, 2

#: First penalty, relative to the mean largest loss of a variable.
START = 0.05

#: From this number on messages are kept in single precision (half a gigabyte); any messages prove a bound.
SINGLE = 2**26

#: The penalty changes when one residual is this many times the other.
UNBALANCED = 2.5

#: Sweeps that a certificate is taken to last before there was one.
CERTIFICATE = 2.0

#: Slopes below this share of the losses are not worth a step.
NO_SLOPE = 1e-9


def refusal(problem: TrainProblem) -> str:
    """Return why a problem's factors cannot be blocks, or nothing."""
    program = problem.parameters.program
    if program.allowed is not None:
        return "some states are ruled out"
    if program.constraints:
        return "the model has hard constraints"
    if problem.objective.l1:
        return "there is an L1 penalty"
    return ""


def suits(problem: TrainProblem) -> bool:
    """Return whether factors are probably the better blocks.

    Where factors of an example share weights, their steps are as short as if all moved in the same direction.
    """
    return not refusal(problem) and all(int(together(fmap).max(initial=1)) == 1 for fmap in problem.parameters.maps)


class FactorRun(Run):
    """One training run."""

    mu: Annotated[F64, SHARES]  #: marginals of all examples
    messages: Annotated[F64, NUMBERS]  #: multipliers of their agreement
    w: Annotated[F64, NUMBERS]
    free: Annotated[F64, NUMBERS]  #: weights without their lower bounds
    penalty: Annotated[float, StateRule(least=1e-300)]  #: of disagreement
    now: Annotated[int, COUNTS]  #: sweeps so far
    asked: Annotated[int, COUNTS]  #: calls of the oracle for all examples
    next: Annotated[int, COUNTS]  #: sweep after which it is asked
    random: Annotated[np.random.Generator, PART]

    def __init__(self, problem: TrainProblem, random_state: int | None, start: F64 | None) -> None:
        if reason := refusal(problem):
            raise OptionError(f"blocks='factors': {reason}; take blocks='examples'")
        self.problem, self.start = problem, start
        self.random = np.random.default_rng(random_state)
        parameters, objective, n = problem.parameters, problem.objective, problem.n
        self.certificate_seconds = 0.0  # what the last one took; before there is one, by the first sweep
        own = own_tables(problem)
        self.maps, rest = parameters.flat, [m for m in range(len(parameters.maps)) if m not in own.values()]
        listing = list_shapes(parameters.program)
        problem.pause()
        entries, factors = entries_of(problem, rest), list_factors(problem, listing, own)
        bounded = bounded_maps(problem)[rest]
        problem.pause()
        lower = np.array([m.block.lower_bound for m in parameters.maps])[rest]
        metric, share = 1.0 / map_scales(problem)[rest], objective.weight / n
        self.visited = FactorProblem(
            self.maps._replace(desc=self.maps.desc[rest]), entries,
            Metric(metric, bounded, lower, threshold(problem), share, float(objective.lam)), factors,
            curvature_of(problem, listing, factors), problem.loss.node,
        )  # fmt: skip
        self.space = work_space(problem, entries.ptr, factors)
        self.size, self.cost = mean_loss(problem), visit_cost(problem)
        self.chunks = chunks_of(factors)
        problem.pause()
        self.mu = labelling_marginals(parameters.program, problem.loss.truth, problem.pause)
        problem.pause()
        n_messages = int(factors.message_at[-1])
        self.messages = np.zeros(n_messages, np.float64 if n_messages < SINGLE else np.float32)
        self.w = np.zeros(problem.dim)
        self.free = np.zeros(problem.dim) if bounded.any() else self.w
        self.penalty, self.now, self.asked, self.next = START * self.size, 0, 0, SWEEPS

    @property
    def passes(self) -> float:
        """Passes so far."""
        return self.asked + self.now / SWEEPS

    def _dual(self) -> Dual:
        return Dual(self.mu, self.messages, self.w, self.free)

    def iterate(self, stop: StopRule) -> Iterate:
        """Sweep once over all blocks; certify at intervals that grow with the number of sweeps."""
        if self.start is not None and not self.asked:
            return self.seed(self.start)
        self.space.totals[:] = 0.0
        rule = FactorRule(self.penalty, STEPS, NO_SLOPE * self.size)
        order, begin = self.random.permutation(self.problem.n), self.problem.seconds()
        for chunk in chunks(self.problem, order, STEPS * self.cost, self.certificate_seconds):
            sweep(self.visited, rule, self.space, chunk, self._dual())
        self.certificate_seconds = self.certificate_seconds or CERTIFICATE * (self.problem.seconds() - begin)
        self.now += 1
        if self.now % SWEEPS == 0:
            self._balance(self.now // SWEEPS)
        if self.now >= self.next or self.passes >= stop.max_passes:
            self.next = self.now + max(SWEEPS // 2, self.now // 4)
            return self.certified()
        return Iterate(self.w, self.passes)

    def seed(self, w: F64) -> Iterate:
        """Begin with marginals of the oracle at given weights, mixed with the truth so that the dual is largest."""
        primal, upper, planes = self.problem.evaluate(w)
        self.asked += 1
        self._mix(planes)
        value, plane = self._rounded()
        self._follow()
        return Iterate(w.copy(), self.passes, primal, upper, value, plane=plane)

    def _mix(self, planes: Planes) -> None:
        assert planes.marginals is not None
        problem, objective = self.problem, self.problem.objective
        share = objective.weight / problem.n
        v = problem.accumulate(planes, share, np.zeros(problem.dim))
        b = float(np.dot(share, planes.loss))
        square = 2.0 * (b - objective.dual(v, b))
        part = min(1.0, b / square) if square > 0.0 else 1.0
        whole = np.concatenate([planes.marginals.node, *(t.ravel() for t in planes.marginals.tables)])
        self.mu += part * (whole - self.mu)

    def _balance(self, n_passes: int) -> None:
        """Adapt the penalty; after each pass at first, then at powers of two, so that it settles."""
        if n_passes > 16 and n_passes & (n_passes - 1):
            return
        off, change, _ = np.sqrt(self.space.totals)
        if off > UNBALANCED * change:
            self.penalty *= 2.0
        elif change > UNBALANCED * off:
            self.penalty *= 0.5

    def certified(self) -> Iterate:
        """Return the newest iterate with its certificate."""
        problem, begin = self.problem, self.problem.seconds()
        self._follow()
        risks = np.empty(problem.n)
        for chunk in chunks(problem, np.arange(problem.n), self.cost):
            risks[chunk] = message_bounds(
                self.maps, self.visited.entries, self.visited.factors, self.space, problem.loss.node,
                problem.loss.truth, self._dual(), chunk,
            )  # fmt: skip
        upper = problem.objective.primal(self.w, risks + problem.loss.const)
        dual, plane = self._rounded()
        self.certificate_seconds = problem.seconds() - begin
        return Iterate(self.w.copy(), self.passes, upper, upper, dual, plane=plane)

    def _follow(self) -> None:
        """Recompute w from the marginals (rounding errors do not add up)."""
        v, _ = self._plane(self.mu)
        follow_plane(self.problem, v, self.w, self.free)

    def _rounded(self) -> tuple[float, tuple[F64, float]]:
        """Return the value of the dual at the marginals rounded to the local polytope, and their plane."""
        v, b = self._plane(self.mu, inside=True)
        return self.problem.objective.dual(v, b), (v, b)

    def _plane(self, mu: F64, inside: bool = False) -> tuple[F64, float]:
        """Return the plane (v, b) of marginals of all examples, rounded to the local polytope if ``inside``.

        It proceeds in chunks of examples, because rounding copies their marginals.
        """
        problem, parameters = self.problem, self.problem.parameters
        program, sums = parameters.program, Theta.zeros(parameters.program)
        share = problem.objective.weight / problem.n
        for lo, hi in self.chunks:
            problem.pause()
            ids = np.arange(lo, hi)
            marginals = some_marginals(program, mu, lo, hi)
            if inside:
                marginals = consistent(program, marginals, ids)
            truth = problem.loss.truth[program.var_ptr[lo] : program.var_ptr[hi]]
            add_labels(program, truth, share[lo:hi], ids, sums.node, sums.tables)
            add_marginals(program, marginals, -share[lo:hi], ids, sums.node, sums.tables)
        b = float(np.dot(share, problem.loss.const)) - float(np.dot(sums.node, problem.loss.node))
        return parameters.adjoint(sums), b


def some_marginals(program: Program, mu: F64, lo: int, hi: int) -> Marginals:
    """Return the marginals of examples ``lo..hi-1`` of flat ones (of all variables, then of each group); views."""
    first, tables = program.n_states, []
    for group in program.groups:
        begin, end = first + group.ptr[[lo, hi]] * group.n_configs
        tables.append(mu[begin:end].reshape(-1, group.n_configs))
        first += group.n_factors * group.n_configs
    begin, end = program.state_ptr[program.var_ptr[[lo, hi]]]
    return Marginals(mu[begin:end], tuple(tables))


def mean_loss(problem: TrainProblem) -> float:
    """Return the mean largest loss of a variable (1 where there is none)."""
    states = problem.parameters.program.state_ptr[:-1]
    largest = np.maximum.reduceat(problem.loss.node, states) if len(states) else np.zeros(1)
    return float(np.abs(largest).mean()) or 1.0


def entries_of(problem: TrainProblem, maps: list[int]) -> Entries:
    """Return where changes of marginals are in the work space, for the maps given; no planes are kept."""
    program, nothing = problem.parameters.program, np.zeros(0, dtype=np.int64)
    begin = kinds_of_entries(program)
    first = first_entries(problem, begin)[maps]
    return Entries(pointers(begin[-1]), nothing, nothing, nothing, first, program.var_ptr, program.state_ptr)


def work_space(problem: TrainProblem, entry_ptr: I64, factors: Factors) -> SweepWorkspace:
    """Return work space for the largest example."""
    parameters = problem.parameters
    program = parameters.program
    starts, widest = program.state_ptr[program.var_ptr], int(program.card.max(initial=1))
    n_slots = np.diff(factors.message_at).max(initial=1)
    return SweepWorkspace(
        node=np.zeros(program.n_states),
        pool=np.zeros(sum(g.n_tables * g.n_configs for g in program.groups)),
        delta=np.zeros(int(np.diff(entry_ptr).max(initial=1))),
        scores=np.zeros(max((m.n_basis for m in parameters.maps), default=1)),
        ones=np.ones(len(parameters.maps)),
        value=np.zeros(int(factors.n_configs.max(initial=1))),
        before=np.zeros(int(factors.n_configs.max(initial=1))),
        margin=np.zeros(int(n_slots)),
        belief=np.zeros(int(np.diff(starts).max(initial=1))),
        order=np.zeros(widest),
        pull=np.zeros(int(factors.width.max(initial=1))),
        totals=np.zeros(3),
    )  # fmt: skip


# -- Upper bounds of each example's risk from the messages of ``bcfw``, where its blocks are factors -----------------
#
# See :mod:`ssvm_trainers.planes.factor_kernels` for the definition of messages.


@njit(cache=True, nogil=True)
def message_bounds(
    maps: FlatMaps, entries: Entries, factors: Factors, space: SweepWorkspace, loss: F64, truth: I32, dual: Dual,
    ids: I64,
) -> F64:  # fmt: skip
    """Return the upper bounds of the risks of some examples at w from the messages, less the constants of their losses.

    For messages d it is (Meshi et al. 2010, equation 8), with the scores theta of the loss-augmented problem at w,

        sum_v max_s (theta_v + sum_f d_fv)(s)  +  sum_f max_c (theta_f(c) - sum_k d_fk(c_k))  -  w . Phi(x_i, y_i) .

    Parameters
    ----------
    maps, entries, factors : FlatMaps, Entries, Factors
        All feature maps; read only.
    space : SweepWorkspace
        Work space.
    loss : ndarray of float64, shape (S,)
        Loss of each state.
    truth : ndarray of int32, shape (V,)
    dual : Dual
        ``messages`` and ``w`` are read.
    ids : ndarray of int64
        The examples.

    Returns
    -------
    ndarray of float64, shape (len(ids),)
    """
    maps, entries, factors, space = borrow(maps), borrow(entries), borrow(factors), borrow(space)
    loss, dual, state_ptr, belief = borrow(loss), borrow(dual), entries.state_ptr, space.belief
    messages, w, bounds = dual.messages, dual.w, np.empty(len(ids))
    for place, i in enumerate(ids):
        lo, hi = entries.var_ptr[i], entries.var_ptr[i + 1]
        zero, total = state_ptr[lo], 0.0
        scores = ScoreSpace(space.node, space.pool, space.scores)
        score_example(maps, StateScores(entries.var_ptr, state_ptr, loss), i, w, space.ones, scores)
        for s in range(state_ptr[lo], state_ptr[hi]):
            belief[s - zero] = space.node[s]
        for v in range(lo, hi):
            s = state_ptr[v] + truth[v]
            total -= space.node[s] - loss[s]
        for f in range(factors.start[factors.shape[i]], factors.start[factors.shape[i] + 1]):
            g, x, config = factors.group[f], 0, 0
            message, table = factors.message_at[i] + factors.message[f], factors.table_at[i, g] + factors.table[f]
            for k in range(factors.arity[g]):
                v = lo + factors.variable[factors.slot[f] + k]
                config = config * (state_ptr[v + 1] - state_ptr[v]) + truth[v]
                for s in range(state_ptr[v] - zero, state_ptr[v + 1] - zero):
                    belief[s] += messages[message + x]
                    space.margin[x] = messages[message + x]
                    x += 1
            table_values(factors, f, space.pool, table, space.margin, space.value)
            best = -np.inf
            for c in range(factors.n_configs[g]):
                best = max(best, space.value[c])
            total += best - space.pool[table + config]
        for v in range(lo, hi):
            best = -np.inf
            for s in range(state_ptr[v] - zero, state_ptr[v + 1] - zero):
                best = max(best, belief[s])
            total += best
        bounds[place] = total
    return bounds


# --------------------------------------------------------------------------------------------------------------------
# Input of the steps on single factors: the factors of each shape of an example, and the curvature of the dual.

#: Number of factors that are rounded together.
CHUNK = 2**18


class Listing(NamedTuple):
    """The factors of one example of each shape, in the order of their examples.

    Parameters
    ----------
    few : Program
        One example of each shape.
    place : list of ndarray of int64
        For each group, where its factors are among those of its shapes.
    order : ndarray of int64, shape (m,)
        The factors of all groups, one group after the other, in the order of their examples.
    """

    few: Program
    place: list[I64]
    order: I64


def list_shapes(program: Program) -> Listing:
    """Return the factors of one example of each shape."""
    few = program.representatives
    owner = _joined([owners(group.ptr) for group in few.groups])
    place = [members(group.shapes.start, group.shapes.of) for group in few.groups]
    return Listing(few, place, np.argsort(owner, kind="stable"))


def own_tables(problem: TrainProblem) -> dict[int, int]:
    """Return the groups, with their map, whose tables are weights: their scores have no other terms."""
    maps = problem.parameters.maps
    plain = {
        fmap.group: m for m, fmap in enumerate(maps)
        if fmap.features is None and fmap.basis is None and not fmap.joint and fmap.block.lower_bound == -np.inf
    }  # fmt: skip
    return {g: m for g, m in plain.items() if g >= 0 and sum(fmap.group == g for fmap in maps) == 1}


def list_factors(problem: TrainProblem, listing: Listing, own: dict[int, int]) -> Factors:
    """Return the factors and where their numbers are; ``own`` as of :func:`own_tables`."""
    program, maps, (few, place, order) = problem.parameters.program, problem.parameters.maps, listing
    groups, scales = program.groups, map_scales(problem)
    n_configs = np.array([g.n_configs for g in groups], dtype=np.int64)
    width = np.array([sum(g.cards) for g in groups], dtype=np.int64)
    kind, number, table, slot, weights, n_slots = [], [], [], [], [], 0
    for k, (group, at) in enumerate(zip(groups, place, strict=True)):
        kind.append(np.full(len(at), k))
        number.append(np.arange(len(at)) - np.repeat(few.groups[k].ptr[:-1], few.groups[k].shapes.counts))
        table.append(group.rows[at])
        slot.append(n_slots + np.arange(len(at)) * group.arity)
        n_slots += len(at) * group.arity
        weights.append(np.full(len(at), -1))
        if k in own:
            units = maps[own[k]].units
            weights[k][:] = maps[own[k]].block.offset
            weights[k] += 0 if units is None else units[at].astype(np.int64) * group.n_configs
    kind_of = _joined(kind)[order]
    sent, start = pointers(width[kind_of]), pointers(_counts(few))
    shape = program.shape if few is not program else np.arange(problem.n, dtype=np.int32)
    corners, corner_at = _corners(program)
    return Factors(
        shape=shape,
        start=start,
        group=kind_of,
        table=_joined(table)[order] * n_configs[kind_of],
        mu=_joined(number)[order] * n_configs[kind_of],
        message=sent[:-1] - np.repeat(sent[start[:-1]], np.diff(start)),
        table_at=_bases(program, 0, [(g.n_tables, g.table_base) for g in groups]),
        mu_at=_bases(program, program.n_states, [(g.n_factors, g.ptr[:-1]) for g in groups]),
        message_at=pointers(np.diff(sent[start])[shape]),
        own=_joined(weights)[order],
        slot=_joined(slot)[order],
        variable=_joined([g.shapes.scope[at].ravel() for g, at in zip(groups, place, strict=True)]).astype(np.int32),
        degree=_degrees(program, few),
        arity=np.array([g.arity for g in groups], dtype=np.int64),
        n_configs=n_configs,
        width=width,
        rate=np.array([1.0 / scales[own[k]] if k in own else 0.0 for k in range(len(groups))]),
        place_at=corner_at,
        place=corners,
    )


def _bases(program: Program, first: int, parts: Sequence[tuple[int, I64]]) -> I64:
    """Return where the rows of each group start for each example, ``shape (n, G)``, in a vector of rows by group.

    Parameters
    ----------
    first : int
        Where the vector's first group starts.
    parts : sequence of (int, ndarray of int64, shape (n,))
        Rows of each group, and the first row of each example.
    """
    out = np.zeros((program.n_examples, len(parts)), dtype=np.int64)
    for k, (group, (n_rows, base)) in enumerate(zip(program.groups, parts, strict=True)):
        out[:, k] = first + base * group.n_configs
        first += n_rows * group.n_configs
    return out


def _counts(program: Program) -> I64:
    """Return the number of factors of each example."""
    return sum((group.shapes.counts for group in program.groups), np.zeros(program.n_examples, dtype=np.int64))


def _corners(program: Program) -> tuple[I64, I64]:
    """Return for each joint state and slot of a group its place among the states of all slots; where groups start."""
    out = []
    for group in program.groups:
        first = pointers(np.array(group.cards, dtype=np.int64))[:-1]
        out.append((np.indices(group.cards).reshape(group.arity, -1).T + first).ravel())
    return _joined(out), pointers(np.array([len(part) for part in out], dtype=np.int64))[:-1]


def _degrees(program: Program, few: Program) -> F64:
    """Return the number of slots of each variable."""
    out = np.zeros(few.n_variables)
    for group in few.groups:
        out += np.bincount(group.shapes.variables().ravel(), minlength=few.n_variables)
    return out if few is program else out[members(few.var_ptr, program.shape)]


def _joined(parts: Sequence[NDArray[np.integer[Any]]]) -> I64:
    """Return arrays of integers one after the other; there may be none."""
    return np.concatenate([*parts, np.zeros(0, np.int64)]).astype(np.int64)


def chunks_of(factors: Factors) -> list[tuple[int, int]]:
    """Return ranges of examples whose factors are few enough to be copied."""
    parts = bounded_slices(np.diff(factors.start)[factors.shape], CHUNK)
    return [(part.start, part.stop) for part in parts]


# -- curvature -----------------------------------------------------------------------------------------------


def together(fmap: FeatureMap) -> I64:
    """Return for each factor of the shapes how many of its shape, itself included, have the same weights."""
    shapes = fmap.shapes
    owner = owners(shapes.start)
    if fmap.units is None:
        return np.diff(shapes.start)[owner]
    key, most = owner * max(fmap.n_units, 1) + fmap.units, len(shapes.start) * max(fmap.n_units, 1)
    if most > 8 * len(key):  # too many to count each
        key = np.unique(key, return_inverse=True)[1]
    return np.asarray(np.bincount(key)[key], dtype=np.int64)


def squared_norms(fmap: FeatureMap) -> F64:
    """Return for each row of features a squared bound of its stretch of marginals in the joint feature map.

    Without features there is one row; features that depend on the joint state have a row for each factor.
    """
    rows: F64 = np.ones(1)
    if isinstance(fmap.features, SparseRows):
        squares = fmap.features.data**2
        rows = np.asarray(np.bincount(owners(fmap.features.ptr), squares, fmap.features.shape[0]), dtype=np.float64)
    elif fmap.features is not None:
        dense = fmap.features[:]
        rows = np.einsum("rp,rp->r", dense, dense)
    if fmap.joint:
        rows = rows.reshape(-1, fmap.n_configs).sum(axis=1)
    form = 1.0 if fmap.basis is None else float(np.linalg.norm(fmap.basis, 2)) ** 2
    return form * rows


def curvature_of(problem: TrainProblem, listing: Listing, factors: Factors) -> Curvature:
    """Return the curvature of the dual along the marginals of each variable and each factor.

    Examples of one shape share the numbers of their factors where no factor of two variables or more has features.
    """
    parameters, metric, everyone = problem.parameters, 1.0 / map_scales(problem), np.arange(problem.n)
    program, node = parameters.program, np.zeros(parameters.program.n_variables)
    shared = all(fmap.features is None for fmap in parameters.maps if fmap.group >= 0)
    sizes = [len(at) if shared else g.n_factors for at, g in zip(listing.place, program.groups, strict=True)]
    by_group = [np.zeros(n) for n in sizes]
    for m, fmap in enumerate(parameters.maps):
        amount, norms = metric[m] * together(fmap), squared_norms(fmap)
        if fmap.group >= 0 and shared:
            by_group[fmap.group] += (amount * norms)[listing.place[fmap.group]]
            continue
        for part in fmap.shapes.chunks(everyone):
            ids = everyone[part]
            values = fmap.shapes.spread(amount, None, ids)
            values = values * (norms if fmap.features is None else norms[fmap.rows_of(ids)])
            if fmap.group < 0:
                np.add.at(node, fmap.shapes.variables(ids)[:, 0], values)
            else:
                by_group[fmap.group][fmap.ptr[part.start] : fmap.ptr[part.stop]] += values
    if shared:
        return Curvature(node, np.concatenate([*by_group, np.zeros(0)])[listing.order], np.zeros(problem.n, np.int64))
    order = np.argsort(_joined([owners(group.ptr) for group in program.groups]), kind="stable")
    at = pointers(_counts(program))[:-1] - factors.start[factors.shape]
    return Curvature(node, np.concatenate([*by_group, np.zeros(0)])[order], at)
