"""Labels of parse trees: as data, as constraint, every question to ``cky`` against all trees, every trainer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parses_by_hand import parses, worth

from ssvm_dsl import (
    Cost,
    Dim,
    Factor,
    Grammar,
    Hamming,
    Input,
    Label,
    Model,
    ParseTree,
    StructuredSVM,
    ground,
    leaves,
    rules,
    spans,
)  # fmt: skip
from ssvm_dsl.errors import DataError, InfeasibleError, ModelError
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Question, Task, Theta
from ssvm_dsl.plugin_api import program_need

TREES = [
    ParseTree.of("(S (NP (D the) (N dog)) (VP (V saw) (NP (N cats))))"),
    ParseTree.of("(S (NP (D a) (A red) (A big) (N car)) (VP (V ran)))"),
    ParseTree.of("(S (NP (NP (N rain)) (PP (P in) (NP (N may)))) (VP (V fell)))"),
]
G = Grammar.from_trees(TREES, horizontal=0)


class Parser(Model):
    T = Dim()
    x = Input(T, 3)
    pair = Input(T, T, 2)
    y = Label(T, grammar=G)
    leaf = Factor(leaves(y), features=x)
    span = Factor(spans(y), features=pair)
    rule = Factor(rules(y))
    loss = Cost(spans(y), "wrong") + Hamming(y)


def inputs(sizes, seed=0):
    rng = np.random.default_rng(seed)
    return [{"x": rng.normal(size=(n, 3)), "pair": rng.normal(size=(n, n, 2))} for n in sizes]


X = inputs([len(tree.words) for tree in TREES])


def with_positions(tree):
    return tree.with_words([str(t) for t in range(len(tree.words))])


def test_trees_become_labels_and_back():
    grounded = ground(Parser, X, TREES)
    assert grounded.layout.decode(grounded.truth) == [with_positions(tree) for tree in TREES]
    (group,) = grounded.program.constraints
    assert not group.broken(grounded.truth, grounded.program.var_ptr).any()


def test_every_other_label_breaks_the_tree():
    grounded = ground(Parser, X[:1], TREES[:1])
    (group,), card = grounded.program.constraints, grounded.program.card
    kept = 0
    for v in range(len(card)):
        for state in range(card[v]):
            labels = grounded.truth.copy()
            labels[v] = state
            kept += int(not group.broken(labels, grounded.program.var_ptr)[0])
    assert kept == len(card)  # the labels themselves


def asked(program, theta, task, **more):
    session = open_plan(plan(program_need(program, frozenset({task})), backend="cky"), program)
    return session.solve(Question(theta, None, task, **more))


def scored(n, seed):
    """A program of a sentence with random scores, and the arrays they are made of."""
    rng, program = np.random.default_rng(seed), ground(Parser, inputs([n]), None).program
    (group,) = program.groups
    theta = Theta.of(program, rng.normal(size=program.n_states), [rng.normal(size=(group.n_tables, group.n_configs))])
    variables = program.constraints[0].variable
    node = [theta.node[program.state_ptr[v] : program.state_ptr[v + 1]] for v in variables]
    tag, span = np.array(node[:n]), np.array(node[n : n + n * n]).reshape(n, n, -1)
    first, second = np.array(node[n + n * n :]).reshape(2, n, -1)
    code = (first[:, :, None] + second[:, None, :]).reshape(n, -1) + theta.tables[0][group.factors(0)[1]]
    return program, theta, tag, span, code


def by_hand(n, seed):
    program, theta, tag, span, code = scored(n, seed)
    none = code[0, 0]
    every = list(parses(G, n))
    rule = np.ascontiguousarray(code[:, 1 : len(G.binary) + 1])
    return program, theta, none + np.array([worth(G, one, tag, span, rule) for one in every])


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_best_and_log_z(n):
    program, theta, worths = by_hand(n, n)
    assert asked(program, theta, Task.MAP).score[0] == pytest.approx(worths.max())
    assert asked(program, theta, Task.MARGINALS).log_partition[0] == pytest.approx(np.logaddexp.reduce(worths))


def test_k_best_trees_are_distinct_and_in_order():
    program, theta, worths = by_hand(5, 1)
    found = asked(program, theta, Task.KBEST, k=6)
    np.testing.assert_allclose(found.score[:, 0], np.sort(worths)[::-1][:6])
    assert len({one.tobytes() for one in found.labels}) == 6


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_known_labels(seed):
    program, theta, *_ = scored(4, seed)
    rng = np.random.default_rng(seed)
    best = asked(program, theta, Task.MAP).labels
    other = Theta.of(program, rng.normal(size=program.n_states), [rng.normal(size=theta.tables[0].shape)])
    clamp = np.where(rng.random(len(best)) < 0.3, best, -1).astype(np.int32)
    found = asked(program, other, Task.MAP_CLAMPED, clamp=clamp)
    assert (found.labels[clamp >= 0] == clamp[clamp >= 0]).all()
    alone = asked(program, other, Task.MAP_CLAMPED, clamp=best)
    assert alone.labels.tolist() == best.tolist()
    assert found.score[0] >= alone.score[0] - 1e-9


def test_marginals_are_the_derivatives_of_log_z():
    program, theta, *_ = scored(4, 3)
    found = asked(program, theta, Task.MARGINALS).marginals
    rng, step = np.random.default_rng(0), 1e-5
    for array, share in ((theta.node, found.node), (theta.tables[0].reshape(-1), found.tables[0].sum(axis=0))):
        for k in rng.choice(len(array), 15):
            ends = []
            for move in (step, -step):
                array[k] += move
                ends.append(asked(program, theta, Task.MARGINALS).log_partition[0])
                array[k] -= move
            assert share[k] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-6)


@pytest.mark.parametrize(
    "settings_",
    [
        {"trainer": "one-slack"}, {"trainer": "bcfw"}, {"trainer": "n-slack", "risk": "slack"},
        {"trainer": "lbfgs", "risk": "log"}, {"trainer": "lbfgs", "risk": "softmax-margin"}, {"trainer": "perceptron"},
    ],
)  # fmt: skip
def test_trainers(settings_):
    svm = StructuredSVM(Parser, C=10.0, random_state=0, **settings_).fit(X, TREES)
    assert svm.predict(X) == [with_positions(tree) for tree in TREES]
    assert svm.score(X, TREES) == 1.0
    if settings_["trainer"] not in ("perceptron", "n-slack"):
        assert svm.report_.certified
        assert svm.report_.relative_gap < 0.01


def test_many_sentences():
    """Sizes of large problems are rounded before backends look at them."""
    sizes = np.random.default_rng(0).integers(2, 9, 150).tolist()
    program = ground(Parser, inputs(sizes), None).program
    assert plan(program_need(program).rounded(), backend="auto").backend == "cky"


def test_both_trainers_of_margins_find_the_same_optimum():
    values = [StructuredSVM(Parser, C=1.0, tol=1e-3, trainer=one, random_state=0).fit(X, TREES).report_
              for one in ("one-slack", "bcfw")]  # fmt: skip
    assert values[0].dual <= values[1].primal + 1e-9
    assert values[1].dual <= values[0].primal + 1e-9


def test_models_are_saved_with_their_grammar(tmp_path):
    svm = StructuredSVM(Parser, random_state=0).fit(X, TREES)
    svm.save(tmp_path / "m.npz")
    again = StructuredSVM.load(tmp_path / "m.npz")
    assert again.predict(X) == svm.predict(X)
    assert Model.from_json(Parser.to_json()).declaration == Parser.declaration


def test_trees_that_do_not_fit():
    svm = StructuredSVM(Parser)
    with pytest.raises(DataError, match="4 words"):
        svm.fit(X[:1], [ParseTree.of("(S (N a))")])
    with pytest.raises(DataError, match="'Q'"):
        svm.fit(X[:1], [ParseTree.of("(S (Q a) (N b) (N b) (N c))")])
    with pytest.raises(DataError, match="parse tree"):
        svm.fit(X[:1], [7])
    with pytest.raises(DataError, match="none of the grammar"):
        svm.fit(X[:1], [ParseTree.of("(S (NP (D the) (A dog)) (VP (V saw) (PP (N cats))))")])


def test_sentences_without_a_tree():
    svm = StructuredSVM(Parser, random_state=0).fit(X, TREES)
    with pytest.raises(InfeasibleError):
        svm.predict(inputs([3, 0]))


def test_the_kit(backend_conformance):
    backend_conformance("cky", n_problems=8, seed=1)


def test_declarations():
    T = Dim()
    with pytest.raises(ModelError, match="a label of trees"):
        type("Bad", (Model,), {"T": T, "y": Label(T, 3), "f": Factor(rules(Label(T, 3)))})
    with pytest.raises(ModelError, match="Grammar"):
        type("Bad", (Model,), {"T": T, "y": Label(T, grammar="S -> a")})
    with pytest.raises(ModelError, match="one axis"):
        type("Bad", (Model,), {"T": T, "y": Label(T, 3, grammar=G)})
