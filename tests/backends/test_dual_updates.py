"""The updates of ``msd`` and ``mplp`` beside naive ones from the papers, and bounds for single states."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from lp_problems import complete, grid

from ssvm_backends.dual.descent.block_descent import CLIQUE, EDGE, HANDSHAKE, STAR, DescentRule, descend
from ssvm_backends.dual.driver import NO_END, PassingRule, message_task
from ssvm_backends.dual.kernels import SolverProgress
from ssvm_backends.dual.sequential import reparametrised, sweep_space, trws
from ssvm_backends.graphs.graph import Instance, build_graph
from ssvm_backends.graphs.reduce import reduce_problem
from ssvm_dsl.ir import Question
from ssvm_dsl.testing.problems import Recipe, Scores, seeded


def sweeps(instance, update, n, temperature=0.0):
    """The messages after n sweeps of a kernel."""
    graph = instance.graph
    messages = np.zeros(int(graph.message_ptr[-1]))
    progress = SolverProgress.start(graph.n_examples, graph.n_variables, len(messages))
    ids = np.arange(graph.n_examples, dtype=np.int64)
    rule = PassingRule(n, 0.0, by_factor=update != STAR)
    task = message_task(instance, ids, messages, progress, rule)
    assert descend(task, DescentRule.start(instance, ids, update, temperature), NO_END)
    return progress.current, progress


def soft(values, axis, temperature):
    if temperature == 0.0:
        return values.max(axis=axis)
    return temperature * np.log(np.exp(values / temperature).sum(axis=axis))


class Naive:
    """Pairwise problems with one matrix for each edge and one message for each (edge, end)."""

    def __init__(self, problem):
        program, theta = problem.program, problem.theta
        self.node = [theta.node[a:b] for a, b in itertools.pairwise(program.state_ptr)]
        (group,) = program.groups
        self.edges = [tuple(int(v) for v in e) for e in group.scope]
        self.table = [theta.tables[0][r].reshape(group.cards) for r in group.table]
        self.delta = {(e, v): np.zeros(len(self.node[v])) for e, ends in enumerate(self.edges) for v in ends}

    def gamma(self, e, v, temperature):
        """Equation 12: the best of edge e for each state of v, less the message to its other end."""
        i, j = self.edges[e]
        if v == j:
            return soft(self.table[e] - self.delta[e, i][:, None], 0, temperature)
        return soft(self.table[e] - self.delta[e, j][None, :], 1, temperature)

    def edge_sweep(self, temperature):
        """Equation 10, one message after the other."""
        for e, ends in enumerate(self.edges):
            for v in ends:
                others = sum(d for (f, u), d in self.delta.items() if u == v and f != e)
                self.delta[e, v] = -self.node[v] / 2 - others / 2 + self.gamma(e, v, temperature) / 2

    def star_sweep(self, temperature):
        """Equation 11, all messages into one variable after the other."""
        for v, node in enumerate(self.node):
            mine = [e for e, ends in enumerate(self.edges) if v in ends]
            gamma = {e: self.gamma(e, v, temperature) for e in mine}
            for e in mine:
                self.delta[e, v] = -(node + sum(gamma.values())) / (1 + len(mine)) + gamma[e]

    def bound(self):
        """Equation 8."""
        sums = [n + sum(d for (_, u), d in self.delta.items() if u == v) for v, n in enumerate(self.node)]
        edges = [
            (t - self.delta[e, i][:, None] - self.delta[e, j][None, :]).max()
            for e, ((i, j), t) in enumerate(zip(self.edges, self.table))
        ]
        return sum(s.max() for s in sums) + sum(edges)


@pytest.mark.parametrize("temperature", [0.0, 0.5])
@pytest.mark.parametrize(("update", "sweep"), [(EDGE, Naive.edge_sweep), (STAR, Naive.star_sweep)])
@pytest.mark.parametrize("problem", [grid(3, 3, 3), complete(5, 2), complete(4, 4)], ids=("grid", "binary", "complete"))
def test_updates_are_those_of_meshi_et_al(problem, update, sweep, temperature):
    naive, graph = Naive(problem), build_graph(problem.program)
    for n in range(1, 4):
        sweep(naive, temperature)
        messages, progress = sweeps(Instance.of(graph, problem.theta), update, n, temperature)
        expected = np.concatenate([naive.delta[e, v] for e, ends in enumerate(naive.edges) for v in ends])
        exponential = 2e-3 * temperature  # the kernel's exponential function has a few digits
        assert np.allclose(messages, expected, atol=1e-12 + exponential)
        if temperature == 0.0:
            assert np.isclose(progress.bound[0], naive.bound(), rtol=1e-12)


def tables_of(instance):
    """(variables, table) of each factor, and the unary scores of each variable."""
    graph = instance.graph
    factors = []
    for f in range(graph.n_factors):
        scope = graph.scope[graph.slot_ptr[f] : graph.slot_ptr[f + 1]]
        table = instance.pool[graph.table_ptr[f] :][: graph.table_size[f]].reshape(graph.card[scope])
        factors.append(([int(v) for v in scope], table))
    return factors, [instance.node[a:b] for a, b in itertools.pairwise(graph.state_ptr)]


def along(vector, axis, n_axes):
    return vector.reshape([-1 if k == axis else 1 for k in range(n_axes)])


def factor_sweep(factors, node, message, handshake):
    """GMPLP and MPLP++ on whole tables: everything into the factor, and out again by shares of max-marginals."""
    for f, (scope, table) in enumerate(factors):
        r, joint = len(scope), table.copy()
        for k, v in enumerate(scope):
            others = node[v] + sum(m for (g, j), m in message.items() if factors[g][0][j] == v and g != f)
            message[f, k] = -others
            joint = joint + along(others, k, r)
        order = [*range(r), *range(r - 2, -1, -1)] if handshake else range(r)
        whole = joint
        for step, k in enumerate(order):
            share = (1.0 if step >= r else 1.0 / (r - step)) if handshake else 1.0 / r
            best = (joint if handshake else whole).max(axis=tuple(j for j in range(r) if j != k))
            message[f, k] = message[f, k] + share * best
            joint = joint - along(share * best, k, r)


@pytest.mark.parametrize("update", [CLIQUE, HANDSHAKE])
@pytest.mark.parametrize("arity", [2, 3, 4])
def test_factor_updates_are_gmplp_and_mplp_plus_plus(update, arity):
    for seed in range(3):
        recipe = Recipe(max_arity=arity, n_examples=1, max_variables=6, max_card=2 + seed, density=1.0)
        problem = seeded(recipe, seed)
        instance = Instance.of(build_graph(problem.program), problem.theta)
        factors, node = tables_of(instance)
        message = {(f, k): np.zeros(len(node[v])) for f, (scope, _) in enumerate(factors) for k, v in enumerate(scope)}
        for n in range(1, 4):
            factor_sweep(factors, node, message, update == HANDSHAKE)
            found, _ = sweeps(instance, update, n)
            at = 0
            for f, (scope, _) in enumerate(factors):
                for k, v in enumerate(scope):
                    mine = found[at : at + len(node[v])]
                    at += len(node[v])
                    # messages of binary pairs are kept as differences
                    assert np.allclose(mine - mine[0], message[f, k] - message[f, k][0], atol=1e-10)


@pytest.mark.parametrize("seed", range(12))
def test_bounds_of_single_states_are_bounds(seed):
    recipe = Recipe(
        max_arity=2 + seed % 3, n_examples=2, max_variables=5, max_card=3, forbidden=seed % 2 == 1,
        scores=list(Scores)[seed % 5],
    )  # fmt: skip
    problem = seeded(recipe, seed)
    graph = build_graph(problem.program)
    reduced = reduce_problem(problem.program, graph, Question(problem.theta), always=True)
    instance, left = reduced.instance, reduced.instance.graph
    messages = np.zeros(int(left.message_ptr[-1]))
    rough = np.random.default_rng(seed).normal(size=len(messages)) * np.abs(instance.node).max(initial=0.0)
    progress = SolverProgress.start(2, left.n_variables, len(messages))
    task = message_task(instance, reduced.ids, messages, progress, PassingRule(20, 0.0, smooth=True))
    assert trws(task, sweep_space(instance, reduced.ids), NO_END)
    factors, node = tables_of(instance)
    for some in (messages, rough):
        bound, moved, slack = reparametrised(left, instance.node, instance.pool, some)
        assert (slack >= 0).all()
        assert len(moved) == len(slack)
        for i in np.flatnonzero(reduced.feasible):
            first, stop = left.var_ptr[i : i + 2]
            for y in itertools.product(*(range(c) for c in left.card[first:stop])):
                state = dict(zip(range(first, stop), y))
                score = sum(node[v][s] for v, s in state.items())
                mine = range(*left.factor_ptr[i : i + 2])
                score += sum(factors[f][1][tuple(state[v] for v in factors[f][0])] for f in mine)
                rows = [left.state_ptr[v] + s for v, s in state.items()]
                assert (bound[i] - slack[rows] >= score).all()


def test_bounds_of_single_states_rule_states_out():
    problem = grid(8, 8, 3)
    instance = Instance.of(build_graph(problem.program), problem.theta)
    graph, ids = instance.graph, np.zeros(1, np.int64)
    messages = np.zeros(int(graph.message_ptr[-1]))
    progress = SolverProgress.start(1, graph.n_variables, len(messages))
    task = message_task(instance, ids, messages, progress, PassingRule(200, 1e-7, smooth=True))
    assert trws(task, sweep_space(instance, ids), NO_END)
    bound, _, slack = reparametrised(graph, instance.node, instance.pool, messages)
    out = bound[0] - slack < progress.score[0]
    kept = graph.state_ptr[:-1] + progress.labels
    assert out.mean() > 0.2
    assert not out[kept].any()
