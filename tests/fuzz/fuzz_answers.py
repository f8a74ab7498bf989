"""Answers of all backends to all questions on ordinary numbers, held against every labelling.

A trial draws a batch of small examples that suit one backend, asks ``auto``, that backend and some others one of the
questions they answer (through plans, as users do), and puts one through a check of the conformance kit: selected
examples, warm starts, limits, threads, counts, messages, ...
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ssvm_dsl.errors import NoBackendError
from ssvm_dsl.inference.planning.planner import plan_program
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Caps, Guarantee, Limits, Question, Stop, Task
from ssvm_dsl.ir.analysis.tolerance import RELATIVE
from ssvm_dsl.plugin_api import program_need
from ssvm_dsl.plugin_api.specs import BackendSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.requirements.properties import table_properties
from ssvm_dsl.testing.backends.checks import BackendTrial
from ssvm_dsl.testing.backends.conformance import RULES
from ssvm_dsl.testing.backends.judge import Judge
from ssvm_dsl.testing.kit import Complaint, NotForThisCase
from ssvm_dsl.testing.problems import random_problem, random_recipe

UNIT, SHORT, LIMIT = "problems", 4, 60

#: Milliseconds for an example: asked about a few only.
SLOW = ("combi", "lp", "ilp", "ad3")

#: Examples of a batch, and of one that slow backends are asked about.
MANY, FEW = 24, 5

#: What an answer of ``auto`` may be off by.
ANY = Caps(guarantee=Guarantee.EXACT)


def trial(rng, scratch):
    """Try a batch; return the number of examples."""
    specs = {spec.name: spec for spec in registry().specs(BackendSpec)}
    slow = rng.random() < 0.1
    suited = specs[str(rng.choice(sorted(name for name in specs if (name in SLOW) == slow)))]
    recipe = random_recipe(rng, suited.caps)
    recipe = replace(recipe, n_examples=FEW if slow else MANY, max_variables=min(5, recipe.max_variables))
    problem = random_problem(rng, replace(recipe, max_card=min(3, recipe.max_card)))
    judge = Judge(problem, ANY)
    names = {suited.name, *(str(name) for name in rng.permutation(sorted(specs))[:4])}
    asked = ask(rng, judge, "auto", None)
    for name in sorted(names):
        if name not in SLOW or slow:
            asked += ask(rng, judge, name, specs[name])
    put_through(rng, judge, suited)
    return problem.program.n_examples if asked else 0


def options_of(rng, spec):
    """Draw choices of some options (but for log Z without marginals, which is no whole answer)."""
    given = () if spec is None or rng.random() < 0.7 else (o for o in spec.options if o.choices)
    return {o.name: o.choices[rng.integers(len(o.choices))] for o in given if o.name != "marginals"}


def question(rng, judge, task):
    """Draw a question: which examples, what is fixed, how many."""
    program = judge.program
    clamp = None
    if task is Task.MAP_CLAMPED:
        clamp = np.where(rng.random(program.n_variables) < 0.4, rng.integers(0, program.card), -1).astype(np.int32)
    some = rng.permutation(program.n_examples)[: int(rng.integers(0, program.n_examples + 1))].astype(np.int64)
    k = int(rng.choice([1, 2, 7, 40])) if task is Task.KBEST else 1
    examples = None if rng.random() < 0.6 else some
    return Question(judge.problem.theta, examples, task, clamp, k=k)


def ask(rng, judge, name, spec):
    """Ask a backend a question, and some of them the others they answer as well; return how many."""
    problem, tried, options = judge.problem, 0, options_of(rng, spec)
    judge.caps = ANY if spec is None else spec.caps
    known = table_properties(problem.program, problem.theta)
    tasks = sorted(Task if spec is None else spec.caps.tasks)
    for task in tasks if rng.random() < 0.1 else [tasks[rng.integers(len(tasks))]]:
        weakest = Guarantee.EXACT if name == "auto" else Guarantee.HEURISTIC
        need = program_need(problem.program, frozenset({task}), weakest, properties=known)
        try:
            session = open_plan(plan_program(problem.program, need, name, options), problem.program)
        except NoBackendError:
            continue
        asked, tried = question(rng, judge, task), tried + 1
        if name in ("trws", "msd", "mplp", "tbcd", "ad3"):
            asked = asked.replace(limits=Limits(iterations=int(rng.integers(1, 200))))
        solution = session.solve(asked)
        try:
            judge.everything(asked, solution)
            if task in (Task.MAP, Task.MAP_CLAMPED) and session.guarantee is Guarantee.EXACT:
                all_optimal(judge, asked, solution)
        except Complaint as complaint:
            raise AssertionError(f"{name} {options or ''}, {asked}: {complaint}") from None
    return tried


def all_optimal(judge, asked, solution):
    """Complain where an exact answer is not called optimal although double precision can tell."""
    terms = solution.terms
    clear = np.where(terms.whole, terms.rounding < 0.01, 100.0 * terms.rounding <= RELATIVE * terms.spread)
    due = clear & (solution.stop == Stop.FINISHED) & (solution.best > -np.inf)
    if (due & ~solution.optimal()).any():
        i = int(np.flatnonzero(due & ~solution.optimal())[0])
        raise Complaint(f"answer {i} is not called optimal: {solution.best[i]!r}, bound {solution.bound[i]!r}")


def put_through(rng, judge, spec):
    """Let a backend go through one check of the kit; return 1, or 0 where the check is not about it."""
    problem, backend, options = judge.problem, spec.load()(), spec.resolve(options_of(rng, spec))
    rule, judge.caps = RULES[rng.integers(len(RULES))], spec.caps
    known = table_properties(problem.program, problem.theta)
    need = program_need(problem.program, frozenset(), Guarantee.HEURISTIC, properties=known)
    tasks = [t for t in spec.caps.tasks & rule.tasks if not spec.caps.refusals(need.asking(t))]
    tasks = frozenset(t for t in tasks if backend.check(need.asking(t)).ok)
    if not (tasks and rule.claimed(spec) and rule.fits(problem)):
        return 0
    try:
        rule.run(BackendTrial(spec, backend, options, judge, tasks, rng))
    except NotForThisCase:
        return 0
    except Complaint as complaint:
        raise AssertionError(f"{spec.name}, check '{rule.name}' with {dict(options)}: {complaint}") from None
    return 1
