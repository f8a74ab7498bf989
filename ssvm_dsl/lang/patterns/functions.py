"""Functions of the user that are called with the states of the variables of a pattern, positions and inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ssvm_dsl.lang.dims import indices_of
from ssvm_dsl.lang.functions import FunctionRef
from ssvm_dsl.lang.outputs.labels import Target
from ssvm_dsl.lang.patterns.pattern import Pattern
from ssvm_dsl.lang.symbols import Mistake, ModelView, got


def function_mistakes(what: str, goal: Target, positions: tuple[Any, ...]) -> Iterator[Mistake]:
    """Yield why a function cannot say what is ruled out of a target."""
    if goal.mistakes:
        return
    if not isinstance(goal, Pattern) or goal.word is not None or goal.is_union:
        yield got(f"{what}: a function is for variables at positions, such as (y[s], y[t])", goal)
        return
    for index in indices_of(*positions):
        if not any(index is own for own in goal.free):
            yield got(f"{what}: the function gets positions of the pattern's own indices", index)


def unknown_inputs(
    ref: FunctionRef, asked: tuple[str, ...] | None, model: ModelView, given: str
) -> Iterator[str]:
    """Yield that a function asks for what is no input of a model.

    Parameters
    ----------
    ref : FunctionRef
    asked : tuple of str, optional
        The names of its parameters for inputs.
    model : ModelView
    given : str
        What it is given by place before.
    """
    unknown = sorted(set(asked or ()) - model.input_names)
    if unknown:
        yield f"{ref.path} asks for {', '.join(unknown)}, after {given} inputs by name"
