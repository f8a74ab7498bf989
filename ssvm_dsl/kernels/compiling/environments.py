"""Environments of kept code, rebuilt without importing the modules that functions come from.

An environment holds the Python objects that compiled code may need, such as texts of errors, and the globals of its
function's module, which only code in numba's object mode reads: that is never kept.  Numba imports the module all the
same, for each function of its own that was inlined into a kernel: with ``numba.np.arraymath`` comes ``scipy.linalg``, a
tenth of a second in a process that answers one question.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from numba.core.environment import Environment, lookup_environment


class KeptEnvironment:
    """An environment on its way to the disk.

    Parameters
    ----------
    environment : Environment
        Of a function with a module.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment

    def __reduce__(self) -> tuple[Any, ...]:
        kept = self.environment
        return rebuilt, (kept.globals["__name__"], list(kept.consts), kept.env_name)


def rebuilt(module: str, consts: Sequence[Any], name: str) -> Environment:
    """Return the environment of a name: the one that is there, else one made of what was kept.

    A part and the kernel that is made of it have one environment, kept with each: the kernel's has more objects at its
    end, such as the types of elements of arrays that it returns to Python.  Whichever is loaded first, all are there.
    """
    environment = lookup_environment(name)
    if environment is None:
        there = sys.modules.get(module)
        environment = Environment({"__name__": module} if there is None else there.__dict__)
        environment.env_name = name
        Environment._memo[name] = environment
    environment.consts.extend(consts[len(environment.consts) :])
    return environment
