"""Programs whose constraints have been rewritten: how they are put together, and how scores and answers cross.

An example of the lowered program has the variables of the original one, then auxiliary ones; the program has the
groups of the original one, then groups of tables that hold nothing but 0 and ``-inf``.  So the scores of a labelling
and of its one completion are the same number, and what is asked of the lowered program is asked of the original one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from ssvm_dsl.array_types import F64, I8, I32, I64, Bools
from ssvm_dsl.deadline import pause
from ssvm_dsl.ir.constraints import ConstraintGroup
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.program import Group, Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members, pointers, positions, runs
from ssvm_dsl.ir.shapes import Shapes, kinds_of_rows
from ssvm_dsl.ir.solution import Marginals, Solution
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api.constraints import Rewrite


@dataclass(frozen=True, eq=False)
class Lowering:
    """A program without some of its constraints, and the way there and back.

    Parameters
    ----------
    original, program : Program
        What is answered, and what is asked instead.
    tables : tuple of ndarray of float64, shape (n_tables, prod(cards))
        The scores of the groups that were added: 0 or ``-inf``.
    """

    original: Program
    program: Program
    tables: tuple[F64, ...]

    # -- numbers of the original one in the lowered one -------------------------------------------------

    @cached_property
    def grown(self) -> bool:
        """Whether there are auxiliary variables."""
        return self.program.n_variables > self.original.n_variables

    @cached_property
    def variables(self) -> I64:
        """The number that each variable has in the lowered program; ``ndarray, shape (V,)``."""
        return runs(self.program.var_ptr[:-1], np.diff(self.original.var_ptr))

    @cached_property
    def states(self) -> I64:
        """The number that each state has in the lowered program; ``ndarray, shape (S,)``."""
        first = self.original.state_ptr[self.original.var_ptr]
        return runs(self.program.state_ptr[self.program.var_ptr[:-1]], np.diff(first))

    @cached_property
    def _spans(self) -> tuple[I64 | None, ...]:
        """How many rows of tables each example has in each group; ``None`` where all examples share them."""
        out: list[I64 | None] = []
        for group in self.original.groups:
            own = len(group.table_base) > 0 and bool((group.table_base != group.table_base[0]).any())
            most = np.zeros(group.shapes.n_shapes, dtype=np.int64)
            filled = np.flatnonzero(np.diff(group.shapes.start))
            if len(filled):
                most[filled] = np.maximum.reduceat(group.rows, group.shapes.start[filled]) + 1
            out.append(most[group.shapes.of] if own else None)
        return tuple(out)

    # -- there -----------------------------------------------------------------------------------------

    def question(self, question: Question) -> Question:
        """Return the question to the lowered program."""
        given = clamp = question.clamp
        if given is not None and self.grown:
            clamp = np.full(self.program.n_variables, -1, dtype=np.int32)
            clamp[self.variables] = given
        return question.replace(theta=self.theta(question.theta, question.examples), clamp=clamp)

    def theta(self, theta: Theta, examples: I64 | None) -> Theta:
        """Return the scores of the lowered program for some examples; those of the others are undefined."""
        made = Theta.zeros(self.program, self._node(theta, examples))  # pages that are not written to take no time
        tables, n = made.tables, len(theta.tables)
        for mine, given, group, span in zip(tables[:n], theta.tables, self.original.groups, self._spans, strict=True):
            rows = slice(None) if span is None or examples is None else runs(group.table_base[examples], span[examples])
            mine[rows] = given[rows]
        for mine, fixed in zip(tables[n:], self.tables, strict=True):
            mine[:] = fixed
        return replace(made, const=theta.const)

    def _node(self, theta: Theta, examples: I64 | None) -> F64:
        if not self.grown:
            return theta.node
        node = np.zeros(self.program.n_states)
        some = positions(self.original.state_ptr[self.original.var_ptr], examples)
        node[self.states[some]] = theta.node[some]
        return node

    def _places(self, question: Question) -> I64:
        """Return where the labels of variables are in an answer of the lowered program."""
        if question.examples is None:
            return self.variables
        ids = question.examples
        return runs(pointers(np.diff(self.program.var_ptr)[ids])[:-1], np.diff(self.original.var_ptr)[ids])

    def counts(self, tables: CountTables) -> CountTables:
        """Return tables of counts for the lowered program: auxiliary states count nothing."""
        if not self.grown:
            return tables
        counts = np.zeros((self.program.n_states, 2), dtype=np.int64)
        counts[self.states] = tables.counts
        return replace(tables, counts=counts)

    # -- back ------------------------------------------------------------------------------------------

    def lift(self, question: Question, solution: Solution) -> Solution:
        """Return the answer to the question about the original program; scores and bounds are the same."""
        ids = question.ids(self.original)
        marginals = solution.marginals
        if marginals is not None:
            node = marginals.node
            if self.grown:
                first = self.program.state_ptr[self.program.var_ptr]
                own = self.original.state_ptr[self.original.var_ptr]
                node = node[runs(pointers(np.diff(first)[ids])[:-1], np.diff(own)[ids])]
            marginals = Marginals(np.ascontiguousarray(node), marginals.tables[: len(self.original.groups)])
        labels = solution.labels
        if self.grown and labels.size:
            labels = np.ascontiguousarray(labels[..., self._places(question)])
        return replace(solution, labels=labels, marginals=marginals)


def lowered(program: Program, taken: Sequence[int], rewrites: Sequence[tuple[I32, list[Rewrite]]]) -> Lowering:
    """Return a program with rewritings in place of some groups of constraints.

    Parameters
    ----------
    program : Program
    taken : sequence of int
        Which groups of constraints are rewritten.
    rewrites : sequence of (of, kinds)
        For each of these groups: the rewriting of each example, a number in a list; -1 where it has no constraints.
    """
    none = np.zeros(program.n_examples, dtype=np.int32)
    shape = [none, *(of for of, _ in rewrites)]
    kind, first = kinds_of_rows([*shape, np.diff(program.var_ptr)], program.n_examples)
    sums = [_Sum(int(np.diff(program.var_ptr)[i])) for i in first]
    for k, i in enumerate(first):
        for of, rewrites_of in rewrites:
            if of[i] >= 0:
                sums[k].add(rewrites_of[of[i]])
    added = pointers(np.array([len(one.cards) for one in sums], dtype=np.int64)[kind])
    own = np.diff(program.var_ptr)
    var_ptr = pointers(own + np.diff(added))
    state_ptr, card = _states(program, var_ptr, sums, kind, added)
    moved = [replace(g, shapes=replace(g.shapes, first=var_ptr[:-1])) for g in program.groups]
    groups, tables = _table_groups(sums, kind, var_ptr)
    left = [group for g, group in enumerate(program.constraints) if g not in taken and group.n_constraints]
    made = Program(
        var_ptr, card, (*moved, *groups), (*left, *_constraint_groups(sums, kind)),
        allowed=_allowed(program, var_ptr, state_ptr, sums, kind), role=_role(program, var_ptr),
    )  # fmt: skip
    return Lowering(replace(program), made, tuple(tables))  # a copy: who keeps the way does not keep the program


class _Sum:
    """Additions to examples of one kind; auxiliary variables are renumbered, one rewriting after another."""

    def __init__(self, n_own: int) -> None:
        self.n_own = n_own
        self.cards: list[int] = []
        self.tables: list[tuple[tuple[int, ...], Bools]] = []
        self.constraints: list[ConstraintGroup] = []

    def add(self, one: Rewrite) -> None:
        """Append the rewriting of one bridge to those before it."""
        pause()
        by = len(self.cards)
        self.cards += one.cards[self.n_own :]
        self.tables += [(tuple(v + by * (v >= self.n_own) for v in scope), table) for scope, table in one.tables]
        for group in one.constraints:
            variable = (group.variable + by * (group.variable >= self.n_own)).astype(np.int32)
            self.constraints.append(replace(group, variable=variable))


def _states(program: Program, var_ptr: I64, sums: list[_Sum], kind: I32, added: I64) -> tuple[I64, I32]:
    """Return (pointers to states, number of states of each variable) of the lowered program."""
    card = np.empty(int(var_ptr[-1]), dtype=np.int32)
    own = np.diff(program.var_ptr)
    card[runs(var_ptr[:-1], own)] = program.card
    flat = np.array([n for one in sums for n in one.cards], dtype=np.int32)
    ptr = pointers(np.array([len(one.cards) for one in sums], dtype=np.int64))
    card[runs(var_ptr[:-1] + own, np.diff(added))] = flat[members(ptr, kind)]
    return pointers(card), card


def _role(program: Program, var_ptr: I64) -> I8 | None:
    if program.role is None:
        return None
    role = np.zeros(int(var_ptr[-1]), dtype=np.int8)
    role[runs(var_ptr[:-1], np.diff(program.var_ptr))] = program.role
    return role


def _allowed(program: Program, var_ptr: I64, state_ptr: I64, sums: list[_Sum], kind: I32) -> Bools | None:
    """Return the mask: that of the program, and what tables of one variable rule out."""
    unary = [[(scope[0], table) for scope, table in one.tables if len(scope) == 1] for one in sums]
    if program.allowed is None and not any(unary):
        return None
    allowed = np.ones(int(state_ptr[-1]), dtype=bool)
    if program.allowed is not None:
        lengths = np.diff(program.state_ptr[program.var_ptr])
        allowed[runs(state_ptr[var_ptr[:-1]], lengths)] = program.allowed
    for k, mine in enumerate(unary):
        pause()
        examples = np.flatnonzero(kind == k) if mine else np.zeros(0, np.int64)
        for variable, table in mine:
            first = state_ptr[var_ptr[:-1][examples] + variable]
            allowed[(first[:, None] + np.flatnonzero(~table)).ravel()] = False
    return allowed


def _table_groups(sums: list[_Sum], kind: I32, var_ptr: I64) -> tuple[list[Group], list[F64]]:
    """Return the groups of tables of two or more variables, one for each list of cards, and their scores.

    Equal tables are stored once.
    """
    cards = {table.shape: len(table.shape) for one in sums for _, table in one.tables if len(table.shape) > 1}
    groups: list[Group] = []
    scores: list[F64] = []
    for shape in sorted(cards, key=lambda one: (len(one), one)):
        rows: dict[bytes, int] = {}
        scope: list[tuple[int, ...]] = []
        row: list[int] = []
        counts = []
        for one in sums:
            pause()
            mine = [(variables, table) for variables, table in one.tables if table.shape == shape]
            scope += [variables for variables, _ in mine]
            row += [rows.setdefault(table.tobytes(), len(rows)) for _, table in mine]
            counts.append(len(mine))
        start = pointers(np.array(counts, dtype=np.int64))
        where = np.array(scope, dtype=np.int32).reshape(len(scope), len(shape))
        shapes = Shapes(kind, start, where, var_ptr[:-1])
        base = np.zeros(len(kind), dtype=np.int64)
        name = f"hard {len(groups) + 1}"
        groups.append(Group(name, shape, shapes, np.array(row, dtype=np.int32), base, len(rows)))
        allowed = np.frombuffer(b"".join(rows), dtype=bool).reshape(len(rows), prod(shape))
        scores.append(np.where(allowed, 0.0, -np.inf))
    return groups, scores


def _constraint_groups(sums: list[_Sum], kind: I32) -> list[ConstraintGroup]:
    """Return the constraints that rewritings leave, of all examples: one group for each place in the lists."""
    out: list[ConstraintGroup] = []
    for name in dict.fromkeys((group.kind, group.name) for one in sums for group in one.constraints):
        mine = [[group for group in one.constraints if (group.kind, group.name) == name] for one in sums]
        parts = [group for some in mine for group in some]
        ptr = pointers(np.array([sum(group.n_constraints for group in some) for some in mine], dtype=np.int64))
        made = replace(
            parts[0],
            ptr=ptr,
            literal_ptr=pointers(np.concatenate([np.diff(group.literal_ptr) for group in parts])),
            variable=np.concatenate([group.variable for group in parts]),
            state=np.concatenate([group.state for group in parts]),
            negated=np.concatenate([group.negated for group in parts]),
            meta={key: np.concatenate([group.meta[key] for group in parts]) for key in parts[0].meta},
            literal_meta={
                key: np.concatenate([group.literal_meta[key] for group in parts]) for key in parts[0].literal_meta
            },
        )
        out.append(made.take(kind.astype(np.int64)))
    return out
