"""Made-up examples of a declaration: random numbers of the right shapes, to see what backends say to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ssvm_dsl.errors import OptionError
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.inputs import Attributes, Edges, Input

#: Smallest and largest size of a ragged axis that nobody gave.
SMALLEST, LARGEST = 4, 8


def check_sizes(declaration: Declaration, given: Mapping[str, int]) -> None:
    """Refuse sizes of axes that are fixed or unknown.

    Raises
    ------
    OptionError
        Names the axis and lists those that are ragged.
    """
    ragged = [dim.name for dim in declaration.dims if dim.ragged]
    wrong = [name for name in given if name not in ragged]
    if wrong:
        known = ", ".join(ragged) or "none"
        raise OptionError(f"--size {wrong[0]}=...: the ragged axes of {declaration.name} are: {known}")


def make_examples(
    declaration: Declaration, n: int, given: Mapping[str, int], *, trees: bool = False, seed: int = 0
) -> list[dict[str, Any]]:
    """Return n random examples, in the form ``fit`` takes.

    Parameters
    ----------
    declaration : Declaration
    n : int
    given : mapping of str to int
        Sizes of ragged axes; the others are random, different in each example.
    trees : bool
        Edge lists are random trees; otherwise as many random edges as there are positions.
    seed : int
    """
    rng = np.random.default_rng(seed)
    X = []
    for _ in range(n):
        sizes = {dim.name: dim.size or given.get(dim.name) or _some_size(rng) for dim in declaration.dims}
        for edges in (one for one in declaration.inputs if isinstance(one, Edges)):
            n_over = sizes[edges.over.name]
            if edges.dim.ragged and edges.dim.name not in given:
                sizes[edges.dim.name] = n_over - 1 if trees else n_over * (n_over > 1)
        X.append({one.name: _value(one, sizes, trees, rng) for one in declaration.inputs})
    return X


def _some_size(rng: np.random.Generator) -> int:
    return int(rng.integers(SMALLEST, LARGEST + 1))


def _value(source: Input | Attributes | Edges, sizes: Mapping[str, int], trees: bool, rng: np.random.Generator) -> Any:
    """Return one input of one example."""
    if isinstance(source, Edges):
        return _edges(sizes[source.dim.name], sizes[source.over.name], trees, rng)
    shape = tuple(sizes[dim.name] for dim in source.dims)
    if isinstance(source, Attributes):
        tokens = [[f"made-up={rng.integers(10)}", "bias"] for _ in range(shape[0] if shape else 1)]
        return tokens if shape else tokens[0]
    if source.sparse:
        from scipy.sparse import csr_array

        rows, few = shape[0] if shape else 1, 4
        columns, ends = rng.integers(source.width, size=rows * few), range(0, rows * few + 1, few)
        return csr_array((rng.standard_normal(rows * few), columns, ends), (rows, source.width))
    return rng.standard_normal((*shape, *source.shape))


def _edges(m: int, n: int, trees: bool, rng: np.random.Generator) -> Any:
    """Return m edges over n positions: to a random earlier one (a tree), or from anywhere to anywhere."""
    if m and n < 2:
        raise OptionError(f"an edge joins two positions, and there is {n}; give a larger --size")
    if trees:
        if m >= n:
            raise OptionError(f"{m} edges over {n} positions are no tree; leave out --trees or give other sizes")
        child = np.arange(1, m + 1)
        return np.stack([child, (rng.random(m) * child).astype(np.int64)], axis=1)
    first = rng.integers(n, size=m)
    return np.stack([first, (first + rng.integers(1, max(n, 2), size=m)) % n], axis=1)
