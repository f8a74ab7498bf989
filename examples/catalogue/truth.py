"""Data of known truth for the models of the catalogue: random inputs, and the best labels under true weights."""

from collections import Counter

import numpy as np

from ssvm_dsl import Factor, StructuredSVM


def true_weights(model, given, rng):
    """Return weights by factor: those given, others drawn."""
    found = {}
    for name, symbol in vars(model).items():
        if isinstance(symbol, Factor) and symbol.tie is None:
            width = None if symbol.features is None else symbol.features.width
            drawn = rng.normal(size=symbol.weight_shape(width))
            found[name] = np.asarray(given.get(name, np.abs(drawn) if symbol.nonneg else drawn))
    return found


def examples(model, draw, weights, n_examples, n, rng):
    """Return (X, Y): inputs of n positions, and their best labels under the weights."""
    X = [draw(rng, n) for _ in range(n_examples)]
    return X, StructuredSVM.from_weights(model, weights).predict(X)


def commonest(Y_train, Y_test):
    """Return the share of right labels of Y_test where each gets the value that is commonest in Y_train."""
    counts, right, total = {}, 0, 0
    for name, value in (pair for y in Y_train for pair in values(y)):
        counts.setdefault(name, Counter())[value] += 1
    for name, value in (pair for y in Y_test for pair in values(y)):
        right, total = right + (value == counts[name].most_common(1)[0][0]), total + 1
    return right / total


def values(y):
    """Return (label, value) for each variable of a labelling; a tree is one value."""
    if not isinstance(y, dict):
        y = {"": y}
    return [(name, one) for name, array in y.items() for one in np.ma.compressed(np.ma.asarray(array)).tolist()]
