"""The gate to foreign backends: they see read-only arrays, and what they return is checked and copied.

What :mod:`ssvm_dsl.inference.verification` asks of every answer comes on top.  Sums of marginals, messages and what
trainers call inside their own kernels pass no verifier: sums must agree with each other, and compiled calls are made
for a few examples at random scores, when they are handed out, and held against verified answers to the same question.

Bundled backends are not wrapped: they are tested with this package, and a read-only array is another type to numba, so
that every kernel would be compiled twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, cast

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.need import Caps
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members, runs
from ssvm_dsl.ir.solution import DualBound, Marginals, Messages, Solution, Stop
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api.hosting.contained import Fault, kept_surroundings, read_only
from ssvm_dsl.plugin_api.protocols import Backend, CompiledMessages, CompiledOracle, Session, missing_methods

#: Accuracy of what ``expect`` adds, relative to the coefficients.
EXPECT_ATOL = 1e-6

#: Examples whose compiled calls are looked at; passes of message passing.
SPOTS, PASSES = 3, 2

Solve = Callable[[Question], Solution]


def _shown(question: Question) -> Question:
    """Return a question with read-only arrays; its warm start is the session's own object."""
    theta, examples, clamp = read_only(question.theta), read_only(question.examples), read_only(question.clamp)
    return question.replace(theta=theta, examples=examples, clamp=clamp)


def open_foreign(
    make: Callable[[], Backend], program: Program, caps: Caps, options: Mapping[str, Any], fault: Fault, owner_name: str
) -> ForeignSession:
    """Open a foreign backend, and refuse a session that lacks what its ``Caps`` announce."""
    reported = set[str]()
    with kept_surroundings(owner_name, reported, thorough=True):
        opened = make().open(read_only(program), dict(options))
    if lacking := missing_methods(opened, caps):
        raise fault(lacking)
    return ForeignSession(opened, program, fault, owner_name, reported)


class ForeignSession:
    """A session of a foreign backend, for its host, which calls only what the backend announces.

    Parameters
    ----------
    inner : Session
    program : Program
        The host's.
    fault : callable
        Makes the error from a text.
    owner_name : str
        The owner of the session, as text.
    reported : set of str
        What users were told of that it changes in its process.
    """

    def __init__(self, inner: Session, program: Program, fault: Fault, owner_name: str, reported: set[str]) -> None:
        self.inner, self._program, self._fault = inner, program, fault
        self._owner_name, self._reported = owner_name, reported

    def _call(self, ability: str, *given: Any) -> Any:
        """Call a method with a read-only question, and restore the process state that the call changes."""
        shown = [_shown(one) if isinstance(one, Question) else one for one in given]
        method = getattr(self.inner, ability, None)
        if method is None:  # an optional one
            return None
        with kept_surroundings(self._owner_name, self._reported):
            return method(*shown)

    def solve(self, question: Question) -> Solution:
        """Answer a question by the plug-in's session; errors are contained, and its answers are checked."""
        solution = self._call("solve", question)
        self._refuse_a_limit_that_is_none(question, solution)
        return _copied(solution)

    def _refuse_a_limit_that_is_none(self, question: Question, solution: Any) -> None:
        """Refuse answers that time has ended where it is not limited: a fit would end there, as if that were true."""
        stop = getattr(solution, "stop", None)
        if question.limits.time is None and isinstance(stop, np.ndarray) and (stop == Stop.TIME).any():
            i = int(np.flatnonzero(stop == Stop.TIME)[0])
            text = f"it says that a time limit ended answer {i}, and was given none"
            raise self._fault(f"{text} (so does a score that is nan in Solution.exact)")

    def best_by_count(self, question: Question, tables: CountTables) -> Solution:
        """Return the best labelling for each count, by the plug-in's session."""
        return _copied(self._call("best_by_count", question, read_only(tables)))

    def compiled(self) -> CompiledOracle | None:
        """Return its compiled oracle, of the right types."""
        oracle: CompiledOracle | None = self._offered("compiled", CompiledOracle)
        if oracle is None:
            return None
        return replace(oracle, ints=self._array(oracle.ints, np.int32), longs=self._array(oracle.longs, np.int64))

    def compiled_messages(self) -> CompiledMessages | None:
        """Return its compiled message passing, of the right types."""
        found: CompiledMessages | None = self._offered("compiled_messages", CompiledMessages)
        if found is None:
            return None
        pointers = self._array(found.message_ptr, np.int64)
        if pointers.shape != (self._program.n_examples + 1,) or (np.diff(pointers) < 0).any():
            raise self._fault("message_ptr of its compiled messages does not point to the examples")
        ints, longs = self._array(found.ints, np.int32), self._array(found.longs, np.int64)
        return replace(found, message_ptr=pointers, ints=ints, longs=longs, reals=self._array(found.reals, np.float64))

    def slope(self, question: Question) -> Marginals | None:
        """Return where the dual bound is attained: a state of each variable and a joint state of each factor."""
        slope = self._call("slope", question)
        if slope is None:
            return None
        node, tables, rows = self._distributions(question, slope, "slope")
        whole = all(((one == 0.0) | (one == 1.0)).all() for one in (node, *tables))
        if not whole or not all((row == 1.0).all() for row in rows):
            raise self._fault("slope must return one state for each variable and each factor, and does not")
        return Marginals(node, tables)

    def _distributions(self, question: Question, found: Any, name: str) -> tuple[F64, tuple[F64, ...], list[F64]]:
        """Return copies of marginals of the right shapes, and the sums of their rows."""
        if not isinstance(found, Marginals):
            raise self._fault(f"{name} returned a {type(found).__name__}, expected Marginals or None")
        ids = question.ids(self._program)
        node, tables, program = np.array(found.node), tuple(np.array(table) for table in found.tables), self._program
        card = program.card[members(program.var_ptr, ids)]
        shapes = [(group.shapes.count(ids), group.n_configs) for group in program.groups]
        if node.shape != (int(card.sum()),) or [table.shape for table in tables] != shapes:
            raise self._fault(f"{name} returned marginals of other shapes than asked for")
        rows = [np.add.reduceat(node, np.cumsum(card) - card)] if len(card) else []
        return node, tables, rows + [table.sum(axis=1) for table in tables]

    def dual_bound(self, question: Question) -> DualBound | None:
        """Return its bounds, whose slopes are distributions of variables and of factors."""
        found = self._call("dual_bound", question)
        if found is None:
            return None
        if not isinstance(found, DualBound) or not isinstance(found.messages, Messages):
            raise self._fault(f"dual_bound returned a {type(found).__name__}, expected DualBound or None")
        if not isinstance(found.temperature, int | float) or not 0.0 <= found.temperature < np.inf:
            text = "the temperature of dual_bound must be a number of at least 0"
            raise self._fault(f"{text}, got {found.temperature!r}")
        node, tables, rows = self._distributions(question, found.marginals, "dual_bound")
        off = max((float(np.abs(row - 1.0).max(initial=0.0)) for row in rows), default=0.0)
        if off > 1e-6 or any((one < 0.0).any() for one in (node, *tables)):
            raise self._fault("dual_bound must return distributions of variables and factors, and does not")
        bound = np.array(found.bound, dtype=np.float64)
        return DualBound(float(found.temperature), bound, Marginals(node, tables), found.messages)

    def expect(self, question: Question, coef: F64, node: F64, tables: Sequence[F64]) -> F64 | None:
        """Let it add marginals to separate arrays, check their sums, and add those."""
        mine, others = np.zeros_like(node), [np.zeros_like(table) for table in tables]
        whole = replace(question, variables=None)  # what is left out would look like a fault
        log_z = self._call("expect", whole, read_only(coef), mine, others)
        if log_z is None:
            return None
        ids = question.ids(self._program)
        if wrong := wrong_sums(self._program, ids, np.where(log_z > -np.inf, coef, 0.0), mine, others):
            raise self._fault(f"expect added something else than marginals that {wrong}")
        node += mine
        for given, table in zip(tables, others, strict=True):
            given += table
        return np.array(log_z, dtype=np.float64)

    def _offered(self, name: str, kind: type) -> Any:
        """Return what a method of the session returns, if it is of the right kind or ``None``."""
        offered = self._call(name)
        right = offered is None or isinstance(offered, kind)
        if not right:
            raise self._fault(f"{name}() returned a {type(offered).__name__}, expected a {kind.__name__} or None")
        if offered is not None and (not isinstance(offered.work_size, int | np.integer) or offered.work_size < 0):
            raise self._fault(f"the work_size of its {name}() must be an int of at least 0, got {offered.work_size!r}")
        return offered

    def _array(self, value: Any, dtype: type) -> Any:
        """Return a copy of an array that compiled code will read."""
        if not isinstance(value, np.ndarray) or value.dtype != dtype or value.ndim != 1:
            raise self._fault(f"compiled code needs a flat array of {np.dtype(dtype).name}, got {value!r:.60}")
        return value.copy()


def _copied(solution: Any) -> Solution:
    """Return a plain solution with private arrays; anything but a solution is left to the verifier."""
    if not isinstance(solution, Solution):
        return cast(Solution, solution)
    kept = {one.name: getattr(solution, one.name) for one in fields(Solution)}
    marginals = kept["marginals"]
    if isinstance(marginals, Marginals):
        kept["marginals"] = Marginals(_copy(marginals.node), tuple(map(_copy, marginals.tables)))
    return Solution(**{name: _copy(value) for name, value in kept.items() if name not in ("stats",)})


def _copy(value: Any) -> Any:
    return value.copy() if type(value) is np.ndarray else value


def wrong_sums(program: Program, ids: I64, coef: F64, node: F64, tables: Sequence[F64]) -> str:
    """Return the mistakes in sums of weighted marginals, as text; empty if there are none.

    Those of a variable sum to the coefficient of its example.  Those of all factors that share a row of a table add up,
    state by state, to those of the variables they have there.
    """
    card, first = program.card, program.state_ptr[:-1]
    sums = np.add.reduceat(node, first) if len(card) else np.zeros(0)
    expected = np.zeros(len(card))
    expected[members(program.var_ptr, ids)] = np.repeat(coef, program.var_ptr[ids + 1] - program.var_ptr[ids])
    if not (np.abs(sums - expected) <= EXPECT_ATOL * np.maximum(1.0, np.abs(expected))).all():
        return "sum to one"
    for group, table in zip(program.groups, tables, strict=True):
        factors = members(group.ptr, ids)
        joint = table.reshape(-1, *group.cards)
        size = np.bincount(group.table[factors], np.repeat(np.abs(coef), np.diff(group.ptr)[ids]), group.n_tables)
        for r, n_states in enumerate(group.cards):
            of_tables = joint.sum(axis=tuple(axis + 1 for axis in range(group.arity) if axis != r))
            of_variables = np.zeros_like(of_tables)
            given = node[first[group.scope[factors, r]][:, None] + np.arange(n_states)]
            np.add.at(of_variables, group.table[factors], given)
            if not (np.abs(of_tables - of_variables) <= EXPECT_ATOL * np.maximum(1.0, size)[:, None]).all():
                return f"agree: those of the factors of '{group.name}' do not add up to those of their variables"
    return ""


def check_oracle(oracle: CompiledOracle, program: Program, solve: Solve, check: Callable[..., None]) -> None:
    """Refuse a compiled oracle whose labellings or scores are not those of best labellings.

    Parameters
    ----------
    oracle : CompiledOracle
    program : Program
    solve : callable
        The backend's verified answers.
    check : callable
        Refuses what the oracle found, given the question, that, and the scores of the verified answers.

    Raises
    ------
    BackendFault
    """
    question = made_up(program)
    known = solve(question)
    answers = [answer_of_oracle(oracle, program, question.theta, int(example)) for example in question.ids(program)]
    labels = np.concatenate([labels for labels, _ in answers] or [np.zeros(0, np.int32)])
    score = np.array([score for _, score in answers], dtype=np.float64)
    check(question, Solution.exact(labels, score), known.best)


def check_messages(offer: CompiledMessages, program: Program, solve: Solve, fault: Fault) -> None:
    """Refuse compiled message passing whose choices are no states or whose bounds are below known labellings.

    Raises
    ------
    BackendFault
    """
    question = made_up(program)
    known = solve(question).best
    for best, example in zip(known.tolist(), question.ids(program).tolist(), strict=True):
        messages = np.zeros(int(np.diff(offer.message_ptr)[example]))
        choices, bound = pass_messages(offer, program, question.theta, example, messages)
        sizes = program.card[slice(*program.var_ptr[example : example + 2])]
        joint = [np.full(int(np.diff(group.ptr)[example]), group.n_configs) for group in program.groups]
        if offer.soft:
            every = np.concatenate([sizes, *joint])
            sums = np.add.reduceat(choices, np.cumsum(every) - every) if len(every) else np.ones(1)
            if not (choices >= 0.0).all() or not np.allclose(sums, 1.0, atol=1e-6):
                raise fault("its compiled messages write numbers that are no distributions")
        elif ((choices < 0) | (choices >= np.concatenate([sizes, *joint]))).any():
            raise fault("its compiled messages choose a number that is not a state")
        if not np.isfinite(messages).all() or not bound >= best - 1e-6 * (1.0 + abs(best)):
            raise fault(f"its compiled messages give the bound {bound}, a labelling has score {best}")


def answer_of_oracle(oracle: CompiledOracle, program: Program, theta: Theta, example: int) -> tuple[I32, float]:
    """Return the labels that a compiled oracle writes for an example, and the score it returns (constant added)."""
    from ssvm_dsl.kernels.compiled_oracles import call_oracle

    node = theta.node if program.allowed is None else np.where(program.allowed, theta.node, -np.inf)
    labels = np.full(int(np.diff(program.var_ptr)[example]), -1, dtype=np.int32)
    work = np.full(oracle.work_size, np.nan)
    score = call_oracle(oracle.function, oracle.ints, oracle.longs, example, theta.pool, node, labels, work)
    return labels, float(score) + float(theta.const[example])


def pass_messages(
    offer: CompiledMessages, program: Program, theta: Theta, example: int, messages: F64
) -> tuple[Any, float]:
    """Improve the messages of an example in place; return where the bound is attained, and it (constant added).

    The choices are the state of each variable, then the joint state of each factor, one group after the other; of soft
    maxima they are probabilities.
    """
    from ssvm_dsl.kernels.compiled_oracles import MessageData, call_messages
    from ssvm_dsl.kernels.flat import ScoreSpace

    lo, hi = program.var_ptr[example : example + 2]
    n_variables = program.state_ptr[hi] - program.state_ptr[lo] if offer.soft else hi - lo
    each = [group.n_configs if offer.soft else 1 for group in program.groups]
    factors = (n * np.diff(group.ptr)[example] for n, group in zip(each, program.groups, strict=True))
    choices = np.full(int(n_variables + sum(factors)), -1, dtype=np.float64 if offer.soft else np.int32)
    work = np.full(offer.work_size, np.nan)
    inputs, scores = MessageData(offer.ints, offer.longs, offer.reals), ScoreSpace(theta.node, theta.pool, work)
    bound = call_messages(offer.function, inputs, example, scores, PASSES, messages, choices)
    return choices, float(bound) + float(theta.const[example])


def made_up(program: Program) -> Question:
    """Return a question about a few examples, the first and the last among them, at random scores."""
    n, rng = program.n_examples, np.random.default_rng(0)
    ids = np.unique(np.linspace(0, n - 1, min(n, SPOTS)).round().astype(np.int64))
    theta = Theta.zeros(program)
    variables = members(program.var_ptr, ids)
    states = runs(program.state_ptr[variables], program.card[variables])
    theta.node[states] = rng.normal(size=len(states))
    theta.const[ids] = rng.normal(size=len(ids))
    for group, table in zip(program.groups, theta.tables, strict=True):
        rows = np.unique(group.table_rows(ids))
        table[rows] = rng.normal(size=(len(rows), group.n_configs))
    return Question(theta, ids)
