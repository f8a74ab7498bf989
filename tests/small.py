"""Small learning problems of every kind, whose planes can all be listed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

import model_table
import naive
from optima import Reference
from ssvm_dsl import (
    POTTS,
    SYMMETRIC,
    Attributes,
    Cost,
    CountLoss,
    Dim,
    Edges,
    Factor,
    Hamming,
    Input,
    JointFeature,
    Label,
    Model,
    NoLoss,
    ZeroOne,
    along,
    chain,
    complete,
    cross,
    ground,
)
from ssvm_dsl.testing import training_problem


class Word(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, "abc")
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)


class Tree(Model):
    """Random forests with edge features: the edges come with the examples."""

    N, M = Dim(), Dim()
    x = Input(N, 2)
    e = Edges(M, over=N)
    f = Input(M, 2)
    y = Label(N, 3)
    node = Factor(y, features=x)
    edge = Factor(along(y, e), features=f)
    loss = Hamming(y)


class Loopy(Model):
    """Multi-label on a complete graph, every unit with weights of its own."""

    K = Dim(3)
    x = Input(3)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    loss = Hamming(y)


class Single(Model):
    """Multi-class classification."""

    x = Input(3)
    y = Label(["no", "yes", "maybe", "never"])
    score = Factor(y, features=x)
    bias = Factor(y)
    loss = Hamming(y)


class Layers(Model):
    """Two layers of labels and a single one, of different sizes."""

    T = Dim()
    x = Input(T, 2)
    a = Label(T, 2)
    b = Label(T, 3)
    c = Label(2)
    ax = Factor(a, features=x)
    bx = Factor(b, features=x)
    ab = Factor(cross(a, b))
    bc = Factor(cross(b, c), features=x)
    loss = Hamming(a) + 0.5 * Hamming(b, normalize=True) + 2.0 * Cost(c, [[0, 1], [3, 0]])


class Ties(Model):
    """Shared weights, a symmetric form, weights that stay non-negative."""

    T = Dim()
    x = Input(T, 2)
    z = Input(2)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    near = Factor(chain(y), form=SYMMETRIC, features=z)
    again = Factor(chain(y), form=SYMMETRIC, features=x, tie=near)
    agree = Factor(chain(y), form=POTTS, nonneg=True)
    step = Factor(chain(y), form=POTTS, features=x, nonneg=True)
    loss = Hamming(y, weights=[1.0, 2.0, 0.5], normalize=True)


class Bounded(Model):
    """Weights of transitions stay non-negative (and the chain is plain, so that its oracle is compiled)."""

    T = Dim()
    x = Input(T, 2)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y), features=x, form=POTTS, nonneg=True)
    loss = Hamming(y)


class Tokens(Model):
    T = Dim()
    t = Attributes(T)
    y = Label(T, 3)
    emit = Factor(y, features=t)
    step = Factor(chain(y), features=t, form=POTTS)
    only = Factor(y.is_(0), features=t, nonneg=True)
    loss = Hamming(y)


class Plain(Model):
    """Sparse features, without bounds."""

    T = Dim()
    t = Attributes(T)
    y = Label(T, 3)
    emit = Factor(y, features=t)
    step = Factor(chain(y), features=t)
    loss = Hamming(y)


class Seen(Model):
    """Weights for observed pairs of an attribute and a state only."""

    T = Dim()
    t = Attributes(T)
    y = Label(T, 3)
    emit = Factor(y, features=t, weights="observed")
    trans = Factor(chain(y))
    loss = Hamming(y)


class SeenSteps(Model):
    """The same for pairs of variables, not negative; labels that are not known."""

    T = Dim()
    t = Attributes(T)
    y = Label(T, 3)
    emit = Factor(y, features=t, weights="observed")
    step = Factor(chain(y), features=t, weights="observed", nonneg=True)
    loss = Hamming(y, ignore=9)


def pair_table(x):
    """A feature of position and both states."""
    t = max(len(x) - 1, 0)
    grid = np.arange(18.0).reshape(1, 3, 3, 2) / 5
    return np.cos(grid + np.asarray(x, float)[:t, :1, None, None])


class Joint(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    table = Factor(chain(y), features=JointFeature(pair_table, width=2))
    loss = Hamming(y, ignore=9)


class Costs(Word):
    loss = Cost(Word.y, [[0, 1, 2], [3, 0, 1], [0.5, 0.5, 0]], normalize=True)


class AllOrNothing(Word):
    loss = 2.0 * ZeroOne(Word.y)


class Perceptron(Word):
    loss = NoLoss()


class WordF1(Word):
    loss = CountLoss(Word.y, "f1", positive="b")


class TreeIoU(Tree):
    """Two positive classes: one can be taken for the other."""

    loss = CountLoss(Tree.y, "iou", positive=[0, 2]) + 0.3 * Hamming(Tree.y)


class Bag(Model):
    """Multi-label without pairs."""

    K = Dim(4)
    x = Input(3)
    y = Label(K, 2)
    unary = Factor(y, features=x, per=K)
    loss = 2.0 * CountLoss(y, "f_beta", beta=2)


class LoopyF1(Loopy):
    loss = CountLoss(Loopy.y, "f1")


def share_found(tp, fp, fn, tn):
    """Missed positives and false alarms as shares of what could be (balanced errors)."""
    return fn / np.maximum(tp + fn, 1) + fp / np.maximum(fp + tn, 1)


class JointBalanced(Joint):
    loss = CountLoss(Joint.y, share_found, positive=1, ignore=9)


#: Models whose loss does not add up over variables.
LOSS_OF_WHOLE = (AllOrNothing, WordF1, TreeIoU, Bag, LoopyF1, JointBalanced)


@dataclass(frozen=True)
class Case:
    """A model, how to make data for it, and how it is fitted."""

    model: type[Model]
    n: int = 5
    C: float = 1.0
    ragged: tuple[int, ...] = (1, 2, 3)
    regularization: dict[str, float] = field(default_factory=dict)
    weighted: bool = False
    ignore: int | None = None
    tag: str = ""

    def __str__(self) -> str:
        return self.model.__name__ + self.tag

    def make(self, seed: int) -> Data:
        """Return the data of a seed: one object for all tests of a process, which leave it as it is."""
        key = (repr(self), seed)
        if key not in _made:
            _made[key] = self.draw(seed)
        return _made[key]

    def draw(self, seed: int) -> Data:
        rng = np.random.default_rng([seed, len(str(self))])
        X, Y, inputs, labels, ignored = [], [], [], [], []
        for _ in range(self.n):
            one, sizes = model_table.make_inputs(self.model, rng, self.ragged)
            if self.model is Tree:
                one["e"], one["f"] = forest(sizes["N"], rng)
            for given in self.model.loss.inputs:  # which weigh the loss
                one[given.name] = np.abs(one[given.name])
            states = model_table.make_labels(self.model, rng, sizes)
            share = 0.3 if self.ignore is not None else 0.0
            mask = {name: rng.random(np.shape(value)) < share for name, value in states.items()}
            named = model_table.user_labels(self.model, states)
            X.append(model_table.user_inputs(self.model, one))
            Y.append(named if self.ignore is None else np.where(mask["y"], self.ignore, named))
            inputs.append(one)
            labels.append(states)
            ignored.append(mask)
        weight = rng.choice([0.0, 0.5, 1.0, 3.0], size=self.n) if self.weighted else None
        if weight is not None and not weight.any():  # weights of zero only are refused
            weight[0] = 1.0
        return Data(self, X, Y, inputs, labels, ignored, weight)


_made: dict[tuple[str, int], Data] = {}


@dataclass(frozen=True, eq=False)
class Data:
    """Examples as users pass them, and the same by name for the slow references."""

    case: Case
    X: list[Any]
    Y: list[Any]
    inputs: list[dict[str, Any]]
    labels: list[dict[str, Any]]
    ignored: list[dict[str, Any]]
    weight: np.ndarray | None

    def __post_init__(self) -> None:
        grounded = ground(self.case.model, self.X, self.Y)
        shapes, declaration = naive.whole_shapes(grounded), self.case.model.declaration
        everything = self.inputs, self.labels, self.ignored
        seen = naive.observed_pairs(declaration, *everything[:2], grounded.fitted, shapes, self.ignored)
        held = ~np.concatenate([np.ravel(seen[name]) for name in shapes])
        planes = [naive.all_planes(declaration, x, y, grounded.fitted, shapes, mask) for x, y, mask in zip(*everything)]
        for _, psi in planes:
            psi[:, held] = 0.0  # weights that do not change scores stay at zero
        object.__setattr__(self, "grounded", grounded)
        object.__setattr__(self, "shapes", shapes)
        object.__setattr__(self, "planes", planes)

    def spread(self, by_name: dict[str, Any], default: float) -> np.ndarray:
        """One number for each factor's weights, laid out as ``flat`` lays out weights."""
        parts = [np.full(int(np.prod(shape)), by_name.get(name, default)) for name, shape in self.shapes.items()]
        return np.concatenate(parts)

    def flat(self, weights: Any) -> np.ndarray:
        """The weights users see, one after the other; zero where a pair has none."""
        return np.concatenate([np.ravel(model_table.densely(weights[name])) for name in self.shapes])

    @property
    def model(self) -> type[Model]:
        return self.case.model

    @property
    def C(self) -> float:
        return self.case.C

    @property
    def kind(self) -> str:
        return self.case.tag

    @property
    def regularization(self) -> dict[str, float]:
        return self.case.regularization

    @property
    def settings(self) -> dict[str, Any]:
        """What an estimator needs to minimise the objective."""
        return {"C": self.C, "regularization": self.regularization}

    @property
    def s(self) -> np.ndarray:
        """Weight of each example."""
        return np.ones(len(self.X)) if self.weight is None else self.weight

    @property
    def scale(self) -> np.ndarray:
        return self.spread(self.case.regularization, 1.0)

    @property
    def nonneg(self) -> np.ndarray:
        return self.spread({f.name: f.nonneg for f in self.case.model.declaration.factors}, False).astype(bool)

    def objective(self, w: np.ndarray, risk: str = "margin", power: int = 1) -> float:
        return Reference(self, risk, power).objective(w)[0]

    @cache  # noqa: B019 - the data are kept anyway
    def optimum(self, risk: str = "margin", power: int = 1) -> tuple[float, np.ndarray]:
        """The least objective, found by a general solver, and its weights."""
        return Reference(self, risk, power).optimum()[1:]

    def problem(self, risk: str = "margin", power: float = 1.0, backend: str = "auto", **options: Any) -> Any:
        """The problem trainers see."""
        case, factors = self.case, {factor.name for factor in self.case.model.declaration.factors}
        strengths = {name: strength for name, strength in case.regularization.items() if name in factors}
        return training_problem(
            case.model, self.X, self.Y, risk=risk, power=power, backend=backend, lam=1.0 / (case.C * len(self.X)),
            regularization=strengths, sample_weight=self.weight, **options,
        )  # fmt: skip


def plain(model: Any, X: Any, Y: Any, C: float = 1.0) -> Data:
    """Return data of a model of one input and one label, all of whose labels are known states."""
    (given,), (label,) = model.declaration.inputs, model.declaration.labels
    known = [{label.name: np.zeros(np.shape(y), bool)} for y in Y]
    inputs, labels = [{given.name: x} for x in X], [{label.name: np.asarray(y)} for y in Y]
    return Data(Case(model, len(X), C), list(X), list(Y), inputs, labels, known, None)


def forest(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Edges of a random forest (a star from four nodes on) in random order and direction, two features for each."""
    edges = [(int(rng.integers(k)) if k > 3 else 0, k) for k in range(1, n) if k <= 3 or rng.random() < 0.8]
    edges = [edge if rng.random() < 0.5 else edge[::-1] for edge in edges]
    order = rng.permutation(len(edges))
    return np.array([edges[k] for k in order], dtype=int).reshape(-1, 2), rng.normal(size=(len(edges), 2))


CASES = [
    Case(Word),
    Case(Word, C=0.05, weighted=True, tag="-weighted"),
    Case(Word, C=20.0, regularization={"trans": 0.1, "emit": 3.0}, tag="-scaled"),
    Case(Tree, ragged=(1, 4, 5), n=4),
    Case(Loopy),
    Case(Single, n=8),
    Case(Layers, ragged=(1, 2), n=4),
    Case(Ties),
    Case(Ties, C=5.0, regularization={"agree": 0.2, "step": 2.0}, weighted=True, tag="-scaled"),
    Case(Bounded, C=3.0),
    Case(Tokens),
    Case(Seen, n=4),
    Case(SeenSteps, ignore=9),
    Case(Joint, ignore=9, n=6),
    Case(Costs),
    Case(AllOrNothing),
    Case(Perceptron),
    Case(WordF1, n=6),
    Case(TreeIoU, ragged=(1, 4, 5), n=4),
    Case(Bag, C=3.0, weighted=True),
    Case(JointBalanced, ignore=9, n=6),
    Case(LoopyF1),
]
