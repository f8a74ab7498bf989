"""Single predictions that were far late, or had no answer: what was asked, what it took, and what came of it.

Sizes are those at which it was seen.  Compiling is not counted, and the process is warm: each row asks a small example
of the same model first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from time import process_time

import numpy as np

from ssvm_dsl import (
    POTTS,
    Arborescence,
    AtMost,
    Dim,
    Factor,
    Given,
    Hamming,
    Input,
    Label,
    Matching,
    Model,
    ProjectiveTree,
    StructuredSVM,
    chain,
    complete,
    grid,
    pairs,
)
from ssvm_dsl.deadline import Deadline
from ssvm_dsl.errors import NoLabellingError, SsvmError


class Potts(Model):
    H, W = Dim(), Dim()
    s = Input(H, W, 5)
    y = Label(H, W, 5)
    own = Given(y, scores=s)
    same = Factor(grid(y), form=POTTS, nonneg=True)
    loss = Hamming(y)


class Heads(Model):
    T = Dim()
    x = Input(T, T)
    r = Input(T)
    h = Label(T, over=T, null=True)
    arc = Factor(h, features=x)
    root = Factor(h.is_(None), features=r)
    tree = Arborescence(h)
    loss = Hamming(h)


class Nested(Model):
    T = Dim()
    x = Input(T, T)
    r = Input(T)
    h = Label(T, over=T, null=True)
    arc = Factor(h, features=x)
    root = Factor(h.is_(None), features=r)
    tree = ProjectiveTree(h)
    loss = Hamming(h)


class Few(Model):
    T = Dim()
    s = Input(T, 5)
    y = Label(T, 5)
    own = Given(y, scores=s)
    next = Factor(chain(y))
    few = AtMost(3, y.is_(1))
    loss = Hamming(y)


class Budget(Model):
    K = Dim()
    x = Input(K, 2)
    y = Label(K, 2)
    own = Factor(y.is_(1), features=x)
    pair = Factor(complete(y))
    few = AtMost(20, y.is_(1))
    loss = Hamming(y)


class Free(Model):
    K = Dim(45)
    x = Input(5)
    y = Label(K, 2)
    own = Factor(y.is_(1), features=x, per=K)
    pair = Factor(complete(y), per="edge")
    loss = Hamming(y)


class Diagonals(Model):
    I, J = Dim(), Dim()
    x = Input(I, J, 2)
    y = Label(I, J, 2)
    sim = Factor(y.is_(1), features=x)
    both = Factor(pairs(y, I, J), form=[[[0, 0], [0, 1]]])
    one = Matching(y.is_(1), rows=I, cols=J)
    loss = Hamming(y)


def _potts(n, rng):
    return rng.normal(size=(n, n, 5)), np.repeat(rng.integers(5, size=(n, 1)), n, axis=1)


def _tree(n, rng):
    return {"x": rng.normal(size=(n, n)), "r": rng.normal(size=n)}, np.arange(n) - 1


def _few(n, rng):
    return rng.normal(size=(n, 5)), np.zeros(n, dtype=int)


def _budget(n, rng):
    return rng.normal(size=(n, 2)), np.arange(n) % 2


def _free(_, rng):
    return rng.normal(size=5), rng.integers(2, size=45)


def _diagonals(n, rng):
    return rng.normal(size=(n, n, 2)), np.eye(n, dtype=int)


@dataclass(frozen=True)
class Row:
    """A prediction.

    Parameters
    ----------
    name : str
    model : Model class
    example : callable
        Makes (inputs, labels) of a size and a generator.
    size : int
    backend : str
    seconds : float
        The limit.
    n : int
        How many examples.
    options : dict
        Of the estimator.
    """

    name: str
    model: type[Model]
    example: Callable
    size: int
    backend: str
    seconds: float
    n: int = 1
    options: dict = field(default_factory=dict)


BOUND = {"guarantee": "bound"}
ANY = {"guarantee": "heuristic"}

ROWS = (
    Row("Potts grid 300x300x5", Potts, _potts, 300, "cycles", 1.0, options=BOUND),
    Row("Potts grid 1000x1000x5", Potts, _potts, 1000, "alpha-expansion", 60.0, options=ANY),
    Row("tree of 300 tokens", Heads, _tree, 300, "ilp", 0.2),
    Row("tree of 300 tokens", Heads, _tree, 300, "lp", 0.2, options=BOUND),
    Row("projective tree of 200", Nested, _tree, 200, "ilp", 0.2),
    *(Row("projective tree of 60", Nested, _tree, 60, name, 0.2, options=BOUND) for name in ("ilp", "lp", "ad3")),
    Row("chain of 20 000 x 5, at most 3", Few, _few, 20_000, "auto", 0.2),
    Row("Potts grid 300x300x5", Potts, _potts, 300, "decompose", 0.2, options=BOUND),
    Row("20 of 150 dense labels", Budget, _budget, 150, "decompose", 0.2, options=BOUND),
    Row("Potts grid 300x300x5", Potts, _potts, 300, "trws", 1.0, options=BOUND),
    Row("45 free labels, 645 examples", Free, _free, 0, "auto", 10.0, n=645),
    Row("45 free labels, 645 examples", Free, _free, 0, "combi", 2.0, n=645),
    Row("matching 60x60 with diagonals", Diagonals, _diagonals, 60, "decompose", 0.2, options=BOUND),
)


def asked(row, rng):
    """Return (seconds, processor seconds, what came of it) of a prediction."""
    tiny = [row.example(k, rng) for k in (3, 4)]
    X = [row.example(row.size, rng)[0] for _ in range(row.n)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = StructuredSVM(row.model, trainer="subgradient", max_passes=1, tol=1e9, random_state=0)
        svm = fitted.fit([x for x, _ in tiny], [y for _, y in tiny])
        svm.coef_ = np.abs(rng.normal(size=svm.coef_.shape))
        svm.set_params(backend=row.backend, **row.options)
        svm.predict([tiny[0][0]], time_limit=row.seconds)
        deadline, begin = Deadline(row.seconds), process_time()
        try:
            _, score, bound = svm.predict(X, time_limit=row.seconds, return_bounds=True)
            found = f"score {score.sum():.6g}, bound {bound.sum():.6g}"
        except NoLabellingError as err:
            found = f"NO LABELLING: {str(err).splitlines()[0]}"
        except SsvmError as err:
            found = f"{type(err).__name__}: {str(err).splitlines()[0]}"
        return deadline.spent, process_time() - begin, found


def main():
    """Print the table."""
    print(f"{'work':32} {'backend':16} {'asked':>6} {'took':>7} {'cpu':>7}  got")
    for row in ROWS:
        took, cpu, found = asked(row, np.random.default_rng(0))
        print(f"{row.name:32} {row.backend:16} {row.seconds:5g}s {took:6.2f}s {cpu:6.2f}s  {found}", flush=True)
