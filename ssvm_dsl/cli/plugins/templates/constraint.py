"""The files that ``ssvm plugins new --constraint`` writes: at most one true literal among neighbours in the order."""

from __future__ import annotations

from ssvm_dsl.cli.plugins.templates import PackageTemplate

HOOKS = '''\
"""What ssvm-dsl reads at start: descriptions only, the kind is not imported here."""

from ssvm_dsl.plugin_api import ConstraintSpec, Option, hookimpl


@hookimpl
def ssvm_constraints():
    summary, gap = "true literals stand at least gap places apart", Option("gap", 2, "places", int, least=1)
    return [ConstraintSpec("{name}", "{module}.kind:Kind", summary, parameters=(gap,))]
'''

KIND = '''\
"""True literals of a constraint stand at least ``gap`` places apart: its literals are in an order."""

import numpy as np

from ssvm_dsl.ir import ConstraintGroup, Program, Theta
from ssvm_dsl.plugin_api import LinearRows


class Kind:
    def violated(self, group, true):
        """Return which constraints two true literals break that stand too close; ``true`` has all literals."""
        broken = np.zeros(group.n_constraints, dtype=bool)
        for k in range(group.n_constraints):
            places = np.flatnonzero(true[group.literals(k)])
            broken[k] = (np.diff(places) < group.meta["gap"][k]).any()
        return broken

    def rows(self, group, k):
        """Return x_a + x_b <= 1 for all places a < b that are less than ``gap`` apart: exact, as 0/1 points go."""
        n, gap = len(group.variable[group.literals(k)]), int(group.meta["gap"][k])
        pairs = [(a, b) for a in range(n) for b in range(a + 1, min(n, a + gap))]
        columns = np.array(pairs, dtype=np.int32).ravel()
        m = len(pairs)
        return LinearRows(2 * np.arange(m + 1), columns, np.ones(2 * m), np.full(m, -np.inf), np.ones(m))

    def start(self, group, k, scores):
        """Return states that keep constraint k, found at once: the best literals, one after the other, or None."""
        gain, gap = scores.gain, int(group.meta["gap"][k])
        true = gain == np.inf
        for place in np.argsort(-gain, kind="stable"):
            near = np.abs(np.flatnonzero(true) - place)
            if gain[place] > 0.0 and not (near < gap).any():
                true[place] = True
        kept = (np.diff(np.flatnonzero(true)) >= gap).all()  # else masks ask for two that are too close
        return scores.labels(true) if kept else None

    def best_truth(self, group, k, gain):
        """Return the best truth values that keep constraint k, or None; `ad3` asks it; gains of +-inf decide."""
        gap, before = int(group.meta["gap"][k]), [(0.0, [])]  # of the first places: the gain, and the true ones
        for place, worth in enumerate(gain):
            first, found = max(0, place + 1 - gap), []
            if worth < np.inf and before[place] is not None:
                found.append(before[place])
            if worth > -np.inf and before[first] is not None and (gain[first:place] < np.inf).all():
                total, true = before[first]
                found.append((total + (worth if worth < np.inf else 0.0), [*true, place]))
            before.append(max(found, key=lambda one: one[0]) if found else None)
        return None if before[-1] is None else np.isin(np.arange(len(gain)), before[-1][1])

    def explain(self, group, k, true):
        """Return how literals break constraint k, as a user reads it."""
        places = np.flatnonzero(true)
        close = int(np.flatnonzero(np.diff(places) < group.meta["gap"][k])[0])
        return f"places {places[close]} and {places[close + 1]} are both true, expected a gap of {group.meta['gap'][k]}"

    def problem(self, rng):
        """Return a small problem for the kit: three examples, the last without a constraint; some have no labelling."""
        n, gap = 6, int(rng.integers(1, 4))
        places = np.concatenate([np.arange(n), rng.permutation(n)]).astype(np.int32)  # counted within each example
        group = ConstraintGroup(
            "{name}", "apart", ptr=np.array([0, 1, 2, 2]), literal_ptr=np.array([0, n, 2 * n]), variable=places,
            state=np.ones(2 * n, dtype=np.int32), negated=rng.random(2 * n) < 0.2, meta={"gap": np.array([gap, 2])},
        )
        allowed = np.ones(6 * n, dtype=bool)
        allowed[2 * rng.choice(2 * n, 3, replace=False)] = False  # these variables have state 1
        program = Program(np.array([0, n, 2 * n, 3 * n]), np.full(3 * n, 2, np.int32), (), (group,), allowed=allowed)
        return program, Theta.of(program, rng.normal(size=6 * n))
'''

TEST = '''\
"""The conformance kit of ssvm-dsl, and a model with the constraint."""

import numpy as np

from ssvm_dsl import Constraint, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM


class Events(Model):
    T = Dim()
    x = Input(T, 2)
    y = Label(T, 2)
    emit = Factor(y, features=x)
    apart = Constraint("{name}", y.is_(1), gap=3)
    loss = Hamming(y)


def test_conformance(constraint_conformance):
    constraint_conformance("{name}")


def test_predictions_keep_it():
    Y = [np.array([1, 0, 0, 1, 0, 0, 1]), np.array([0, 1, 0, 0, 0, 1])]
    X = [np.stack([2.0 * y - 1.0, np.ones(len(y))], axis=1) for y in Y]
    svm = StructuredSVM(Events, C=10.0, tol=0.1).fit(X, Y)
    found = svm.predict([np.ones((8, 2))])[0]
    assert (np.diff(np.flatnonzero(found)) >= 3).all()
'''

TEMPLATE = PackageTemplate(
    "kind of constraints",
    HOOKS,
    {"kind.py": ("the kind: `violated`, `rows`, `problem`, `start`, `best_truth`, `explain`", KIND)},
    ("test_{module}.py", "the conformance kit, and a fit", TEST),
    'Use it by name in a model: `Constraint("{name}", y.is_(1), gap=3)`.',
)
