"""Dense features of very different sizes: what they cost trainers, and the cure.

Steps of most trainers are as long in every direction, so that the largest column decides their length, and weights of
small columns hardly move.  ``lbfgs`` divides by a guess of the curvature, and is not slowed.
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.compiler.features.weight_names import weight_names
from ssvm_dsl.ir.features import FeatureMap
from ssvm_dsl.lang.features.kernel_features import Kernel
from ssvm_dsl.lang.inputs import Source
from ssvm_dsl.plugin_api.specs import TrainerSpec

#: Columns whose sizes differ by more than this are worth a warning.
APART = 100.0

#: Numbers that are squared at a time, and rows that are looked at: some that are spread evenly show the sizes.
SLICE, ROWS = 2**18, 4096


def scale_warning(grounded: Grounded, spec: TrainerSpec) -> str:
    """Return the warning about columns of dense features whose sizes differ much; empty where there are none.

    Parameters
    ----------
    grounded : Grounded
        The training data.
    spec : TrainerSpec
        The trainer that learns from them.
    """
    if spec.scale_free:
        return ""
    apart = 1.0, "", ""
    kernels = {one.name for one in grounded.declaration.factors if _has_kernel(one.features)}
    for fmap in grounded.parameters.maps:
        if not isinstance(fmap.features, np.ndarray) or fmap.width < 2 or fmap.joint or fmap.name in kernels:
            continue
        sizes = column_sizes(fmap.features)
        known = np.flatnonzero(sizes > 0.0)
        if not len(known):
            continue
        small, large = int(known[np.argmin(sizes[known])]), int(np.argmax(sizes))
        ratio = float(sizes[large] / sizes[small])
        if max(APART, apart[0]) < ratio < np.inf:  # what overflows is an error elsewhere
            names = _names(grounded, fmap)
            apart = ratio, fmap.source, f"{names[large]} is about {sizes[large]:.3g}, {names[small]} {sizes[small]:.3g}"
    ratio, source, which = apart
    if not source:
        return ""
    text = f"features of {source} differ in size by {ratio:,.0f} times ({which})"
    cure = "declare features=Standardized(...), or divide the columns by their sizes"
    return f"{text}; trainer '{spec.name}' is slow on them: {cure}"


def _has_kernel(source: Source | None) -> bool:
    """Whether features are those of an exact kernel, whose sizes are what they must be."""
    return source is not None and (isinstance(source, Kernel) or any(map(_has_kernel, source.sources)))


def column_sizes(rows: F64) -> F64:
    """Return the root mean square of the numbers of each column that are not 0; 0 for columns of zeros.

    Of standardised columns it is 1, and so it is of indicators, however rare.  Of many rows some are looked at.
    """
    rows = rows[:: max(1, len(rows) // ROWS)]
    total, count = np.zeros(rows.shape[1]), np.zeros(rows.shape[1], dtype=np.int64)
    step = max(1, SLICE // rows.shape[1])
    with np.errstate(over="ignore"):
        for lo in range(0, len(rows), step):
            part = rows[lo : lo + step]
            total += np.einsum("ij,ij->j", part, part)
            count += np.count_nonzero(part, axis=0)
        return np.sqrt(total / np.maximum(count, 1))


def _names(grounded: Grounded, fmap: FeatureMap) -> list[str]:
    """Return the names of the columns of a map."""
    factors = {factor.name: factor for factor in grounded.declaration.factors}
    names = weight_names(factors[fmap.block.name], grounded.declaration, grounded.fitted).features
    return [str(name) for name in names or range(fmap.width)]
