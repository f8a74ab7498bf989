"""The conformance kit of kinds of hard constraints: compares ``violated`` with the linear rows of the kind, and more.

A check tries one problem that the kind makes.  It raises :class:`~ssvm_dsl.testing.kit.Complaint`; any other
exception is a failure, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from itertools import islice, pairwise, product
from typing import Any, ClassVar, Unpack

import numpy as np

from ssvm_dsl.array_types import F64, I32, Bools
from ssvm_dsl.errors import BackendFault
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.inference.starting.labelling import starting_labelling
from ssvm_dsl.inference.starting.repair import scores_of
from ssvm_dsl.ir import ConstraintGroup, LinearRows, Program, Question
from ssvm_dsl.plugin_api import (
    BestKind,
    ConstraintSpec,
    ExplainingKind,
    IntegralKind,
    MixtureKind,
    ProjectingKind,
    PropagatingKind,
    SeparableKind,
    StartingKind,
)
from ssvm_dsl.plugin_api.hosting.rules import (
    ContainedRules,
    mixture_mistakes,
    row_mistakes,
    separated_mistakes,
    state_mistakes,
    truth_mistakes,
)
from ssvm_dsl.registry import Registry
from ssvm_dsl.registry import registry as installed
from ssvm_dsl.requirements.programs import program_need
from ssvm_dsl.testing.brute_force import BruteForceSession
from ssvm_dsl.testing.kind_problems import kind_problem
from ssvm_dsl.testing.kit import Complaint, ConformanceReport, HowToRun, MakingKit, NotForThisCase, Rule, some_case
from ssvm_dsl.testing.problems import Problem

#: Labellings of an example for which rows are compared; those of larger ones are spread evenly.
COMPARED = 256

#: Literals of a constraint of which all truth values are tried.
MOST_LITERALS = 10

#: Backends that answer the problems of a kind.
BY_ROWS = "ilp"


def judgements(problem: Problem) -> None:
    """Ask which constraints are broken: bools, equal for examples alone, together and twice; no argument is changed."""
    program, rng = problem.program, np.random.default_rng(problem.program.n_variables)
    labels = rng.integers(0, program.card).astype(np.int32)
    for group in program.constraints:
        true = group.true_literals(labels, program.var_ptr)
        before, given = group.arrays(), deepcopy((group.arrays(), true))
        broken = _broken(group, true)
        if not (_same(before, given[0]) and np.array_equal(true, given[1])):
            raise Complaint("violated() wrote to the constraints or to the truth of the literals")
        if not np.array_equal(broken, _broken(group, true)):
            raise Complaint("violated() returns other results when it is called twice")
        n = program.n_examples
        order = np.concatenate([rng.permutation(n), rng.integers(n, size=n + 2 if n else 0)]).astype(np.int64)
        some = program.take(order)
        moved = np.concatenate([np.zeros(0, np.int32), *(labels[slice(*program.var_ptr[i : i + 2])] for i in order)])
        mine = group.take(order)
        expected = np.concatenate([np.zeros(0, bool), *(broken[slice(*group.ptr[i : i + 2])] for i in order)])
        if not np.array_equal(_broken(mine, mine.true_literals(moved, some.var_ptr)), expected):
            raise Complaint("violated() of a constraint depends on the other constraints of the call")


def _broken(group: ConstraintGroup, true: Bools) -> Bools:
    assert group.rules is not None
    broken = group.rules.violated(group, true)
    if not isinstance(broken, np.ndarray) or broken.dtype != bool or broken.shape != (group.n_constraints,):
        raise Complaint(f"violated() returns an array of {group.n_constraints} bools, got {broken!r:.80}")
    return broken


def _of_kind(problem: Problem, kind: Any) -> list[tuple[ConstraintGroup, Any]]:
    """Return the constraints whose rules have some optional methods, and the rules; a problem of none is no case."""
    found = [(group, group.rules) for group in problem.program.constraints if isinstance(group.rules, kind)]
    if not found:
        raise NotForThisCase
    return found


def _kept_truths(group: ConstraintGroup, k: int) -> Bools:
    """Return the truth values of the literals that keep constraint k, ``shape (m, n_literals)``."""
    one, n = group.only(np.array([k])), int(np.diff(group.literal_ptr)[k])
    truths = np.array(list(product((False, True), repeat=n)), dtype=bool).reshape(2**n, n)
    return np.asarray(truths[[not _broken(one, true)[0] for true in truths]])


def _same(arrays: list[np.ndarray], others: list[np.ndarray]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(arrays, others, strict=True))


def explanations(problem: Problem) -> None:
    """Ask for explanations of broken constraints, of kinds that give them."""
    for group, tried in _alone(problem.program):
        if not isinstance(group.rules, ExplainingKind):
            continue
        for labels in tried:
            true = _truth(group, labels)
            for k in np.flatnonzero(_broken(group, true)).tolist():
                said = group.rules.explain(group, k, true[group.literals(k)])
                if not isinstance(said, str) or (not said and not isinstance(group.rules, ContainedRules)):
                    text = f"explain() of labels {labels.tolist()}, which break constraint {k}"
                    raise Complaint(f"{text}: a string that says why is expected, got {said!r:.60}")


def _alone(program: Program) -> Iterator[tuple[ConstraintGroup, list[I32]]]:
    """Yield the constraints of each example, group by group, and all labellings of it, or some of many."""
    for example in range(program.n_examples):
        card = program.card[program.var_ptr[example] : program.var_ptr[example + 1]]
        step = max(1, int(program.n_labellings(example)) // COMPARED)
        every = islice(product(*map(range, card.tolist())), 0, None, step)
        tried = [np.array(one, dtype=np.int32) for one in every]
        for group in program.constraints:
            yield group.take(np.array([example], dtype=np.int64)), tried


def _truth(group: ConstraintGroup, labels: I32) -> Bools:
    """Return the truth of all literals of the constraints of one example."""
    return group.true_literals(labels, np.array([0, len(labels)], dtype=np.int64))


def rows(problem: Problem) -> None:
    """Compare ``violated`` with the rows, labelling by labelling; rows depend on nothing but their constraint."""
    program = problem.program
    for group in program.constraints:
        assert group.rules is not None
        for k in range(group.n_constraints):
            one, other = group.rules.rows(group, k), group.rules.rows(group.only(np.array([k])), 0)
            names = ("ptr", "column", "coefficient", "lower", "upper")
            if not all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names):
                raise Complaint(f"rows() of constraint {k} depends on the other constraints of the group")
    for group, tried in _alone(program):
        assert group.rules is not None
        written = [group.rules.rows(group, k) for k in range(group.n_constraints)]
        for k, one in enumerate(written):
            if wrong := row_mistakes(one, int(np.diff(group.literal_ptr)[k])):
                raise Complaint(f"rows() of constraint {k}: {wrong}")
        for labels in tried:
            true = _truth(group, labels)
            for k, (one, broken) in enumerate(zip(written, _broken(group, true), strict=True)):
                if keeps(one, true[group.literals(k)]) == broken:
                    said = f"labels {labels.tolist()} of an example {'break' if broken else 'keep'} constraint {k}"
                    raise Complaint(f"violated() says that {said}, rows() the opposite")


def keeps(written: LinearRows, true: Bools) -> bool:
    """Whether there are auxiliary numbers with which the rows hold for the truth of the literals."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    shape = (written.n_rows, len(true) + written.n_auxiliary)
    matrix = csr_array((written.coefficient, written.column, written.ptr), shape=shape, copy=True)  # columns sorted
    moved = matrix[:, : len(true)] @ true.astype(np.float64)
    size = 1e-9 * np.maximum(abs(matrix) @ np.ones(shape[1]), 1e-300)
    lower, upper = written.lower - moved, written.upper - moved
    if not written.n_auxiliary:
        return bool((lower <= size).all() and (upper >= -size).all())
    result = milp(
        np.zeros(written.n_auxiliary),
        integrality=written.whole,
        bounds=Bounds(written.least, written.most),
        constraints=LinearConstraint(matrix[:, len(true) :], lower, upper),
    )
    return bool(result.status == 0)


def hulls(problem: Problem) -> None:
    """Compare the best points of ``hull`` with the best truths of the literals, of kinds that have one."""
    rng = np.random.default_rng(problem.program.n_variables)
    for group, rules in _of_kind(problem, IntegralKind):
        for k in range(group.n_constraints):
            written, n = rules.hull(group, k), int(np.diff(group.literal_ptr)[k])
            if written is None or n > MOST_LITERALS:
                continue
            if wrong := row_mistakes(written, n):
                raise Complaint(f"hull() of constraint {k}: {wrong}")
            kept = _kept_truths(group, k)
            for _ in range(4):
                worth = rng.normal(size=n)
                best, found = float((kept @ worth).max(initial=-np.inf)), _best_point(written, worth)
                if found != best and not abs(found - best) <= 1e-7 * (1.0 + abs(best)):
                    text = f"hull() of constraint {k}: a point of worth {found:.6g} with {worth.tolist()} for literals"
                    raise Complaint(f"{text}, what satisfies it has {best:.6g} at most")


def _best_point(written: LinearRows, worth: F64) -> float:
    """Return the most that literals are worth in points of some rows; -inf where there are none."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    shape = (written.n_rows, len(worth) + written.n_auxiliary)
    if not shape[1]:
        return 0.0 if (written.lower <= 0.0).all() and (written.upper >= 0.0).all() else -np.inf
    matrix = csr_array((written.coefficient, written.column, written.ptr), shape=shape)
    most = np.concatenate([np.ones(len(worth)), np.full(written.n_auxiliary, np.inf)])
    cost = np.concatenate([-worth, np.zeros(written.n_auxiliary)])
    within = LinearConstraint(matrix, written.lower, written.upper) if written.n_rows else ()
    found = milp(cost, bounds=Bounds(0.0, most), constraints=within)
    return -float(found.fun) if found.status == 0 else -np.inf


def separations(problem: Problem) -> None:
    """Ask for violated rows, of kinds that find them: labels that break a constraint violate some, others keep all.

    Points between zeros and ones are asked about, too: what separates them is kept by all labels that keep the
    constraint.
    """
    rng = np.random.default_rng(problem.program.n_variables)
    for group, tried in _alone(problem.program):
        if not isinstance(group.rules, SeparableKind):
            continue
        truths = [_truth(group, labels) for labels in tried]
        broken = [_broken(group, true) for true in truths]
        for k in range(group.n_constraints):
            part = group.literals(k)
            points = [true[part].astype(np.float64) for true in truths]
            points += [rng.random(part.stop - part.start) for _ in range(3)]
            kept = np.array([true[part] for true, wrong in zip(truths, broken, strict=True) if not wrong[k]])
            for number, point in enumerate(points):
                rows = group.rules.violated_rows(group, k, point, 0.5 if number < len(truths) else 0.01)
                if wrong := separated_mistakes(rows, len(point)):
                    raise Complaint(f"violated_rows() of constraint {k}: {wrong}")
                text = f"violated_rows() of constraint {k} at {point.tolist()}"
                if number < len(truths) and bool(rows.n_rows) != bool(broken[number][k]):
                    said = "rows, and violated() says that it is kept" if rows.n_rows else "none, and it is broken"
                    raise Complaint(f"{text}: {said}")
                matrix = np.zeros((rows.n_rows, len(point)))
                owner = np.repeat(np.arange(rows.n_rows), np.diff(rows.ptr))
                np.add.at(matrix, (owner, rows.column), rows.coefficient)
                value, values = matrix @ point, kept.reshape(len(kept), len(point)) @ matrix.T
                if ((values < rows.lower - 1e-9) | (values > rows.upper + 1e-9)).any():
                    raise Complaint(f"{text}: a row that labels which keep the constraint do not keep")
                if ((rows.lower <= value) & (value <= rows.upper)).any():
                    raise Complaint(f"{text}: a row that this point keeps")


def answers(problem: Problem) -> None:
    """Compare the answers of integer programming, which uses the rows, with the best of all labellings."""
    program, question = problem.program, Question(problem.theta)
    if any(group.of_spans for group in program.groups):
        raise NotForThisCase  # rows know no factors of whole segments
    best = BruteForceSession(program).solve(question)
    solution = open_plan(plan(program_need(program), BY_ROWS), program).solve(question)
    if not problem.agree(solution.score, best.score):
        text = f"backend '{BY_ROWS}' finds scores {solution.score.tolist()} by rows"
        raise Complaint(f"{text}, the best labellings have {best.score.tolist()}")


def propagations(problem: Problem) -> None:
    """Compare answers of CP-SAT, with what the kind adds to its model, with the best labellings at several scores."""
    _of_kind(problem, PropagatingKind)
    rng = np.random.default_rng(problem.program.n_variables)
    for _ in range(3):
        theta = problem.theta.copy()
        theta.node[:] += 3.0 * rng.normal(size=theta.node.size)
        try:
            answers(Problem(f"{problem.name} with noise on node scores", problem.program, theta))
        except (Complaint, BackendFault) as err:
            raise Complaint(f"propagate() rules out labellings that keep the constraint, or fails: {err}") from err


def maximisers(problem: Problem) -> None:
    """Compare the states of ``best_states`` with all labellings of the variables of each constraint."""
    rng = np.random.default_rng(problem.program.n_variables)
    _of_kind(problem, BestKind)
    for one, node, group, k in _each(problem):
        if isinstance(group.rules, BestKind):
            _maximised(one, node + rng.normal(size=len(node)), group, k)


def _each(problem: Problem) -> Iterator[tuple[Program, F64, ConstraintGroup, int]]:
    """Yield each constraint, as its group and number, with its example alone and the scores of that, masks applied."""
    program, node = problem.program, Question(problem.theta).masked_node(problem.program)
    for example in range(program.n_examples):
        one = program.example(example)
        first, last = program.state_ptr[program.var_ptr[example : example + 2]]
        for group in one.constraints:
            for k in range(group.n_constraints):
                yield one, node[first:last], group, k


def _maximised(program: Program, node: F64, group: ConstraintGroup, k: int) -> None:
    """Compare the best states under constraint k with all others."""
    assert isinstance(group.rules, BestKind)
    variables, scores = scores_of(program, node, group, k)
    if any(scores.score[lo:hi].max() == -np.inf for lo, hi in pairwise(scores.ptr.tolist())):
        return
    found = group.rules.best_states(group, k, scores)
    if found is not None and (wrong := state_mistakes(found, scores)):
        raise Complaint(f"best_states() of constraint {k}: {wrong}")
    single, best, worth = group.only(np.array([k])), -np.inf, -np.inf
    labels, ptr = np.zeros(program.n_variables, dtype=np.int32), program.var_ptr
    for states in product(*(range(n) for n in np.diff(scores.ptr).tolist())):
        labels[variables] = states
        value = float(scores.score[scores.ptr[:-1] + np.array(states, dtype=np.int64)].sum())
        if not _broken(single, single.true_literals(labels, ptr)).any():
            best = max(best, value)
            worth = value if found is not None and tuple(found.tolist()) == states else worth
    if found is None and best > -np.inf:
        raise Complaint(f"best_states() of constraint {k} is None, and states of score {best} keep it")
    if found is not None and not worth >= best - 1e-9 * max(1.0, abs(best)):
        said = "break the constraint" if worth == -np.inf else f"score {worth}, the best {best}"
        raise Complaint(f"best_states() of constraint {k}: states {found.tolist()} {said}")


def mixtures(problem: Problem) -> None:
    """Compare ``best_truth`` with all truth values of the literals, ``project`` with a quadratic program over them."""
    rng = np.random.default_rng(problem.program.n_variables)
    groups = [group for group, _ in _of_kind(problem, MixtureKind)]
    small = [(one, k) for one in groups for k in np.flatnonzero(np.diff(one.literal_ptr) <= MOST_LITERALS).tolist()]
    if not small:
        raise NotForThisCase
    for group, k in small:
        kept = _kept_truths(group, k)
        for decided in (0.0, 0.2, 0.5):
            _mixed(group, k, kept, np.where(rng.random(kept.shape[1]) < decided, np.inf, 1.0), rng)


def _mixed(group: ConstraintGroup, k: int, kept: Bools, size: F64, rng: np.random.Generator) -> None:
    """Compare at random gains and a random point; ``size`` is infinite for literals that are decided."""
    assert isinstance(group.rules, MixtureKind)
    gain = rng.normal(size=len(size)) * size
    free = np.isfinite(gain)
    kept = kept[(kept == (gain > 0.0))[:, ~free].all(axis=1)]
    found, text = group.rules.best_truth(group, k, gain.copy()), f"of constraint {k} at {gain.tolist()}"
    if found is not None and (wrong := truth_mistakes(found, gain)):
        raise Complaint(f"best_truth() {text}: {wrong}")
    if found is None or not len(kept):
        if found is not None or len(kept):
            raise Complaint(f"best_truth() {text} is {found!r:.200}, and {len(kept)} truth values keep it")
        return
    best, worth = (kept[:, free] @ gain[free]).max(), found[free] @ gain[free]
    if not (kept == found).all(axis=1).any() or worth < best - 1e-9 * (1.0 + abs(best)):
        raise Complaint(f"best_truth() {text} is {found.tolist()} of gain {worth}, the best that keeps it has {best}")
    if isinstance(group.rules, ProjectingKind):
        point = np.where(free, 0.5 + gain, gain)
        near, text = group.rules.project(group, k, point.copy()), f"project() of constraint {k} at {point.tolist()}"
        if near is None or (wrong := mixture_mistakes(near, point)):
            raise Complaint(f"{text}: {'None, and truth values keep it' if near is None else wrong}")
        expected = _nearest(kept[:, free].astype(np.float64), point[free])
        if not np.allclose(near[free], expected, atol=1e-6):
            said = f"the mixture {near[free].tolist()}, and {expected.tolist()} is the nearest one"
            raise Complaint(f"{text} finds {said}")


def _nearest(corners: F64, point: F64) -> F64:
    """Return the nearest mixture of corners to a point: least squares with weights of at least 0, whose sum is 1."""
    from scipy.optimize import nnls

    heavy = 1e4
    weight = nnls(np.vstack([corners.T, np.full(len(corners), heavy)]), np.append(point, heavy))[0]
    return np.asarray(weight @ corners / weight.sum())


def starts(problem: Problem) -> None:
    """Ask for states that keep each constraint, where the kind proposes some, and for the host's first labelling."""
    for one, node, group, k in _each(problem):
        _proposed(one, node, group, k)
    program, question = problem.program, Question(problem.theta)
    best, start = BruteForceSession(program).solve(question).score, starting_labelling(program, question)
    if (start.score > best + 1e-9).any() or (start.impossible & (best > -np.inf)).any():
        raise Complaint(f"first labellings score {start.score.tolist()}, the best ones {best.tolist()}")


def _proposed(program: Program, node: F64, group: ConstraintGroup, k: int) -> None:
    if not isinstance(group.rules, StartingKind):
        return
    variables, scores = scores_of(program, node, group, k)
    states = group.rules.start(group, k, scores)
    if states is None:
        return
    if wrong := state_mistakes(states, scores):
        raise Complaint(f"start(): {wrong}")
    labels = np.zeros(program.n_variables, dtype=np.int32)
    labels[variables] = states
    if _broken(group, group.true_literals(labels, program.var_ptr))[k]:
        raise Complaint(f"start() returns states {states.tolist()} that violated() says break constraint {k}")


def best_scores(problem: Problem) -> list[float]:
    """Return the best score of each example, ``-inf`` where there is no labelling."""
    return [float(one) for one in BruteForceSession(problem.program).solve(Question(problem.theta)).score]


#: The checks, then the properties that some problem of a kind must have.
RULES: tuple[Rule[ConstraintSpec, Problem], ...] = (
    Rule("violated", judgements),
    Rule("rows", rows),
    Rule("violated rows", separations),
    Rule("hull", hulls, optional=True),
    Rule("answers", answers),
    Rule("propagation", propagations, optional=True),
    Rule("best states", maximisers, optional=True),
    Rule("mixtures", mixtures, optional=True),
    Rule("start", starts),
    Rule("explain", explanations),
    some_case("feasible examples", lambda problem: max(best_scores(problem), default=-np.inf) > -np.inf),
    some_case("infeasible examples", lambda problem: min(best_scores(problem), default=0.0) == -np.inf),
    some_case(
        "examples without constraints",
        lambda problem: any((one.counts == 0).any() for one in problem.program.constraints),
        lambda spec: spec.any_literals,
    ),
)


def check_constraint(
    kind: str | ConstraintSpec,
    registry: Registry | None = None,
    *,
    n_problems: int = 20,
    seed: int = 0,
    **how: Unpack[HowToRun],
) -> ConformanceReport:
    """Check a kind of constraints: ``violated`` must agree with its rows on all small labellings.

    Parameters
    ----------
    kind : str or ConstraintSpec
        A registered name, or the description that is registered under it.
    registry : Registry, optional
        Where to look the name up; the installed plug-ins by default.
    n_problems : int
        Number of problems that the kind makes.
    seed : int
        The same seed gives the same problems.
    **how
        Which checks run, and how: :class:`~ssvm_dsl.testing.kit.HowToRun`.

    Returns
    -------
    ConformanceReport

    Raises
    ------
    PluginError, OptionError
        Unknown kind; unknown check.  (Faults of the kind are in the report.)
    """
    known = installed() if registry is None else registry
    spec = known.find(ConstraintSpec, kind if isinstance(kind, str) else kind.name)
    return ConstraintKit(spec, known, seed=seed, n_problems=n_problems).run(**how)


class ConstraintKit(MakingKit[ConstraintSpec, Rule[ConstraintSpec, Problem], Problem]):
    """The kit of kinds of constraints; a case is a problem that the kind makes."""

    kind, rules, making = "constraint", RULES, "problems"
    methods: ClassVar = {"violated": ("group", "true"), "rows": ("group", "k"), "problem": ("rng",)}

    def makers(self, seed: int) -> Iterator[tuple[str, Callable[[], Problem]]]:
        """Yield the problem that the kind makes of a seed."""
        yield f"seed {seed}", partial(kind_problem, self.spec.name, seed, self.plugins)
