"""Attacks the promise that data are read for what they are, or refused by name.

A random model of all kinds of inputs gets a valid data set.  The same data in another representation (types, orders in
memory, sparse formats, dicts, sets) give the same grounded model, number for number, and now and then the same trained
one.  Data with one thing wrong give an error of this package that names what is wrong, or the same model where nothing
was; never another exception, a crash, or a changed data set.
"""

from __future__ import annotations

from copy import deepcopy
from types import GeneratorType, MappingProxyType

import numpy as np
import scipy.sparse as sp
from representations import DAMAGES, REWRITES, TOKEN_DAMAGE, TOKENS, ArrayLike, DictLike, on_disk

from ssvm_dsl import (
    POTTS,
    Attributes,
    Edges,
    Feature,
    Hamming,
    Hashed,
    Input,
    JointFeature,
    ModelBuilder,
    PLiF,
    Polynomial,
    Quantiles,
    Standardized,
    Whitened,
    along,
    chain,
    cross,
    grid,
    ground,
    pairs,
)
from ssvm_dsl.errors import DataError, SsvmError
from ssvm_dsl.ir.features import SparseRows

UNIT = "data sets"
SHORT = 6
LIMIT = 60.0

STRINGS = ("a", "b", "c"), ("B-é", "I", "O\0x"), ("", "yes")
INTS = 2, 3, (5, -7, 2**60 + 1), (0, 1)


# -- users' functions: right ones, and wrong ones ------------------------------------------------------------


def tripled(x):
    return 3.0 * x[..., :1]


REUSED = np.zeros((10**4, 1))


def in_place(x):
    """Return memory that the next call uses again."""
    flat = REUSED[: x[..., 0].size]
    flat[:, 0] = 3.0 * x[..., 0].ravel()
    return flat.reshape(*x.shape[:-1], 1)


def spoiling(x):
    x[...] = 0.0
    return x[..., :1]


def failing(x):
    raise KeyError("no such thing")


def imaginary(x):
    return 1j * x[..., :1]


def hiding(x):
    return np.ma.masked_less(x[..., :1], np.inf)


def too_wide(x):
    return x


def textual(x):
    return x[..., :1].astype(str)


def lazy(x):
    yield x


def nothing(x):
    return None


def infinite(x):
    return np.full((*x.shape[:-1], 1), np.inf)


def ragged(x):
    return [[1.0], [1.0, 2.0]]


def sparse_result(x):
    return sp.csr_array((3, 1))


WRONG = (spoiling, failing, imaginary, hiding, too_wide, textual, lazy, nothing, infinite, ragged, sparse_result)


def joint(x):
    return np.zeros((max(len(x) - 1, 0), 2, 2, 1)) + x[1:, :1, None, None]


# -- models and data -----------------------------------------------------------------------------------------


class Case:
    """A model with a valid data set.

    ``kinds`` says for each input and label how it is written; ``X`` and ``Y`` hold dicts by name.
    """

    def __init__(self, rng, function=tripled):
        self.rng, self.kinds, self.labels = rng, {}, {}
        self.builder = ModelBuilder("M")
        self.sizes = [self._sizes() for _ in range(int(rng.integers(1, 5)))]
        self.axes = {"sequence": "T", "graph": "NM", "image": "HW", "single": ""}
        self.shape = str(rng.choice(list(self.axes)))
        self.dims = {name: self.builder.dim(name) for name in self.axes[self.shape]}
        getattr(self, self.shape)(function)
        self.model = self.builder.build()
        self.X = [{name: self.value(name, size) for name in self.kinds} for size in self.sizes]
        self.Y = [{name: self.label(name, size) for name in self.labels} for size in self.sizes]

    def _sizes(self):
        short = int(self.rng.choice([0, 1, 2, 3, 6]))
        edges = int(self.rng.integers(5)) if short > 1 else 0
        return {"T": short, "N": short, "M": edges, "H": max(short, 1), "W": 2, "": 1}

    def _input(self, name, kind, made, *axes, width=None):
        self.kinds[name] = (kind, axes, width)
        return self.builder.add(name, made)

    def _label(self, name, *axes):
        label = self.builder.label(name, *(self.dims[axis] for axis in axes), self._states())
        self.labels[name] = (label, axes)
        return label

    def _states(self):
        pool = [*STRINGS, *INTS]
        return pool[int(self.rng.integers(len(pool)))]

    def _dense(self, x, T):
        """One of the features that are computed from a dense input."""
        made = [
            lambda: x,
            lambda: Standardized(x),
            lambda: PLiF(x, Quantiles(3)),
            lambda: PLiF(x, [-1.0, 0.0, 2.0]),
            lambda: Polynomial(x, 2),
            lambda: Whitened(Standardized(x)),
        ]
        return made[int(self.rng.integers(len(made)))]()

    def sequence(self, function):
        T, m = self.dims["T"], self.builder
        x = self._input("x", "dense", Input(T, 2), "T", width=(2,))
        y = self._label("y", "T")
        parts = [self._dense(x, T), Feature(function, T, width=1)]
        if self.rng.random() < 0.6:
            parts.append(self._input("s", "sparse", Input(T, 4, sparse=True), "T", width=(4,)))
        if self.rng.random() < 0.6:
            t = self._input("t", "attributes", Attributes(T), "T")
            parts.append(Hashed(t, 5) if self.rng.random() < 0.3 else t)
        observed = any(part.sparse for part in parts) and self.rng.random() < 0.3
        m.factor("emit", y, parts, weights="observed" if observed else "all")
        m.factor("trans", chain(y))
        if y.n_states == 2 and self.rng.random() < 0.5:
            m.factor("rated", chain(y), JointFeature(joint, width=1))
        if self.rng.random() < 0.3:
            z = self._label("z")
            m.factor("both", cross(y, z))
            m.loss(Hamming(y) + 0.5 * Hamming(z))
        elif self.rng.random() < 0.4:
            v = self._input("v", "dense", Input(T), "T", width=())
            m.loss(Hamming(y, node_weights=v, normalize=True))
        else:
            m.loss(Hamming(y))

    def graph(self, function):
        N, M, m = self.dims["N"], self.dims["M"], self.builder
        x = self._input("x", "dense", Input(N, 2), "N", width=(2,))
        e = self._input("e", "edges", Edges(M, over=N), "M")
        f = self._input("f", "dense", Input(M, 3), "M", width=(3,))
        y = self._label("y", "N")
        m.factor("node", y, [self._dense(x, N), Feature(function, N, width=1)])
        m.factor("edge", along(y, e), f)
        m.loss(Hamming(y))

    def image(self, function):
        H, W, m = self.dims["H"], self.dims["W"], self.builder
        x = self._input("x", "dense", Input(H, W, 2), "H", "W", width=(2,))
        y = self._label("y", "H", "W")
        m.factor("node", y, [self._dense(x, (H, W)), Feature(function, H, W, width=1)])
        m.factor("join", grid(y) if self.rng.random() < 0.5 else pairs(y, W), form=POTTS)
        m.loss(Hamming(y))

    def single(self, function):
        m = self.builder
        x = self._input("x", "dense", Input(3), width=(3,))
        s = self._input("s", "sparse", Input(4, sparse=True), width=(4,))
        t = self._input("t", "attributes", Attributes())
        y = self._label("y")
        m.factor("node", y, [self._dense(x, ()), s, t, Feature(function, width=1)])
        m.loss(Hamming(y))

    def value(self, name, size):
        """A canonical value: numbers that every type of numbers holds exactly, names in order."""
        kind, axes, width = self.kinds[name]
        shape = tuple(size[axis] for axis in axes)
        if kind == "attributes":
            return [self.token() for _ in range(shape[0])] if axes else self.token()
        if kind == "edges":
            n = size["N"]
            first = self.rng.integers(0, max(n, 1), size=size["M"])
            return np.stack([first, (first + self.rng.integers(1, max(n, 2), size=size["M"])) % max(n, 1)], axis=1)
        if kind == "sparse":
            return self.rng.integers(0, 3, size=(*(shape or (1,)), *width)).astype(float)
        steps = self.rng.integers(0, 9, size=(*shape, *width)) / self.rng.choice([1.0, 8.0])
        return steps - (0.0 if name == "v" else self.rng.choice([0.0, 1.0]))

    def token(self):
        names = sorted(self.rng.choice(["cap", "w=a", "w=é", "x\0", "", "suffix\ud800"], size=self.rng.integers(4)))
        ones = self.rng.random() < 0.5
        values = np.ones(len(names)) if ones else self.rng.choice([0.0, 1.0, 2.0, 0.5], size=len(names))
        return dict(zip(map(str, names), values.tolist(), strict=True))

    def label(self, name, size):
        label, axes = self.labels[name]
        classes = np.array(range(label.n_states) if label.classes is None else label.classes)
        return np.asarray(classes[self.rng.integers(label.n_states, size=tuple(size[axis] for axis in axes))])

    def given(self, X, Y):
        """Data as they are passed: bare values where there is one input or label, now and then."""
        short_x = len(self.kinds) == 1 and self.rng.random() < 0.5
        short_y = len(self.labels) == 1 and self.rng.random() < 0.5
        return (
            [one["x"] for one in X] if short_x else X,
            [one["y"] for one in Y] if short_y else Y,
        )


# -- what is compared ----------------------------------------------------------------------------------------


def content(grounded):
    """Everything that a grounded model is made of."""
    program, out = grounded.program, [grounded.truth, grounded.ignored, grounded.loss.node, grounded.loss.const]
    out += [program.var_ptr, program.card, program.allowed]
    for group in program.groups:
        out += [group.scope, group.ptr, group.table]
    for fmap in grounded.parameters.maps:
        rows = fmap.features
        if isinstance(rows, SparseRows):
            rows = sp.csr_array((rows.data, rows.indices, rows.ptr), shape=rows.shape).toarray()
        out += [rows, fmap.row, fmap.unit, fmap.basis]
    for key, state in grounded.fitted.items():
        out += [key, *(np.array(part) if isinstance(part, np.ndarray) else list(part) for part in state.values())]
    return out


def same(one, other):
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.shape == other.shape and one.dtype == other.dtype and bool((one == other).all())
    return type(one) is type(other) and one == other


def snapshot(value):
    """What a user could see of some data, to find out whether it was changed."""
    if isinstance(value, np.ma.MaskedArray):
        return value.dtype, value.shape, value.filled(0).tobytes(), np.ma.getmaskarray(value).tobytes()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.dtype, value.shape, value.strides, value.flags.writeable, value.tobytes()
    if sp.issparse(value):
        return type(value), snapshot({key: part for key, part in vars(value).items() if not key.startswith("_has")})
    if isinstance(value, ArrayLike):
        return snapshot(value.array)
    if isinstance(value, DictLike):
        return snapshot(value.content)
    if isinstance(value, dict | MappingProxyType):
        return [(repr(key), snapshot(part)) for key, part in value.items()]
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim):
        return type(value), [snapshot(part) for part in value]
    return None if isinstance(value, GeneratorType) else repr(value)


def rewritten(case, rng, scratch):
    """The same data in other representations."""
    X, Y = [dict(one) for one in case.X], [dict(one) for one in case.Y]
    for name, (kind, axes, _) in case.kinds.items():
        for one in X:
            one[name] = disguise(one[name], kind, axes, rng, scratch)
    for one in Y:
        for name in one:
            one[name] = pick(REWRITES["label"], rng)(one[name], rng)
    return tuple(X) if rng.random() < 0.2 else X, Y


def disguise(value, kind, axes, rng, scratch):
    if kind == "attributes":
        tokens = [pick(TOKENS, rng)(dict(token), rng) for token in (value if axes else [value])]
        return (tuple(tokens) if rng.random() < 0.2 else tokens) if axes else tokens[0]
    if kind == "dense" and rng.random() < 0.05:
        return on_disk(value, rng, scratch)
    if kind == "sparse" and not axes and rng.random() < 0.3:
        return value[0] if rng.random() < 0.5 else sp.coo_array(value[0])
    return pick(REWRITES[kind], rng)(value.copy(), rng)


def pick(functions, rng):
    return functions[int(rng.integers(len(functions)))]


def damaged(case, rng):
    """The data with one thing wrong, and the words one of which an error must hold."""
    X, Y = deepcopy(case.X), deepcopy(case.Y)
    i = int(rng.integers(len(X)))
    name = str(rng.choice([*case.kinds, *case.labels, "X", "Y"]))
    if name in ("X", "Y"):
        return *whole(X, Y, name, i, rng), ("X", "Y", "input", "label")
    if name in case.labels:
        Y[i][name] = pick(DAMAGES["label"], rng)(Y[i][name], rng)
        return X, Y, (f"'{name}'", "Y")
    kind, axes, _ = case.kinds[name]
    if kind != "attributes":
        X[i][name] = pick(DAMAGES[kind], rng)(X[i][name], rng)
    elif axes and (not X[i][name] or rng.random() < 0.2):
        X[i][name] = pick([None, 3, "ab", {"a": 1.0}, {1}, sp.csr_array((2, 2)), b"ab", dict], rng)
    elif axes:
        k = int(rng.integers(len(X[i][name])))
        X[i][name][k] = pick(TOKEN_DAMAGE, rng)(X[i][name][k], rng)
    else:
        X[i][name] = pick(TOKEN_DAMAGE, rng)(X[i][name], rng)
    related = (f"'{one}'" for one in (*case.kinds, *case.labels))  # sizes are compared between inputs
    return X, Y, ("X", *related, "Feature", "feature")


def whole(X, Y, name, i, rng):
    """Something that is no list of examples."""
    if rng.random() < 0.5:
        wrong = [None, 3, {}, [], "xy", iter([]), np.zeros(()), sp.csr_array((2, 3)), {1, 2}, [None], int, object()]
        return (pick(wrong, rng), Y) if name == "X" else (X, pick(wrong[1:], rng))
    if name == "Y":
        return X, pick([Y[:-1], [*Y, Y[0]], [{**Y[0], "q": 1}] * len(Y), [{}] * len(Y)], rng)
    X[i].pop(next(iter(X[i]))) if rng.random() < 0.5 else X[i].update(unknown=1)
    return X, Y


# -- trials --------------------------------------------------------------------------------------------------


def trial(rng, scratch):
    case = Case(rng)
    plain = attempt(case.model, case.X, case.Y)
    if isinstance(plain, SsvmError):  # a model of attributes without any name, or empty examples only
        assert isinstance(plain, DataError), plain
        return 1
    for _ in range(4):
        X, Y = case.given(*rewritten(case, rng, scratch))
        again = attempt(case.model, X, Y)
        assert not isinstance(again, SsvmError), f"refused: {again}"
        expect_same(plain, again)
    for _ in range(8):
        X, Y, words = damaged(case, rng)
        found = attempt(case.model, X, Y)
        if isinstance(found, SsvmError):
            assert any(word in str(found) for word in words), f"does not name {words}: {found}"
        else:
            expect_same(attempt(case.model, [sound(one) for one in X], Y) if isinstance(X, list) else plain, found)
    if rng.random() < 0.3:
        wrong_function(case, rng)
    if rng.random() < 0.05:
        train(case, rng, scratch)
    return 14


def sound(example):
    """An example with dense arrays for its sparse ones, all of which must be sound: changes may lead to another one."""
    return {name: densely(value) if sp.issparse(value) else value for name, value in example.items()}


def densely(matrix):
    if matrix.format in ("csr", "csc", "bsr"):
        matrix = matrix.copy()
        matrix.check_format(full_check=True)  # leaves out what is behind the last pointer: BSR fails on it
    return matrix.toarray()


def attempt(model, X, Y):
    """The grounded content, or the error of this package; the data stay as they are."""
    before = snapshot([X, Y])
    try:
        return content(ground(model, X, Y))
    except SsvmError as err:
        return err
    finally:
        assert before == snapshot([X, Y]), "the user's data were changed"


def expect_same(plain, again):
    assert not isinstance(plain, SsvmError), plain
    wrong = [(a, b) for a, b in zip(plain, again, strict=True) if not same(a, b)]
    assert not wrong, f"another model: {wrong[0]}"


def wrong_function(case, rng):
    """A user's function that does something wrong, or uses its memory again."""
    seed = int(rng.integers(2**32))
    good, reusing = (Case(np.random.default_rng(seed), function) for function in (tripled, in_place))
    first, second = attempt(good.model, good.X, good.Y), attempt(reusing.model, reusing.X, reusing.Y)
    if not isinstance(first, SsvmError):
        expect_same(first, second)
    bad = Case(np.random.default_rng(seed), pick(WRONG, rng))
    found = attempt(bad.model, bad.X, bad.Y)
    assert isinstance(found, SsvmError) or all(0 in (one["x"].size,) for one in bad.X), "a wrong function is believed"


def names_in(X):
    """How many attributes positions have, where there are such an input and positions."""
    tokens = [one.get("t", []) for one in X]
    return sum(len(token) for one in tokens for token in (one if isinstance(one, list) else [one]))


def train(case, rng, scratch):
    """Fits and answers do not depend on the representation, nor fail on the shortest examples.

    Refused are data without anything to label, and attributes none of which has a name: there are no weights for them.
    """
    from ssvm_dsl import StructuredSVM  # seconds to import

    X, Y = case.given(*rewritten(case, rng, scratch))
    results = []
    for data in ((case.X, case.Y), (X, Y)):
        svm = StructuredSVM(case.model, trainer="subgradient", max_passes=3, random_state=0, n_threads=1)
        refused = ""
        try:
            svm.fit(*data)
        except DataError as err:
            refused = str(err)
        if refused:
            nameless = "input 't': expected attribute names in some example" in refused and not names_in(case.X)
            assert nameless or not any(map(np.size, case.Y[0].values())), f"data with something to label: {refused}"
            return
        answers = [svm.coef_, svm.best_score(data[0]), np.float64(svm.score(*data))]
        results.append([*answers, *map(str, svm.predict(data[0])), str(svm.predict_kbest(data[0], 2))])
    expect_same(*results)
