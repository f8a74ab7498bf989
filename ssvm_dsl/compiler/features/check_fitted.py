"""What fitted features learnt, checked against the declaration: for files, whose numbers kernels rely on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from ssvm_dsl.compiler.feature_maps import factor_block
from ssvm_dsl.compiler.features.encode import LearntFeatures, are_arrays, fitted_keys
from ssvm_dsl.compiler.features.observed import check_pairs, of_learnt
from ssvm_dsl.ir.features import Block
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.factors import Factor, Given
from ssvm_dsl.lang.features import sources as lang
from ssvm_dsl.lang.features.kernel_features import Kernel, KernelMap, Nystroem, RandomFourier
from ssvm_dsl.lang.inputs import Attributes, Input, Source

#: The kinds of this package that learn arrays: their names and shapes are known.
_BUNDLED = lang.PLiF | lang.Standardized | lang.Scaled | lang.Whitened | KernelMap | Kernel


class LearntWidths:
    """The numbers of features that a model has for what was learnt.

    Parameters
    ----------
    declaration : Declaration
    fitted : LearntFeatures
        Its parts are checked when it is made.

    Raises
    ------
    ValueError
        Something is missing, of another shape or out of range; names the feature.
    """

    def __init__(self, declaration: Declaration, fitted: LearntFeatures) -> None:
        self._keys, self._fitted = fitted_keys(declaration), fitted
        known = set()
        scored: tuple[Factor | Given, ...] = (*declaration.factors, *declaration.given)
        for one in scored:
            for source in _learning(one.features):
                known.add(self._keys[source])
                self._check(source)
        for symbol in declaration.inputs:
            if isinstance(symbol, Input) and symbol.name in fitted:
                known.add(symbol.name)
                self._check_columns(symbol)
        for factor in declaration.factors:
            if factor.observed and factor.tie is None:
                known.add(factor.name)
                self.pairs(factor)
        # older files also hold knots that are declared
        declared = {key for source, key in self._keys.items() if isinstance(source, lang.PLiF) and source.knots}
        if set(fitted) - declared != known:
            raise ValueError(f"expected what these learnt: {sorted(known)}, found {sorted(fitted)}")

    def of(self, source: Source) -> int:
        """Return the number of features of a source."""
        if source.width is not None:
            return source.width
        if isinstance(source, Attributes):
            return len(self._learnt(source, "names"))
        if isinstance(source, Kernel):
            return len(self._learnt(source, "components"))
        return sum(self.of(part) for part in source.sources)

    def pairs(self, factor: Factor) -> int:
        """Return how many observed pairs a factor has weights for."""
        learnt = self._entry(factor.name, "ptr", "state")
        if not all(isinstance(array, np.ndarray) for array in learnt.values()):
            raise ValueError(f"factor '{factor.name}': expected arrays of observed pairs")
        assert factor.features is not None
        pairs = of_learnt(dict(learnt))
        try:
            check_pairs(pairs, self.of(factor.features), prod(factor.target.cards))
        except ValueError as err:
            raise ValueError(f"factor '{factor.name}': {err}") from err
        return pairs.n_pairs

    def _entry(self, key: str, *names: str) -> Mapping[str, Any]:
        """Return the fitted state of a key, which must have exactly these names."""
        entry = self._fitted.get(key, {})
        if set(entry) != set(names):
            raise ValueError(f"{key!r}: expected {', '.join(names)}, found {', '.join(entry) or 'nothing'}")
        return entry

    def _learnt(self, source: Source, name: str) -> Any:
        return self._fitted[self._keys[source]][name]

    def _check_columns(self, symbol: Input) -> None:
        """Check the names of columns of data frames."""
        columns = self._entry(symbol.name, "columns")["columns"]
        texts = isinstance(columns, list) and all(isinstance(name, str) for name in columns)
        if not texts or symbol.shape != (len(columns),):
            raise ValueError(f"{symbol.name!r}: expected the names of {symbol.width} columns")

    def _check(self, source: Source) -> None:
        """Check what one source learnt."""
        key = self._keys[source]
        if isinstance(source, Attributes):
            names = self._entry(key, "names")["names"]
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise ValueError(f"{key!r}: expected names of attributes")
            if not names or len(set(names)) < len(names):
                raise ValueError(f"{key!r}: expected different names of attributes")
            return
        assert isinstance(source, lang.Transform)
        if not isinstance(source, _BUNDLED):
            if not are_arrays(self._fitted.get(key)):
                raise ValueError(f"{key!r}: expected a dict of arrays of numbers")
            return
        width = self.of(source.source)
        shapes: dict[str, tuple[int, ...]] = {"mean": (width,)}
        shapes |= {"matrix": (width, width)} if isinstance(source, lang.Whitened) else {"scale": (width,)}
        if isinstance(source, lang.Scaled):
            shapes = {"scale": (width,)}
        if isinstance(source, RandomFourier):
            shapes = {"weights": (source.width, width), "offset": (source.width,)}
        if isinstance(source, Nystroem):
            m = source.width
            shapes = {"components": (m, width), "normalization": (m, m), "gamma": (1,)}
        if isinstance(source, Kernel):
            r = len(self._fitted.get(key, {}).get("components", ()))
            shapes = {"components": (r, width), "factor": (r, r), "gamma": (1,), "rows": (1,), "residual": (1,)}
        if isinstance(source, lang.PLiF):
            shapes = {"knots": (width, source.n_knots)}
        for name, array in self._entry(key, *shapes).items():
            if not isinstance(array, np.ndarray) or array.dtype != np.float64 or array.shape != shapes[name]:
                found = f"shape {array.shape}, {array.dtype}" if isinstance(array, np.ndarray) else repr(array)[:40]
                raise ValueError(f"{key!r}: expected {name} of shape {shapes[name]}, float64, found {found}")
            if not np.isfinite(array).all() or (name in ("scale", "gamma") and not (array > 0).all()):
                raise ValueError(f"{key!r}: expected finite numbers, scales and gamma above 0, in {name}")
            if name == "factor" and not (np.diag(array) > 0).all():
                raise ValueError(f"{key!r}: expected a factor with a positive diagonal")
            if name == "knots" and (np.diff(array, axis=1) < 0).any():
                raise ValueError(f"{key!r}: expected ascending knots")


def _learning(source: Source | None) -> Iterator[Source]:
    """Yield the sources that learn something; hashed attributes learn no names."""
    if source is None:
        return
    if source.learns:
        yield source
    if not isinstance(source, lang.Hashed):
        for part in source.sources:
            yield from _learning(part)


def weight_blocks(declaration: Declaration, widths: LearntWidths) -> tuple[Block, ...]:
    """Return the layout of a model's weights."""
    out: list[Block] = []
    for factor in declaration.factors:
        if factor.tie is None:
            width = None if factor.features is None else widths.of(factor.features)
            n_pairs = widths.pairs(factor) if factor.observed else None
            out.append(factor_block(factor, width, out[-1].stop if out else 0, n_pairs))
    return tuple(out)
