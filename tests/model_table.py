"""The models that tests share, with data of any size and all their labellings.

* Makers such as ``tagger(width, states)`` return the model of a kind, the same class for the same arguments.
* ``TEMPLATES`` are small models that have every kind of factor between them.
* ``STRUCTURES`` has a model of every structure, by name; ``STRUCTURES["chain"].data(n_examples, size, seed)`` are
  examples of any size, ``labellings(x)`` all that keep the structure, which ``keeps`` judges from users' labels alone.
* ``make_data(model, n, seed)`` are random examples of any model of plain labels.

A test that is about a declaration writes its own class; a test that only needs some model of a kind takes one of these.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import networkx
import numpy as np
from scipy.sparse import csr_array, issparse

from naive import sizes_of
from ssvm_dsl import (
    ANTISYMMETRIC,
    POTTS,
    SYMMETRIC,
    AllDifferent,
    Arborescence,
    AtMost,
    Attributes,
    Circuit,
    Dim,
    Edges,
    Exactly,
    Factor,
    Feature,
    Forbid,
    Grammar,
    Hamming,
    Hashed,
    Input,
    JointFeature,
    Label,
    Latent,
    Linear,
    Matching,
    Model,
    ParseTree,
    Path,
    PLiF,
    Polynomial,
    ProjectiveTree,
    Quantiles,
    Standardized,
    StructuredSVM,
    Whitened,
    along,
    chain,
    cliques,
    complete,
    cross,
    grid,
    leaves,
    pairs,
    rules,
    siblings,
)


@cache
def tagger(width, states, normalize=False, **step):
    """A chain whose positions have ``width`` features; ``step`` are options of the factor of its steps."""

    class Tagger(Model):
        T = Dim()
        x = Input(T, width)
        y = Label(T, states)
        emit = Factor(y, features=x)
        trans = Factor(chain(y), **step)
        loss = Hamming(y, normalize=normalize)

    return Tagger


@cache
def token_tagger(states, weights="all"):
    """A chain whose positions have named attributes."""

    class TokenTagger(Model):
        T = Dim()
        words = Attributes(T)
        y = Label(T, states)
        emit = Factor(y, features=words, weights=weights)
        trans = Factor(chain(y))
        loss = Hamming(y)

    return TokenTagger


@cache
def few_tagger(width, states, most):
    """A chain with at most ``most`` positions in state 1."""

    class FewTagger(tagger(width, states)):
        few = AtMost(most, tagger(width, states).y.is_(1))

    return FewTagger


@cache
def independent(width, states):
    """Positions without factors between them."""

    class Independent(Model):
        T = Dim()
        x = Input(T, width)
        y = Label(T, states)
        emit = Factor(y, features=x)
        loss = Hamming(y)

    return Independent


@cache
def few(width, states, most):
    """Independent positions, at most ``most`` of them in state 1."""

    class Few(independent(width, states)):
        few = AtMost(most, independent(width, states).y.is_(1))

    return Few


@cache
def classifier(width, states):
    """One label with ``width`` features."""

    class Classifier(Model):
        x = Input(width)
        y = Label(states)
        emit = Factor(y, features=x)
        loss = Hamming(y)

    return Classifier


@cache
def complete_labels(n_labels, width, states):
    """A fixed number of labels, a table for each pair of them."""

    class CompleteLabels(Model):
        K = Dim(n_labels)
        x = Input(width)
        y = Label(K, states)
        unary = Factor(y, features=x, per=K)
        pair = Factor(complete(y), per="edge")
        loss = Hamming(y)

    return CompleteLabels


@cache
def complete_graph(width, states):
    """A ragged set of labels, all pairs of which share one table."""

    class CompleteGraph(Model):
        T = Dim()
        x = Input(T, width)
        y = Label(T, states)
        emit = Factor(y, features=x)
        pair = Factor(complete(y))
        loss = Hamming(y)

    return CompleteGraph


@cache
def graph(width, states, edge_width=None, **form):
    """Nodes, and edges that come with the examples, with features if ``edge_width`` is given.

    ``form`` are options of the factor of the edges.
    """

    class Graph(Model):
        N, M = Dim(), Dim()
        x = Input(N, width)
        e = Edges(M, over=N)
        y = Label(N, states)
        node = Factor(y, features=x)
        loss = Hamming(y)
        if edge_width is None:
            edge = Factor(along(y, e), **form)
        else:
            f = Input(M, edge_width)
            edge = Factor(along(y, e), features=f, **form)

    return Graph


@cache
def matching(width):
    """Links between rows and columns, at most one for each."""

    class Links(Model):
        I, J = Dim(), Dim()
        x = Input(I, J, width)
        y = Label(I, J, 2)
        sim = Factor(y.is_(1), features=x)
        one = Matching(y.is_(1), rows=I, cols=J)
        loss = Hamming(y)

    return Links


@cache
def diagonal_matching(width):
    """Links that are worth more beside a link of the next row and column."""
    links = matching(width)

    class Diagonals(links):
        both = Factor(pairs(links.y, links.I, links.J), form=[[[0, 0], [0, 1]]])

    return Diagonals


@cache
def heads(width, structure=Arborescence, **options):
    """Trees of heads among tokens, with features of arcs."""

    class Heads(Model):
        T = Dim()
        x = Input(T, T, width)
        head = Label(T, over=T, null=True)
        arc = Factor(head, features=x)
        tree = structure(head, **options)
        loss = Hamming(head)

    return Heads


@cache
def rooted_heads(width, structure=Arborescence, **options):
    """Trees of heads, with features of arcs and of roots."""

    class RootedHeads(Model):
        T = Dim()
        x = Input(T, T, width)
        r = Input(T, width)
        head = Label(T, over=T, null=True)
        arc = Factor(head, features=x)
        root = Factor(head.is_(None), features=r)
        tree = structure(head, **options)
        loss = Hamming(head)

    return RootedHeads


@cache
def roads(width, structure, **ends):
    """A path or a circuit of edges that come with the examples."""

    class Roads(Model):
        N, M = Dim(), Dim()
        z = Input(N, 1)
        e = Edges(M, over=N)
        f = Input(M, width)
        y = Label(M, 2)
        cost = Factor(y.is_(1), features=f)
        way = structure(y.is_(1), e, **ends)
        loss = Hamming(y)

    return Roads


@cache
def picture(width, states):
    """Pixels that like their neighbours' state."""

    class Picture(Model):
        H, W = Dim(), Dim()
        x = Input(H, W, width)
        y = Label(H, W, states)
        own = Factor(y, features=x)
        same = Factor(grid(y), form=POTTS, nonneg=True)
        loss = Hamming(y)

    return Picture


@cache
def hidden_chain(width, hidden, states):
    """One label of a chain of latent states."""

    class HiddenChain(Model):
        T = Dim()
        x = Input(T, width)
        h = Latent(T, hidden)
        y = Label(states)
        emit = Factor(h, features=x)
        joint = Factor(cross(h, y))
        trans = Factor(chain(h))
        loss = Hamming(y)

    return HiddenChain


@cache
def segmenter(width, states, longest):
    """Segments of at most ``longest`` positions."""

    class Segments(Model):
        T = Dim()
        x = Input(T, width)
        y = Label(T, states, segments=longest)
        emit = Factor(y, features=x)
        trans = Factor(chain(y))
        loss = Hamming(y)

    return Segments


# -- models of every kind of factor --


def square(x):
    return np.asarray(x, dtype=float) ** 2


def contrast(x):
    return np.abs(np.diff(np.asarray(x, dtype=float), axis=1)).sum(axis=2).reshape(-1, 1)


def joint_chain(x):
    t = len(x)
    rng = np.random.default_rng(int(abs(np.sum(x)) * 1000) % 2**31)
    return rng.standard_normal((max(t - 1, 0), 3, 3, 2))


class Word(Model):
    T = Dim()
    x = Input(T, 4)
    y = Label(T, "abc")
    emit = Factor(y, features=x)
    bias = Factor(y)
    trans = Factor(chain(y))
    loss = Hamming(y)


class Rich(Model):
    """Features on transitions, forms, ties, second order, per-example features."""

    T = Dim()
    x = Input(T, 3)
    z = Input(2)
    y = Label(T, 3)
    emit = Factor(y, features=[x, Feature(square, T, width=3)])
    glob = Factor(y, features=z)
    one = Factor(y.is_(2), features=x)
    step = Factor(chain(y), features=x)
    agree = Factor(chain(y), form=POTTS, nonneg=True)
    sym = Factor(chain(y), form=SYMMETRIC, features=z)
    anti = Factor(chain(y), form=ANTISYMMETRIC)
    far = Factor(chain(y, order=2), form=POTTS)
    joint = Factor(chain(y), features=JointFeature(joint_chain, width=2))
    own = Factor(chain(y), form=np.arange(18.0).reshape(2, 3, 3) / 10)
    tied = Factor(chain(y), form=SYMMETRIC, features=z, tie=sym)
    loss = Hamming(y)


class Seg(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 2)
    y = Label(H, W, 3)
    data = Factor(y, features=x)
    horiz = Factor(pairs(y, W), form=POTTS, nonneg=True)
    vert = Factor(pairs(y, H), features=x)
    edge = Factor(pairs(y, W), features=Feature(contrast, pairs(y, W), width=1))
    net = Factor(grid(y))
    slant = Factor(pairs(y, H, W), features=x)
    loss = Hamming(y, ignore=255)


class Scene(Model):
    K = Dim(4)
    x = Input(5)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    plain = Factor(y, per=K)
    pair = Factor(complete(y), per="edge")
    mood = Factor(complete(y), per="edge", features=x, form=POTTS)
    triple = Factor(cliques(y, [(0, 1, 2), (3, 2, 1)]), per="edge")
    loss = Hamming(y)


class Graph(Model):
    N, M = Dim(), Dim()
    x = Input(N, 3)
    e = Edges(M, over=N)
    f = Input(M, 2)
    y = Label(N, 4)
    node = Factor(y, features=x)
    edge = Factor(along(y, e), features=f)
    loss = Hamming(y)


class Hyper(Model):
    """Edges between two labels, hyperedges of three positions, and edges of both."""

    N, K, M, E, D = Dim(), Dim(), Dim(), Dim(), Dim()
    x = Input(N, 2)
    z = Input(K, 2)
    e = Edges(M, over=(N, K))
    h = Edges(E, over=N, arity=3)
    d = Edges(D, over=[N, K, K])
    f = Input(M, 2)
    y = Label(N, 2)
    t = Label(K, "abc")
    node = Factor(y, features=x)
    tail = Factor(t, features=z)
    link = Factor(along((y, t), e), features=f)
    triple = Factor(along(y, h), form=POTTS)
    both = Factor(along((y, t, t), d))
    loss = Hamming(y) + Hamming(t)


class Layers(Model):
    """Two label layers, cross edges with and without shared axes, a third single label."""

    T = Dim()
    x = Input(T, 3)
    a = Label(T, 2)
    b = Label(T, ["u", "v", "w"])
    c = Label(2)
    ax = Factor(a, features=x)
    bx = Factor(b, features=x)
    ab = Factor(cross(a, b))
    bc = Factor(cross(b, c), features=x)
    aa = Factor(chain(a))
    loss = Hamming(a) + 0.5 * Hamming(b, normalize=True) + Hamming(c)


class Tokens(Model):
    T = Dim()
    t = Attributes(T)
    y = Label(T, 3)
    emit = Factor(y, features=t)
    step = Factor(chain(y), features=t)
    only = Factor(y.is_(0), features=t)
    loss = Hamming(y)


class Observed(Model):
    """Weights for pairs that occur in the training data; joint states that do not fit in one word of bits."""

    T = Dim()
    t, u = Attributes(T), Attributes(T)
    s = Input(T, 6, sparse=True)
    y = Label(T, "abcdefghi")
    emit = Factor(y, features=t, weights="observed")
    both = Factor(y, features=[t, s, u], weights="observed", nonneg=True)
    step = Factor(chain(y), features=[u, s], weights="observed")
    trans = Factor(chain(y))
    loss = Hamming(y)


class Sparse(Model):
    T, K = Dim(), Dim(3)
    s = Input(T, 6, sparse=True)
    x = Input(T, 2)
    g = Input(4, sparse=True)
    y = Label(T, 3)
    z = Label(K, 2)
    emit = Factor(y, features=[s, x])
    step = Factor(chain(y), features=s)
    zg = Factor(z, features=g, per=K)
    loss = Hamming(y)


class Fitted(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 2)
    p = PLiF(x, Quantiles(4))
    emit = Factor(y, features=p)
    poly = Factor(y, features=Polynomial(Standardized(x), 2))
    fixed = Factor(y, features=PLiF(x, [-1.0, 0.0, 2.0]))
    loss = Hamming(y)


class White(Model):
    T = Dim()
    x = Input(T, 3)
    t = Attributes(T)
    y = Label(T, 2)
    emit = Factor(y, features=Whitened(x))
    hashed = Factor(y, features=Hashed(t, 16))
    loss = Hamming(y)


def make_inputs(model, rng, ragged=(1, 2, 4)):
    """One random example of a model."""
    declaration = model.declaration
    sizes = {dim.name: dim.size or int(rng.choice(ragged)) for dim in declaration.dims}
    edges = {}
    for symbol in declaration.inputs:
        if type(symbol).__name__ == "Edges":
            spots = np.ndindex(*(sizes[dim.name] for dim in symbol.ends))
            apart = declaration.apart(symbol)
            every = [row for row in spots if all([row[k] for k in a] != [row[k] for k in b] for a, b in apart)]
            m = min(len(every), int(rng.integers(0, 5)))
            picked = rng.permutation(len(every))[:m]
            edges[symbol.name] = np.array([every[k] for k in picked], dtype=int).reshape(-1, symbol.arity)
            sizes[symbol.dim.name] = m
    out = {}
    for symbol in declaration.inputs:
        kind = type(symbol).__name__
        if kind == "Edges":
            out[symbol.name] = edges[symbol.name]
        elif kind == "Attributes":
            out[symbol.name] = [
                {f"n{rng.integers(5)}": float(rng.normal()) for _ in range(2)}
                if rng.random() < 0.5
                else [f"n{rng.integers(5)}", "bias"]
                for _ in range(sizes[symbol.dims[0].name])
            ]
        elif symbol.sparse:
            rows = sizes[symbol.dims[0].name] if symbol.dims else 1
            dense = rng.normal(size=(rows, symbol.width)) * (rng.random((rows, symbol.width)) < 0.5)
            out[symbol.name] = csr_array(dense)
        else:
            out[symbol.name] = rng.normal(size=(*(sizes[d.name] for d in symbol.dims), *symbol.shape))
    return out, sizes


def make_labels(model, rng, sizes):
    """Random labels of one example, as states."""
    return {
        label.name: rng.integers(0, label.n_states, size=tuple(sizes[d.name] for d in label.dims))
        for label in model.declaration.labels
    }


def user_labels(model, labels):
    """States to the users' class names, in the form fit takes."""
    named = {}
    for label in model.declaration.labels:
        states = labels[label.name]
        names = states if label.classes is None else np.array(label.classes)[states]
        named[label.name] = names if np.ndim(names) else names.item()
    return named if len(named) > 1 else next(iter(named.values()))


def user_inputs(model, inputs):
    return inputs if len(inputs) > 1 else next(iter(inputs.values()))


def densely(weights):
    """The weights of a factor as an array."""
    return weights.toarray() if issparse(weights) else weights


def make_data(model, n, seed, ragged=(1, 2, 4)):
    """n random examples: X, Y as users pass them, and the inputs and states by name."""
    rng = np.random.default_rng(seed)
    inputs, labels = [], []
    for _ in range(n):
        one, sizes = make_inputs(model, rng, ragged)
        inputs.append(one)
        labels.append(make_labels(model, rng, sizes))
    X = [user_inputs(model, one) for one in inputs]
    Y = [user_labels(model, one) for one in labels]
    return X, Y, inputs, labels


TEMPLATES = [Word, Rich, Seg, Scene, Graph, Hyper, Layers, Tokens, Observed, Sparse, Fitted, White]


@dataclass(frozen=True)
class Structure:
    """A structure in any size.

    Parameters
    ----------
    model : Model class
    example : callable
        Makes (inputs, labels that keep the structure) of a size and a generator.
    keeps : callable
        Whether labels of some inputs keep the structure.
    sizes : tuple of int
        Tiny, one that fits, and ten times that.
    hard : bool
        Whether finding any labelling is a hard question.
    """

    model: type[Model]
    example: Callable[[int, np.random.Generator], tuple[Any, Any]]
    keeps: Callable[[Any, Any], bool]
    sizes: tuple[int, int, int]
    hard: bool = False

    def data(self, n_examples: int, size: int | None = None, seed: int = 0) -> tuple[list[Any], list[Any]]:
        """Return (X, Y) of a size, tiny where none is given."""
        rng = np.random.default_rng(seed)
        made = [self.example(self.sizes[0] if size is None else size, rng) for _ in range(n_examples)]
        return [x for x, _ in made], [y for _, y in made]

    def labellings(self, x: Any) -> Iterator[Any]:
        """Yield every labelling of an example that keeps the structure, as users write them."""
        (label,) = (one for one in self.model.declaration.labels if type(one) is Label)
        inputs = x if isinstance(x, dict) else {self.model.declaration.inputs[0].name: x}
        sizes = sizes_of(self.model.declaration, inputs)
        yield from (y for y in _candidates(label, sizes) if self.keeps(x, y))


def _candidates(label: Label, sizes: dict[str, int]) -> Iterator[Any]:
    """Yield all labels of some sizes, whether they keep a structure or not."""
    shape = tuple(sizes[dim.name] for dim in (label.dims[:-1] if label.pointer else label.dims))
    if label.grammar is not None:
        (start,) = label.grammar.start
        yield from map(ParseTree.of, _derivations(label.grammar, start, shape[0]))
    elif label.segments is not None:
        yield from _divisions(0, shape[0], label.segments, label.classes)
    else:
        pointed = label.pointer and range(-label.null, sizes[label.over.name])
        states = pointed or label.classes or range(label.n_states)
        for values in itertools.product(states, repeat=int(np.prod(shape))):
            yield np.array(values, dtype=None if values else int).reshape(shape) if shape else values[0]


def _divisions(start: int, n: int, longest: int, classes: Any) -> Iterator[Any]:
    """Yield the segmentations from a position on."""
    if start == n:
        yield []
    for stop, c in itertools.product(range(start + 1, min(start + longest, n) + 1), classes):
        yield from ([(start, stop, c), *rest] for rest in _divisions(stop, n, longest, classes))


def _derivations(grammar: Grammar, symbol: str, n: int) -> Iterator[str]:
    """Yield the trees of a symbol over so many words, in brackets; rules have two symbols."""
    if n == 1 and symbol in grammar.tags:
        yield f"({symbol} w)"
    for k, (_, right) in itertools.product(range(1, n), (rule for rule in grammar.rules if rule[0] == symbol)):
        one, other = (list(_derivations(grammar, part, m)) for part, m in zip(right, (k, n - k)))
        yield from (f"({symbol} {a} {b})" for a, b in itertools.product(one, other))


def anything(x, y):
    return True


class Tagged(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, ["O", "B", "I", "J"])
    own = Factor(y, features=x)
    next = Factor(chain(y))
    legal = Forbid(chain(y), [("O", "I"), ("O", "J"), ("J", "B"), ("I", "J")])
    begin = Forbid(y.at(0), ["I", "J"])
    loss = Hamming(y)


def legal_tags(x, y):
    never = {("O", "I"), ("O", "J"), ("J", "B"), ("I", "J")}
    return not (len(y) and y[0] in "IJ") and not any(pair in never for pair in itertools.pairwise(y))


class Grid(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 3)
    y = Label(H, W, 5)
    own = Factor(y, features=x)
    edge = Factor(grid(y))
    loss = Hamming(y)


class Budget(Model):
    K = Dim()
    x = Input(K, 3)
    b = Input(1)
    y = Label(K, 2)
    own = Factor(y, features=x)
    pair = Factor(complete(y))
    most = Exactly(b, y.is_(1))
    loss = Hamming(y)


class Assigned(Model):
    I, J = Dim(), Dim()
    x = Input(I, J, 2)
    y = Label(I, J, 2)
    sim = Factor(y.is_(1), features=x)
    one = Matching(y.is_(1), rows=I, cols=J, perfect=True)
    loss = Hamming(y)


class Both(matching(2)):
    most = AtMost(3, matching(2).y.is_(1))


def matched(most=None, perfect=False, limit=None):
    def keeps(x, y):
        rows, cols = y.sum(axis=1), y.sum(axis=0)
        right = rows.max(initial=0) <= 1 and cols.max(initial=0) <= 1
        right = right and (not perfect or (rows.min(initial=1) == 1 and cols.min(initial=1) == 1))
        return bool(right and (limit is None or y.sum() <= limit))

    return keeps


class Permutation(Model):
    T = Dim()
    x = Input(T, T, 2)
    y = Label(T, over=T)
    own = Factor(y, features=x)
    all = AllDifferent(y)
    loss = Hamming(y)


Heads = rooted_heads(2, single_root=True)


class Siblings(Heads):
    both = Factor(siblings(Heads.head))


def arcs_of(y):
    graph = networkx.DiGraph([(int(head) + 1, d + 1) for d, head in enumerate(y)])
    graph.add_node(0)
    return graph


def a_tree(x, y):
    graph = arcs_of(y)
    return len(graph) == len(y) + 1 and (len(y) == 0 or networkx.is_arborescence(graph))


def one_root(x, y):
    return a_tree(x, y) and int((np.asarray(y) == -1).sum()) == min(1, len(y))


def nested(x, y):
    ends = sorted((min(h + 1, d + 1), max(h + 1, d + 1)) for d, h in enumerate(np.asarray(y).tolist()))
    stack: list[int] = []
    for lo, hi in sorted(ends, key=lambda one: (one[0], -one[1])):
        while stack and stack[-1] <= lo:
            stack.pop()
        if stack and stack[-1] < hi:
            return False
        stack.append(hi)
    return a_tree(x, y)


def divided(x, y):
    ends = [0, *(stop for _, stop, _ in y)]
    return all(lo == start < stop <= lo + 6 for lo, (start, stop, _) in zip(ends, y)) and ends[-1] == len(x)


def route(x, y):
    graph = networkx.DiGraph(x["e"][np.asarray(y) == 1].tolist())
    source, target = 0, len(x["z"]) - 1
    if source == target:
        return not y.any()
    simple = all(graph.out_degree(v) <= 1 and graph.in_degree(v) <= 1 for v in graph)
    ends = source in graph and target in graph and graph.in_degree(source) == 0 and graph.out_degree(target) == 0
    return simple and ends and networkx.is_weakly_connected(graph)


def circuit(every):
    def keeps(x, y):
        graph = networkx.DiGraph(x["e"][np.asarray(y) == 1].tolist())
        simple = len(graph) > 1 and all(graph.out_degree(v) == graph.in_degree(v) == 1 for v in graph)
        return simple and networkx.is_weakly_connected(graph) and (not every or len(graph) == len(x["z"]))

    return keeps


class Rows(Model):
    K, R = Dim(), Dim()
    x = Input(K, 3)
    a = Input(K)
    y = Label(K, 2)
    own = Factor(y, features=x)
    most = Linear({y.is_(1): a}, "<=", 10.0)
    least = Linear({y.is_(1): a}, ">=", 2.0)
    some = AtMost(9, y.is_(1))
    loss = Hamming(y)


def rows(x, y):
    total = float(np.dot(x["a"], y))
    return 2.0 - 1e-6 <= total <= 10.0 + 1e-6 and y.sum() <= 9


#: Every symbol divides into any two of symbols and tags.
ANY = Grammar.from_trees(
    [
        ParseTree.of(f"(S ({top} {one} {other}) (N w))")
        for top in "AB"
        for one in ("(A (N w) (N w))", "(B (V w) (V w))", "(N w)", "(V w)")
        for other in ("(A (N w) (V w))", "(B (V w) (N w))", "(N w)", "(V w)")
    ]
)


class Parsed(Model):
    T = Dim()
    x = Input(T, 3)
    y = Label(T, grammar=ANY)
    leaf = Factor(leaves(y), features=x)
    rule = Factor(rules(y))
    loss = Hamming(y)


def derived(x, y):
    def right(tree):
        inner = tree.trees
        return all(one.label in "ABNV" and right(one) for one in inner) and len(inner) in (0, 2)

    return len(y.words) == len(x) and y.label == "S" and right(y) and y.trees[1].label == "N"


def _parsed(n, rng):
    def tree(n):
        if n == 1:
            return f"({rng.choice(['N', 'V'])} w)"
        k = 1 if rng.random() < 0.2 else n // 2  # not deep
        return f"({rng.choice(['A', 'B'])} {tree(k)} {tree(n - k)})"

    return rng.normal(size=(n, 3)), ParseTree.of(f"(S {tree(n - 1)} (N w))")


def plain(states):
    def example(n, rng):
        return rng.normal(size=(n, 3)), rng.integers(states, size=n)

    return example


def _tags(n, rng):
    return rng.normal(size=(n, 3)), np.array(["O"] * n)


def _few(n, rng):
    return rng.normal(size=(n, 3)), 2 * rng.integers(2, size=n)


def _tree(n, rng):
    edges = [(int(rng.integers(max(0, v - 20), v)), v) for v in range(1, n)]
    return {"x": rng.normal(size=(n, 3)), "e": np.array(edges, np.int32).reshape(-1, 2)}, rng.integers(4, size=n)


def _grid(n, rng):
    return rng.normal(size=(n, n, 3)), rng.integers(5, size=(n, n))


def _budget(n, rng):
    y = np.zeros(n, int)
    y[: max(1, n // 5)] = 1
    return {"x": rng.normal(size=(n, 3)), "b": np.array([y.sum()])}, y


def _matrix(n, rng):
    return rng.normal(size=(n, n, 2)), np.eye(n, dtype=int)


def _some(n, rng):
    y = np.zeros((n, n), int)
    y[0, 0] = 1
    return rng.normal(size=(n, n, 2)), y


def _permutation(n, rng):
    return rng.normal(size=(n, n, 2)), rng.permutation(n)


def _heads(n, rng):
    return {"x": rng.normal(size=(n, n, 2)), "r": rng.normal(size=(n, 2))}, np.arange(n) - 1


def _segments(n, rng):
    return rng.normal(size=(n, 3)), np.array(["O", "A", "B"])[rng.integers(3, size=n)].tolist()


def _onwards(n, rng):
    pairs = {(v, v + 1) for v in range(n - 1)}
    pairs |= {(int(u), int(min(n - 1, u + rng.integers(1, 10)))) for u in rng.integers(0, n - 1, 4 * n)}
    edges = np.array(sorted(pair for pair in pairs if pair[0] != pair[1]), np.int32)
    y = (edges[:, 1] == edges[:, 0] + 1).astype(int)
    return {"z": np.zeros((n, 1)), "e": edges, "f": rng.normal(size=(len(edges), 2))}, y


def _both_ways(n, rng):
    edges = np.array([(u, v) for u in range(n) for v in range(n) if u != v], np.int32)
    y = (edges[:, 1] == (edges[:, 0] + 1) % n).astype(int)
    return {"z": np.zeros((n, 1)), "e": edges, "f": rng.normal(size=(len(edges), 2))}, y


def _weights(n, rng):
    a = np.round(rng.uniform(0.5, 3.0, n), 1)
    y = np.zeros(n, int)
    y[:2] = 1
    a[:2] = 2.0
    return {"x": rng.normal(size=(n, 3)), "a": a}, y


def _parts(n, rng):
    return rng.normal(size=(n, 3)), int(rng.integers(3))


def _labels(size, rng):
    return rng.normal(size=20), rng.integers(2, size=40)


STRUCTURES = {
    "labels": Structure(complete_labels(40, 20, 2), _labels, anything, (40, 40, 40)),
    "chain": Structure(tagger(3, 5), plain(5), anything, (2, 2000, 20000)),
    "tags": Structure(Tagged, _tags, legal_tags, (2, 2000, 20000)),
    "few": Structure(few_tagger(3, 5, 3), _few, lambda x, y: (y == 1).sum() <= 3, (4, 1000, 20000)),
    "tree": Structure(graph(3, 4), _tree, anything, (3, 2000, 20000)),
    "grid": Structure(Grid, _grid, anything, (2, 25, 250)),
    "complete": Structure(complete_graph(3, 5), plain(5), anything, (3, 10, 60)),
    "many": Structure(complete_graph(3, 2), plain(2), anything, (3, 20, 100)),
    "budget": Structure(Budget, _budget, lambda x, y: y.sum() == x["b"][0], (3, 20, 150)),
    "matching": Structure(matching(2), _matrix, matched(), (2, 40, 300)),
    "assigned": Structure(Assigned, _matrix, matched(perfect=True), (2, 40, 300)),
    "diagonal": Structure(diagonal_matching(2), _matrix, matched(), (2, 8, 60)),
    "both": Structure(Both, _some, matched(limit=3), (2, 20, 150)),
    "permutation": Structure(Permutation, _permutation, lambda x, y: sorted(y) == list(range(len(y))), (2, 40, 300)),
    "arborescence": Structure(Heads, _heads, one_root, (2, 30, 250)),
    "siblings": Structure(Siblings, _heads, one_root, (2, 12, 80)),
    "projective": Structure(rooted_heads(2, ProjectiveTree), _heads, nested, (2, 20, 150)),
    "segments": Structure(segmenter(3, "OAB", 6), _segments, divided, (3, 500, 5000)),
    "path": Structure(roads(2, Path, source=0, target=-1), _onwards, route, (3, 200, 3000)),
    "circuit": Structure(roads(2, Circuit), _both_ways, circuit(every=False), (3, 12, 60)),
    "tour": Structure(roads(2, Circuit, all_nodes=True), _both_ways, circuit(every=True), (3, 10, 60), hard=True),
    "rows": Structure(Rows, _weights, rows, (3, 50, 1000), hard=True),
    "parses": Structure(Parsed, _parsed, derived, (3, 30, 300)),
    "latent": Structure(hidden_chain(3, 4, 3), _parts, anything, (3, 100, 3000)),
}


def weighted(structure, rng, **options):
    """Return an estimator with random weights."""
    tiny = [structure.example(structure.sizes[0], rng) for _ in range(2)]
    svm = StructuredSVM(structure.model, max_passes=1, tol=1e9, random_state=0)
    if structure.model.declaration.latents:
        svm.set_params(latent_options={"rounds": 1})
    svm.fit([x for x, _ in tiny], [y for _, y in tiny])
    svm.coef_ = rng.normal(size=svm.coef_.shape)
    return svm.set_params(**options)
