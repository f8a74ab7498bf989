"""Sessions of bundled backends behind a stranger's name, without a second compilation of all their kernels.

Strangers are given arrays that cannot be written.  Numba compiles a kernel once more for those: 40 s for message
passing.
"""

from __future__ import annotations

from copy import deepcopy
from types import SimpleNamespace

from ssvm_dsl.inference.planned import ABILITY_OF
from ssvm_dsl.ir import CountTables, Question


def writable(given):
    """Copy what strangers may read only; sums are added to the arrays that are given."""
    if isinstance(given, Question):
        names = ("theta", "examples", "clamp", "warm")
        return given.replace(**{name: deepcopy(getattr(given, name)) for name in names})
    return deepcopy(given) if isinstance(given, CountTables) else given


def open_writable(spec, program, options=None):
    """Open a bundled backend on a copy of a program; each question is asked about a copy of its scores."""
    session = spec.load()().open(deepcopy(program), spec.resolve(options))

    def call(name):
        def called(*given):
            return getattr(session, name)(*(writable(one) for one in given))

        return called

    return SimpleNamespace(**{name: call(name) for name in ABILITY_OF if hasattr(session, name)})
