"""Attacks the promise that a declaration is accepted as it is written, or refused with all its mistakes.

Declarations are drawn from right and wrong arguments, extreme numbers, odd names and features inside features.  What is
built prints, counts its weights and comes back from JSON as it was; what is refused has lines and sentences; text that
is no declaration gives an error of files.  Nothing else is ever raised, and nothing takes long.
"""

from __future__ import annotations

import json
from contextlib import suppress
from fractions import Fraction

import numpy as np

import ssvm_dsl as s
from ssvm_dsl.errors import FileFormatError, ModelError, OptionError
from ssvm_dsl.lang.features.sources import Concat
from ssvm_dsl.lang.inputs import Source

UNIT = "declarations"
SHORT = 8
LIMIT = 20.0


def double(x):
    return 2 * x


def ask_all(**inputs):
    return inputs


def count_loss(tp, fp, fn, tn):
    return fp + fn


REPLACEMENTS = (
    None, True, 0, 2, -1, 1.5, 1e308, 10**30, "x", "T", "Dim", "Hamming", "", [], {}, [[]], {"ref": "dim0"},
    {"ref": "?"}, {"make": "Dim", "args": [10**30]}, {"make": "LossSum", "args": [[[1, 2]]]}, {"quantiles": 1},
    {"form": "indicator", "values": [1], "shape": [1]}, {"function": "os:nothing"}, {"function": "math:pi"},
)  # fmt: skip


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no text")


ODD = (
    None, True, 0, 1, 2, 3, -1, 7, 30, 31, 2**31 - 1, 2**31, 2**63, 10**400, -(10**5000), 0.0, 0.5, 1.0, -0.0, 1e308,
    float("inf"), float("nan"), 1j, "a", "ab", "aa", "", "\0", "a\0", "\ud800", "é", b"ab", (), [], [1, 2], ["a", "b"],
    [[0, 1], [1, 0]], [[0.0, np.nan], [1.0, 0.0]], [["a"], ["b"]], {1, 2}, {"a": 1}, frozenset("ab"), range(3),
    np.float64(2.0), np.int64(3), np.arange(3), np.eye(2), np.eye(3)[None], np.ma.array([1.0, 2.0], mask=[0, 1]),
    np.array([[0, 1j], [1, 0]]), np.ma.masked, Fraction(1, 3), object, np.float64, object(), double, max, len,
    Unprintable(), s.FULL, s.POTTS, s.SYMMETRIC, s.Form("indicator"), s.Form("basis", ("a",), (1, 2)), s.Form(3),
    s.Form("basis", (1.0, 2.0), (1, 2)), s.Quantiles(3), s.Quantiles([1]), s.Quantiles(10**30), "f1", "f_beta", "edge",
    "observed", "all", [(0, 1)], [(0, 0)], [(0, 10**30)], [tuple(range(100))], (2, 3), iter([1, 2]),
)  # fmt: skip

NAMES = ("T", "x", "loss", "é", "_p", "class", "__slots__", "__x__", "mro", "2x", "", "a b", "a\0", "\ud800", 3, None)


class Author:
    """Writes a model: mostly sensible arguments, now and then odd ones."""

    def __init__(self, rng):
        self.rng = rng
        self.builder = s.ModelBuilder(self.one(["M", "my model", "M", "M", "M"] * 9 + ["\0", "\ud800", 5, ""]))
        self.oddness = float(rng.choice([0.0, 0.02, 0.1, 0.3]))
        kinds = ("dim", "input", "label", "edges", "source", "target", "factor", "rule", "loss")
        self.made = {kind: [] for kind in kinds}

    def one(self, choices):
        return choices[int(self.rng.integers(len(choices)))]

    def arg(self, *sensible):
        """One of some sensible values (functions are called for theirs), or something odd."""
        if self.rng.random() < self.oddness or not sensible:
            return self.one(ODD)
        found = self.one(sensible)
        return found() if callable(found) and getattr(found, "__name__", "") == "<lambda>" else found

    def old(self, kind):
        """A part that was made before, or, rarely, one that belongs to no model."""
        if not self.made[kind] or self.rng.random() < 0.3 * self.oddness:
            return self.fresh(kind)
        return self.one(self.made[kind])

    def fresh(self, kind):
        return getattr(self, kind)()

    def flag(self):
        return self.arg(True, False)

    def axes(self, most=2):
        dims = self.made["dim"]
        chosen = self.rng.permutation(len(dims))[: int(self.rng.integers(most + 1))]
        return [self.arg(lambda k=k: dims[k]) for k in chosen.tolist()]

    def dim(self):
        return s.Dim(self.arg(None, 2, 2, 3, 6))

    def input(self):
        if self.rng.random() < 0.2:
            return s.Attributes(*self.axes(1))
        if self.rng.random() < 0.2:
            return s.Input(*self.axes(1), self.arg(5, 10**6), sparse=self.flag())
        return s.Input(*self.axes(), *[self.arg(1, 2, 5, 2**20) for _ in range(int(self.rng.integers(3)))])

    def label(self):
        if self.rng.random() < 0.2:
            return s.Label(*self.axes(1), over=self.arg(lambda: self.old("dim")), null=self.flag())
        if self.rng.random() < 0.2:
            return s.Label(*self.axes(1), self.arg(2, "abc", 40000), segments=self.arg(1, 2, 8))
        made = s.Latent if self.rng.random() < 0.1 else s.Label
        mask = {"allowed": self.arg(lambda: self.old("input"))} if self.rng.random() < 0.5 * self.oddness else {}
        if made is s.Label and self.rng.random() < 0.2:
            mask["unknown"] = self.arg(-1, -1, 255, "?", 1)
        states = self.arg(2, 2, 3, "ab", "abc", ["no", "yes"], (5, -7), 10**9, 40000, range(4), ["O", "B-a", "I-a"])
        return made(*self.axes(), states, **mask)

    def edges(self):
        first, second = (self.made["dim"] * 2)[:2]
        if self.rng.random() < 0.3:
            return s.Edges(self.arg(first), over=self.arg([second, first], (second, self.old("dim"))))
        size = {"arity": self.arg(2, 3, 4)} if self.rng.random() < 0.3 else {}
        return s.Edges(self.arg(first), over=self.arg(second), **size)

    def source(self):
        """A feature, sometimes of others, now and then very many of them."""
        if self.rng.random() < 0.05:
            return self.tower()
        inner = self.arg(lambda: self.old("source"), lambda: self.old("input"))
        return self.one([
            lambda: inner,
            lambda: s.Standardized(inner),
            lambda: s.Whitened(inner),
            lambda: s.Polynomial(inner, self.arg(1, 2, 3, 32)),
            lambda: s.RandomFourier(inner, self.arg(5, 500), gamma=self.arg("scale", 0.5), seed=self.arg(0, 3)),
            lambda: s.Nystroem(inner, self.arg(5), kernel=self.arg("rbf", "cosine"), degree=self.arg(2)),
            lambda: s.PLiF(inner, self.arg(s.Quantiles(4), [0.0, 1.0], (-1, 2, 3))),
            lambda: s.Hashed(inner, self.arg(8, 2**18)),
            lambda: Concat([inner, self.arg(lambda: self.old("input"))]),
            lambda: s.Feature(self.arg(double, ask_all), *self.axes(), width=self.arg(1, 2)),
            lambda: inner,
            lambda: inner,
            lambda: s.Feature(self.arg(double), self.arg(lambda: self.old("target")), width=self.arg(1, 2)),
            lambda: s.JointFeature(self.arg(double), width=self.arg(1, 2)),
            lambda: s.SpanLength(self.arg(lambda: self.old("target"))),
            lambda: self.one([s.SpanMean, s.SpanSum])(inner, self.arg(lambda: self.old("target"))),
        ])()  # fmt: skip

    def tower(self):
        """Features inside features, too many or just not."""
        source, wide = self.old("input"), self.rng.random() < 0.5
        for _ in range(int(self.rng.choice([3, 20, 31, 33, 60, 400]))):
            source = Concat([source, source]) if wide else s.Standardized(source)
        return source

    def target(self):
        y = self.arg(lambda: self.old("label"))
        if isinstance(y, s.Label) and self.rng.random() > self.oddness:
            n = len(y.dims)
            fit = [y, y.is_(y.classes[0] if y.classes else 0), s.complete(y)]
            fit += [s.chain(y)] * 2 if n == 1 else []
            fit += [s.spans(y), s.starts(y)] * 2 if y.segments is not None else []
            fit += [s.grid(y), s.pairs(y, y.dims[0])] if n == 2 else []
            return self.one(fit)
        return self.one([
            lambda: y,
            lambda: y.is_(self.arg(0, 1, "a", "yes")) if isinstance(y, s.Label) else y,
            lambda: s.chain(y, self.arg(1, 1, 2)),
            lambda: s.pairs(y, self.arg(lambda: self.old("dim"))),
            lambda: s.grid(y),
            lambda: s.complete(y),
            lambda: s.along(y, self.arg(lambda: self.old("edges"))),
            lambda: s.along((y, self.arg(lambda: self.old("label"))), self.arg(lambda: self.old("edges"))),
            lambda: s.cliques(y, self.arg([(0, 1)], [(0, 1, 2)], [[0], [1]])),
            lambda: s.cross(y, self.arg(lambda: self.old("label"))),
            lambda: s.spans(y),
            lambda: s.starts(y),
        ])()  # fmt: skip

    def factor(self):
        options, target = {}, self.arg(lambda: self.old("target"), lambda: self.old("label"))
        axes = target.dims if isinstance(target, s.Label) else getattr(target, "feature_axes", ())
        sources = [one for one in self.made["input"] + self.made["source"] if isinstance(one, Source)]
        fit = [one for one in sources if set(map(id, one.dims)) <= set(map(id, axes))]
        if self.rng.random() < 0.7 and fit:
            options["features"] = self.one(fit)
        elif self.rng.random() < self.oddness:
            options["features"] = self.arg(lambda: self.old("source"), lambda: [self.old("source"), self.old("input")])
        if self.rng.random() < 0.5 * self.oddness:
            options["form"] = self.arg(s.POTTS, s.SYMMETRIC, s.ANTISYMMETRIC, np.ones((2, 3)), np.ones((1, 2, 2)))
        if self.rng.random() < 0.1 + self.oddness:
            options["form"] = self.arg(s.FULL, s.FULL, s.POTTS)
        if self.rng.random() < self.oddness:
            options["per"] = self.arg("edge", lambda: self.old("dim"), lambda: [self.old("dim"), self.old("dim")])
        if self.rng.random() < self.oddness:
            options["tie"] = self.arg(lambda: self.old("factor"))
        if self.rng.random() < 0.2:
            options["nonneg"] = self.flag()
        if self.rng.random() < self.oddness:
            options["weights"] = self.arg("all", "observed")
        return s.Factor(target, **options)

    def literal(self):
        """Something that says "this variable has this class"."""
        y = self.arg(lambda: self.old("label"))
        if not isinstance(y, s.Label):
            return y
        made = y.is_(self.arg(y.classes[0] if y.classes else 0, 1, "a"))
        return s.Not(made) if self.rng.random() < 0.3 else made

    def literals(self):
        return self.one([self.literal, lambda: [self.literal(), self.literal()], lambda: self.arg()])()

    def rule(self):
        """What is ruled out, a constraint, or given scores."""
        y = self.arg(lambda: self.old("label"))
        target = self.arg(lambda: self.old("target"), lambda: y)
        cards = (target.n_states,) if isinstance(target, s.Label) else getattr(target, "cards", (2,))
        small = cards if np.prod([float(c) for c in cards]) < 10**4 else (2,)
        mask = self.rng.random(small) < 0.3
        along = {"along": self.arg(lambda: self.old("dim"))} if self.rng.random() < 0.3 else {}
        k = self.arg(1, 2, lambda: self.old("input"))
        one = self.literal()
        term = one if isinstance(one, s.Not | type(s.Label(2).is_(0))) else "x"
        first = y.at(0) if isinstance(y, s.Label) else y
        edges = self.arg(lambda: self.old("edges"))
        return self.one([
            lambda: s.Forbid(target, self.arg(mask, mask.tolist(), ["a"], [("a", "b")], [0])),
            lambda: s.Allow(target, self.arg(~mask, [1], [("O", "B-a")])),
            lambda: s.Forbid(self.arg(lambda: s.chain(y), lambda: first), s.BIO(y)),
            lambda: s.Forbid(self.arg(lambda: s.chain(y)), s.BIOES(self.arg(y, ["O", "S-a"]))),
            lambda: s.Duration(self.arg(y, lambda: s.spans(y)), least=self.arg(2, {"a": 2}), most=self.arg(None, 4),
                               cut=self.flag()),
            lambda: s.Same(target, self.arg(None, lambda: self.old("label"))),
            lambda: s.Different(target),
            lambda: s.Given(target, scores=self.arg(lambda: self.old("input"), np.where(mask, -np.inf, 0.5))),
            lambda: s.AtMost(k, self.literals(), **along),
            lambda: s.AtLeast(k, self.literals(), **along),
            lambda: s.Exactly(k, self.literals(), **along),
            lambda: s.ExactlyOne(self.literals(), **along),
            lambda: s.AnyOf(self.literal(), self.literal()),
            lambda: s.Implies(self.literal(), self.literal()),
            lambda: s.Linear({term: self.arg(2.0)}, self.arg("<=", ">=", "=="), self.arg(1.5)),
            lambda: s.Constraint(self.arg("count", "few-runs"), self.literals(), runs=self.arg(1)),
            lambda: s.Matching(self.literal(), rows=self.old("dim"), cols=self.arg(lambda: self.old("dim"))),
            lambda: s.Matching(self.literal(), self.old("dim"), self.old("dim"), row_limit=self.arg(None, 2),
                               col_limit=self.arg(lambda: self.old("input")), row_least=self.arg(1)),
            lambda: s.Path(self.literal(), edges, self.arg(0), self.arg(-1)),
            lambda: s.Circuit(self.literal(), edges, self.flag()),
            lambda: s.AllDifferent(y),
            lambda: s.Arborescence(y, single_root=self.flag()),
            lambda: s.ProjectiveTree(y),
        ])()  # fmt: skip

    def loss(self):
        y, ignore = self.arg(lambda: self.old("label")), {"ignore": self.arg(None)}
        if isinstance(y, s.Label) and self.rng.random() > self.oddness:
            n = min(y.n_states, 4)
            fit = [s.Hamming(y, normalize=self.flag()), s.ZeroOne(*self.made["label"])]
            fit += [s.CountLoss(y, positive=self.one(y.classes or (0,)))]
            fit += [s.Hamming(y, weights=range(n)), s.Cost(y, np.ones((n, n)) - np.eye(n))] if n == y.n_states else []
            fit += [s.Hamming(y) + 0.5 * s.Cost(self.arg(lambda: self.old("target")), "wrong")]
            return self.one(fit)
        nodes = {"node_weights": self.arg(None, None, lambda: self.old("input"))}
        made = self.one([
            lambda: s.Hamming(y, normalize=self.flag(), weights=self.arg(None, [1, 2], (1, 0.5, 2)), **ignore, **nodes),
            lambda: s.Cost(y, self.arg([[0, 1], [1, 0]], np.ones((3, 3)) - np.eye(3)), normalize=self.flag(), **nodes),
            lambda: s.Cost(self.arg(lambda: self.old("target")), self.arg("boundary", "wrong", np.eye(4)), **nodes),
            lambda: s.CountLoss(y, self.arg("f1", "iou", count_loss), positive=self.arg(None, 1, "a"), **ignore),
            lambda: s.CountLoss(y, "f_beta", beta=self.arg(0.5, 2), positive=self.arg(None, [1])),
            lambda: s.ZeroOne(*[self.old("label") for _ in range(int(self.rng.integers(3)))]),
            lambda: s.NoLoss(),
            lambda: s.CustomLoss(self.arg("mine"), y, depth=self.arg(1, "a", 2.5, True)),
        ])()  # fmt: skip
        if self.rng.random() < 0.3:
            made = self.one([0.5, 2, 0, 1e308, float("inf"), 10**400, np.float64(3.0)]) * made
        return made + self.old("loss") if self.rng.random() < 0.2 and self.made["loss"] else made

    def write(self):
        """Add symbols; targets and nameless features stay parts of others."""
        counts = {"dim": (2, 4), "input": (1, 3), "edges": (0, 2), "label": (1, 3), "target": (1, 3), "source": (1, 3)}
        for kind, span in (counts | {"factor": (1, 4), "rule": (0, 3)}).items():
            for k in range(int(self.rng.integers(*span))):
                part = self.fresh(kind)
                self.made[kind].append(part)
                if kind not in ("target", "source") or self.rng.random() < 0.5 * self.oddness:
                    odd = self.rng.random() < 0.2 * self.oddness
                    name = "x" if (kind, k) == ("input", 0) else f"{kind}{k}"
                    self.builder.add(self.one(NAMES) if odd else name, part)
        self.builder.loss(self.loss()) if self.rng.random() < 0.8 else None


def trial(rng, scratch):
    for _ in range(20):
        author = Author(rng)
        try:
            author.write()
            model = author.builder.build()
        except ModelError as err:
            check_error(err)
            continue
        check_model(model, rng)
    return 20


def check_error(err):
    """Every mistake is a sentence with its line."""
    assert err.mistakes, "refused without a mistake"
    for where, text in err.mistakes:
        assert isinstance(text, str), text
        assert text.strip(), "an empty sentence"
        assert where.startswith("fuzz_language.py:") or "the name of a model" in text, (where, text)
    str(err).encode("utf-8", "backslashreplace")


def check_model(model, rng):
    """A model that was accepted prints, and comes back from a file as it was."""
    declaration = model.declaration
    texts = str(model), model._repr_html_(), repr(declaration)
    assert all(texts)
    hash(declaration)
    count = declaration.n_weights()
    assert count is None or count >= 0
    if not all(ref.importable for ref in declaration.functions):
        return
    text = model.to_json()
    json.loads(text)
    again = s.Model.from_json(text, trusted=True)
    assert again.declaration == declaration, "another model comes back from JSON"
    assert again.to_json() == text
    assert str(again) == texts[0]
    for _ in range(3):
        read_damaged(text, rng)


def read_damaged(text, rng):
    """A file with something replaced is refused as a file, or for the mistakes of its model."""
    content = json.loads(text)
    place, key = content, "symbols"
    for _ in range(int(rng.integers(1, 7))):  # walk down to some entry
        inside = place[key]
        if not isinstance(inside, list | dict) or not inside:
            break
        place, key = inside, list(inside)[int(rng.integers(len(inside)))] if isinstance(inside, dict) else 0
        if isinstance(inside, list):
            key = int(rng.integers(len(inside)))
    place[key] = REPLACEMENTS[int(rng.integers(len(REPLACEMENTS)))]
    with suppress(FileFormatError, ModelError, OptionError):
        s.Model.from_json(json.dumps(content), trusted=True)
