"""Factors over the same variables are one for relaxations: same labellings, tighter bounds, each one's marginals."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, StructuredSVM
from ssvm_dsl.inference import checked
from ssvm_dsl.inference.bridging.merging import merged_factors
from ssvm_dsl.ir import Group, Program, Task, Theta
from ssvm_dsl.testing import solve


def random_problem(seed):
    """Examples of 2 to 5 variables of three states with factors of two and three, many of them over the same ones."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, rng.integers(1, 5))
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    groups, tables = [], []
    for g, (arity, most) in enumerate([(2, 4), (2, 3), (3, 2), (2, 4)]):
        scope, ends = [], [0]
        for first, size in zip(ptr, sizes):
            drawn = range(rng.integers(0, most + 1)) if size >= arity else ()
            scope += [first + rng.choice(size, arity, replace=False) for _ in drawn]
            ends.append(len(scope))
        n_tables = 2 if g == 0 else max(len(scope), 1)  # the first group shares its tables
        row = rng.integers(0, 2, len(scope)) if g == 0 else np.arange(len(scope))
        scope = np.array(scope, np.int32).reshape(-1, arity)
        cards = (3,) * arity
        groups.append(Group.of(f"g{g}", cards, scope, np.array(ends), row.astype(np.int32), n_tables, ptr))
        tables.append(rng.normal(size=(n_tables, 3**arity)))
    if seed % 3 == 0:
        tables[1][0, rng.integers(9)] = -np.inf
    program = Program(ptr, np.full(ptr[-1], 3, np.int32), tuple(groups), ()).validate()
    theta = Theta.of(program, rng.normal(size=program.n_states), tuple(tables))
    ids = None if seed % 2 else rng.choice(len(sizes), rng.integers(1, len(sizes) + 1), replace=False).astype(np.int64)
    return program, theta, ids


@pytest.mark.parametrize("seed", range(24))
def test_bounds_are_valid_and_tighter(seed, monkeypatch):
    program, theta, ids = random_problem(seed)
    best = solve(program, theta, "brute-force", examples=ids)
    merged = solve(program, theta, "lp", examples=ids)
    ascended = solve(program, theta, "ad3", examples=ids)
    monkeypatch.setattr(checked, "merged_factors", lambda program: None)
    apart = solve(program, theta, "lp", examples=ids)
    fractional = solve(program, theta, "lp", Task.RELAXED, examples=ids)
    for found in (merged, ascended):
        assert (best.score <= found.bound + 1e-7).all()
    assert (merged.bound <= apart.bound + 1e-6).all()
    np.testing.assert_allclose(fractional.bound, apart.bound, atol=1e-6)  # as trainers know it
    assert (ascended.score <= best.score + 1e-7).all()


@pytest.mark.parametrize("seed", range(12))
def test_each_factor_has_its_own_marginals(seed):
    program, theta, ids = random_problem(seed)
    found = solve(program, theta, "lp", examples=ids)
    asked = np.arange(program.n_examples) if ids is None else ids
    node, at, value = found.marginals.node, 0, 0.0
    places = [0] * len(program.groups)
    for example in asked:
        first, last = program.state_ptr[program.var_ptr[example : example + 2]]
        own = node[at : at + last - first].reshape(-1, 3)
        at += last - first
        value += float(own.ravel() @ theta.node[first:last])
        for g, group in enumerate(program.groups):
            part = group.shapes.factors(example)
            for scope, row in zip(group.shapes.scope[part], group.rows[part] + group.table_base[example]):
                joint = found.marginals.tables[g][places[g]]
                places[g] += 1
                table = theta.tables[g][row]
                value += float(joint[joint > 1e-12] @ table[joint > 1e-12])
                for axis, variable in enumerate(scope):
                    rest = tuple(one for one in range(len(scope)) if one != axis)
                    np.testing.assert_allclose(joint.reshape(group.cards).sum(axis=rest), own[variable], atol=1e-5)
    assert places == [len(one) for one in found.marginals.tables]
    assert value == pytest.approx(float(found.bound.sum()), abs=1e-4)


def test_two_tables_of_one_pair_are_as_good_as_one():
    ptr, scope, ends = np.array([0, 3]), np.array([[0, 1], [1, 2], [2, 0]], np.int32), np.array([0, 3])
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    first[:, [0, 3]] -= 2.0  # different states are better, which three variables cannot all have
    second[:, [0, 3]] += 3.0

    def bound(turned, *tables, task=Task.MAP):
        scopes = [scope, np.ascontiguousarray(scope[:, ::-1]) if turned else scope]
        rows = np.arange(3, dtype=np.int32)
        groups = [Group.of(f"g{k}", (2, 2), one, ends, rows, 3, ptr) for k, one in enumerate(scopes[: len(tables)])]
        program = Program(ptr, np.full(3, 2, np.int32), tuple(groups), ()).validate()
        return float(solve(program, Theta.of(program, None, tables), "lp", task).bound[0])

    turned = second.reshape(3, 2, 2).transpose(0, 2, 1).reshape(3, 4)
    whole = bound(False, first + second)
    assert bound(False, first, second) == pytest.approx(whole, abs=1e-6)
    assert bound(True, first, turned) == pytest.approx(whole, abs=1e-6)
    assert bound(False, first, second, task=Task.RELAXED) > whole + 0.1  # as declared


def test_nothing_is_merged_where_all_factors_differ():
    program = random_problem(0)[0]
    alone = Program(program.var_ptr, program.card, (), ()).validate()
    assert merged_factors(alone) is None
    ptr, scope = np.array([0, 3]), np.array([[0, 1], [1, 2]], np.int32)
    group = Group.of("g", (2, 2), scope, np.array([0, 2]), np.zeros(2, np.int32), 1, ptr)
    assert merged_factors(Program(ptr, np.full(3, 2, np.int32), (group,), ()).validate()) is None


class TwoTables(Model):
    T = Dim()
    t = T.index()
    x = Input(T, 2)
    y = Label(T, 2)
    emit = Factor(y[t], features=x[t])
    pair = Factor((y[t], y[(t + 1) % T]))
    seen = Factor((y[t], y[(t + 1) % T]), features=x[t])
    loss = Hamming(y)


@pytest.mark.parametrize("seed", range(3))
def test_the_relaxed_risk_is_that_of_the_factors_as_declared(seed):
    """All trainers minimise one risk, those that ask a backend and those that know the relaxation themselves."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(3, 2)) for _ in range(6)]
    Y = [rng.integers(2, size=3) for _ in X]
    settings = {"risk": "relaxed", "C": 10.0, "tol": 1e-6, "max_passes": 3000, "random_state": 0}
    known = StructuredSVM(TwoTables, trainer="lp-dual-qp", **settings).fit(X, Y).report_.primal
    asked = StructuredSVM(TwoTables, trainer="bundle", backend="lp", **settings).fit(X, Y).report_.primal
    assert asked == pytest.approx(known, rel=1e-4)

