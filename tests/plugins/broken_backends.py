"""Brute force with one thing wrong: what the conformance kit must catch.

Each class breaks one promise and keeps all others, as far as that is possible.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace

import numpy as np

from ssvm_dsl.ir import (
    Ability,
    Caps,
    Guarantee,
    Limits,
    Marginals,
    Messages,
    Primal,
    Solution,
    Task,
    Theta,
    Topology,
    Warm,
)
from ssvm_dsl.ir.counts import worth
from ssvm_dsl.ir.solution import label_ptr, select
from ssvm_dsl.plugin_api import BackendSpec, CompiledOracle, Verdict, add_marginals, score_labels
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.brute_force import BruteForce, BruteForceSession


def spec_of(backend, *tasks, **caps):
    """The description of a class of this module; MAP only unless tasks are given."""
    made = Caps(
        tasks=frozenset(tasks or {Task.MAP}),
        **{"topology": Topology.LOOPY, "guarantee": Guarantee.EXACT, "max_arity": 4, **caps},
    )
    return BackendSpec(backend.__name__, f"{__name__}:{backend.__name__}", caps=made)


class Honest:
    """Brute force; the others override one of these methods."""

    def check(self, need):
        return BruteForce().check(need)

    def open(self, program, options):
        return HonestSession(self, program)

    def relevant(self, program):
        """The program the answers are computed for."""
        return program

    def solve(self, session, question):
        return self.change(session, question, session.inner.solve(question))

    def change(self, session, question, solution):
        return solution


class HonestSession:
    def __init__(self, backend, program):
        self.backend, self.program = backend, program
        self.inner = BruteForce().open(backend.relevant(program), {})
        self.memory, self.lock = {}, threading.Lock()

    def solve(self, question):
        return self.backend.solve(self, question)


def told(change):
    """A backend whose answers are those of brute force after one change."""
    return type("Changed", (Honest,), {"change": lambda self, session, question, solution: change(solution)})


def of_marginals(change):
    """A change of answers that have marginals."""
    return told(lambda found: found if found.marginals is None else change(found))


# -- wrong numbers ---------------------------------------------------------------------------------------

LowBound = told(lambda found: replace(found, bound=found.bound - 1.0))
HighBound = told(lambda found: replace(found, bound=found.bound + 1.0))
WrongScore = told(lambda found: replace(found, score=found.score + 0.5))

#: Lies about the bounds of batches of more than three examples.
Timid = told(lambda found: replace(found, bound=found.bound - (len(found.bound) > 3)))

#: Calls infeasible examples feasible, or all of them infeasible.
AllFeasible = told(lambda found: replace(found, primal=np.full_like(found.primal, Primal.FEASIBLE)))
AllInfeasible = told(
    lambda found: replace(
        found, primal=np.full_like(found.primal, Primal.INFEASIBLE), score=np.full_like(found.score, -np.inf)
    )
)

#: Marginals that sum to 1.1.
Unnormalised = of_marginals(
    lambda found: replace(found, marginals=replace(found.marginals, node=1.1 * found.marginals.node))
)

#: Offers a state to start from, and keeps its promises.
FaithfulToWarm = told(lambda found: replace(found, warm=found.labels.copy()))

for _name, _made in list(globals().items()):
    if getattr(_made, "__name__", "") == "Changed":
        _made.__name__ = _name


class SecondBest(Honest):
    """Gives the second best labelling and its score as the bound: consistent, but the bound is a lie."""

    def solve(self, session, question):
        two = session.inner.solve(question.replace(task=Task.KBEST, k=2))
        there = two.score[1] > -np.inf
        counts = np.diff(label_ptr(session.program, question.examples))
        labels = np.where(np.repeat(there, counts), two.labels[1], two.labels[0]).astype(np.int32)
        score = np.where(there, two.score[1], two.score[0])
        return replace(two, labels=labels, score=score, bound=score.copy())


class FirstStates(Honest):
    """Always answers state 0, and scores it honestly; calls it optimal."""

    def solve(self, session, question):
        zeros = np.zeros(session.program.n_variables, dtype=np.int32)
        question = question.replace(task=Task.MAP_CLAMPED, clamp=zeros)
        found, best = session.inner.solve(question), session.inner.solve(question.replace(clamp=None))
        return found if (found.primal == Primal.FEASIBLE).all() else best


class SameTwice(Honest):
    """Lists the best labelling twice among the k best."""

    def change(self, session, question, solution):
        if question.task is Task.KBEST and len(solution.labels) > 1:
            solution.labels[1], solution.score[1] = solution.labels[0], solution.score[0]
        return solution


# -- hard facts ------------------------------------------------------------------------------------------


class CapsInfinities(Honest):
    """Replaces ``-inf`` by a large penalty."""

    def solve(self, session, question):
        finite = question.theta.copy()
        for scores in (finite.node, finite.pool):
            scores[np.isneginf(scores)] = -1e3
        return session.inner.solve(question.replace(theta=finite))


class NeedsVariables(Honest):
    def solve(self, session, question):
        ids = select(session.program, question.examples)
        if (np.diff(session.program.var_ptr)[ids] == 0).any():
            raise IndexError("list index out of range")
        return super().solve(session, question)


# -- the way of asking -----------------------------------------------------------------------------------


class ReadsAllScores(Honest):
    def change(self, session, question, solution):
        node = question.theta.node
        solution.score = solution.score + 0.0 * node[np.isfinite(node) | np.isnan(node)].sum()
        return solution


class SharedBuffer(Honest):
    """Gives the same array of labels out again, with other content."""

    def change(self, session, question, solution):
        with session.lock:
            buffer = session.memory.setdefault(solution.labels.shape, np.zeros_like(solution.labels))
            if threading.current_thread() is threading.main_thread():
                buffer[...], solution.labels = solution.labels, buffer
        return solution


class WritesTheta(Honest):
    def change(self, session, question, solution):
        question.theta.const[:] = 0.0
        return solution


class Moody(Honest):
    """Prefers another one of equally good labellings at every second call."""

    def __init__(self):
        self.calls = Counter()

    def solve(self, session, question):
        self.calls["all"] += 1
        first = session.inner.solve(question)
        two = session.inner.solve(question.replace(task=Task.KBEST, k=2))
        if self.calls["all"] % 2 and np.array_equal(two.score[0], two.score[1]):
            first.labels = two.labels[1]
        return first


class OneAtATime(Honest):
    """Keeps the question on the session while it works on it."""

    def solve(self, session, question):
        session.memory["examples"] = question.examples
        if threading.current_thread() is not threading.main_thread():
            time.sleep(5e-3)  # long beside what it takes to begin, on any machine
        return super().solve(session, question.replace(examples=session.memory["examples"]))


class StuckToWarm(Honest):
    """Returns the labels it starts from."""

    def solve(self, session, question):
        warm, solution = question.warm, session.inner.solve(question)
        if warm is not None and np.isfinite(warm.score).all():
            return replace(warm, warm=warm)
        solution.warm = replace(solution)
        return solution


class IgnoresLimits(Honest):
    """Takes whatever time it needs: so much for each example, on any machine."""

    def solve(self, session, question):
        time.sleep(1e-4 * len(select(session.program, question.examples)))
        return session.inner.solve(question.replace(limits=Limits()))


# -- crashes ---------------------------------------------------------------------------------------------


class Crashes(Honest):
    def solve(self, session, question):
        raise RuntimeError("segmentation of the imagination")


class CrashesOnLoad(Honest):
    def __init__(self):
        raise OSError("libsolver.so: cannot open shared object file")


class Exits(Honest):
    def solve(self, session, question):
        raise SystemExit(3)


class Speechless(Honest):
    def check(self, need):
        return Verdict(False)


class RefusesAll(Honest):
    def check(self, need):
        return Verdict(False, reasons=("not today",))


# -- more than labellings --------------------------------------------------------------------------------


class Integral(Honest):
    """A relaxation that is always tight: the best labelling as a fractional solution."""

    def solve(self, session, question):
        solution = session.inner.solve(question.replace(task=Task.MAP))
        if question.task is Task.RELAXED:
            solution.marginals = indicators(session.program, solution, question.examples)
        return solution


class Superposed(Integral):
    """A relaxation that counts everything twice."""

    def change(self, session, question, solution):
        return solution

    def solve(self, session, question):
        solution = super().solve(session, question)
        if solution.marginals is not None:
            solution.marginals.node[:] *= 2
        return solution


class CalledFeasible(Integral):
    """Mixes the best labelling with all others, and calls that a labelling."""

    def solve(self, session, question):
        solution = super().solve(session, question)
        if solution.marginals is not None:
            program, ids = session.program, select(session.program, question.examples)
            card = np.concatenate([program.card[slice(*program.var_ptr[i : i + 2])] for i in ids] or [program.card[:0]])
            solution.marginals.node[:] = 0.5 * solution.marginals.node + 0.5 / np.repeat(card, card)
            for table in solution.marginals.tables:
                table[:] = 0.5 * table + 0.5 / max(table.shape[1], 1)
        return solution


def indicators(program, solution: Solution, examples) -> Marginals:
    node, tables = [], [[] for _ in program.groups]
    ptr = label_ptr(program, examples)
    for k, i in enumerate(select(program, examples)):
        lo, hi = program.var_ptr[i : i + 2]
        mine = np.zeros(program.n_variables, dtype=int)
        mine[lo:hi] = solution.labels[ptr[k] : ptr[k + 1]]
        node += [np.eye(program.card[v])[mine[v]] for v in range(lo, hi)]
        for g, group in enumerate(program.groups):
            factors = range(*group.ptr[i : i + 2])
            tables[g] += [np.eye(group.n_configs)[mine[group.scope[f]] @ group.strides] for f in factors]
    return Marginals(
        np.concatenate([*node, np.zeros(0)]),
        tuple(np.array(t).reshape(len(t), g.n_configs) for t, g in zip(tables, program.groups)),
    )


class CompiledZeros(Honest):
    """Its sessions answer rightly, its compiled oracle does not."""

    def open(self, program, options):
        session = super().open(program, options)
        session.compiled = lambda: CompiledOracle(zeros(), np.zeros(1, np.int32), np.zeros(1, np.int64), 1)
        return session


class CountsAnyhow(Honest):
    """Its sessions answer rightly, but what is worth most by counts is chosen without looking at scores."""

    def open(self, program, options):
        session, honest = super().open(program, options), BruteForceSession(program)

        def best_by_count(question, tables):
            found = honest.best_by_count(question.replace(theta=Theta.zeros(program)), tables)
            offset, scale = tables.terms(program, found.labels, question.examples)
            own = worth(offset, scale, score_labels(program, question.theta, found.labels, question.examples))
            return Solution.exact(found.labels, np.where(found.score > -np.inf, own, -np.inf))

        session.best_by_count = best_by_count
        return session


class SumsAnyhow(Honest):
    """Adds up the marginals of other scores."""

    def open(self, program, options):
        session = super().open(program, options)

        def expect(question, coef, node, tables):
            found = session.inner.solve(question.replace(theta=Theta.zeros(program)))
            add_marginals(program, found.marginals, coef, question.examples, node, tables)
            return session.inner.solve(question).log_partition

        session.expect = expect
        return session


class ShyAboutItsSums(Honest):
    """Announces that it adds up marginals, and never does."""

    def open(self, program, options):
        session = super().open(program, options)
        session.expect = lambda question, coef, node, tables: None
        return session


class SameSlope(Honest):
    """Lowers dual bounds rightly, but says that they are attained at the first states."""

    def open(self, program, options):
        spec = registry().find(BackendSpec, "msd")
        session = spec.load()().open(program, spec.resolve(None))

        def slope(question):
            solution = session.solve(question.replace(warm=None))
            solution.labels[:] = 0
            return indicators(program, solution, question.examples)

        session.slope = slope
        return session


class OtherMessages(SameSlope):
    """Tells rightly where bounds are attained, but its messages give another bound than it says."""

    def open(self, program, options):
        session = super().open(program, options)
        del session.slope
        solve = session.solve

        def solve_and_forget(question):
            solution = solve(question)
            warm = solution.warm
            solution.warm = Messages(warm.ids, warm.ptr, np.zeros_like(warm.values))
            return solution

        session.solve = solve_and_forget
        return session


def zeros():
    from numba import cfunc

    from ssvm_dsl.kernels.compiled_oracles import SIGNATURE

    @cfunc(SIGNATURE)
    def oracle(ints, longs, example, pool, node, labels, work):
        labels[:] = 0
        return 0.0

    return oracle


WARM = {"warm": Warm.STATE}
COUNTS = {"abilities": frozenset({Ability.COUNTS})}
COMPILED = {"abilities": frozenset({Ability.COMPILED})}
SUMS = {"abilities": frozenset({Ability.SUMMED_MARGINALS})}
BOUNDING = {"guarantee": Guarantee.BOUND}
MESSAGES = BOUNDING | WARM | {"abilities": frozenset({Ability.MESSAGES}), "score_atol": 1e-7}
HEURISTIC = {"guarantee": Guarantee.HEURISTIC}
