"""Compares one answer of a backend with brute force, aspect by aspect.

Every method raises :class:`~ssvm_dsl.testing.kit.Complaint` at the first thing that is wrong, and says for which
example.  Scores and bounds are compared up to ``score_atol`` times the size of what an example's scores are sums of,
labellings up to ``score_atol`` times what scores can differ by, and rounding
(:mod:`ssvm_dsl.ir.analysis.tolerance`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I32
from ssvm_dsl.ir import Ability, Caps, Guarantee, Marginals, Primal, Program, Question, Solution, Stop, Task
from ssvm_dsl.ir.analysis.tolerance import TINY, Terms
from ssvm_dsl.ir.ragged import members
from ssvm_dsl.plugin_api import Backend, ExampleSession, Session, Verdict
from ssvm_dsl.requirements.programs import program_need
from ssvm_dsl.requirements.properties import table_properties
from ssvm_dsl.testing.brute_force import Labellings
from ssvm_dsl.testing.kit import Complaint, require_methods
from ssvm_dsl.testing.problems import Problem

#: Tasks that are answered by labellings.
LABELLING_TASKS = frozenset({Task.MAP, Task.MAP_CLAMPED, Task.KBEST})

#: Accuracy of probabilities; rounding of large scores is added.
MARGINAL_ATOL = 1e-8

#: Accuracy of the fractional solutions of relaxations, which iterative solvers end with.
RELAXED_ATOL = 1e-6

#: How far the numbers of a solution that is called feasible may be from ones and zeros.
WHOLE_ATOL = 1e-3


@contextmanager
def naming_the_question(question: Question, problem: str = "") -> Iterator[None]:
    """Prefix complaints with the question."""
    try:
        yield
    except Complaint as complaint:
        raise Complaint(f"{question}{f' about {problem}' if problem else ''}\n{complaint}") from None


def opened(backend: Backend, program: Program, options: Mapping[str, Any]) -> Session:
    """Open a backend; refuse an object that is no session.

    Raises
    ------
    Complaint
        ``open`` or ``solve`` is missing, or takes other arguments.
    """
    require_methods(backend, {"open": ("program", "options")})
    session = backend.open(program, dict(options))
    if session is None:
        raise Complaint("open(program, options) returned None, expected a session with the method solve(question)")
    require_methods(session, {"solve": ("question",)})
    if isinstance(session, ExampleSession):
        require_methods(session, {"answer": ("example", "clock", "warm")})
    return session


def verdict_on(
    backend: Backend, caps: Caps, problem: Problem, task: Task, options: Mapping[str, Any], *abilities: Ability
) -> Verdict | None:
    """Return what a backend says to a problem and a task; ``None`` where its ``Caps`` refuse them, or it does."""
    known = table_properties(problem.program, problem.theta)
    need = program_need(problem.program, frozenset({task}), Guarantee.HEURISTIC, frozenset(abilities), known)
    if caps.refusals(need):
        return None
    verdict = backend.check(replace(need, options=dict(options)))
    return verdict if verdict.ok else None


class Judge:
    """Knows the correct answers to one problem.

    Parameters
    ----------
    problem : Problem
    caps : Caps
        The claims of the backend.
    """

    def __init__(self, problem: Problem, caps: Caps) -> None:
        self.problem, self.program, self.caps = problem, problem.program, caps
        self._unmasked = replace(problem.program, allowed=None, constraints=())
        self._known: dict[tuple[int, bytes | None], Labellings] = {}
        self._plain: dict[int, Labellings] = {}
        self.terms = Terms.of(problem.program, problem.theta)

    def everything(self, question: Question, solution: Solution) -> None:
        """Check all aspects of an answer."""
        self.form(question, solution)
        self.scores(question, solution)
        self.facts(question, solution)
        self.answer(question, solution)
        self.bound(question, solution)

    def answer(self, question: Question, solution: Solution) -> None:
        """Check the answer to the task."""
        if question.task in (Task.MAP, Task.MAP_CLAMPED):
            self.optimum(question, solution)
        elif question.task is Task.KBEST:
            self.kbest(question, solution)
        elif question.task is Task.MARGINALS:
            self.marginals(question, solution)
        else:
            self.relaxed(question, solution)

    # -- correct answers -------------------------------------------------------------------------------

    def labellings(self, question: Question, example: int) -> Labellings:
        """Return all labellings of an example that keep masks, clamps and constraints."""
        clamp = question.clamp
        mine = None if clamp is None else clamp[slice(*self.program.var_ptr[example : example + 2])].tobytes()
        if (example, mine) not in self._known:
            self._known[example, mine] = Labellings(self.program, self.problem.theta, example, clamp)
        return self._known[example, mine]

    def best(self, question: Question, example: int, k: int = 1) -> F64:
        """Return the k best scores, ``-inf`` where there are fewer labellings."""
        out = np.full(k, -np.inf)
        _, scores = self.labellings(question, example).best(k)
        out[: len(scores)] = scores
        return out

    def allowed_score(self, question: Question, example: int, labels: I32) -> float:
        """Return the score of a labelling, ``-inf`` if it breaks a mask, a clamp or a constraint."""
        return self.labellings(question, example).score(labels)

    def plain_score(self, example: int, labels: I32) -> float:
        """Return the score of a labelling, regardless of masks, clamps and constraints."""
        if example not in self._plain:
            self._plain[example] = Labellings(self._unmasked, self.problem.theta, example, None)
        return self._plain[example].score(labels)

    def slack(self, example: int) -> float:
        """Return the accuracy asked of scores and bounds."""
        return self.caps.score_atol * float(self.terms.size[example]) + TINY

    def short(self, example: int) -> float:
        """Return by how much an optimal labelling may miss the best score: of what scores differ by, and rounding."""
        terms = self.terms
        return self.caps.score_atol * float(terms.spread[example]) + 2.0 * float(terms.rounding[example]) + TINY

    # -- parts of an answer ----------------------------------------------------------------------------

    def _each(self, question: Question, solution: Solution) -> Iterator[tuple[int, int, I32, F64]]:
        """Yield (place in the answer, example, labels (rows, n), scores (rows,)) of every example."""
        ptr = question.label_ptr(self.program)
        labels, score = np.atleast_2d(solution.labels), np.atleast_2d(solution.score)
        for i, example in enumerate(question.ids(self.program)):
            yield i, int(example), labels[:, ptr[i] : ptr[i + 1]], score[:, i]

    def _labelled(self, question: Question, solution: Solution) -> Iterator[tuple[int, int, int, I32, float]]:
        """Yield (place, example, row, labels, reported score) of all labellings that count as feasible."""
        if not _has_labels(question, solution):
            return
        for i, example, labels, scores in self._each(question, solution):
            for row in range(len(scores)):
                if scores[row] > -np.inf and solution.primal[i] == Primal.FEASIBLE:
                    yield i, example, row, labels[row], float(scores[row])

    # -- aspects ---------------------------------------------------------------------------------------

    def form(self, question: Question, solution: Solution) -> None:
        """Check types, shapes and ranges.

        Raises
        ------
        KeyboardInterrupt
            The answer says that Ctrl-C cut the search short: the kit ends, as fits and predictions do.
        """
        if not isinstance(solution, Solution):
            raise Complaint(f"expected a Solution, got {type(solution).__name__}")
        n = len(question.ids(self.program))
        size = int(question.label_ptr(self.program)[-1])
        rows = (question.k,) if question.task is Task.KBEST else ()
        if _has_labels(question, solution):
            _array("labels", solution.labels, np.dtype(np.int32), (*rows, size))
            variables = members(self.program.var_ptr, question.ids(self.program))
        _array("score", solution.score, np.dtype(np.float64), (*rows, n))
        _array("bound", solution.bound, np.dtype(np.float64), (n,))
        _array("stop", solution.stop, np.dtype(np.int8), (n,), tuple(Stop))
        if (solution.stop == Stop.INTERRUPTED).any():
            raise KeyboardInterrupt
        _array("primal", solution.primal, np.dtype(np.int8), (n,), tuple(Primal))
        if _has_labels(question, solution):
            claimed = (solution.score > -np.inf) & (solution.primal == Primal.FEASIBLE)
            claimed = np.repeat(claimed, np.diff(question.label_ptr(self.program)), axis=-1)
            if (claimed & ((solution.labels < 0) | (solution.labels >= self.program.card[variables]))).any():
                raise Complaint("a label is outside the states of its variable")
        if _has_labels(question, solution) and not (solution.score < np.inf).all():
            raise Complaint("a score is nan or +inf; -inf marks 'no labelling'")

    def scores(self, question: Question, solution: Solution) -> None:
        """Check that reported scores are those of the labels."""
        for i, example, row, labels, claimed in self._labelled(question, solution):
            true = self.plain_score(example, labels)
            if true > -np.inf and abs(true - claimed) > self.slack(example):
                place = f"answer {i}{f', row {row}' if question.task is Task.KBEST else ''}"
                raise _about(
                    example, f"reports score {claimed!r} for labels {labels.tolist()} of score {true!r} ({place})"
                )
        if question.task in LABELLING_TASKS:
            for i, example, _, scores in self._each(question, solution):
                if (scores[0] > -np.inf) != (solution.primal[i] == Primal.FEASIBLE):
                    what = Primal(int(solution.primal[i])).name.lower()
                    raise _about(example, f"a labelling that is {what} cannot have score {scores[0]!r}")

    def facts(self, question: Question, solution: Solution) -> None:
        """Check that labellings keep masks, clamps, constraints and forbidden scores."""
        for _, example, _, labels, _ in self._labelled(question, solution):
            if self.allowed_score(question, example, labels) == -np.inf:
                hurt = self._hurt(question, example, labels)
                raise _about(example, f"labels {labels.tolist()} count as feasible but {hurt}")

    def _hurt(self, question: Question, example: int, labels: I32) -> str:
        variables = np.arange(*self.program.var_ptr[example : example + 2])
        allowed, clamp = self.program.allowed, question.clamp
        if allowed is not None and not allowed[self.program.state_ptr[variables] + labels].all():
            return "break the mask 'allowed'"
        if clamp is not None and ((clamp[variables] >= 0) & (clamp[variables] != labels)).any():
            return f"break the clamp {clamp[variables].tolist()}"
        ptr, one = np.array([0, len(labels)], dtype=np.int64), np.array([example], dtype=np.int64)
        broken = [group.name for group in self.program.constraints if group.take(one).broken(labels, ptr).any()]
        return f"break the constraint '{broken[0]}'" if broken else "have score -inf"

    def optimum(self, question: Question, solution: Solution) -> None:
        """Check the best labelling as far as the guarantee goes."""
        for i, example, labels, _ in self._each(question, solution):
            best = float(self.best(question, example)[0])
            score = -np.inf
            if solution.primal[i] == Primal.FEASIBLE:
                score = self.allowed_score(question, example, labels[0])
            self._status(question, solution, i, example, best)
            if self._final(question, solution, i, example) and score < best - self.short(example):
                text = f"labels {labels[0].tolist()} have score {score!r}, the best score is {best!r}"
                raise _about(example, text)

    def _status(self, question: Question, solution: Solution, i: int, example: int, best: float) -> None:
        """Check the statement about feasibility."""
        said = Primal(int(solution.primal[i]))
        if best > -np.inf and said is Primal.INFEASIBLE:
            raise _about(example, f"is called infeasible, but a labelling of score {best!r} exists")
        if best == -np.inf and said is not Primal.INFEASIBLE and self._final(question, solution, i, example):
            raise _about(example, f"has no feasible labelling; expected Primal.INFEASIBLE, found {said.name}")

    def _final(self, question: Question, solution: Solution, i: int, example: int) -> bool:
        """Whether the i-th answer must be exact."""
        finished = bool(solution.stop[i] == Stop.FINISHED)
        if self.caps.guarantee is Guarantee.EXACT and not finished and not question.limited:
            stop = Stop(int(solution.stop[i])).name
            raise _about(example, f"an exact backend stopped early ({stop}) without limits")
        return self.caps.guarantee is Guarantee.EXACT and finished

    def kbest(self, question: Question, solution: Solution) -> None:
        """Check the k best labellings: distinct, in order, and of the right scores."""
        for i, example, labels, scores in self._each(question, solution):
            best, slack = self.best(question, example, question.k), self.slack(example)
            self._status(question, solution, i, example, float(best[0]))
            there = scores > -np.inf
            if len(np.unique(labels[there], axis=0)) < there.sum():
                raise _about(example, f"a labelling is listed twice among {labels[there].tolist()}")
            with np.errstate(invalid="ignore"):
                if (np.diff(scores[there]) > slack).any() or (np.diff(there.astype(int)) > 0).any():
                    raise _about(example, f"scores {scores.tolist()} are not best first")
                wrong = (scores > best + slack) | (scores < best - slack)
            if self._final(question, solution, i, example) and wrong.any():
                raise _about(example, f"the {question.k} best scores are {best.tolist()}, found {scores.tolist()}")

    def bound(self, question: Question, solution: Solution) -> None:
        """Check that bounds are valid, present if claimed, and tight if exact."""
        if question.task is Task.MARGINALS:
            return
        for i, example in enumerate(question.ids(self.program)):
            best, bound = float(self.best(question, int(example))[0]), float(solution.bound[i])
            slack, finished = self.slack(int(example)), solution.stop[i] == Stop.FINISHED
            if bound < best - slack:
                raise _about(example, f"bound {bound!r} is below the best score {best!r}")
            if best == -np.inf or not finished or self.caps.guarantee is Guarantee.HEURISTIC:
                continue
            if np.isnan(bound):
                raise _about(example, "claims certified bounds but gives nan")
            exact = self.caps.guarantee is Guarantee.EXACT and question.task in LABELLING_TASKS
            if exact and bound > best + slack:
                raise _about(example, f"claims exactness but bound {bound!r} is above the best score {best!r}")

    def marginals(self, question: Question, solution: Solution) -> None:
        """Check marginals and log-partition (only their form where the guarantee is not exact)."""
        log_partition = solution.log_partition
        if log_partition is None:
            raise Complaint("no log_partition")
        probabilities = self._packed(question, solution)
        _array("log_partition", log_partition, np.dtype(np.float64), solution.stop.shape)
        for i, example in enumerate(question.ids(self.program)):
            exact = self._final(question, solution, i, int(example))
            if solution.stop[i] == Stop.FINISHED:
                self._probabilities(question, int(example), probabilities[i], float(log_partition[i]), exact)

    def _probabilities(
        self, question: Question, example: int, probabilities: list[F64], log_partition: float, exact: bool
    ) -> None:
        """Check one example's marginals: its variables', then its factors', group by group."""
        of = self.labellings(question, example)
        total, rounding = of.log_partition(), 64 * np.finfo(float).eps * float(self.terms.size[example])
        atol = MARGINAL_ATOL + rounding
        if exact and not np.isclose(log_partition, total, rtol=MARGINAL_ATOL, atol=atol):
            raise _about(example, f"log-partition {log_partition!r}, expected {total!r}")
        if total == -np.inf:
            return
        right = list(_all_marginals(of))
        for k, (mine, true) in enumerate(zip(probabilities, right, strict=True)):
            what = f"variable {k}" if k < len(of.card) else f"factor {k - len(of.card)}"
            if not exact and abs(mine.sum() - 1.0) > RELAXED_ATOL:
                raise _about(example, f"the marginals of {what} sum to {mine.sum()!r}")
            if exact and not np.allclose(mine, true, rtol=0, atol=atol):
                raise _about(example, f"marginals of {what} are {mine.tolist()}, expected {true.tolist()}")

    def relaxed(self, question: Question, solution: Solution) -> None:
        """Check that a fractional solution consists of probabilities, and is whole where it is called feasible."""
        probabilities = self._packed(question, solution)
        for i, example in enumerate(question.ids(self.program)):
            if solution.stop[i] != Stop.FINISHED or solution.primal[i] in (Primal.NONE, Primal.INFEASIBLE):
                self._status(question, solution, i, int(example), float(self.best(question, int(example))[0]))
                continue
            for k, one in enumerate(probabilities[i]):
                if one.min(initial=0.0) < -RELAXED_ATOL or abs(one.sum() - 1.0) > RELAXED_ATOL:
                    raise _about(example, f"marginal {k} of the relaxed solution is no distribution: {one.tolist()}")
                if solution.primal[i] == Primal.FEASIBLE and one.size and one.max() < 1.0 - WHOLE_ATOL:
                    raise _about(example, f"is called feasible, but marginal {k} is fractional: {one.tolist()}")

    def _packed(self, question: Question, solution: Solution) -> list[list[F64]]:
        """Return for each example asked for the marginals of its variables, then of its factors."""
        marginals = solution.marginals
        if not isinstance(marginals, Marginals):
            raise Complaint("expected Marginals(node, tables) in Solution.marginals, found none")
        program, ids = self.program, question.ids(self.program)
        states = program.card[members(program.var_ptr, ids)]
        _array("marginals.node", marginals.node, np.dtype(np.float64), (int(states.sum()),))
        parts = np.split(marginals.node, np.cumsum(states)[:-1])
        ends = np.cumsum(np.diff(program.var_ptr)[ids])
        out = [parts[end - n : end] for end, n in zip(ends, np.diff(program.var_ptr)[ids], strict=True)]
        for group, table in zip(program.groups, marginals.tables, strict=True):
            counts = group.answer_rows(ids)
            name = f"marginals.tables of {group.name}"
            _array(name, table, np.dtype(np.float64), (int(counts.sum()), group.n_configs))
            for mine, end, n in zip(out, np.cumsum(counts), counts, strict=True):
                mine += list(table[end - n : end])
        return out


def _has_labels(question: Question, solution: Solution) -> bool:
    """Whether labels belong to the answer: always, but for tasks where they may be left out."""
    return question.task in LABELLING_TASKS or bool(np.size(solution.labels))


def _all_marginals(of: Labellings) -> Iterator[F64]:
    probabilities = of.probabilities()
    for v in range(of.first, of.stop):
        yield of.marginal(probabilities, np.array([v], dtype=np.int32))
    for group in of.program.groups:
        if group.of_spans:
            yield from of.expected_segments(probabilities, group)
            continue
        for scope in group.factors(of.example)[0] + np.int32(of.first):
            yield of.marginal(probabilities, scope)


def _about(example: int, text: str) -> Complaint:
    return Complaint(f"example {int(example)}: {text}")


def _array(
    name: str, array: object, dtype: np.dtype[np.generic], shape: tuple[int, ...], values: tuple[int, ...] = ()
) -> None:
    """Check type, shape and (for codes) values of one array of an answer."""
    if not isinstance(array, np.ndarray):
        raise Complaint(f"{name}: expected an array of {dtype}, got {type(array).__name__}")
    if array.dtype != dtype or array.shape != shape:
        raise Complaint(f"{name}: expected {dtype} of shape {shape}, got {array.dtype} of shape {array.shape}")
    if values and not set(array.tolist()) <= set(values):
        raise Complaint(f"{name}: expected values among {list(map(int, values))}, got {np.unique(array).tolist()}")
