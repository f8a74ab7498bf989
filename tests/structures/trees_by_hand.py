"""Every directed tree over a few words, from the definition."""

from __future__ import annotations

import itertools

import numpy as np


def is_tree(heads, single):
    """Whether heads (of words 1..n; entry 0 unused) lead to the root from every word."""
    for d in range(1, len(heads)):
        seen, v = set(), d
        while v != 0:
            if v in seen:
                return False
            seen.add(v)
            v = heads[v]
    return not single or len(heads) == 1 or list(heads[1:]).count(0) == 1


def is_projective(heads):
    """Whether no two arcs cross."""
    arcs = [(min(h, d), max(h, d)) for d, h in enumerate(heads) if d]
    return not any(a < c < b < e for a, b in arcs for c, e in arcs)


def all_trees(n, single, projective=False):
    """The heads of every tree over n words."""
    for heads in itertools.product(*([h for h in range(n + 1) if h != d] for d in range(1, n + 1))):
        tree = (-1, *heads)
        if is_tree(tree, single) and (not projective or is_projective(tree)):
            yield tree


def tree_score(w, heads):
    """The score of a tree; ``w[h, d]``."""
    return sum(w[h, d] for d, h in enumerate(heads) if d)


def log_sum(values):
    top = max(values, default=-np.inf)
    return top if top == -np.inf else top + np.log(sum(np.exp(v - top) for v in values))


def sums(w, trees):
    """(log partition, probability of each arc) by adding up all trees."""
    scores = [tree_score(w, heads) for heads in trees]
    log_z, probability = log_sum(scores), np.zeros_like(w)
    for heads, score in zip(trees, scores):
        for d, h in enumerate(heads):
            if d and score > -np.inf:
                probability[h, d] += np.exp(score - log_z)
    return log_z, probability
