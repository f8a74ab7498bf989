"""The run of ``bcfw`` for the relaxed risk where blocks are single factors, and messages make them agree.

No oracle is called while training.  An outer iteration is a sweep: a step on every factor and variable of every
example (:mod:`ssvm_trainers._factor_kernels`).  Weights move from the first one on, although no relaxation has been
solved for any weights yet, which is the idea of dual losses (Meshi et al. 2010); that weights and messages both follow
from cheap steps on factors is that of Yen et al. (2016).  :data:`SWEEPS` sweeps count as a pass with an oracle.

The certificate is made of two bounds.  Messages bound the relaxed objective at w from above.  The marginals, rounded to
the local polytope, are a point of the dual, whose value bounds the optimum from below.  Both are valid at any time.

The penalty follows the residuals as in AD3 (Martins et al. 2015): they should shrink alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import OptionError
from ssvm_dsl.ir import Marginals, Program, Theta
from ssvm_dsl.ir.features import FeatureMap, SparseRows
from ssvm_dsl.ir.local_polytope import consistent, labelling_marginals
from ssvm_dsl.ir.ragged import owners, pointers
from ssvm_dsl.ir.solution import add_marginals
from ssvm_dsl.plugin_api import Iterate, StopRule, TrainProblem
from ssvm_trainers._factor_kernels import Curvature, Dual, Factors, Space, message_bounds, sweep
from ssvm_trainers._fractional import first_entries, kinds_of_entries
from ssvm_trainers._fractional_kernels import Entries, Metric
from ssvm_trainers._pieces import pieces, visit_cost
from ssvm_trainers._planes import map_scales
from ssvm_trainers._resumable import Run
from ssvm_trainers._state_rules import COUNTS, NUMBERS, PART, SHARES, Rule

if TYPE_CHECKING:
    from ssvm_dsl.plugin_api import Planes

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

#: Sweeps that count as a pass, and pairwise steps of a factor in each.
SWEEPS, STEPS = 10, 2

#: First penalty, relative to the mean largest loss of a variable.
START = 0.05

#: The penalty changes when one residual is this many times the other.
UNBALANCED = 2.5

#: Slopes below this share of the losses are not worth a step.
NO_SLOPE = 1e-9


def refusal(problem: TrainProblem) -> str:
    """Return why a problem's factors cannot be blocks, or nothing."""
    program = problem.parameters.program
    if program.allowed is not None:
        return "some states are ruled out"
    if program.constraints:
        return "the model has hard constraints"
    return ""


def suits(problem: TrainProblem) -> bool:
    """Return whether factors are likely the better blocks.

    Where factors of an example share weights, their steps are as short as if all went the same way.
    """
    return not refusal(problem) and all(int(together(fmap).max(initial=1)) == 1 for fmap in problem.parameters.maps)


class FactorRun(Run):
    """One training run."""

    STATE: ClassVar[Mapping[str, Rule]] = {
        "mu": SHARES,
        "messages": NUMBERS,
        "w": NUMBERS,
        "free": NUMBERS,
        "penalty": Rule(least=1e-300),
        "now": COUNTS,
        "asked": COUNTS,
        "next": COUNTS,
        "random": PART,
    }

    def __init__(self, problem: TrainProblem, random_state: int | None, start: F64 | None) -> None:
        if reason := refusal(problem):
            raise OptionError(f"blocks='factors': {reason}; take blocks='examples'")
        self.problem, self.start = problem, start
        self.random = np.random.default_rng(random_state)
        parameters, objective, n = problem.parameters, problem.objective, problem.n
        own = own_tables(problem)
        self.maps, rest = parameters.flat, [m for m in range(len(parameters.maps)) if m not in own.values()]
        self.others = self.maps._replace(desc=self.maps.desc[rest])
        self.entries, self.factors = entries_of(problem, rest), list_factors(problem, own)
        self.curvature = curvature_of(problem)
        bounded = np.array([m.block.lower_bound > -np.inf for m in parameters.maps], dtype=np.int8)[rest]
        lower = np.array([m.block.lower_bound for m in parameters.maps])[rest]
        self.fixed = Metric(1.0 / map_scales(problem)[rest], bounded, lower, objective.weight / n, float(objective.lam))
        self.space = work_space(problem, self.entries.ptr, self.factors)
        self.size, self.cost = mean_loss(problem), visit_cost(problem)
        self.mu = labelling_marginals(parameters.program, problem.loss.truth)
        self.messages = np.zeros(int((self.factors.width[self.factors.group]).sum()))
        self.w = np.zeros(problem.dim)
        self.free = np.zeros(problem.dim) if bounded.any() else self.w
        self.penalty, self.now, self.asked, self.next = START * self.size, 0, 0, SWEEPS

    @property
    def passes(self) -> float:
        """Passes so far."""
        return self.asked + self.now / SWEEPS

    def iterate(self, stop: StopRule) -> Iterate:
        """Sweep once; certify ever more rarely."""
        if self.start is not None and not self.asked:
            return self.seed(self.start)
        self.space.totals[:] = 0.0
        for piece in pieces(self.problem, self.random.permutation(self.problem.n), STEPS * self.cost):
            sweep(
                self.others, self.entries, self.fixed, self.factors, self.curvature, self.space, piece,
                self.problem.loss.node, self.penalty, STEPS, NO_SLOPE * self.size,
                Dual(self.mu, self.messages, self.w, self.free),
            )  # fmt: skip
        self.now += 1
        if self.now % SWEEPS == 0:
            self._balance(self.now // SWEEPS)
        if self.now >= self.next or self.passes >= stop.max_passes:
            self.next = self.now + max(SWEEPS // 2, self.now // 4)
            return self.certified()
        return Iterate(self.w, self.passes)

    def seed(self, w: F64) -> Iterate:
        """Begin with marginals of the oracle at given weights, mixed with the truth so that the dual is best."""
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
        problem = self.problem
        self._follow()
        risks = np.empty(problem.n)
        message_bounds(
            self.maps, self.entries, self.factors, self.space, problem.loss.node, problem.loss.truth,
            self.messages, self.w, risks,
        )  # fmt: skip
        upper = problem.objective.primal(self.w, risks + problem.loss.const)
        dual, plane = self._rounded()
        return Iterate(self.w.copy(), self.passes, upper, upper, dual, plane=plane)

    def _follow(self) -> None:
        """Recompute w from the marginals (rounding errors do not add up)."""
        v, _ = self._plane(self.mu)
        objective = self.problem.objective
        self.w[:] = objective.weights(v)
        if self.free is not self.w:
            self.free[:] = v / (objective.lam * objective.scale)

    def _rounded(self) -> tuple[float, tuple[F64, float]]:
        """Return the value of the dual at the marginals rounded to the local polytope, and their plane."""
        program = self.problem.parameters.program
        inside = consistent(program, as_marginals(program, self.mu), np.arange(self.problem.n))
        v, b = self._plane(np.concatenate([inside.node, *(table.ravel() for table in inside.tables)]))
        return self.problem.objective.dual(v, b), (v, b)

    def _plane(self, mu: F64) -> tuple[F64, float]:
        """Return the plane (v, b) of marginals of all examples."""
        problem, parameters = self.problem, self.problem.parameters
        program, sums = parameters.program, Theta.zeros(parameters.program)
        moved = as_marginals(program, labelling_marginals(program, problem.loss.truth) - mu)
        share, everyone = problem.objective.weight / problem.n, np.arange(problem.n)
        add_marginals(program, moved, share, everyone, sums.node, sums.tables)
        b = float(np.dot(share, problem.loss.const)) - float(np.dot(sums.node, problem.loss.node))
        return parameters.adjoint(sums), b


def as_marginals(program: Program, mu: F64) -> Marginals:
    """Return flat marginals (of all variables, then of the factors of each group) by kind; views."""
    sizes = [group.n_factors * group.n_configs for group in program.groups]
    ptr = program.n_states + pointers(np.array(sizes, dtype=np.int64))
    parts = zip(program.groups, ptr[:-1], ptr[1:], strict=True)
    return Marginals(mu[: program.n_states], tuple(mu[lo:hi].reshape(-1, g.n_configs) for g, lo, hi in parts))


def mean_loss(problem: TrainProblem) -> float:
    """Return the mean largest loss of a variable (1 where there is none)."""
    states = problem.parameters.program.state_ptr[:-1]
    largest = np.maximum.reduceat(problem.loss.node, states) if len(states) else np.zeros(1)
    return float(np.abs(largest).mean()) or 1.0


def together(fmap: FeatureMap) -> I64:
    """Return for each factor how many of its example, itself included, have the same weights."""
    owner = owners(fmap.ptr)
    if fmap.unit is None:
        return np.diff(fmap.ptr)[owner]
    key, most = owner * max(fmap.n_units, 1) + fmap.unit, len(fmap.ptr) * max(fmap.n_units, 1)
    if most > 8 * len(key):  # too many to count them all
        key = np.unique(key, return_inverse=True)[1]
    return np.asarray(np.bincount(key)[key], dtype=np.int64)


def squared_norms(fmap: FeatureMap) -> F64:
    """Return for each factor a bound of how far its joint feature map stretches marginals, squared."""
    n, per = fmap.n_factors, fmap.n_configs if fmap.joint else 1
    rows: F64 = np.ones(n)
    if fmap.features is None:
        pass
    elif isinstance(fmap.features, SparseRows):
        squares = fmap.features.data**2
        rows = np.asarray(np.bincount(owners(fmap.features.ptr), squares, fmap.features.shape[0]), dtype=np.float64)
    else:
        rows = np.einsum("rp,rp->r", fmap.features, fmap.features)
    if fmap.joint:
        rows = rows.reshape(-1, per).sum(axis=1)
    if fmap.row is not None and fmap.features is not None:
        rows = rows[fmap.row]
    form = 1.0 if fmap.basis is None else float(np.linalg.norm(fmap.basis, 2)) ** 2
    return form * rows[:n]


def curvature_of(problem: TrainProblem) -> Curvature:
    """Return how far the dual curves along the marginals of each variable and each factor."""
    parameters, metric = problem.parameters, 1.0 / map_scales(problem)
    program = parameters.program
    node = np.zeros(program.n_variables)
    by_group = [np.zeros(group.n_factors) for group in program.groups]
    for m, fmap in enumerate(parameters.maps):
        amount = metric[m] * squared_norms(fmap) * together(fmap)
        if fmap.group < 0:
            node += np.bincount(fmap.scope[:, 0], amount, len(node))
        else:
            by_group[fmap.group] += amount
    return Curvature(node, np.concatenate([*by_group, np.zeros(0)])[by_example(problem)])


def by_example(problem: TrainProblem) -> I64 | slice:
    """Return the factors of all groups, one group after the other, in the order of their examples."""
    groups = problem.parameters.program.groups
    if len(groups) == 1:
        return slice(None)
    return np.argsort(_joined([owners(group.ptr) for group in groups]), kind="stable")


def own_tables(problem: TrainProblem) -> dict[int, int]:
    """Return the groups, with their map, whose tables are weights as they are: nothing else is in their scores."""
    maps = problem.parameters.maps
    plain = {
        fmap.group: m for m, fmap in enumerate(maps)
        if fmap.features is None and fmap.basis is None and not fmap.joint and fmap.block.lower_bound == -np.inf
    }  # fmt: skip
    return {g: m for g, m in plain.items() if g >= 0 and sum(fmap.group == g for fmap in maps) == 1}


def entries_of(problem: TrainProblem, maps: list[int]) -> Entries:
    """Return where changes of marginals are in the work space, for the maps given; no planes are kept."""
    program, nothing = problem.parameters.program, np.zeros(0, dtype=np.int64)
    begin = kinds_of_entries(program)
    first = first_entries(problem, begin)[maps]
    return Entries(pointers(begin[-1]), nothing, nothing, nothing, first, program.var_ptr, program.state_ptr)


def list_factors(problem: TrainProblem, own: dict[int, int]) -> Factors:
    """Return the factors of all examples and where their numbers are; ``own`` as of :func:`own_tables`."""
    program, order, maps = problem.parameters.program, by_example(problem), problem.parameters.maps
    groups = program.groups
    pool_at = pointers(np.array([g.n_tables * g.n_configs for g in groups], dtype=np.int64))
    mu_at = program.n_states + pointers(np.array([g.n_factors * g.n_configs for g in groups], dtype=np.int64))
    slot_at = pointers(np.array([g.scope.size for g in groups], dtype=np.int64))
    kind = _joined([np.full(g.n_factors, k) for k, g in enumerate(groups)])[order]
    table = [pool_at[k] + g.table.astype(np.int64) * g.n_configs for k, g in enumerate(groups)]
    mu = [mu_at[k] + np.arange(g.n_factors) * g.n_configs for k, g in enumerate(groups)]
    slot = [slot_at[k] + np.arange(g.n_factors) * g.arity for k, g in enumerate(groups)]
    weights = [np.full(g.n_factors, -1) for g in groups]
    for k, m in own.items():
        unit = maps[m].unit
        weights[k][:] = maps[m].block.offset
        if unit is not None:
            weights[k] += unit.astype(np.int64) * groups[k].n_configs
    rate = {k: 1.0 / map_scales(problem)[m] for k, m in own.items()}
    width = np.array([sum(g.cards) for g in groups], dtype=np.int64)
    variable, place = _joined([g.scope.ravel() for g in groups]).astype(np.int32), []
    for g in groups:
        first = pointers(np.array(g.cards, dtype=np.int64))[:-1]
        place.append((np.indices(g.cards).reshape(g.arity, -1).T + first).ravel())
    return Factors(
        ptr=sum((g.ptr for g in groups), np.zeros(problem.n + 1, dtype=np.int64)),
        group=kind,
        table=_joined(table)[order],
        mu=_joined(mu)[order],
        message=pointers(width[kind])[:-1],
        own=_joined(weights)[order],
        slot=_joined(slot)[order],
        variable=variable,
        degree=np.bincount(variable, minlength=program.n_variables).astype(np.float64),
        arity=np.array([g.arity for g in groups], dtype=np.int64),
        n_configs=np.array([g.n_configs for g in groups], dtype=np.int64),
        width=width,
        rate=np.array([rate.get(k, 0.0) for k in range(len(groups))]),
        place_at=pointers(np.array([len(p) for p in place], dtype=np.int64))[:-1],
        place=_joined(place),
    )


def _joined(parts: Sequence[NDArray[np.integer[Any]]]) -> I64:
    """Return arrays of integers one after the other; there may be none."""
    return np.concatenate([*parts, np.zeros(0, np.int64)]).astype(np.int64)


def work_space(problem: TrainProblem, entry_ptr: I64, factors: Factors) -> Space:
    """Return work space for the largest example."""
    parameters = problem.parameters
    program = parameters.program
    starts, widest = program.state_ptr[program.var_ptr], int(program.card.max(initial=1))
    n_slots = np.diff(pointers(factors.width[factors.group])[factors.ptr]).max(initial=1)
    return Space(
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
