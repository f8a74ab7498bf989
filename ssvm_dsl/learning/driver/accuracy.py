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
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.ir.features import FeatureMap, ObservedPairs, SlicedRows, SparseRows
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


class Accuracy:
    """What rounding may do to the numbers of one training problem.

    Parameters
    ----------
    parameters : ParameterMap
    objective : RegularizedRisk
    reach : ndarray of float64, shape (n,)
        Labellings in a plane of each example, times what scales them: the r_i.
    """

    def __init__(self, parameters: ParameterMap, objective: RegularizedRisk, reach: F64) -> None:
        self.parameters, self.objective = parameters, objective
        coef = objective.weight * reach / max(objective.n, 1)
        self._masses = [(fmap, mass_of(fmap, coef)) for fmap in parameters.maps if fmap.block.size]
        self.n_factors = float(sum(fmap.n_factors for fmap in parameters.maps))
        self.error = _error(self.n_factors)
        self._slope = 1.0  # of risks raised to a power
        with np.errstate(over="ignore", invalid="ignore"):
            self._square = self._squares()

    def watch(self, steepness: F64) -> None:
        """Take note of how steep planes are: of risks raised to a power, as steep as the risks are large."""
        self._slope = max(1.0, float(steepness.max(initial=0.0)))

    def of_value(self, w: F64, value: float) -> float:
        """Return by how much an objective at w may be off."""
        return self.error * (self._slope * self._size(w) + abs(value))

    def of_bound(self, v: F64, b: float, value: float) -> float:
        """Return by how much the lower bound ``D(v, b) = value`` may be above what the planes behind it prove."""
        slope, rest = self._slope, self.error * (abs(b) + abs(value))
        scaled = self.error * slope * self._outside * abs(value) if self.objective.l1 else np.inf
        if not self.objective.lam:
            return scaled + rest
        moved = self.error * slope * self._size(v, dual=True) + (self.error * slope) ** 2 * self._square
        return min(moved, scaled) + rest

    @cached_property
    def _outside(self) -> float:
        """The largest ``m_j / (l1 scale_j)`` over the regularised weights.

        Beside an L1 penalty, a bound D of planes scaled down falls to no less than ``D / (1 + r)`` when each v_j moves
        by ``r l1 scale_j``: they are scaled down by 1 + r more.
        """
        scale = self.objective.l1 * self.objective.scale
        return float(np.max(self.mass()[scale > 0.0] / scale[scale > 0.0], initial=0.0))

    def largest_rise(self, w: F64) -> float:
        """Return the most that the mean of the weighted risks (powers apart) can rise from weights of 0 to w."""
        return self._size(w)

    def mass(self) -> F64:
        """Return the m_j; ``shape (dim,)``."""
        total = np.zeros(self.parameters.dim)
        for fmap, mass in self._masses:
            total[fmap.block.offset : fmap.block.stop] += _by_weight(fmap, mass)
        return total

    @property
    def overflows(self) -> bool:
        """Whether training overflows: the features are too large, or the regularisation is too weak."""
        return not self._square <= LARGEST

    def largest(self) -> Excess | None:
        """Return the largest number among the features; ``None`` without features."""
        candidates = [largest_of(fmap) for fmap, _ in self._masses if fmap.features is not None]
        return max(candidates, key=lambda one: abs(one.value), default=None)

    def _squares(self) -> float:
        """Return ``sum_j m_j^2 / (2 lam scale_j)`` over the regularised weights; maps that share weights add up."""
        sharing = Counter(fmap.block.offset for fmap, _ in self._masses)
        total, strength = 0.0, self.objective.lam or 1.0
        for fmap, mass in self._masses:
            scale = float(self.objective.scale[fmap.block.offset])
            if scale > 0.0:
                square = fmap.block.size / max(mass.size, 1) * float(np.dot(mass, mass)) * sharing[fmap.block.offset]
                total += square / (2.0 * strength * scale)
        return total if total == total else np.inf

    def _size(self, w: F64, dual: bool = False) -> float:
        """Return ``sum_j m_j |w_j|``, for the weights that attain the lower bound of v where ``dual``."""
        total, objective = 0.0, self.objective
        for fmap, mass in self._masses:
            scale = float(objective.scale[fmap.block.offset]) * objective.lam if dual else 1.0
            if scale > 0.0:
                total += _absolute_dot(fmap, mass, w[fmap.block.offset : fmap.block.stop]) / scale
        return total


class SummedAccuracy(Accuracy):
    """The same for data that are not here, from what is known of their parts.

    Parameters
    ----------
    parameters : ParameterMap
        Of no examples.
    objective : RegularizedRisk
    mass : ndarray of float64, shape (dim,)
        The m_j.
    n_factors : float
        Of all examples.
    largest : Excess or None
        The largest number among the features.
    """

    def __init__(
        self, parameters: ParameterMap, objective: RegularizedRisk, mass: F64, n_factors: float, largest: Excess | None
    ) -> None:
        self._mass, self._most = mass, largest
        super().__init__(parameters, objective, np.zeros(len(objective.weight)))
        self.n_factors, self.error = n_factors, _error(n_factors)

    def mass(self) -> F64:
        """Return the m_j; ``shape (dim,)``."""
        return self._mass.copy()

    def largest(self) -> Excess | None:
        """Return the largest number among the features; ``None`` without features."""
        return self._most

    def _squares(self) -> float:
        regular = self.objective.scale > 0.0
        strength = self.objective.lam or 1.0
        total = float(np.sum(self._mass[regular] ** 2 / self.objective.scale[regular])) / (2.0 * strength)
        return total if total == total else np.inf

    def _size(self, w: F64, dual: bool = False) -> float:
        if not dual:
            return float(np.dot(self._mass, np.abs(w)))
        regular = self.objective.scale > 0.0
        size = self._mass[regular] * np.abs(w[regular]) / self.objective.scale[regular]
        return float(size.sum()) / self.objective.lam


def _error(n_factors: float) -> float:
    """Return the rounding of one operation times how many follow each other."""
    return EPS * (STEPS + min(n_factors, 4.0 * float(np.sqrt(n_factors))))


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
    if isinstance(fmap.features, SparseRows):
        return _sparse_mass(fmap.features, _by_row(fmap, share))
    dense, total = fmap.features, np.zeros(fmap.width)
    per = fmap.n_configs if fmap.joint else 1
    by_row = share if fmap.joint else _by_row(fmap, share)
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


def _by_row(fmap: FeatureMap, share: F64) -> F64:
    """Return the weight of each feature row: the sum over the factors that use it."""
    n_rows = 0 if fmap.features is None else fmap.features.shape[0]
    if fmap.rows is None:
        return share[:n_rows]
    return np.asarray(np.bincount(fmap.rows_of(None), share, n_rows), dtype=np.float64)


def _absolute_dot(fmap: FeatureMap, mass: F64, w: F64) -> float:
    """Return ``sum_j m_j |w_j|`` over a block of weights; takes little memory."""
    if fmap.observed is not None:
        return sum(float(np.dot(np.abs(w[pairs]), part)) for pairs, part in _by_pair(fmap.observed, mass))
    by_column = isinstance(fmap.features, np.ndarray | SlicedRows)
    rows = w.reshape(-1, fmap.width if by_column else fmap.n_basis)
    step = max(1, SLICE // max(rows.shape[1], 1))
    parts = [slice(lo, lo + step) for lo in range(0, len(rows), step)]
    if by_column:
        return sum(float((np.abs(rows[part]) @ mass).sum()) for part in parts)
    each = np.tile(mass, len(rows) // max(len(mass), 1))  # the same for every unit
    return sum(float(np.dot(np.abs(rows[part]).sum(axis=1), each[part])) for part in parts)


def _by_weight(fmap: FeatureMap, mass: F64) -> F64:
    """Return the mass of each weight of a block."""
    size = fmap.block.size
    if fmap.observed is not None:
        return np.repeat(mass, np.diff(fmap.observed.ptr))
    if isinstance(fmap.features, np.ndarray | SlicedRows):
        return np.tile(mass, size // max(len(mass), 1))
    each = np.tile(mass, size // max(fmap.n_basis * len(mass), 1))
    return np.repeat(each, size // max(len(each), 1))


def _by_pair(pairs: ObservedPairs, mass: F64) -> Iterator[tuple[slice, F64]]:
    """Yield the weights of runs of features that have them for some states only, and the mass of each."""
    step = max(1, SLICE * pairs.n_features // max(pairs.n_pairs, 1))
    for lo in range(0, pairs.n_features, step):
        ptr = pairs.ptr[lo : lo + step + 1]
        yield slice(int(ptr[0]), int(ptr[-1])), np.repeat(mass[lo : lo + step], np.diff(ptr))


def largest_of(fmap: FeatureMap) -> Excess:
    """Return the largest number among the features of a map, and its example."""
    features = fmap.features
    assert features is not None
    numbers = features.data if isinstance(features, SparseRows) else features[:]
    if not numbers.size:
        return Excess(fmap.source, 0, 0.0, False)
    high, low = int(numbers.argmax()), int(numbers.argmin())
    place = high if numbers.flat[high] >= -numbers.flat[low] else low
    row = place // max(fmap.width, 1)
    if isinstance(features, SparseRows):
        row = int(np.searchsorted(features.ptr, place, side="right")) - 1
    example, dense = int(np.searchsorted(fmap.row_ptr, row, side="right")) - 1, not fmap.sparse and not fmap.joint
    return Excess(fmap.source, example, float(numbers.flat[place]), dense)
