"""Large problems whose best score is known from how they are made, and searches on them that are cut short.

Chains have as many variables as one likes; dynamic programming knows their best score and log partition.  Grids have
cycles and a planted best labelling: their scores are sums of parts, each of which that labelling maximises.
What a backend says must be true at whatever moment its search ends.  It is asked with ever more iterations, then with
ever more time.  An answer may come late here (the check of time limits is another one), but it must be right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.errors import OutOfTime, TooLargeError
from ssvm_dsl.ir import Caps, Group, Guarantee, Limits, Program, Question, Solution, Stop, Task, Theta, Topology
from ssvm_dsl.plugin_api import Backend, Session
from ssvm_dsl.scores.labellings import score_labels
from ssvm_dsl.testing.backends.judge import MARGINAL_ATOL, Judge, naming_the_question
from ssvm_dsl.testing.brute_force import Labellings
from ssvm_dsl.testing.contract import opened, verdict_on
from ssvm_dsl.testing.problems import Problem
from ssvm_dsl.testing.report import Complaint

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
LENGTH, SIZES = 10000, (64, 900)

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
    for problem in (planted_chain(caps, LENGTH), dense(caps), *(planted(caps, n) for n in SIZES)):
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
