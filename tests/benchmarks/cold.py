"""What a user waits for before kernels are compiled: each row is a fresh process with an empty folder for kernels.

Processor and wall seconds of whole processes: a first fit of the README's model, a first prediction with a model that
another process has trained, the same again where the kernels are there (a warm process), and the first use of each
family of kernels.  ``SSVM_BENCH_COLD=few`` leaves out the families.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ocr_speed import CONSOLE, table

HERE = Path(__file__).resolve().parent

BEGIN = """
import sys, warnings
sys.path.insert(0, {here!r})
warnings.simplefilter("ignore")
from models import OCR
from ssvm_dsl import Dim, Edges, Factor, Hamming, Input, Label, Model, StructuredSVM, along
from ssvm_dsl.datasets import load_letters
X, Y, X_test, Y_test = load_letters(fold=1)
class Triangle(Model):
    T = Dim()
    M = Dim()
    x = Input(T, 4)
    e = Edges(M, over=T)
    y = Label(T, 3)
    unary = Factor(y, features=x)
    pair = Factor(along(y, e))
    loss = Hamming(y)
LOOPS = [{{"x": [[1.0, 0.0, 0.5, 0.2]] * 3, "e": [[0, 1], [1, 2], [0, 2]]}}] * 2, [[0, 1, 2], [0, 1, 2]]
def fit(model, data, **options):
    StructuredSVM(model, random_state=0, max_passes=3, tol=0.01, **options).fit(*data)
"""

FEW = "X[:20], Y[:20]"

#: What each family needs to be called once.
FAMILIES = {
    "subgradient": f"fit(OCR, ({FEW}), trainer='subgradient')",
    "perceptron": f"fit(OCR, ({FEW}), trainer='perceptron', risk='perceptron')",
    "one-slack": f"fit(OCR, ({FEW}), trainer='one-slack')",
    "n-slack": f"fit(OCR, ({FEW}), trainer='n-slack')",
    "smo": f"fit(OCR, ({FEW}), trainer='smo')",
    "lbfgs, log-loss": f"fit(OCR, ({FEW}), trainer='lbfgs', risk='log')",
    "dlpw, relaxed": "fit(Triangle, LOOPS, trainer='dlpw', risk='relaxed')",
    "bcfw, relaxed, factors": "fit(Triangle, LOOPS, risk='relaxed', trainer_options={'blocks': 'factors'})",
    **{f"bcfw with {name}": f"fit(Triangle, LOOPS, backend='{name}')" for name in ("junction-tree", "trws", "combi")},
    "subgradient with msd": "fit(Triangle, LOOPS, trainer='subgradient', backend='msd')",
}


def run(code: str, folder: str) -> tuple[float, float]:
    """Return the processor and the wall seconds of a process, those of its children included."""
    env = {**os.environ, "NUMBA_CACHE_DIR": folder, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    text = BEGIN.format(here=str(HERE)) + code
    subprocess.run([sys.executable, "-c", text], env=env, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main() -> None:
    """Measure."""
    shown = table("processes from start to end", "what", "CPU s", "wall s")
    with tempfile.TemporaryDirectory() as scratch:
        saved = repr(str(Path(scratch) / "ocr.npz"))
        rows = {
            "imports and data only": ("", "none"),
            "first fit (README)": (f"StructuredSVM(OCR, C=0.1, random_state=0).fit(X, Y).save({saved})", "fit"),
            "fit, warm": ("StructuredSVM(OCR, C=0.1, random_state=0).fit(X, Y)", "fit"),
            "first predict": (f"StructuredSVM.load({saved}).predict(X_test)", "predict"),
            "predict, warm": (f"StructuredSVM.load({saved}).predict(X_test)", "predict"),
        }
        if os.environ.get("SSVM_BENCH_COLD") != "few":
            rows |= {name: (code, name) for name, code in FAMILIES.items()}
        for name, (code, folder) in rows.items():
            cpu, wall = run(code, str(Path(scratch) / folder))
            shown.add_row(name, f"{cpu:.1f}", f"{wall:.1f}")
            print(name, f"{cpu:.1f} {wall:.1f}", file=sys.stderr, flush=True)
    CONSOLE.print(shown)
