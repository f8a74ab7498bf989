"""The memory of a fit is estimated within 1.3 of what its process takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys, warnings
from pathlib import Path
import numpy as np
from ssvm_dsl import Attributes, Dim, Factor, Hamming, Input, Label, Model, StructuredSVM, chain, complete, estimate
import ssvm_dsl.learning.estimators.fitting.training as learner

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)

class Pairs(Model):
    K = Dim(80)
    x = Input(5)
    y = Label(K, 2)
    own = Factor(y, features=x, per=K)
    pair = Factor(complete(y), per="edge")
    loss = Hamming(y)

class Words(Model):
    T = Dim()
    x = Input(T, 100)
    y = Label(T, 20)
    own = Factor(y, features=x)
    step = Factor(chain(y))
    loss = Hamming(y)

def peak():
    status = Path("/proc/self/status").read_text()  # ru_maxrss would begin at that of the parent process
    return 1024 * int(status.split("VmHWM:")[1].split()[0])

if sys.argv[1] == "Pairs":
    model, X, Y = Pairs, list(rng.normal(size=(300, 5))), list(rng.integers(2, size=(300, 80)))
    svm = StructuredSVM(Pairs, C=1e-4, backend="qpbo", max_passes=1, tol=1.0)
elif sys.argv[1] == "Relaxed":
    model, X, Y = Pairs, list(rng.normal(size=(700, 5))), list(rng.integers(2, size=(700, 80)))
    svm = StructuredSVM(Pairs, C=1e-4, risk="relaxed", max_passes=1, tol=1.0)
else:
    model, X, Y = Words, list(rng.normal(size=(1500, 40, 100))), list(rng.integers(20, size=(1500, 40)))
    svm = StructuredSVM(Words, C=1e-4, trainer="bundle", max_passes=2, tol=1.0)
svm.fit(X[:3], Y[:3])
told, real = [], learner.require_fit_memory
learner.require_fit_memory = lambda *args: told.append(real(*args)) or told[-1]
before, size = peak(), estimate(model, X)
svm.fit(X, Y)
print(peak() - before, max(size.peak_bytes, size.ground_bytes + told[0]))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="tells peaks on Linux only")
@pytest.mark.parametrize("model", ["Pairs", "Relaxed", "Words"])
def test_estimated_peaks_are_those_of_the_process(model):
    done = subprocess.run([sys.executable, "-c", SCRIPT, model], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    measured, said = (float(number) for number in done.stdout.split())
    assert said <= 1.3 * measured, f"{measured / 1e6:.0f} MB taken, {said / 1e6:.0f} MB estimated"
    assert measured <= 1.3 * said, f"{measured / 1e6:.0f} MB taken, {said / 1e6:.0f} MB estimated"
