"""Losses of variables at positions, some of them by a condition: against plain Python, and as models use them."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

from naive import holds, number
from random_patterns import Drawn
from ssvm_dsl import (
    Allow,
    Cost,
    Dim,
    Factor,
    Forbid,
    Given,
    Hamming,
    Input,
    Label,
    Model,
    StructuredSVM,
    chain,
    ground,
)
from ssvm_dsl.errors import DataError, ModelError
from ssvm_dsl.scoring import Scorer


def far(true, found, i, w):
    """How far a class is off, more at positions of heavy weight."""
    return np.abs(true - found) * (1.0 + w[i])


def unlike(a, b, c, d, i):
    """Two classes that are off together, by place."""
    return (a != c) * 1.0 + 2.0 * (b != d) * (i % 2 == 0)


def loss_of(term, truth, found, example, variables):
    """A term by its definition: arrays of states by label name, full and mirrored; -1 where there is no variable."""
    sizes = {"N": len(example["x"]), "K": 3, "M": len(example["e"])}
    total = size = 0.0
    if term.target.kind != "pattern":
        return float(truth[term.label.name] != found[term.label.name])
    for part, _ in enumerate(term.target.groups):
        for scope, at in scopes_with_places(term.target, part, sizes, example):
            if len({variables.get(one) for one in scope}) < len(scope) or any(one not in variables for one in scope):
                continue
            right, given = ([int(of[name][place]) for name, place in scope] for of in (truth, found))
            scale = 1.0
            if term.node_weights is not None:
                value = number(term.node_weights, at, sizes, example)
                scale = 0.0 if value is None else value
            total, size = total + scale * price(term, right, given, at, sizes, example), size + scale
    return total / (size or 1.0) if term.normalize else total


def scopes_with_places(target, part, sizes, example):
    """The scopes of a pattern, each with the values of its indices."""
    group, kept = target.groups[part], []
    indices = sorted({id(i): i for i in target.free}.values(), key=lambda i: i.number)
    for spot in itertools.product(*(range(sizes[i.dim.name]) for i in indices)):
        at = dict(zip(map(id, indices), spot))
        if target.condition is not None and holds(target.condition, at, sizes, example) is not True:
            continue
        scope = []
        for one in group:
            places = [number(p, at, sizes, example) for p in one.places]
            places = [
                value + sizes[dim.origin.name] if isinstance(p, int) and p < 0 else value
                for p, value, dim in zip(one.places, places, one.label.dims)
            ]
            there = all(v is not None and 0 <= v < sizes[d.origin.name] for v, d in zip(places, one.label.dims))
            scope.append((one.label.name, tuple(places)) if there else None)
        if None not in scope:
            kept.append((scope, at))
    return kept


def price(term, right, given, at, sizes, example):
    if isinstance(term, Hamming):
        return (right != given) * (1.0 if term.weights is None else term.weights[right[0]])
    if term.functions:
        places = [number(p, at, sizes, example) for p in term.places]
        inputs = {name: np.asarray(example[name]) for name in term.asked_inputs}
        return float(term.functions[0].function(*right, *given, *places, **inputs))
    cards = term.target.cards
    return term.prices()[np.ravel_multi_index(right, cards), np.ravel_multi_index(given, cards)]


class DrawnLoss(Drawn):
    """A random model whose loss has random terms over variables at positions."""

    def __init__(self, seed):
        self.terms = []
        super().__init__(seed)

    def term(self):
        """A random loss of one or two variables."""
        rng, pool = self.rng, [self.indices[k] for k in self.rng.permutation(len(self.indices))[:2]]
        labels = [*self.labels, self.v]
        options = {"where": self.condition(pool, int(rng.integers(0, 3)))}
        label = labels[int(rng.integers(len(labels)))]
        one = label[tuple(self.position(pool, dim.origin) for dim in label.dims)] if label.dims else label
        if rng.random() < 0.3:
            options["normalize"] = True
        if rng.random() < 0.3 and label.dims:
            over = [i for p in one.places for i in [p] if getattr(i, "dim", None) is self.N]
            options |= {"node_weights": self.w[over[0] + int(rng.integers(-1, 2))]} if over else {}
        if not label.dims:
            options.pop("where")
            options.pop("node_weights", None)
            return Hamming(label, **options)
        kind, k = int(rng.integers(5)), label.n_states
        if kind == 0:
            return Hamming(one, weights=rng.integers(0, 4, k).tolist(), **options)
        if kind == 1:
            return Cost(one, rng.integers(0, 4, (k, k)) * (1 - np.eye(k, dtype=int)), **options)
        where_n = [p for p in one.places if getattr(p, "dim", None) is self.N]
        if kind == 2 and where_n and label.classes is None:
            return Cost(one, far, where_n[0], **options)
        other = label[tuple(self.position(pool, dim.origin) for dim in label.dims)]
        if kind == 3 and repr(other) != repr(one):
            table = rng.integers(0, 4, (k, k, k, k)) * (1 - np.eye(k * k, dtype=int)).reshape(k, k, k, k)
            return Cost((one, other), table, **options)
        if kind == 4 and repr(other) != repr(one) and where_n and label.classes is None:
            return Cost((one, other), unlike, where_n[0], **options)
        return Hamming(one, **options)

    def losses(self, m):
        """Hamming of the first label, and random terms."""
        i, j = self.indices[:2]
        self.v = m.add("v", Label(i, j, ["b", "a", "s"], symmetric={"b": "a"}))
        self.terms = [self.term() for _ in range(2)]
        return self.terms[0] + 0.5 * self.terms[1]


def variables_of(declaration, sizes, example):
    """The variables: the number and whether they are turned, by label name and position."""
    out = {}
    for label in declaration.own_labels:
        for place in itertools.product(*(range(sizes[dim.origin.name]) for dim in label.dims)):
            at = {id(index): value for index, value in zip(label.indices, place)}
            if label.symmetric and not place[0] < place[1]:
                continue
            if label.condition is not None and holds(label.condition, at, sizes, example) is not True:
                continue
            out[label.name, place] = len(set(out.values()))
            if label.symmetric:
                out[label.name, place[::-1]] = out[label.name, place]
    return out


def random_labels(rng, declaration, sizes, variables):
    """States of all variables in full arrays, mirrored, -1 elsewhere; and the same as users write them."""
    states, given = {}, {}
    for label in declaration.own_labels:
        shape = tuple(sizes[dim.origin.name] for dim in label.dims)
        full = np.full(shape, -1, dtype=np.int64)
        for name, place in variables:
            if name != label.name:
                continue
            if label.symmetric and place[0] > place[1]:
                continue
            full[place] = rng.integers(label.n_states)
            if label.symmetric:
                full[place[::-1]] = label.converse[full[place]]
        names = np.array(label.classes) if label.classes else np.arange(label.n_states)
        states[label.name] = full
        given[label.name] = names[np.maximum(full, 0)]
        if (full < 0).any():
            given[label.name] = np.ma.masked_array(given[label.name], mask=full < 0)
        if not label.dims:
            given[label.name] = names[int(full)].item()
    return states, given


@pytest.mark.parametrize("seed", range(0, 120, 12))
def test_losses_at_positions_are_those_of_the_definition(seed):
    checked = 0
    for n in range(seed, seed + 12):
        try:
            drawn = DrawnLoss(n)
        except ModelError:
            continue
        declaration, rng = drawn.model.declaration, np.random.default_rng(n)
        X = [drawn.example() for _ in range(3)]
        sizes = [{"N": len(x["x"]), "K": 3, "M": len(x["e"])} for x in X]
        variables = [variables_of(declaration, s, x) for s, x in zip(sizes, X)]
        truth = [random_labels(rng, declaration, s, v) for s, v in zip(sizes, variables)]
        found = [random_labels(rng, declaration, s, v) for s, v in zip(sizes, variables)]
        try:
            grounded = ground(drawn.model, X, [given for _, given in truth])
        except ModelError:  # a relation in an order that it does not have
            continue
        labels = grounded.layout.encode([given for _, given in found]).states
        values = grounded.loss.value(grounded.program, labels)
        assert grounded.loss.value(grounded.program, grounded.truth) == pytest.approx(0.0)
        for k, x in enumerate(X):
            wanted = [loss_of(term, truth[k][0], found[k][0], x, variables[k]) for term in drawn.terms]
            assert values[k] == pytest.approx(wanted[0] + 0.5 * wanted[1]), (n, k, repr(drawn.terms))
            checked += 1
    assert checked


class Judged(Model):
    """Only some positions are judged, by an input that prediction does not need."""

    T = Dim()
    t = T.index()
    x = Input(T, 3)
    judged = Input(T)
    weight = Input(T)
    y = Label(T, 3)
    emit = Factor(y[t], features=x[t])
    trans = Factor(chain(y))
    loss = Hamming(y[t], node_weights=weight[t], normalize=True, where=judged[t]) + 2.0 * Hamming(y[-1])


def test_only_judged_positions_count_and_prediction_needs_no_such_input():
    rng = np.random.default_rng(0)
    X = [{"x": rng.normal(size=(n, 3)), "judged": rng.integers(0, 2, n), "weight": rng.random(n)} for n in (4, 1, 5, 3)]
    Y = [one["x"].argmax(axis=1) for one in X]
    svm = StructuredSVM(Judged, random_state=0, tol=1e-3).fit(X, Y)
    bare = [{"x": one["x"]} for one in X]
    assert all(np.array_equal(a, b) for a, b in zip(svm.predict(X), svm.predict(bare)))
    again = Model.from_json(Judged.to_json())
    assert str(again) == str(Judged)
    assert again.to_json() == Judged.to_json()
    assert "Hamming(y[t], normalize=True, node_weights=weight[t], where=judged[t])" in str(Judged)
    copied = pickle.loads(pickle.dumps(svm))
    assert np.array_equal(copied.predict(X)[0], svm.predict(X)[0])
    wrong = [one | {"weight": -one["weight"]} for one in X]
    with pytest.raises(DataError, match="input 'weight', example 0: expected finite non-negative numbers"):
        ground(Judged, wrong, Y)
    with pytest.raises(DataError, match="input 'judged', example 0: expected 0 or 1"):
        ground(Judged, [one | {"judged": np.full(len(one["x"]), 2)} for one in X], Y)


def test_the_margin_is_that_of_the_judged_positions():
    """The loss-augmented answer is wrong where a mistake costs something, and nowhere else."""
    x = {"x": np.zeros((4, 3)), "judged": np.array([1, 0, 1, 0]), "weight": np.array([3.0, 1.0, 1.0, 1.0])}
    grounded = ground(Judged, [x], [np.zeros(4, dtype=int)])
    price = grounded.loss.node.reshape(4, 3)
    assert price[:, 0].tolist() == [0.0] * 4
    assert price[:, 1] == pytest.approx([0.75, 0.0, 0.25, 2.0])
    assert ground(Judged, [x | {"judged": np.zeros(4)}], [np.zeros(4, dtype=int)]).loss.node.sum() == 4.0


class Priced(Model):
    """Prices that a function says, of single variables and of pairs."""

    N = Dim()
    i, j = N.index(2)
    x = Input(N, 2)
    w = Input(N)
    y = Label(N, 3)
    own = Factor(y[i], features=x[i])
    pair = Factor((y[i], y[j]), where=i < j)
    loss = Cost(y[i], far, i) + Cost((y[i], y[j]), unlike, i, where=(i < j) & (w[i] > 0))


def test_functions_price_states_that_are_not_known_to_the_model_at_the_most():
    rng = np.random.default_rng(0)
    X = [{"x": rng.normal(size=(3, 2)), "w": np.ones(3)} for _ in range(4)]
    Y = [rng.integers(0, 3, 3) for _ in X]
    svm = StructuredSVM(Priced, random_state=0, tol=1e-3).fit(X, Y)
    assert svm.score(X, Y) <= 1.0
    known = ground(Priced, X[:1], [np.array([0, 1, 2])])
    strange = ground(Priced, X[:1], [np.array([0, 1, 7])], unseen=True, whole=True)
    assert strange.loss.node[6:].tolist() == [4.0, 2.0, 4.0]
    assert np.array_equal(strange.loss.node[:6], known.loss.node[:6])
    assert strange.loss.factors[0].tables(None)[1].max() == 3.0
    assert Model.from_json(Priced.to_json(), trusted=True).to_json() == Priced.to_json()


def negative(true, found):
    return true - found


def test_mistakes_in_losses_at_positions_are_named():
    def made(loss, **more):
        space = {"N": Dim()}
        space["i"], space["j"] = space["N"].index(2)
        space |= {"x": Input(space["N"]), "m": Input(space["N"], 2), "y": Label(space["N"], 3)}
        space["h"] = Label(space["N"], over=space["N"])
        space["own"] = Factor(space["y"], features=space["x"])
        names = dict(space)
        with pytest.raises(ModelError) as caught:
            type("Wrong", (Model,), space | {"loss": loss(**names)})
        return str(caught.value)

    assert "it counts single variables" in made(lambda y, i, j, **_: Hamming((y[i], y[j]), where=i < j))
    assert "a condition is for variables at positions" in made(lambda y, i, **_: Hamming(y, where=i < 2))
    assert "node_weights must be one number at positions, such as a[t], with indices of y[i], got x[j]" in made(
        lambda y, i, j, x, **_: Hamming(y[i], node_weights=x[j])
    )
    assert "such as a[t], with indices of y[i], got m[i]" in made(lambda y, i, m, **_: Hamming(y[i], node_weights=m[i]))
    assert "a pointer occurs only with .is_(position)" in made(lambda h, i, **_: Hamming(h[i]))
    assert "positions are for a function" in made(lambda y, i, **_: Cost(y[i], np.ones((3, 3)) - np.eye(3), i))
    assert "a function is for variables at positions" in made(lambda y, **_: Cost(y, far))
    assert "far asks for w, after 1 true and as many predicted classes, and 1 positions inputs by name" in made(
        lambda y, i, **_: Cost(y[i], far, i)
    )
    assert "positions of the pattern's own indices" in made(lambda y, i, j, **_: Cost(y[i], negative, j))
    assert "the variables of one label" in made(lambda y, i, **_: Hamming([(y[i],), (Label(3),)]))

    class Negative(Model):
        N = Dim()
        i = N.index()
        x = Input(N)
        y = Label(N, 3)
        own = Factor(y, features=x)
        loss = Cost(y[i], negative)

    with pytest.raises(DataError, match=r"Cost .*negative, example 1: expected finite prices, not negative and 0 at"):
        ground(Negative, [np.ones(2), np.ones(2)], [np.array([2, 2]), np.array([0, 1])])


# -- classes with converse ones: what stands at (j, i) is read in the other order ----------------------------------


BACK = np.array([1, 0, 2])


def later(a, b, i, j):
    return (a == "b") & (b == "s") & (i != 1)


def gap(true, found, i):
    return (true != found) * (1.0 + i) * (1.0 + 2.0 * (true == "a"))


class Orders(Model):
    """Factors, scores, rules and losses of a relation in both orders of its pairs."""

    N = Dim()
    i, j, k = N.index(3)
    x = Input(N, N, 2)
    s = Input(N, N, 3)
    r = Label(i, j, ["b", "a", "s"], symmetric={"b": "a"})
    own = Factor(r[i, j], features=x[i, j])
    tri = Factor((r[i, j], r[j, k]))
    given = Given(r[i, j], scores=s[i, j])
    first = Given(r[2, 0], scores=[0.5, 0.0, -0.5])
    never = Forbid((r[i, j], r[j, k]), [("a", "s")])
    late = Forbid((r[i, j], r[j, k]), later, i, j)
    some = Allow(r[1, 0], ["b", "s"])
    loss = Cost(r[i, j], gap, i) + Cost((r[i, j], r[i, k]), "boundary", where=j < k)


def relations(n):
    """All relations of n items, as full arrays of numbers of classes, -1 on the diagonal."""
    pairs = list(itertools.combinations(range(n), 2))
    for states in itertools.product(range(3), repeat=len(pairs)):
        full = np.full((n, n), -1)
        for (a, b), state in zip(pairs, states):
            full[a, b], full[b, a] = state, BACK[state]
        yield full


def score_of(r, x, s, w):
    """The score of a relation by its definition, -inf where it is ruled out."""
    n, names = len(r), "bas"
    if names[r[1, 0]] == "a":
        return -np.inf
    total = [0.5, 0.0, -0.5][r[2, 0]]
    for a, b in itertools.permutations(range(n), 2):
        total += w["own"][r[a, b]] @ x[a, b] + s[a, b, r[a, b]]
    for a, b, c in itertools.permutations(range(n), 3):
        one, other = names[r[a, b]], names[r[b, c]]
        if (one, other) == ("a", "s") or (one == "b" and other == "s" and a != 1):
            return -np.inf
        total += w["tri"][r[a, b], r[b, c]]
    return total


def test_what_stands_in_the_other_order_is_read_as_the_converse():
    rng = np.random.default_rng(0)
    for _ in range(5):
        w = {"own": rng.normal(size=(3, 2)), "tri": rng.normal(size=(3, 3))}
        x, s = rng.normal(size=(3, 3, 2)), rng.normal(size=(3, 3, 3))
        svm = StructuredSVM.from_weights(Orders, w)
        every = list(relations(3))
        scores = np.array([score_of(r, x, s, w) for r in every])
        best = int(scores.argmax())
        found = svm.predict([{"x": x, "s": s}])[0]
        assert np.array_equal(found.filled("?"), np.array(["b", "a", "s", "?"])[every[best]])
        assert svm.best_score([{"x": x, "s": s}])[0] == pytest.approx(scores[best])
        scored = Scorer(Orders)
        parts = {"own": [[w["own"][r] @ x[a, b] for r in range(3)] for a, b in itertools.permutations(range(3), 2)]}
        parts["tri"] = np.stack([w["tri"]] * 6)
        parts["given"] = [s[a, b] for a, b in itertools.permutations(range(3), 2)]
        answers = scored.answer({name: [np.array(value)] for name, value in parts.items()}, lengths=[3])
        assert answers.score[0] == pytest.approx(scores[best])


def test_losses_of_what_stands_in_the_other_order():
    rng, every, names = np.random.default_rng(1), list(relations(3)), np.array(["b", "a", "s", "?"])

    def loss(true, found):
        total = 0.0
        for a, b in itertools.permutations(range(3), 2):
            total += (true[a, b] != found[a, b]) * (1.0 + a) * (1.0 + 2.0 * (true[a, b] == 1))
        for a in range(3):
            b, c = (k for k in range(3) if k != a)
            total += abs(int(true[a, b] != true[a, c]) - int(found[a, b] != found[a, c]))
        return total

    fits = [r for r in every if score_of(r, np.zeros((3, 3, 2)), np.zeros((3, 3, 3)), ZERO) > -np.inf]
    for _ in range(5):
        true, found = fits[rng.integers(len(fits))], every[rng.integers(len(every))]
        x = {"x": rng.normal(size=(3, 3, 2)), "s": np.zeros((3, 3, 3))}
        grounded = ground(Orders, [x], [names[true]])
        labels = grounded.layout.encode([names[found]]).states
        assert grounded.loss.value(grounded.program, labels)[0] == pytest.approx(loss(true, found))
    broken = next(r for r in every if r[0, 1] == 0 and r[1, 2] == 2)
    with pytest.raises(DataError, match="does not rule out"):
        ground(Orders, [{"x": np.zeros((3, 3, 2)), "s": np.zeros((3, 3, 3))}], [names[broken]])


ZERO = {"own": np.zeros((3, 2)), "tri": np.zeros((3, 3))}


def test_a_scorer_takes_the_inputs_that_functions_of_rules_and_losses_ask_for():
    def near(a, b, i, j, w):
        return (a == b) & (w[i] == w[j])

    class Apart(Model):
        N = Dim()
        i, j = N.index(2)
        x = Input(N, 3)
        w = Input(N)
        y = Label(N, 3)
        own = Factor(y[i], features=x[i])
        apart = Forbid((y[i], y[j]), near, i, j, where=i < j)
        loss = Cost(y[i], far, i)

    rng, scorer = np.random.default_rng(0), Scorer(Apart)
    scores, w = rng.normal(size=(4, 3)), np.array([0.0, 1.0, 0.0, 1.0])
    true = [0, 0, 1, 1]

    def value(y):
        return sum(row[k] + abs(k - t) * (1 + h) for row, k, t, h in zip(scores, y, true, w))

    legal = [y for y in itertools.product(range(3), repeat=4) if y[0] != y[2] and y[1] != y[3]]
    found = scorer.answer({"own": [scores]}, data={"w": [w]}, truth=[true], augmented=True)
    assert found.score[0] == pytest.approx(max(map(value, legal)))
