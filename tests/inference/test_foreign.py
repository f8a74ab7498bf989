"""The boundary to foreign backends: what they see, what is kept of their answers, and whose fault a failure is."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import numpy as np
import pytest

from ssvm_dsl.errors import BackendFault, TooLargeError
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Ability, Caps, DualBound, Guarantee, Marginals, Messages, Question, Task, Topology
from ssvm_dsl.plugin_api import BackendSpec, CompiledOracle, Verdict, hookimpl, program_need
from ssvm_dsl.plugin_api.hosting.contained import read_only
from ssvm_dsl.registry import PluginInfo, registry
from ssvm_dsl.testing.brute_force import BruteForce
from ssvm_dsl.testing.problems import Recipe, seeded

CAPS = {"tasks": frozenset(Task) - {Task.RELAXED}, "topology": Topology.LOOPY, "guarantee": Guarantee.EXACT}
PROBLEM = seeded(Recipe(n_examples=3), 5)


class Backend:
    """Brute force with a hook before and after its answers."""

    def __init__(self, before=None, after=None, offers=None):
        self.before, self.after, self.offers = before, after, offers or {}

    def check(self, need):
        return Verdict(True, cost=1.0)

    def open(self, program, options):
        inner = BruteForce().open(program, {})
        backend = self

        class Session:
            def solve(self, question):
                if backend.before is not None:
                    backend.before(program, question)
                found = inner.solve(question)
                return found if backend.after is None else backend.after(found)

        for name, method in self.offers.items():
            setattr(Session, name, staticmethod(method))
        return Session()


@pytest.fixture
def opened():
    """Open a backend as a plug-in of a copy of the registry."""

    def make(backend, problem=PROBLEM, **caps):
        module = sys.modules["foreign_toy"] = ModuleType("foreign_toy")
        module.make = lambda: backend
        known = registry().copy()
        spec = BackendSpec("toy", "foreign_toy:make", caps=Caps(**{**CAPS, "max_arity": 4, **caps}))
        module.ssvm_backends = hookimpl(lambda: [spec])
        assert known.register(module, PluginInfo("toys", "toy-box 1.0", bundled=False, allowed=False))
        need = program_need(problem.program, spec.caps.tasks, spec.caps.guarantee)
        return open_plan(plan(need, "toy", plugins=known), problem.program, known)

    yield make
    sys.modules.pop("foreign_toy", None)


def test_everything_it_is_given_is_read_only(opened):
    seen = []

    def look(program, question):
        theta = question.theta
        arrays = [program.card, program.var_ptr, program.state_ptr, program.order, theta.node, theta.pool, theta.const]
        groups = [(g.shapes.of, g.shapes.scope, g.rows, g.table_base) for g in program.groups]
        arrays += [*theta.tables, *(one for group in groups for one in group)]
        arrays += [question.examples, question.clamp]
        seen.extend(array.flags.writeable for array in arrays)

    clamp = np.full(PROBLEM.program.n_variables, -1, np.int32)
    session = opened(Backend(before=look))
    session.solve(Question(PROBLEM.theta, task=Task.MAP_CLAMPED, examples=np.arange(2), clamp=clamp))
    assert seen
    assert not any(seen)
    assert PROBLEM.theta.node.flags.writeable
    assert clamp.flags.writeable
    view = read_only(PROBLEM.theta)
    assert np.shares_memory(view.node, PROBLEM.theta.node)


def test_writing_to_the_scores_is_the_backends_fault(opened):
    def write(program, question):
        question.theta.node[:] = 0.0

    before = PROBLEM.theta.node.copy()
    with pytest.raises(BackendFault, match=r"'toy' \(plug-in 'toys', toy-box 1.0\) .* ValueError: .*read-only"):
        opened(Backend(before=write)).solve(Question(PROBLEM.theta))
    np.testing.assert_array_equal(PROBLEM.theta.node, before)


def test_what_it_keeps_and_changes_later_is_not_the_hosts(opened):
    kept = []
    session = opened(Backend(after=lambda found: kept.append(found) or found))
    first = session.solve(Question(PROBLEM.theta))
    before = first.labels.copy()
    kept[0].labels[:] = 9
    kept[0].primal[:] = 3
    np.testing.assert_array_equal(first.labels, before)
    assert not first.primal.any()


@pytest.mark.parametrize("error", [SystemExit(7), GeneratorExit(), ValueError("a\nb"), StopIteration()], ids=repr)
@pytest.mark.parametrize("place", ["check", "open", "solve"])
def test_whatever_it_raises_names_it(opened, error, place):
    def throw(*args, **options):
        raise error

    backend = Backend(before=throw if place == "solve" else None)
    if place != "solve":
        setattr(backend, place, throw)
    with pytest.raises(Exception, match="toy") as caught:
        opened(backend).solve(Question(PROBLEM.theta))
    assert type(error).__name__ in str(caught.value)
    if place != "check":
        assert caught.value.__cause__ is error
        assert isinstance(caught.value, BackendFault)


@pytest.mark.parametrize(("safe", "most"), [(False, 1), (True, 3)])
def test_a_backend_that_is_not_thread_safe_is_called_once_at_a_time(opened, safe, most):
    active, seen, lock = [], [], threading.Lock()
    meeting = threading.Barrier(3)

    def count(*args):
        active.append(1)
        if safe:
            meeting.wait(timeout=120.0)
        else:
            time.sleep(0.02)
        with lock:
            seen.append(len(active))
        if safe:
            meeting.wait(timeout=120.0)
        active.pop()

    session = opened(Backend(before=count), thread_safe=safe)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: session.solve(Question(PROBLEM.theta)), range(3)))
    assert max(seen) == most


ABILITY_OF = {
    "compiled": Ability.COMPILED,
    "compiled_messages": Ability.MESSAGES,
    "slope": Ability.MESSAGES,
    "expect": Ability.SUMMED_MARGINALS,
    "best_by_count": Ability.COUNTS,
}


def soft(temperature):
    """Soft bounds of the wrong shape."""
    messages = Messages(np.zeros(1, int), np.zeros(2, int), np.zeros(0))
    return DualBound(temperature, np.zeros(1), Marginals(np.zeros(1), ()), messages)


def none(*given):
    """What a method returns that does not extend to a program."""
    return


@pytest.mark.parametrize("name", ABILITY_OF)
def test_only_announced_abilities_are_used_and_those_must_be_there(opened, name):
    session = opened(Backend(offers={name: none}))
    assert not session.abilities
    assert session.compiled() is None
    assert session.slope(Question(PROBLEM.theta)) is None
    ability = ABILITY_OF[name]
    with pytest.raises(BackendFault, match=f"announce the ability '{ability}', but its session lacks .*{name}"):
        opened(Backend(), abilities=frozenset({ability}))


@pytest.mark.parametrize(
    ("name", "offer", "text"),
    [
        ("compiled", lambda: 3, r"compiled\(\) returned a int, expected a CompiledOracle"),
        ("compiled", lambda: CompiledOracle(None, np.zeros(1), np.zeros(1), 0), "a flat array of int32"),
        ("compiled", lambda: CompiledOracle(None, np.zeros(1, np.int32), np.zeros(1, int), -1), "work_size"),
        ("compiled_messages", lambda: "text", "expected a CompiledMessages"),
        ("slope", lambda *a: Marginals(np.zeros(1), ()), "marginals of other shapes"),
        ("dual_bound", lambda *a: 3.0, "dual_bound returned a float, expected DualBound or None"),
        ("dual_bound", lambda *a: soft(-1.0), "a number of at least 0, got -1.0"),
        ("dual_bound", lambda *a: soft(1.0), "dual_bound returned marginals of other shapes"),
        ("expect", lambda question, coef, node, tables: np.zeros(len(coef)), "something else than marginals"),
        ("expect", lambda question, coef, node, tables: np.full(len(coef), np.nan), "nan or inf|something else"),
    ],
)
def test_what_abilities_return_is_checked(opened, name, offer, text):
    ability = ABILITY_OF.get(name, Ability.MESSAGES)
    others = {"slope": none, "compiled_messages": none} if ability is Ability.MESSAGES else {}
    abilities = frozenset({ability})
    session, coef = opened(Backend(offers=others | {name: offer}), abilities=abilities), np.ones(3)
    node, tables = np.zeros(PROBLEM.program.n_states), [np.zeros_like(one) for one in PROBLEM.theta.tables]
    question = Question(PROBLEM.theta, np.arange(3))
    given = {"slope": (question,), "dual_bound": (question,), "expect": (question, coef, node, tables)}
    with pytest.raises(BackendFault, match=text):
        getattr(session, name)(*given.get(name, ()))
    assert not node.any()


def test_open_returns_a_session(opened):
    backend = Backend()
    backend.open = lambda program, options: None
    with pytest.raises(BackendFault, match=r"open\(\) returned a NoneType, expected a session"):
        opened(backend)


def test_ctrl_c_passes_and_memory_has_an_error_of_its_own(opened):
    def throw(error):
        def run(*args):
            raise error

        return run

    with pytest.raises(KeyboardInterrupt) as caught:
        opened(Backend(before=throw(KeyboardInterrupt()))).solve(Question(PROBLEM.theta))
    assert caught.value.__notes__ == ["interrupted in backend 'toy' (plug-in 'toys', toy-box 1.0)"]
    with pytest.raises(TooLargeError, match=r"backend 'toy' .* ran out of memory"):
        opened(Backend(before=throw(MemoryError()))).solve(Question(PROBLEM.theta))
