"""Factor graphs as networkx graphs, and back.

A *factor graph* has a node for each variable and for each factor of two or more variables, and an edge for each
variable of a factor.  Attributes say the rest; ``kind`` is on every node:

===========  ==================================================================================================
variable     ``scores``, one for each state (unary factors are summed into them); ``n_states``; for models ``label``,
             ``position`` on the label's axes, ``classes``, and ``unary``: templates of unary factors, with weights
factor       ``scope``: its variables, in the order of the axes of ``table``; ``factor``: the template it comes from,
             for models with its ``weights``, such as ``w[26, 26]``, and ``at``, such as ``t = 3``
the graph    ``const``, a constant score
===========  ==================================================================================================

A graph of variables alone, with tables on its edges, is the short form for factors of two variables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.calls import checked_call
from ssvm_dsl.compiler.features.weight_names import weight_names
from ssvm_dsl.compiler.ground import Grounded
from ssvm_dsl.compiler.rules import instance_words
from ssvm_dsl.compiler.variable_names import instances_of, variable_name
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.ir.graph_problem import FactorList, GraphProblem, assemble
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.lang.arrays import NotNumbers, as_floats, real_array
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.patterns.pattern import Pattern
from ssvm_dsl.lang.symbols import show

if TYPE_CHECKING:
    from networkx import Graph, MultiGraph


VARIABLE, FACTOR = "variable", "factor"


@checked_call
def to_networkx(
    model: type[Model] | Grounded | GraphProblem, example: int = 0, coef: ArrayLike | None = None
) -> Graph | MultiGraph:
    """Return the graph of a model, or the factor graph of one example.

    Parameters
    ----------
    model : Model class, Grounded or GraphProblem
        Of a model class the graph shows labels and factor templates, with an edge for each variable of a factor that
        the label represents.  ``ground(MyModel, X)`` and problems that were read give the factor graph of one example.
    example : int
        Which example.
    coef : array_like, shape (n_weights,), optional
        Weights, e.g. ``svm.coef_`` (of a grounded model): the graph then has scores.

    Returns
    -------
    networkx.MultiGraph or Graph
        Of a model class: nodes by the names of labels (``kind="variable"``, ``n_states``, ``classes``, ``axes``) and
        factors (``kind="factor"``, ``target``, ``features``, ``form``, ``shape``, the text ``weights``, and
        ``weight_names``: names along each axis of the weights, ``None`` where training decides on them).
        Of an example: see :mod:`ssvm_dsl.io.networkx_graph`.  :func:`from_networkx` reads graphs with scores.

    Raises
    ------
    OptionError
        No such example, or weights for something that has none.
    """
    if isinstance(model, type) and issubclass(model, Model):
        if coef is not None:
            raise OptionError("coef: weights give an example scores; pass ground(model, X) in place of the model class")
        return _model_graph(model.declaration)
    if isinstance(model, GraphProblem):
        if coef is not None:
            raise OptionError("coef: a problem that was read has scores and no weights")
        if model.program.constraints:
            kinds = ", ".join(group.kind for group in model.program.constraints)
            raise OptionError(f"{model.source}: a graph has tables only, found the hard rules {kinds}")
        i = _only(model.program.n_examples, example)
        variables = range(*model.program.var_ptr[i : i + 2].tolist())
        names = [model.name(v) for v in variables]
        keys: list[Hashable] = list(names) if len(set(names)) == len(names) else list(variables)
        return _factor_graph(model.program, i, keys, [{} for _ in keys], model.theta)
    if not isinstance(model, Grounded):
        raise OptionError(f"expected a Model class, ground(model, X) or a problem, got {type(model).__name__}")
    i = _only(model.n_examples, example)
    keys, attributes = _positions(model, i)
    theta = None if coef is None else model.parameters.scores(_weights(model, coef), np.array([i]))
    graph = _factor_graph(model.program, i, keys, attributes, theta)
    factors = model.declaration.factors
    weights = {part.name: factor.weight_text for factor in factors for part in factor.parts}
    where = _places_of_factors(model, i)
    for key, node in graph.nodes(data=True):
        if node["kind"] == FACTOR:
            node["weights"] = weights.get(node["factor"], "no weights")
            node["at"] = where.get(key, "")
    return graph


def _places_of_factors(grounded: Grounded, i: int) -> dict[Hashable, str]:
    """Return the values of index variables, ``"t = 3"``, of the factors of patterns that have some, by node."""
    found: dict[Hashable, str] = {}
    declaration = grounded.declaration
    for one in (*declaration.factors, *declaration.rules, *declaration.given):
        if isinstance(one.target, Pattern):
            rows = [part for part in instances_of(grounded.layout, one.target, i) if part is not None]
            words = [instance_words(one.target.free, part, k) for part in rows for k in range(len(part))]
            found |= {(one.name, number): text for number, text in enumerate(words)}
    return found


def _only(n: int, example: int) -> int:
    if not isinstance(example, int | np.integer) or not 0 <= example < n:
        raise OptionError(f"example: expected 0 to {n - 1}, got {example!r}")
    return int(example)


def _weights(grounded: Grounded, coef: ArrayLike) -> F64:
    try:
        w = as_floats(real_array(coef))
    except NotNumbers as err:
        raise OptionError(f"coef: expected {grounded.parameters.dim} weights, got {err.found}") from None
    if w.shape != (grounded.parameters.dim,):
        raise OptionError(f"coef: expected {grounded.parameters.dim} weights, got shape {w.shape}")
    return w


# -- the graph of a model ------------------------------------------------------------------------------------


def _model_graph(declaration: Declaration) -> MultiGraph:
    import networkx

    graph = networkx.MultiGraph(name=declaration.name)
    for label in declaration.own_labels:
        axes = tuple(dim.name for dim in label.dims)
        graph.add_node(label.name, kind=VARIABLE, n_states=label.n_states, classes=label.classes, axes=axes)
    for factor in declaration.factors:
        graph.add_node(factor.name, kind=FACTOR, **_of_factor(factor, declaration))
        labels = factor.target.labels
        for label in labels if len(labels) == factor.target.arity else labels * factor.target.arity:
            graph.add_edge(factor.name, label.name)
    return graph


def _of_factor(factor: Factor, declaration: Declaration) -> dict[str, Any]:
    """Return the attributes of a factor template."""
    width = None if factor.features is None else factor.features.width
    known = not declaration.fitted
    return {
        "target": show(factor.target),
        "features": "" if factor.features is None else show(factor.features),
        "form": factor.form.name,
        "shape": factor.weight_shape(width),
        "weights": factor.weight_text,
        "weight_names": weight_names(factor, declaration, {}).axes if known else None,
    }


# -- the factor graph of an example --------------------------------------------------------------------------


def _positions(grounded: Grounded, i: int) -> tuple[list[Hashable], list[dict[str, Any]]]:
    """Return (name, attributes) of each variable of an example: ``y[3]`` for position 3 of the label y."""
    keys: list[Hashable] = []
    attributes = []
    parts = [(part, factor) for factor in grounded.declaration.factors for part in factor.parts]
    unaries = [(part.target.label.name, factor) for part, factor in parts if part.target.arity == 1]
    for label in grounded.declaration.labels:
        unary = {one.name: one.weight_text for name, one in unaries if name == label.name}
        first = int(grounded.layout.start(label)[i])
        for number in range(int(grounded.layout.count(label)[i])):
            place = grounded.layout.place(label, i, number)
            keys.append(variable_name(grounded.layout, first + number))
            more = {"label": label.name, "position": place, "classes": label.classes, "unary": unary}
            attributes.append(more)
    return keys, attributes


def _factor_graph(
    program: Program, i: int, keys: list[Hashable], attributes: list[dict[str, Any]], theta: Theta | None
) -> Graph:
    """Return the factor graph of an example; nodes are named by ``keys``, factors by (group, number)."""
    import networkx

    graph = networkx.Graph()
    first, last = (int(v) for v in program.var_ptr[i : i + 2])
    for key, v, more in zip(keys, range(first, last), attributes, strict=True):
        states = slice(int(program.state_ptr[v]), int(program.state_ptr[v + 1]))
        allowed = None if program.allowed is None else program.allowed[states]
        graph.add_node(key, kind=VARIABLE, n_states=int(program.card[v]), **more)
        if theta is not None:
            scores = theta.node[states].copy()
            graph.nodes[key]["scores"] = scores if allowed is None else np.where(allowed, scores, -np.inf)
        elif allowed is not None:
            graph.nodes[key]["allowed"] = allowed.copy()
    if theta is not None:
        graph.graph["const"] = float(theta.const[i])
    so_far = Counter[str]()  # several groups may have the name of one template
    for g, group in enumerate(program.groups):
        for variables, row in zip(*group.factors(i), strict=True):
            number = so_far[group.name]
            so_far[group.name] += 1
            scope = tuple(keys[v] for v in variables.tolist())
            node = (group.name, number)
            graph.add_node(node, kind=FACTOR, factor=group.name, scope=scope)
            if theta is not None:
                graph.nodes[node]["table"] = theta.tables[g][row].reshape(group.cards).copy()
            graph.add_edges_from((node, key) for key in scope)
    return graph


# -- and back ------------------------------------------------------------------------------------------------


@checked_call
def from_networkx(graph: Any, scores: str = "scores", table: str = "table") -> GraphProblem:
    """Return the problem of a networkx graph, scores to be maximised.

    Parameters
    ----------
    graph : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
        Its nodes are the variables, in the order of ``graph.nodes``; those with the attribute ``kind="factor"`` are
        factors of any number of variables, as :func:`to_networkx` writes them.
    scores : str
        The node attribute with one score for each state; ``-inf`` forbids a state.
    table : str
        The attribute of an edge between two variables with a table of scores: a row for each state of one end, a
        column for each of the other.  Rows belong to the tail of a directed edge, and to the end that comes first in
        ``graph.nodes`` of an undirected one.  Factor nodes have it, too, with an axis for each variable of their
        ``scope``.

    Returns
    -------
    GraphProblem

    Raises
    ------
    DataError
        An attribute is missing, has the wrong shape, or holds nan or +inf; an edge joins a node with itself.
    """
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "graph", "is_directed")):
        raise DataError("graph", expected="a graph of networkx", found=f"{graph!r}")
    nodes = [node for node, kind in graph.nodes(data="kind") if kind != FACTOR]
    number = {node: k for k, node in enumerate(nodes)}
    unary = [_array(graph.nodes[node], scores, f"node {node!r}", 1) for node in nodes]
    card = np.array([len(one) for one in unary], dtype=np.int64)
    factors = FactorList()
    const = graph.graph.get("const", 0.0)
    if const:
        factors.add(np.zeros(0, np.int64), _array({"const": [const]}, "const", "graph", 1))
    for k, one in enumerate(unary):
        factors.add(np.array([k]), one)
    for node, attributes in graph.nodes(data=True):
        if node not in number:
            _add_factor(factors, number, card, f"node {node!r}", attributes, table)
    for tail, head, attributes in graph.edges(data=True):
        if tail in number and head in number:
            _add_edge(factors, number, card, (tail, head), attributes, table, graph.is_directed())
    return assemble(card, factors.flat(), "networkx graph", names=tuple(map(str, nodes)))


def _add_factor(
    factors: FactorList, number: dict[Any, int], card: I64, what: str, attributes: dict[str, Any], table: str
) -> None:
    """Add the factor of a node."""
    scope = attributes.get("scope", ())
    strange = [node for node in scope if node not in number]
    if not len(scope) or strange or len(set(scope)) != len(scope):
        found = f"{strange[0]!r}" if strange else f"{scope!r}"
        raise DataError(what, expected="attribute 'scope': different nodes that are variables", found=found)
    variables = np.array([number[node] for node in scope], dtype=np.int64)
    factors.add(variables, _table(attributes, table, what, card[variables]))


def _add_edge(
    factors: FactorList, number: dict[Any, int], card: I64, ends: tuple[Any, Any],
    attributes: dict[str, Any], table: str, directed: bool,
) -> None:  # fmt: skip
    """Add the factor of an edge between two variables."""
    what, variables = f"edge {ends!r}", np.array([number[node] for node in ends])
    if ends[0] == ends[1]:
        raise DataError(what, expected="two different nodes", found="an edge from a node to itself")
    ordered = variables if directed else np.sort(variables)
    factors.add(ordered, _table(attributes, table, what, card[ordered]))


def _table(attributes: dict[str, Any], key: str, what: str, cards: I64) -> F64:
    """Return an attribute as the table of a factor."""
    values, shape = _array(attributes, key, what, len(cards)), tuple(cards.tolist())
    if values.shape != shape:
        raise DataError(what, expected=f"attribute '{key}' of shape {shape}", found=f"shape {values.shape}")
    return values


def _array(attributes: dict[str, Any], key: str, what: str, n_axes: int) -> F64:
    """Return an attribute as an array of scores."""
    if key not in attributes:
        raise DataError(what, expected=f"attribute '{key}'", found=f"{', '.join(map(repr, attributes)) or 'none'}")
    try:
        values = np.array(attributes[key], dtype=np.float64)
    except (TypeError, ValueError) as err:
        raise DataError(what, expected=f"attribute '{key}' of numbers", found=str(err)) from err
    if values.ndim != n_axes or values.size == 0:
        raise DataError(what, expected=f"attribute '{key}' with {n_axes} axes", found=f"shape {values.shape}")
    if np.isnan(values).any() or (values == np.inf).any():
        raise DataError(what, expected=f"attribute '{key}' of numbers or -inf", found="nan or +inf")
    return values
