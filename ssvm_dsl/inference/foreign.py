"""Sessions of foreign backends: they see read-only arrays, and what they return is copied.

Bundled backends are not wrapped: they are tested with this package, and a read-only array is another type to numba, so
that every kernel would be compiled twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.inference.form import Fault
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.need import Limits, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.ragged import members
from ssvm_dsl.ir.solution import Marginals, Solution
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api.compiled import CompiledMessages, CompiledOracle
from ssvm_dsl.plugin_api.protocols import Session

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

_NO_LIMITS = Limits()

#: Accuracy of what ``expect`` adds for a variable: its marginals sum to one.
EXPECT_ATOL = 1e-6


def read_only(value: Any) -> Any:
    """Return arrays, and records and tuples of them, as views that cannot be written through."""
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if isinstance(value, tuple):
        return tuple(map(read_only, value))
    if isinstance(value, dict):
        return {name: read_only(one) for name, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        made = replace(value, **{one.name: read_only(getattr(value, one.name)) for one in fields(value) if one.init})
        cached = {name: read_only(one) for name, one in vars(value).items() if name not in vars(made)}
        vars(made).update(cached)  # what the record has computed once, such as pointers
        return made
    return value


class ForeignSession:
    """A session of a foreign backend, for its host; offers only what the session offers.

    Parameters
    ----------
    session : Session
    program : Program
        The host's.
    fault : callable
        Makes the error from a text.
    """

    def __init__(self, session: Session, program: Program, fault: Fault) -> None:
        self._session, self._program, self._fault = cast(Any, session), program, fault
        if not callable(getattr(session, "solve", None)):
            raise fault(f"open() returned a {type(session).__name__}, expected a session with solve()")

    def solve(
        self,
        theta: Theta,
        *,
        examples: I64 | None = None,
        task: Task = Task.MAP,
        clamp: I32 | None = None,
        warm: Any = None,
        limits: Limits = _NO_LIMITS,
        k: int = 1,
    ) -> Solution:
        """Answer a question."""
        given = {"examples": read_only(examples), "clamp": read_only(clamp)}
        return _copied(self._session.solve(read_only(theta), task=task, warm=warm, limits=limits, k=k, **given))

    def best_by_count(self, theta: Theta, tables: CountTables, examples: I64 | None = None) -> Solution:
        """Answer by counts."""
        return _copied(self._session.best_by_count(read_only(theta), read_only(tables), read_only(examples)))

    def compiled(self) -> CompiledOracle | None:
        """Return its compiled oracle, if it offers one of the right types; its answers are not checked."""
        found: CompiledOracle | None = self._offered("compiled", CompiledOracle)
        if found is None:
            return None
        return replace(found, ints=self._array(found.ints, np.int32), longs=self._array(found.longs, np.int64))

    def compiled_messages(self) -> CompiledMessages | None:
        """Return its compiled message passing, if it offers it with the right types; its answers are not checked."""
        found: CompiledMessages | None = self._offered("compiled_messages", CompiledMessages)
        if found is None:
            return None
        pointers = self._array(found.message_ptr, np.int64)
        if pointers.shape != (self._program.n_examples + 1,) or (np.diff(pointers) < 0).any():
            raise self._fault("message_ptr of its compiled messages does not point to the examples")
        ints, longs = self._array(found.ints, np.int32), self._array(found.longs, np.int64)
        return replace(found, message_ptr=pointers, ints=ints, longs=longs, reals=self._array(found.reals, np.float64))

    def slope(self, theta: Theta, ids: I64, warm: Any) -> Marginals | None:
        """Return where the dual bound is attained: a state of each variable and a joint state of each factor."""
        offer = getattr(self._session, "slope", None)
        found = None if offer is None else offer(read_only(theta), read_only(ids), warm)
        if found is None:
            return None
        node, tables, program = np.array(found.node), tuple(np.array(table) for table in found.tables), self._program
        card = program.card[members(program.var_ptr, ids)]
        shapes = [(len(members(group.ptr, ids)), group.n_configs) for group in program.groups]
        if node.shape != (int(card.sum()),) or [table.shape for table in tables] != shapes:
            raise self._fault("slope returned marginals of other shapes than asked for")
        rows = [np.add.reduceat(node, np.cumsum(card) - card)] if len(card) else []
        rows += [table.sum(axis=1) for table in tables]
        whole = all(((one == 0.0) | (one == 1.0)).all() for one in (node, *tables))
        if not whole or not all((row == 1.0).all() for row in rows):
            raise self._fault("slope returned something else than one state for each variable and each factor")
        return Marginals(node, tables)

    def expect(self, theta: Theta, ids: I64, coef: F64, node: F64, tables: Sequence[F64]) -> F64 | None:
        """Let it add marginals to arrays of its own, look at their sums, and add those."""
        offer = getattr(self._session, "expect", None)
        if offer is None:
            return None
        mine, others = np.zeros_like(node), [np.zeros_like(table) for table in tables]
        log_z = offer(read_only(theta), read_only(ids), read_only(coef), mine, others)
        if log_z is None:
            return None
        program, card = self._program, self._program.card
        sums = np.add.reduceat(mine, program.state_ptr[:-1]) if len(card) else np.zeros(0)
        expected = np.zeros(len(card))
        counts = program.var_ptr[ids + 1] - program.var_ptr[ids]
        expected[members(program.var_ptr, ids)] = np.repeat(np.where(log_z > -np.inf, coef, 0.0), counts)
        if not (np.abs(sums - expected) <= EXPECT_ATOL * np.maximum(1.0, np.abs(expected))).all():
            raise self._fault("expect added something else than marginals that sum to one")
        node += mine
        for table, other in zip(tables, others, strict=True):
            table += other
        return np.array(log_z, dtype=np.float64)

    def _offered(self, name: str, kind: type) -> Any:
        """Return what the session offers under a name, ``None`` without it."""
        offer = getattr(self._session, name, None)
        found: Any = None if offer is None else offer()
        right = found is None or isinstance(found, kind)
        if not right:
            raise self._fault(f"{name}() returned a {type(found).__name__}, expected a {kind.__name__} or None")
        if found is not None and (not isinstance(found.work_size, int | np.integer) or found.work_size < 0):
            raise self._fault(f"the work_size of its {name}() is an int of at least 0, got {found.work_size!r}")
        return found

    def _array(self, value: Any, dtype: type) -> Any:
        """Return a copy of an array that compiled code will read."""
        if not isinstance(value, np.ndarray) or value.dtype != dtype or value.ndim != 1:
            raise self._fault(f"compiled code needs a flat array of {np.dtype(dtype).name}, got {value!r:.60}")
        return value.copy()


def _copied(solution: Any) -> Solution:
    """Return a plain solution with arrays that nobody else holds; what is no solution is left to the verifier."""
    if not isinstance(solution, Solution):
        return cast(Solution, solution)
    kept = {one.name: getattr(solution, one.name) for one in fields(Solution)}
    marginals = kept["marginals"]
    if isinstance(marginals, Marginals):
        kept["marginals"] = Marginals(_copy(marginals.node), tuple(map(_copy, marginals.tables)))
    return Solution(**{name: _copy(value) for name, value in kept.items() if name not in ("stats",)})


def _copy(value: Any) -> Any:
    return value.copy() if type(value) is np.ndarray else value
