"""Distributions of strangers for the command line to find, and ways to run it."""

from __future__ import annotations

import os
import subprocess
import traceback
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from unittest.mock import patch

import pytest

import fresh
from ssvm_dsl.cli.main import main
from ssvm_dsl.registry import registry

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


def ssvm_here(*arguments, path, **environment):
    """Do what ``ssvm`` does in a process that costs ten times as much: here, with the plug-ins found anew.

    What belongs to a process is left out: its descriptors, what C prints, which modules are loaded.
    """
    out, err, status = StringIO(), StringIO(), 1
    env = fresh.environment() | {"COLUMNS": "200", **environment}
    with pytest.MonkeyPatch.context() as found, patch.dict(os.environ, env, clear=True):
        found.syspath_prepend(str(path))
        registry.cache_clear()
        try:
            with redirect_stdout(out), redirect_stderr(err):
                status = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            status = stop.code
        except Exception:
            err.write(traceback.format_exc())
    registry.cache_clear()
    return subprocess.CompletedProcess(["ssvm", *arguments], status, out.getvalue(), err.getvalue())


def inside(capsys, *arguments):
    """Run the command line in this interpreter; return (status, output, complaints)."""
    capsys.readouterr()
    status = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return status, out, err
