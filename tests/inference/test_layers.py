"""Sessions between estimators and backends: every ability reaches the backend, and fails in the same way."""

from __future__ import annotations

import re
from dataclasses import replace
from time import perf_counter
from types import SimpleNamespace

import numpy as np
import pytest

from model_table import few_tagger
from ssvm_dsl import Cost, Factor, Input, Label, Model, StructuredSVM, ground
from ssvm_dsl.deadline import Deadline, pause, within
from ssvm_dsl.errors import BackendFault, OptionError, OutOfTime, TooLargeError
from ssvm_dsl.inference.bridging.bridges import BridgedSession
from ssvm_dsl.inference.chunked import ChunkedSession
from ssvm_dsl.inference.component_session import ComponentSession
from ssvm_dsl.inference.planned import ABILITY_OF, StartingSession, UnplannedSession
from ssvm_dsl.inference.planning.components import component_groups
from ssvm_dsl.inference.planning.planner import plan_program
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Ability, CountTables, Guarantee, Limits, Question, Task, Topology
from ssvm_dsl.plugin_api import BackendSpec, Verdict, hookimpl, program_need
from ssvm_dsl.plugin_api.hosting.sessions import ForeignSession, answer_of_oracle, pass_messages
from ssvm_dsl.registry import PluginInfo, registry
from ssvm_dsl.testing import open_session, solve
from ssvm_dsl.testing.problems import Recipe, random_theta, seeded
from writable import open_writable

#: A backend that has each ability.
HAS = dict.fromkeys(ABILITY_OF, "chain") | dict.fromkeys(("slope", "dual_bound", "compiled_messages"), "msd")

#: Options with which they have it.
OPTIONS = {"msd": {"temperature": 0.5}}

#: Chains as the sums of one backend want them: plainly numbered, of one table.
PLAIN = Recipe(
    topology=Topology.CHAIN, max_variables=4, n_templates=1, density=1.0, same_card=True, shuffled=False, turned=False,
    repeats=False, tied=True, masks=False,
)  # fmt: skip
PROBLEM = seeded(PLAIN, 2)
PROGRAM, THETA = PROBLEM.program, PROBLEM.theta
N = PROGRAM.n_examples
TABLES = CountTables.of_prices(
    np.tile(np.arange(2), (PROGRAM.n_states, 1)), np.full((N, 2), 5, np.int64), np.zeros(N, np.int64), np.arange(25.0)
)


# -- every ability, asked and seen -------------------------------------------------------------------------


def question_of(name, limits=None):
    """What an ability is asked; nothing for compiled calls."""
    task = Task.MARGINALS if name == "expect" else Task.MAP
    return Question(THETA, np.arange(N), task, limits=limits or Limits())


def ask(session, name, limits=None):
    """Ask for an ability; return numbers that do not depend on who answers, or ``None``."""
    question = question_of(name, limits)
    if name == "solve":
        return session.solve(question).score
    if name == "best_by_count":
        found = session.best_by_count(question, TABLES)
        return None if found is None else found.score
    if name == "expect":
        node, tables = np.zeros(PROGRAM.n_states), [np.zeros_like(one) for one in THETA.tables]
        log_z = session.expect(question, np.ones(N), node, tables)
        return None if log_z is None else np.concatenate([log_z, node])
    if name == "slope":
        warm = session.solve(question_of("solve", Limits(iterations=200))).warm
        found = session.slope(question.replace(warm=warm))
        return None if found is None else found.node @ THETA.node
    if name == "dual_bound":
        found = session.dual_bound(question)
        return None if found is None else found.bound
    offer = getattr(session, name)()
    if offer is None:
        return None
    if name == "compiled":
        return np.array([answer_of_oracle(offer, PROGRAM, THETA, i)[1] for i in range(N)])
    return pass_messages(offer, PROGRAM, THETA, 0, np.zeros(int(np.diff(offer.message_ptr)[0])))[1] > -np.inf


class Strange:
    """A bundled backend, of which one call fails; what is called is noted.

    ``where`` is ``open`` or the ability whose call fails: after its work, so that it has added what it was to add.
    """

    def __init__(self, name, where="", fail=None, cost=1e-9, soft=True):
        self.options = OPTIONS.get(name) if soft else None
        self.of, self.where, self.fail, self.cost = registry().find(BackendSpec, name), where, fail, cost
        self.calls = []

    def check(self, need):
        return Verdict(True, self.cost)

    def open(self, program, options):
        if self.where == "open":
            self.fail()
        inner = open_writable(self.of, program, self.options)
        return SimpleNamespace(**{name: self._call(inner, name) for name in vars(inner)})

    def _call(self, inner, name):
        def call(*given):
            self.calls.append(name)
            found = getattr(inner, name)(*given)
            if name == self.where:
                self.fail()
            return found

        return call


def known_with(bundled, **backends):
    """The installed plug-ins and these backends."""

    class Plugin:
        @hookimpl
        def ssvm_backends(self):
            for name in backends:
                yield BackendSpec(name, f"{__name__}:made_{name}", caps=backends[name].of.caps)

    for name, one in backends.items():
        globals()[f"made_{name}"] = lambda one=one: one
    known = registry().copy()
    assert known.register(Plugin(), PluginInfo("toys", "toys 1.0", bundled, allowed=True))
    return known


def opened(known, name, backend="auto"):
    needed = frozenset(filter(None, [ABILITY_OF[name]]))
    tasks = frozenset({question_of(name).task, Task.MAP})
    need = program_need(PROGRAM, tasks, Guarantee.BOUND, abilities=needed)
    return open_plan(plan_program(PROGRAM, need, backend, OPTIONS.get(backend), known), PROGRAM, known, outwards=False)


def raising(error):
    def fail():
        raise error

    return fail


def stuck():
    """Work on until the host says that time is up."""
    begin = perf_counter()
    while perf_counter() - begin < 20.0:
        pause()
    pytest.fail("nobody told it of the limit")


WHO = pytest.mark.parametrize("bundled", [True, False], ids=["bundled", "foreign"])
WHAT = pytest.mark.parametrize("name", ABILITY_OF)


@WHO
@WHAT
@pytest.mark.parametrize("error", [MemoryError("no room"), TooLargeError("it wants 9 GB")], ids=["memory", "refusal"])
def test_for_every_ability_one_without_room_is_followed_by_the_next(name, bundled, error):
    strange, spare = Strange(HAS[name], name, raising(error)), Strange(HAS[name], cost=1e-6)
    session = opened(known_with(bundled, strange=strange, spare=spare), name)
    assert session.plan.backend == "strange"
    found = ask(session, name)
    assert session.plan.backend == "spare"
    assert session.plan.reason.startswith("spare took over from strange, which refused (TooLargeError: ")
    assert session.replaced
    if name in ("expect", "slope", "dual_bound"):  # what was begun is not gone on with
        assert found is None
        found = ask(session, name)
    np.testing.assert_allclose(found, ask(opened(registry(), name, HAS[name]), name), rtol=1e-9, atol=1e-9)


@WHO
@WHAT
def test_for_every_ability_the_last_one_without_room_is_an_error_that_names_it(name, bundled):
    known = known_with(bundled, strange=Strange(HAS[name], name, raising(MemoryError("no room"))))
    with pytest.raises(TooLargeError, match=r"backend 'strange' .*ran out of memory"):
        ask(opened(known, name, "strange"), name)


@WHO
@WHAT
def test_for_every_ability_one_that_cannot_be_opened_is_followed_by_the_next(name, bundled):
    strange, spare = Strange(HAS[name], "open", raising(OSError("no licence"))), Strange(HAS[name], cost=1e-6)
    session = opened(known_with(bundled, strange=strange, spare=spare), name)
    assert session.plan.backend == "spare"
    assert ask(session, name) is not None


@WHO
@WHAT
def test_for_every_ability_the_limit_reaches_the_backend_and_ends_the_call(name, bundled):
    session = opened(known_with(bundled, strange=Strange(HAS[name], name, stuck)), name, "strange")
    limits = Limits(time=0.05)
    if name == "solve":  # every search begins with a labelling
        assert np.isfinite(ask(session, name, limits)).all()
        return
    of_call = 0.05 if name.startswith("compiled") else np.inf  # where no question tells the limit
    with pytest.raises(OutOfTime), within(Deadline(of_call)):
        ask(session, name, limits)


@WHO
@WHAT
@pytest.mark.parametrize("where", ["call", "open"])
def test_for_every_ability_ctrl_c_passes_with_a_note(name, bundled, where):
    strange = Strange(HAS[name], name if where == "call" else where, raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt) as caught:
        ask(opened(known_with(bundled, strange=strange, spare=Strange(HAS[name], cost=1e-6)), name), name)
    whose = "" if bundled else " (plug-in 'toys', toys 1.0)"
    assert caught.value.__notes__ == [f"interrupted in backend 'strange'{whose}"]


@WHO
@WHAT
def test_for_every_ability_a_crash_is_the_fault_of_the_backend(name, bundled):
    known = known_with(bundled, strange=Strange(HAS[name], name, raising(RuntimeError("out of cheese"))))
    with pytest.raises(BackendFault, match=r"'strange'.* RuntimeError: out of cheese"):
        ask(opened(known, name, "strange"), name)


class Noting:
    """A backend whose session notes which of its abilities was called with how many things, and offers nothing."""

    def __init__(self):
        self.calls = []

    def open(self, program, options):
        def call(name):
            return lambda *given: self.calls.append((name, len(given)))

        return SimpleNamespace(**{name: call(name) for name in ABILITY_OF})


#: What stands in front of a backend's session, and what it does not pass on: scores of other programs.
ADAPTERS = {
    ForeignSession: (lambda one: ForeignSession(one.open(PROGRAM, {}), PROGRAM, BackendFault, "it", set()), ()),
    ChunkedSession: (lambda one: ChunkedSession(one, PROGRAM, {}), ()),
    BridgedSession: (
        lambda one: BridgedSession(one.open(PROGRAM, {}), ()),
        ("expect", "slope", "dual_bound", "compiled", "compiled_messages"),
    ),
}


@pytest.mark.parametrize("kind", ADAPTERS)
@pytest.mark.parametrize("name", [name for name in ABILITY_OF if name != "solve"])
def test_what_adapts_questions_passes_every_ability_on(kind, name):
    noting = Noting()
    make, withheld = ADAPTERS[kind]
    method = getattr(make(noting), name, None)
    assert (method is None) == (name in withheld)
    if method is not None:
        assert method(*given(name)) is None
        assert noting.calls == [(name, len(given(name)))]


@WHO
@WHAT
def test_what_estimators_ask_reaches_the_backend(name, bundled):
    strange = Strange(HAS[name])
    session = opened(known_with(bundled, strange=strange), name, "strange")
    assert ask(session, name) is not None
    assert name in strange.calls


def given(name):
    """What goes with a question, for each ability."""
    with_it = {"best_by_count": [TABLES], "expect": [np.ones(N), np.zeros(PROGRAM.n_states), list(THETA.tables)]}
    return [] if name.startswith("compiled") else [question_of(name), *with_it.get(name, [])]


@pytest.mark.parametrize("kind", [StartingSession, UnplannedSession, ComponentSession])
@pytest.mark.parametrize("name", [name for name in ABILITY_OF if name != "solve"])
def test_what_nobody_is_behind_of_is_not_offered(kind, name):
    parts = tuple(Plan("brute-force", "", "") for _ in component_groups(PROGRAM))
    session = {
        StartingSession: lambda: StartingSession("chain", PROGRAM),
        UnplannedSession: lambda: UnplannedSession(PROGRAM, None, None),
        ComponentSession: lambda: ComponentSession(Plan("", "", "", components=parts), PROGRAM, registry()),
    }[kind]()
    if kind is UnplannedSession and name == "best_by_count":  # which cannot be gone without
        with pytest.raises(OutOfTime):
            session.best_by_count(*given(name))
        return
    assert getattr(session, name)(*given(name)) is None
    assert not session.abilities


def test_a_strangers_backend_answers_behind_a_bridge():
    model = few_tagger(2, 3, 2)
    strange = Strange("junction-tree")
    strange.of = replace(strange.of, caps=replace(strange.of.caps, abilities=frozenset()))
    program = ground(model, [np.zeros((5, 2))] * 2).program
    theta = random_theta(np.random.default_rng(0), program, Recipe(masks=False))
    assert solve(program, theta, "strange", plugins=known_with(False, strange=strange)).optimal().all()


# -- what a program does not allow is not offered ----------------------------------------------------------


def test_a_session_offers_what_check_accepts_for_its_program():
    """Without constraints, too: ``semi-markov`` counts and lists the k best of single labels of segments only."""

    class One(Model):
        x = Input(2)
        y = Label(3)
        emit = Factor(y, features=x)
        loss = Cost(y, [[0.0, 2.0, 1.0], [3.0, 0.0, 1.0], [2.0, 1.0, 0.0]])

    X, Y = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.5]], [2, 0, 1, 2]
    program = ground(One, X, Y).program
    session = open_session(program, "semi-markov")
    assert Ability.COUNTS not in session.abilities
    assert Task.KBEST not in session.tasks
    assert Task.MAP in session.tasks
    loose, *exact = (
        StructuredSVM(One, risk="slack", backend=name, trainer="one-slack", tol=1e-6, max_passes=50).fit(X, Y).report_
        for name in ("semi-markov", "tree", "brute-force")
    )
    assert [one.primal for one in exact] == pytest.approx([exact[0].primal] * 2, rel=1e-5)
    assert loose.dual <= exact[0].primal <= loose.primal


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"theta": np.zeros(3)}, "theta must be a Theta, the scores of the program, got ndarray"),
        ({"task": "max"}, "there is no task 'max'; did you mean 'map'"),
        ({"limit": 1}, "solve has no parameter 'limit'; did you mean limits=?"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_a_wrong_question_of_a_test_is_explained(wrong, told):
    problem = seeded(Recipe(), 0)
    with pytest.raises(OptionError, match=re.escape(told)):
        solve(**{"program": problem.program, "theta": problem.theta, "backend": "brute-force", **wrong})
