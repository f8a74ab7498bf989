"""``Explanation``: what the score of a labelling is made of; ``WhyNot``: which factors decide against other labels."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.compiler.features.weight_names import weight_names
from ssvm_dsl.compiler.ground import Grounded
from ssvm_dsl.compiler.rules import instance_words
from ssvm_dsl.compiler.variable_names import instances_of, label_of, variable_name, variables_behind
from ssvm_dsl.errors import OptionError
from ssvm_dsl.ir.features import NODE, FeatureMap, ObservedPairs, SparseRows
from ssvm_dsl.ir.program import Group, Program
from ssvm_dsl.ir.ragged import members, owners
from ssvm_dsl.lang.dims import Index
from ssvm_dsl.lang.outputs.agreements import Agreement, Auxiliary
from ssvm_dsl.lang.outputs.labels import BeginsOf, Label, SpansOf, Target
from ssvm_dsl.lang.patterns.join import Instances
from ssvm_dsl.lang.patterns.pattern import Pattern
from ssvm_dsl.lang.rules.circuits import RuleAux
from ssvm_dsl.lang.rules.rule_patterns import VariedRule

if TYPE_CHECKING:
    from rich.table import Table


# -- the terms of a score ------------------------------------------------------------------------------------------
#
# The score of a labelling is a sum over factors f and their features p,
#
#     w . Phi(x, y) + given(y)  =  sum_f sum_p  x_f[p] (sum_q w[u_f, q, p] B[q, s_f])  +  sum_f given_f(s_f),
#
# for the joint state s_f of the factor's variables, its unit u_f and the form B (:mod:`ssvm_dsl.scores`).  A term is
# one summand: the value of a feature times the weight that the joint state has for it.

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


# -- names of variables and states in the users' words: ``y[3]``, ``y[2] -> 5``, ``N`` -----------------------------


class ExampleNames:
    """Names of what an example consists of.

    Parameters
    ----------
    grounded : Grounded
        Its first example is named.
    """

    def __init__(self, grounded: Grounded) -> None:
        self.grounded = grounded
        self._features: dict[str, Sequence[str] | None] = {}

    def _label(self, variable: int) -> Label:
        return label_of(self.grounded.layout, variable)[0]

    def variable(self, variable: int) -> str:
        """Return the name of a variable."""
        return variable_name(self.grounded.layout, variable)

    def position(self, variable: int) -> str:
        """Return the position of the users' label that a variable is about."""
        label, example, number = label_of(self.grounded.layout, variable)
        if isinstance(label, Auxiliary):
            return self.variable(variable)
        declared, place = label.declared, self.grounded.layout.place(label, example, number)
        kept = place[: len(declared.dims) - declared.pointer]
        return f"{declared.name}[{', '.join(map(str, kept))}]" if kept else declared.name

    def state(self, variable: int, state: int) -> Any:
        """Return the name of a state of a variable."""
        label = self._label(variable)
        if isinstance(label, RuleAux):
            return label.said(state)
        if isinstance(label, SpansOf) and not isinstance(label.classes, tuple):
            return "no segment" if not state else _class(label.of, state - 1)
        if isinstance(label, BeginsOf):
            return ("goes on", "begins")[state]
        if isinstance(label, Agreement):
            named = label.named[state]
            return "not all alike" if named is None else f"all {_class(label.of.label, named)}"
        return ("no", "yes")[state] if label.pointer else _class(label, state)

    def about(self, template: TemplateTerms, factor: int) -> list[int]:
        """Return the variables that a factor is about: of a segment the first, of a rule those it speaks of."""
        scope = template.scope[factor].tolist()[: 1 if template.of_spans else None]
        return [one for v in scope for one in variables_behind(self.grounded.layout, v)]

    def places(self, template: TemplateTerms, factor: int) -> tuple[str, ...]:
        """Return the names of the variables that a factor is about."""
        return tuple(map(self.variable, self.about(template, factor)))

    def at(self, template: TemplateTerms, factor: int) -> str:
        """Return the values of the index variables of a factor, ``"i = 0, j = 2"``; empty where it has none."""
        return "" if template.found is None else instance_words(template.indices, template.found, factor)

    def states(self, template: TemplateTerms, factor: int, config: int) -> tuple[Any, ...]:
        """Return the names of the states of the variables of a factor; of a segment its class and length."""
        if config < 0:
            return ("no segment",)
        states = [int(one) for one in np.unravel_index(config, template.cards)]
        scope = template.scope[factor].tolist()
        if template.of_spans:
            length = states[1] + 1 if len(states) > 1 else scope[2] - scope[1] + 1
            return self.state(scope[0], states[0]), f"length {length}"
        return tuple(self.state(v, s) for v, s in zip(scope, states, strict=True))

    def feature(self, template: str, number: int) -> str | None:
        """Return the name of a feature of a factor template."""
        if number == NO_FEATURE:
            return None
        if template not in self._features:
            grounded = self.grounded
            (factor,) = {f for f in grounded.declaration.factors for p in f.parts if p.name == template}
            self._features[template] = weight_names(factor, grounded.declaration, grounded.fitted).features
        names = self._features[template]
        return None if names is None else names[number]

    def differences(self, one: I32, other: I32) -> list[tuple[str, Any, Any]]:
        """Return (variable, its state in one labelling, in the other) of users' variables that differ."""
        changed = np.flatnonzero(one != other).tolist()
        variables = [v for v in changed if not isinstance(self._label(v), Auxiliary)]
        return [(self.variable(v), self.state(v, int(one[v])), self.state(v, int(other[v]))) for v in variables]

    @cached_property
    def template_factors(self) -> dict[str, str]:
        """The factor of the declaration that each template belongs to."""
        return {part.name: factor.name for factor in self.grounded.declaration.factors for part in factor.parts}


def _class(label: Label, state: int) -> Any:
    return state if label.classes is None else label.classes[state]


#: Terms that are printed.
SHOWN = 10

#: Variables of a factor that are printed.
PLACES = 6

#: What sums can be taken over.
BY = ("factor", "feature", "position")


class ScoreTerm(NamedTuple):
    """One term of a score.

    Parameters
    ----------
    factor : str
        The factor template, or the given scores.
    places : tuple of str
        The variables of the factor, such as ``("y[2]", "y[3]")``.
    states : tuple
        Their states.
    feature : str or None
    value, weight, score : float
        ``score = value * weight``; the weight is that of these states.
    at : str
        The values of the index variables of a factor at positions, ``"t = 3"``; else empty.
    """

    factor: str
    places: tuple[str, ...]
    states: tuple[Any, ...]
    feature: str | None
    value: float
    weight: float
    score: float
    at: str = ""


@dataclass(frozen=True, eq=False)
class Explanation:
    """The terms of the score of a labelling.  It prints as text, and as a table in notebooks.

    Parameters
    ----------
    labelling
        In the user's form.
    latent
        The states of latent variables; ``None`` without any.
    score : float
        The score of the labelling, ``w . Phi(x, y)`` and given scores.
    bound : float
        No labelling (with the given labels) scores more; ``nan`` where the backend gives no bound.
    templates : list of TemplateTerms
        All terms, in columns.
    names : ExampleNames
    states : ndarray of int32
        The labelling as states of all variables.
    """

    labelling: Any
    latent: Any
    score: float
    bound: float
    templates: list[TemplateTerms]
    names: ExampleNames
    states: I32

    @cached_property
    def total(self) -> float:
        """The sum of all terms: the score, up to rounding."""
        return math.fsum(float(one) for template in self.templates for one in template.terms.score)

    @property
    def n_terms(self) -> int:
        """Number of terms that are not 0."""
        return sum(len(template.terms.factor) for template in self.templates)

    def by(self, what: str) -> dict[str, float]:
        """Return sums of terms, which add up to the score, the largest absolute value first.

        Parameters
        ----------
        what : {"factor", "feature", "position"}
            A factor of several variables counts for the position of each by an equal share.  Features have the name of
            their factor in front; terms without features go by that name alone.
        """
        sums = {"factor": self._by_factor, "feature": self._by_feature, "position": self._by_position}
        if what not in sums:
            raise OptionError(f"what: expected one of {', '.join(BY)}, got {what!r}")
        return dict(sorted(sums[what]().items(), key=lambda item: -abs(item[1])))

    def _by_factor(self) -> dict[str, float]:
        sums = _NamedSums()
        for template in self.templates:
            sums.add(self._factor(template), template.terms.score)
        return sums.total()

    def _by_feature(self) -> dict[str, float]:
        sums = _NamedSums()
        for template in self.templates:
            terms, factor = template.terms, self._factor(template)
            order = np.argsort(terms.feature, kind="stable")
            numbers, starts = np.unique(terms.feature[order], return_index=True)
            ends, scores = [*starts[1:].tolist(), len(order)], terms.score[order]
            for number, start, end in zip(numbers.tolist(), starts.tolist(), ends[: len(starts)], strict=True):
                feature = self.names.feature(template.name, number)
                sums.add(factor if feature is None else f"{factor}: {feature}", scores[start:end])
        return sums.total()

    def _by_position(self) -> dict[str, float]:
        sums = _NamedSums()
        for template in self.templates:
            scores = np.bincount(template.terms.factor, template.terms.score, len(template.scope))
            for f in np.flatnonzero(scores).tolist():
                scope = self.names.about(template, f)
                for variable in scope:
                    sums.add(self.names.position(variable), scores[f : f + 1] / len(scope))
        return sums.total()

    def _factor(self, template: TemplateTerms) -> str:
        return self.names.template_factors.get(template.name, template.name)

    def top(self, k: int | None = SHOWN, factor: Any = None) -> list[ScoreTerm]:
        """Return the k terms of largest absolute value, largest first.

        Parameters
        ----------
        k : int, optional
            ``None``: all.
        factor : Factor or str, optional
            Its terms only.
        """
        if k is not None and k < 0:
            raise OptionError(f"k: expected a number of terms, or None for all, got {k}")
        name = getattr(factor, "name", factor)
        chosen = [one for one in self.templates if name is None or self._factor(one) == name]
        if name is not None and not chosen:
            known = dict.fromkeys(map(self._factor, self.templates))
            raise OptionError(f"factor: expected one of {', '.join(known)}, got {name!r}")
        sizes = np.concatenate([np.zeros(0), *(np.abs(one.terms.score) for one in chosen)])
        owner = np.repeat(np.arange(len(chosen)), [len(one.terms.factor) for one in chosen])
        start = np.cumsum([0, *(len(one.terms.factor) for one in chosen)])
        order = np.argsort(-sizes, kind="stable")[:k].tolist()
        return [self._term(chosen[owner[at]], at - int(start[owner[at]])) for at in order]

    def rows(self) -> list[ScoreTerm]:
        """Return all terms, for a table: ``pandas.DataFrame(svm.explain(x).rows())``."""
        return self.top(None)

    def _term(self, template: TemplateTerms, k: int) -> ScoreTerm:
        terms, names = template.terms, self.names
        factor, value, weight = int(terms.factor[k]), float(terms.value[k]), float(terms.weight[k])
        states = names.states(template, factor, int(template.config[factor]))
        feature = names.feature(template.name, int(terms.feature[k]))
        places, at = names.places(template, factor), names.at(template, factor)
        return ScoreTerm(self._factor(template), places, states, feature, value, weight, value * weight, at)

    # -- text and tables ------------------------------------------------------------------------------------

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        """Return (columns, rows) of the largest terms; columns that say nothing are left out."""
        top = self.top()
        columns = {
            "score": [f"{one.score:+.4g}" for one in top],
            "factor": [placed_name(one.factor, one.at) for one in top],
            "of": [few_places(one.places) for one in top],
            "states": [", ".join(map(str, one.states)) for one in top],
            "feature": [one.feature or "" for one in top],
            "value": [f"{one.value:.4g}" if one.feature else "" for one in top],
            "weight": [f"{one.weight:+.4g}" if one.feature else "" for one in top],
        }
        return shown_columns(columns)

    def summary(self) -> str:
        """Return the score, and the sums by factor, in a line."""
        parts = ", ".join(f"{name} {value:+.4g}" for name, value in self.by("factor").items())
        bound = f" (no labelling scores more than {self.bound:.6g})" if self.bound - self.score > 1e-6 else ""
        return f"score {self.score:.6g}{bound}: {parts or 'all terms are 0'}"

    def _rest(self) -> str:
        """Return the line below the largest terms."""
        left = self.n_terms - SHOWN
        if left <= 0:
            return ""
        rest = self.total - math.fsum(one.score for one in self.top())
        return f"and {left} more terms, {rest:+.4g} together"

    def __str__(self) -> str:
        return "\n".join(filter(None, [self.summary(), "", text_table(*self._shown()), self._rest()])).rstrip()

    def __rich__(self) -> Table:
        from ssvm_dsl.report.tables import plain_table

        return plain_table(self.summary(), *self._shown())

    def _repr_html_(self) -> str:
        from ssvm_dsl.notebook_tables import html_grid

        return html_grid(self.summary(), *self._shown(), note=self._rest())


class _NamedSums:
    """Exact sums by name."""

    def __init__(self) -> None:
        self._parts: defaultdict[str, list[float]] = defaultdict(list)

    def add(self, name: str, scores: F64) -> None:
        if len(scores):
            self._parts[name].append(math.fsum(scores.tolist()))

    def total(self) -> dict[str, float]:
        return {name: math.fsum(parts) for name, parts in self._parts.items()}


def explanation(grounded: Grounded, states: I32, w: F64, score: float, bound: float) -> Explanation:
    """Return the terms of the score of a labelling of the first example."""
    layout = grounded.layout
    latent = layout.decode(states, latent=True)[0] if grounded.declaration.latents else None
    templates = terms_of(grounded, states, w)
    names = ExampleNames(grounded)
    return Explanation(layout.decode(states)[0], latent, score, bound, templates, names, states)


def placed_name(factor: str, at: str) -> str:
    """Return a factor and where it is: ``trans at t = 3``."""
    return f"{factor} at {at}" if at else factor


def few_places(places: tuple[str, ...]) -> str:
    """Return the names of variables, the first ones of many."""
    return ", ".join(places) if len(places) <= PLACES else f"{', '.join(places[:PLACES])}, ... ({len(places)})"


def shown_columns(columns: dict[str, list[str]]) -> tuple[list[str], list[list[str]]]:
    """Return (names, rows) of the columns that say something."""
    shown = {name: texts for name, texts in columns.items() if any(texts)}
    return list(shown), [list(row) for row in zip(*shown.values(), strict=True)]


def text_table(names: list[str], rows: Iterable[list[str]]) -> str:
    """Return a table as aligned text."""
    lines = [names, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = ["  ".join(f"{text:{k}}" for text, k in zip(line, widths, strict=True)) for line in lines]
    return "\n".join(text.rstrip() for text in texts)


# -- why not other labels ------------------------------------------------------------------------------------------
#
# Why a model does not predict some labels, and which factors decide against them.


class FactorChange(NamedTuple):
    """A factor that scores the labels asked about otherwise than the prediction.

    Parameters
    ----------
    factor : str
        The factor template.
    places : tuple of str
        Its variables.
    predicted, asked : tuple
        Their states in the prediction, and in the best labelling with the labels asked about.
    change : float
        Its score there minus its score in the prediction: positive factors speak for the labels asked about.
    at : str
        The values of the index variables of a factor at positions, ``"t = 3"``; else empty.
    """

    factor: str
    places: tuple[str, ...]
    predicted: tuple[Any, ...]
    asked: tuple[Any, ...]
    change: float
    at: str = ""


@dataclass(frozen=True, eq=False)
class WhyNot:
    """The prediction beside the best labelling that has given labels.  It prints as text, and as a table in notebooks.

    Parameters
    ----------
    best : Explanation
        The prediction.
    asked : Explanation or None
        The best labelling that has the labels; ``None`` where the model's rules and constraints leave none.
    reason : str
        Why there is none.
    """

    best: Explanation
    asked: Explanation | None
    reason: str = ""

    @property
    def labelling(self) -> Any:
        """The best labelling that has the labels; ``None`` where there is none."""
        return None if self.asked is None else self.asked.labelling

    @property
    def margin(self) -> float:
        """By how much the prediction scores more; infinite where no labelling has the labels."""
        return np.inf if self.asked is None else self.best.score - self.asked.score

    @property
    def margin_bounds(self) -> tuple[float, float]:
        """Lower and upper bound of the margin of the best labellings, for inference that is not exact."""
        if self.asked is None:
            return np.inf, np.inf
        return self.best.score - self.asked.bound, self.best.bound - self.asked.score

    @property
    def differences(self) -> list[tuple[str, Any, Any]]:
        """What would have to change: (variable, its state in the prediction, its state with the labels)."""
        return [] if self.asked is None else self.best.names.differences(self.best.states, self.asked.states)

    def changes(self, k: int | None = None) -> list[FactorChange]:
        """Return the k factors (all by default) whose scores differ most; all together add up to minus the margin."""
        changes = sorted(self._changes(), key=lambda one: -abs(one.change))
        return changes[:k]

    @property
    def against(self) -> list[FactorChange]:
        """The factors that score the labels lower than the prediction."""
        return [one for one in self.changes() if one.change < 0.0]

    @property
    def speaking_for(self) -> list[FactorChange]:
        """The factors that score the labels higher than the prediction."""
        return [one for one in self.changes() if one.change > 0.0]

    def by(self, what: str) -> dict[str, float]:
        """Return the changes of sums of terms, which add up to minus the margin, the largest absolute value first.

        Parameters
        ----------
        what : {"factor", "feature", "position"}
            As for :meth:`Explanation.by`.
        """
        before = self.best.by(what)
        after = {} if self.asked is None else self.asked.by(what)
        names = dict.fromkeys([*before, *after]) if after else {}
        changes = {name: after.get(name, 0.0) - before.get(name, 0.0) for name in names}
        return dict(sorted(((n, v) for n, v in changes.items() if v), key=lambda item: -abs(item[1])))

    def _changes(self) -> Iterator[FactorChange]:
        if self.asked is None:
            return
        names = self.best.names
        for one, other in zip(self.best.templates, self.asked.templates, strict=True):
            sums = [np.bincount(each.terms.factor, each.terms.score, len(each.scope)) for each in (one, other)]
            change = np.where(one.config == other.config, 0.0, sums[1] - sums[0])
            name = names.template_factors.get(one.name, one.name)
            for f in np.flatnonzero(change).tolist():
                states = [names.states(each, f, int(each.config[f])) for each in (one, other)]
                yield FactorChange(
                    name, names.places(one, f), states[0], states[1], float(change[f]), names.at(one, f)
                )

    # -- text and tables ------------------------------------------------------------------------------------

    def summary(self) -> str:
        """Return in a line or two what was found."""
        if self.asked is None:
            return f"no labelling has these labels: {self.reason}"
        changed = self.differences
        if not changed:
            return f"the prediction has these labels (score {self.best.score:.6g})"
        shown = ", ".join(f"{place} from {old} to {new}" for place, old, new in changed[:SHOWN])
        rest = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
        scores = f"the best labelling with these labels scores {self.asked.score:.6g}, the prediction"
        return f"{scores} {self.best.score:.6g}: {self.margin:.6g} more{self._unproved()}\nit changes {shown}{rest}"

    def _unproved(self) -> str:
        """Return the bounds of the margin as text, for inference that is not exact."""
        least, most = self.margin_bounds
        if np.isnan(least) or np.isnan(most):
            return " (not proved: the backend gives no bounds)"
        return "" if most - least <= 1e-6 else f" (between {max(least, 0.0):.4g} and {most:.4g})"

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        top = self.changes(SHOWN)
        columns = {
            "change": [f"{one.change:+.4g}" for one in top],
            "factor": [placed_name(one.factor, one.at) for one in top],
            "of": [few_places(one.places) for one in top],
            "predicted": [", ".join(map(str, one.predicted)) for one in top],
            "asked": [", ".join(map(str, one.asked)) for one in top],
        }
        return shown_columns(columns)

    def __str__(self) -> str:
        names, rows = self._shown()
        return "\n".join([self.summary(), *(["", text_table(names, rows)] if rows else [])])

    def __rich__(self) -> Table:
        from ssvm_dsl.report.tables import plain_table

        return plain_table(self.summary(), *self._shown())

    def _repr_html_(self) -> str:
        from ssvm_dsl.notebook_tables import html_grid

        return html_grid(self.summary(), *self._shown())
