"""Rules with weights whose tables differ from instance to instance keep chains and trees as they are."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from scipy.special import logsumexp

from ssvm_dsl import (
    AllOf,
    AtMost,
    Dim,
    Factor,
    Given,
    Hamming,
    Implies,
    Input,
    Label,
    Model,
    Not,
    Positions,
    Same,
    StructuredSVM,
    ground,
    to_networkx,
)
from ssvm_dsl.compiler.estimate import footprint
from ssvm_dsl.compiler.inputs import read_examples
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.inference.planning.planner import need_of, plan
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.scoring import Scorer

CLASSES = "OBI"


class Tagger(Model):
    """An I after nothing at all is as bad as after an O; classes of a lexicon; a bound from the data."""

    T = Dim()
    t = T.index()
    x = Input(T, 3)
    lexicon = Input(T)
    cap = Input(T)
    s = Input(T)
    up = Positions(T, over=T)
    y = Label(T, CLASSES)
    emit = Factor(y[t], features=x[t])
    inside = Factor(
        Implies(y[t].is_("I"), Not(AllOf(Not(y[t - 1].is_("B")), Not(y[t - 1].is_("I")))), outside=False), features=x[t]
    )
    known = Factor(y[t].is_(lexicon[t]))
    both = Factor(AllOf(y[t].is_(lexicon[t]), y[t + 1].is_(lexicon[t + 1])), features=[x[t], x[t + 1]])
    few = Factor(AtMost(cap[t], [y[t].is_("B"), y[t + 1].is_("B")], outside=False))
    seen = Given(Implies(y[t].is_(lexicon[t]), y[t - 1].is_("B"), outside=False), scores=s[t])
    loss = Hamming(y)


def example(rng, n):
    return {
        "x": rng.normal(size=(n, 3)), "lexicon": rng.integers(-1, 3, n), "cap": rng.integers(0, 3, n),
        "s": rng.normal(size=n), "up": np.zeros(n, dtype=int),
    }  # fmt: skip


def score(w, one, y):
    """The score of a labelling, by the definition."""
    n, x, lex, total = len(y), one["x"], one["lexicon"], 0.0
    for t in range(n):
        total += w["emit"][CLASSES.index(y[t])] @ x[t]
        before = y[t - 1] if t else None
        total += (y[t] != "I" or before in ("B", "I")) * (w["inside"] @ x[t])
        if lex[t] >= 0:
            total += w["known"] * (y[t] == CLASSES[lex[t]])
        if t + 1 < n and lex[t] >= 0 and lex[t + 1] >= 0:
            both = y[t] == CLASSES[lex[t]] and y[t + 1] == CLASSES[lex[t + 1]]
            total += both * (w["both"] @ np.concatenate([x[t], x[t + 1]]))
        count = (y[t] == "B") + (t + 1 < n and y[t + 1] == "B")
        total += w["few"] * (count <= one["cap"][t])
        hit = lex[t] >= 0 and y[t] == CLASSES[lex[t]]
        total += one["s"][t] * (not hit or before == "B")
    return total


def weights(rng):
    return {
        "emit": rng.normal(size=(3, 3)), "inside": rng.normal(size=3), "known": float(rng.normal()),
        "both": rng.normal(size=6), "few": float(rng.normal()),
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_scores_and_sums_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    w = weights(rng)
    svm = StructuredSVM.from_weights(Tagger, w)
    X = [example(rng, n) for n in (4, 1, 3, 2)]
    for one in X:
        every = list(itertools.product(CLASSES, repeat=len(one["x"])))
        scores = np.array([score(w, one, y) for y in every])
        assert svm.best_score([one])[0] == pytest.approx(scores.max())
        assert tuple(svm.predict([one])[0]) == every[int(scores.argmax())]
        chances, found = np.exp(scores - logsumexp(scores)), svm.predict_marginals([one])[0]
        for t, k in np.ndindex(found.shape):
            assert found[t, k] == pytest.approx(sum(p for p, y in zip(chances, every) if y[t] == CLASSES[k]))
        found = svm.explain(one)
        assert found.total == pytest.approx(scores.max())
    assert svm.best_score(X) == pytest.approx([svm.best_score([one])[0] for one in X])
    assert pickle.loads(pickle.dumps(svm)).best_score(X) == pytest.approx(svm.best_score(X))


def test_a_chain_stays_a_chain():
    rng = np.random.default_rng(0)
    grounded = ground(Tagger, [example(rng, 5)])
    assert grounded.program.n_variables == 5
    assert not Tagger.declaration.circuits
    need = need_of(grounded.parameters, frozenset({Task.MAP}), Guarantee.EXACT)
    assert plan(need).backend == "chain"
    graph = to_networkx(grounded)
    assert all(len(node["scope"]) == 2 for _, node in graph.nodes(data=True) if node["kind"] == "factor")


def test_learning_with_tables_that_vary():
    rng = np.random.default_rng(0)
    w, X = weights(rng), [example(rng, n) for n in (4, 3, 5, 2, 1, 4)]
    Y = [max(itertools.product(CLASSES, repeat=len(one["x"])), key=lambda y: score(w, one, y)) for one in X]
    margin = StructuredSVM(Tagger, C=100.0, tol=1e-3, random_state=0).fit(X, Y)
    assert margin.score(X, Y) == 1.0
    log = StructuredSVM(Tagger, risk="log", C=1.0, random_state=0).fit(X, Y)
    # the gradient of the risk is zero: expected features are as observed, but for the regularizer
    again = StructuredSVM(Tagger, risk="log", C=1.0, random_state=0).fit(X[::-1], Y[::-1])
    assert again.coef_ == pytest.approx(log.coef_, abs=1e-2)
    assert margin.predict(X[:2])[0].tolist() == list(Y[0])


def test_unknown_labels_leave_out_what_touches_them():
    rng = np.random.default_rng(1)
    X = [example(rng, 4) for _ in range(3)]
    Y = [[None, "B", "I", "O"], ["O", None, None, "B"], ["B", "I", "O", "O"]]
    svm = StructuredSVM(Tagger, random_state=0, tol=1e-3).fit(X, Y)
    assert np.isfinite(svm.coef_).all()


def test_a_scorer_answers_as_the_model_does():
    rng = np.random.default_rng(2)
    w, one = weights(rng), example(rng, 4)
    x, lex = one["x"], one["lexicon"]
    pairs = [t for t in range(3) if lex[t] >= 0 and lex[t + 1] >= 0]
    scores = {
        "emit": [x @ w["emit"].T], "inside": [x @ w["inside"]], "known": [np.full(int((lex >= 0).sum()), w["known"])],
        "both": [np.array([w["both"] @ np.concatenate([x[t], x[t + 1]]) for t in pairs])],
        "few": [np.full(4, w["few"])], "seen": [one["s"]],
    }  # fmt: skip
    svm, scorer = StructuredSVM.from_weights(Tagger, w), Scorer(Tagger)
    names = set(scorer.shapes)
    data = {name: [one[name]] for name in scorer.data_names}
    found = scorer.answer({name: value for name, value in scores.items() if name in names}, data=data)
    assert found.score[0] == pytest.approx(svm.best_score([one])[0])


class Pairs(Model):
    """Converse classes in a rule with a weight: the state depends on the order of the positions."""

    N = Dim()
    i, j = N.index(2)
    x = Input(N, N, 2)
    kind = Input(N, N)
    r = Label(i, j, ["b", "a", "s"], symmetric={"b": "a"})
    own = Factor(r[i, j].is_("b"), features=x[i, j])
    like = Factor(AllOf(r[i, j].is_(kind[i, j]), Not(r[i, j + 1].is_("a")), outside=False), where=i.is_not(j))
    loss = Hamming(r)


def test_states_of_converse_classes():
    rng = np.random.default_rng(0)
    back, names = [1, 0, 2], "bas"
    for _ in range(4):
        w = {"own": rng.normal(size=2), "like": float(rng.normal())}
        one = {"x": rng.normal(size=(3, 3, 2)), "kind": rng.integers(-1, 3, (3, 3))}
        best = -np.inf
        for states in itertools.product(range(3), repeat=3):
            full = np.full((3, 3), -1)
            for (a, b), state in zip(itertools.combinations(range(3), 2), states):
                full[a, b], full[b, a] = state, back[state]
            total = sum((names[full[a, b]] == "b") * (w["own"] @ one["x"][a, b])
                        for a, b in itertools.permutations(range(3), 2))  # fmt: skip
            for a, b in itertools.permutations(range(3), 2):
                there = b + 1 < 3 and a != b + 1
                other = there and names[full[a, b + 1]] == "a"
                total += w["like"] * (full[a, b] == one["kind"][a, b] and one["kind"][a, b] >= 0 and not other)
            best = max(best, total)
        svm = StructuredSVM.from_weights(Pairs, w)
        assert svm.best_score([one])[0] == pytest.approx(best)
    assert not Pairs.declaration.circuits


def test_sparse_features_keep_an_auxiliary_variable():
    class Sparse(Model):
        T = Dim()
        t = T.index()
        x = Input(T, 3, sparse=True)
        lexicon = Input(T)
        y = Label(T, 3)
        emit = Factor(y[t], features=x[t])
        known = Factor(Same(y[t], y[t + 1]), features=x[t])
        of = Factor(AllOf(y[t].is_(lexicon[t]), y[t + 1].is_(0)), features=x[t])
        loss = Hamming(y)

    assert len(Sparse.declaration.circuits) == 1


def test_a_first_example_that_is_smaller_than_others():
    """How much memory is needed at most is not asked of inputs that are too short for the largest axes."""

    class Read(Model):
        N = Dim()
        i, j = N.index(2)
        x = Input(N)
        f = Input(N, N)
        w = Input(N)
        r = Label(i, j, 2, where=w[i] < w[j])
        y = Label(N, 2)
        own = Factor(y[i].is_(1), features=x[i])
        link = Factor(r[i, j].is_(1), features=x[i])
        pair = Factor((y[i], y[j]), where=(w[i] < w[j]) & f[i, j])
        cap = AtMost(w[i], y[j].is_(1), over=j, where=f[i, j])
        soft = Factor(AtMost(1, y[j].is_(1), over=j, where=f[i, j] & (w[j] > 0)))
        loss = Hamming(y) + Hamming(r)

    rng = np.random.default_rng(0)
    sizes = (1, 4, 2)
    X = [{"x": rng.normal(size=n), "f": rng.integers(0, 2, (n, n)), "w": rng.integers(0, 3, n)} for n in sizes]
    weights_ = {"own": [1.0], "link": [0.5], "pair": np.eye(2), "soft": 0.3}
    svm = StructuredSVM.from_weights(Read, weights_)
    alone = [StructuredSVM.from_weights(Read, weights_).best_score([one])[0] for one in X]
    assert svm.best_score(X) == pytest.approx(alone)


def test_the_memory_of_rules_is_counted():
    class Many(Model):
        N = Dim()
        i, j, k = N.index(3)
        x = Input(N, N)
        r = Label(N, N, 2)
        own = Factor(r[i, j].is_(1), features=x[i, j])
        rule = Factor(AtMost(2, [r[i, k].is_(1), r[k, j].is_(1)], over=k), features=x[i, j])
        loss = Hamming(r)

    small, large = (
        footprint(Many.declaration, one, Layout.of(Many.declaration, one), judged=False)
        for one in (read_examples(Many.declaration, [np.zeros((n, n))], judged=False) for n in (10, 20))
    )
    assert large.kept > 6 * small.kept  # two literals for each of N^3 members
    assert large.kept > 20**3 * 2 * 9
