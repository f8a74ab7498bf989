"""Which labels of a set depend on each other: the pairs that are worth weights, on a graph of small treewidth.

The pairs are those of a tree of cliques that is grown as Prim grows a spanning tree.  It begins with the pair of the
largest mutual information; then each further label joins the ``width`` labels of a clique with which the sum of
its mutual information is largest.  With ``width=1`` that is the maximum spanning tree, which has the largest likelihood
of all trees (Chow and Liu 1968); with more it is a greedy k-tree (Karger and Srebro 2001), in which exact inference
takes a table of ``2 ** (width + 1)`` numbers for each label.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ssvm_dsl.array_types import F64, I64

#: Entries of all tables of all examples up to which a wider graph is taken: some seconds of sums in a fit.
BUDGET = 400_000

#: The largest width that is worth it: wider graphs predicted no better on the data of ``make bench ARGS=ready``.
WIDEST = 3


def width_for(n_examples: int, n_labels: int) -> int:
    """Return the width at which exact inference is still cheap: 1 to :data:`WIDEST`, 0 for a single label."""
    fits = [w for w in range(1, WIDEST + 1) if n_examples * n_labels * 2 ** (w + 1) <= BUDGET]
    return min(n_labels - 1, max(fits, default=1))


def mutual_information(Y: I64) -> F64:
    """Return the mutual information of each two labels, ``shape (k, k)``, 0 where chance explains it.

    In nats, of shares to which half an example of each kind is added.  Chance explains less than ``log(n) / (2 n)``,
    the penalty of the Bayesian information criterion for the one number that two binary labels depend by.

    Parameters
    ----------
    Y : ndarray of int64, shape (n, k)
        0 or 1; other values are not known: such an example does not count for the pair.
    """
    is_one, is_zero = (Y == 1).astype(np.float64), (Y == 0).astype(np.float64)
    counts = np.array([[a.T @ b for b in (is_zero, is_one)] for a in (is_zero, is_one)]) + 0.5
    n = counts.sum(axis=(0, 1))
    share = counts / n
    alone = share.sum(axis=1, keepdims=True) * share.sum(axis=0, keepdims=True)
    found: F64 = (share * np.log(share / alone)).sum(axis=(0, 1))
    np.fill_diagonal(found, 0.0)
    return np.where(found > np.log(n) / (2 * n), found, 0.0)


def strongest_pairs(information: F64, width: int) -> list[tuple[int, int]]:
    """Return pairs of labels, sorted, whose graph has at most the given treewidth.

    Parameters
    ----------
    information : ndarray of float64, shape (k, k)
        Symmetric; pairs of 0 are left out.
    width : int
        Treewidth of the graph; ``k - 1`` or more takes all pairs.
    """
    k = len(information)
    if width >= k - 1:
        return [pair for pair in combinations(range(k), 2) if information[pair] > 0]
    found: list[tuple[int, int]] = []
    first = int(information.max(axis=1).argmax())
    cliques: list[tuple[int, ...]] = [(first,)]
    gain, joined = information[:, first].copy(), np.zeros(k, dtype=np.int64)
    left = np.ones(k, dtype=bool)
    left[first] = False
    while left.any():
        label = int(np.where(left, gain, -1.0).argmax())
        clique = cliques[joined[label]]
        found += [(min(label, other), max(label, other)) for other in clique if information[label, other] > 0]
        left[label] = False
        whole = (*clique, label)
        new = [whole] if len(whole) <= width else list(combinations(whole, width))
        for one in new:
            sums = information[:, one].sum(axis=1)
            better = sums > gain
            gain[better], joined[better] = sums[better], len(cliques)
            cliques.append(one)
    return sorted(found)
