"""A trainer that keeps its promises, and ones that break one each, for the conformance kit."""

from itertools import count, islice
from os import urandom

import numpy as np

from ssvm_dsl.plugin_api import Iterate, TrainerNeeds, TrainerSpec

NEEDS = TrainerNeeds(strongly_convex=True)


class Honest:
    """Frank-Wolfe on the dual with exact line search: w of an aggregated plane that moves to the newest one."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def steps(self, problem, stop, start=None):
        return self.resume(problem, stop, {"v": np.zeros(problem.dim), "b": 0.0, "t": 0})

    def state(self):
        return {"v": self.v, "b": self.b, "t": self.t}

    def resume(self, problem, stop, state):
        self.v, self.b, self.t = state["v"].copy(), float(state["b"]), int(state["t"])
        return self.iterates(problem)

    def iterates(self, problem):
        objective = problem.objective
        while True:
            w = self.weights(objective)
            primal, upper, planes = problem.evaluate(w)
            plane = (self.v.copy(), self.b)
            iterate = self.told(Iterate(w, self.t + 1, primal, upper, objective.dual(*plane), plane=plane))
            share = objective.weight[planes.examples] / problem.n
            v, b = problem.accumulate(planes, share, np.zeros(problem.dim)), float(share @ planes.loss)
            ladder = np.linspace(0.0, 1.0, 65)
            duals = [objective.dual(self.v + g * (v - self.v), self.b + g * (b - self.b)) for g in ladder]
            best = float(ladder[int(np.argmax(duals))]) or 1.0 / (self.t + 2)
            self.v, self.b = self.v + best * (v - self.v), self.b + best * (b - self.b)
            self.t += 1
            yield iterate

    def weights(self, objective):
        return objective.weights(self.v)

    def told(self, iterate):
        return iterate


def spec(name, kind="Honest", **more):
    settings = {"needs": NEEDS, "resumable": True, **more}
    return TrainerSpec(name, f"{__name__}:{kind}", **settings)


class DualAbove(Honest):
    """Its plane is above the mean risk, and so its lower bound above the optimum."""

    def told(self, iterate):
        v, b = iterate.plane
        return Iterate(iterate.w, iterate.n_passes, dual=iterate.dual + 0.5, plane=(v, b + 0.5))


class Optimist(Honest):
    """Tells an objective that its weights do not have."""

    def told(self, iterate):
        w, upper = iterate.w, 0.9 * iterate.upper
        return Iterate(w, iterate.n_passes, iterate.primal, upper, iterate.dual, plane=iterate.plane)


class Forgetful(Honest):
    """Forgets the number of steps, which the next one depends on, and one of the two numbers of its plane."""

    def state(self):
        return {"v": self.v, "b": 0.0, "t": 0}


class Unseeded(Honest):
    def weights(self, objective):
        return super().weights(objective) + 1e-3 * int.from_bytes(urandom(2)) / 2**16


class Stuck(Honest):
    """Never moves."""

    def weights(self, objective):
        self.v, self.b = np.zeros_like(self.v), 0.0
        return self.v.copy()


class Deaf(Honest):
    """Does not stop when time is up."""

    def iterates(self, problem):
        for t in count(1):
            try:
                primal, upper, _ = problem.evaluate(np.zeros(problem.dim))
            except Exception:
                continue
            yield Iterate(np.zeros(problem.dim), t, primal, upper)


class Endless(Honest):
    """Asks once, and makes the same iterate from then on, whether or not time is up."""

    def iterates(self, problem):
        primal, upper, _ = problem.evaluate(np.zeros(problem.dim))
        for t in count(1):
            yield Iterate(np.zeros(problem.dim), t, primal, upper)


class Brief(Honest):
    """Makes three iterates, the first of which alone takes time."""

    def iterates(self, problem):
        return islice(Endless.iterates(self, problem), 3)


class Overwriting(Honest):
    def steps(self, problem, stop, start=None):
        if start is not None:
            start[:] = 0.0
        return super().steps(problem, stop)


class Unbounded(Honest):
    """Ignores the lower bounds of weights."""

    def weights(self, objective):
        return self.v / objective.lam - 0.1


class Guessing(Honest):
    """Concludes with a lower bound that is made up."""

    def certified(self):
        return Iterate(np.zeros_like(self.v), 1.0, plane=(np.zeros_like(self.v), 100.0), dual=100.0)


class Streaming(Honest):
    """Goes on from what the object remembers, not from the state."""

    def partial(self, problem, state=None):
        self.seen = getattr(self, "seen", 0) + 1
        return np.full(problem.dim, float(self.seen)), {"seen": self.seen}


class Asking:
    """Honest subgradient steps on examples in any order, some of them twice, and fewer or more than there are."""

    def __init__(self, draw="permuted", random_state=None):
        self.draw, self.random = draw, np.random.default_rng(random_state)

    def steps(self, problem, stop, start=None):
        objective, n = problem.objective, problem.n
        w = np.zeros(problem.dim) if start is None else start.copy()
        draws = {
            "permuted": lambda: self.random.permutation(n),
            "replaced": lambda: self.random.integers(n, size=n),
            "few": lambda: self.random.integers(n, size=max(1, n // 3)),
            "many": lambda: self.random.integers(n, size=2 * n + 1),
        }
        for t in count(1):
            planes = problem.oracle(w, draws[self.draw]())
            step = 1.0 / (objective.lam * (t + 1))
            w = w * (1 - step * objective.lam)
            problem.accumulate(planes, step * objective.weight[planes.examples] / len(planes.examples), w)
            np.maximum(w, objective.lower, out=w)
            primal, upper, _ = problem.evaluate(w)
            yield Iterate(w, t, primal, upper)
