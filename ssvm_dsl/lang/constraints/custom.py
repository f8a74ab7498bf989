"""``Custom``: a structure that the user's own class knows, and finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ssvm_dsl.errors import OptionError
from ssvm_dsl.lang.constraints.logic import Constraint, Literal
from ssvm_dsl.lang.constraints.quantities import Parameter
from ssvm_dsl.lang.functions import FunctionRef
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.symbols import Mistake, got, plain

#: Kinds of constraints: of oracles that find something, and of those that say that it is the best.
CUSTOM, CUSTOM_EXACT = "custom", "custom-exact"

#: What the class of an oracle has (:class:`ssvm_dsl.plugin_api.StructureOracle`).
METHODS = ("feasible", "best")


@dataclass(frozen=True, init=False, repr=False)
class Custom(Constraint):
    """The labels of each example are a structure that the user's own class judges, and searches for the best of.

    Each labelling that it finds is checked: by its own ``feasible``, and its score is computed by the host.  That it is
    the best is believed of classes with ``exact = True`` alone, whose answers to small problems are compared with all
    labellings first; those of others come without bounds (``guarantee="heuristic"``), and fits without certificates.

    Parameters
    ----------
    y : Label
        A label with classes.  No factor joins its variables with each other or with others.
    oracle : class or str
        A :class:`~ssvm_dsl.plugin_api.StructureOracle`, or its import path ``"package.module:Class"``.  Files of models
        hold the path, and are read with ``trusted=`` only.
    **options : str, int, float or bool
        Passed to the class.

    Examples
    --------
    >>> top = Custom(y, oracle="mine.structures:Top", k=3)
    """

    ref: FunctionRef
    options: tuple[tuple[str, Any], ...]

    def __init__(self, y: Label, oracle: Any, **options: Any) -> None:
        mistakes: list[Mistake] = []
        if not isinstance(y, Label) or y.pointer or y.segments is not None:
            mistakes.append(got("Custom: the first argument must be a Label with classes", y))
            y = Label(1)
        ref = _reference(oracle, mistakes)
        lacking = [name for name in METHODS if not callable(getattr(ref.function, name, None))]
        if lacking and not mistakes:
            text = f"Custom: {ref.path} is no StructureOracle: it lacks {' and '.join(f'{name}()' for name in lacking)}"
            mistakes.append(text)
        given = {key: plain(value) for key, value in options.items()}
        for key, value in given.items():
            if not isinstance(value, str | int | float) or value != value:
                mistakes.append(got(f"Custom: the option {key} must be a string, a number or a truth value", value))
                given[key] = None
        classes = range(y.n_states) if y.classes is None else y.classes
        literals = tuple(Literal(y.is_(one)) for one in classes)
        sizes = tuple(Parameter(f"size_{k}", dim, whole=True) for k, dim in enumerate(y.dims))
        kind = CUSTOM_EXACT if getattr(ref.function, "exact", False) is True else CUSTOM
        self._declare(mistakes, kind, literals, (), sizes)
        object.__setattr__(self, "ref", ref)
        object.__setattr__(self, "options", tuple(sorted(given.items())))

    @property
    def functions(self) -> tuple[FunctionRef, ...]:
        """The class of the oracle."""
        return (self.ref,)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.labels[0],), {"oracle": self.ref} | dict(self.options)


def _reference(oracle: Any, mistakes: list[Mistake]) -> FunctionRef:
    """Return the reference of a class that is given itself, or by its import path."""
    if isinstance(oracle, FunctionRef):
        return oracle
    if isinstance(oracle, type):
        return FunctionRef.of(oracle)
    if not isinstance(oracle, str) or ":" not in oracle:
        mistakes.append(got("Custom: the oracle must be a class, or a path 'package.module:Class'", oracle))
        return FunctionRef("?:?")
    try:
        return FunctionRef(oracle).load(trusted=True)  # the user's own program says so
    except OptionError as err:
        mistakes.append(f"Custom: {err}")
        return FunctionRef(oracle)
