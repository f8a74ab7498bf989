"""Structured inference and ``torch.compile``: graphs are broken around it, as its kernels are compiled already."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def outside_graphs(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that ``torch.compile`` calls as it is, with a graph before it and one after it."""

    @wraps(function)
    def called(*args: P.args, **named: P.kwargs) -> R:
        if torch.compiler.is_compiling():  # not as a decorator: that would load the compiler with this package
            made: R = torch.compiler.disable(function)(*args, **named)
            return made
        return function(*args, **named)

    return called
