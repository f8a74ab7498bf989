"""What every bundled backend promises: the conformance kit, and true answers wherever time or Ctrl-C ends a search.

The files of the backends have what is particular to each: steps by definition, published numbers, edges.  Moments are
looks at a clock of ticks (:mod:`clocks`), so that a search ends at the same places on any machine.
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest

from clocks import looks_of, ticking
from combinations import some
from kit import keeps_its_promises
from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.ir import Guarantee, Limits, Primal, Question, Stop, Task, Topology
from ssvm_dsl.plugin_api import BackendSpec, ConstraintSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.backends.judge import Judge
from ssvm_dsl.testing.backends.limits import PlantedJudge, planted, planted_chain
from ssvm_dsl.testing.problems import Recipe, random_problem

SPECS = {spec.name: spec for spec in registry().specs(BackendSpec) if registry().owner(spec).bundled}

#: Backends that take problems without constraints of their own, and those that take large ones.
FREE = [name for name in SPECS if name not in ("semi-markov", "cky")]
LARGE = [name for name in FREE if name != "brute-force"]

#: Those that have a labelling soon.
ANYTIME = {"trws", "msd", "mplp", "tbcd", "alpha-expansion", "alpha-beta-swap", "max-product", "icm", "decompose"}

#: Random problems of the kit, where four cost seconds.
N_PROBLEMS = {"ilp": 0, "lp": 1, "ad3": 1}

#: A search of ``ilp`` takes milliseconds, and these checks ask again and again, alone.
REPEATED = {"session reuse", "deterministic", "selected examples", "warm start", "inputs unchanged"}

#: Options other than the defaults with which the answers are judged, too.
OTHERWISE = [
    ("combi", {"max_entries": 1, "max_arity": 1}),
    ("ilp", {"solver": "highs"}),
    ("lp", {"rounding": "conditional"}),
]

#: Options with which a search takes other steps, of which each must look at the clock.
STEPS = [
    ("trws", {"smooth": False}), ("msd", {"update": "edge"}), ("msd", {"temperature": 0.05}),
    ("mplp", {"update": "clique"}), ("tbcd", {"trees": "cover"}), ("qpbo", {"rest": "none"}),
]  # fmt: skip

BY = pytest.mark.parametrize("by", [Stop.TIME, Stop.INTERRUPTED], ids=["time", "Ctrl-C"])


@pytest.mark.parametrize("name", [name for name in SPECS if name != "brute-force"])  # asked in plugins/
def test_it_keeps_every_promise(name):
    keeps_its_promises(name, N_PROBLEMS.get(name, 4), without=REPEATED if name == "ilp" else ())


@pytest.mark.parametrize(("name", "options"), OTHERWISE, ids=str)
def test_it_keeps_them_with_other_options(name, options):
    only = ("map", "map_clamped", "kbest", "relaxed", "bounds", "forbidden scores", "verifier")
    keeps_its_promises(name, 1, options=options, only=only)


def opened(name, program, options=None):
    """A session of the backend itself."""
    return SPECS[name].load()().open(program, SPECS[name].resolve(options))


@cache
def many(name):
    """Small examples that a backend takes, judged by enumeration."""
    caps = SPECS[name].caps
    regular = bool(caps.requires & {"submodular", "metric", "semimetric"})
    recipe = Recipe(
        topology=caps.topology, max_arity=min(caps.max_arity, 2), n_examples=30, max_variables=7,
        max_card=2 if "binary" in caps.requires else 3, regular=regular,
    )  # fmt: skip
    return Judge(random_problem(np.random.default_rng(0), recipe), caps)


def as_if_late(solution):
    """An answer that Ctrl-C cut short as if time were up: the kit does not judge the former."""
    return replace(solution, stop=np.where(solution.stop == Stop.INTERRUPTED, Stop.TIME, solution.stop).astype(np.int8))


@pytest.mark.parametrize(("name", "task"), [(n, t) for n in FREE for t in sorted(SPECS[n].caps.tasks)], ids=str)
@BY
def test_answers_are_true_wherever_a_search_ends(name, task, by):
    """Examples that are finished have the answer they have without an end; what is said of others holds."""
    judge, caps = many(name), SPECS[name].caps
    session, n = opened(name, judge.program), judge.program.n_examples
    clamp = np.full(judge.program.n_variables, -1, np.int32) if task is Task.MAP_CLAMPED else None
    endless = Question(judge.problem.theta, None, task, clamp, None, Limits(time=1e9), 2 if task is Task.KBEST else 1)
    whole, (_, in_all) = session.solve(endless), looks_of(partial(session.solve, endless))
    ended = raised = 0
    for at in some(range(1, in_all), 6):
        question = endless.replace(limits=Limits(time=1e-3 * at)) if by is Stop.TIME else endless
        try:
            found, looks = looks_of(partial(session.solve, question), at if by is Stop.INTERRUPTED else None)
        except (KeyboardInterrupt, OutOfTime):  # nothing was found yet
            raised += 1
            continue
        assert by is Stop.INTERRUPTED or looks <= at + 10 * n
        done = found.stop == Stop.FINISHED
        ended += not done.all()
        assert set(found.stop[~done]) <= {by}
        judge.everything(endless, as_if_late(found))
        if task is Task.MARGINALS:
            np.testing.assert_allclose(found.log_partition[done], whole.log_partition[done], rtol=1e-12)
        else:
            np.testing.assert_allclose(found.score[..., done], whole.score[..., done], rtol=1e-12)
            close = 1e-12 if caps.guarantee is Guarantee.EXACT else 1e-6  # option tol of bounds
            np.testing.assert_allclose(found.bound[done], whole.bound[done], rtol=close)
    assert ended or raised


#: Budgets between two looks at the clock: so small that every step of a small search looks.
BUDGETS = [
    "local.search.LOOK_PART", "local.max_product.BUDGET", "local.icm.BUDGET", "cuts.qpbo.BUDGET",
    "cuts.graph_cut.BUDGET", "cuts.move_making.BUDGET", "dual.session.CALL", "dual.session.SLICE",
    "dual.session.LARGE", "dual.constrained.CALL",
]  # fmt: skip

#: Backends of several stages or of many steps, their options, and the kind of a constraint of the problem.
STAGED = [
    *((name, {}, "") for name in LARGE if SPECS[name].caps.topology is Topology.LOOPY
      and SPECS[name].caps.max_arity > 1),
    ("alpha-expansion", {"bound": "dual"}, ""), ("alpha-expansion", {"bound": "factor"}, ""),
    ("alpha-beta-swap", {"bound": "dual"}, ""), ("qpbo", {"rest": "pairs"}, ""), ("combi", {"max_entries": 1}, ""),
    ("msd", {"temperature": 0.05}, ""), ("decompose", {"max_nodes": 1}, ""), ("lp", {"solver": "pdlp"}, ""),
    *((name, {}, kind) for name in ("lp", "ilp", "ad3", "decompose") for kind in ("count", "acyclic", "matching")),
    *(("relations", {}, kind) for kind in ("equivalence", "linear-order", "transitive", "acyclic")),
    ("relations", {"max_conflicts": 0}, "acyclic"), ("circuit", {}, "circuit"),
    ("shortest-path", {"cycles": "improve"}, "path"), ("assignment", {}, "transport"),
    ("eisner", {}, "projective-tree"),
]  # fmt: skip


def constrained(kind):
    """A small problem of a kind of constraints."""
    program, theta = registry().load(registry().find(ConstraintSpec, kind))().problem(np.random.default_rng(3))
    return with_rules(program, registry()), theta


@pytest.mark.parametrize(("name", "options", "kind"), STAGED, ids=str)
@BY
def test_who_was_told_to_stop_says_so(name, options, kind, by, monkeypatch):
    """Finished are examples whose labelling and bound are those that they have without an end."""
    for path in BUDGETS:
        module, constant = path.rsplit(".", 1)
        monkeypatch.setattr(importlib.import_module(f"ssvm_backends.{module}"), constant, 50)
    program, theta = constrained(kind) if kind else (many(name).program, many(name).problem.theta)
    session = opened(name, program, options)
    endless = Question(theta, limits=Limits(time=1e9))
    session.solve(endless)
    whole, in_all = looks_of(partial(session.solve, endless))
    for at in [*range(1, min(in_all, 12)), *range(12, in_all, in_all // 8 + 1)]:
        question = endless.replace(limits=Limits(time=1e-3 * at)) if by is Stop.TIME else endless
        try:
            found, _ = looks_of(partial(session.solve, question), at if by is Stop.INTERRUPTED else None)
        except (KeyboardInterrupt, OutOfTime):
            continue
        done = (found.stop == Stop.FINISHED) & (whole.stop == Stop.FINISHED)
        assert set(found.stop[found.stop != whole.stop]) <= {by}
        np.testing.assert_allclose(found.score[done], whole.score[done], rtol=1e-9)
        np.testing.assert_allclose(found.bound[done], whole.bound[done], rtol=1e-6)  # option tol of bounds


@cache
def large(name):
    """One example with a labelling that is known to be best: of cycles, where the backend takes any width."""
    caps = SPECS[name].caps
    return PlantedJudge(planted_chain(caps, 4000) if name == "junction-tree" else planted(caps, 400), caps)


@pytest.mark.parametrize(
    ("name", "options"), [*((name, None) for name in LARGE if Task.MAP in SPECS[name].caps.tasks), *STEPS], ids=str
)
@BY
def test_a_search_on_one_large_example_ends_at_once(name, options, by):
    """Preparation included; what is known by then is true, and nothing that was told is lost."""
    judge, scores, told = large(name), [-np.inf], []
    limits = Limits(time=1e9, progress=lambda *one: told.append(one))
    with suppress(OutOfTime), ticking():  # compiling looks at the clock, too
        opened(name, judge.program, options).solve(Question(judge.problem.theta, limits=replace(limits, time=0.06)))
    for at in (1, 5, 20, 60):
        told.clear()
        question = Question(judge.problem.theta, limits=replace(limits, time=1e-3 * at if by is Stop.TIME else 1e9))
        ask = partial(opened(name, judge.program, options).solve, question)
        try:
            found, looks = looks_of(ask, at if by is Stop.INTERRUPTED else None)
        except (KeyboardInterrupt, OutOfTime):
            continue
        assert found.stop[0] in (by, Stop.FINISHED)
        assert looks <= at + 6 or name == "ilp"  # which looks while it waits for a thread, as often as that takes
        judge.everything(question, as_if_late(found))
        if told:
            score, bound = (max(one[0] for one in told), min(one[1] for one in told))
            assert found.score[0] >= score - judge.slack(0)
            assert not found.bound[0] > bound + judge.slack(0)
        scores.append(found.score[0] if found.primal[0] == Primal.FEASIBLE else -np.inf)
        assert scores[-1] > -np.inf or at < 20 or name not in ANYTIME
    assert scores == sorted(scores)


@pytest.mark.parametrize("name", [name for name in LARGE if SPECS[name].caps.topology is Topology.LOOPY])
def test_on_the_way_scores_rise_and_bounds_fall(name):
    caps, told = SPECS[name].caps, []
    judge = PlantedJudge(planted(caps, 64), caps)
    best, slack = judge.planted.best, judge.slack(0)
    limits = Limits(progress=lambda score, bound: told.append((score, bound)))
    found = opened(name, judge.program).solve(Question(judge.problem.theta, limits=limits))
    scores, bounds = np.array(told, float).reshape(-1, 2).T
    bounds = bounds[~np.isnan(bounds)]
    assert (np.diff(scores) >= -slack).all()
    assert (np.diff(bounds) <= slack).all()
    assert (scores <= best + slack).all()
    assert (bounds >= best - slack).all()
    if told and found.primal[0] == Primal.FEASIBLE:
        assert scores[-1] == pytest.approx(found.score[0])
