"""The files that ``ssvm plugins new --trainer`` writes.

The trainer is small and certifies: one plane for all examples, moved towards the newest one as far as the dual rises.
"""

from __future__ import annotations

from ssvm_dsl.cli.plugins.templates import PackageTemplate

HOOKS = '''\
"""What ssvm-dsl reads at start: descriptions only, the trainer is not imported here."""

from ssvm_dsl.plugin_api import Option, RiskForm, TrainerNeeds, TrainerSpec, hookimpl


@hookimpl
def ssvm_trainers():
    needs = TrainerNeeds(
        risks=frozenset(),  # risks that it minimises by name
        forms=frozenset({RiskForm.PLANES}),  # and by form: every maximum over labellings
        strongly_convex=True,  # its weights follow from a plane, which takes a regulariser on each of them
    )
    bisections = Option("bisections", 40, "steps of the search for the best move", int, least=1)
    return [
        TrainerSpec(
            "{name}",
            "{module}.trainer:Trainer",
            "Frank-Wolfe steps on the dual, with one plane for all examples",
            needs=needs,
            options=(bisections,),
            resumable=True,  # it has state() and resume()
            certifies=True,  # its iterates carry a lower bound, and the plane behind it
        )
    ]
'''

TRAINER = '''\
"""Frank-Wolfe on the dual: the weights are those of one plane below the mean risk, which moves to the newest one."""

import numpy as np

from ssvm_dsl.plugin_api import Iterate


class Trainer:
    def __init__(self, bisections=40, random_state=None):
        self.bisections = bisections  # random_state: for trainers that draw numbers

    def steps(self, problem, stop, start=None):
        # The plane v = 0, b = 0 is below every risk.  A dual method has no use for weights to start from.
        return self.resume(problem, stop, {"v": np.zeros(problem.dim), "b": 0.0, "t": 0})

    def state(self):
        return {"v": self.v, "b": self.b, "t": self.t}

    def resume(self, problem, stop, state):
        objective = problem.objective
        self.v, self.b, self.t = state["v"].copy(), float(state["b"]), int(state["t"])
        while True:
            w = objective.weights(self.v)  # those that attain the lower bound of the plane b - v . w
            primal, upper, planes = problem.evaluate(w)  # one oracle call for each example
            dual, plane = objective.dual(self.v, self.b), (self.v.copy(), self.b)
            share = objective.weight[planes.examples] / problem.n
            v = problem.accumulate(planes, share, np.zeros(problem.dim))  # mean of psi = Phi(truth) - Phi(labels)
            self.move(objective, v, float(share @ planes.loss))
            self.t += 1  # what state() tells is what the next iterate starts from
            yield Iterate(w, n_passes=self.t, primal=primal, upper=upper, dual=dual, plane=plane)

    def move(self, objective, v, b):
        """Go to the best point between the plane at hand and a new one; the dual is concave in between."""
        lo, hi = 0.0, 1.0
        for _ in range(self.bisections):
            one, two = lo + (hi - lo) / 3, hi - (hi - lo) / 3
            if self.dual(objective, v, b, one) < self.dual(objective, v, b, two):
                lo = one
            else:
                hi = two
        self.v, self.b = self.v + lo * (v - self.v), self.b + lo * (b - self.b)

    def dual(self, objective, v, b, part):
        return objective.dual(self.v + part * (v - self.v), self.b + part * (b - self.b))
'''

TEST = '''\
"""The conformance kit of ssvm-dsl: everything the trainer claims, against a reference trainer and brute force."""


def test_conformance(trainer_conformance):
    trainer_conformance("{name}")
'''

TEMPLATE = PackageTemplate(
    "trainer",
    HOOKS,
    {"trainer.py": ("the trainer: `steps`, `state`, `resume`", TRAINER)},
    ("test_{module}.py", "the conformance kit", TEST),
    "Use it by name: `StructuredSVM(MyModel, trainer=\"{name}\")`.",
)
