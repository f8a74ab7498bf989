"""Plug-ins in distributions of their own, found through entry points by a fresh interpreter: good and broken ones."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import fresh
from ssvm_backends import ssvm_backends

#: Names of the bundled backends.
BUNDLED = {spec.name for spec in ssvm_backends()}

HERE = Path(__file__).parent

HEAD = "from ssvm_dsl.ir import Caps, Guarantee, Task, Topology\nfrom ssvm_dsl.plugin_api import *\n"


EXACT = "Caps(topology=Topology.FOREST, guarantee=Guarantee.EXACT)"
SPEC = f"BackendSpec('{{name}}', 'thirty_lines:Backend', caps={EXACT}, {{more}})"


def one_backend(name, more="", hook="ssvm_backends"):
    return f"{HEAD}@hookimpl\ndef {hook}():\n    return [{SPEC.format(name=name, more=more)}]\n"


#: distribution -> source of its module, or an object of the entry point
SOURCES = {
    "thirty-lines": (HERE / "thirty_lines.py").read_text(),
    "no-import": "import a_library_that_is_not_there\n",
    "syntax-slip": "def ssvm_backends(:\n",
    "quits": "import sys\nsys.exit('licence expired')\n",
    "second-chain": one_backend("chain"),
    "second-brute": one_backend("brute-force") + "@hookimpl\ndef ssvm_trainers():\n    return []\n",
    "old-contract": one_backend("oldie", "api_version=0"),
    "typo": one_backend("typo", hook="ssvm_backend"),
    "wrong-arguments": f"{HEAD}@hookimpl\ndef ssvm_training_event(event, screen):\n    pass\n",
    "hook-fails": f"{HEAD}@hookimpl\ndef ssvm_backends():\n    raise ZeroDivisionError('at night')\n",
    "no-list": f"{HEAD}@hookimpl\ndef ssvm_backends():\n    return None\n",
    "not-specs": f"{HEAD}@hookimpl\ndef ssvm_backends():\n    return ['thirty-lines']\n",
    "needs-more": one_backend("needy", "requires=('no_such.part',), install_hint='pip install such'"),
    "lost-factory": one_backend("lost").replace("thirty_lines:Backend", "thirty_lines:Gone"),
    "liar": f"""{HEAD}
from dataclasses import replace
import thirty_lines
@hookimpl
def ssvm_backends():
    return [BackendSpec('liar', 'liar:Liar', caps={EXACT})]
class Liar(thirty_lines.Backend):
    def open(self, program, options):
        return Session(program)
class Session(thirty_lines.Session):
    def solve(self, question):
        solution = super().solve(question)
        return replace(solution, bound=solution.bound - 1)
""",
    "eager": f"""{HEAD}
import thirty_lines
@hookimpl
def ssvm_backends():
    return [BackendSpec('eager', 'eager:Eager', caps={EXACT})]
class Eager(thirty_lines.Backend):
    def check(self, need):
        return Verdict(True, cost=0.0)
""",
}

DISCOVER = """
import json
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.plugin_api import BackendSpec, program_need
from ssvm_dsl.registry import registry
from ssvm_dsl.testing.problems import catalogue

problem = catalogue()["shared table rows"]
need, known = program_need(problem.program), registry()
found = {
    "plugins": {info.name: [info.distribution, info.bundled, info.allowed] for info in known.plugins},
    "problems": [[p.plugin, p.text] for p in known.problems],
    "owners": {spec.name: known.owner(spec).name for spec in known.specs(BackendSpec)},
    "auto": plan(need).backend,
    "candidates": [c.name for c in plan(need).candidates],
}
"""
SOLVE = """
from ssvm_dsl.errors import SsvmError
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Question
from ssvm_dsl.testing.brute_force import BruteForce

best = BruteForce().open(problem.program, {}).solve(Question(problem.theta)).score.tolist()

def score(name):
    try:
        session = open_plan(plan(need, backend=name), problem.program)
        return session.solve(Question(problem.theta)).score.tolist() == best
    except SsvmError as err:
        return f"{type(err).__name__}: {err}"

strangers = [name for name, plugin in found["owners"].items() if plugin != "backends"]
found["scores"] = {name: score(name) for name in [*strangers, "chain", "tree", "brute-force", "nobody"]}
found["copied"] = [spec.name for spec in known.copy().specs(BackendSpec)]
"""
PRINT = "print(json.dumps(found))"


def distribution(site, name, source):
    """Write an installed distribution: a module and its dist-info with an entry point."""
    module = name.replace("-", "_")
    (site / f"{module}.py").write_text(source)
    info = site / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[ssvm]\nplugin-{name} = {module}\n")
    (info / "RECORD").write_text("")


def run(site, code, **environment):
    """Run code in a fresh interpreter that finds the distributions; return what it prints."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("SSVM_")}
    env |= {"PYTHONPATH": str(site), **environment}
    done = fresh.run(["-c", code], env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    for name, source in SOURCES.items():
        distribution(folder, name, source)
    (folder / "second_door-1.0.dist-info").mkdir()
    door = folder / "second_door-1.0.dist-info"
    (door / "METADATA").write_text("Metadata-Version: 2.1\nName: second-door\nVersion: 1.0\n")
    (door / "entry_points.txt").write_text("[ssvm]\nplugin-second-door = ssvm_backends\n")
    return folder


@pytest.fixture(scope="module")
def everything(site):
    return run(site, DISCOVER + SOLVE + PRINT)


def test_thirty_lines_are_about_thirty():
    code = [
        line
        for line in SOURCES["thirty-lines"].splitlines()
        if line.strip() and not line.startswith(("import", "from"))
    ]
    assert len(code) <= 45


def test_a_foreign_backend_is_found_and_chosen_by_name(everything):
    assert everything["plugins"]["plugin-thirty-lines"] == ["thirty-lines 1.0", False, False]
    assert everything["owners"]["thirty-lines"] == "plugin-thirty-lines"
    assert everything["scores"]["thirty-lines"] is True


def test_auto_takes_no_foreign_backend(everything):
    assert everything["auto"] in BUNDLED
    assert set(everything["candidates"]) == BUNDLED


EXPECTED = {
    "no-import": "cannot be imported: ModuleNotFoundError: No module named 'a_library_that_is_not_there'",
    "syntax-slip": "cannot be imported: SyntaxError",
    "quits": "cannot be imported: SystemExit: licence expired",
    "second-chain": "backend 'chain' is already registered by 'backends'; the second is left out",
    "second-brute": "backend 'brute-force' is already registered by 'backends'; the second is left out",
    "old-contract": "backend 'oldie' is made for contract version 0, this is 1",
    "typo": "there is no hook ssvm_backend; did you mean ssvm_backends?",
    "wrong-arguments": "its hooks do not fit",
    "hook-fails": "ssvm_backends failed with ZeroDivisionError: at night",
    "no-list": "ssvm_backends failed with TypeError",
    "not-specs": "expected a BackendSpec, got str",
    "second-door": "the same plug-in is already registered as 'ssvm-dsl",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_broken_is_reported(everything, name):
    texts = [text for plugin, text in everything["problems"] if plugin == f"plugin-{name}"]
    assert len(texts) == 1
    assert texts[0].startswith(EXPECTED[name])


def test_nothing_else_is_reported(everything):
    assert {plugin.removeprefix("plugin-") for plugin, _ in everything["problems"]} == set(EXPECTED)


def test_what_is_broken_is_contained(everything):
    assert all(everything["scores"][name] is True for name in ("chain", "tree", "brute-force"))
    assert {name: everything["owners"][name] for name in ("chain", "tree", "brute-force")} == dict.fromkeys(
        ("chain", "tree", "brute-force"), "backends"
    )
    assert not {"oldie", "typo"} & set(everything["owners"])
    assert everything["copied"] == list(everything["owners"])


def test_backends_that_cannot_run_say_why(everything):
    assert "needs no_such.part (pip install such)" in everything["scores"]["needy"]
    assert "has no attribute 'Gone'" in everything["scores"]["lost"]


def test_a_lie_about_the_bound_is_a_fault_of_the_backend(everything):
    text = everything["scores"]["liar"]
    assert text.startswith("BackendFault: backend 'liar' (plug-in 'plugin-liar', liar 1.0) broke its contract: its bo")
    assert "ssvm plugins check liar" in text


def test_an_unknown_name_lists_the_broken_plugins(everything):
    text = everything["scores"]["nobody"]
    assert "there is no backend 'nobody'" in text
    assert "plugin-no-import: cannot be imported" in text


def test_conformance_from_outside(site):
    code = (
        "import json\n"
        "from ssvm_dsl.testing import check_backend\n"
        "good = check_backend('thirty-lines', n_problems=5)\n"
        "bad = check_backend('liar', n_problems=2)\n"
        "print(json.dumps([good.ok, str(good), bad.failed]))\n"
    )
    ok, text, failed = run(site, code)
    assert ok, text
    assert {"bounds", "verifier"} <= set(failed)
    assert not {"map", "scores"} & set(failed)


def test_the_allow_list_loads_only_what_it_names_and_lets_auto_choose_it(site):
    by_distribution = run(site, DISCOVER + PRINT, SSVM_PLUGINS="eager, thirty-lines")
    assert by_distribution["problems"] == []
    assert set(by_distribution["owners"]) == BUNDLED | {"eager", "thirty-lines"}
    assert by_distribution["plugins"]["plugin-eager"] == ["eager 1.0", False, True]
    assert by_distribution["auto"] == "eager"
    by_entry_point = run(site, DISCOVER + PRINT, SSVM_PLUGINS="plugin-thirty-lines")
    assert set(by_entry_point["owners"]) == BUNDLED | {"thirty-lines"}
    assert "thirty-lines" in by_entry_point["candidates"]
    assert by_entry_point["auto"] in BUNDLED


@pytest.mark.parametrize("more", [{}, {"SSVM_PLUGINS": "eager"}], ids=["alone", "before the allow-list"])
def test_autoload_can_be_switched_off(site, more):
    bundled = run(site, DISCOVER + PRINT, SSVM_DISABLE_PLUGIN_AUTOLOAD="1", **more)
    assert set(bundled["owners"]) == BUNDLED
    assert bundled["problems"] == []
    assert all(info[1] for info in bundled["plugins"].values())


def test_autoload_off_means_not_zero(site):
    assert "eager" in run(site, DISCOVER + PRINT, SSVM_DISABLE_PLUGIN_AUTOLOAD="0", SSVM_PLUGINS="eager")["owners"]
