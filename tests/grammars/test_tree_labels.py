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
    Given,
    Grammar,
    Hamming,
    Input,
    Label,
    Model,
    ParseTree,
    PartialTree,
    StructuredSVM,
    ground,
    leaves,
    rules,
    spans,
)  # fmt: skip
from ssvm_dsl.errors import DataError, InfeasibleError, ModelError
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.ir import Question, Task, Theta
from ssvm_dsl.plugin_api import program_need
from ssvm_dsl.testing import open_session

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
    session = open_session(program, "cky", {task})
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


def test_sums_without_the_places_of_rules():
    """What trainers ask for: the sums are those of all marginals, but for digits of rules, which no weight scores."""
    made, rng = ground(Parser, inputs([3, 5]), None), np.random.default_rng(1)
    program, theta = made.program, made.parameters.scores(rng.normal(size=made.parameters.dim))
    session, ids = open_session(program, "cky"), program.every_example
    sums = [(np.zeros(program.n_states), np.zeros_like(theta.tables[0])) for _ in range(2)]
    wanted = program.card != G.n_digits
    coef = rng.normal(size=len(ids))
    for variables, (node, table) in zip((None, wanted), sums, strict=True):
        session.expect(Question(theta, None, Task.MARGINALS, variables=variables), coef, node, [table])
    there = np.repeat(wanted, program.card)
    np.testing.assert_allclose(sums[1][0][there], sums[0][0][there], atol=1e-9)
    np.testing.assert_allclose(sums[1][1], sums[0][1], atol=1e-9)
    assert not sums[1][0][~there].any()


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


def test_sentences_without_a_tree():
    svm = StructuredSVM(Parser, random_state=0).fit(X, TREES)
    with pytest.raises(InfeasibleError, match="without words has no tree"):
        svm.predict(inputs([3, 0]))
    with pytest.raises(InfeasibleError, match="all of its words as A only, with which no tree begins"):
        svm.predict(inputs([1]))


def test_trees_that_the_grammar_does_not_derive():
    wrong = ParseTree.of("(S (NP (D the) (A dog)) (VP (V saw) (PP (N cats))))")
    longest = r"derives with these tags is words 2:4 of 4 \(VP\)"
    with pytest.raises(DataError, match=longest):
        StructuredSVM(Parser).fit(X[:1], [wrong])
    for remedy in ("drop", "nearest"):
        with pytest.warns(UserWarning, match="labels that the model rules out"):
            svm = StructuredSVM(Parser, infeasible=remedy, C=10.0).fit([*X, X[0]], [*TREES, wrong])
        assert svm.predict(X[1:]) == [with_positions(tree) for tree in TREES[1:]]


@pytest.fixture(scope="module")
def ranked():
    """All trees of a sentence, the best first."""
    svm = StructuredSVM(Parser, random_state=0, C=0.1).fit(X, TREES)
    x = inputs([6], 3)
    return svm, x, [tree for tree, _ in svm.predict_kbest(x, 500)[0]]


def test_known_tags_and_phrases(ranked):
    svm, x, every = ranked
    assert len(every) == svm.model.y.grammar.n_parses([""] * 6)
    rng = np.random.default_rng(0)
    for _ in range(25):
        tree = every[rng.integers(len(every))]
        tags = [tag if rng.random() < 0.3 else None for tag in tree.tags]
        phrases = [(*one[:2], one.label if rng.random() < 0.6 else None) for one in tree.brackets()]
        phrases = [one for one in phrases if rng.random() < 0.4]

        def agrees(other, tags=tags, phrases=phrases):
            mine = other.brackets()
            named = all(mark in (None, tag) for mark, tag in zip(tags, other.tags, strict=True))
            return named and all(any(one[:2] == m[:2] and one[2] in (None, m[2]) for m in mine) for one in phrases)

        assert svm.predict(x, given=[PartialTree(tags, phrases)]) == [next(filter(agrees, every))]


def test_parts_that_do_not_fit(ranked):
    svm, x, _ = ranked
    for part, said in (
        (PartialTree(["D"]), "6 tags"), (PartialTree(["Q", *[None] * 5]), "'Q'"),
        (PartialTree(brackets=[(0, 9, None)]), "inside 6 words"), (PartialTree(brackets=[(0, 2, "Q")]), "'Q'"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=said):
            svm.predict(x, given=[part])
    with pytest.raises(DataError, match="given= of predictions takes a PartialTree"):
        svm.fit(X, [PartialTree(), *TREES[1:]])
    for bad in ({"tags": 3}, {"brackets": [(2, 2, "NP")]}, {"brackets": [3]}):
        with pytest.raises(DataError, match="PartialTree"):
            PartialTree(**bad)
    known = [(4, 6, None), (0, 6, "S"), (0, 2, "NP"), (2, 4, None), (2, 6, "VP")]
    assert len(PartialTree(brackets=known).brackets) == 5
    with pytest.raises(DataError, match=r"\(4, 6, None\) and \(5, 7, 'NP'\), which cross"):
        PartialTree(brackets=[*known, (5, 7, "NP")])


def test_masks_of_a_lexicon_and_of_spans(ranked):
    _, x, every = ranked
    wanted = next(tree for tree in reversed(every) if all(one[:2] != (0, 2) for one in tree.brackets()))
    words = {"D": "the", "A": "old", "P": "in", "N": "fish", "V": "fish"}
    known = Grammar(*G.arguments()[:3], [*words.items(), ("N", "old")], *G.arguments()[4:])
    mask = known.tag_mask([words[tag] for tag in wanted.tags])
    assert known.tag_mask([]).shape == (0, mask.shape[1])
    assert mask.sum() > 6

    class Masked(Model):
        T = Dim()
        x = Input(T, 3)
        pair = Input(T, T, 2)
        may = Input(T, len(G.tags))
        hidden = Input(T, T, len(G.chains) + 1)
        y = Label(T, grammar=G, allowed=may)
        leaf = Factor(leaves(y), features=x)
        span = Factor(spans(y), features=pair)
        rule = Factor(rules(y))
        none = Given(spans(y), hidden)
        loss = Hamming(y)

    rng = np.random.default_rng(0)
    svm = StructuredSVM.from_weights(
        Masked, {block.name: rng.normal(size=block.shape) for block in ground(Parser, X).parameters.blocks}
    )
    free = {"may": np.ones((6, len(G.tags))), "hidden": np.zeros((6, 6, len(G.chains) + 1))}
    every = [tree for tree, _ in svm.predict_kbest([x[0] | free], 500)[0]]
    hidden = free["hidden"].copy()
    hidden[0, 1, 1:] = -np.inf  # the first two words are no phrase
    right = next(
        tree
        for tree in every
        if all(row[G.tags.index(tag)] for row, tag in zip(mask, tree.tags, strict=True))
        and all(one[:2] != (0, 2) for one in tree.brackets())
    )
    assert svm.predict([x[0] | {"may": mask, "hidden": hidden}]) == [right]
    assert Model.from_json(Masked.to_json()).declaration == Masked.declaration


def test_declarations():
    T = Dim()
    with pytest.raises(ModelError, match="a label of trees"):
        type("Bad", (Model,), {"T": T, "y": Label(T, 3), "f": Factor(rules(Label(T, 3)))})
    with pytest.raises(ModelError, match="Grammar"):
        type("Bad", (Model,), {"T": T, "y": Label(T, grammar="S -> a")})
    with pytest.raises(ModelError, match="one axis"):
        type("Bad", (Model,), {"T": T, "y": Label(T, 3, grammar=G)})


def test_a_symbol_that_is_a_tag_and_a_phrase():
    """Over one word the chain S stands above the tag A; the chain S > A is another one, above two words."""

    class Twofold(Model):
        T = Dim()
        x = Input(T, 3)
        y = Label(T, grammar=Grammar([("S", "A"), ("S", "SA"), ("A", "Sb"), ("A", "bb")], start="S", tags="Ab"))
        leaf = Factor(leaves(y), features=x)
        loss = Hamming(y)

    trees = [ParseTree.of(text) for text in ("(S (A (S (A 0)) (b 1)))", "(S (S (A 0)) (A 1))", "(S (A (b 0) (b 1)))")]
    data = [{"x": np.eye(3)[[k, k]]} for k in range(3)]
    svm = StructuredSVM(Twofold, random_state=0).fit(data, trees)
    assert ground(Twofold, data, trees).layout.decode(ground(Twofold, data, trees).truth) == trees
    assert svm.report_.certified
