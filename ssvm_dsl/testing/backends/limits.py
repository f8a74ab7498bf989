"""Whether limits of time and Ctrl-C end a search: in a batch that takes long, and in one example that is far too large.

Problems for brute force are too small to be timed, so they are repeated until the backend takes long enough, however
quick it and the machine are.  Other work on the machine makes any answer late, so lateness alone is not yet a fault;
calling all examples finished long after the limit is one.  Where most examples have no answer, their search was left
out: the time went into reading the batch.

Many backends check the clock between the examples of a batch.  Before the first iteration on a large one they lay out
graphs, write rows, search for orders or components.  So one example grows until the backend refuses it or it is large;
each time a new session is asked with a short limit.  Only processor time counts, which other programs do not take.
Ctrl-C has to end a search inside one call of a solver as well; one that is over before says nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from threading import Event, Timer, current_thread, main_thread
from time import perf_counter, process_time
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.errors import OutOfTime, TooLargeError
from ssvm_dsl.ir import Caps, Group, Guarantee, Limits, Program, Question, Solution, Stop, Task, Theta, Topology
from ssvm_dsl.plugin_api import Backend, BackendSpec, Session
from ssvm_dsl.scores.labellings import score_labels
from ssvm_dsl.testing.backends.judge import MARGINAL_ATOL, Judge, naming_the_question, opened, verdict_on
from ssvm_dsl.testing.brute_force import Labellings
from ssvm_dsl.testing.kit import Complaint
from ssvm_dsl.testing.problems import Problem, Recipe, random_problem

#: Different examples of the batch, and how often they are repeated at most.
N_EXAMPLES, MOST_COPIES = 40, 1024

#: Seconds that the batch must take without a limit to be timed, and the share of them that is then allowed.
LEAST, SHARE = 0.1, 0.1

#: Share of the time without a limit that an answer may take: work under way, and other programs.
LATE = 0.7

#: The same for an answer that calls all examples finished: the limit, unless the time without one was misjudged.
FINISHED_LATE = 2 * SHARE

#: Share of the examples without any answer that shows that the search has ended early.
LEFT_OUT = 0.5

#: Repetitions of the batch whose cost is compared, and by which factor expected times may be off.
COST_COPIES, OFF = 2, 1e4

#: A late answer may have been unlucky; after this many in a row more examples are tried.
TRIES = 3


def check_time_limit(backend: Backend, caps: Caps, options: Mapping[str, Any], task: Task) -> bool:
    """Ask with and without a limit; return whether the backend takes the batch at all.

    Backends that are too quick on the largest batch pass.

    Parameters
    ----------
    backend : Backend
    caps : Caps
    options : mapping
    task : Task

    Raises
    ------
    Complaint
        It takes as long with a limit as without, or claims to have finished long after the limit.
    """
    copies, late = 1, None
    while True:
        batch = _Batch.open(backend, caps, options, task, copies)
        if batch is None:
            return copies > 1
        whole = batch.seconds()
        if whole >= LEAST:
            late, sure = batch.lateness(whole)
            if late is None:
                return True
            if sure or copies == MOST_COPIES:
                raise Complaint(late)
        elif copies == MOST_COPIES:
            return True
        copies = min(MOST_COPIES, copies * min(64, max(4, ceil(2 * LEAST / whole))))


def check_cost(backend: Backend, spec: BackendSpec, options: Mapping[str, Any], task: Task) -> bool:
    """Compare the time that a verdict lets plans expect with processor time; return whether the backend is asked.

    Raises
    ------
    Complaint
        They differ by more than the factor ``OFF``.
    """
    batch = _Batch.open(backend, spec.caps, options, task, COST_COPIES)
    if batch is None:
        return False
    took = min(batch.ask(Limits(), process_time)[1] for _ in range(2))
    expected = batch.cost / spec.speed
    if expected > OFF * max(took, 1e-4) or expected * OFF < took:
        text = f"check() gives {batch.n_examples} examples the cost {batch.cost:g}, at BackendSpec.speed={spec.speed:g}"
        raise Complaint(f"{text} that is {expected:.2g} s; they take {took:.2g} s of the processor")
    return True


class _Batch:
    """Some examples, repeated, and a session on them."""

    def __init__(
        self, backend: Backend, problem: Problem, options: Mapping[str, Any], task: Task, cost: float
    ) -> None:  # fmt: skip
        self.cost = cost
        self.n_examples = problem.program.n_examples
        self.session = opened(backend, problem.program, options)
        clamp = np.full(problem.program.n_variables, -1, dtype=np.int32) if task is Task.MAP_CLAMPED else None
        self.question = Question(problem.theta, task=task, clamp=clamp)

    @classmethod
    def open(cls, backend: Backend, caps: Caps, options: Mapping[str, Any], task: Task, copies: int) -> _Batch | None:
        """Return a batch that the capabilities cover, or ``None`` if the backend refuses it."""
        problem = _repeated(_examples(caps), copies)
        verdict = verdict_on(backend, caps, problem, task, options)
        return None if verdict is None else cls(backend, problem, options, task, verdict.cost)

    def ask(self, limits: Limits, clock: Callable[[], float] | None = None) -> tuple[Solution, float]:
        """Return an answer and the seconds it took."""
        clock = perf_counter if clock is None else clock
        start = clock()
        return self.session.solve(self.question.replace(limits=limits)), clock() - start

    def seconds(self) -> float:
        """Return the seconds without a limit; one-time preparation and compilation do not count."""
        return min(self.ask(Limits())[1] for _ in range(3))

    def lateness(self, whole: float) -> tuple[str | None, bool]:
        """Return the fault of the answers within a limit, and whether it is certain."""
        for _ in range(TRIES):
            limit = SHARE * whole
            solution, took = self.ask(Limits(time=limit))
            stopped = solution.stop == Stop.TIME
            left_out = stopped & (solution.score == -np.inf) & np.isnan(solution.bound)
            if took <= (LATE if stopped.any() else FINISHED_LATE) * whole or left_out.mean() > LEFT_OUT:
                return None, True
            whole = min(whole, self.ask(Limits())[1])  # it may have been the unlucky one
        text = f"{self.n_examples} examples take {whole:.3g} s, and {took:.3g} s with Limits(time={limit:.3g})"
        text += "" if stopped.any() else ", none of them with Stop.TIME"
        return f"{text}; look at the clock between examples, or more often", not stopped.any()


def _examples(caps: Caps) -> Problem:
    """Return examples that the capabilities cover."""
    recipe = Recipe(
        topology=caps.topology,
        max_arity=min(caps.max_arity, 2),
        n_examples=N_EXAMPLES,
        max_variables=8,
        max_card=2 if "binary" in caps.requires else 3,
        regular=bool(caps.requires & {"submodular", "metric", "semimetric"}),
    )
    return random_problem(np.random.default_rng(0), recipe)


def _repeated(problem: Problem, copies: int) -> Problem:
    """Return the examples repeated."""
    program, theta = problem.program, problem.theta
    examples = np.tile(np.arange(program.n_examples), copies)
    node, const = np.tile(theta.node, copies), np.tile(theta.const, copies)
    return Problem(
        f"{problem.name}, {copies} times", program.take(examples), Theta(node, theta.pool, theta.tables, const)
    )


#: Seconds that the first answer has, which compiles kernels.
COMPILING = 1.0

#: Numbers of variables of the examples.
SIZES = (16, 400, 10000)

#: Time limits in seconds: one ends during the first preparation, the other during preparation within the search.
LIMITS = (0.05, 0.3)

#: Seconds of processor time beyond the limit that an answer may take: single passes that cannot be cut short.
MOST_OVER = 0.4


def check_large_example(backend: Backend, caps: Caps, options: Mapping[str, Any]) -> bool:
    """Ask about ever larger examples with a short limit; return whether the backend takes any of them.

    Parameters
    ----------
    backend : Backend
    caps : Caps
    options : mapping

    Raises
    ------
    Complaint
        It takes much longer than the limit, or its answer is none.
    """
    asked = False
    for large in accepted_examples(backend, caps, options, dense(caps)):
        if not asked:
            _seconds(backend, options, large, Limits(time=COMPILING))
        asked = True
        for limit in LIMITS:
            took = min(_until_in_time(backend, options, large, limit))
            if took <= limit + MOST_OVER:
                continue
            n, m = large.program.n_variables, sum(group.n_factors for group in large.program.groups)
            text = f"one example of {n} variables and {m} factors takes {took:.3g} s of the processor with"
            text += f" Limits(time={limit:g})"
            raise Complaint(f"{text}; look at the clock while the answer is prepared, and within long passes")
    return asked


def accepted_examples(
    backend: Backend, caps: Caps, options: Mapping[str, Any], *more: Planted
) -> Iterator[PlantedJudge]:
    """Yield examples that the backend takes: some more, and ever larger ones."""
    for problem in (*more, *(planted(caps, n) for n in SIZES)):
        large = PlantedJudge(problem, caps)
        if verdict_on(backend, caps, large.problem, Task.MAP, options) is not None:
            yield large


def _until_in_time(backend: Backend, options: Mapping[str, Any], large: PlantedJudge, limit: float) -> Iterator[float]:
    """Yield the seconds that answers within a limit take, until one is in time or has been tried often enough."""
    for _ in range(TRIES):
        took = _seconds(backend, options, large, Limits(time=limit))
        yield took
        if took <= limit + MOST_OVER:
            return


def _seconds(backend: Backend, options: Mapping[str, Any], large: PlantedJudge, limits: Limits) -> float:
    """Return the seconds of the processor that a new session and its answer take."""
    begin, question = process_time(), Question(large.problem.theta, limits=limits)
    try:
        session = opened(backend, large.program, options)
        solution = session.solve(question)
    except (OutOfTime, TooLargeError):
        return process_time() - begin
    took = process_time() - begin
    with naming_the_question(question, large.problem.name):
        large.everything(question, solution)
    return took


#: Seconds after which Ctrl-C comes, and seconds that the search may then take to end.
AFTER, MOST_LATE = 0.3, 1.0

#: Seconds after which a search ends in any case, if it keeps limits: a kit is not to hang on what it looks for.
LIMIT = 10.0


def check_ctrl_c(backend: Backend, caps: Caps, options: Mapping[str, Any]) -> bool:
    """Press Ctrl-C during a search; return whether any example took long enough.

    Raises
    ------
    Complaint
        The search went on for more than :data:`MOST_LATE` seconds, or does not say what ended it.
    """
    if current_thread() is not main_thread() or os.name != "posix":
        return False
    tried = False
    for large in accepted_examples(backend, caps, options):
        if not tried:  # compiles kernels
            opened(backend, large.program, options).solve(Question(large.problem.theta, limits=Limits(time=LIMIT)))
            tried = True
            continue
        times = []
        for _ in range(TRIES):
            took = _seconds_until_ended(backend, options, large)
            if took is None:
                break
            times.append(took)
            if took <= AFTER + MOST_LATE:
                return True
        if len(times) == TRIES:
            text = f"Ctrl-C after {AFTER:g} s of a search on {large.program.n_variables} variables ended it after"
            cure = "call the solver by call_in_thread or call_in_process of ssvm_dsl.plugin_api"
            raise Complaint(f"{text} {min(times):.1f} s, expected {AFTER + MOST_LATE:g} s; {cure}")
    return False


def _seconds_until_ended(backend: Backend, options: Mapping[str, Any], large: PlantedJudge) -> float | None:
    """Return how long a search takes that is interrupted; ``None`` if it is over before.

    The whole time counts: a solver that keeps Python's global lock also keeps Ctrl-C from being pressed.
    """
    begin = end = perf_counter()
    over_before = True  # also if Ctrl-C comes between the end of the search and the next lines
    answer: Solution | None = None
    with _pressed_after(AFTER) as pressed:
        try:
            begin = perf_counter()
            session = opened(backend, large.program, options)
            answer = session.solve(Question(large.problem.theta, limits=Limits(time=LIMIT)))
        except (KeyboardInterrupt, OutOfTime, TooLargeError):
            pass  # if it ended by itself, what counts is when
        end = perf_counter()
        over_before = not pressed.is_set()
    if over_before:
        return None
    took = end - begin
    if answer is not None and (answer.stop == Stop.TIME).any() and took < LIMIT:
        raise Complaint("Ctrl-C ended the search, and stop is TIME, expected Stop.INTERRUPTED or KeyboardInterrupt")
    return took


@contextmanager
def _pressed_after(seconds: float) -> Iterator[Event]:
    """Press Ctrl-C once, by Python's own handler, and set an event before; one that comes when all is over is lost."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    pressed = Event()

    def press() -> None:
        pressed.set()
        os.kill(os.getpid(), signal.SIGINT)

    timer = Timer(seconds, press)
    timer.start()
    try:
        try:
            yield pressed
        finally:
            timer.cancel()
            timer.join()
    except KeyboardInterrupt:
        pass  # it came after the call under test had returned
    finally:
        signal.signal(signal.SIGINT, before)


# -- large problems whose best score is known, and searches on them that are cut short -----------------------------
#
# Chains have as many variables as one likes; dynamic programming knows their best score and log partition.  Grids have
# cycles and a planted best labelling: their scores are sums of parts, each of which that labelling maximises.
# What a backend says must be true at whatever moment its search ends.  It is asked with ever more iterations, then with
# ever more time.  An answer may come late here (the check of time limits is another one), but it must be right.

#: States of a variable where nothing asks for two.
CARD = 4

#: What all labellings score besides.
CONSTANT = 7.5


@dataclass(frozen=True, eq=False)
class Planted(Problem):
    """One example whose best score is known.

    Parameters
    ----------
    best : float
    log_partition : float
        ``nan`` where it is not known.
    """

    best: float
    log_partition: float


def planted(caps: Caps, n: int) -> Planted:
    """Return an example of about n variables that the capabilities cover: with cycles, where they cover those."""
    card, regular = 2 if "binary" in caps.requires else CARD, bool(caps.requires & _REGULAR)
    if caps.topology < Topology.LOOPY or caps.max_arity < 2:
        return planted_chain(caps, n)
    return _grid(n, card, regular)


def planted_chain(caps: Caps, n: int) -> Planted:
    """Return a chain of n variables that the capabilities cover; its numbers and tables are turned in any way."""
    card, regular = 2 if "binary" in caps.requires else CARD, bool(caps.requires & _REGULAR)
    return _chain(n, card, regular, caps.max_arity > 1)


def dense(caps: Caps) -> Planted:
    """Return a small complete graph, where bounds help little; a chain, where cycles are not covered."""
    card, regular = 2 if "binary" in caps.requires else CARD, bool(caps.requires & _REGULAR)
    if caps.topology < Topology.LOOPY or caps.max_arity < 2:
        return planted_chain(caps, 9)
    return _complete(card, regular)


_REGULAR = frozenset({"submodular", "metric", "semimetric"})


@lru_cache(maxsize=16)
def _chain(n: int, card: int, regular: bool, linked: bool) -> Planted:
    rng = np.random.default_rng(n)
    node, tables = rng.normal(size=(n, card)), rng.normal(size=(n - 1, card, card))
    if regular:  # equal states score more, by the same amount each
        tables = np.abs(tables[:, :1, :1]) * np.eye(card)
    tables *= linked
    best, total = node[0], node[0]
    for here, table in zip(node[1:], tables, strict=True):
        best = here + (best[:, None] + table).max(axis=0)
        high = total.max()
        total = here + high + np.log(np.exp(total - high) @ np.exp(table))
    high = total.max()
    order, turned = rng.permutation(n), rng.random(n - 1) < 0.5
    scope = np.stack([order[:-1], order[1:]], axis=1)
    scope[turned], tables[turned] = scope[turned, ::-1], tables[turned].transpose(0, 2, 1)
    scores = np.empty((n, card))
    scores[order] = node
    name = f"a chain of {n} variables"
    return _made(name, scores, scope[: (n - 1) * linked], tables, best.max(), high + np.log(np.exp(total - high).sum()))


@lru_cache(maxsize=16)
def _grid(n: int, card: int, regular: bool) -> Planted:
    """Plant a labelling in a grid of about as many rows as columns."""
    rng, n_rows = np.random.default_rng(n), int(np.sqrt(n))
    at = np.arange(n).reshape(n_rows, -1)
    best, node = rng.integers(card, size=n), np.zeros((n, card))
    across, down = (np.stack([a.ravel(), b.ravel()], axis=1) for a, b in ((at[:, :-1], at[:, 1:]), (at[:-1], at[1:])))
    edges, pair = np.concatenate([across, down]), np.arange(len(across) + len(down))
    u, v = edges.T
    to_u, to_v = rng.normal(size=(2, len(edges), card))  # the scores of variables are sums of these
    if regular:  # each pair, with what it gives to its variables, is best at the labelling
        tables = np.abs(rng.normal(size=(len(edges), 1, 1))) * np.eye(card)
        whole = tables + to_u[:, :, None] + to_v[:, None, :]
        short = whole.max(axis=(1, 2)) - whole[pair, best[u], best[v]]
        to_u[pair, best[u]] += short
        to_v[pair, best[v]] += short
    else:  # each square of four pairs is, after its states have been shifted
        tables = -(to_u[:, :, None] + to_v[:, None, :])
        rows, columns = pair[: len(across)].reshape(n_rows, -1), pair[len(across) :].reshape(n_rows - 1, -1)
        pairs = np.stack([rows[:-1], rows[1:], columns[:, :-1], columns[:, 1:]]).reshape(4, -1)
        top, bottom, left, right = each = rng.normal(size=(*pairs.shape, card, card))
        total = top[:, :, :, None, None] + bottom[:, None, None, :, :]  # of the states of four corners
        total = total + left[:, :, None, :, None] + right[:, None, :, None, :]
        local_best = np.stack(np.unravel_index(total.reshape(len(total), -1).argmax(axis=1), (card,) * 4))
        corners = np.stack([at[:-1, :-1], at[:-1, 1:], at[1:, :-1], at[1:, 1:]]).reshape(4, -1)
        states = (np.arange(card) + (local_best - best[corners])[:, :, None]) % card
        square = np.arange(pairs.shape[1])[:, None, None]
        for one, ends, table in zip(pairs, ((0, 1), (2, 3), (0, 2), (1, 3)), each, strict=True):
            tables[one] += table[square, states[ends[0]][:, :, None], states[ends[1]][:, None, :]]
    np.add.at(node, u, to_u)
    np.add.at(node, v, to_v)
    score = node[np.arange(n), best].sum() + tables[pair, best[u], best[v]].sum()
    return _made(f"a grid of {n} variables with a planted labelling", node, edges, tables, score, np.nan)


@lru_cache(maxsize=4)
def _complete(card: int, regular: bool, n: int = 9) -> Planted:
    rng, edges = np.random.default_rng(n), np.stack(np.triu_indices(n, 1), axis=1)
    tables = rng.normal(size=(len(edges), card, card))
    if regular:
        tables = np.abs(tables[:, :1, :1]) * np.eye(card)
    made = _made(f"a complete graph of {n} variables", rng.normal(size=(n, card)), edges, tables, np.nan, np.nan)
    return replace(made, best=float(Labellings(made.program, made.theta, 0, None).scores.max()))


def _made(name: str, node: F64, edges: I64, tables: F64, best: float, log_partition: float) -> Planted:
    n, card = node.shape
    var_ptr, m = np.array([0, n], dtype=np.int64), len(edges)
    groups: tuple[Group, ...] = ()
    if m:
        rows, ptr = np.arange(m, dtype=np.int32), np.array([0, m], dtype=np.int64)
        groups = (Group.of("pair", (card, card), edges.astype(np.int32), ptr, rows, m, var_ptr),)
    program = Program(var_ptr, np.full(n, card, np.int32), groups).validate()
    theta = Theta.of(program, node.ravel(), [tables.reshape(m, -1)] if m else [], [CONSTANT])
    return Planted(name, program, theta, CONSTANT + float(best), CONSTANT + float(log_partition))


class PlantedJudge(Judge):
    """Judges answers to a planted problem: one labelling each, and its bound."""

    def __init__(self, problem: Planted, caps: Caps) -> None:
        super().__init__(problem, caps)
        self.planted = problem

    def allowed_score(self, question: Question, example: int, labels: I32) -> float:
        """Return the score of a labelling; nothing is ruled out."""
        return self.plain_score(example, labels)

    def best(self, question: Question, example: int, k: int = 1) -> F64:
        """Return the best score."""
        return np.array([self.planted.best])

    def plain_score(self, example: int, labels: I32) -> float:
        """Return the score of a labelling."""
        return float(score_labels(self.program, self.planted.theta, labels)[0])


#: Variables of the chain, and of the examples that have cycles where the backend takes any.
CUT_LENGTH, CUT_SIZES = 10000, (64, 900)

#: Where searches are cut: after iterations (or the last of the seconds), then after seconds.
ITERATIONS, SECONDS = (1, 2, 5, 20), (0.0, 1e-3, 8e-3, 0.05, 0.2)


def check_cut_short(backend: Backend, caps: Caps, options: Mapping[str, Any], task: Task) -> bool:
    """Ask with growing limits; return whether the backend takes any of the problems.

    Raises
    ------
    Complaint
        An answer is wrong: a score that its labelling does not have, a bound or log partition below the optimum, an
        answer called finished that is not the best.
    """
    taken = False
    for problem in (planted_chain(caps, CUT_LENGTH), dense(caps), *(planted(caps, n) for n in CUT_SIZES)):
        judge = PlantedJudge(problem, caps)
        program, theta = judge.program, judge.problem.theta
        if verdict_on(backend, caps, judge.problem, task, options) is None:
            continue
        session, taken = opened(backend, program, options), True
        clamp = np.full(program.n_variables, -1, np.int32) if task is Task.MAP_CLAMPED else None
        limits = [*(Limits(SECONDS[-1], one) for one in ITERATIONS), *map(Limits, SECONDS)]
        while limits:
            question = Question(theta, None, task, clamp, None, limits.pop(0), 1)
            with naming_the_question(question, judge.problem.name):
                stop = _asked(judge, session, question)
            if stop == Stop.FINISHED:  # more would not change it
                limits = [one for one in limits if one.iterations is None][: question.limits.iterations is not None]
    return taken


def _asked(judge: PlantedJudge, session: Session, question: Question) -> int:
    """Ask, check the answer and what was said on the way to it, and return why the search stopped."""
    best, slack, said = judge.planted.best, judge.slack(0), list[tuple[float, float]]()

    def progress(score: float, bound: float) -> None:
        said.append((score, bound))

    limits = Limits(question.limits.time, question.limits.iterations, progress)
    try:
        solution = session.solve(question.replace(limits=limits))
    except (OutOfTime, TooLargeError):
        return Stop.TIME
    for score, bound in said:
        if (score > best + slack and question.task is not Task.RELAXED) or bound < best - slack:
            raise Complaint(f"progress({score!r}, {bound!r}) was called; the best score is {best!r}")
    _true(judge, question, solution)
    return int(solution.stop[0])


def _true(judge: PlantedJudge, question: Question, solution: Solution) -> None:
    """Check an answer."""
    best, slack, known = judge.planted.best, judge.slack(0), judge.planted.log_partition
    if question.task is not Task.MARGINALS:
        if question.task is not Task.RELAXED:
            judge.everything(question, solution)
        judge.bound(question, solution)
        return
    judge.form(question, solution)
    if solution.log_partition is None:
        raise Complaint("no log_partition")
    log_partition, atol = float(solution.log_partition[0]), MARGINAL_ATOL * abs(known) + slack
    if log_partition < best - slack:
        raise Complaint(f"log-partition {log_partition!r} is below the best score {best!r}")
    exact = judge.caps.guarantee is Guarantee.EXACT and solution.stop[0] == Stop.FINISHED
    if exact and abs(log_partition - known) > atol:
        raise Complaint(f"log-partition {log_partition!r}, expected {known!r}")
