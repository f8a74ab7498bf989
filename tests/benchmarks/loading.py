"""Load a saved model and answer once in a fresh process whose kernels are compiled: where the time goes.

Each row is the quickest of a few processes, in processor seconds: the interpreter and the libraries that every model
needs (numpy and numba), our own modules, the file, the first answer, the second one.
``bare`` is a process that imports these libraries and does nothing: what no model can be quicker than.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from models import OCR
from ocr_speed import CONSOLE, table

from model_table import complete_labels, graph
from ssvm_dsl import StructuredSVM
from ssvm_dsl.datasets import load_letters

#: Processes of each row.
REPEATS = 5

#: What no first answer of a small model needs.
UNNEEDED = (
    "numba.typed.dictimpl", "scipy.linalg", "scipy.sparse", "scipy.optimize", "sklearn", "ortools", "networkx",
    "clarabel", "pandas", "matplotlib", "rich",
)  # fmt: skip

CHILD = """
import json, sys, time
marks = [time.process_time()]
def mark():
    marks.append(time.process_time())
import numpy, numba
mark()
from ssvm_dsl import StructuredSVM
mark()
svm = StructuredSVM.load(sys.argv[1])
mark()
arrays = numpy.load(sys.argv[2])
example = {name: arrays[name] for name in arrays.files}
mark()
svm.predict([example])
mark()
svm.predict([example])
mark()
print(json.dumps([marks, len(sys.modules), [name for name in sys.argv[3:] if name in sys.modules]]))
"""

BARE = """
import json, sys, time
import numpy, numba
print(json.dumps([[time.process_time()], len(sys.modules), []]))
"""


#: Six labels, all pairs.
Scene = complete_labels(6, 20, 2)
#: Any graph.
Graph = graph(8, 4)


def cases() -> dict[str, tuple[Any, Any, Any]]:
    """Return for each row (model, examples, labellings)."""
    rng = np.random.default_rng(0)
    X, Y, _, _ = load_letters(fold=1)
    words = [{"x": np.asarray(x)} for x in X[:20]]
    scenes = [{"x": rng.normal(size=20)} for _ in range(20)]
    ring = np.array([(v, (v + 1) % 12) for v in range(12)])
    graphs = [{"x": rng.normal(size=(12, 8)), "e": ring} for _ in range(10)]
    return {
        "OCR word": (OCR, words, Y[:20]),
        "six labels, all pairs": (Scene, scenes, list(rng.integers(0, 2, (20, 6)))),
        "graph of 12": (Graph, graphs, list(rng.integers(0, 4, (10, 12)))),
    }


def child(code: str, arguments: list[str]) -> tuple[float, Any]:
    """Run a fresh process; return (wall seconds, what it prints)."""
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return time.perf_counter() - begin, json.loads(done.stdout)


def measured(code: str, arguments: list[str]) -> tuple[float, Any]:
    """Return the quickest of some processes by processor time, and the shortest wall time."""
    child(code, arguments)  # modules and kernels are compiled by it
    runs = [child(code, arguments) for _ in range(REPEATS)]
    return min(wall for wall, _ in runs), min((found for _, found in runs), key=lambda found: found[0][-1])


def main() -> None:
    """Measure each kind of model."""
    os.environ["SSVM_COMPILE_AHEAD"] = "off"
    heads = ["libraries", "ours", "file", "first answer", "second", "all until first", "wall", "modules"]
    shown, unneeded = table("load and answer once, fresh process, kernels cached: seconds", "", *heads), set[str]()
    with tempfile.TemporaryDirectory() as folder:
        wall, (marks, n_modules, _) = measured(BARE, [])
        shown.add_row("bare", f"{marks[-1]:.2f}", "", "", "", "", f"{marks[-1]:.2f}", f"{wall:.2f}", str(n_modules))
        for name, (model, X, Y) in cases().items():
            saved, example = str(Path(folder) / "model.ssvm"), str(Path(folder) / "example.npz")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                StructuredSVM(model, max_passes=3, random_state=0).fit(X, Y).save(saved)
            np.savez(example, **X[0])
            wall, (marks, n_modules, loaded) = measured(CHILD, [saved, example, *UNNEEDED])
            libraries, ours, file, _, first, second = np.diff([0.0, *marks[1:]])
            first_answer = libraries + ours + file + first
            seconds = [libraries, ours, file, first, second, first_answer, wall]
            shown.add_row(name, *(f"{one:.3f}" if one < 0.01 else f"{one:.2f}" for one in seconds), str(n_modules))
            unneeded.update(loaded)
    CONSOLE.print(shown)
    CONSOLE.print(f"loaded and not needed: {', '.join(sorted(unneeded)) or 'nothing'}")
