"""Promise: a call with a time limit ends in time, with a labelling of each example, and bounds where they are promised.

Marginals and the best few labellings end in time, too, with answers or with an error that names the examples.  All
structures, from tiny ones to ten times what fits; ``auto`` and every backend that takes them; limits of .2, 1 and
5 seconds.  Labels are held against the structure anew.  What may be late here is generous, for machines that do other
things.  Where ``SSVM_LIMITS_RECORD`` names a file, each case is written to it as a line, run after run (take another
``--seed`` for each): ``python tests/fuzz/limits_report.py FILE`` counts them.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from model_table import STRUCTURES, weighted
from ssvm_dsl.deadline import Deadline
from ssvm_dsl.errors import NoBackendError, NoLabellingError, ScoreError, SsvmError, TooLargeError
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.plugin_api.specs import BackendSpec
from ssvm_dsl.registry import registry

UNIT = "cases"
SHORT = 6
LIMIT = 240.0

#: Seconds that a call may be late: a stretch of work that nothing interrupts, on a machine that is busy.
LATE = 30.0

#: Limits, and how often each is drawn.
LIMITS, SHARES = (0.2, 1.0, 5.0), (0.7, 0.2, 0.1)


def trial(rng, scratch):
    """Ask one backend about a random problem."""
    name = str(rng.choice(list(STRUCTURES)))
    size, n = _size(STRUCTURES[name], rng)
    backend, guarantee = _backend(rng)
    limit = float(rng.choice(LIMITS, p=SHARES))
    case = {"structure": name, "size": size, "n": n, "backend": backend, "guarantee": guarantee, "limit": limit}
    ask = ranked if rng.random() < 0.25 else predicted
    case |= ask(name, size, n, backend, guarantee, limit, rng)
    if record := os.environ.get("SSVM_LIMITS_RECORD"):
        with Path(record).open("a") as file:
            file.write(json.dumps(case) + "\n")
    if case["status"] == "refused":
        return 0
    assert case["late"] <= LATE, case
    assert not case["wrong"], case
    assert not case["missing"] or STRUCTURES[name].hard, case
    return 1


def _size(structure, rng):
    """Return (a size, from tiny to the largest evenly by magnitude; a number of examples)."""
    low, _, high = structure.sizes
    size = round(float(np.exp(rng.uniform(np.log(low), np.log(high)))))
    return size, int(rng.integers(1, 40 if size <= 3 * low else 4))


def _backend(rng):
    """Return (backend, guarantee for auto)."""
    weakest = str(rng.choice(list(Guarantee)))
    if rng.random() < 0.5:
        return "auto", weakest
    return str(rng.choice(backends())), weakest


@cache
def backends():
    """Return the names of the bundled backends that answer ``map``."""
    known = registry()
    specs = [spec for spec in known.specs(BackendSpec) if known.owner(spec).bundled]
    return sorted(spec.name for spec in specs if Task.MAP in spec.caps.tasks)


@cache
def _estimator(name):
    return weighted(STRUCTURES[name], np.random.default_rng(0))


def predicted(name, size, n, backend, guarantee, limit, rng):
    """Return what a prediction with a limit comes to: seconds late, examples without a labelling, what is wrong."""
    structure, svm = STRUCTURES[name], _estimator(name)
    svm.coef_ = float(rng.choice([0.3, 1.0, 3.0])) * rng.normal(size=svm.coef_.shape)
    svm.set_params(backend=backend, guarantee=guarantee)
    X = [structure.example(size, rng)[0] for _ in range(n)]
    begin, deadline = time.process_time(), Deadline(limit)
    missing = 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            labels, scores, bounds = svm.predict(X, time_limit=limit, return_bounds=True, on_missing="none")
    except NoBackendError:
        return {"status": "refused"}
    except ScoreError:  # the weights are no such that the backend takes them
        return {"status": "refused"}
    except NoLabellingError as err:
        return {"status": "error", "late": deadline.spent - limit, "wrong": str(err)[:200], "missing": n}
    except SsvmError as err:
        return {"status": "error", "late": 0.0, "wrong": f"{type(err).__name__}: {err}"[:300], "missing": 0}
    late, cpu = deadline.spent - limit, time.process_time() - begin
    missing = sum(one is None for one in labels)
    there = [(x, y) for x, y in zip(X, labels, strict=True) if y is not None]
    wrong = "" if all(structure.keeps(x, y) for x, y in there) else "labels break the structure"
    slack = 1e-6 * (1.0 + np.abs(scores[scores > -np.inf]).max(initial=0.0))
    if (bounds < scores - slack).any():
        wrong = f"a bound is below the score: {scores.tolist()} {bounds.tolist()}"[:300]
    if (~np.isfinite(bounds)).any() and promised(backend, guarantee):
        wrong = f"bounds {bounds.tolist()}"[:300]
    return {"status": "done", "late": late, "cpu": cpu - deadline.loaded, "wrong": wrong, "missing": missing}


def ranked(name, size, n, backend, guarantee, limit, rng):
    """Return what marginals, or the best few labellings, with a limit come to, as :func:`predicted` does."""
    structure, svm = STRUCTURES[name], _estimator(name)
    svm.coef_ = rng.normal(size=svm.coef_.shape)
    svm.set_params(backend=backend, guarantee=guarantee)
    X, sums = [structure.example(size, rng)[0] for _ in range(n)], rng.random() < 0.5
    deadline, wrong, missing = Deadline(limit), "", 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = svm.predict_marginals(X, time_limit=limit) if sums else svm.predict_kbest(X, 3, time_limit=limit)
        wrong = "" if len(found) == n else f"{len(found)} answers"
    except (NoBackendError, ScoreError, TooLargeError):
        return {"status": "refused"}
    except NoLabellingError as err:
        missing, wrong = (0 if sums else n), "" if "examples (number" in str(err) else str(err)[:200]
    except SsvmError as err:
        wrong = f"{type(err).__name__}: {err}"[:300]
    return {"status": "done", "late": deadline.spent - limit, "wrong": wrong, "missing": missing, "sums": sums}


def promised(backend, guarantee):
    """Whether bounds are promised."""
    given = guarantee if backend == "auto" else registry().find(BackendSpec, backend).caps.guarantee
    return Guarantee(given) is not Guarantee.HEURISTIC
