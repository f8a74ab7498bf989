"""Trainers of authors who forgot, mistyped or misread one thing."""

from __future__ import annotations

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


class YieldsNone(Right):
    def told(self, iterate):
        return None


class YieldsWeights(Right):
    def told(self, iterate):
        return iterate.w


class YieldsTuples(Right):
    def told(self, iterate):
        return iterate.w, iterate.n_passes


class WithoutStart(Right):
    def steps(self, problem, stop):
        return super().steps(problem, stop)


class StepsAlone(Right):
    def steps(self, problem):
        return super().steps(problem, None)


class ListWeights(Right):
    def told(self, iterate):
        return Iterate(iterate.w.tolist(), iterate.n_passes, iterate.primal, iterate.upper)


class ShortWeights(Right):
    def told(self, iterate):
        return Iterate(iterate.w[:-1], iterate.n_passes, iterate.primal, iterate.upper)


class IntegerWeights(Right):
    def told(self, iterate):
        return Iterate(iterate.w.astype(int), iterate.n_passes, iterate.primal, iterate.upper)


class ColumnWeights(Right):
    def told(self, iterate):
        return Iterate(iterate.w[:, None], iterate.n_passes, iterate.primal, iterate.upper)


class NanWeights(Right):
    def told(self, iterate):
        return Iterate(iterate.w * np.nan, iterate.n_passes, iterate.primal, iterate.upper)


class TextPrimal(Right):
    def told(self, iterate):
        return Iterate(iterate.w, iterate.n_passes, "1.0", None)


class NonePasses(Right):
    def told(self, iterate):
        return Iterate(iterate.w, None, iterate.primal, iterate.upper)


class PlaneOfOne(Right):
    def told(self, iterate):
        return Iterate(iterate.w, iterate.n_passes, iterate.primal, iterate.upper, 0.0, plane=(iterate.w,))


class RaisesLater(Right):
    def told(self, iterate):
        raise KeyError("w")


class UnknownOfProblem(Right):
    def steps(self, problem, stop, start=None):
        yield Iterate(np.zeros(problem.n_features), 1.0)


