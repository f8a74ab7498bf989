"""``MetShapes``: inputs of shapes that have passed the checks before are not checked again.

What :func:`~ssvm_dsl.compiler.inputs.validate.read_examples` refuses of dense inputs follows from the names, kinds and
shapes of the arrays, of attributes from the lengths of lists; so do the sizes of axes, and the structure.  For a few
examples looking them up is all that is left of validation (a tenth of a prediction of one example).  The numbers
and the attributes themselves are checked where they are stacked.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ssvm_dsl.array_types import I64
from ssvm_dsl.compiler.inputs.validate import Examples
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.inputs import Attributes, ExampleInput, Input

#: Examples beyond which reading them all is as quick, and shapes that are remembered.
FEW, MOST = 8, 1024


class MetShape(NamedTuple):
    """What follows from the shapes of some examples.

    Parameters
    ----------
    sizes : dict of str to ndarray of int64, shape (n,)
        As of :class:`~ssvm_dsl.compiler.inputs.validate.Examples`; read only.
    structure : hashable
        The key of their structure.
    """

    sizes: dict[str, I64]
    structure: Hashable


class MetShapes:
    """The shapes of one model's examples that were read before.

    Parameters
    ----------
    declaration : Declaration
    """

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self._known: dict[Hashable, MetShape] = {}
        self._names: dict[bool, tuple[str, ...] | None] = {}
        for judged in (False, True):
            inputs = declaration.inputs if judged else declaration.scored_inputs
            simple = all(map(_is_simple, inputs)) and not declaration.structural_inputs
            self._names[judged] = tuple([one.name for one in inputs]) if simple else None
        # how deep the lists of attributes are; arrays: 0
        self._depth = {one.name: len(one.dims) if isinstance(one, Attributes) else 0 for one in declaration.inputs}
        self._bare = self._depth[declaration.inputs[0].name] if len(declaration.inputs) == 1 else 0

    def find(self, X: object, judged: bool) -> tuple[Examples, Hashable] | None:
        """Return (examples, key of their structure) where such shapes were read before.

        Parameters
        ----------
        X : list of examples
            As users pass them.
        judged : bool
            Whether inputs that only the loss reads are there as well.
        """
        key = self._key(X, judged)
        met = None if key is None else self._known.get(key)
        if met is None:
            return None
        assert isinstance(X, list)
        raw: dict[str, Sequence[Any]] = {}
        for name in self._names[judged] or ():
            raw[name] = [one[name] if type(one) is dict else one for one in X]
        return Examples(len(X), met.sizes, raw), met.structure

    def note(self, X: object, judged: bool, examples: Examples, structure: Hashable) -> None:
        """Remember the shapes of examples that have been read."""
        key = self._key(X, judged)
        if key is not None:
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[key] = MetShape(examples.sizes, structure)

    def _key(self, X: object, judged: bool) -> Hashable | None:
        """Return what the checks look at; ``None`` where they look at more, as of lists or edges."""
        names = self._names[judged]
        if names is None or type(X) is not list or not 0 < len(X) <= FEW:
            return None
        key: list[Hashable] = [judged]
        for one in X:
            if type(one) is dict:
                key.append(tuple(one))
                for name in names:
                    if not _note(key, one.get(name), self._depth[name]):
                        return None
            elif not _note(key, one, self._bare):
                return None
        return tuple(key)


def _is_simple(symbol: ExampleInput) -> bool:
    """Whether all that is checked of an input is the shape of an array, or the lengths of lists of attributes."""
    if isinstance(symbol, Attributes):
        return len(symbol.dims) > 0  # the attributes of the only position look like an example with names of inputs
    return isinstance(symbol, Input) and not symbol.sparse


def _note(found: list[Hashable], value: Any, depth: int) -> bool:
    """Note what the checks look at of an array, or of lists of attributes; return whether it is that."""
    if depth:
        if type(value) is not list or (depth == 2 and not all(type(row) is list for row in value)):
            return False
        found += (list, len(value)) if depth == 1 else (list, *map(len, value))
        return True
    if type(value) is not np.ndarray:
        return False
    found += value.dtype, value.shape
    return True
