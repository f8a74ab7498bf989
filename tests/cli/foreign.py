"""Distributions of strangers for the command line to find, and ways to run it."""

from __future__ import annotations

import fresh
from ssvm_dsl.cli.main import main

HEAD = "from ssvm_dsl.ir import Caps, Guarantee, Topology\nfrom ssvm_dsl.plugin_api import *\n"

#: A backend whose library is missing.
NEEDY = f"""{HEAD}
@hookimpl
def ssvm_backends():
    return [BackendSpec("needy", "needy:Backend", "calls a library", requires=("no_such_library",),
                        install_hint="pip install no-such-library", caps=Caps(guarantee=Guarantee.BOUND),
                        options=(Option("effort", 3, "how hard to try", (1, 2, 3)),))]
"""

#: Answers state 0 everywhere and calls it the optimum.
LAZY = f"""{HEAD}
import numpy as np
from ssvm_dsl.ir import Solution
from ssvm_dsl.plugin_api import score_labels

@hookimpl
def ssvm_backends():
    return [BackendSpec("lazy", "lazy:Backend", caps=Caps(guarantee=Guarantee.EXACT))]

class Backend:
    def check(self, need):
        return Verdict(True, cost=1.0)
    def open(self, program, options):
        return Session(program)

class Session:
    def __init__(self, program):
        self.program = program
    def solve(self, question):
        labels = np.zeros(question.label_ptr(self.program)[-1], dtype=np.int32)
        return Solution.exact(labels, score_labels(self.program, question.theta, labels, question.examples))
"""

#: Prints wherever it runs, from C as well, and quits where it can.
LOUD = f"""{HEAD}
import ctypes, sys
def shout(where):
    print("hostile", where)
    ctypes.CDLL(None).puts(b"hostile from C")
shout("import")

@hookimpl
def ssvm_backends():
    shout("hook")
    return [BackendSpec("loud", "loud:Backend", caps=Caps(guarantee=Guarantee.EXACT)),
            BackendSpec(3, "loud:Backend"), BackendSpec("a\\nb", "loud:Backend", caps=3, requires=(3,))]

class Backend:
    def check(self, need):
        shout("check")
        return Verdict(True, cost=1.0)
    def open(self, program, options):
        shout("open")
        sys.exit(7)
"""

BROKEN = "import a_library_that_is_not_there\n"


def distribution(site, name, source):
    """Write an installed distribution: a module and its dist-info with an entry point."""
    (site / f"{name}.py").write_text(source)
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[ssvm]\n{name}-plugin = {name}\n")


def ssvm(*arguments, path="", command=("-m", "ssvm_dsl.cli"), **environment):
    """Run the command line in a fresh interpreter."""
    env = fresh.environment() | {"PYTHONPATH": str(path), "COLUMNS": "200", **environment}
    return fresh.run([*command, *arguments], env=env)


def inside(capsys, *arguments):
    """Run the command line in this interpreter; return (status, output, complaints)."""
    capsys.readouterr()
    status = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return status, out, err
