"""Lay given scores, and what is ruled out, over data: masks, constants of states, and tables without weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.compiler.durations import inner_spans, length_table, refuse_durations, ruled_out_spans
from ssvm_dsl.compiler.feature_maps import feature_rows, kind_of_group, row_index
from ssvm_dsl.compiler.features.encode import Encoder, Rows
from ssvm_dsl.compiler.features.gathered import call_of_factors, class_arrays
from ssvm_dsl.compiler.inputs import Examples, read_scores
from ssvm_dsl.compiler.labels.ruled_out import ruled_out_error
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.rules import KindGrounder, RuleTables, TableGrounder, instance_words
from ssvm_dsl.compiler.scopes import FactorPart, Scopes, few_examples, lay_circuit
from ssvm_dsl.compiler.variable_names import variable_name
from ssvm_dsl.errors import DataError, InfeasibleError
from ssvm_dsl.ir.program import ONE_SPAN, Group
from ssvm_dsl.ir.ragged import members, owner_of, owners, pointers, runs
from ssvm_dsl.ir.shapes import Shapes
from ssvm_dsl.lang.constraints.durations import SegmentDuration
from ssvm_dsl.lang.constraints.forbidden import Allow, Forbid
from ssvm_dsl.lang.factors import Given
from ssvm_dsl.lang.forms import FULL
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.outputs.about_target import in_tables, of_tables, table_states
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.outputs.targets import chain
from ssvm_dsl.lang.rules.formulas import Formula, free_indices, has_tables
from ssvm_dsl.lang.rules.rule_patterns import RulePattern, RuleTarget, has_table
from ssvm_dsl.scores.constants import Constants


@dataclass(eq=False)
class GroundedConstants:
    """What rules and given scores become.

    Parameters
    ----------
    node : ndarray of float64, shape (S,), optional
        Added to the scores of states.
    allowed : ndarray of bool, shape (S,), optional
        States that are left.
    groups : list of Group
        Those of the factors, then those that have no weights.
    tables : dict of int to ndarray, shape (n_tables, prod(cards))
        Tables by the number of the group.
    shared : dict of Target to int
        Groups whose factors all share one table, by what they join: it takes what is said of all of them.
    """

    groups: list[Group]
    shared: dict[Target, int]
    node: F64 | None = None
    allowed: Bools | None = None
    tables: dict[int, F64] = field(default_factory=dict)

    def constants(self, n_weighted: int) -> Constants | None:
        """Return the scores without weights; ``None`` without any.  The first groups have weights."""
        if self.node is None and not self.tables:
            return None
        return Constants(self.node, self.tables, frozenset(g for g in self.tables if g < n_weighted))


def ground_constants(
    layout: Layout,
    encoder: Encoder,
    scopes_of: Callable[[Target], Scopes],
    groups: list[Group],
    shared: dict[Target, int],
    ignored: Bools | None = None,
    truth: I32 | None = None,
    clamp: I64 | None = None,
    with_scores: bool = True,
) -> GroundedConstants:
    """Return the masks, scores and tables of the rules and given scores of a model on a batch.

    Parameters
    ----------
    layout, encoder
        The batch.
    scopes_of : callable
        Returns the scopes of a target on the batch.
    groups, shared
        Those of the factors, as :class:`GroundedConstants` has them.
    ignored : ndarray of bool, shape (V,), optional
        Variables that are left out.
    truth : ndarray of int32, shape (V,), optional
        Labels that are to be learnt from, negative where they are not known: refused where they are ruled out.
    clamp : ndarray of int64, optional
        States, counted over all variables, that given labels rule out.
    with_scores : bool
        Whether given scores that come with the examples are there.

    Raises
    ------
    DataError
        Given scores are nan or +inf, a mask holds something else than numbers, or labels break a rule.
    InfeasibleError
        A variable has no state left.
    """
    declaration, examples = encoder.declaration, encoder.examples
    grounded = GroundedConstants(groups, shared)
    work = _RuleGrounder(layout, grounded, encoder.first, ignored, truth)
    for label in declaration.labels:
        if label.allowed is not None:
            work.restrict(label, encoder.rows(label.allowed))
    for rule in declaration.rules:
        if isinstance(rule, SegmentDuration):
            work.duration(rule, scopes_of)
        elif rule.ref is not None:
            work.function(rule, scopes_of(rule.target), encoder)
        else:
            work.rule(rule, scopes_of(rule.target))
    for circuit in declaration.circuits:
        ground, of, _ = lay_circuit(circuit, layout, examples)
        work.literals(circuit.name, ground.masks, of)
    for formula in declaration.formulas:
        if has_tables(formula) and not has_table(formula):
            work.tables(formula, examples)
    for route in declaration.rules_of_kinds:
        if route.kind in ("path", "circuit"):
            of, few, world = few_examples(route, layout, examples)
            owner, column = KindGrounder(route, few.domains, world, few.start_inside).diagonal()
            work.literals(route.name, [(owner, owner, *column)], of)
    if declaration.compact:
        work.keep_classes(declaration.outputs[0], scopes_of)
    for given in declaration.given:
        if given.table is None and not with_scores:
            continue
        scopes = scopes_of(given.target)
        rows = None if given.features is None else _score_rows(given, encoder, scopes)
        work.give(given, scopes, rows)
    if clamp is not None and len(clamp):
        work.forbid_states(clamp, "the given labels")
    work.require_states()
    return grounded


def _score_rows(given: Given, encoder: Encoder, scopes: Scopes) -> Rows:
    """Return rows of given scores; those of an input may be -inf."""
    source = given.features
    assert source is not None
    if not isinstance(source, Input):
        rows = feature_rows(given, encoder, scopes)
        assert rows is not None
        return rows
    return Rows(source.dims, *read_scores(source, encoder.examples))


class _RuleGrounder:
    """Grounds one rule after the other on a batch."""

    def __init__(
        self, layout: Layout, grounded: GroundedConstants, first: int, ignored: Bools | None, truth: I32 | None
    ) -> None:
        self.layout, self.grounded, self.first, self.ignored, self.truth = layout, grounded, first, ignored, truth
        self.state_ptr: I64 = pointers(layout.card)
        self.ruled_out: list[tuple[str, NDArray[np.int64]]] = []

    def _name(self, variable: int) -> str:
        return variable_name(self.layout, variable)

    def _known(self, scopes: Scopes) -> Scopes:
        """Return the factors all of whose variables take part."""
        return scopes if self.ignored is None else scopes.without(self.ignored, self.layout.var_ptr)

    def forbid_states(self, states: NDArray[np.int64], by: str) -> None:
        """Rule out states, counted over all variables, by what messages call so."""
        self.ruled_out.append((by, states))
        if self.grounded.allowed is None:
            self.grounded.allowed = np.ones(int(self.state_ptr[-1]), dtype=bool)
        self.grounded.allowed[states] = False

    def restrict(self, label: Label, rows: Rows) -> None:
        """Rule out the states that a mask has zeros for."""
        mask, cells = rows.values, self.layout.rows(label)
        assert isinstance(mask, np.ndarray)
        assert label.allowed is not None
        if cells is not None:
            mask = self._of_variables(label, mask, cells)
        variables, what = _as_numbers(self.layout.variables(label)), f"input '{label.allowed.name}'"
        empty = np.flatnonzero(~mask.any(axis=1))
        if len(empty):
            variable = int(variables[int(empty[0])])
            example = owner_of(self.layout.var_ptr, variable)
            expected = f"a class that is allowed for every variable of label '{label.name}'"
            found = f"none for {self._name(variable)}"
            raise DataError(what, example=example, expected=expected, found=found)
        at, state = np.nonzero(mask == 0)
        self.forbid_states(self.state_ptr[variables[at]] + state, f"the mask '{label.allowed.name}'")
        if self.truth is not None:
            states = self.truth[variables]
            wrong = (states >= 0) & (mask[np.arange(len(mask)), np.maximum(states, 0)] == 0)
            self._refuse_truth(f"allowed={label.allowed.name} of label '{label.name}'", label, variables, wrong)

    def _of_variables(self, label: Label, mask: F64, cells: I64) -> F64:
        """Return the rows of a mask at the variables of a label with a condition; of a symmetric one of both halves."""
        own = mask[cells]
        if label.converse is None:
            return own
        mirrored = self.layout.domains[label.name].mirrored_cells()
        return np.asarray((own != 0) & (mask[mirrored][:, np.array(label.converse)] != 0), dtype=np.float64)

    def rule(self, rule: Forbid, scopes: Scopes) -> None:
        """Rule out the states of a rule."""
        for one in scopes.parts(rule.target):
            every, turned = one.scopes, one.states
            left = _left(rule) if turned is None else _left(rule)[turned]
            self._refuse_forbidden(rule, every, left, turned)
            part = self._known(every)
            if len(rule.target.table_cards) == 1:
                start = self.state_ptr[part.shapes.variables()[:, 0]]
                out = (start[:, None] + np.flatnonzero(~left)).ravel()
                self.forbid_states(out, f"'{rule.name}' ({type(rule).__name__})")
                continue
            self._add_shared(rule.name, rule.target, part, np.where(left, 0.0, -np.inf)[None])

    def function(self, rule: Forbid, every: Scopes, encoder: Encoder) -> None:
        """Rule out the states of each factor that a function says."""
        left = _left_by_function(rule, every, encoder)
        for part in every.parts(rule.target):
            self._function(rule, every, part.scopes, left if part.states is None else left[:, part.states])

    def _function(self, rule: Forbid, every: Scopes, part: Scopes, left: Bools) -> None:
        """Rule out the states of some of the factors, all of which have a row of what is left."""
        scopes, cards = self._known(part), rule.target.cards
        index = scopes.number.astype(np.int32), every.shapes.ptr[:-1]
        row, variables = scopes.shapes.spread(*index), scopes.shapes.variables()
        if self.truth is not None:
            states = self.truth[variables]
            joint = np.ravel_multi_index(tuple(np.maximum(states, 0).T), cards)
            wrong = (states >= 0).all(axis=1) & ~left[row, joint]
            label = rule.target.label
            self._refuse_truth(f"rule '{rule.name}'", label, variables[:, 0].astype(np.int64), wrong)
        if len(cards) == 1:
            at, state = np.nonzero(~left[row])
            self.forbid_states(self.state_ptr[variables[at, 0]] + state, f"'{rule.name}' ({type(rule).__name__})")
            return
        self._add_group(rule.name, rule.target, scopes.shapes, index, np.where(left, 0.0, -np.inf))

    def literals(self, name: str, masks: Sequence[tuple[NDArray[Any], ...]], of: I32) -> None:
        """Rule out the states for which literals that are true by themselves are false."""
        for _, owner, variable, state, negated in masks:
            order = np.argsort(owner, kind="stable")
            ptr = pointers(np.bincount(owner, minlength=int(of.max(initial=-1)) + 1))
            mine = order[members(ptr, of)]
            example = np.repeat(np.arange(len(of)), np.diff(ptr)[of])
            self._keep_literals(name, self.layout.var_ptr[example] + variable[mine], state[mine], negated[mine])

    def _keep_literals(self, name: str, variable: I64, state: I64, negated: Bools) -> None:
        card = self.layout.card[variable].astype(np.int64)
        owner = np.repeat(np.arange(len(variable)), card)
        states = runs(np.zeros(len(variable), np.int64), card)
        out = (states == state[owner]) == negated[owner]
        self.forbid_states(self.state_ptr[variable[owner[out]]] + states[out], f"rule '{name}'")
        if self.truth is not None:
            true = self.truth[variable]
            wrong = (true >= 0) & ((true == state) == negated)
            self._refuse_states(f"rule '{name}'", variable, wrong)

    def tables(self, formula: Formula, examples: Examples) -> None:
        """Rule out the joint states for which a formula is false whose instances have different tables."""
        of, few, world = few_examples(RulePattern(formula), self.layout, examples)
        grounder = TableGrounder(formula.name, formula, few.domains, world, few.start_inside)
        instances, kinds = grounder.run()
        for one in kinds:
            false = np.flatnonzero(~np.any(one.true, axis=1)[one.table])
            if len(false):
                raise grounder.infeasible(instances, int(one.place[false[0]]))
            if one.true.all():
                continue
            start = pointers(np.bincount(instances.owner[one.place], minlength=few.n))
            shapes = Shapes(of, start, np.ascontiguousarray(one.variables, dtype=np.int32), self.layout.var_ptr[:-1])
            scopes = Scopes(shapes, (), few.sizes, np.zeros_like(one.table), one.table, instances.chosen(one.place))
            self._refuse_false(formula, scopes, one)
            scopes = self._known(scopes)
            table = scopes.number.astype(np.int32), np.zeros(self.layout.n, dtype=np.int64)
            if len(one.cards) > 1:
                values = np.where(one.true, 0.0, -np.inf)
                self.grounded.tables[len(self.grounded.groups)] = values
                self.grounded.groups.append(Group(formula.name, one.cards, scopes.shapes, *table, len(values), "table"))
                continue
            variable = scopes.shapes.variables()[:, 0].astype(np.int64)
            row, state = np.nonzero(~one.true[scopes.shapes.spread(scopes.number)])
            self.forbid_states(self.state_ptr[variable[row]] + state, f"rule '{formula.name}'")

    def _refuse_false(self, formula: Formula, scopes: Scopes, tables: RuleTables) -> None:
        """Refuse labels for which a formula is false, where all of its variables are known."""
        if self.truth is None:
            return
        variables = scopes.shapes.variables()
        states = self.truth[variables]
        number = np.zeros(len(states), dtype=np.int64)
        for k, card in enumerate(tables.cards):
            number = number * card + np.maximum(states[:, k], 0)
        true = tables.true[scopes.shapes.spread(scopes.number), number]
        wrong = np.flatnonzero(~true & (states >= 0).all(axis=1))
        if not len(wrong):
            return
        owner, instances = owners(scopes.shapes.ptr), scopes.found
        local = scopes.shapes.spread(np.arange(len(scopes.number)))
        assert instances is not None

        def words(example: int) -> str:
            factor = wrong[int(np.argmax(owner[wrong] == example))]
            where = instance_words(free_indices(formula), instances, int(local[factor]))
            return f"labels for which {formula!r} is false{f' at {where}' if where else ''}"

        self._refuse(f"rule '{formula.name}'", np.unique(owner[wrong]), words)

    def _refuse_states(self, what: str, variables: NDArray[np.int64], wrong: Bools) -> None:
        """Refuse labels that are ruled out one by one, of any labels."""
        if not wrong.any():
            return
        at = variables[wrong]
        owner = np.searchsorted(self.layout.var_ptr, at, side="right") - 1

        def words(example: int) -> str:
            variable = int(at[int(np.argmax(owner == example))])
            return f"another state of {self._name(variable)}"

        self._refuse(what, np.unique(owner), words)

    def duration(self, rule: SegmentDuration, scopes_of: Callable[[Target], Scopes]) -> None:
        """Rule out segments that are too short or too long."""
        if self.truth is not None:
            refuse_durations(rule, self.layout, self.truth)
        if rule.target.of_spans:  # spans are variables
            for variable, state in ruled_out_spans(rule, self.layout):
                self.forbid_states(self.state_ptr[variable] + state, f"'{rule.name}' (Duration)")
            return
        self._add_shared(rule.name, rule.target, scopes_of(rule.target), length_table(rule))
        if rule.cut and max(rule.least) > 1:
            group, table = inner_spans(rule, self.layout)
            self.grounded.tables[len(self.grounded.groups)] = table
            self.grounded.groups.append(group)

    def keep_classes(self, label: Label, scopes_of: Callable[[Target], Scopes]) -> None:
        """Rule out that the class changes where no segment begins: spans of segments are no variables."""
        target, k = chain(label), label.n_states
        table = np.zeros((k, k, 2))
        table[:, :, 0] = np.where(np.eye(k, dtype=bool), 0.0, -np.inf)
        self._add_shared(label.name, target, self._known(scopes_of(target)), table.reshape(1, -1))

    def give(self, given: Given, scopes: Scopes, rows: Rows | None) -> None:
        """Add the given scores of an input (no weights) to the constant tables."""
        for part in scopes.parts(given.target):
            known = replace(part, scopes=self._known(part.scopes))
            if part.true is None:
                self._give(given, known.scopes, rows, part.states)
            else:
                self._give_rule(given, known, rows)

    def _give_rule(self, given: Given, part: FactorPart, rows: Rows | None) -> None:
        """Add the scores of a rule where it is true, which depends on the factor."""
        shapes, index = part.scopes.shapes, None if rows is None else row_index(given, part.scopes, rows)
        scores = np.array(given.table) if rows is None else np.asarray(rows.values)[:, 0]
        scores = scores if index is None else scores[shapes.spread(*index)]
        values = np.where(part.truth(), np.broadcast_to(scores, shapes.n_factors)[:, None], 0.0)
        if len(part.cards) > 1:
            self.grounded.tables[len(self.grounded.groups)] = values
            index = shapes.own_number, shapes.ptr[:-1]
            self.grounded.groups.append(Group(given.name, part.cards, shapes, *index, len(values), "table"))
        else:
            self._add_to_states(given, given.target.label, shapes, np.arange(part.cards[0]), values)

    def _give(self, given: Given, scopes: Scopes, rows: Rows | None, turned: I64 | None) -> None:
        """Add the scores of some of the factors, whose variables may be turned."""
        if rows is None:
            values = _turned(_of_states(given, np.array([given.table])), turned)
            if of_tables(given.target):
                values = in_tables(given.target, values)
                self._add_shared(given.name, given.target, scopes, values)
                self._refuse_spans(given, scopes.shapes, _one_row(scopes), values)
                return
            index: tuple[I32, I64] | None = _one_row(scopes)
        else:
            assert isinstance(rows.values, np.ndarray)
            index, values = row_index(given, scopes, rows), _turned(_of_states(given, rows.values), turned)
            if index is None:
                index = scopes.shapes.own_number, scopes.shapes.ptr[:-1]
        assert index is not None
        if not of_tables(given.target):
            self._give_states(given, scopes.shapes, values[scopes.shapes.spread(*index)])
            return
        values = in_tables(given.target, values)
        self._add_group(given.name, given.target, scopes.shapes, index, values)
        self._refuse_spans(given, scopes.shapes, index, values)

    def _give_states(self, given: Given, shapes: Shapes, values: F64) -> None:
        """Add a row of scores to the states of each variable; ``-inf`` becomes a mask."""
        label, states = given.target.label, np.array(table_states(given.target))
        if given.only_state is not None:
            states = np.array([given.only_state])
        self._add_to_states(given, label, shapes, states, values)

    def _add_to_states(self, given: Given, label: Label, shapes: Shapes, states: I64, values: F64) -> None:
        """Add scores of states of single variables."""
        variables = shapes.variables()[:, 0].astype(np.int64)
        at = self.state_ptr[variables][:, None] + states
        out = values == -np.inf
        if self.grounded.node is None:
            self.grounded.node = np.zeros(int(self.state_ptr[-1]))
        np.add.at(self.grounded.node, at, np.where(out, 0.0, values))  # several factors may be of one variable
        if out.any():
            self.forbid_states(at[out], f"the scores of -inf in '{given.name}'")
            if self.truth is not None:
                wrong = (out & (self.truth[variables][:, None] == states)).any(axis=1)
                self._refuse_truth(f"the scores of '{given.name}' (-inf)", label, variables, wrong)

    def _refuse_spans(self, given: Given, shapes: Shapes, index: tuple[I32, I64], values: F64) -> None:
        """Refuse labels whose spans are ruled out, where these are no variables."""
        if self.truth is None or kind_of_group(given.target) != ONE_SPAN or not (values == -np.inf).any():
            return
        variables = shapes.variables()
        group = Group(given.name, given.target.table_cards, shapes, *index, len(values), ONE_SPAN)
        states = group.joint_states(variables, self.truth)
        wrong = (states >= 0) & (values[group.table_rows(), np.maximum(states, 0)] == -np.inf)
        what, label = f"the scores of '{given.name}' (-inf)", given.target.label
        self._refuse_truth(what, label, variables[:, 0].astype(np.int64), wrong)

    def _add_shared(self, name: str, target: Target, scopes: Scopes, table: F64) -> None:
        """Add a table that all factors share: to that of a group, where there is one of the same factors."""
        if scopes.turned is not None:
            self._add_group(name, target, scopes.shapes, _one_row(scopes), table)
            return
        g = self.grounded.shared.setdefault(target, len(self.grounded.groups))
        if g == len(self.grounded.groups):
            self._add_group(name, target, scopes.shapes, _one_row(scopes), table)
        else:
            self.grounded.tables[g] = table + self.grounded.tables.get(g, 0.0)

    def _add_group(self, name: str, target: Target, shapes: Shapes, index: tuple[I32, I64], table: F64) -> None:
        rows, base = index
        self.grounded.tables[len(self.grounded.groups)] = table
        kind = kind_of_group(target)
        self.grounded.groups.append(Group(name, target.table_cards, shapes, rows, base, len(table), kind))

    def require_states(self) -> None:
        """Refuse variables without a state that is left.

        Raises
        ------
        InfeasibleError
            Names the example and the label.
        """
        if self.grounded.allowed is None or not len(self.layout.card):
            return
        left = np.logical_or.reduceat(self.grounded.allowed, self.state_ptr[:-1])
        if self.ignored is not None:
            left |= self.ignored
        if left.all():
            return
        variable = int(np.argmin(left))
        example = owner_of(self.layout.var_ptr, variable)
        own = range(int(self.state_ptr[variable]), int(self.state_ptr[variable + 1]))
        by = dict.fromkeys(name for name, states in self.ruled_out if np.isin(states, own).any())
        text = f"example {self.first + example} has no labelling: all states of {self._name(variable)} are ruled out"
        raise InfeasibleError(f"{text}, by {' and '.join(by)}")

    def _refuse_forbidden(self, rule: Forbid, scopes: Scopes, left: Bools, turned: I64 | None) -> None:
        """Refuse labels that break a rule, where all of a factor's are known."""
        if self.truth is None:
            return
        variables, shapes = scopes.shapes.variables(), scopes.shapes
        states, cards = self.truth[variables], rule.target.table_cards
        number = np.zeros(len(states), dtype=np.int64)
        for k, card in enumerate(cards):
            number = number * card + np.maximum(states[:, k], 0)
        wrong = np.flatnonzero(~left[number] & (states >= 0).all(axis=1))
        if not len(wrong):
            return
        owner, target, at = owners(shapes.ptr)[wrong], rule.target, table_states(rule.target)
        names = [label.classes or range(label.n_states) for label in target.members]

        def words(example: int) -> str:
            factor = wrong[int(np.argmax(owner == example))]
            written = int(number[factor]) if turned is None else int(turned[number[factor]])
            joint = np.unravel_index(at.index(written), target.cards)
            found = ", ".join(str(name[int(s)]) for name, s in zip(names, joint, strict=True))
            return f"{found} ({', '.join(map(self._name, variables[factor].tolist()))})"

        self._refuse(f"rule '{rule.name}'", np.unique(owner), words)

    def _refuse_truth(self, what: str, label: Label, variables: NDArray[np.int64], wrong: Bools) -> None:
        """Refuse labels that a mask rules out."""
        if not wrong.any():
            return
        truth, at = self.truth, variables[wrong]
        assert truth is not None
        names = label.classes or range(label.n_states)
        owner = np.searchsorted(self.layout.var_ptr, at, side="right") - 1

        def words(example: int) -> str:
            variable = int(at[int(np.argmax(owner == example))])
            return f"{names[int(truth[variable])]} ({self._name(variable)})"

        self._refuse(what, np.unique(owner), words)

    def _refuse(self, what: str, examples: I64, words: Callable[[int], str]) -> None:
        expected = f"labels that {what} does not rule out"
        raise ruled_out_error(examples.tolist(), self.layout.n, expected, words)


def _of_states(given: Given, values: F64) -> F64:
    """Return scores of joint states; of a rule one number is that of all for which it is true."""
    if not isinstance(given.target, RuleTarget) or given.target.form == FULL:
        return values
    return np.where(np.array(given.target.form.values, dtype=bool), values, 0.0)


def _turned(values: F64, turned: I64 | None) -> F64:
    """Return rows of scores by the states of variables, of which others are written."""
    return values if turned is None or values.shape[1] != len(turned) else values[:, turned]


def _left_by_function(rule: Forbid, scopes: Scopes, encoder: Encoder) -> Bools:
    """Return which joint states a function leaves of each factor of the batch, ``shape (n, prod(cards))``."""
    ref, target = rule.ref, rule.target
    assert ref is not None
    instances = call_of_factors(ref, class_arrays(target), rule.places, target, scopes, encoder, type(rule).__name__)
    flat = np.asarray(instances.reshape(len(instances), prod(target.cards)) != 0)
    return flat if isinstance(rule, Allow) else ~flat


def _left(rule: Forbid) -> Bools:
    """Return which joint states of the tables that factors have are left."""
    left = np.ones(prod(rule.target.table_cards), dtype=bool)
    left[table_states(rule.target)] = rule.mask()
    return left


def _one_row(scopes: Scopes) -> tuple[I32, I64]:
    """Return the table rows of factors that all have the same table."""
    shapes = scopes.shapes
    return np.zeros(len(shapes.scope), dtype=np.int32), np.zeros(shapes.n_examples, dtype=np.int64)


def _as_numbers(selected: slice | I64) -> I64:
    return np.arange(selected.start, selected.stop) if isinstance(selected, slice) else selected
