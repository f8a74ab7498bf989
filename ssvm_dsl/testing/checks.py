"""The checks of the conformance kit: each asks a backend in one way and lets the judge look at one aspect.

A check gets a :class:`Trial` (a problem and a backend) and raises :class:`~ssvm_dsl.testing.judge.Complaint`;
any other exception is the backend's and counts as a failure too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.errors import BackendFault
from ssvm_dsl.inference.verify import Verifier
from ssvm_dsl.ir import Caps, CountTables, Limits, Marginals, Messages, Program, Solution, Task, Theta, Warm
from ssvm_dsl.ir.loss import COUNT
from ssvm_dsl.ir.ragged import members
from ssvm_dsl.ir.solution import score_marginals, select
from ssvm_dsl.plugin_api import Backend, BackendSpec, CountingSession, Session, SlopeSession
from ssvm_dsl.testing.judge import LABELLING_TASKS, Complaint, Judge, Question
from ssvm_dsl.testing.problems import Problem

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

ALL_TASKS = frozenset(Task)

#: Labellings asked for where a check needs no particular number of them.
K = 3


class NotOffered(Exception):
    """The session does not offer what an optional check is about; the trial does not count."""


@dataclass(eq=False)
class Trial:
    """A backend before one problem.

    Parameters
    ----------
    spec : BackendSpec
    backend : Backend
    options : mapping
    judge : Judge
        Knows the right answers.
    tasks : frozenset of Task
        What to ask: tasks the check is about, that are claimed and not refused for this problem.
    rng : Generator
    """

    spec: BackendSpec
    backend: Backend
    options: Mapping[str, Any]
    judge: Judge
    tasks: frozenset[Task]
    rng: np.random.Generator

    @cached_property
    def problem(self) -> Problem:
        """A copy of the problem, so that a backend that writes to it spoils no other trial and not the judge."""
        return deepcopy(self.judge.problem)

    def open(self) -> Session:
        """Open the backend on the problem."""
        return self.backend.open(self.problem.program, dict(self.options))

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

    def questions(self, examples: I64 | None = None, limits: Limits | None = None) -> Iterator[Question]:
        """Yield one question for each task."""
        for task in sorted(self.tasks):
            clamp = self.clamp if task is Task.MAP_CLAMPED else None
            asked = Question(task, examples, clamp, K if task is Task.KBEST else 1)
            yield asked if limits is None else replace(asked, limits=limits)

    def selection(self) -> I64:
        """Return a random selection of examples, in random order."""
        n = self.problem.program.n_examples
        return self.rng.permutation(n)[: int(self.rng.integers(1, n + 1))].astype(np.int64)

    def ask(self, session: Session, question: Question, theta: Theta | None = None, warm: Any = None) -> Solution:
        """Put a question to a session."""
        return session.solve(
            self.problem.theta if theta is None else theta,
            examples=question.examples,
            task=question.task,
            clamp=question.clamp,
            warm=warm,
            limits=question.limits,
            k=question.k,
        )

    def judged(self, session: Session, question: Question, theta: Theta | None = None, warm: Any = None) -> Solution:
        """Put a question to a session and check all of the answer but what is compared with other answers."""
        solution = self.ask(session, question, theta, warm)
        with told(question):
            self.judge.everything(question, solution)
        return solution

    def other(self) -> Trial:
        """Return a trial with other scores for the same program (and the same states forbidden)."""
        problem, theta = self.judge.problem, self.judge.problem.theta.copy()
        theta.node[:] += self.rng.normal(size=theta.node.size) * max(1.0, _spread(theta.node))
        changed = Problem(f"{problem.name} with noise on node scores", problem.program, theta)
        return replace(self, judge=Judge(changed, self.spec.caps))


@dataclass(frozen=True)
class Rule:
    """A check and when it applies.

    Parameters
    ----------
    name : str
    run : callable
        Raises when a trial goes wrong.
    tasks : frozenset of Task
        The tasks it is about.
    claimed : callable
        Whether a backend of given ``Caps`` claims what it tests (besides the tasks).
    fits : callable
        Whether a problem can test it.
    optional : bool
        Whether no ``Caps`` claim it and sessions decide to offer it (then no case at all is fine).
    """

    name: str
    run: Callable[[Trial], None]
    tasks: frozenset[Task] = ALL_TASKS
    claimed: Callable[[Caps], bool] = lambda caps: True
    fits: Callable[[Problem], bool] = lambda problem: True
    optional: bool = False


@contextmanager
def told(question: Question) -> Iterator[None]:
    """Add the question to what a complaint says."""
    try:
        yield
    except Complaint as complaint:
        raise Complaint(f"{question}\n{complaint}") from None


def _spread(node: NDArray[np.float64]) -> float:
    finite = node[np.isfinite(node)]
    return float(np.ptp(finite)) if finite.size else 0.0


def _aspect(look: Callable[[Judge, Question, Solution], None]) -> Callable[[Trial], None]:
    """Return a check that asks once for every task and looks at one aspect of the answer."""

    def run(trial: Trial) -> None:
        session = trial.open()
        for question in trial.questions():
            solution = trial.ask(session, question)
            with told(question):
                trial.judge.form(question, solution)
                look(trial.judge, question, solution)

    return run


def _everything(trial: Trial) -> None:
    session = trial.open()
    for question in trial.questions():
        trial.judged(session, question)


def _kbest(trial: Trial) -> None:
    session = trial.open()
    for k in (1, 2, 7):
        question = Question(Task.KBEST, k=k)
        solution = trial.ask(session, question)
        with told(question):
            trial.judge.form(question, solution)
            trial.judge.kbest(question, solution)


def _selected(trial: Trial) -> None:
    """Ask for some examples in any order, for none, and with ``nan`` as scores of the others."""
    session, chosen = trial.open(), trial.selection()
    hidden = _hide_others(trial.problem, chosen)
    for examples in (chosen, chosen[::-1].copy(), chosen[:0]):
        for question in trial.questions(examples):
            trial.judged(session, question)
    for question in trial.questions(chosen):
        trial.judged(session, question, theta=hidden)


def _hide_others(problem: Problem, chosen: I64) -> Theta:
    """Return the scores with ``nan`` wherever only examples that are not chosen have theirs."""
    program, theta = problem.program, problem.theta
    out = Theta.zeros(program)
    out.pool[:], out.node[:], out.const[:] = np.nan, np.nan, np.nan
    states = members(program.state_ptr, members(program.var_ptr, chosen))
    out.node[states], out.const[chosen] = theta.node[states], theta.const[chosen]
    for group, mine, given in zip(program.groups, out.tables, theta.tables, strict=True):
        rows = group.table[members(group.ptr, chosen)]
        mine[rows] = given[rows]
    return out


def _reused(trial: Trial) -> None:
    """Ask with other scores in between; earlier answers stay as they are."""
    session, other = trial.open(), trial.other()
    for question in trial.questions():
        first = trial.judged(session, question)
        kept = deepcopy(replace(first, warm=None, stats={}))
        other.judged(session, question, other.problem.theta)
        with told(question):
            _same(kept, first, "a later call changed the arrays of an earlier answer")
        trial.judged(session, question)


def _unchanged(trial: Trial) -> None:
    """Look whether program, scores, selection and clamps are as they were."""
    problem, chosen = trial.problem, trial.selection()
    session, before = trial.open(), _fingerprint(problem)
    for question in trial.questions(chosen):
        given = deepcopy((question.examples, question.clamp))
        trial.ask(session, question)
        with told(question):
            if _fingerprint(problem) != before:
                raise Complaint("the backend wrote to the program or to theta")
            for what, mine, old in zip(("examples", "clamp"), (question.examples, question.clamp), given, strict=True):
                if mine is not None and old is not None and not np.array_equal(mine, old):
                    raise Complaint(f"the backend wrote to '{what}'")


def _fingerprint(problem: Problem) -> tuple[str, bytes, bytes, bytes]:
    theta = problem.theta
    return replace(problem.program).content_hash, theta.node.tobytes(), theta.pool.tobytes(), theta.const.tobytes()


def _deterministic(trial: Trial) -> None:
    session = trial.open()
    for question in trial.questions():
        first = trial.ask(session, question)
        with told(question):
            _same(first, trial.ask(session, question), "asked twice, it gives different answers")
            _same(first, trial.ask(trial.open(), question), "opened anew, it gives a different answer")


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


def _threads(trial: Trial) -> None:
    """Ask one session from four threads at once, each time for other examples."""
    session = trial.open()
    asked = [question for _ in range(4) for question in trial.questions(trial.selection())]
    with _eager_switching(), ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda question: trial.ask(session, question), asked))
    for question, answer in zip(asked, answers, strict=True):
        with told(question):
            trial.judge.everything(question, answer)
            if trial.spec.caps.deterministic:
                _same(trial.ask(session, question), answer, "alone and among other threads it answers differently")


@contextmanager
def _eager_switching() -> Iterator[None]:
    """Let threads take turns as often as possible, so that races show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _warm(trial: Trial) -> None:
    """Start from the state of an earlier answer, for the same and for other scores."""
    session, other = trial.open(), trial.other()
    for question in trial.questions():
        warm = trial.judged(session, question).warm
        if warm is None:
            raise Complaint(f"{question}\nclaims warm starts but Solution.warm is None")
        trial.judged(session, question, warm=warm)
        other.judged(session, question, other.problem.theta, warm)


def _limits(trial: Trial) -> None:
    """Stop at once: what comes back is honest about it."""
    session = trial.open()
    for limits in (Limits(time=0.0), Limits(iterations=1)):
        for question in trial.questions(limits=limits):
            trial.judged(session, question)


def _compiled(trial: Trial) -> None:
    """Call the compiled oracle, if a session offers one, for every example; no verifier sees its answers."""
    offer = getattr(trial.open(), "compiled", None)
    oracle = None if offer is None else offer()
    if oracle is None:
        raise NotOffered
    from ssvm_dsl.testing.compiled_call import call_oracle

    program, judge, question = trial.problem.program, trial.judge, Question(Task.MAP)
    for example in range(program.n_examples):
        labels, score = call_oracle(oracle, program, trial.problem.theta, example)
        card = program.card[slice(*program.var_ptr[example : example + 2])]
        best, slack = float(judge.best(question, example)[0]), judge.slack(example)
        if ((labels < 0) | (labels >= card)).any():
            raise Complaint(f"example {example}: labels {labels.tolist()} for variables of {card.tolist()} states")
        found = judge.labellings(question, example).score(labels)
        if not (score == best or abs(score - best) <= slack) or found < best - slack:
            text = f"returns score {score!r} and labels of score {found!r}, the best score is {best!r}"
            raise Complaint(f"compiled oracle, example {example}: {text}")


def _counted(trial: Trial) -> None:
    """Ask for the labellings that are worth most by random tables of counts, and compare with all labellings."""
    program, judge, session = trial.problem.program, trial.judge, cast(CountingSession, trial.open())
    tables, chosen = _random_tables(program, np.random.default_rng(program.n_variables)), trial.selection()
    verify = Verifier(program, trial.spec.name, trial.spec.caps)
    asked = ((trial.problem.theta, None), (trial.problem.theta, chosen), (_hide_others(trial.problem, chosen), chosen))
    for theta, examples in asked:
        ids = select(program, examples)
        of_these = tables.select(ids)
        solution = session.best_by_count(theta, of_these, examples)
        try:
            solution = verify.counted(trial.problem.theta, solution, of_these, examples)
        except BackendFault as fault:
            raise Complaint(f"best by count: the verifier refuses the answer: {fault.fault}") from None
        for i, example in enumerate(ids):
            best = float(judge.labellings(Question(Task.MAP), int(example)).worth(of_these, i).max())
            found = float(solution.score[i])
            size = judge.terms.size[example] * tables.scale.max(initial=0.0) + 1.0  # offsets are about 1
            if not (found == best or abs(found - best) <= 2.0 * judge.caps.score_atol * size):
                raise Complaint(f"example {example}: the best by counts is worth {best!r}, it says {found!r}")


def _random_tables(program: Program, rng: np.random.Generator) -> CountTables:
    """Return tables that leave out some pairs of counts, and some that labellings have."""
    counts = rng.integers(0, 3, (int(program.state_ptr[-1]), 2)) * rng.integers(0, 2, 2)
    n_variables = np.diff(program.var_ptr)
    shape = 1 + rng.integers(0, 1 + 2 * n_variables[:, None], (program.n_examples, 2))
    cells = shape[:, 0] * shape[:, 1]
    offset, scale = rng.normal(size=cells.sum()), rng.choice([0.0, 0.5, 1.0, 2.0], cells.sum())
    offset[rng.random(len(offset)) < 0.1] = -np.inf
    return CountTables(counts, shape, np.cumsum(cells) - cells, offset, scale)


def _messages(trial: Trial) -> None:
    """Start from messages again, and ask where their bound is attained: at these and at other scores."""
    session, chosen, other = cast(SlopeSession, trial.open()), trial.selection(), trial.other()
    question, theta, theirs = Question(Task.MAP, chosen), trial.problem.theta, other.problem.theta
    solution = trial.ask(session, question)
    if not isinstance(solution.warm, Messages) or not np.array_equal(solution.warm.ids, chosen):
        raise Complaint(f"{question}\nclaims messages but Solution.warm is no Messages of these examples")
    mine, changed = (session.slope(scores, chosen, solution.warm) for scores in (theta, theirs))
    if mine is None or changed is None:
        raise NotOffered
    again = trial.ask(session, replace(question, limits=Limits(iterations=1)), warm=solution.warm)
    rise = []
    for slope in (mine, changed):
        _one_state_each(trial.problem.program, slope, chosen)
        at = [score_marginals(trial.problem.program, scores, slope, chosen) for scores in (theta, theirs)]
        with np.errstate(invalid="ignore"):  # forbidden at both
            rise.append(at[1] - at[0])
    for i, example in enumerate(chosen.tolist()):
        slack = trial.judge.slack(example) + other.judge.slack(example)
        best, bound = float(other.judge.best(question, example)[0]), float(solution.bound[i])
        if not again.bound[i] <= bound + slack:
            text = f"a bound of {bound!r}, and {float(again.bound[i])!r} when it starts from the messages"
        elif rise[1][i] < rise[0][i] - slack:
            text = "the slope of a convex bound falls on the way to other scores"
        elif bound + rise[1][i] < best - slack:
            most = bound + rise[1][i]
            text = f"bound and slope allow labellings of at most {most:g} at other scores, one has {best:g}"
        else:
            continue
        raise Complaint(f"example {example}: {text}")


def _one_state_each(program: Program, slope: Marginals, ids: I64) -> None:
    """Look whether a slope is one state for each variable and one joint state for each factor."""
    card = program.card[members(program.var_ptr, ids)]
    rows = [row for table in slope.tables for row in table]
    rows += np.split(slope.node, np.cumsum(card)[:-1]) if len(card) else []
    counts = [len(slope.node), *map(len, slope.tables)]
    expected = [int(card.sum()), *(len(members(group.ptr, ids)) for group in program.groups)]
    if counts != expected or not all((np.sort(row) == np.eye(len(row))[-1]).all() for row in rows):
        raise Complaint("a slope is a one for a state of each variable and a joint state of each factor, else zeros")


def _verified(trial: Trial) -> None:
    """Pass the verifier, which every answer goes through outside of this kit."""
    session, problem = trial.open(), trial.problem
    verify = Verifier(problem.program, trial.spec.name, trial.spec.caps)
    for examples in (None, trial.selection()):
        for question in trial.questions(examples):
            solution = trial.ask(session, question)
            with told(question):
                try:
                    verify(problem.theta, solution, question.examples, question.task, question.clamp)
                except BackendFault as fault:
                    raise Complaint(f"the verifier refuses the answer: {fault.fault}") from None
                trial.judge.everything(question, solution)


def _has_examples(problem: Problem) -> bool:
    return problem.program.n_examples > 0


RULES = (
    Rule("answer form", _aspect(lambda judge, question, solution: None)),
    Rule("scores", _aspect(Judge.scores)),
    Rule("map", _aspect(Judge.optimum), frozenset({Task.MAP})),
    Rule("map_clamped", _aspect(Judge.optimum), frozenset({Task.MAP_CLAMPED})),
    Rule("kbest", _kbest, frozenset({Task.KBEST})),
    Rule("marginals", _aspect(Judge.marginals), frozenset({Task.MARGINALS})),
    Rule("relaxed", _aspect(Judge.relaxed), frozenset({Task.RELAXED})),
    Rule("bounds", _aspect(Judge.bound), LABELLING_TASKS | {Task.RELAXED}),
    Rule("masks", _aspect(Judge.facts), ALL_TASKS - {Task.MAP_CLAMPED}, fits=lambda problem: problem.has_masks),
    Rule("clamps", _aspect(Judge.facts), frozenset({Task.MAP_CLAMPED})),
    Rule("forbidden scores", _everything, fits=lambda problem: problem.has_forbidden_scores),
    Rule("empty examples", _everything, fits=lambda problem: problem.has_empty_example),
    Rule("selected examples", _selected, fits=_has_examples),
    Rule("session reuse", _reused),
    Rule("inputs unchanged", _unchanged, fits=_has_examples),
    Rule("deterministic", _deterministic, claimed=lambda caps: caps.deterministic),
    Rule("threads", _threads, claimed=lambda caps: caps.thread_safe, fits=_has_examples),
    Rule("warm start", _warm, claimed=lambda caps: caps.warm is not Warm.NONE),
    Rule("limits", _limits),
    Rule("compiled oracle", _compiled, frozenset({Task.MAP}), fits=_has_examples, optional=True),
    Rule("best by count", _counted, frozenset({Task.MAP}), lambda caps: COUNT in caps.loss_kinds, _has_examples),
    Rule("messages", _messages, frozenset({Task.MAP}), lambda caps: caps.messages, _has_examples),
    Rule("verifier", _verified, fits=_has_examples),
)
