"""``import ssvm_dsl`` is quick and loads nothing heavy; declaring a model and listing plug-ins load no solver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ssvm_dsl.plugin_api import BackendSpec

HEAVY = ("numba", "sklearn", "scipy.optimize", "ortools", "networkx", "matplotlib", "pandas", "jinja2")

OCR = """
from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, chain
class OCR(Model):
    T = Dim()
    x = Input(T, 128)
    y = Label(T, "abcdefghijklmnopqrstuvwxyz")
    emit = Factor(y, features=x)
    trans = Factor(chain(y))
    loss = Hamming(y)
str(OCR), OCR._repr_html_(), OCR.to_json()
"""

PLUGINS = """
from ssvm_dsl.registry import registry
from ssvm_dsl.plugin_api import BackendSpec, TrainerSpec
assert registry().specs(BackendSpec)
registry().specs(TrainerSpec)
"""


def fresh(code: str) -> tuple[float, list[str]]:
    """Run code in a fresh interpreter; return (seconds it took there, heavy modules loaded)."""
    script = (
        "import sys, json, time\nstart = time.process_time()\n" + code + "\nspent = time.process_time() - start\n"
        f"print(json.dumps([spent, [name for name in {HEAVY} if name in sys.modules]]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    spent, loaded = json.loads(done.stdout)
    return spent, loaded


def test_import_is_quick_and_light():
    runs = [fresh("import ssvm_dsl; dir(ssvm_dsl)") for _ in range(3)]
    assert runs[0][1] == []
    assert min(spent for spent, _ in runs) < 1.0  # 0.08 s where this was written; the dependencies take 1.5 s


@pytest.mark.parametrize("code", [OCR, PLUGINS, "import ssvm_dsl.datasets"], ids=["declare", "plugins", "datasets"])
def test_no_solver_is_loaded(code):
    assert fresh(code)[1] == []


ANSWER = """
import tempfile, warnings
from pathlib import Path
import numpy as np
warnings.simplefilter("ignore")
from ssvm_dsl import StructuredSVM
{model}
folder = tempfile.TemporaryDirectory()
x = np.ones((5, 128))
saved = StructuredSVM(OCR, max_passes=1, random_state=0).fit([x], [list("abcde")])
saved.save(Path(folder.name) / "model")
StructuredSVM.load(Path(folder.name) / "model").predict([x])
"""


def test_a_chain_is_fitted_saved_loaded_and_answered_by_numba_alone():
    assert set(fresh(ANSWER.format(model=OCR))[1]) <= {"numba", "sklearn"}


def test_required_modules_are_looked_for_without_an_import(tmp_path, monkeypatch):
    inner = tmp_path / "outer_package" / "inner"
    inner.mkdir(parents=True)
    for folder in (inner, inner.parent):
        (folder / "__init__.py").write_text("raise ImportError('not now')")
    (inner / "part.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))

    def missing(*names):
        return BackendSpec("any", "some.module:Class", requires=names).missing()

    assert missing("outer_package", "outer_package.inner.part", "json.decoder") == []
    assert "outer_package" not in sys.modules
    assert missing("outer_package.inner.other", "no_such_package.part") == [
        "outer_package.inner.other", "no_such_package.part",
    ]  # fmt: skip


def test_unknown_names_are_refused_like_pythons_own():
    import ssvm_dsl

    with pytest.raises(AttributeError, match="module 'ssvm_dsl' has no attribute 'Fctor'"):
        _ = ssvm_dsl.Fctor
    assert set(dir(ssvm_dsl)) >= {"Model", "StructuredSVM", "ground", "__version__"}


def test_no_public_name_is_also_a_submodule():
    """Importing the submodule would put it in the place of the name."""
    import ssvm_dsl

    parts = {path.stem for path in Path(ssvm_dsl.__file__).parent.iterdir()}
    assert not parts & set(ssvm_dsl.__all__)


def test_all_names_at_once_load_no_scikit_learn():
    loaded = fresh("from ssvm_dsl import *; from ssvm_dsl.models import *; from ssvm_dsl.datasets import *")[1]
    assert not {"sklearn", "pandas", "matplotlib", "networkx"} & set(loaded)
