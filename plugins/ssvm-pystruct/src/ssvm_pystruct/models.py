"""PyStruct's models, each a declaration.

A model knows three things: its declaration (``_declare``), how an example of PyStruct becomes one of the declaration
(``_example``), and where each weight of the declaration stands in PyStruct's ``w`` (``_places``).  All else follows:
potentials are the scores of the declared factors, joint features their adjoint, and learners train the declaration.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from ssvm_dsl import (
    Cost, Dim, Edges, Factor, Hamming, Input, Label, Model, ModelBuilder, StructuredSVM, along, chain,
    cliques, ground,
)  # fmt: skip
from ssvm_pystruct.inference import RELAXING, as_edges, backend_of, dispatch, is_forest, split_method
from ssvm_pystruct.utils import edge_list_to_features, make_grid_edges

F64 = NDArray[np.float64]


def _agreed(known: Any, found: int, what: str) -> int:
    """Return a number that data show; refuse another one than is given."""
    if known is not None and known != found:
        raise ValueError(f"expected {known} {what}, got {found}")
    return int(found)


class StructuredModel:
    """A declared model with PyStruct's methods.

    Subclasses of one's own, with ``joint_feature``, ``inference`` and ``loss`` in Python, are what
    :class:`ssvm_dsl.Model` replaces: declare them there.
    """

    class_weight: Any = None
    inference_method: Any = "max-product"
    rescale_C = False
    n_states: int | None = None
    inference_calls = 0
    negative: tuple[int, ...] | None = None
    _made: tuple[Any, Any] | None = None

    # -- what models define ----------------------------------------------------------------------------

    def _declare(self) -> type[Model]:
        raise NotImplementedError

    def _places(self) -> dict[str, NDArray[np.int64]]:
        """Return by factor where its weights stand in ``w``, in the shape that ``print(declaration)`` shows."""
        raise NotImplementedError

    def _example(self, x: Any) -> Any:
        return x

    def _sizes(self) -> tuple[Any, ...]:
        """Return the numbers that the declaration depends on; ``None`` where one is not known yet."""
        raise NotImplementedError

    # -- what follows ----------------------------------------------------------------------------------

    @property
    def declaration(self) -> type[Model]:
        """The model class of ssvm-dsl."""
        prices = None if self.class_weight is None else tuple(np.ravel(self.class_weight).tolist())
        key = self._sizes(), prices, self.negative
        if self._made is None or self._made[0] != key:
            if None in key[0]:
                raise ValueError("numbers of states or features are not known: call initialize(X, Y)")
            self._made = key, self._declare()
        return self._made[1]

    @property
    def size_joint_feature(self) -> int | None:
        """The number of weights; ``None`` before it is known."""
        return None if None in self._sizes() else sum(places.size for places in self._places().values())

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_made": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_states: {self.n_states}, inference_method: {self.inference_method})"

    def _check_size_w(self, w: Any) -> F64:
        array = np.asarray(w, dtype=np.float64)
        if array.shape != (self.size_joint_feature,):
            raise ValueError(f"expected w of shape ({self.size_joint_feature},), got {array.shape}")
        return array

    def _estimator(self, w: Any, **options: Any) -> StructuredSVM:
        """Return the declared model with weights."""
        w, options = self._check_size_w(w), {**backend_of(self.inference_method), **options}
        weights = {name: self._sign(name) * w[places] for name, places in self._places().items()}
        return StructuredSVM.from_weights(self.declaration, weights, **options)

    def _in_order(self, weights: Any) -> F64:
        """Return weights by factor in the order of ``w``."""
        w = np.zeros(self.size_joint_feature or 0)
        for name, places in self._places().items():
            w[places] = self._sign(name) * np.reshape(weights[name], places.shape)
        return w

    @staticmethod
    def _sign(name: str) -> float:
        """Return -1 for the factor whose weights are not to be positive in ``w``."""
        return -1.0 if name == "negative" else 1.0

    def _labels(self, x: Any, y: Any) -> Any:
        """Return labels as the declaration takes them."""
        return np.asarray(y)

    def _restored(self, x: Any, y: Any) -> Any:
        """Return labels of the declaration in PyStruct's form."""
        return y

    def _prices(self) -> list[float] | None:
        """Return the price of missing each class, ``None`` where all are 1."""
        return None if self.class_weight is None else np.asarray(self.class_weight, dtype=np.float64).tolist()

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return the weighed number of wrong labels; of marginals, its expectation."""
        if isinstance(y_hat, tuple):
            return self.continuous_loss(y, y_hat[0])
        y = np.asarray(y)
        price = 1.0 if self.class_weight is None else np.asarray(self.class_weight)[y]
        return float(np.sum(price * (y != np.asarray(y_hat))))

    def max_loss(self, y: Any) -> float:
        """Return the largest loss that there is for true labels."""
        return float(np.size(y) if self.class_weight is None else np.sum(np.asarray(self.class_weight)[y]))

    def continuous_loss(self, y: Any, y_hat: Any) -> float:
        """Return the expected loss of marginals of nodes."""
        y = np.ravel(y)
        price = 1.0 if self.class_weight is None else np.asarray(self.class_weight)[y]
        return float(np.sum(price * (1.0 - np.reshape(y_hat, (len(y), -1))[np.arange(len(y)), y])))

    def batch_loss(self, Y: Any, Y_hat: Any) -> Any:
        """Return the loss of each example."""
        return np.array([self.loss(y, y_hat) for y, y_hat in zip(Y, Y_hat, strict=True)])

    def joint_feature(self, x: Any, y: Any, y_true: Any = None) -> F64:
        """Return the joint feature map of labels, or of marginals ``(of nodes, of edges)``, in the order of ``w``."""
        scale = np.asarray(self.class_weight)[y_true] if self.rescale_C and self.class_weight is not None else 1.0
        return scale * self._joint_feature(x, y)

    def _joint_feature(self, x: Any, y: Any) -> F64:
        svm = self._estimator(np.zeros(self.size_joint_feature or 0))
        svm.coef_ = svm.joint_feature(self._example(x), self._labels(x, y))
        return self._in_order(svm.weights_)

    def batch_joint_feature(self, X: Any, Y: Any, Y_true: Any = None) -> F64:
        """Return the sum of the joint feature maps of examples."""
        truth = [None] * len(X) if Y_true is None else Y_true
        return np.sum([self.joint_feature(*one) for one in zip(X, Y, truth, strict=True)], axis=0)

    def batch_inference(self, X: Any, w: Any, relaxed: bool | None = None, constraints: Any = None) -> list[Any]:
        """Return the best labels of each example."""
        self.inference_calls += len(X)
        if relaxed or constraints:
            given = [None] * len(X) if constraints is None else constraints
            return [self.inference(x, w, relaxed=relaxed, constraints=c) for x, c in zip(X, given, strict=True)]
        found = self._estimator(w).predict([self._example(x) for x in X])
        return [self._restored(x, y) for x, y in zip(X, found, strict=True)]

    def inference(
        self, x: Any, w: Any, relaxed: bool | None = False, return_energy: bool = False, constraints: Any = None
    ) -> Any:
        """Return the best labels of one example; with ``return_energy`` also their score."""
        svm = self._estimator(w)
        found, scores, _ = svm.predict([self._example(x)], return_bounds=True)
        y = self._restored(x, found[0])
        return (y, float(scores[0])) if return_energy else y

    def loss_augmented_inference(
        self, x: Any, y: Any, w: Any, relaxed: bool | None = False, return_energy: bool = False
    ) -> Any:
        """Return the labels of most loss plus score; with ``return_energy`` also that sum."""
        svm, example, truth = self._estimator(w), self._example(x), self._labels(x, y)
        found = svm.loss_augmented(example, truth)
        y_hat = self._restored(x, found)
        worth = svm.loss(example, truth, found) + float(svm.best_score([example], [found])[0])
        return (y_hat, worth) if return_energy else y_hat

    def batch_loss_augmented_inference(self, X: Any, Y: Any, w: Any, relaxed: bool | None = None) -> list[Any]:
        """Return the labels of most loss plus score of each example."""
        return [self.loss_augmented_inference(x, y, w, relaxed=relaxed) for x, y in zip(X, Y, strict=True)]


class BinaryClf(StructuredModel):
    """A binary SVM, classes -1 and 1, without a bias; ``w . x`` is the difference of both scores."""

    def __init__(self, n_features: int | None = None) -> None:
        self.n_features, self.n_states = n_features, 2

    def initialize(self, X: Any, Y: Any) -> None:
        """Take the number of features from data."""
        self.n_features = _agreed(self.n_features, X.shape[1], "features")

    def _sizes(self) -> tuple[Any, ...]:
        return (self.n_features,)

    def _declare(self) -> type[Model]:
        class Binary(Model):
            x = Input(self.n_features)
            y = Label([1, -1])  # ties go to 1
            node = Factor(y, features=x, form=[[0.5, -0.5]])
            loss = Hamming(y)

        return Binary

    def _places(self) -> dict[str, Any]:
        return {"node": np.arange(self.n_features)[None]}

    def joint_feature(self, x: Any, y: Any, y_true: Any = None) -> F64:
        """Return ``y x / 2``."""
        if y not in (-1, 1):
            raise ValueError(f"y is -1 or 1, got {y!r}")
        return super().joint_feature(x, y)


class MultiClassClf(StructuredModel):
    """A multi-class SVM (Crammer and Singer), classes 0, 1, ..., without a bias.

    ``class_weight`` multiplies the loss, with ``rescale_C`` the whole risk of an example.
    """

    def __init__(
        self, n_features: int | None = None, n_classes: int | None = None, class_weight: Any = None,
        rescale_C: bool = False,
    ) -> None:  # fmt: skip
        self.n_features, self.n_states = n_features, n_classes
        self.class_weight, self.rescale_C = class_weight, rescale_C

    def initialize(self, X: Any, Y: Any) -> None:
        """Take the numbers of features and classes from data."""
        self.n_features = _agreed(self.n_features, X.shape[1], "features")
        self.n_states = _agreed(self.n_states, len(np.unique(Y)), "classes")

    def _sizes(self) -> tuple[Any, ...]:
        return self.n_states, self.n_features, self.rescale_C

    def _declare(self) -> type[Model]:
        class MultiClass(Model):
            x = Input(self.n_features)
            y = Label(self.n_states)
            node = Factor(y, features=x)
            loss = Hamming(y, weights=None if self.rescale_C else self._prices())

        return MultiClass

    def _places(self) -> dict[str, Any]:
        return {"node": np.arange(self.n_states * self.n_features).reshape(self.n_states, self.n_features)}


class CRF(StructuredModel):
    """What models of several nodes share: potentials, and inference by ``inference_method``."""

    def __init__(
        self, n_states: int | None = None, n_features: int | None = None, inference_method: Any = None,
        class_weight: Any = None,
    ) -> None:  # fmt: skip
        self.n_states, self.n_features, self.class_weight = n_states, n_features, class_weight
        self.inference_method = "ad3" if inference_method is None else inference_method

    def initialize(self, X: Any, Y: Any) -> None:
        """Take the numbers of features and states from data."""
        self.n_features = _agreed(self.n_features, self._get_features(X[0]).shape[1], "features")
        self.n_states = _agreed(self.n_states, len(np.unique(np.hstack([np.ravel(y) for y in Y]))), "states")

    def _sizes(self) -> tuple[Any, ...]:
        return self.n_states, self.n_features

    def _get_features(self, x: Any) -> F64:
        return x[0]

    def _get_edges(self, x: Any) -> NDArray[np.int64]:
        return as_edges(x[1])

    def _grounded(self, x: Any, y: Any = None) -> Any:
        return ground(self.declaration, [self._example(x)], None if y is None else [self._labels(x, y)])

    def _scored(self, x: Any, w: Any, y: Any = None) -> tuple[F64, Any]:
        """Return scores of the states of nodes, with the loss where labels are given, and of all groups of edges."""
        grounded = self._grounded(x, y)
        theta = grounded.parameters.scores(self._estimator(w).coef_)
        node = theta.node if y is None else theta.node + grounded.loss.node
        if grounded.program.allowed is not None:
            spread = np.ptp(node) * grounded.program.n_variables + sum(
                np.ptp(table) * group.n_factors
                for table, group in zip(theta.tables, grounded.program.groups, strict=True)
            )
            node = np.where(grounded.program.allowed, node, node.min() - spread - 1.0)
        return node, theta.tables

    def _get_unary_potentials(self, x: Any, w: Any) -> F64:
        return self._scored(x, w)[0].reshape(-1, self.n_states)

    def _get_pairwise_potentials(self, x: Any, w: Any) -> F64:
        """Return one table for all edges, or a table for each."""
        found, k = self._scored(x, w)[1], self.n_states
        tables = sum(found).reshape(-1, k, k) if found else np.zeros((0, k, k))
        return tables[0] if not self._edges_differ else tables

    _edges_differ = False  # in their scores

    def inference(
        self, x: Any, w: Any, relaxed: bool | None = False, return_energy: bool = False, constraints: Any = None
    ) -> Any:
        """Return the best labels of one example, or marginals; with ``return_energy`` also minus their score."""
        self.inference_calls += 1
        return self._solved(x, *self._scored(x, w), relaxed, return_energy, constraints)

    def loss_augmented_inference(
        self, x: Any, y: Any, w: Any, relaxed: bool | None = False, return_energy: bool = False
    ) -> Any:
        """Return the labels, or marginals, of most loss plus score; with ``return_energy`` also minus that sum."""
        self.inference_calls += 1
        return self._solved(x, *self._scored(x, w, y), relaxed, return_energy)

    def _solved(
        self, x: Any, node: F64, tables: Any, relaxed: Any, return_energy: bool, constraints: Any = None
    ) -> Any:
        edges, k = self._get_edges(x), self.n_states
        pairwise = sum(tables).reshape(-1, k, k) if tables else np.zeros((1, k, k))
        pairs = [(0, 0, edges, np.broadcast_to(pairwise, (len(edges), k, k)))]
        found, energy = dispatch([node.reshape(-1, k)], pairs, self.inference_method, bool(relaxed), constraints)
        y = (found[0][0], found[1][0]) if isinstance(found, tuple) else found[0]
        y = self._restored(x, y)
        return (y, energy) if return_energy else y

    def _joint_feature(self, x: Any, y: Any) -> F64:
        if not isinstance(y, tuple):
            return super()._joint_feature(x, y)
        grounded = self._grounded(x)
        theta = grounded.parameters.scores(np.zeros(grounded.parameters.dim))
        theta.node[:] = np.ravel(y[0])
        of_edges = np.reshape(y[1], (-1, self.n_states**2))
        for table in theta.tables:
            table[:] = of_edges if len(table) == len(of_edges) else of_edges.sum(axis=0)
        svm = self._estimator(np.zeros(self.size_joint_feature or 0))
        svm.coef_ = grounded.parameters.adjoint(theta)
        return self._in_order(svm.weights_)


class MultiLabelClf(CRF):
    """Several binary labels of one example, with weights for each pair of labels in ``edges``."""

    _edges_differ = True

    def __init__(
        self, n_labels: int | None = None, n_features: int | None = None, edges: Any = None,
        inference_method: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(2, n_features, inference_method)
        self.n_labels, self.edges = n_labels, as_edges(() if edges is None else edges)

    def initialize(self, X: Any, Y: Any) -> None:
        """Take the numbers of features and labels from data."""
        self.n_features = _agreed(self.n_features, X.shape[1], "features")
        self.n_labels = _agreed(self.n_labels, Y.shape[1], "labels")

    def _sizes(self) -> tuple[Any, ...]:
        return self.n_labels, self.n_features

    def _get_edges(self, x: Any) -> NDArray[np.int64]:
        return self.edges

    def _declare(self) -> type[Model]:
        class MultiLabel(Model):
            K = Dim(self.n_labels)
            x = Input(self.n_features)
            y = Label(K, 2)
            node = Factor(y, features=x, per=K, form=[[-1.0, 1.0]])
            pair = Factor(cliques(y, self.edges.tolist()), per="edge") if len(self.edges) else None
            loss = Hamming(y)

        return MultiLabel

    def _places(self) -> dict[str, Any]:
        n, m = self.n_labels * self.n_features, len(self.edges)
        pair = {"pair": n + np.arange(4 * m).reshape(m, 2, 2)} if m else {}
        return {"node": np.arange(n).reshape(self.n_labels, 1, self.n_features), **pair}


class GraphCRF(CRF):
    """Nodes with features, ``x = (features, edges)``; one table for all edges, symmetric unless ``directed``."""

    def __init__(
        self, n_states: int | None = None, n_features: int | None = None, inference_method: Any = None,
        class_weight: Any = None, directed: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(n_states, n_features, inference_method, class_weight)
        self.directed = directed

    def _example(self, x: Any) -> Any:
        return {"x": self._get_features(x), "edges": self._get_edges(x)}

    def _basis(self) -> NDArray[np.float64]:
        """Return the table that each weight of edges fills, in the order of ``w``."""
        k = self.n_states
        if self.directed:
            return np.eye(k * k).reshape(-1, k, k)
        rows, columns = np.tril_indices(k)  # the lower triangle, row by row
        one = np.zeros((len(rows), k, k))
        one[np.arange(len(rows)), rows, columns] = one[np.arange(len(rows)), columns, rows] = 1.0
        return one

    def _split(self) -> dict[str, NDArray[np.int64]]:
        """Return which weights of edges are free, and which are not to be positive (``negativity_constraint``)."""
        first, every = self._n_inputs() * self.n_features, np.arange(len(self._basis()))
        held = np.array([one - first for one in self.negative or ()], dtype=np.int64)
        if held.min(initial=0) < 0:
            raise ValueError("negativity_constraint is for weights of edges, which come after those of nodes")
        parts = {"pair": np.setdiff1d(every, held), "negative": held}
        return {name: part for name, part in parts.items() if len(part)}

    def _add_pairs(self, m: ModelBuilder, target: Any, M: Dim) -> None:
        basis = self._basis()
        for name, part in self._split().items():
            m.factor(name, target, form=self._sign(name) * basis[part], nonneg=name == "negative")

    def _loss(self, y: Label) -> Any:
        return Hamming(y, weights=self._prices())

    def _declare(self) -> type[Model]:
        m = ModelBuilder("Graph")
        N, M = m.dim("N"), m.dim("M")
        edges = m.add("edges", Edges(M, over=N))
        y = self._add_nodes(m, N)
        self._add_pairs(m, along(y, edges), M)
        m.add("loss", self._loss(y))
        return m.build()

    def _add_nodes(self, m: ModelBuilder, N: Dim) -> Label:
        x, y = m.input("x", N, self.n_features), m.label("y", N, self.n_states)
        m.factor("node", y, features=x)
        return y

    def _n_inputs(self) -> int:
        """Return the number of states that have weights of features."""
        return self.n_states

    def _places(self) -> dict[str, Any]:
        n = self._n_inputs() * self.n_features
        return {"node": np.arange(n).reshape(-1, self.n_features)} | {k: n + v for k, v in self._split().items()}

    def _labels(self, x: Any, y: Any) -> Any:
        return np.ravel(y)


class ChainCRF(GraphCRF):
    """A chain, ``x`` of shape (n, features); the table of neighbours is not symmetric unless ``directed=False``."""

    def __init__(
        self, n_states: int | None = None, n_features: int | None = None, inference_method: Any = None,
        class_weight: Any = None, directed: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(n_states, n_features, inference_method or "max-product", class_weight, directed)

    def _get_features(self, x: Any) -> F64:
        return np.asarray(x)

    def _get_edges(self, x: Any) -> NDArray[np.int64]:
        return np.c_[np.arange(len(x) - 1), np.arange(1, len(x))]

    def _example(self, x: Any) -> Any:
        return np.asarray(x)

    def _declare(self) -> type[Model]:
        m = ModelBuilder("Chain")
        T = m.dim("T")
        y = self._add_nodes(m, T)
        self._add_pairs(m, chain(y), T)
        m.add("loss", self._loss(y))
        return m.build()


class EdgeFeatureGraphCRF(GraphCRF):
    """``x = (features, edges, edge features)``; a table for each feature of edges, symmetric or antisymmetric ones too.

    A symmetric table has, as in PyStruct, a weight for each of its entries, and scores with the mean of both halves.
    """

    _edges_differ = True
    directed = True

    def __init__(
        self, n_states: int | None = None, n_features: int | None = None, n_edge_features: int | None = None,
        inference_method: Any = None, class_weight: Any = None, symmetric_edge_features: Any = None,
        antisymmetric_edge_features: Any = None,
    ) -> None:  # fmt: skip
        CRF.__init__(self, n_states, n_features, inference_method, class_weight)
        self.n_edge_features = n_edge_features
        self.symmetric_edge_features = list(symmetric_edge_features or ())
        self.antisymmetric_edge_features = list(antisymmetric_edge_features or ())
        if set(self.symmetric_edge_features) & set(self.antisymmetric_edge_features):
            raise ValueError("a feature of edges is symmetric or antisymmetric, not both")

    def initialize(self, X: Any, Y: Any) -> None:
        """Take the numbers of features and states from data."""
        self.n_edge_features = _agreed(self.n_edge_features, self._get_edge_features(X[0]).shape[1], "edge features")
        super().initialize(X, Y)

    def _sizes(self) -> tuple[Any, ...]:
        return *super()._sizes(), self.n_edge_features

    def _get_edge_features(self, x: Any) -> F64:
        return np.asarray(x[2], dtype=np.float64)

    def _columns(self) -> dict[str, list[int]]:
        """Return the features of edges by the form of their tables."""
        forms = {"symmetric": self.symmetric_edge_features, "antisymmetric": self.antisymmetric_edge_features}
        known = sum(forms.values(), [])
        if any(column >= self.n_edge_features for column in known):
            raise ValueError(f"features of edges are numbered from 0 to {self.n_edge_features - 1}, got {known}")
        forms["pair"] = [i for i in range(self.n_edge_features) if i not in known]
        return {name: columns for name, columns in forms.items() if columns}

    def _example(self, x: Any) -> Any:
        features = self._get_edge_features(x)
        return super()._example(x) | {f"f_{name}": features[:, columns] for name, columns in self._columns().items()}

    def _add_pairs(self, m: ModelBuilder, target: Any, M: Dim) -> None:
        if self.negative:
            raise ValueError("negativity_constraint: not for features of edges")
        k = self.n_states
        same = np.eye(k * k).reshape(-1, k, k)
        turned = same.transpose(0, 2, 1)
        forms = {"symmetric": {"form": (same + turned) / 2}, "antisymmetric": {"form": (same - turned) / 2}}
        for name, columns in self._columns().items():
            features = m.input(f"f_{name}", M, len(columns))
            m.factor(name, target, features=features, **forms.get(name, {}))

    def _places(self) -> dict[str, Any]:
        k, n = self.n_states, self._n_inputs() * self.n_features
        places = {"node": np.arange(n).reshape(-1, self.n_features)}
        for name, columns in self._columns().items():
            found = n + np.array(columns) * k * k + np.arange(k * k)[:, None]
            places[name] = found.reshape(k, k, -1) if name == "pair" else found
        return places


class GridCRF(GraphCRF):
    """A grid, ``x`` of shape (height, width, features); one symmetric table for all neighbours, 4 or 8 of them."""

    def __init__(
        self, n_states: int | None = None, n_features: int | None = None, inference_method: Any = None,
        neighborhood: int = 4,
    ) -> None:  # fmt: skip
        super().__init__(n_states, n_features, inference_method)
        self.neighborhood = neighborhood

    def _get_features(self, x: Any) -> F64:
        return np.reshape(x, (-1, np.shape(x)[-1]))

    def _get_edges(self, x: Any) -> NDArray[np.int64]:
        return make_grid_edges(x, self.neighborhood)

    def _restored(self, x: Any, y: Any) -> Any:
        height, width = np.shape(x)[:2]
        if isinstance(y, tuple):
            return np.reshape(y[0], (height, width, -1)), y[1]
        return np.reshape(y, (height, width))


class DirectionalGridCRF(GridCRF, EdgeFeatureGraphCRF):
    """A grid with a table for each direction: right, down, and with 8 neighbours both diagonals."""

    def __init__(
        self, n_states: int | None = None, n_features: int | None = None, inference_method: Any = None,
        neighborhood: int = 4,
    ) -> None:  # fmt: skip
        EdgeFeatureGraphCRF.__init__(self, n_states, n_features, neighborhood // 2, inference_method)
        self.neighborhood = neighborhood

    def _get_edge_features(self, x: Any) -> F64:
        return edge_list_to_features(make_grid_edges(x, self.neighborhood, return_lists=True))


class LatentGraphCRF(GraphCRF):
    """Each label of a node has some hidden states, ``n_states_per_label``; labels of learners are hidden states."""

    def __init__(
        self, n_labels: int | None = None, n_features: int | None = None, n_states_per_label: Any = 2,
        inference_method: Any = None,
    ) -> None:  # fmt: skip
        self.n_labels, self.n_states_per_label = n_labels, n_states_per_label
        super().__init__(None, n_features, inference_method)

    @property
    def n_states(self) -> int | None:  # type: ignore[override]
        """The number of all hidden states."""
        return None if self.n_labels is None else len(self._states_map)

    @n_states.setter
    def n_states(self, value: Any) -> None:
        """Leave it to the labels."""

    @property
    def _states_map(self) -> NDArray[np.int64]:
        """The label of each hidden state."""
        counts = np.broadcast_to(self.n_states_per_label, self.n_labels)
        return np.repeat(np.arange(self.n_labels), counts)

    def initialize(self, X: Any, Y: Any) -> None:
        """Take the numbers of features and labels from data."""
        self.n_features = _agreed(self.n_features, self._get_features(X[0]).shape[1], "features")
        self.n_labels = _agreed(self.n_labels, len(np.unique(np.hstack([np.ravel(y) for y in Y]))), "labels")

    def _loss(self, y: Label) -> Any:
        return Cost(y, (self._states_map[:, None] != self._states_map).astype(float).tolist())

    def label_from_latent(self, h: Any) -> Any:
        """Return the labels of hidden states."""
        return self._states_map[h]

    def init_latent(self, X: Any, Y: Any) -> Any:
        """Return hidden states by clusters of nodes of each label: features, and shares of labels among neighbours."""
        H = kmeans_init(
            [self._get_features(x) for x in X], [np.ravel(y) for y in Y], [self._edge_kinds(x) for x in X],
            self.n_labels, np.broadcast_to(self.n_states_per_label, self.n_labels), not self._edges_differ,
        )  # fmt: skip
        found = [np.reshape(h, np.shape(y)) for h, y in zip(H, Y, strict=True)]
        return np.array(found) if len({one.shape for one in found}) == 1 else found

    def _edge_kinds(self, x: Any) -> list[Any]:
        return [self._get_edges(x)]

    def latent(self, x: Any, y: Any, w: Any) -> Any:
        """Return the best hidden states that have the given labels."""
        node, tables = self._scored(x, w)
        forbidden = self._states_map != np.ravel(y)[:, None]
        spread = np.ptp(node) * len(node) + sum(np.ptp(t) for t in tables) * len(self._get_edges(x)) + 1.0
        return self._solved(x, node - spread * np.ravel(forbidden), tables, False, False)

    def loss(self, h: Any, h_hat: Any) -> float:
        """Return the loss of the labels of hidden states."""
        if isinstance(h_hat, tuple):
            return self.continuous_loss(h, h_hat[0])
        return super().loss(self.label_from_latent(h), self.label_from_latent(h_hat))

    def base_loss(self, y: Any, y_hat: Any) -> float:
        """Return the loss of labels."""
        return StructuredModel.loss(self, y, y_hat)

    def continuous_loss(self, y: Any, y_hat: Any) -> float:
        """Return the expected loss of marginals of hidden states."""
        of_labels = np.reshape(y_hat, (np.size(y), -1)) @ np.eye(self.n_labels)[self._states_map]
        return super().continuous_loss(self.label_from_latent(y), of_labels)


class LatentGridCRF(GridCRF, LatentGraphCRF):
    """A grid of labels with hidden states."""

    def __init__(
        self, n_labels: int | None = None, n_features: int | None = None, n_states_per_label: Any = 2,
        inference_method: Any = None, neighborhood: int = 4,
    ) -> None:  # fmt: skip
        LatentGraphCRF.__init__(self, n_labels, n_features, n_states_per_label, inference_method)
        self.neighborhood = neighborhood

    initialize = LatentGraphCRF.initialize


class LatentDirectionalGridCRF(LatentGridCRF, DirectionalGridCRF):
    """A grid of labels with hidden states, and a table for each direction."""

    def __init__(
        self, n_labels: int | None = None, n_features: int | None = None, n_states_per_label: Any = 2,
        inference_method: Any = None, neighborhood: int = 4,
    ) -> None:  # fmt: skip
        super().__init__(n_labels, n_features, n_states_per_label, inference_method, neighborhood)
        self.n_edge_features, self.directed = neighborhood // 2, True
        self.symmetric_edge_features, self.antisymmetric_edge_features = [], []

    _edges_differ = True

    def _edge_kinds(self, x: Any) -> list[Any]:
        return make_grid_edges(x, self.neighborhood, return_lists=True)


class LatentNodeCRF(GraphCRF):
    """Hidden nodes, with states of their own, after the labelled ones: ``x = (features, edges, number of them)``."""

    def __init__(
        self, n_labels: int | None = None, n_features: int | None = None, n_hidden_states: int = 2,
        inference_method: Any = None, class_weight: Any = None, latent_node_features: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(None, n_features, inference_method, class_weight)
        self.n_labels, self.n_hidden_states = n_labels, n_hidden_states
        self.latent_node_features = latent_node_features

    @property
    def n_states(self) -> int | None:  # type: ignore[override]
        """The number of labels and of states of hidden nodes."""
        return None if self.n_labels is None else self.n_labels + self.n_hidden_states

    @n_states.setter
    def n_states(self, value: Any) -> None:
        """Leave it to the labels."""

    def initialize(self, X: Any, Y: Any) -> None:
        """Take the numbers of features and labels from data."""
        LatentGraphCRF.initialize(self, X, Y)  # type: ignore[arg-type]

    def _n_inputs(self) -> int:
        return self.n_states if self.latent_node_features else self.n_labels

    def _prices(self) -> list[float]:
        return [*(super()._prices() or [1.0] * self.n_labels), *[0.0] * self.n_hidden_states]

    def _example(self, x: Any) -> Any:
        features, n_hidden = np.asarray(x[0], dtype=np.float64), int(x[-1])
        if not self.latent_node_features:
            features = np.vstack([features, np.zeros((n_hidden, features.shape[1]))])
        hidden = np.arange(len(features)) >= len(features) - n_hidden
        allowed = hidden[:, None] == (np.arange(self.n_states) >= self.n_labels)
        return super()._example(x) | {"x": features, "allowed": allowed.astype(float)}

    def _add_nodes(self, m: ModelBuilder, N: Dim) -> Label:
        x, allowed = m.input("x", N, self.n_features), m.input("allowed", N, self.n_states)
        y = m.add("y", Label(N, self.n_states, allowed=allowed))
        m.factor("node", y, features=x, form=np.eye(self.n_states)[: self._n_inputs()])
        return y

    def label_from_latent(self, h: Any) -> Any:
        """Return the labels of the labelled nodes."""
        h = np.asarray(h)
        return h[h < self.n_labels]

    def latent(self, x: Any, y: Any, w: Any) -> Any:
        """Return the labels, with the best states of hidden nodes."""
        node, tables = self._scored(x, w)
        scores = node.reshape(-1, self.n_states).copy()
        spread = np.ptp(node) * len(scores) + sum(np.ptp(t) for t in tables) * len(self._get_edges(x)) + 1.0
        scores[np.arange(len(y)), y] += spread
        return self._solved(x, scores.ravel(), tables, False, False)

    def init_latent(self, X: Any, Y: Any) -> list[Any]:
        """Return states of hidden nodes by clusters of the shares of labels among their neighbours."""
        rows = []
        for x, y in zip(X, Y, strict=True):
            n, edges = len(y) + int(x[-1]), self._get_edges(x)
            counts = np.zeros((n, self.n_labels))
            for a, b in (edges.T, edges.T[::-1]):
                seen = b < len(y)
                np.add.at(counts, (a[seen], np.asarray(y)[b[seen]]), 1.0)
            rows.append(counts[len(y):] / np.maximum(counts[len(y):].sum(axis=1, keepdims=True), 1.0))
        if not any(map(len, rows)):
            return [np.asarray(y) for y in Y]
        found = KMeans(self.n_hidden_states, n_init=10, random_state=0).fit_predict(np.vstack(rows)) + self.n_labels
        ends = np.cumsum([len(one) for one in rows])[:-1]
        return [np.hstack([y, h]) for y, h in zip(Y, np.split(found, ends), strict=True)]

    def loss(self, h: Any, h_hat: Any) -> float:
        """Return the loss of the labelled nodes."""
        if isinstance(h_hat, tuple):
            return self.continuous_loss(h, h_hat[0])
        return super().loss(self.label_from_latent(h), self.label_from_latent(h_hat))

    def base_loss(self, y: Any, y_hat: Any) -> float:
        """Return the loss of labels."""
        return StructuredModel.loss(self, y, y_hat)

    def max_loss(self, h: Any) -> float:
        """Return the largest loss that there is for true labels."""
        return super().max_loss(self.label_from_latent(h))

    def continuous_loss(self, y: Any, y_hat: Any) -> float:
        """Return the expected loss of the marginals of labelled nodes."""
        y = self.label_from_latent(y)
        return super().continuous_loss(y, np.asarray(y_hat)[: len(y), : self.n_labels])


class EdgeFeatureLatentNodeCRF(LatentNodeCRF, EdgeFeatureGraphCRF):
    """Hidden nodes and features of edges: ``x = (features, edges, edge features, number of hidden nodes)``."""

    def __init__(
        self, n_labels: int = 2, n_features: int | None = None, n_edge_features: int = 1, n_hidden_states: int = 2,
        inference_method: Any = None, class_weight: Any = None, latent_node_features: bool = False,
        symmetric_edge_features: Any = None, antisymmetric_edge_features: Any = None,
    ) -> None:  # fmt: skip
        given = None, None, n_edge_features, inference_method, class_weight
        EdgeFeatureGraphCRF.__init__(self, *given, symmetric_edge_features, antisymmetric_edge_features)
        self.n_features = n_labels if n_features is None else n_features
        self.n_labels, self.n_hidden_states = n_labels, n_hidden_states
        self.latent_node_features, self.directed = latent_node_features, True

    _edges_differ = True
    def _example(self, x: Any) -> Any:
        edges = {f"f_{name}": self._get_edge_features(x)[:, columns] for name, columns in self._columns().items()}
        return LatentNodeCRF._example(self, x) | edges


class NodeTypeEdgeFeatureGraphCRF(CRF):
    """Nodes of several types, with states and features of their own, and features of edges for each pair of types.

    ``x`` is (features by type, edges by pair of types, edge features by pair of types); ``y`` has the states of all
    types in one range, type after type.
    """

    def __init__(
        self, n_types: int, l_n_states: Any, l_n_features: Any, a_n_edge_features: Any, inference_method: Any = "ad3",
        l_class_weight: Any = None,
    ) -> None:  # fmt: skip
        table = np.array(a_n_edge_features)
        if table.shape != (n_types, n_types) or not (table == table.T).all():
            raise ValueError(f"expected a symmetric array of numbers of edge features, shape ({n_types}, {n_types})")
        for given, what in ((l_n_states, "states"), (l_n_features, "features"), (l_class_weight, "class weights")):
            if given is not None and len(given) != n_types:
                raise ValueError(f"expected {what} for each of {n_types} types of nodes, got {len(given)}")
        super().__init__(sum(l_n_states), sum(l_n_features), inference_method)
        self.n_types, self.l_n_states, self.l_n_features = n_types, list(l_n_states), list(l_n_features)
        self.a_n_edge_features, self.l_class_weight = table, l_class_weight
        self.class_weight = None if l_class_weight is None else np.hstack(l_class_weight)
        self._first = np.cumsum([0, *l_n_states])
        self.inference_exception = False

    def initialize(self, X: Any, Y: Any = None) -> None:
        """Check labels: those of each type are its own states."""
        for x, y in zip(X, Y or (), strict=False) if isinstance(X, list) else [(X, Y)]:
            if y is not None and any(len(one) and not 0 <= one.min() <= one.max() < k for one, k in zip(self.unflattenY(x, y), self.l_n_states, strict=True)):  # fmt: skip
                raise ValueError(f"the states of type t are {self._first[:-1]} and the following {self.l_n_states}")

    def setInferenceException(self, raises: bool) -> bool:
        """Set whether a fractional solution is an error."""
        self.inference_exception = raises
        return raises

    def _sizes(self) -> tuple[Any, ...]:
        return *self.l_n_states, *self.l_n_features, *self.a_n_edge_features.ravel().tolist()

    def _pairs(self) -> list[tuple[int, int, int]]:
        """Return the pairs of types whose edges have features, and their number among all pairs."""
        numbers = product(range(self.n_types), repeat=2)
        return [(number, a, b) for number, (a, b) in enumerate(numbers) if self.a_n_edge_features[a, b]]

    def _declare(self) -> type[Model]:
        m, types = ModelBuilder("TypedGraph"), range(self.n_types)
        dims = [m.dim(f"N{t}") for t in types]
        labels = [m.label(f"y{t}", dims[t], self.l_n_states[t]) for t in types]
        for t in types:
            m.factor(f"node{t}", labels[t], features=m.input(f"x{t}", dims[t], self.l_n_features[t]))
        for number, a, b in self._pairs():
            M = m.dim(f"M{number}")
            edges = m.add(f"edges{number}", Edges(M, over=dims[a] if a == b else (dims[a], dims[b])))
            features = m.input(f"f{number}", M, int(self.a_n_edge_features[a, b]))
            m.factor(f"pair{number}", along(labels[a] if a == b else (labels[a], labels[b]), edges), features=features)
        weights = self.l_class_weight or [None] * self.n_types
        prices = [None if one is None else np.asarray(one, dtype=float).tolist() for one in weights]
        m.add("loss", sum(Hamming(label, weights=price) for label, price in zip(labels, prices, strict=True)))
        return m.build()

    def _places(self) -> dict[str, Any]:
        places, at = {}, 0
        for t, (k, f) in enumerate(zip(self.l_n_states, self.l_n_features, strict=True)):
            places[f"node{t}"], at = at + np.arange(k * f).reshape(k, f), at + k * f
        for number, a, b in self._pairs():
            shape = int(self.a_n_edge_features[a, b]), self.l_n_states[a], self.l_n_states[b]
            size = int(np.prod(shape))
            places[f"pair{number}"], at = at + np.arange(size).reshape(shape).transpose(1, 2, 0), at + size
        return places

    def _example(self, x: Any) -> Any:
        features = [np.zeros((0, f)) if one is None else one for one, f in zip(x[0], self.l_n_features, strict=True)]
        found = {f"x{t}": one for t, one in enumerate(features)}
        for number, a, b in self._pairs():
            edges = as_edges(() if x[1] is None or x[1][number] is None else x[1][number])
            width = self.a_n_edge_features[a, b]
            found[f"edges{number}"] = edges
            found[f"f{number}"] = np.asarray(x[2][number], dtype=float) if len(edges) else np.zeros((0, width))
        return found

    def _labels(self, x: Any, y: Any) -> Any:
        return {f"y{t}": one for t, one in enumerate(self.unflattenY(x, y))} if self.n_types > 1 else np.asarray(y)

    def _restored(self, x: Any, y: Any) -> Any:
        return self.flattenY([y[f"y{t}"] for t in range(self.n_types)]) if isinstance(y, dict) else y

    def flattenY(self, lY_by_typ: Any) -> Any:
        """Return labels of each type, from 0, in the range of all states."""
        return np.hstack([np.asarray(y) + first for y, first in zip(lY_by_typ, self._first, strict=False)])

    def unflattenY(self, X: Any, flatY: Any) -> list[Any]:
        """Return labels by type, each from 0."""
        sizes = [0 if one is None else len(one) for one in X[0]]
        if np.shape(flatY) != (sum(sizes),):
            raise ValueError(f"expected a label for each of {sum(sizes)} nodes, got {np.shape(flatY)}")
        parts = np.split(np.asarray(flatY), np.cumsum(sizes)[:-1])
        return [part - first for part, first in zip(parts, self._first, strict=False)]

    def _by_type(self, x: Any, node: F64, tables: Any) -> tuple[list[F64], list[F64]]:
        """Return scores by type of nodes, and by pair of types."""
        example = self._example(x)
        sizes = [len(example[f"x{t}"]) * k for t, k in enumerate(self.l_n_states)]
        nodes = [one.reshape(-1, k) for one, k in zip(np.split(node, np.cumsum(sizes)[:-1]), self.l_n_states, strict=True)]
        found, there = [], dict(zip([number for number, _, _ in self._pairs()], tables, strict=True))
        for number, (a, b) in enumerate(product(range(self.n_types), repeat=2)):
            shape = -1, self.l_n_states[a], self.l_n_states[b]
            empty = number not in there or not len(example[f"edges{number}"])
            found.append(np.zeros((0, *shape[1:])) if empty else there[number].reshape(shape))
        return nodes, found

    def _get_unary_potentials(self, x: Any, w: Any) -> Any:
        return self._by_type(x, *self._scored(x, w))[0]

    def _get_pairwise_potentials(self, x: Any, w: Any) -> Any:
        return self._by_type(x, *self._scored(x, w))[1]

    def _solved(
        self, x: Any, node: F64, tables: Any, relaxed: Any, return_energy: bool, constraints: Any = None
    ) -> Any:
        nodes, of_edges = self._by_type(x, node, tables)
        kinds, example = list(product(range(self.n_types), repeat=2)), self._example(x)
        pairs = [
            (a, b, example.get(f"edges{number}", np.zeros((0, 2), dtype=np.int64)), of_edges[number])
            for number, (a, b) in enumerate(kinds)
        ]
        raises = self.inference_exception
        found, energy = dispatch(nodes, pairs, self.inference_method, bool(relaxed), constraints, raises)
        y = found if isinstance(found, tuple) else self.flattenY(found)
        return (y, energy) if return_energy else y

    def _joint_feature(self, x: Any, y: Any) -> F64:
        if not isinstance(y, tuple):
            return StructuredModel._joint_feature(self, x, y)
        grounded = self._grounded(x)
        theta = grounded.parameters.scores(np.zeros(grounded.parameters.dim))
        theta.node[:] = np.hstack([np.ravel(one) for one in y[0]])
        for table, (number, _, _) in zip(theta.tables, self._pairs(), strict=True):
            if len(table):
                table[:] = np.reshape(y[1][number], table.shape)
        svm = self._estimator(np.zeros(self.size_joint_feature or 0))
        svm.coef_ = grounded.parameters.adjoint(theta)
        return self._in_order(svm.weights_)

    def continuous_loss(self, y: Any, y_hat: Any) -> float:
        """Return the expected loss of marginals by type."""
        sizes = [len(one) for one in y_hat]
        parts, total = np.split(np.asarray(y), np.cumsum(sizes)[:-1]), 0.0
        for part, first, mu in zip(parts, self._first, y_hat, strict=False):
            price = 1.0 if self.class_weight is None else self.class_weight[part]
            total += float(np.sum(price * (1.0 - mu[np.arange(len(part)), part - first])))
        return total


def is_relaxed(model: StructuredModel, X: Any) -> bool:
    """Whether PyStruct trains a model on the local polytope: by ``lp`` and ``ad3`` where graphs have circles."""
    name = split_method(model.inference_method)[0]
    if name not in RELAXING or not backend_of(model.inference_method) or not isinstance(model, CRF):
        return False
    if isinstance(model, NodeTypeEdgeFeatureGraphCRF):
        return True
    return not all(is_forest(model._get_edges(x)) for x in X)


def kmeans_init(
    X: Any, Y: Any, all_edges: Any, n_labels: int, n_states_per_label: Any, symmetric: bool = True
) -> list[Any]:
    """Return a hidden state for each node, by clusters of the nodes of each label.

    Parameters
    ----------
    X : list of ndarray, shape (n, features)
    Y : list of ndarray of int, shape (n,)
    all_edges : list of lists of edges
        One list for each kind of edges.
    n_labels : int
    n_states_per_label : sequence of int
    symmetric : bool
        Whether both ends of an edge count alike.
    """
    rows = []
    for x, y, kinds in zip(X, Y, all_edges, strict=True):
        y, shares = np.ravel(y), []
        for edges in kinds:
            a, b = as_edges(edges).T
            there, back = np.zeros((len(y), n_labels)), np.zeros((len(y), n_labels))
            np.add.at(there, (a, y[b]), 1.0)
            np.add.at(back, (b, y[a]), 1.0)
            shares += [there + back] if symmetric else [there, back]
        counts = np.hstack(shares)
        rows.append(np.hstack([x, counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)]))
    all_rows, all_labels = np.vstack(rows), np.hstack([np.ravel(y) for y in Y])
    first, states = np.cumsum([0, *n_states_per_label]), np.zeros(len(all_labels), dtype=np.int64)
    for label in np.unique(all_labels):
        mine = all_labels == label
        clusters = KMeans(int(n_states_per_label[label]), n_init=10, random_state=0)
        states[mine] = first[label] + clusters.fit_predict(all_rows[mine])
    return np.split(states, np.cumsum([np.size(y) for y in Y])[:-1])
