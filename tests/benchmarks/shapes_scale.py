"""Large batches of one structure: a complete graph of binary labels, every pair with weights of its own.

159 labels, 1836 sparse features and 4880 examples (the size of Bibtex), random data: 61 million factors.  Structure is
stored once, so that time and memory grow with features and examples.  Every line is a process of its own; memory is its
peak above what it had with the data loaded.  ``SSVM_BENCH_LONG=1`` trains for ten minutes
each and not for two, and adds the growth of a fit with examples.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

N_LABELS, N_FEATURES, N_EXAMPLES = 159, 1836, 4880

#: What is measured -> how the estimator is told to train.
FITS: dict[str, dict[str, Any]] = {
    "risk='relaxed'": {"risk": "relaxed"},
    "risk='relaxed', trainer='subgradient'": {"risk": "relaxed", "trainer": "subgradient"},
    "trainer='subgradient', guarantee='bound'": {"trainer": "subgradient", "guarantee": "bound"},
}


def resident() -> float:
    """Return the memory of this process in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def peak() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def data(n: int) -> tuple[type, Any, list[Any]]:
    """Return a model, sparse features, and labels of which each is on in one to two examples of a hundred."""
    import numpy as np
    import scipy.sparse as sp

    from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, complete

    class Tags(Model):
        K = Dim(N_LABELS)
        x = Input(N_FEATURES, sparse=True)
        y = Label(K, 2)
        unary = Factor(y, features=x, per=K)
        pair = Factor(complete(y), per="edge")
        loss = Hamming(y)

    rng = np.random.default_rng(0)
    X = sp.random(n, N_FEATURES, density=68 / N_FEATURES, format="csr", rng=rng, data_rvs=np.ones)
    scores = X @ rng.normal(size=(N_FEATURES, N_LABELS))
    return Tags, X, list((scores > np.quantile(scores, 1 - 2.4 / N_LABELS, axis=0)).astype(int))


def measure(what: str, n: int, seconds: float) -> dict[str, float | str]:
    """Do one thing in this process."""
    from ssvm_dsl import StructuredSVM, estimate, ground

    model, X, Y = data(n)
    before, begin = resident(), time.process_time()
    out: dict[str, float | str] = {}
    if what == "estimate":
        out["text"] = str(estimate(model, X)).splitlines()[-1].strip()
    elif what == "ground":
        grounded = ground(model, X, Y)
        out["text"] = f"{sum(group.n_factors for group in grounded.program.groups)} factors of tables"
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = {"max_seconds": seconds, "tol": 0.05, "random_state": 0, "n_threads": 1}
            svm = StructuredSVM(model, C=10.0 / n, **options, **FITS[what])
            report = svm.fit(X, Y).report_
        out["text"] = f"{report.n_passes:.1f} passes, relative gap {report.relative_gap:.3f}, by {report.plan.backend}"
        out["pass"] = report.seconds / max(report.n_passes, 1e-9)
    return out | {"seconds": time.process_time() - begin, "memory": peak() - before}


def main() -> None:
    """Run everything, each in a process of its own."""
    from rich.console import Console
    from rich.table import Table

    console, long = Console(width=140), os.environ.get("SSVM_BENCH_LONG", "") not in ("", "0")
    title = (
        f"complete graph of {N_LABELS} binary labels, {N_FEATURES} sparse features; fits of {600 if long else 120} s"
    )
    shown = Table(title=title, title_justify="left")
    for column in ("what", "examples", "CPU s", "s of a pass", "MB above data", ""):
        shown.add_column(column)
    growth = [(fit, n) for fit in list(FITS)[:2] for n in (610, 1220, 2440)] if long else []
    for what, n in [(one, N_EXAMPLES) for one in ("ground", "estimate", *FITS)] + growth:
        command = [sys.executable, __file__, what, str(n), "600" if long else "120"]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        one = json.loads(run.stdout.splitlines()[-1])
        a_pass = f"{one['pass']:.1f}" if "pass" in one else ""
        shown.add_row(what, str(n), f"{one['seconds']:.1f}", a_pass, f"{one['memory']:.0f}", one["text"])
    console.print(shown)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
