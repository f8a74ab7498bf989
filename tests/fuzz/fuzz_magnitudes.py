"""Right or not "optimal": scores of 1e-12 to 1e12 and cancelling offsets of 1e12, held against exact arithmetic.

A trial draws a batch of small examples of one kind of graph, scales its scores, adds numbers to some terms and takes
them from others, and asks ``auto`` and several backends by name.  Of every answer, in rational arithmetic on the very
doubles that were given: the labels score what is said, up to rounding; no labelling scores more than the bound;
"optimal" is never said of labels that another labelling beats by the tolerance; nothing feasible is called infeasible.
Where double precision can tell scores apart, exact backends must be called optimal.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from exact import Exact
from ssvm_dsl.errors import NoBackendError
from ssvm_dsl.inference.planning.planner import plan_program
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Guarantee, Limits, Primal, Question, Stop, Theta, Topology
from ssvm_dsl.ir.analysis.tolerance import RELATIVE, Terms
from ssvm_dsl.plugin_api import program_need
from ssvm_dsl.requirements.properties import table_properties
from ssvm_dsl.testing.problems import Recipe, Scores, random_problem

UNIT, SHORT, LIMIT = "problems", 4, 60

#: Answer in microseconds for an example; the others take milliseconds.
QUICK = ("chain", "tree", "junction-tree", "graph-cut", "qpbo", "icm", "brute-force", "alpha-expansion",
         "alpha-beta-swap", "trws", "msd", "mplp", "tbcd", "max-product")  # fmt: skip
SLOW = ("combi", "lp", "ilp", "ad3")

#: Examples that slow backends are asked about.
FEW = 6


def trial(rng, scratch):
    """Try a batch; return the number of examples."""
    program, theta = problem(rng)
    answers = [Exact(program, theta, e) for e in range(program.n_examples)]
    few = rng.permutation(program.n_examples)[:FEW].astype(np.int64)
    ask(program, theta, "auto", None, answers)
    for name in rng.permutation(QUICK)[:4]:
        ask(program, theta, str(name), None, answers)
    ask(program, theta, str(rng.choice(SLOW)), few, answers)
    return program.n_examples


def problem(rng):
    """Draw a program and scores."""
    regular = bool(rng.random() < 0.3)
    recipe = Recipe(
        topology=Topology(int(rng.integers(0, 3))),
        max_arity=2 if regular or rng.random() < 0.7 else 3,
        n_examples=24,
        max_variables=int(rng.choice([2, 4, 5])),
        max_card=2 if rng.random() < 0.5 else 3,
        same_card=bool(rng.random() < 0.5),
        tied=bool(rng.random() < 0.2),
        masks=bool(rng.random() < 0.3),
        forbidden=bool(rng.random() < 0.2),
        empty=bool(rng.random() < 0.1),
        regular=regular,
        scores=Scores.INTEGER if rng.random() < 0.4 else Scores.NORMAL,
    )
    made = random_problem(rng, recipe)
    return made.program, shifted(rng, made.program, scaled(rng, made.theta))


def scaled(rng, theta):
    """Return scores in another unit: of all, or of each kind of term by itself."""
    whole = bool((np.rint(theta.node[np.isfinite(theta.node)]) == theta.node[np.isfinite(theta.node)]).all())
    lowest = 0 if whole and rng.random() < 0.7 else -12
    power = np.full(3, rng.integers(lowest, 13))
    if rng.random() < 0.3:
        power = rng.integers(lowest, 13, 3)
    out = theta.copy()
    for array, p in zip((out.node, out.pool, out.const), power, strict=True):
        array *= 10.0 ** int(p)
    return out


def shifted(rng, program, theta):
    """Return scores with large numbers added to all states of some variables, and taken from constants and tables."""
    if rng.random() < 0.3:
        return theta
    most = float(rng.integers(1, 13))
    owner = np.repeat(np.arange(program.n_examples), np.diff(program.var_ptr))
    amount = np.rint(rng.normal(size=program.n_variables) * 10.0**most) * (rng.random(program.n_variables) < 0.5)
    out = theta.copy()
    out.node[:] += np.repeat(amount, program.card)
    taken = np.bincount(owner, amount, program.n_examples)
    for group, tables in zip(program.groups, out.tables, strict=True):
        first, used = np.unique(group.table, return_counts=True)
        for f in range(group.n_factors):
            row, e = group.table[f], int(np.searchsorted(group.ptr, f, side="right")) - 1
            if used[first == row][0] == 1 and rng.random() < 0.5:
                tables[row] -= taken[e]
                taken[e] = 0.0
    out.const[:] -= taken * (rng.random(program.n_examples) < 0.8)
    return Theta.of(program, out.node, out.tables, out.const)


def ask(program, theta, name, examples, answers):
    """Put the question to a backend that fits and hold the answer against the truth."""
    wanted = Guarantee.EXACT if name == "auto" else Guarantee.HEURISTIC
    need = replace(program_need(program, properties=table_properties(program, theta)), guarantee=wanted)
    try:
        plan = plan_program(program, need, name)
    except NoBackendError:
        return
    session = open_plan(plan, program)
    solution = session.solve(Question(theta, examples=examples, limits=Limits(iterations=200)))
    ids = np.arange(program.n_examples) if examples is None else examples
    terms, optimal, at = Terms.of(program, theta, ids), solution.optimal(), 0
    for i, example in enumerate(ids.tolist()):
        n = len(answers[example].card)
        labels = solution.labels[at : at + n]
        at += n
        try:
            check(solution, i, labels, answers[example], terms, bool(optimal[i]), session.guarantee)
        except AssertionError as err:
            raise AssertionError(f"{plan.backend} (asked: {name}), example {example}: {err}") from None


def check(solution, i, labels, truth, terms, optimal, guarantee):
    """Look at one answer."""
    best = truth.best()
    primal, bound = int(solution.primal[i]), float(solution.bound[i])
    finished = int(solution.stop[i]) == Stop.FINISHED
    if not best:
        assert primal != Primal.FEASIBLE, "a labelling where none is possible"
        assert guarantee is not Guarantee.EXACT or primal == Primal.INFEASIBLE, "nothing is possible; not said"
        return
    top, tolerance = best[0], 0 if terms.whole[i] else Fraction(RELATIVE) * Fraction(float(terms.spread[i]))
    assert primal != Primal.INFEASIBLE, f"infeasible, but a labelling scores {float(top)!r}"
    assert not bound < np.inf or Fraction(bound) >= top, f"bound {bound!r} below the best score {float(top)!r}"
    if primal != Primal.FEASIBLE:
        assert guarantee is not Guarantee.EXACT or not finished, "no labelling"
        assert not optimal
        return
    true, said = truth.score(labels), float(solution.score[i])
    assert true is not None, f"impossible labels {labels.tolist()}"
    assert abs(true - Fraction(said)) <= Fraction(float(terms.roundoff[i])), f"score {said!r}, true {float(true)!r}"
    assert not optimal or top - true <= tolerance, f"optimal, but {float(top - true)!r} below the best"
    clear = terms.rounding[i] < 0.01 if terms.whole[i] else 100.0 * terms.rounding[i] <= RELATIVE * terms.spread[i]
    must = guarantee is Guarantee.EXACT and finished and clear
    assert optimal or not must, f"not called optimal: score {said!r}, bound {bound!r}, best {float(top)!r}"
