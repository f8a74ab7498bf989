"""Compiled message passing against ``solve`` and the definition of the bound; compiled DLPW steps beside plain ones."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numba import njit
from scipy import sparse

from combinations import crossed, some
from ssvm_dsl import Attributes, Dim, Factor, Hamming, Input, Label, Model, chain, complete
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.ir import Ability, Question
from ssvm_dsl.ir.need import Guarantee, Limits
from ssvm_dsl.plugin_api import BackendSpec, StopRule, program_need
from ssvm_dsl.registry import registry
from ssvm_dsl.testing import open_session, training_problem
from ssvm_dsl.testing.problems import Recipe, seeded
from ssvm_trainers.dual.dlpw import DLPW


@njit
def call(function, ints, longs, reals, example, pool, node, passes, messages, choices, work):
    return function(ints, longs, reals, example, pool, node, passes, messages, choices, work)


def pass_messages(offer, theta, example, passes, messages):
    """(bound, choices) after some passes; messages of all examples change in place."""
    mine, choices = messages[slice(*offer.message_ptr[example : example + 2])], np.full(1000, -1, np.int32)
    work = np.full(offer.work_size, np.nan)
    structure = offer.function, offer.ints, offer.longs, offer.reals
    return call(*structure, example, theta.pool, theta.node, passes, mine, choices, work), choices


def chosen_score(program, theta, example, choices):
    """The score of a state for each variable and a joint state for each factor of an example."""
    lo, hi = program.var_ptr[example : example + 2]
    total, at = sum(theta.node[program.state_ptr[v] + choices[v - lo]] for v in range(lo, hi)), hi - lo
    for group, table in zip(program.groups, theta.tables, strict=True):
        for f in range(*group.ptr[example : example + 2]):
            total += table[group.table[f], choices[at]]
            at += 1
    assert (choices[at:] == -1).all()
    return total


LIMITS = {"max_iterations": 10, "tol": 1e-6}
UPDATES = [("msd", {"update": "star"}), ("msd", {"update": "edge"}), ("mplp", {"update": "handshake"})]


@pytest.mark.parametrize(("backend", "options"), [*UPDATES, ("mplp", {"update": "clique"})])
@pytest.mark.parametrize("recipe", [Recipe(max_card=2), Recipe(max_arity=3, max_card=4, turned=True, repeats=True)])
def test_compiled_passes_are_those_of_solve(backend, options, recipe):
    for seed in some(range(4), 2):
        problem = seeded(recipe, seed)
        program, theta = problem.program, problem.theta
        spec = registry().find(BackendSpec, backend)
        session = spec.load()().open(program, spec.resolve(options))
        offer = session.compiled_messages()
        found = session.solve(Question(theta, limits=Limits(iterations=7)))
        messages = np.zeros(int(offer.message_ptr[-1]))
        for example in range(program.n_examples):
            pass_messages(offer, theta, example, 3, messages)
            bound, choices = pass_messages(offer, theta, example, 4, messages)
            size = 1e-9 * (1.0 + abs(theta.node).sum() + abs(theta.pool).sum())
            assert bound + theta.const[example] == pytest.approx(found.bound[example], abs=size)
            at_theta = chosen_score(program, theta, example, choices)
            other = seeded(recipe, seed).theta
            rng = np.random.default_rng(seed)
            for size_of_step in (1e-7, 1.0):
                other.node[:] = theta.node + size_of_step * rng.normal(size=theta.node.shape)
                other.pool[:] = theta.pool + size_of_step * rng.normal(size=theta.pool.shape)
                there, _ = pass_messages(offer, other, example, 0, messages)
                plane = bound + chosen_score(program, other, example, choices) - at_theta
                assert there >= plane - size
                assert size_of_step == 1.0 or there <= plane + 1e-4  # only the chosen states attain the bound


@pytest.mark.parametrize("arity", [2, 3])
def test_equally_good_joint_states_agree_with_the_variables(arity):
    problem = seeded(Recipe(max_arity=arity, same_card=True, max_card=2), 2)
    program, theta = problem.program, problem.theta
    assert any(group.arity == arity for group in program.groups)
    theta.pool[:] = 0.0
    session = (
        registry().find(BackendSpec, "msd").load()().open(program, {"update": "star", "temperature": 0.0} | LIMITS)
    )
    offer = session.compiled_messages()
    for example in range(program.n_examples):
        bound, choices = pass_messages(offer, theta, example, 0, np.zeros(int(offer.message_ptr[-1])))
        first, stop = program.var_ptr[example : example + 2]
        best = theta.node[program.state_ptr[first] : program.state_ptr[stop]].reshape(-1, 2)
        assert (choices[: stop - first] == best.argmax(axis=1)).all()
        scopes = [group.scope[f] for group in program.groups for f in range(*group.ptr[example : example + 2])]
        joint = [int("".join(str(choices[v - first]) for v in scope), base=2) for scope in scopes]
        assert choices[stop - first :][: len(joint)].tolist() == joint
        assert bound == pytest.approx(best.max(axis=1).sum())


def test_training_on_messages_gets_diffusion():
    need = program_need(problem_of("pairs").parameters.program, guarantee=Guarantee.BOUND)
    assert plan(replace(need, abilities=frozenset({Ability.MESSAGES}))).backend == "msd"


def test_states_that_are_ruled_out_have_no_compiled_messages():
    program = seeded(Recipe(masks=True), 1).program
    assert open_session(program, "msd").compiled_messages() is None


class Words(Model):
    """Weights that factors share, sparse features, and variables of four states."""

    T = Dim()
    x = Input(T, 5, sparse=True)
    y = Label(T, 4)
    unary = Factor(y, features=x)
    pair = Factor(chain(y))
    loss = Hamming(y)


class Tokens(Model):
    """Weights for observed pairs only."""

    T = Dim()
    t = Attributes(T)
    y = Label(T, 4)
    unary = Factor(y, features=t, weights="observed")
    pair = Factor(chain(y))
    loss = Hamming(y)


class Pairs(Model):
    """Weights of their own, dense features, also of pairs."""

    K = Dim(4)
    x = Input(3)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    pair = Factor(complete(y), features=x)
    loss = Hamming(y)


def words(rng):
    X = [sparse.random_array((5, 5), density=0.5, format="csr", rng=rng) for _ in range(9)]
    return X, [rng.integers(4, size=5) for _ in X]


def tokens(rng):
    X = [[[f"n{k}" for k in rng.integers(6, size=2)] for _ in range(5)] for _ in range(9)]
    return X, [rng.integers(4, size=5) for _ in X]


def pairs(rng):
    return list(rng.normal(size=(9, 3))), list(rng.integers(2, size=(9, 4)))


CASES = {"words": (Words, words), "tokens": (Tokens, tokens), "pairs": (Pairs, pairs)}


def problem_of(name, temperature=0.0):
    """A relaxed problem on messages, with examples of different weights."""
    model, make = CASES[name]
    return training_problem(
        model, *make(np.random.default_rng(3)), risk="relaxed", trainer="dlpw", backend="msd", lam=0.05,
        backend_options={"temperature": temperature}, sample_weight=np.linspace(0.5, 2.0, 9),
    )  # fmt: skip


def weights(problem, n, averaging, start=None, trainer=None):
    trainer = DLPW(passes=2, averaging=averaging, evaluate_every=100, random_state=0) if trainer is None else trainer
    return [one.w.copy() for one in itertools.islice(trainer.steps(problem, StopRule(tol=1e-9), start), n)]


@crossed(name=CASES, averaging=["none", "weighted"], temperature=[0.0, 0.3])
def test_the_compiled_pass_takes_the_same_steps(name, averaging, temperature):
    fast, slow = problem_of(name, temperature), problem_of(name, temperature)
    assert fast.compiled_messages() is not None
    slow.compiled_messages = lambda: None
    fast.dual_losses = None
    start = np.random.default_rng(0).normal(size=fast.dim)
    found, expected = weights(fast, 4, averaging, start), weights(slow, 4, averaging, start)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    assert fast.n_oracle_calls == slow.n_oracle_calls == 36


def test_the_ball_holds_the_weights(monkeypatch):
    monkeypatch.setattr("ssvm_trainers.dual.dlpw.safe_radius", lambda problem: 0.3)
    fast, slow = problem_of("pairs"), problem_of("pairs")
    slow.compiled_messages = lambda: None
    found, expected = weights(fast, 3, "none"), weights(slow, 3, "none")
    assert np.linalg.norm(found[0]) == pytest.approx(0.3)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
