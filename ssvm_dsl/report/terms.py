"""A score taken apart: one term for each factor and feature of a labelling.

The score of a labelling is a sum over factors f and their features p,

    w . Phi(x, y) + given(y)  =  sum_f sum_p  x_f[p] (sum_q w[u_f, q, p] B[q, s_f])  +  sum_f given_f(s_f),

for the joint state s_f of the factor's variables, its unit u_f and the form B (:mod:`ssvm_dsl.scores`).  A term
is one summand: the value of a feature times the weight that the joint state has for it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.compiler.ground import Grounded
from ssvm_dsl.compiler.variable_names import instances_of
from ssvm_dsl.ir.features import NODE, FeatureMap, ObservedPairs, SparseRows
from ssvm_dsl.ir.program import Group, Program
from ssvm_dsl.ir.ragged import members, owners
from ssvm_dsl.lang.dims import Index
from ssvm_dsl.lang.outputs.labels import Target
from ssvm_dsl.lang.patterns.join import Instances
from ssvm_dsl.lang.patterns.pattern import Pattern
from ssvm_dsl.lang.rules.rule_patterns import VariedRule

#: The feature of terms that have none.
NO_FEATURE = -1


@dataclass(frozen=True, eq=False)
class TermColumns:
    """The terms of a score, as columns; those that are 0 are left out.

    Parameters
    ----------
    factor : ndarray of int64, shape (n,)
        The number of the term's factor among those of its template.
    feature : ndarray of int64, shape (n,)
        ``NO_FEATURE`` for factors without features, and for given scores.
    value, weight : ndarray of float64, shape (n,)
        The feature, and the weight it is multiplied with; of given scores 1 and the score.
    """

    factor: I64
    feature: I64
    value: F64
    weight: F64

    @property
    def score(self) -> F64:
        """What each term adds to the score."""
        return self.value * self.weight

    def nonzero(self) -> Self:
        """Return the terms that are not 0."""
        there = self.score != 0.0
        return self if there.all() else type(self)(*(getattr(self, one.name)[there] for one in fields(self)))


@dataclass(frozen=True, eq=False)
class TemplateTerms:
    """The factors of one template on an example, their joint states in a labelling, and the terms.

    Parameters
    ----------
    name : str
        The template.
    scope : ndarray of int32, shape (m, r)
        Variables of each factor, counted from the example's first.
    config : ndarray of int64, shape (m,)
        Joint state of each factor, -1 where no segment begins.
    cards : tuple of int
        Numbers of states; of segments those of classes and lengths.
    of_spans : bool
        Whether factors score segments, by class and length, or spans.
    terms : TermColumns
    found : Instances, optional
        The values of index variables for each factor, where its target is a pattern with some.
    indices : tuple of Index
        These, in the order of their declaration.
    """

    name: str
    scope: I32
    config: I64
    cards: tuple[int, ...]
    of_spans: bool
    terms: TermColumns
    found: Instances | None = None
    indices: tuple[Index, ...] = ()

    def of_target(self, target: Target | None, found: Instances | None) -> TemplateTerms:
        """Return the same with the values of index variables."""
        if found is None or not isinstance(target, Pattern) or len(found) != len(self.scope):
            return self
        return replace(self, found=found, indices=target.free)


def terms_of(grounded: Grounded, labels: I32, w: F64) -> list[TemplateTerms]:
    """Return the terms of the score of a labelling of the first example.

    Parameters
    ----------
    grounded : Grounded
    labels : ndarray of int32
        States of the first example's variables.
    w : ndarray of float64, shape (dim,)
    """
    program = grounded.program
    terms = [_weighted(fmap, program, labels, w) for fmap in grounded.parameters.maps]
    targets = [part.target for factor in grounded.declaration.factors for part in factor.parts]
    placed = [(target, rows) for target in targets for rows in instances_of(grounded.layout, target, 0)]
    if len(placed) == len(terms):
        terms = [one.of_target(*where) for one, where in zip(terms, placed, strict=True)]
    return terms + _given(grounded, labels)


def _weighted(fmap: FeatureMap, program: Program, labels: I32, w: F64) -> TemplateTerms:
    group = None if fmap.group == NODE else program.groups[fmap.group]
    of_spans = group is not None and group.of_spans
    scope = fmap.shapes.scope[fmap.shapes.factors(0)]
    config = _configs(scope, group, fmap.cards, labels)
    active = np.flatnonzero(config >= 0)
    terms = _products(fmap, active, config[active], w).nonzero()
    return TemplateTerms(fmap.name, scope, config, fmap.cards, of_spans, terms)


def _configs(scope: I32, group: Group | None, cards: tuple[int, ...], labels: I32) -> I64:
    """Return the joint state of each factor."""
    if group is not None and group.of_spans:
        return _segment_configs(scope, cards[1], labels) if len(cards) > 1 else group.joint_states(scope, labels)
    strides = np.array([int(np.prod(cards[k + 1 :])) for k in range(len(cards))], dtype=np.int64)
    return np.asarray(labels[scope].astype(np.int64) @ strides)


def _segment_configs(scope: I32, longest: int, labels: I32) -> I64:
    """Return class times L, and length less 1, of the segment that begins at each position; -1 where none does."""
    begins = np.flatnonzero(labels[scope[:, 1]] == 1)
    last = np.flatnonzero(scope[:, 1] == scope[:, 2])  # of each label array: its own "next"
    ends = np.sort(np.concatenate([begins, last + 1]))
    length = ends[np.searchsorted(ends, begins, side="right")] - begins
    config = np.full(len(scope), -1, dtype=np.int64)
    config[begins] = labels[scope[begins, 0]].astype(np.int64) * longest + np.minimum(length, longest) - 1
    return config


def _products(fmap: FeatureMap, active: I64, config: I64, w: F64) -> TermColumns:
    """Return values and weights of the features of some factors in their joint states."""
    part = fmap.shapes.factors(0)
    unit = np.zeros(len(active), np.int64) if fmap.units is None else fmap.units[part][active].astype(np.int64)
    if fmap.features is None:
        weight = _per_state(fmap, unit, config, w)[:, 0]
        return TermColumns(active, np.full(len(active), NO_FEATURE), np.ones(len(active)), weight)
    row = fmap.local_rows[part][active].astype(np.int64) + int(fmap.row_bases[0])
    if isinstance(fmap.features, SparseRows):
        return _sparse_products(fmap, fmap.features, active, row, unit, config, w)
    if fmap.joint:
        row = row * fmap.n_configs + config
        weight = fmap.weights(w)[unit, 0, :]
    else:
        weight = _per_state(fmap, unit, config, w)
    width = fmap.width
    feature = np.tile(np.arange(width), len(active))
    return TermColumns(np.repeat(active, width), feature, fmap.features[row].ravel(), weight.ravel())


def _per_state(fmap: FeatureMap, unit: I64, config: I64, w: F64) -> F64:
    """Return the weights that joint states have for dense features; ``shape (m, P)``."""
    blocks = fmap.weights(w)
    if fmap.basis is None:
        return np.asarray(blocks[unit, config, :])
    keys, place = np.unique(unit * fmap.n_configs + config, return_inverse=True)
    made = [fmap.basis[:, key % fmap.n_configs] @ blocks[key // fmap.n_configs] for key in keys.tolist()]
    return np.array(made).reshape(len(keys), -1)[place] if made else np.zeros((0, fmap.width))


def _sparse_products(
    fmap: FeatureMap, rows: SparseRows, active: I64, row: I64, unit: I64, config: I64, w: F64
) -> TermColumns:
    """Return values and weights of the features that rows have."""
    entries = members(rows.ptr, row)
    owner = np.repeat(np.arange(len(row)), np.diff(rows.ptr)[row])
    feature, state = rows.indices[entries].astype(np.int64), config[owner]
    if fmap.observed is not None:
        weight = _observed_weights(fmap.observed, fmap.n_configs, feature, state, fmap.weights(w)[0])
    else:
        blocks, at = fmap.weights(w), unit[owner]
        if fmap.basis is None:
            weight = blocks[at, feature, state]
        else:
            weight = np.einsum("nq,qn->n", blocks[at, feature], fmap.basis[:, state])
    return TermColumns(active[owner], feature, rows.data[entries], np.asarray(weight))


def _observed_weights(pairs: ObservedPairs, n_configs: int, feature: I64, state: I64, weights: F64) -> F64:
    """Return the weights of pairs of a feature and a joint state; 0 where these were not seen together."""
    if not pairs.n_pairs:
        return np.zeros(len(feature))
    known = owners(pairs.ptr) * n_configs + pairs.state
    key = feature * n_configs + state
    place = np.minimum(np.searchsorted(known, key), len(known) - 1)
    return np.where(known[place] == key, weights[place], 0.0)


# -- scores that no weight multiplies ------------------------------------------------------------------------


def _given(grounded: Grounded, labels: I32) -> list[TemplateTerms]:
    """Return the terms of given scores."""
    constants, program = grounded.parameters.constants, grounded.program
    if constants is None:
        return []
    terms_of_templates = [] if constants.node is None else _given_states(grounded, constants.node, labels)
    for g, table in constants.tables.items():
        group = program.groups[g]
        scope, rows = group.factors(0)
        config = _configs(scope, group, group.cards, labels)
        active = np.flatnonzero(config >= 0)
        row = rows[active] if len(table) > 1 else np.zeros(len(active), np.int64)
        terms = _scores(active, table[row, config[active]])
        made = TemplateTerms(_given_name(grounded, group), scope, config, group.cards, group.of_spans, terms)
        target = next((one.target for one in grounded.declaration.given if one.name == made.name), None)
        placed = [] if target is None else instances_of(grounded.layout, target, 0)
        terms_of_templates.append(made.of_target(target, placed[0]) if len(placed) == 1 else made)
    return terms_of_templates


def _given_states(grounded: Grounded, node: F64, labels: I32) -> list[TemplateTerms]:
    """Return the given scores of the states that variables have, label by label."""
    start, n = grounded.program.state_ptr, len(labels)
    score = node[start[:n] + labels]
    terms_of_labels = []
    for label in grounded.declaration.labels:
        given = grounded.declaration.given
        unary = [one for one in given if len(one.target.table_cards) == 1 or isinstance(one.target, VariedRule)]
        names = [one.name for one in unary if any(part.name == label.name for part in one.target.all_labels)]
        if names:
            first = int(grounded.layout.start(label)[0])
            mine = np.arange(first, first + int(grounded.layout.count(label)[0]))
            terms = _scores(np.arange(len(mine)), score[mine])
            scope, config = mine[:, None].astype(np.int32), labels[mine].astype(np.int64)
            terms_of_labels.append(TemplateTerms(" + ".join(names), scope, config, (label.n_states,), False, terms))
    return terms_of_labels


def _scores(active: I64, scores: F64) -> TermColumns:
    return TermColumns(active, np.full(len(active), NO_FEATURE), np.ones(len(active)), scores).nonzero()


def _given_name(grounded: Grounded, group: Group) -> str:
    """Return the given scores that a group's table holds: those over the same variables share one."""
    declaration = grounded.declaration
    symbols = [*declaration.given, *declaration.rules]
    parts = {part.name: part.target for factor in declaration.factors for part in factor.parts}
    target = parts.get(group.name) or next((one.target for one in symbols if one.name == group.name), None)
    tables = [one for one in declaration.given if one.features is None]
    return " + ".join(one.name for one in tables if one.target == target) or group.name
