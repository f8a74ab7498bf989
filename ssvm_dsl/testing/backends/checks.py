"""The checks of the conformance kit: each questions a backend in one way and lets the judge check one aspect.

A check gets a :class:`BackendTrial` (a problem and a backend) and raises :class:`~ssvm_dsl.testing.kit.Complaint`;
any other exception comes from the backend and is a failure, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from time import sleep
from types import FrameType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.errors import BackendFault, OutOfTime
from ssvm_dsl.inference.verification.verify import Verifier
from ssvm_dsl.ir import (
    ONE_SPAN,
    Ability,
    CountFactors,
    CountTables,
    DualBound,
    Limits,
    Marginals,
    Messages,
    Program,
    Question,
    Solution,
    Stop,
    Task,
    Theta,
)
from ssvm_dsl.ir.ragged import members
from ssvm_dsl.ir.solution import select
from ssvm_dsl.plugin_api import (
    Backend,
    BackendSpec,
    CompiledSession,
    CountingSession,
    DualBoundSession,
    MessageSession,
    Session,
    SumSession,
    missing_methods,
)
from ssvm_dsl.plugin_api.hosting.sessions import answer_of_oracle
from ssvm_dsl.scores.marginals import add_marginals, score_marginals
from ssvm_dsl.testing.backends.judge import MARGINAL_ATOL, Judge, naming_the_question, opened, verdict_on
from ssvm_dsl.testing.backends.limits import (
    check_cost,
    check_ctrl_c,
    check_cut_short,
    check_large_example,
    check_time_limit,
    planted_chain,
)
from ssvm_dsl.testing.brute_force import BruteForceSession
from ssvm_dsl.testing.kit import Complaint, NotForThisCase
from ssvm_dsl.testing.problems import Problem

NO_LIMITS = Limits()

#: Answers that take more seconds are not asked for again and again.
SHORT = 0.1

#: Labellings asked for where a check needs no particular number of them.
K = 3


@dataclass(eq=False)
class BackendTrial:
    """One backend on one problem.

    Parameters
    ----------
    spec : BackendSpec
    backend : Backend
    options : mapping
    judge : Judge
        Knows the correct answers.
    tasks : frozenset of Task
        Tasks to ask for: those that the check is about, that are claimed, and that are not refused for this problem.
    rng : Generator
    answers : dict of (Question, Solution) by Task
        What checks of this problem have asked before, all examples at once; each looks at another aspect of them.
    """

    spec: BackendSpec
    backend: Backend
    options: Mapping[str, Any]
    judge: Judge
    tasks: frozenset[Task]
    rng: np.random.Generator
    answers: dict[Task, tuple[Question, Solution]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The problem's name."""
        return self.judge.problem.name

    @cached_property
    def problem(self) -> Problem:
        """A copy of the problem, so that a backend that writes to it spoils no other trial and not the judge."""
        return deepcopy(self.judge.problem)

    def open(self) -> Session:
        """Open the backend on the problem."""
        return opened(self.backend, self.problem.program, self.options)

    @cached_property
    def clamp(self) -> I32:
        """Some variables fixed, mostly to states that are allowed."""
        program, rng = self.problem.program, self.rng
        clamp = rng.integers(0, program.card).astype(np.int32)
        if program.allowed is not None and rng.random() < 0.9:
            allowed = np.split(program.allowed, program.state_ptr[1:-1])
            clamp = np.array([rng.choice(np.flatnonzero(a)) if a.any() else 0 for a in allowed], dtype=np.int32)
        clamp[rng.random(len(clamp)) < 0.6] = -1
        return clamp

    def questions(self, examples: I64 | None = None, limits: Limits = NO_LIMITS) -> Iterator[Question]:
        """Yield one question for each task."""
        for task in sorted(self.tasks):
            yield self.question(task, examples, limits)

    def question(self, task: Task, examples: I64 | None = None, limits: Limits = NO_LIMITS) -> Question:
        """Return a question for a task."""
        clamp = self.clamp if task is Task.MAP_CLAMPED else None
        return Question(self.problem.theta, examples, task, clamp, None, limits, K if task is Task.KBEST else 1)

    def answered(self) -> Iterator[tuple[Question, Solution]]:
        """Yield one question for each task and its answer, each by a session that is asked nothing else."""
        for task in sorted(self.tasks):
            if task not in self.answers:
                question = self.question(task)
                self.answers[task] = question, self.open().solve(question)
            yield self.answers[task]

    def selection(self) -> I64:
        """Return a random selection of examples, in random order."""
        n = self.problem.program.n_examples
        return self.rng.permutation(n)[: int(self.rng.integers(1, n + 1))].astype(np.int64)

    def judged(self, session: Session, question: Question) -> Solution:
        """Ask a session, and check all aspects of the answer that need no other answer to compare with."""
        solution = session.solve(question)
        with naming_the_question(question):
            self.judge.everything(question, solution)
        return solution

    def other(self) -> BackendTrial:
        """Return a trial with other scores for the same program (and the same states forbidden)."""
        problem, theta = self.judge.problem, self.judge.problem.theta.copy()
        theta.node[:] += self.rng.normal(size=theta.node.size) * max(1.0, _spread(theta.node))
        changed = Problem(f"{problem.name} with noise on node scores", problem.program, theta)
        return replace(self, judge=Judge(changed, self.spec.caps), answers={})


def _spread(node: NDArray[np.float64]) -> float:
    finite = node[np.isfinite(node)]
    return float(np.ptp(finite)) if finite.size else 0.0


def aspect(judge_aspect: Callable[[Judge, Question, Solution], None]) -> Callable[[BackendTrial], None]:
    """Return a check of one aspect of the answers to every task."""

    def run(trial: BackendTrial) -> None:
        for question, solution in trial.answered():
            with naming_the_question(question):
                trial.judge.form(question, solution)
                judge_aspect(trial.judge, question, solution)

    return run


def everything(trial: BackendTrial) -> None:
    """Judge all aspects of the answers to every task."""
    for question, solution in trial.answered():
        with naming_the_question(question):
            trial.judge.everything(question, solution)


def kbest(trial: BackendTrial) -> None:
    """Ask for one, for a few and for more labellings than some examples have."""
    session = trial.open()
    for k in (1, 2, 7):
        question = Question(trial.problem.theta, task=Task.KBEST, k=k)
        solution = session.solve(question)
        with naming_the_question(question):
            trial.judge.form(question, solution)
            trial.judge.kbest(question, solution)


def selected(trial: BackendTrial) -> None:
    """Ask for some examples in any order, for none, and with ``nan`` as scores of all other examples."""
    session, chosen = trial.open(), trial.selection()
    hidden = hide_others(trial.problem, chosen)
    for examples in (chosen, chosen[::-1].copy(), chosen[:0]):
        for question in trial.questions(examples):
            trial.judged(session, question)
    for question in trial.questions(chosen):
        trial.judged(session, question.replace(theta=hidden))


def hide_others(problem: Problem, chosen: I64) -> Theta:
    """Return the scores with ``nan`` in the entries that no chosen example uses."""
    program, theta = problem.program, problem.theta
    out = Theta.zeros(program)
    out.pool[:], out.node[:], out.const[:] = np.nan, np.nan, np.nan
    states = members(program.state_ptr, members(program.var_ptr, chosen))
    out.node[states], out.const[chosen] = theta.node[states], theta.const[chosen]
    for group, mine, given in zip(program.groups, out.tables, theta.tables, strict=True):
        rows = group.table_rows(chosen)
        mine[rows] = given[rows]
    return out


def reused(trial: BackendTrial) -> None:
    """Ask with other scores in between; earlier answers stay as they are."""
    session, other = trial.open(), trial.other()
    for question in trial.questions():
        first = trial.judged(session, question)
        kept = deepcopy(replace(first, warm=None, stats={}))
        other.judged(session, question.replace(theta=other.problem.theta))
        with naming_the_question(question):
            _same(kept, first, "a later call changed the arrays of an earlier answer")
        trial.judged(session, question)


def unchanged(trial: BackendTrial) -> None:
    """Check that program, scores, selection and clamps are unchanged."""
    problem, chosen = trial.problem, trial.selection()
    session, before = trial.open(), _fingerprint(problem)
    for question in trial.questions(chosen):
        given = deepcopy((question.examples, question.clamp))
        session.solve(question)
        with naming_the_question(question):
            if _fingerprint(problem) != before:
                raise Complaint("the backend wrote to the program or to theta")
            for what, mine, old in zip(("examples", "clamp"), (question.examples, question.clamp), given, strict=True):
                if mine is not None and old is not None and not np.array_equal(mine, old):
                    raise Complaint(f"the backend wrote to '{what}'")


def _fingerprint(problem: Problem) -> tuple[str, bytes, bytes, bytes]:
    theta = problem.theta
    return replace(problem.program).content_hash, theta.node.tobytes(), theta.pool.tobytes(), theta.const.tobytes()


def deterministic(trial: BackendTrial) -> None:
    """Ask twice, and once in a new session."""
    session = trial.open()
    for question in trial.questions():
        first = session.solve(question)
        with naming_the_question(question):
            _same(first, session.solve(question), "asked twice, it gives different answers")
            _same(first, trial.open().solve(question), "a new session gives a different answer")


def _same(first: Solution, second: Solution, text: str) -> None:
    for what in ("labels", "score", "bound", "stop", "primal", "log_partition"):
        mine, yours = getattr(first, what), getattr(second, what)
        if (mine is None) != (yours is None):
            raise Complaint(f"{text}: {what}")
        if mine is not None and not np.array_equal(mine, yours, equal_nan=True):
            raise Complaint(f"{text}: {what} {np.asarray(mine).tolist()}, then {np.asarray(yours).tolist()}")
    if first.marginals is not None and second.marginals is not None:
        pairs = zip(
            (first.marginals.node, *first.marginals.tables),
            (second.marginals.node, *second.marginals.tables),
            strict=True,
        )
        if not all(np.array_equal(mine, yours, equal_nan=True) for mine, yours in pairs):
            raise Complaint(f"{text}: marginals")


def threads(trial: BackendTrial) -> None:
    """Ask one session from four threads at once, each time for other examples."""
    session = trial.open()
    asked = [question for _ in range(4) for question in trial.questions(trial.selection())]
    with _eager_switching(), ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda question: session.solve(question), asked))
    for question, answer in zip(asked, answers, strict=True):
        with naming_the_question(question):
            trial.judge.everything(question, answer)
            if trial.spec.caps.deterministic:
                _same(session.solve(question), answer, "alone and among other threads it answers differently")


def interleaved(trial: BackendTrial) -> None:
    """Let threads take turns after each line of Python, and kernels run side by side: none may use another's arrays."""
    session, caps, other = trial.open(), trial.spec.caps, trial.other()
    asked = []
    for question in trial.questions():
        asked += [(trial, question), (other, question.replace(theta=other.problem.theta))] * 3
    package = trial.spec.factory.partition(":")[0].partition(".")[0]
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(partial(_line_by_line, session, package), [question for _, question in asked]))
    for (one, question), answer in zip(asked, answers, strict=True):
        with naming_the_question(question, "among other threads"):
            one.judge.everything(question, answer)
    chain = planted_chain(caps, 2000)
    if Task.MAP not in trial.tasks or verdict_on(trial.backend, caps, chain, Task.MAP, trial.options) is None:
        return
    session, thetas = opened(trial.backend, chain.program, trial.options), [chain.theta, chain.scaled(0.5).theta]
    long = [Question(theta, limits=Limits(iterations=3)) for theta in thetas]
    try:
        if session.solve(long[0].replace(limits=Limits(SHORT, 3))).stop[0] == Stop.TIME:
            return
    except OutOfTime:
        return
    alone = [session.solve(question) for question in long]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(4):
            for first, second in zip(alone, pool.map(session.solve, long), strict=True):
                if caps.deterministic:
                    _same(first, second, "a long chain is answered differently while another thread asks about it")


def _line_by_line(session: Session, package: str, question: Question) -> Solution:
    """Ask, and give way to other threads after each line of a package."""

    def give_way(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_globals.get("__name__", "").partition(".")[0] != package:
            return None
        sleep(0.0)
        return give_way

    before = sys.gettrace()
    sys.settrace(give_way)
    try:
        return session.solve(question)
    finally:
        sys.settrace(before)


def cost(trial: BackendTrial) -> None:
    """Compare costs of verdicts, by which the planner chooses, with the time of answers."""
    if not check_cost(trial.backend, trial.spec, trial.options, min(trial.tasks)):
        raise NotForThisCase


@contextmanager
def _eager_switching() -> Iterator[None]:
    """Switch between threads as often as possible, so that races show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def warm(trial: BackendTrial) -> None:
    """Start from the state of an earlier answer, for the same and for other scores."""
    session, other = trial.open(), trial.other()
    for question in trial.questions():
        warm = trial.judged(session, question).warm
        if warm is None:
            raise Complaint(f"{question}\nclaims warm starts but Solution.warm is None")
        trial.judged(session, question.replace(warm=warm))
        other.judged(session, question.replace(theta=other.problem.theta, warm=warm))


def limits(trial: BackendTrial) -> None:
    """Stop at once: the answer reports it; a session without time for any work may raise OutOfTime."""
    session = trial.open()
    for question in trial.questions(limits=Limits(iterations=1)):
        trial.judged(session, question)
    for question in trial.questions(limits=Limits(time=0.0)):
        with suppress(OutOfTime):
            trial.judged(session, question)


def time_limit(trial: BackendTrial) -> None:
    """Ask for a larger batch, and a larger example, in less time than they need; backends that are too quick pass."""
    timed = [
        check_time_limit(trial.backend, trial.spec.caps, trial.options, task) for task in sorted(trial.spec.caps.tasks)
    ]
    if trial.spec.caps.tasks >= {Task.MAP}:
        timed.append(check_large_example(trial.backend, trial.spec.caps, trial.options))
    if not any(timed):
        raise NotForThisCase


def ctrl_c(trial: BackendTrial) -> None:
    """Press Ctrl-C during a search that takes long; backends that are too quick are not tested."""
    if not check_ctrl_c(trial.backend, trial.spec.caps, trial.options):
        raise NotForThisCase


def cut_short(trial: BackendTrial) -> None:
    """Ask about large problems whose optimum is known, and end the search at many moments."""
    asked = [
        check_cut_short(trial.backend, trial.spec.caps, trial.options, task) for task in sorted(trial.spec.caps.tasks)
    ]
    if not any(asked):
        raise NotForThisCase


def verified(trial: BackendTrial) -> None:
    """Pass the verifier, which checks every answer outside of this kit."""
    session, problem = trial.open(), trial.problem
    verify = Verifier(problem.program, trial.spec.name, trial.spec.caps)
    for examples in (None, trial.selection()):
        for question in trial.questions(examples):
            solution = session.solve(question)
            with naming_the_question(question):
                try:
                    verify(question, solution)
                except BackendFault as fault:
                    raise Complaint(f"the verifier refuses the answer: {fault.fault}") from None
                trial.judge.everything(question, solution)


def check_methods(trial: BackendTrial) -> None:
    """Check that sessions have the methods of every ability that is announced."""
    if lacking := missing_methods(trial.open(), trial.spec.caps):
        raise Complaint(lacking)


def check_weighted_sums(trial: BackendTrial) -> None:
    """Let the session add weighted marginals to numbers, and compare with the marginals of all labellings."""
    program, session, chosen = trial.problem.program, cast(SumSession, trial.open()), trial.selection()
    coef, rng = trial.rng.normal(size=len(chosen)), trial.rng
    start = rng.normal(size=program.n_states), [rng.normal(size=one.shape) for one in trial.problem.theta.tables]
    node, tables = start[0].copy(), [one.copy() for one in start[1]]
    question = Question(hide_others(trial.problem, chosen), chosen, Task.MARGINALS)
    log_z = session.expect(question, coef, node, tables)
    if log_z is None:
        if not all(np.array_equal(*pair) for pair in zip((node, *tables), (start[0], *start[1]), strict=True)):
            raise Complaint("expect() returns None but has changed the sums")
        raise NotForThisCase
    exact = BruteForceSession(program).solve(question)
    assert exact.marginals is not None
    assert exact.log_partition is not None
    atol = MARGINAL_ATOL + 64 * np.finfo(float).eps * float(trial.judge.terms.size.max(initial=0.0))
    if not np.allclose(log_z, exact.log_partition, rtol=MARGINAL_ATOL, atol=atol):
        raise Complaint(f"expect() returns log partitions {log_z.tolist()}, expected {exact.log_partition.tolist()}")
    there = np.isfinite(exact.log_partition)
    add_marginals(program, exact.marginals, np.where(there, coef, 0.0), chosen, *start)
    for what, mine, right in (("variables", [node], [start[0]]), ("factors", tables, start[1])):
        if not all(np.allclose(*pair, rtol=0, atol=10 * atol) for pair in zip(mine, right, strict=True)):
            raise Complaint(f"expect() adds other numbers than the weighted marginals of {what}")


def check_compiled_oracle(trial: BackendTrial) -> None:
    """Call the compiled oracle for every example, if the program has one."""
    oracle = cast(CompiledSession, trial.open()).compiled()
    if oracle is None or (oracle.finite and (trial.problem.has_forbidden_scores or trial.problem.has_masks)):
        raise NotForThisCase
    program, judge, question = trial.problem.program, trial.judge, Question(trial.problem.theta)
    for example in range(program.n_examples):
        labels, score = answer_of_oracle(oracle, program, trial.problem.theta, example)
        card = program.card[slice(*program.var_ptr[example : example + 2])]
        best, slack = float(judge.best(question, example)[0]), judge.slack(example)
        if ((labels < 0) | (labels >= card)).any():
            raise Complaint(f"example {example}: labels {labels.tolist()} for variables of {card.tolist()} states")
        true_score = judge.labellings(question, example).score(labels)
        if not (score == best or abs(score - best) <= slack) or true_score < best - slack:
            text = f"returns score {score!r} and labels of score {true_score!r}, the best score is {best!r}"
            raise Complaint(f"compiled oracle, example {example}: {text}")


def check_best_by_count(trial: BackendTrial) -> None:
    """Ask for the best labellings by random tables of counts, and compare with all labellings."""
    program, judge = trial.problem.program, trial.judge
    if verdict_on(trial.backend, trial.spec.caps, trial.problem, Task.MAP, trial.options, Ability.COUNTS) is None:
        raise NotForThisCase
    session = cast(CountingSession, trial.open())
    tables, chosen = _random_tables(program, np.random.default_rng(program.n_variables)), trial.selection()
    verify = Verifier(program, trial.spec.name, trial.spec.caps)
    asked = ((trial.problem.theta, None), (trial.problem.theta, chosen), (hide_others(trial.problem, chosen), chosen))
    for theta, examples in asked:
        ids = select(program, examples)
        of_these = tables.select(ids)
        solution = session.best_by_count(Question(theta, examples), of_these)
        try:
            solution = verify.counted(Question(trial.problem.theta, examples), solution, of_these)
        except BackendFault as fault:
            raise Complaint(f"best by count: the verifier refuses the answer: {fault.fault}") from None
        for i, example in enumerate(ids):
            best = float(judge.labellings(Question(theta), int(example)).worth(of_these, i).max())
            score = float(solution.score[i])
            size = judge.terms.size[example] * tables.scale.max(initial=0.0) + 1.0  # offsets are about 1
            if not (score == best or abs(score - best) <= 2.0 * judge.caps.score_atol * size):
                raise Complaint(f"example {example}: the best by counts is worth {best!r}, it says {score!r}")


def _random_tables(program: Program, rng: np.random.Generator) -> CountTables:
    """Return tables that leave out some pairs of counts, and some that labellings have."""
    counts = rng.integers(0, 3, (int(program.state_ptr[-1]), 2)) * rng.integers(0, 2, 2)
    n_variables = np.diff(program.var_ptr)
    shape = 1 + rng.integers(0, 1 + 2 * n_variables[:, None], (program.n_examples, 2))
    cells = shape[:, 0] * shape[:, 1]
    offset, scale = rng.normal(size=cells.sum()), rng.choice([0.0, 0.5, 1.0, 2.0], cells.sum())
    offset[rng.random(len(offset)) < 0.1] = -np.inf
    last = program.groups[-1:]
    spans = [CountFactors(g, rng.integers(0, 3, (g.n_tables, g.n_configs, 2))) for g in last if g.kind == ONE_SPAN]
    return CountTables(counts, shape, np.cumsum(cells) - cells, offset, scale, tuple(spans))


def check_messages(trial: BackendTrial) -> None:
    """Restart from messages, and ask where their bound is attained: at these and at other scores."""
    session, chosen, other = cast(MessageSession, trial.open()), trial.selection(), trial.other()
    theta, theirs = trial.problem.theta, other.problem.theta
    question = Question(theta, chosen)
    if hasattr(session, "dual_bound") and session.dual_bound(question) is not None:
        check_dual_bounds(trial)
        return
    solution = session.solve(question)
    if not isinstance(solution.warm, Messages) or not np.array_equal(solution.warm.ids, chosen):
        raise Complaint(f"{question}\nclaims messages but Solution.warm is no Messages of these examples")
    mine, changed = (session.slope(question.replace(theta=scores, warm=solution.warm)) for scores in (theta, theirs))
    if mine is None or changed is None:
        raise NotForThisCase
    restarted = session.solve(question.replace(limits=Limits(iterations=1), warm=solution.warm))
    rise = []
    for slope in (mine, changed):
        _one_state_each(trial.problem.program, slope, chosen)
        at = [score_marginals(trial.problem.program, scores, slope, chosen) for scores in (theta, theirs)]
        with np.errstate(invalid="ignore"):  # forbidden at both
            rise.append(at[1] - at[0])
    for i, example in enumerate(chosen.tolist()):
        slack = trial.judge.slack(example) + other.judge.slack(example)
        best, bound = float(other.judge.best(question, example)[0]), float(solution.bound[i])
        if not restarted.bound[i] <= bound + slack:
            text = f"a bound of {bound!r}, and {float(restarted.bound[i])!r} when it starts from the messages"
        elif rise[1][i] < rise[0][i] - slack:
            text = "the slope of a convex bound falls on the way to other scores"
        elif bound + rise[1][i] < best - slack:
            most = bound + rise[1][i]
            text = f"bound and slope allow labellings of at most {most:g} at other scores, one has {best:g}"
        else:
            continue
        raise Complaint(f"example {example}: {text}")


def check_dual_bounds(trial: BackendTrial) -> None:
    """Lower bounds, keep the messages, and ask for bounds and slopes there: at these scores and at others."""
    if not len(trial.selection()) or not np.isfinite(trial.problem.theta.node).all():
        raise NotForThisCase
    session, chosen, other = cast(DualBoundSession, trial.open()), trial.selection(), trial.other()
    theta, theirs, program = trial.problem.theta, other.problem.theta, trial.problem.program

    def ask(scores: Theta, iterations: int, warm: Messages | None) -> DualBound:
        found = session.dual_bound(Question(scores, chosen, warm=warm, limits=Limits(iterations=iterations)))
        if not isinstance(found, DualBound) or not np.array_equal(found.messages.ids, chosen):
            raise Complaint(f"dual_bound returned {found!r:.60}, expected a DualBound with messages of these examples")
        _distributions(program, found.marginals, chosen)
        return found

    first = ask(theta, 5, None)
    at = first, ask(theta, 0, first.messages), ask(theta, 5, first.messages), ask(theirs, 0, first.messages)
    rise = []
    for one in (first, at[3]):
        worth = [score_marginals(program, scores, one.marginals, chosen) for scores in (theta, theirs)]
        with np.errstate(invalid="ignore"):  # forbidden at both
            rise.append(worth[1] - worth[0])
    for i, example in enumerate(chosen.tolist()):
        slack = trial.judge.slack(example) + other.judge.slack(example)
        here, again, later, there = (float(one.bound[i]) for one in at)
        best = [float(one.judge.best(Question(s, chosen), example)[0]) for one, s in ((trial, theta), (other, theirs))]
        if abs(again - here) > slack:
            text = f"a bound of {here!r}, and {again!r} at the same messages"
        elif later > here + slack:
            text = f"a bound of {here!r}, and {later!r} after more iterations"
        elif here < best[0] - slack or there < best[1] - slack:
            text = f"bounds of {here!r}, and {there!r} at other scores; labellings have {best[0]!r} and {best[1]!r}"
        elif there < here + rise[0][i] - slack or here < there - rise[1][i] - slack:
            text = "the bound is below the plane of its slope at other scores"
        else:
            continue
        raise Complaint(f"example {example}: {text}")


def _slope_rows(program: Program, slope: Marginals, ids: I64) -> list[F64] | None:
    """Return what a slope says of each factor and variable; ``None`` where it has other shapes than these."""
    card = program.card[members(program.var_ptr, ids)]
    expected = [int(card.sum()), *(group.shapes.count(ids) for group in program.groups)]
    if [len(slope.node), *map(len, slope.tables)] != expected:
        return None
    rows = [row for table in slope.tables for row in table]
    return rows + (np.split(slope.node, np.cumsum(card)[:-1]) if len(card) else [])


def _distributions(program: Program, slope: Marginals, ids: I64) -> None:
    """Check that a slope is a distribution for each variable and for each factor."""
    rows = _slope_rows(program, slope, ids)
    if rows is None:
        raise Complaint("a slope has other shapes than variables and factors")
    if any((row < 0.0).any() or abs(row.sum() - 1.0) > 1e-6 for row in rows):
        raise Complaint("a slope is a distribution for each variable and for each factor")


def _one_state_each(program: Program, slope: Marginals, ids: I64) -> None:
    """Check that a slope is one state for each variable and one joint state for each factor."""
    rows = _slope_rows(program, slope, ids)
    if rows is None or not all((np.sort(row) == np.eye(len(row))[-1]).all() for row in rows):
        raise Complaint("a slope is a one for one state of each variable and joint state of each factor, else zeros")
