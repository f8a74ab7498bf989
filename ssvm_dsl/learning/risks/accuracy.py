"""How exact objectives and lower bounds are: what rounding may add to them, bounded from the data.

Scores are sums of products ``x w``, and aggregated planes sums of features, both with a relative error for each term.
With the *mass* of a weight, the mean of all that its features sum up to in absolute numbers,

    m_j = 1/n sum_i weight_i r_i sum_{factors of i} |x_j| max |basis| ,

where r_i are the labellings in a plane of example i, an objective at w is off by at most ``e (sum_j m_j |w_j| + P)``,
and a plane (v, b) by ``e m_j`` in each v_j.  The lower bound D(v, b), whose slope in v are the weights w(v) that
attain it, is then off by at most

    e (sum_j m_j |w_j(v)| + |b| + |D|)  +  e^2 sum_j m_j^2 / (2 lam scale_j) ,

where e is the rounding of one operation times how many of them follow each other: some for one score, and as many as
there are factors where features are added up one after the other, or 4 times their root where these are many (their
roundings do not all have one sign).  With features of ordinary size all this is some 1e-13 of the objective.  With
features of 1e15 and more it is larger than any gap worth having, and says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.ir.features import Block, FeatureMap, SlicedRows, SparseRows
from ssvm_dsl.ir.ragged import SLICE, owners
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.scores.parameter_map import ParameterMap

#: Rounding of one operation.
EPS = float(np.finfo(np.float64).eps)

#: Operations that follow each other in one score, or in the trainer's combination of planes.
STEPS = 16.0

#: Numbers of features that are made absolute at a time.
CHUNK = 2**18

#: Masses whose squares, over the regularisation, are beyond this leave no room for sums and products.
LARGEST = 1e290


@dataclass(frozen=True, eq=False)
class Excess:
    """Features so large that the arithmetic of training overflows with them.

    Parameters
    ----------
    source : str
        A description of the input, or of the factor whose features they are.
    example : int
    value : float
        The largest number.
    dense : bool
        Whether ``Standardized`` takes such an input.
    """

    source: str
    example: int
    value: float
    dense: bool


@dataclass(frozen=True, eq=False)
class Mass:
    """The masses of a block of weights, as few numbers as differ.

    Weight j of the block has the mass ``values[j // n_alike % len(values)]``; where features have weights for some
    states only, those from ``ptr[f]`` to ``ptr[f + 1]`` have the mass ``values[f]``.

    Parameters
    ----------
    block : Block
    values : ndarray of float64
    n_alike : int
    ptr : ndarray of int64, optional
    """

    block: Block
    values: F64
    n_alike: int = 1
    ptr: I64 | None = None

    def by_weight(self) -> F64:
        """Return the mass of each weight."""
        if self.ptr is not None:
            return np.repeat(self.values, np.diff(self.ptr))
        period = np.repeat(self.values, self.n_alike)
        return np.tile(period, self.block.size // max(len(period), 1))

    def size(self, w: F64) -> float:
        """Return ``sum_j m_j |w_j|`` over the weights of the block; takes little memory."""
        w, values, total = w[self.block.offset : self.block.stop], self.values, 0.0
        if self.ptr is not None:
            step = max(1, SLICE * len(values) // max(len(w), 1))
            for lo in range(0, len(values), step):
                ptr = self.ptr[lo : lo + step + 1]
                part = np.repeat(values[lo : lo + step], np.diff(ptr))
                total += float(np.dot(np.abs(w[ptr[0] : ptr[-1]]), part))
            return total
        rows = w.reshape(-1, len(values) if self.n_alike == 1 else self.n_alike)
        step = max(1, SLICE // max(rows.shape[1], 1))
        for lo in range(0, len(rows), step):
            sizes = np.abs(rows[lo : lo + step])
            if self.n_alike == 1:
                total += float((sizes @ values).sum())
            else:
                total += float(np.dot(sizes.sum(axis=1), values[np.arange(lo, lo + len(sizes)) % len(values)]))
        return total


class Accuracy:
    """What rounding may do to the numbers of one training problem.

    Parameters
    ----------
    objective : RegularizedRisk
    masses : sequence of Mass
        Those of blocks that are the same add up.
    n_factors : float
        Of all examples.
    largest : callable
        Returns the largest number among the features; ``None`` without features.

    Attributes
    ----------
    error : float
        The rounding of one operation times how many follow each other.
    overflows : bool
        Whether training overflows: the features are too large, or the regularisation is too weak.
    """

    def __init__(
        self, objective: RegularizedRisk, masses: Sequence[Mass], n_factors: float, largest: Callable[[], Excess | None]
    ) -> None:
        self.objective, self.masses, self.n_factors, self.largest = objective, masses, n_factors, largest
        self.error = EPS * (STEPS + min(n_factors, 4.0 * float(np.sqrt(n_factors))))
        self._slope = 1.0  # of risks raised to a power
        self._square = 0.0  # sum_j m_j^2 / (2 lam scale_j) over the regularised weights
        sharing = Counter(map(attrgetter("block.offset"), masses))
        with np.errstate(over="ignore", invalid="ignore"):
            for mass in masses:
                scale = float(objective.scale[mass.block.offset])
                if scale > 0.0:
                    square = mass.block.size / max(mass.values.size, 1) * float(np.dot(mass.values, mass.values))
                    self._square += square * sharing[mass.block.offset] / (2.0 * (objective.lam or 1.0) * scale)
        self.overflows = not self._square <= LARGEST

    def watch(self, steepness: F64) -> None:
        """Take note of how steep planes are: of risks raised to a power, as steep as the risks are large."""
        self._slope = max(1.0, float(steepness.max(initial=0.0)))

    def of_value(self, w: F64, value: float) -> float:
        """Return by how much an objective at w may be off."""
        return self.error * (self._slope * self.size(w) + abs(value))

    def of_bound(self, v: F64, b: float, value: float) -> float:
        """Return by how much the lower bound ``D(v, b) = value`` may be above what the planes behind it prove."""
        slope, rest = self._slope, self.error * (abs(b) + abs(value))
        scaled = self.error * slope * self._outside * abs(value) if self.objective.l1 else np.inf
        if not self.objective.lam:
            return scaled + rest
        moved = self.error * slope * self.size(v, dual=True) + (self.error * slope) ** 2 * self._square
        return min(moved, scaled) + rest

    @cached_property
    def _outside(self) -> float:
        """The largest ``m_j / (l1 scale_j)`` over the regularised weights.

        Beside an L1 penalty, a bound D of planes scaled down falls to no less than ``D / (1 + r)`` when each v_j moves
        by ``r l1 scale_j``: they are scaled down by 1 + r more.
        """
        scale = self.objective.l1 * self.objective.scale
        return float(np.max(self.by_weight()[scale > 0.0] / scale[scale > 0.0], initial=0.0))

    def by_weight(self) -> F64:
        """Return the m_j; ``shape (dim,)``."""
        total = np.zeros(self.objective.dim)
        for mass in self.masses:
            total[mass.block.offset : mass.block.stop] += mass.by_weight()
        return total

    def size(self, w: F64, dual: bool = False) -> float:
        """Return ``sum_j m_j |w_j|``, for the weights that attain the lower bound of v where ``dual``.

        It is the most that the mean of the weighted risks (powers apart) can rise from weights of 0 to w.
        """
        total, objective = 0.0, self.objective
        for mass in self.masses:
            scale = float(objective.scale[mass.block.offset]) * objective.lam if dual else 1.0
            if scale > 0.0:
                total += mass.size(w) / scale
        return total


def accuracy_of(parameters: ParameterMap, objective: RegularizedRisk, reach: F64 | float) -> Accuracy:
    """Return what rounding may do to the numbers of a problem.

    Parameters
    ----------
    parameters : ParameterMap
    objective : RegularizedRisk
    reach : ndarray of float64, shape (n,)
        Labellings in a plane of each example, times what scales them: the r_i.
    """
    coef, masses, n_factors = objective.weight * reach / max(objective.n, 1), list[Mass](), 0.0
    for fmap in parameters.maps:
        n_factors += fmap.n_factors
        if fmap.block.size:
            by_column = isinstance(fmap.features, np.ndarray | SlicedRows)
            ptr = None if fmap.observed is None else fmap.observed.ptr
            masses.append(Mass(fmap.block, mass_of(fmap, coef), 1 if by_column else fmap.n_basis, ptr))
    return Accuracy(objective, masses, n_factors, partial(largest_of, parameters))


def mass_of(fmap: FeatureMap, coef: F64) -> F64:
    """Return the mass of a map's weights: by unit where there are no features, else by feature (of any unit).

    Parameters
    ----------
    fmap : FeatureMap
    coef : ndarray of float64, shape (n,)
        What each example counts for.
    """
    form = 1.0 if fmap.basis is None else float(np.abs(fmap.basis).max(initial=0.0))
    if fmap.features is None:
        shapes = fmap.shapes
        share = form * np.bincount(shapes.of, coef, shapes.n_shapes)[owners(shapes.start)]  # of each factor of a shape
        unit = np.zeros(len(share), np.int64) if fmap.units is None else fmap.units
        return np.asarray(np.bincount(unit, share, fmap.n_units), dtype=np.float64)
    share = form * coef[owners(fmap.ptr)]  # of each factor
    by_row = share
    if isinstance(fmap.features, SparseRows) or not fmap.joint:  # the sum over the factors that use a row
        n_rows = fmap.features.shape[0]
        by_row = share[:n_rows] if fmap.rows is None else np.bincount(fmap.rows_of(None), share, n_rows).astype(float)
    if isinstance(fmap.features, SparseRows):
        return _sparse_mass(fmap.features, by_row)
    dense, total, per = fmap.features, np.zeros(fmap.width), fmap.n_configs if fmap.joint else 1
    size = max(1, CHUNK // max(fmap.width * per, 1))
    for lo in range(0, len(by_row), size):
        part = np.abs(dense[lo * per : (lo + size) * per])
        if fmap.joint:
            part = part.reshape(-1, per, fmap.width).max(axis=1)
        total += by_row[lo : lo + size] @ part
    return total


def _sparse_mass(rows: SparseRows, by_row: F64) -> F64:
    """Return the mass of each column of sparse rows, a few rows at a time."""
    total, n_rows = np.zeros(rows.n_columns), len(by_row)
    step = max(1, CHUNK * n_rows // max(len(rows.data), 1))
    for lo in range(0, n_rows, step):
        ptr = rows.ptr[lo : lo + step + 1]
        part = slice(int(ptr[0]), int(ptr[-1]))
        amounts = np.abs(rows.data[part])
        amounts *= np.repeat(by_row[lo : lo + step], np.diff(ptr))
        np.add.at(total, rows.indices[part], amounts)
    return total


def largest_of(parameters: ParameterMap) -> Excess | None:
    """Return the largest number among the features, and its example; ``None`` without features."""
    found: Excess | None = None
    for fmap in parameters.maps:
        features = fmap.features
        if features is None or not fmap.block.size:
            continue
        numbers = features.data if isinstance(features, SparseRows) else features[:]
        if not numbers.size:
            found = found or Excess(fmap.source, 0, 0.0, False)
            continue
        high, low = int(numbers.argmax()), int(numbers.argmin())
        place = high if numbers.flat[high] >= -numbers.flat[low] else low
        value = float(numbers.flat[place])
        if found is not None and abs(value) <= abs(found.value):
            continue
        row, dense = place // max(fmap.width, 1), not fmap.sparse and not fmap.joint
        if isinstance(features, SparseRows):
            row = int(np.searchsorted(features.ptr, place, side="right")) - 1
        found = Excess(fmap.source, int(np.searchsorted(fmap.row_ptr, row, side="right")) - 1, value, dense)
    return found
