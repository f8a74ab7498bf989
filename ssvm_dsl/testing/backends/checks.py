"""The checks of the conformance kit: each questions a backend in one way and lets the judge check one aspect.

A check gets a :class:`BackendTrial` (a problem and a backend) and raises :class:`~ssvm_dsl.testing.report.Complaint`;
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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I32, I64
from ssvm_dsl.errors import BackendFault, OutOfTime
from ssvm_dsl.inference.verification.verify import Verifier
from ssvm_dsl.ir import Limits, Question, Solution, Stop, Task, Theta
from ssvm_dsl.ir.ragged import members
from ssvm_dsl.plugin_api import Backend, BackendSpec, Session
from ssvm_dsl.testing.backends.judge import Judge, naming_the_question
from ssvm_dsl.testing.backends.large_example import check_ctrl_c, check_large_example
from ssvm_dsl.testing.backends.planted import check_cut_short, planted_chain
from ssvm_dsl.testing.backends.time_limit import check_cost, check_time_limit
from ssvm_dsl.testing.contract import opened, verdict_on
from ssvm_dsl.testing.kit import NotForThisCase
from ssvm_dsl.testing.problems import Problem
from ssvm_dsl.testing.report import Complaint

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
