"""Trainers of authors who forgot, mistyped or misread one thing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ssvm_dsl.plugin_api import Iterate, TrainerNeeds, TrainerSpec


def spec_of(trainer):
    return TrainerSpec(trainer.__name__, f"{__name__}:{trainer.__name__}", needs=TrainerNeeds(strongly_convex=True))


class Right:
    """The subgradient method; the others get one thing wrong."""

    def __init__(self, random_state=None):
        pass

    def steps(self, problem, stop, start=None):
        w = np.zeros(problem.dim)
        for t in range(1, 30):
            primal, upper, planes = problem.evaluate(w)
            yield self.told(Iterate(w.copy(), t, primal, upper))
            share = problem.objective.weight[planes.examples] / problem.n
            v = problem.accumulate(planes, share, np.zeros(problem.dim))
            w -= (problem.objective.lam * problem.objective.scale * w - v) / (problem.objective.lam * t)
            w = np.maximum(w, problem.objective.lower)

    def told(self, iterate):
        return iterate


class NoSteps:
    def __init__(self, random_state=None):
        pass


class NoSeed(Right):
    def __init__(self):
        pass


class ReturnsWeights(Right):
    def steps(self, problem, stop, start=None):
        return np.zeros(problem.dim)


class ReturnsNone(Right):
    def steps(self, problem, stop, start=None):
        return None


class YieldsNothing(Right):
    def steps(self, problem, stop, start=None):
        return iter(())


class WithoutStart(Right):
    def steps(self, problem, stop):
        return super().steps(problem, stop)


class StepsAlone(Right):
    def steps(self, problem):
        return super().steps(problem, None)


#: What is yielded in place of an iterate.
CHANGES = {
    "YieldsNone": lambda iterate: None,
    "YieldsWeights": lambda iterate: iterate.w,
    "YieldsTuples": lambda iterate: (iterate.w, iterate.n_passes),
    "ListWeights": lambda iterate: replace(iterate, w=iterate.w.tolist()),
    "ShortWeights": lambda iterate: replace(iterate, w=iterate.w[:-1]),
    "IntegerWeights": lambda iterate: replace(iterate, w=iterate.w.astype(int)),
    "ColumnWeights": lambda iterate: replace(iterate, w=iterate.w[:, None]),
    "NanWeights": lambda iterate: replace(iterate, w=iterate.w * np.nan),
    "TextPrimal": lambda iterate: replace(iterate, primal="1.0", upper=None),
    "NonePasses": lambda iterate: replace(iterate, n_passes=None),
    "PlaneOfOne": lambda iterate: replace(iterate, dual=0.0, plane=(iterate.w,)),
}
for _name, _change in CHANGES.items():
    globals()[_name] = type(_name, (Right,), {"told": staticmethod(_change)})


class RaisesLater(Right):
    def told(self, iterate):
        raise KeyError("w")


class UnknownOfProblem(Right):
    def steps(self, problem, stop, start=None):
        yield Iterate(np.zeros(problem.n_features), 1.0)


