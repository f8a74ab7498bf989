"""What foreign sessions do beyond ``solve``: only what is announced is used, and lies are caught by spot checks."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from numba import cfunc
from test_foreign import PROBLEM, Backend, opened  # noqa: F401 - a fixture

from ssvm_dsl.errors import BackendFault
from ssvm_dsl.inference.threads import Threads
from ssvm_dsl.ir import Ability, Guarantee, Limits, Marginals, Question, Task
from ssvm_dsl.kernels.compiled_oracles import MESSAGE_SIGNATURE, SIGNATURE
from ssvm_dsl.plugin_api import BackendSpec, CompiledMessages, CompiledOracle, add_marginals
from ssvm_dsl.plugin_api.hosting.sessions import wrong_sums
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.brute_force import BruteForce
from ssvm_dsl.testing.problems import catalogue
from writable import open_writable

NOTHING = (np.zeros(1, np.int32), np.zeros(1, np.int64))


def oracle_of(choose, lift):
    """A compiled oracle that always takes state ``choose`` and says a score that is ``lift`` above zero."""

    @cfunc(SIGNATURE)
    def function(ints, longs, example, pool, node, labels, work):
        labels[:] = choose
        return lift

    return lambda: CompiledOracle(function, *NOTHING, 1)


def messages_of(choice, bound):
    """Compiled message passing that knows one choice and one bound."""

    @cfunc(MESSAGE_SIGNATURE)
    def function(ints, longs, reals, example, pool, node, passes, messages, choices, work):
        choices[:] = choice
        return bound

    pointers = np.zeros(PROBLEM.program.n_examples + 1, np.int64)
    return lambda: CompiledMessages(function, *NOTHING, np.zeros(1), pointers, 1)


@pytest.mark.parametrize(
    ("choose", "lift", "text"),
    [
        (0, 0.0, "of its compiled oracle: it reports score .* for a labelling whose score is"),
        (9, 0.0, "of its compiled oracle: a label is outside the states of its variable"),
        (0, np.nan, "of its compiled oracle: a score is nan"),
    ],
)
def test_a_compiled_oracle_that_lies_is_not_handed_out(opened, choose, lift, text):  # noqa: F811
    backend = Backend(offers={"compiled": oracle_of(choose, lift)})
    with pytest.raises(BackendFault, match=text):
        opened(backend, abilities=frozenset({Ability.COMPILED})).compiled()


@pytest.mark.parametrize(
    ("choice", "bound", "text"),
    [(9, 1e9, "choose a number that is not a state"), (0, -1e9, "give the bound .* a labelling has")],
)
def test_compiled_messages_that_lie_are_not_handed_out(opened, choice, bound, text):  # noqa: F811
    offers = {"compiled_messages": messages_of(choice, bound), "slope": lambda question: None}
    with pytest.raises(BackendFault, match=text):
        opened(Backend(offers=offers), abilities=frozenset({Ability.MESSAGES})).compiled_messages()


@pytest.mark.parametrize("name", ["chain", "msd"])
def test_honest_compiled_calls_pass_as_those_of_a_foreign_backend(opened, name):  # noqa: F811
    spec = registry().find(BackendSpec, name)
    problem = catalogue()["shared table rows"]
    backend = spec.load()()
    backend.open = lambda program, options: open_writable(spec, program)
    session = opened(backend, problem=problem, **spec.caps.__dict__)
    offer = session.compiled() if name == "chain" else session.compiled_messages()
    assert offer is not None


def test_calls_from_within_kernels_cannot_wait_for_their_turn(opened):  # noqa: F811
    backend = Backend(offers={"compiled": oracle_of(0, 0.0)})
    session = opened(backend, abilities=frozenset({Ability.COMPILED}), thread_safe=False)
    assert session.compiled() is None
    assert Ability.COMPILED not in session.abilities


def test_one_at_a_time_holds_and_the_wait_counts_against_the_limit(opened, monkeypatch):  # noqa: F811
    active, most, seen, looks, answered, all_ask = [], [], [], [], [], threading.Event()

    def clock():
        """Each answer takes a second; every call looks twice when it begins, the one whose turn it is once more."""
        looks.append(1)
        if len(looks) == 6:
            all_ask.set()
        return float(len(answered))

    def count(program, question):
        active.append(threading.get_ident())
        most.append(len(active))
        seen.append(question.limits.time)
        assert all_ask.wait(timeout=120.0)
        answered.append(1)
        active.pop()

    session = opened(Backend(before=count), thread_safe=False)
    monkeypatch.setattr("ssvm_dsl.deadline.perf_counter", clock)
    question, threads = Question(PROBLEM.theta, limits=Limits(time=10.0)), Threads(3)
    threads.map(lambda ids: session.solve(question.replace(examples=ids)), [np.array([i]) for i in range(3)])
    threads.close()
    assert max(most) == 1
    assert seen == [10.0, 9.0, 8.0]


def test_sums_of_marginals_agree_on_overlaps():
    program, ids = PROBLEM.program, np.array([2, 0])
    coef = np.array([1.5, -0.5])
    found = BruteForce().open(program, {}).solve(Question(PROBLEM.theta, ids, Task.MARGINALS))

    def summed(marginals):
        node, tables = np.zeros(program.n_states), [np.zeros_like(one) for one in PROBLEM.theta.tables]
        add_marginals(program, marginals, coef, ids, node, tables)
        return node, tables

    assert wrong_sums(program, ids, coef, *summed(found.marginals)) == ""
    flat = Marginals(found.marginals.node, tuple(np.full_like(t, 1.0 / t.shape[1]) for t in found.marginals.tables))
    assert "agree" in wrong_sums(program, ids, coef, *summed(flat))
    assert "sum to one" in wrong_sums(program, ids, 2.0 * coef, *summed(found.marginals))


def test_summed_marginals_are_held_against_known_labellings(opened):  # noqa: F811
    inner = BruteForce().open(PROBLEM.program, {})

    def expect(question, coef, node, tables):
        found = inner.solve(question)
        add_marginals(PROBLEM.program, found.marginals, coef, question.ids(PROBLEM.program), node, tables)
        return found.log_partition - 5.0

    session = opened(Backend(offers={"expect": expect}), abilities=frozenset({Ability.SUMMED_MARGINALS}))
    best = inner.solve(Question(PROBLEM.theta)).score
    question, coef = Question(PROBLEM.theta, task=Task.MARGINALS), np.ones(3)
    node, tables = np.zeros(PROBLEM.program.n_states), [np.zeros_like(one) for one in PROBLEM.theta.tables]
    assert session.expect(question, coef, node, tables, best - 100.0) is not None
    with pytest.raises(BackendFault, match=r"its log partition .* is below the score"):
        session.expect(question, coef, node, tables, best + 5.0)


def test_values_of_fractional_solutions_are_computed_anew(opened):  # noqa: F811
    def half(found):
        program = PROBLEM.program
        node = np.repeat(1.0 / program.card, program.card)
        tables = tuple(np.full((g.n_factors, g.n_configs), 1.0 / g.n_configs) for g in program.groups)
        found.labels, found.marginals = np.zeros(0, np.int32), Marginals(node, tables)
        found.score, found.primal = found.score + shift, np.ones(3, np.int8)
        return found

    session = opened(Backend(after=half), tasks=frozenset({Task.RELAXED}), guarantee=Guarantee.BOUND)
    shift = 3.0
    with pytest.raises(BackendFault, match="it reports score"):
        session.solve(Question(PROBLEM.theta, task=Task.RELAXED))
