"""The roads that the package of estimators describes are those that calls take."""

import re
import sys

import numpy as np
import pytest

import ssvm_dsl.learning.estimators as estimators
from model_table import tagger
from ssvm_dsl import StructuredSVM


def described():
    """The names of functions on each described road, with how deep each stands."""
    roads = estimators.__doc__.split("::\n")[1:]
    return [[(len(line) - len(line.lstrip()), line.split()[0]) for line in road.splitlines() if
             re.match(r" {4,}\S", line)] for road in roads]  # fmt: skip


def nested_names(call):
    """Each function that a call runs, after those that called it: paths of qualified names."""
    paths, path = set(), []

    def seen(frame, event, _):
        if event == "call":
            path.append(frame.f_code.co_qualname)
            paths.add(tuple(path))
        elif event == "return" and path:
            path.pop()

    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
    return paths


def is_run(names, paths):
    """Whether some function is called inside of these, in this order, whatever stands between."""
    return any(path[-1] == names[-1] and all(name in rest for name in names[:-1]) for path in paths
               for rest in [iter(path)])  # fmt: skip


@pytest.mark.parametrize("k", [0, 1], ids=["predict", "fit"])
def test_described_roads_are_taken(k):
    rng = np.random.default_rng(0)
    Y = [rng.integers(3, size=5) for _ in range(20)]
    X = [np.eye(4)[y] + rng.normal(size=(5, 4)) for y in Y]
    svm = StructuredSVM(tagger(4, 3), C=0.1).fit(X, Y)
    svm.predict(X[:1])
    road = described()[k]
    assert len(road) > 10
    paths = nested_names((lambda: svm.predict(X[:1]), lambda: svm.fit(X, Y))[k])
    above = []
    for depth, name in road:
        above = [(d, n) for d, n in above if d < depth] + [(depth, name)]
        assert is_run([n for _, n in above], paths), f"{name} is not called inside of {[n for _, n in above[:-1]]}"
