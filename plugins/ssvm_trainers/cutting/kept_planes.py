"""Cached planes of single examples, which are evaluated without the oracle.

The best kept plane of every example is a lower bound of its risk, so that the aggregated plane made of them is a
cut like those of an exact pass, for the price of a product with a sparse matrix (the plane cache of Joachims,
Finley and Yu 2009, section 5.2).  A row of that matrix is ``scale psi``, zero wherever a labelling is right, and
as long as the features of wrong variables: memory is O(wrong variables x features of a variable) for each plane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy import sparse

from ssvm_dsl.errors import OutOfTime
from ssvm_dsl.ir import F64, I32, I64, U8, Program, each_marginals, pointers
from ssvm_dsl.plugin_api import Planes, TrainProblem
from ssvm_trainers.shared.resumable import COUNTS, INDEX, MOST, Stateful, StateRule, check_pointers, require

#: Bytes of the digest that identifies a plane of an example.
KEY = 16

#: Marginals that agree to so many decimals are the same plane.
DECIMALS = 12


class SavedRows(NamedTuple):
    """The digests of kept planes, and their vectors as a sparse matrix in compressed rows."""

    keys: Annotated[U8, StateRule(shape=("planes", KEY), dtype="uint8")]
    data: Annotated[F64, StateRule(shape=("entries",))]
    indices: Annotated[I32 | I64, StateRule(least=0, below="dim", shape=("entries",), dtype=INDEX)]
    indptr: Annotated[I32 | I64, StateRule(least=0, shape=("pointers",), dtype=INDEX)]


class KeptPlanes(Stateful):
    """The distinct planes of every example; the truth's, which is zero, is always there and not stored.

    Parameters
    ----------
    problem : TrainProblem
        Its risk is a maximum of planes.
    limit : int, optional
        Most planes kept for an example: those that were best most recently.

    Attributes
    ----------
    owner : ndarray of int64, shape (k,)
        The example of each plane.
    loss : ndarray of float64, shape (k,)
    rows : sparse array, shape (k, dim)
        ``scale psi`` of each plane: its value at w is ``loss - rows @ w``.
    """

    owner: Annotated[I64, StateRule(least=0, below="n", shape=("planes",), dtype="int64")]
    loss: Annotated[F64, StateRule(shape=("planes",))]
    _used: Annotated[I64, StateRule(0, MOST, shape=("planes",), dtype="int64")]
    _time: Annotated[int, COUNTS]

    def check(self, state: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
        """Refuse malformed rows and duplicate planes."""
        require(sizes["pointers"] == sizes["planes"] + 1, "'indptr'", "a row for each plane")
        check_pointers(state["indptr"], sizes["entries"], "indptr")
        row = np.repeat(np.arange(sizes["planes"]), np.diff(state["indptr"]))
        rising = bool((np.diff(row * sizes["dim"] + state["indices"]) > 0).all())
        require(rising, "'indices'", "ascending columns in each row")
        keys = set(zip(state["owner"].tolist(), map(bytes, state["keys"]), strict=True))
        require(len(keys) == sizes["planes"], "'keys'", "different planes")

    def __init__(self, problem: TrainProblem, limit: int | None = None) -> None:
        self.problem, self.limit = problem, limit
        self.owner, self.loss = np.zeros(0, dtype=np.int64), np.zeros(0)
        self.rows = sparse.csr_array((0, problem.dim))
        self._keys: list[tuple[int, bytes]] = []
        self._known: set[tuple[int, bytes]] = set()
        self._used = np.zeros(0, dtype=np.int64)
        self._time = 0

    def __len__(self) -> int:
        return len(self.owner)

    def add(self, planes: Planes) -> I64:
        """Keep the planes that are new (at the end); return which of the planes these are.

        Where time is up before all of them are there, none is kept.
        """
        fresh, row = [], np.zeros(self.problem.dim)
        columns, data = [np.zeros(0, np.int64)], [np.zeros(0)]
        for k, plane in enumerate(each(planes, self.problem.parameters.program)):
            if not self._in_time():
                self._known.difference_update(self._keys[len(self) :])
                del self._keys[len(self) :]
                return np.zeros(0, dtype=np.int64)
            key = (int(plane.examples[0]), key_of(plane))
            if key in self._known:
                continue
            self.problem.accumulate(plane, np.ones(1), row)
            where = np.flatnonzero(row)
            if planes.loss[k] == 0.0 and not len(where):  # as good as the truth's
                continue
            fresh.append(k)
            self._known.add(key)
            self._keys.append(key)
            columns.append(where)
            data.append(row[where])
            row[where] = 0.0
        added = np.array(fresh, dtype=np.int64)
        self._append(planes, added, columns, data)
        self._forget()
        return added

    def _in_time(self) -> bool:
        try:
            self.problem.pause()
        except OutOfTime:
            return False
        return True

    def _append(self, planes: Planes, fresh: I64, columns: list[I64], data: list[F64]) -> None:
        lengths = np.array([len(part) for part in columns[1:]], dtype=np.int64)
        shape = (len(fresh), self.problem.dim)
        more = sparse.csr_array((np.concatenate(data), np.concatenate(columns), pointers(lengths)), shape=shape)
        self.rows = sparse.vstack([self.rows, more], format="csr")
        self.owner = np.concatenate([self.owner, planes.examples[fresh]])
        self.loss = np.concatenate([self.loss, planes.loss[fresh]])
        self._used = np.concatenate([self._used, np.full(len(fresh), self._time)])

    def packed(self) -> SavedRows:
        """Return the rows and the keys as arrays."""
        keys = np.frombuffer(b"".join(key for _, key in self._keys), dtype=np.uint8).reshape(-1, KEY)
        return SavedRows(keys, self.rows.data, self.rows.indices, self.rows.indptr)

    def unpack(self, record: SavedRows) -> None:
        """Rebuild the rows and the keys of the planes from the arrays of a checkpoint."""
        parts, shape = (record.data, record.indices, record.indptr), (len(self), self.problem.dim)
        self.rows = sparse.csr_array(parts, shape=shape)
        keys = (key.tobytes() for key in record.keys)
        self._keys = list(zip(self.owner.tolist(), keys, strict=True))
        self._known = set(self._keys)

    def cut(self, w: F64) -> tuple[float, F64, float]:
        """Return (objective over the kept planes, v, b): the aggregated plane that touches it at w."""
        value, v, b = self.part(w, self.problem.n)
        return self.problem.objective.regularizer(w) + value, v, b

    def part(self, w: F64, n: int) -> tuple[float, F64, float]:
        """Return the same without the regulariser; on a shard, its part of the mean risk over all n examples."""
        objective = self.problem.objective
        values = self.loss - self.rows @ w
        risks = np.zeros(self.problem.n)
        np.maximum.at(risks, self.owner, values)
        best = np.flatnonzero(values >= risks[self.owner])
        owners, one_each = np.unique(self.owner[best], return_index=True)  # the truth's is best for the others
        self._time += 1
        self._used[best] = self._time
        coef = np.zeros(len(self))
        coef[best[one_each]] = objective.slopes(risks[owners]) * objective.weight[owners] / n
        v = self.rows.T @ coef
        mean = float(np.dot(objective.weight, objective.powered(risks))) / n
        return mean, v, mean + float(np.dot(v, w))

    def _forget(self) -> None:
        """Forget the planes of each example beyond the limit that were not best for longest."""
        if self.limit is None or np.bincount(self.owner).max(initial=0) <= self.limit:
            return
        order = np.lexsort((-self._used, self.owner))
        rank = np.arange(len(order)) - np.searchsorted(self.owner[order], self.owner[order])
        self.drop(np.sort(order[rank >= self.limit]))

    def drop(self, which: I64) -> None:
        """Forget some planes."""
        stay = np.ones(len(self), dtype=bool)
        stay[which] = False
        self._known -= {self._keys[k] for k in which}
        self._keys = [self._keys[k] for k in np.flatnonzero(stay)]
        self.owner, self.loss, self._used = self.owner[stay], self.loss[stay], self._used[stay]
        self.rows = self.rows[np.flatnonzero(stay)]


def each(planes: Planes, program: Program) -> Iterator[Planes]:
    """Yield the planes of a batch one at a time."""
    marginals = None
    if planes.marginals is not None:
        marginals = each_marginals(program, planes.marginals, planes.examples)
    for k in range(len(planes.examples)):
        one, labels = slice(k, k + 1), planes.labels[planes.ptr[k] : planes.ptr[k + 1]]
        yield Planes(
            planes.examples[one],
            np.array([0, len(labels)], dtype=np.int64),
            labels,
            planes.loss[one],
            planes.value[one],
            planes.bound[one],
            planes.scale[one],
            None if marginals is None else next(marginals),
        )


def key_of(plane: Planes) -> bytes:
    """Return the key of a plane among those of its example: a digest of its labelling or marginals."""
    if plane.marginals is None:
        return blake2b(plane.labels.tobytes(), digest_size=KEY).digest()
    digest = blake2b(digest_size=KEY)
    for part in (plane.marginals.node, *plane.marginals.tables):
        digest.update((np.round(part, DECIMALS) + 0.0).tobytes())  # no negative zeros
    return digest.digest()
