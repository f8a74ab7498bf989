"""``lp``: the best score over the local polytope, by GLOP, PDLP or HiGHS.

Answers claim only results that a relaxation proves.  The bound is not the solver's objective but the value its duals
prove (:mod:`ssvm_backends.programs.local_polytope`).  Where the solution is whole it is a labelling and, if the bound
meets its score, an optimal one.  Where it is fractional a labelling is made of it, by the rule that the option
``rounding`` names (see :func:`rounded`); it comes with its own score and the bound of the relaxation.  With
``rounding="none"``, and where no rule finds a labelling that nothing forbids, the answer is
``Primal.FRACTIONAL``: marginals without labels.  The task ``relaxed`` asks for the fractional solution itself, which
is never rounded.

Scores go to the solver as losses against the best of their block, divided by the largest loss: neither huge nor tiny
scores meet its absolute tolerances unprepared.  Fractional solutions are feasible up to these tolerances; what leaves
this module has been clipped at zero and normalised block by block.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ssvm_backends.programs.local_polytope import PolytopeGroup, Priced
from ssvm_backends.programs.lp_solvers import Highs, LPOutcome, Solver, import_math_opt, math_opt
from ssvm_backends.programs.rounds import Rounds, proposed
from ssvm_backends.programs.session import COLUMN_BYTES, PolytopeSession, ProgramAnswer, columns_of, pack_marginals
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir import F64, I32, I64, Need, Primal, Program, Question, Solution, Stop, Task, Topology
from ssvm_dsl.plugin_api import Clock, Verdict, loading, pause

#: How far from 0 and 1 numbers may be to count as whole.
WHOLE_ATOL = 1e-6

#: Rows of constraints that are added in rounds are violated by at least this.
VIOLATED = 1e-5

#: Columns from which on ``auto`` takes PDLP (a simplex basis then costs more than many gradient steps).
MANY_COLUMNS = 100_000

#: What becomes of fractional solutions, by the option ``rounding``.
ROUNDED = {
    "none": "fractional solutions are no answers (rounding='none')",
    "argmax": "fractional solutions are rounded: each variable takes its most likely state (rounding='argmax')",
    "by-class": "fractional solutions are rounded: class after class by one threshold (rounding='by-class')",
    "threshold": "fractional solutions are rounded: the best of many thresholds (rounding='threshold')",
    "conditional": "fractional solutions are rounded: one variable after the other takes the state of the highest "
    "expected score (rounding='conditional')",
}

#: Joint states of the largest factor that is turned into columns.
MAX_TABLE = 1 << 20


class LP:
    """Linear programming over the local polytope, by GLOP, PDLP or HiGHS.

    Maximise ``theta . mu`` subject to ``A mu = b`` and ``mu >= 0``; its value bounds the score of every labelling.
    """

    def check(self, need: Need) -> Verdict:
        """Accept everything but factors with too large tables; tell what becomes of fractional solutions."""
        if need.max_table > MAX_TABLE:
            return Verdict(False, reasons=(f"a factor has {need.max_table} joint states; it handles {MAX_TABLE}",))
        asks_labels = need.topology is Topology.LOOPY or bool(need.constraint_kinds)
        asks_labels = asks_labels and need.tasks != {Task.RELAXED}
        notes = (ROUNDED[need.options.get("rounding", "conditional")],) if asks_labels else ()
        columns = columns_of(need)
        return Verdict(True, need.n_examples * (2e6 + 150 * columns**1.5), notes, COLUMN_BYTES * columns)

    def open(self, program: Program, options: Mapping[str, Any]) -> LPSession:
        """Open the backend on a program; the session solves the linear relaxation of each example."""
        if options["solver"] == "highs":
            with loading():
                importlib.import_module("scipy.optimize")
        else:
            import_math_opt(options["solver"])
        return LPSession(program, options)


class LPSession(PolytopeSession):
    """Linear programs of one program's examples."""

    def __init__(self, program: Program, options: Mapping[str, Any]) -> None:
        super().__init__(program, options, redundant=False)
        self._solvers: dict[str, Solver] = {}
        wanted = ("glop", "pdlp") if options["solver"] == "auto" else (options["solver"],)
        for name in wanted:
            self._solvers[name] = Highs() if name == "highs" else math_opt(name)

    def answer(self, priced: Priced, clock: Clock, warm: Any, task: Task) -> ProgramAnswer:
        """Solve the relaxation of one example, in rounds where it has constraints whose rows are too many to list."""
        if not priced.polytope.side.separable:
            outcome, mu, bound = self._relaxed(priced, clock, warm)
            if outcome.infeasible:
                return ProgramAnswer(bound=-np.inf)
            return self._labelled(priced, outcome, mu, bound, task)
        rounds, bound = Rounds(priced, clock), priced.bound()
        mu, iterations, seconds = None, 0, 0.0
        while True:
            try:
                outcome, point, proved = self._relaxed(rounds.now, clock, None)
            except OutOfTime:
                outcome, point, proved = LPOutcome(stop=Stop.TIME), None, bound
            if outcome.infeasible:
                return ProgramAnswer(bound=-np.inf)
            bound = min(bound, proved)
            iterations, seconds = iterations + outcome.iterations, seconds + outcome.seconds
            mu = mu if point is None else point
            if point is None or outcome.stop is not Stop.FINISHED:
                break
            if not rounds.add_violated(point[: priced.polytope.state_ptr[-1]], VIOLATED):
                break
            if clock.over:
                outcome = replace(outcome, stop=Stop.TIME)
                break
        outcome = replace(outcome, iterations=iterations, seconds=seconds, warm=None)
        return self._labelled(priced, outcome, mu, bound, task)

    def _relaxed(self, priced: Priced, clock: Clock, warm: Any) -> tuple[LPOutcome, F64 | None, float]:
        """Return a solver's outcome, its solution as probabilities, and the bound that its duals prove."""
        losses = priced.losses()
        closed = losses == np.inf
        largest = float(np.max(losses, where=~closed, initial=0.0)) or 1.0
        score = np.where(closed, 0.0, -losses / largest)
        outcome = self._solver(priced)(priced.polytope, score, closed, clock, warm)
        if outcome.stop is Stop.TIME and clock.limits.iterations is not None and not clock.over:
            outcome = replace(outcome, stop=Stop.ITERATIONS)  # GLOP does not say which of the limits it was
        bound = priced.bound(None if outcome.duals is None else outcome.duals * largest)
        mu = None if outcome.mu is None else normalised(outcome.mu, closed, priced.polytope.block_ptr)
        return outcome, mu, bound

    def _proposals(self, priced: Priced, mu: F64, labels: I32) -> Iterator[tuple[float, I32]]:
        """Yield labels, and what kinds of constraints start from for them: by scores and by the fractional solution."""
        n_states = int(priced.polytope.state_ptr[-1])
        yield priced.score_of(labels), labels
        score = priced.score[:n_states]
        for states in (score, np.where(score > -np.inf, mu[:n_states], -np.inf)):
            proposal = proposed(priced, labels, states)
            yield priced.score_of(proposal), proposal

    def _solver(self, priced: Priced) -> Solver:
        if len(self._solvers) == 1:
            return next(iter(self._solvers.values()))
        return self._solvers["pdlp" if priced.polytope.n_columns >= MANY_COLUMNS else "glop"]

    def packed(self, question: Question, answers: list[ProgramAnswer]) -> Solution:
        """Return the solution; the task ``relaxed`` has no labels, and the scores are those of the marginals."""
        solution = super().packed(question, answers)
        solution.marginals = pack_marginals(self.program, question.ids(self.program), [one.mu for one in answers])
        if question.task is Task.RELAXED:
            solution.labels = np.zeros(0, np.int32)
        else:
            solution.score[solution.primal != Primal.FEASIBLE] = -np.inf
        return solution

    def _labelled(self, priced: Priced, outcome: LPOutcome, mu: F64 | None, bound: float, task: Task) -> ProgramAnswer:
        stats = {"lp_iterations": outcome.iterations, "solver_seconds": outcome.seconds}
        if mu is None:
            return ProgramAnswer(bound=bound, stop=outcome.stop, warm=outcome.warm, stats=stats)
        rule, likely = self.options["rounding"], priced.polytope.labels_of(mu)
        rule = "none" if task is Task.RELAXED else rule
        labels: I32 | None = likely
        if mu[priced.polytope.chosen(likely)].min() < 1.0 - WHOLE_ATOL:
            labels = None if rule == "none" else rounded(priced, mu, rule)
        score = -np.inf if labels is None else priced.score_of(labels)
        if rule != "none" and priced.polytope.side.separable:
            proposals = self._proposals(priced, mu, likely if labels is None else labels)
            score, labels = max(proposals, key=lambda one: one[0])
        if score == -np.inf:
            return ProgramAnswer(None, priced.value(mu), bound, outcome.stop, outcome.warm, stats, mu)
        return ProgramAnswer(labels, score, max(bound, score), outcome.stop, outcome.warm, stats, mu)


def normalised(mu: F64, closed: Any, block_ptr: I64) -> F64 | None:
    """Return a solver's solution as probabilities: not negative, zero where closed, summing to one in each block."""
    clean = np.where(closed, 0.0, np.maximum(mu, 0.0))
    total = np.add.reduceat(clean, block_ptr[:-1])
    if not (total > 0.5).all():
        return None
    return clean / np.repeat(total, np.diff(block_ptr))


# -- From a fractional solution to a labelling, by the rule that the option ``rounding`` of ``lp`` names -------------
#
# * ``argmax``: each variable takes its most likely state.
# * ``threshold``: variable v takes the first state s with ``mu_v(0) + ... + mu_v(s) >= t``; the best labelling over
#   many t.  For two states and submodular scores every t gives an optimal labelling (Hochbaum 2002), for ordered
#   states and convex differences likewise.
# * ``conditional``: the method of conditional expectations (Raghavan 1988).  Variables are drawn independently with
#   probabilities mu_v in thought; one after the other is fixed to the state that keeps the expected score highest,
#   so the labelling is at least as good as that draw on average.  Forbidden joint states come first: states are
#   compared by the probability of meeting one, then by expected score.  Where the labelling breaks a hard constraint,
#   thresholds are tried.
# * ``by-class``: one class after the other, by one threshold for all variables: those that have no label yet, and at
#   least t of the class, take it, until all have one (Kleinberg and Tardos 1999; for associative networks Taskar,
#   Chatalbashev and Koller 2004).  With classes and thresholds drawn at random, a variable takes state s with the
#   probability mu_v(s), and a factor of c variables keeps 1/c of ``sum_s min_v mu_v(s) t(s, .., s)`` on average.  Here
#   that average is never given up: of all classes and thresholds the one is taken after which it is highest,
#
#       sum_v theta_v . mu_v  (without a label)  +  scores of what has labels
#       +  1/c sum_s min_v mu_v(s) t(s, .., s)  (factors none of whose variables has one).
#
# So the labelling scores at least the variables' part of the relaxation and 1/c of each factor's, where tables score
# equal states only, and not below 0.

#: Thresholds that are tried at most.
MAX_THRESHOLDS = 64

#: A running sum this close to 1 is 1, so that no state without weight comes into reach behind it.
_SAME_SUM = 1e-9

#: Probabilities of forbidden joint states closer than this count as equal.
_SAME_RISK = 1e-9


def rounded(priced: Priced, mu: F64, rule: str) -> I32:
    """Return a labelling near a fractional solution; its score may be ``-inf``.

    Parameters
    ----------
    priced : Priced
    mu : ndarray of float64, shape (n_columns,)
        Not negative, summing to one in each block, zero where forbidden.
    rule : {"argmax", "threshold", "conditional", "by-class"}
    """
    if rule == "argmax":
        return priced.polytope.labels_of(mu)
    if rule == "threshold":
        return _by_threshold(priced, mu)
    labels = _by_class(priced, mu) if rule == "by-class" else _by_expectation(priced, mu)
    return labels if priced.polytope.side.keeps(labels) else _by_threshold(priced, mu)


def _by_threshold(priced: Priced, mu: F64) -> I32:
    ptr = priced.polytope.state_ptr
    node = mu[: ptr[-1]]
    running = np.cumsum(node)
    before = np.repeat(np.concatenate([[0.0], running])[ptr[:-1]], np.diff(ptr))
    upto = running - before
    upto[upto > 1.0 - _SAME_SUM] = 1.0
    steps = np.unique(np.concatenate([[0.0], upto.round(9)]))
    middles = (steps[1:] + steps[:-1]) / 2
    if len(middles) > MAX_THRESHOLDS:
        middles = middles[np.linspace(0, len(middles) - 1, MAX_THRESHOLDS).astype(np.int64)]
    # a state without weight is never the first to reach a threshold that lies between two sums
    labellings = [priced.polytope.labels_of((upto >= t).astype(np.float64)) for t in middles]
    return max(labellings, key=priced.score_of)


def _by_expectation(priced: Priced, mu: F64) -> I32:
    polytope = priced.polytope
    ptr, n = polytope.state_ptr, polytope.n_variables
    card = np.diff(ptr)
    chance = np.zeros((n, int(card.max(initial=1))))
    chance[np.repeat(np.arange(n), card), np.arange(ptr[-1]) - np.repeat(ptr[:-1], card)] = mu[: ptr[-1]]
    touching, labels = _touching(polytope.parts, n), np.zeros(n, dtype=np.int32)
    for v in np.argsort(-chance.max(axis=1), kind="stable").tolist():
        gain = np.where(chance[v, : card[v]] > 0.0, priced.score[ptr[v] : ptr[v + 1]], -np.inf)
        risk = np.where(gain == -np.inf, np.inf, 0.0)
        for p, k, factors in touching[v]:
            expected, forbidden = _expected(priced, polytope.parts[p], factors, k, chance)
            gain, risk = gain + expected, risk + forbidden
        safe = risk <= risk.min() + _SAME_RISK
        labels[v] = int(np.argmax(np.where(safe, gain, -np.inf)))
        chance[v] = 0.0
        chance[v, labels[v]] = 1.0
    return labels


class _EqualStates(NamedTuple):
    """Factors as scores of equal states.

    Parameters
    ----------
    variables : list of list of int
        Of each factor.
    worth : list of list of float
        Score of each state that all its variables have, above the factor's lowest.
    kept : list of float
        What the average keeps of it.
    touching : list of list of int
        Factors of each variable.
    """

    variables: list[list[int]]
    worth: list[list[float]]
    kept: list[float]
    touching: list[list[int]]


def _equal_states(priced: Priced, share: F64) -> _EqualStates:
    """Return the factors; states that not all variables of a factor have are worth nothing."""
    classes = _EqualStates([], [], [], [[] for _ in range(len(share))])
    for part in priced.polytope.parts:
        size, arity = int(np.prod(part.cards)), len(part.cards)
        first = part.columns.start + np.arange(len(part.scope)) * size
        table = priced.score[first[:, None] + np.arange(size)]
        states = np.arange(min(part.cards))
        equal = table[:, np.ravel_multi_index((states,) * arity, part.cards)]
        lowest = np.where(table > -np.inf, table, np.inf).min(axis=1, keepdims=True)
        worth = np.where(equal > -np.inf, equal - lowest, 0.0)
        least = share[part.scope][:, :, : len(states)].min(axis=1)
        number = len(classes.variables)
        classes.variables.extend(part.scope.tolist())
        classes.worth.extend(worth.tolist())
        classes.kept.extend(((worth * least).sum(axis=1) / arity).tolist())
        for f, scope in enumerate(part.scope.tolist()):
            for v in scope:
                classes.touching[v].append(number + f)
    return classes


def _by_class(priced: Priced, mu: F64) -> I32:
    ptr, n = priced.polytope.state_ptr, priced.polytope.n_variables
    card, states = np.diff(ptr), int(np.diff(ptr).max(initial=1))
    share, score = np.zeros((n, states)), np.zeros((n, states))
    at = np.repeat(np.arange(n), card), np.arange(ptr[-1]) - np.repeat(ptr[:-1], card)
    share[at], score[at] = mu[: ptr[-1]], priced.score[: ptr[-1]]
    gain = score - np.where(share > 0.0, share * score, 0.0).sum(axis=1, keepdims=True)
    factors, labels = _equal_states(priced, share), np.full(n, -1, dtype=np.int32)
    while (labels < 0).any():
        pause()
        free = np.flatnonzero(labels < 0)
        best, chosen, state = -np.inf, free[:0], 0
        for s in range(states):
            rise, taken = _best_threshold(factors, share[:, s], gain[:, s], labels, free, s)
            if len(taken) and (rise, len(taken)) > (best, len(chosen)):
                best, chosen, state = rise, taken, s
        labels[chosen] = state
    return labels


def _best_threshold(
    factors: _EqualStates, share: F64, gain: F64, labels: I32, free: I64, state: int
) -> tuple[float, I64]:
    """Return by how much the average rises with the best threshold for a state, and the variables that take it."""
    order = free[np.argsort(-share[free], kind="stable")]
    order = order[share[order] > 0.0]
    rise, best, taken = 0.0, -np.inf, 0
    missing: dict[int, int] = {}  # of factors all of whose labels are this state: variables without one
    for place, v in enumerate(order.tolist()):
        rise += float(gain[v])
        for f in factors.touching[v]:
            if f not in missing:
                given = [labels[u] for u in factors.variables[f]]
                missing[f] = given.count(-1) if all(one in (-1, state) for one in given) else len(given) + 1
                rise -= factors.kept[f] if given.count(-1) == len(given) else 0.0
            missing[f] -= 1
            if missing[f] == 0 and state < len(factors.worth[f]):
                rise += factors.worth[f][state]
        last = place + 1 == len(order) or share[order[place + 1]] < share[v]
        if last and rise >= best:
            best, taken = rise, place + 1
    return best, order[:taken]


def _touching(parts: tuple[PolytopeGroup, ...], n_variables: int) -> list[list[tuple[int, int, I64]]]:
    """Return for each variable (part, place in the scope, factors of the part that have it there)."""
    out: list[list[tuple[int, int, I64]]] = [[] for _ in range(n_variables)]
    for p, part in enumerate(parts):
        for k, variable in enumerate(part.scope.T):
            order = np.argsort(variable, kind="stable")
            variables, first = np.unique(variable[order], return_index=True)
            for v, factors in zip(variables.tolist(), np.split(order, first[1:]), strict=False):
                out[v].append((p, k, factors))
    return out


def _expected(priced: Priced, part: PolytopeGroup, factors: I64, k: int, chance: F64) -> tuple[F64, F64]:
    """Return for each state of the k-th variable the expected score of some factors, and their risk of being forbidden.

    Parameters
    ----------
    factors : ndarray of int64, shape (n,)
        Factors of the part, all with the same k-th variable.
    chance : ndarray of float64, shape (V, largest card)
        The probability of each state of each variable.
    """
    first = part.columns.start + factors * int(np.prod(part.cards))
    table = priced.score[first[:, None] + np.arange(int(np.prod(part.cards)))].reshape(-1, *part.cards)
    open_ = table > -np.inf
    score, shut = np.where(open_, table, 0.0), (~open_).astype(np.float64)
    for axis in reversed(range(len(part.cards))):
        if axis != k:
            weights = chance[part.scope[factors, axis], : part.cards[axis]]
            weights = weights.reshape(len(factors), *(-1 if a == axis else 1 for a in range(score.ndim - 1)))
            score, shut = (score * weights).sum(axis=axis + 1), (shut * weights).sum(axis=axis + 1)
    return score.sum(axis=0), shut.sum(axis=0)
