"""Certificates: what a report says is true in exact arithmetic, for features, oracles and trainers of all kinds.

Small models are enumerated with fractions: the objective at the weights returned is known exactly, and so is that at
weights of an independent solver, which no lower bound may exceed.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import clarabel
import numpy as np
from scipy import sparse

from model_table import tagger
from ssvm_dsl import POTTS, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain, complete, register
from ssvm_dsl.errors import BackendFault, SsvmError
from ssvm_dsl.ir import Guarantee
from ssvm_dsl.plugin_api import BackendSpec, Iterate, TrainerSpec, hookimpl
from ssvm_dsl.registry import registry

UNIT = "certificates"
SHORT = 3
LIMIT = 60.0

WIDTH = 2

#: Trainers by risk; those of margins take squared risks where they say so.
TRAINERS = {
    "margin": ("bcfw", "n-slack", "one-slack", "bundle", "smo", "subgradient", "adam", "perceptron", "tall-tales"),
    "slack": ("bcfw", "n-slack", "bundle", "subgradient"),
    "hm": ("bcfw", "one-slack", "bundle", "subgradient"),
    "perceptron": ("bcfw", "bundle", "perceptron"),
}
SQUARED = ("n-slack", "bundle", "subgradient")

#: Oracles of loops, by what their answers are worth; chains have the exact one.
ORACLES = ("auto", "brute-force", "trws", "lp", "icm")


Chain = tagger(WIDTH, 2)


class Agreeing(Chain):
    trans = Factor(chain(Chain.y), form=POTTS, nonneg=True)


class Loop(Model):
    K = Dim(4)
    x = Input(K, WIDTH)
    y = Label(K, 2)
    emit = Factor(y, features=x)
    trans = Factor(complete(y))
    loss = Hamming(y)


def joint_features(model: type[Model], x: Any, y: tuple[int, ...]) -> list[Fraction]:
    """Return ``Phi(x, y)`` exactly: emissions by state and feature, then pairs."""
    emit = [[Fraction(0)] * WIDTH for _ in range(2)]
    pairs = [Fraction(0)] * (1 if model is Agreeing else 4)
    for row, state in zip(x, y):
        for k in range(WIDTH):
            emit[state][k] += Fraction(float(row[k]))
    neighbours = itertools.combinations(y, 2) if model is Loop else itertools.pairwise(y)
    for a, b in neighbours:
        if model is not Agreeing:
            pairs[2 * a + b] += 1
        elif a == b:
            pairs[0] += 1
    return [*emit[0], *emit[1], *pairs]


@dataclass(frozen=True, eq=False)
class Exact:
    """The objective ``1/2 sum_j scale_j w_j^2 + C sum_i weight_i risk_i(w)^power`` of listed planes."""

    planes: list[list[tuple[Fraction, list[Fraction]]]]
    C: float
    weight: np.ndarray
    scale: np.ndarray
    power: int
    nonneg: np.ndarray

    def value(self, w: np.ndarray) -> Fraction:
        """Return the objective."""
        at = [Fraction(float(number)) for number in w]
        total = sum((Fraction(float(s)) * a * a for s, a in zip(self.scale, at)), Fraction(0)) / 2
        for rows, weight in zip(self.planes, self.weight):
            risk = max(b + sum(p * a for p, a in zip(slope, at) if a) for b, slope in rows)
            total += Fraction(self.C) * Fraction(float(weight)) * risk**self.power
        return total

    def good_weights(self) -> np.ndarray:
        """Return weights near the optimum by an interior-point method, each weight in units of its features."""
        n, dim = len(self.planes), len(self.scale)
        slopes = np.array([[float(p) for p in slope] for rows in self.planes for _, slope in rows])
        unit = 1.0 / np.maximum(np.abs(slopes).max(axis=0), 1.0)
        owner = np.repeat(np.arange(n), [len(rows) for rows in self.planes])
        of_slack = -np.eye(n)
        A = np.block([
            [slopes * unit, of_slack[owner]],
            [np.zeros((n, dim)), of_slack],
            [-np.eye(dim)[self.nonneg], np.zeros((self.nonneg.sum(), n))],
        ])  # fmt: skip
        b = np.concatenate([[-float(at) for rows in self.planes for at, _ in rows], np.zeros(len(A) - len(slopes))])
        price = self.C * self.weight
        quadratic = np.concatenate([self.scale * unit**2, 2.0 * price if self.power == 2 else np.zeros(n)])
        linear = np.concatenate([np.zeros(dim), price if self.power == 1 else np.zeros(n)])
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        P, cones = sparse.csc_matrix(sparse.diags(quadratic)), [clarabel.NonnegativeConeT(len(b))]
        found = clarabel.DefaultSolver(P, linear, sparse.csc_matrix(A), b, cones, settings).solve()
        w = np.nan_to_num(np.array(found.x[:dim])) * unit
        return np.where(self.nonneg, np.maximum(w, 0.0), w)


def listed(model: type[Model], X: list[Any], Y: list[Any], risk: str) -> list[list[tuple[Fraction, list[Fraction]]]]:
    """Return (value at 0, slope) of the planes of all labellings, for each example."""
    out = []
    for x, y in zip(X, Y):
        truth, rows = joint_features(model, x, tuple(y)), []
        for labels in itertools.product(range(2), repeat=len(y)):
            wrong = Fraction(sum(int(a != b) for a, b in zip(labels, y)))
            slope = [p - t for p, t in zip(joint_features(model, x, labels), truth)]
            if risk == "slack":
                slope = [wrong * p for p in slope]
            at_zero = {"margin": wrong, "slack": wrong, "hm": Fraction(int(wrong > 0)), "perceptron": Fraction(0)}[risk]
            rows.append((at_zero, slope))
        out.append(rows)
    return out


class TallTales:
    """A trainer that makes up its numbers: subgradient steps with objectives and bounds from nowhere."""

    def __init__(self, random_state: Any = None) -> None:
        self.random = np.random.default_rng(random_state)

    def steps(self, problem: Any, stop: Any, start: Any = None) -> Any:
        w, objective, random = np.zeros(problem.dim), problem.objective, self.random
        for t in itertools.count(1):
            primal, upper, planes = problem.evaluate(w)
            shown = w if random.random() < 0.5 else w * random.normal()
            tale = primal * random.choice([0.0, 0.5, 1.0, 2.0])
            dual = random.choice([-np.inf, 0.0, tale, 0.999999 * tale, 2.0 * primal])
            yield Iterate(np.maximum(shown, objective.lower), t, tale, random.choice([tale, upper]), dual)
            w *= 1.0 - 1.0 / t
            problem.accumulate(planes, objective.weight / (objective.lam * t * problem.n), w)
            np.maximum(w, objective.lower, out=w)


@hookimpl
def ssvm_trainers() -> list[TrainerSpec]:
    return [TrainerSpec("tall-tales", f"{__name__}:TallTales", "makes up its numbers")]


def trial(rng: np.random.Generator, scratch: Path) -> int:
    model = [Chain, Agreeing, Loop][rng.integers(3)]
    risk = str(rng.choice(list(TRAINERS), p=[0.55, 0.15, 0.15, 0.15]))
    n, C = int(rng.integers(1, 4)), float(10.0 ** rng.uniform(-2, 2))
    X = [rng.normal(size=(4 if model is Loop else int(rng.integers(1, 5)), WIDTH)) for _ in range(n)]
    big = float(10.0 ** rng.choice([-6, 0, 0, 3, 6, 9, 12, 15, 20]))
    for x in X:
        if rng.random() < 0.5:
            x[..., : rng.integers(1, WIDTH + 1)] *= big
    Y = [rng.integers(0, 2, size=len(x)) for x in X]
    weight = rng.choice([0.5, 1.0, 2.0], size=n)
    emit = float(rng.choice([0.1, 1.0, 1.0]))
    power = 2 if risk != "perceptron" and rng.random() < 0.25 else 1
    dim = 5 if model is Agreeing else 8
    scale, nonneg = np.where(np.arange(dim) < 2 * WIDTH, emit, 1.0), np.arange(dim) >= (4 if model is Agreeing else dim)
    exact = Exact(listed(model, X, Y, risk), C, weight, scale, power, nonneg)
    known = [name for name in TRAINERS[risk] if power == 1 or name in SQUARED]
    rng.shuffle(known)
    settings = {"C": C, "risk": risk, "power": float(power), "regularization": {"emit": emit}, "n_threads": 1}
    fits = []
    for name in known[:2]:
        backend = str(rng.choice(ORACLES)) if model is Loop else "auto"
        fits.append((name, backend, fitted(model, X, Y, weight, trainer=name, backend=backend, **settings)))
    best = exact.value(exact.good_weights())
    told = f"{model.__name__} {risk}^{power}, C={C:.3g}, up to {big:g}"
    for name, backend, svm in fits:
        if svm is not None:
            check(svm, exact, best, f"{told}, {name}, {backend}")
    return sum(svm is not None for _, _, svm in fits)


def fitted(model: type[Model], X: list[Any], Y: list[Any], weight: np.ndarray, **settings: Any) -> Any:
    """Return a fitted estimator; ``None`` where trainer, risk and backend do not go together, or steps run away."""
    if "tall-tales" not in [spec.name for spec in registry().specs(TrainerSpec)]:
        register(sys.modules[__name__], "tall tales")
    svm = StructuredSVM(model, tol=1e-4, max_passes=30, random_state=0, guarantee="heuristic", **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return svm.fit(X, Y, sample_weight=weight)
        except BackendFault:
            raise
        except SsvmError:
            return None


def exact_backend(name: str) -> bool:
    """Whether its answers are best labellings; others bound the objective from above."""
    return registry().find(BackendSpec, name).caps.guarantee is Guarantee.EXACT


def check(svm: Any, exact: Exact, best: Fraction, told: str) -> None:
    """Compare a report with the exact objective at its weights, and at others that are known."""
    report, w = svm.report_, np.concatenate([np.ravel(svm.weights_[name]) for name in ("emit", "trans")])
    true, off, tiny = exact.value(w), Fraction(report.rounding), Fraction(1, 10**300)
    told = f"{told}: objective {float(true)!r}, best known {float(best)!r}, {report.summary()}"
    best = min(best, true)
    assert not (w[exact.nonneg] < 0.0).any(), told
    assert report.certified == np.isfinite(report.gap), told
    assert Fraction(report.estimate) <= true + off + tiny, told
    if np.isfinite(report.primal):
        assert Fraction(report.primal) >= true - off - tiny, told
        assert report.primal >= report.dual, told
        if exact_backend(svm.plan_.backend) and svm.risk != "slack":
            assert abs(Fraction(report.primal) - true) <= off + tiny, told
    else:
        found = registry().find(BackendSpec, svm.plan_.backend)
        assert found.caps.guarantee is Guarantee.HEURISTIC, told
    if np.isfinite(report.dual):
        assert Fraction(report.dual) <= best, told
    if report.certified:
        assert Fraction(report.gap) * (1 + Fraction(1, 10**12)) + tiny >= true - best, told
    if report.converged:
        assert report.certified, told
        assert float(true - best) <= 1e-4 * float(true) * (1.0 + 1e-9), told
    duals = [event.best_dual for event in report.history if np.isfinite(event.best_dual)]
    assert all(Fraction(dual) <= best for dual in duals), told
