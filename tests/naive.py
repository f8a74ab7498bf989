"""Slow references, written from the definitions with plain loops; they share no code with the package.

``naive_score`` walks over the scopes of every factor template of a declaration and adds up
``w[unit, form, feature] * feature`` with the weights in the shapes users see.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from math import prod

import numpy as np

from ssvm_dsl import Dim, Edges, Input, Positions
from ssvm_dsl.ir.analysis.tolerance import Terms
from ssvm_dsl.lang.dims import Index


def sizes_of(declaration, inputs, labels=None):
    """Axis sizes of one example, read off its inputs."""
    sizes = {dim.name: dim.size for dim in declaration.dims if dim.size}
    for symbol in declaration.inputs:
        kind, value = type(symbol).__name__, inputs[symbol.name]
        if kind == "Input":
            shape = value.shape
            for axis, dim in enumerate(symbol.dims):
                sizes[dim.name] = shape[axis]
        elif kind == "Attributes":
            for dim in symbol.dims:
                sizes[dim.name] = len(value)
        else:
            sizes[symbol.dim.name] = len(value)
    return sizes


def positions(dims, sizes):
    return list(itertools.product(*(range(sizes[dim.name]) for dim in dims)))


def scopes(target, sizes, inputs):
    """Yield (list of (label name, position), coordinates by axis name of the feature position)."""
    y = target.labels[0]
    names = [dim.name for dim in y.dims]
    spots = positions(y.dims, sizes)
    at = lambda p: dict(zip(names, p))  # noqa: E731
    if target.kind in ("each", "indicator"):
        return [([(y.name, p)], at(p)) for p in spots]
    if target.kind == "pattern":
        return [found for part in range(len(target.groups)) for found in pattern_scopes(target, part, sizes, inputs)]
    raise AssertionError(target.kind)


def pattern_scopes(target, part, sizes, inputs):
    """The scopes of a pattern, found by looking at each combination of positions of its indices."""
    group = target.groups[part]
    places = [place for one in group for place in one.places]
    indices = sorted({id(i): i for i in indices_in([*places, target.condition])}.values(), key=lambda i: i.number)
    out = []
    for spot in itertools.product(*(range(size_of(i.dim, sizes)) for i in indices)):
        at = dict(zip(map(id, indices), spot))
        if target.condition is not None and holds(target.condition, at, sizes, inputs) is not True:
            continue
        scope = []
        for one in group:
            places = [place_on(p, dim, at, sizes, inputs) for p, dim in zip(one.places, one.label.dims)]
            scope.append(None if None in places else (one.label.name, tuple(places)))
        if None in scope or len(set(scope)) < len(scope):
            continue
        word = target.word
        where = {} if word is None or not word.axes else {
            dim.name: place_on(p, dim, at, sizes, inputs) for p, dim in zip(word.at[part], word.axes)
        }
        out.append((scope, where))
    return out


def size_of(dim, sizes):
    return dim.size or sizes[dim.origin.name]


def indices_in(node):
    """The indices in an expression."""
    if isinstance(node, Index):
        return [node]
    if isinstance(node, tuple | list):
        return [i for one in node for i in indices_in(one)]
    return [] if isinstance(node, Dim | Input | Edges | Positions) or not hasattr(node, "arguments") else [
        i for one in node.arguments()[0] for i in indices_in(one)
    ]


def place_on(place, dim, at, sizes, inputs):
    """A position on an axis, None where there is none."""
    n = size_of(dim, sizes)
    value = number(place, at, sizes, inputs)
    if isinstance(place, int) and place < 0:
        value += n
    return value if value is not None and 0 <= value < n else None


def number(node, at, sizes, inputs):
    """The value of a number at an assignment of indices, None where it is unknown."""
    name = type(node).__name__
    if isinstance(node, int | float):
        return node
    if isinstance(node, Index):
        return at[id(node)]
    if name == "OnAxis":
        return at[id(node.base)]
    if name == "Ring":
        return (at[id(node.base)] + node.by) % size_of(node.dim, sizes)
    if name == "FromEnd":
        value = size_of(node.base.dim, sizes) + node.by - at[id(node.base)]
        return value if value >= 0 else None
    if name == "Shift":
        base = number(node.base, at, sizes, inputs)
        return None if base is None else base + node.by
    if name == "Arithmetic":
        given = [number(one, at, sizes, inputs) for one in node.given]
        if None in given:
            return None
        if node.op == "abs":
            return abs(given[0])
        return {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "%": lambda a, b: a % b}[node.op](*given)
    source = node.source
    if name == "Read":
        if getattr(source, "values", None) is not None:
            k = number(node.places[0], at, sizes, inputs)
            value = None if k is None or not 0 <= k < len(source.values) else source.values[k]
        else:
            dims = (source.dim,) if isinstance(source, Edges) else source.dims
            places = [place_on(p, dim, at, sizes, inputs) for p, dim in zip(node.places, dims)]
            row = None if None in places else np.asarray(inputs[source.name])[tuple(places)]
            value = None if row is None else int(row[node.column] if isinstance(source, Edges) else row)
        return None if value is None or value < 0 else value
    places = [place_on(p, dim, at, sizes, inputs) for p, dim in zip(node.places, source.dims)]
    if None in places:
        return None
    return float(np.ravel(np.asarray(inputs[source.name])[tuple(places)])[node.column or 0])


def holds(node, at, sizes, inputs):
    """Whether a condition is true: True, False, or None where it is unknown."""
    name = type(node).__name__
    if name == "Joined":
        given = [holds(one, at, sizes, inputs) for one in node.given]
        if node.op == "not":
            return None if given[0] is None else not given[0]
        decides = node.op == "|"
        return decides if decides in given else None if None in given else not decides
    if name == "IsOne":
        value = number(node.number, at, sizes, inputs)
        return None if value is None else value == 1
    a, b = (None if one is None else number(one, at, sizes, inputs) for one in (node.left, node.right))
    if node.right is None:
        dims = node.left.source.dims or (node.left.places[0].axis,)
        if None in [place_on(p, dim, at, sizes, inputs) for p, dim in zip(node.left.places, dims)]:
            return None
        return (a is None) == (node.op == "==")
    if a is None or b is None:
        return None
    return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}[node.op]


def form_weights(factor, states, block_part):
    """Total form weight vector over features: sum_q basis[q, states] * part[q]; part has shape (*form, P)."""
    name, cards = factor.form.name, factor.target.cards
    if name == "full":
        return block_part[tuple(states)]
    if name == "potts":
        return block_part * float(len(set(states)) == 1)
    if name == "indicator":
        return block_part * float(states[0] == factor.target.label.index(factor.target.state))
    if name == "symmetric":
        pairs = list(itertools.combinations_with_replacement(range(cards[0]), 2))
        return block_part[pairs.index(tuple(sorted(states)))]
    if name == "antisymmetric":
        if states[0] == states[1]:
            return 0.0 * block_part[0]
        pairs = list(itertools.combinations(range(cards[0]), 2))
        sign = 1.0 if states[0] < states[1] else -1.0
        return sign * block_part[pairs.index(tuple(sorted(states)))]
    basis = np.array(factor.form.values).reshape(factor.form.shape)
    return sum(basis[(q, *states)] * block_part[q] for q in range(len(basis)))


def feature_vector(source, inputs, where, number, fitted, states):
    """Features of one factor, evaluated from the raw inputs."""
    if source is None:
        return np.ones(1)
    kind = type(source).__name__
    if kind == "Input":
        value = inputs[source.name]
        value = value.toarray() if hasattr(value, "toarray") else value
        if not source.dims and value.ndim == 2 and source.sparse:
            value = value[0]
        return np.asarray(value[tuple(where[dim.name] for dim in source.dims)], dtype=float).ravel()
    if kind == "Attributes":
        token = inputs[source.name][where[source.dims[0].name]] if source.dims else inputs[source.name]
        names = fitted[source.name]["names"]
        out = np.zeros(len(names))
        items = token.items() if isinstance(token, dict) else [(name, 1.0) for name in token]
        for name, value in items:
            if name in names:
                out[names.index(name)] += value
        return out
    if kind == "Concat":
        return np.concatenate([feature_vector(p, inputs, where, number, fitted, states) for p in source.parts])
    if kind == "Feature":
        table = np.asarray(call(source.ref, inputs), dtype=float)
        if source.target is not None:
            return table.reshape(-1, source.width)[number]
        shape = table.shape[: len(source.dims)]
        return table.reshape(*shape, source.width)[tuple(where[dim.name] for dim in source.dims)]
    if kind == "JointFeature":
        return np.asarray(call(source.ref, inputs), dtype=float)[(number, *states)]
    if kind == "Polynomial":
        x = feature_vector(source.source, inputs, where, number, fitted, states)
        picks = [
            c for d in range(1, source.degree + 1) for c in itertools.combinations_with_replacement(range(len(x)), d)
        ]
        return np.array([prod(x[list(c)]) for c in picks])
    if kind == "Standardized":
        x = feature_vector(source.source, inputs, where, number, fitted, states)
        state = fitted[repr(source) if not source.name else source.name]
        return (x - state["mean"]) / state["scale"]
    if kind == "PLiF":
        x = feature_vector(source.source, inputs, where, number, fitted, states)
        learnt = None if source.knots else fitted[repr(source) if not source.name else source.name]["knots"]
        knots = [source.knots] * len(x) if learnt is None else learnt
        return np.concatenate([[np.interp(v, k, np.eye(len(k))[j]) for j in range(len(k))] for v, k in zip(x, knots)])
    raise AssertionError(kind)


def call(ref, inputs):
    wanted = ref.arguments()
    return ref.function(**(inputs if wanted is None else {name: inputs[name] for name in wanted}))


def naive_score(declaration, blocks, inputs, labels, fitted):
    """w . Phi(x, y) of one example by explicit loops.

    ``blocks``: dict factor name -> weights in the shape users see; ``labels``: dict label name -> array of states.
    """
    sizes, total = sizes_of(declaration, inputs), 0.0
    for factor in declaration.factors:
        block = blocks[(factor.tie or factor).name]
        for number, (members, where) in enumerate(scopes(factor.target, sizes, inputs)):
            states = [int(np.asarray(labels[name])[p]) for name, p in members]
            part = block[number] if factor.per == "edge" else block[tuple(where[dim.name] for dim in factor.per)]
            x = feature_vector(factor.features, inputs, where, number, fitted, states)
            if factor.features is None:
                part = np.asarray(part)[..., None]
            weights = part if factor.joint else form_weights(factor, states, part)
            total += float(np.dot(np.ravel(weights), x))
    return total


def observed_pairs(declaration, inputs, labels, fitted, shapes, ignored):
    """Which weights are of a feature and a (joint) state that occur together; all of them for other factors.

    Lists with an entry for each example; ``shapes`` are those of all weights: states, then features.
    """
    seen = {name: np.zeros(shape, dtype=bool) for name, shape in shapes.items()}
    for factor in declaration.factors:
        if factor.weights == "all":
            seen[(factor.tie or factor).name][...] = True
            continue
        for one, truth, unknown in zip(inputs, labels, ignored):
            for number, (members, where) in enumerate(scopes(factor.target, sizes_of(declaration, one), one)):
                if not any(unknown[name][p] for name, p in members):
                    states = tuple(int(np.asarray(truth[name])[p]) for name, p in members)
                    x = feature_vector(factor.features, one, where, number, fitted, states)
                    seen[factor.name][states] |= x != 0
    return seen


def whole_shapes(grounded):
    """Shapes of the weights of all pairs of a feature and a state, by factor: what ``naive_score`` takes."""
    shapes = {}
    for block in grounded.program.blocks:
        factor = grounded.declaration.find(block.name)
        if factor.weights == "all":
            shapes[block.name] = block.shape
        else:
            shapes[block.name] = (*factor.target.cards, len(grounded.fitted[block.name]["ptr"]) - 1)
    return shapes


def whole_blocks(grounded, w):
    """Weights of all pairs from those of a model; pairs without a weight have zero."""
    blocks = {}
    for block, shape in zip(grounded.program.blocks, whole_shapes(grounded).values()):
        blocks[block.name] = block.view(w)
        if block.name in grounded.fitted:
            ptr, state = grounded.fitted[block.name]["ptr"], grounded.fitted[block.name]["state"]
            blocks[block.name], of_pairs = np.zeros((prod(shape[:-1]), shape[-1])), block.view(w)
            for p in range(shape[-1]):
                for k in range(ptr[p], ptr[p + 1]):
                    blocks[block.name][state[k], p] = of_pairs[k]
        blocks[block.name] = blocks[block.name].reshape(shape)
    return blocks


def all_labellings(cards):
    rows = list(itertools.product(*(range(c) for c in cards)))
    return np.array(rows, dtype=np.int32).reshape(prod(cards), len(cards))


# -- learning: the objective and its optimum over all labellings -------------------------------------------


@lru_cache(maxsize=8)
def unit_vectors(shapes):
    """The unit vector of every weight, by factor."""
    unit, at, eye = {}, 0, np.eye(sum(prod(shape) for _, shape in shapes))
    for name, shape in shapes:
        unit[name] = eye[at : at + prod(shape)].reshape(*shape, -1)
        at += prod(shape)
    return unit


def joint_features(declaration, inputs, labels, fitted, shapes, ignored=None, known=None):
    """Phi(x, y), by giving every weight of ``naive_score`` a unit vector; factors on ignored variables are left out.

    ``shapes``: dict factor name -> shape users see, in the order of the weights.  ``known``: dict that keeps the part
    of each factor in each joint state, for other labellings of the same example.
    """
    known = {} if known is None else known
    unit = unit_vectors(tuple(shapes.items()))
    sizes, total = sizes_of(declaration, inputs), np.zeros(sum(map(prod, shapes.values())))
    for factor in declaration.factors:
        block = unit[(factor.tie or factor).name]
        for number, (members, where) in enumerate(scopes(factor.target, sizes, inputs)):
            if ignored is not None and any(ignored[name][p] for name, p in members):
                continue
            states = [int(np.asarray(labels[name])[p]) for name, p in members]
            key = (factor.name, number, *states)
            if key in known:
                total += known[key]
                continue
            part = block[number] if factor.per == "edge" else block[tuple(where[dim.name] for dim in factor.per)]
            part = part[..., None, :] if factor.features is None else part
            x = feature_vector(factor.features, inputs, where, number, fitted, states)
            known[key] = x @ (part if factor.joint else form_weights(factor, states, part))
            total += known[key]
    return total


def naive_loss(loss, truth, labels, ignored=None, declaration=None, inputs=None):
    """Loss of a labelling (dicts of states by label name), variable by variable from the definitions.

    Prices of joint states need the declaration and the inputs, which tell the scopes.
    """
    total = 0.0
    for weight, term in loss.terms:
        kind = type(term).__name__
        if kind == "ZeroOne":
            total += weight * any((np.asarray(truth[y.name]) != labels[y.name]).any() for y in term.labels)
        if kind == "CountLoss":
            total += weight * naive_count_loss(term, truth, labels, ignored)
        if kind not in ("Hamming", "Cost"):
            continue
        if kind == "Cost" and term.of_factors:
            total += weight * naive_joint_cost(term, truth, labels, ignored, declaration, inputs)
            continue
        right, given = np.atleast_1d(truth[term.label.name]).ravel(), np.atleast_1d(labels[term.label.name]).ravel()
        skip = np.zeros(len(right), bool) if ignored is None else np.atleast_1d(ignored[term.label.name]).ravel()
        prices = [
            term.prices()[a, b] if kind == "Cost" else (a != b) * (term.weights[a] if term.weights else 1.0)
            for a, b, out in zip(right, given, skip)
            if not out
        ]
        total += weight * sum(prices) / (max(len(prices), 1) if term.normalize else 1)
    return total


def naive_joint_cost(term, truth, labels, ignored, declaration, inputs):
    """Sum of the prices of the joint states of all scopes that are known, with the weights of scopes."""
    total = size = 0.0
    for members, where in scopes(term.target, sizes_of(declaration, inputs), inputs):
        if ignored is not None and any(ignored[name][p] for name, p in members):
            continue
        right, found = ([int(np.asarray(of[name])[p]) for name, p in members] for of in (truth, labels))
        given = term.node_weights
        scale = 1.0 if given is None else inputs[given.name][tuple(where[dim.name] for dim in given.dims)]
        index = [np.ravel_multi_index(states, term.target.cards) for states in (right, found)]
        total, size = total + scale * term.prices()[*index], size + scale
    return total / (size or 1.0) if term.normalize else total


def naive_count_loss(term, truth, labels, ignored=None):
    """A function of counts from the confusion table of each positive class."""
    y = term.label
    skip = np.zeros(np.shape(truth[y.name]), bool) if ignored is None else np.asarray(ignored[y.name])
    tp = fp = fn = tn = 0
    for name in term.positive:
        c = name if y.classes is None else y.classes.index(name)
        for a, b, out in zip(np.ravel(truth[y.name]), np.ravel(labels[y.name]), np.ravel(skip)):
            if not out:
                tp += a == c and b == c
                fp += a != c and b == c
                fn += a == c and b != c
                tn += a != c and b != c
    if tp + fp + fn == 0:
        return 0.0
    if term.measure == "iou":
        return 1 - tp / (tp + fp + fn)
    if term.measure in ("f1", "f_beta"):
        beta = 1.0 if term.beta is None else term.beta
        precision, recall = tp / max(tp + fp, 1), tp / max(tp + fn, 1)
        return 1 - (1 + beta**2) * precision * recall / max(beta**2 * precision + recall, 1e-300)
    return float(term.measure.function(*(np.array([count]) for count in (tp, fp, fn, tn)))[0])


def all_planes(declaration, inputs, truth, fitted, shapes, ignored=None):
    """(losses, psi) of every labelling of one example: ``risk(w) = max_y losses[y] - psi[y] . w``."""
    names = [y.name for y in declaration.labels]
    spots = [(name, p) for name in names for p in np.ndindex(np.shape(truth[name]))]
    cards = [declaration.find(name).n_states if ignored is None or not ignored[name][p] else 1 for name, p in spots]
    known = {}
    of_truth = joint_features(declaration, inputs, truth, fitted, shapes, ignored, known)
    losses, psi = [], []
    for states in all_labellings(cards):
        labels = {name: np.array(truth[name]) for name in names}
        for (name, p), state in zip(spots, states):
            labels[name][p] = state
        losses.append(naive_loss(declaration.loss, truth, labels, ignored, declaration, inputs))
        psi.append(of_truth - joint_features(declaration, inputs, labels, fitted, shapes, ignored, known))
    return np.array(losses), np.array(psi)


def proved(problem, solution):
    """Return which answers of a backend by itself (no host has looked at its scores) are optimal."""
    return Terms.of(problem.program, problem.theta).closed(solution.best, solution.bound) & (solution.primal == 0)
