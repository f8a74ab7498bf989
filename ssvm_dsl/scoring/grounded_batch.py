"""A model laid over examples of some sizes, without features: where the scores of each template are in a Theta."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.compiler.constants import ground_constants
from ssvm_dsl.compiler.features.encode import Encoder
from ssvm_dsl.compiler.inputs import Examples
from ssvm_dsl.compiler.layout import Layout
from ssvm_dsl.compiler.prepared import PreparedShape, ShapeCache
from ssvm_dsl.compiler.scopes import FactorPart, Scopes, factor_counts
from ssvm_dsl.ir.features import NODE, Block, FeatureMap, pool_features
from ssvm_dsl.ir.program import Group, Program
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.outputs.agreements import FactorTerm
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.scores.parameter_map import ParameterMap
from ssvm_dsl.scoring.templates import Template

#: Bytes that a laid model may keep of what is prepared for it.
KEPT_BYTES = 64_000_000


@dataclass(frozen=True, eq=False)
class Place:
    """Where the scores of a part of a template are in a Theta: ``table = scores @ basis``.

    Parameters
    ----------
    group : int
        The group whose tables they are, or ``NODE``.
    at : ndarray of int64 or slice
        Of unary scores the position of each entry in ``Theta.node``, ``shape (n_factors, n_configs)``; of tables the
        row of scores of each of them, a slice where there is one of each.
    columns : ndarray of int64, optional
        The entry of a table that each number of a factor is, where the basis only selects.
    basis : ndarray of float64, shape (width, n_configs), optional
        The form; ``None`` for the identity, and where it only selects.
    tied : bool
        Whether all factors have the same scores.
    rows : ndarray of int64, optional
        Of unary scores the factor of the template of each row of ``at``, where it is about some of them.
    """

    group: int
    at: I64 | slice
    columns: I64 | None
    basis: F64 | None
    tied: bool
    rows: I64 | None = None

    @property
    def whole(self) -> bool:
        """Whether the scores are the unary scores of all variables, in order."""
        return self.group == NODE and isinstance(self.at, slice)

    def write(self, scores: F64, theta: Theta) -> None:
        """Add the scores of a template, ``shape (n, width)``, to their place; tables are zero before."""
        scores = scores if self.rows is None or self.tied else scores[self.rows]
        if self.group == NODE:
            if isinstance(self.at, slice):
                theta.node.reshape(scores.shape)[...] += scores
            else:
                np.add.at(theta.node, self.at, scores if self.basis is None else scores @ self.basis)
            return
        table = theta.tables[self.group]
        if self.basis is not None:
            table[...] = (scores @ self.basis)[self.at]
        elif self.columns is None:
            table[...] = scores[self.at]
        else:
            table[:, self.columns] = scores[self.at]

    def read(self, node: F64, tables: tuple[F64, ...], out: F64) -> None:
        """Add entries of a Theta to the scores of the template, ``shape (n, width)``."""
        if self.group == NODE:
            values = node.reshape(out.shape) if isinstance(self.at, slice) else node[self.at]
        else:
            values = tables[self.group]
            values = values if self.columns is None else values[:, self.columns]
        values = values if self.basis is None else values @ self.basis.T
        if self.tied:
            out += values.sum(axis=0)
        elif self.rows is not None:
            np.add.at(out, self.rows, values)
        elif self.group == NODE or isinstance(self.at, slice):
            out += values
        else:
            np.add.at(out, self.at, values)


@dataclass(eq=False)
class GroundedBatch:
    """A model grounded on examples of some sizes, with the plans and sessions that inference opened for it.

    Parameters
    ----------
    layout : Layout
        Numbering of the variables.
    examples : Examples
        Sizes, edges, masks and numbers of constraints.
    parameters : ParameterMap
        The program; its maps stand for templates whose scores are not known yet.
    places : dict
        The places of the parts of each template, by its name.
    """

    layout: Layout
    examples: Examples
    parameters: ParameterMap
    places: dict[str, tuple[Place, ...]]
    settled: bool = True
    opened: dict[Hashable, Any] = field(default_factory=dict)
    n_kept: float = 0.0
    _of_labels: dict[str, Template] = field(default_factory=dict)

    @property
    def program(self) -> Program:
        """The structure."""
        return self.parameters.program

    def reserve(self, n_bytes: float) -> bool:
        """Count the bytes of an entry of ``opened``; return whether it fits."""
        self.n_kept += n_bytes
        return self.n_kept <= KEPT_BYTES

    def label_template(self, label: Label) -> Template:
        """Return the template of one number at each position of a label."""
        if label.name not in self._of_labels:
            self._of_labels[label.name] = Template.of_label(label)
        return self._of_labels[label.name]

    def theta(self, scores: Mapping[str, F64]) -> Theta:
        """Return the Theta of scores by template, ``shape (n, width)`` each."""
        whole, constants = self._whole, self.parameters.constants
        theta = Theta.zeros(self.program, None if whole is None else scores[whole].flatten())
        for name, places in self.places.items():
            for place in () if name == whole else places:
                place.write(scores[name], theta)
        if constants is not None:
            constants.fill_shared(theta)
            constants.fill_examples(self.program, theta, slice(0, self.program.n_states), None)
        return theta

    @cached_property
    def _whole(self) -> str | None:
        """A template whose scores are the unary scores of all variables, in order."""
        return next((name for name, places in self.places.items() if places[0].whole), None)

    def gathered(self, node: F64, tables: tuple[F64, ...], widths: Mapping[str, tuple[int, int]]) -> dict[str, F64]:
        """Return numbers laid out as a Theta by template: the adjoint of :meth:`theta`; one may be ``node`` itself."""
        whole = self._whole
        out = {name: node.reshape(shape) if name == whole else np.zeros(shape) for name, shape in widths.items()}
        for name, places in self.places.items():
            for place in () if name == whole else places:
                place.read(node, tables, out[name])
        return out


def ground_batch(
    declaration: Declaration, examples: Examples, templates: Mapping[str, Template], tied: frozenset[str]
) -> GroundedBatch:
    """Return a model laid over examples.

    Parameters
    ----------
    declaration : Declaration
        Given scores that come with examples are among the templates.
    examples : Examples
    templates : mapping of str to Template
    tied : frozenset of str
        The templates whose factors all have the same scores.

    Raises
    ------
    DataError, InfeasibleError, TooLargeError
        As for :func:`~ssvm_dsl.compiler.ground.ground`.
    """
    prepared = declaration.cached(ShapeCache).of(examples)
    layout, work = prepared.layout, _Laying(prepared, examples)
    places = {name: work.template(one, name in tied) for name, one in templates.items()}
    encoder, n_weighted = Encoder(declaration, examples, {}), len(work.groups)
    given = ground_constants(layout, encoder, work.scopes, work.groups, work.shared, with_scores=False)
    program = Program(
        layout.var_ptr, layout.card, tuple(given.groups), prepared.constraints, blocks=tuple(work.blocks),
        allowed=given.allowed, role=prepared.role,
    )  # fmt: skip
    maps = tuple(pool_features(work.maps))
    parameters = ParameterMap(program, maps, program.blocks, given.constants(n_weighted), *prepared.shapes.words)
    return GroundedBatch(layout, examples, parameters, places)


class _Laying:
    """Lays one template after the other."""

    def __init__(self, prepared: PreparedShape, examples: Examples) -> None:
        self.prepared, self.layout, self.examples = prepared, prepared.layout, examples
        self.groups: list[Group] = []
        self.maps: list[FeatureMap] = []
        self.blocks: list[Block] = []
        self.shared: dict[Target, int] = {}

    def scopes(self, target: Target) -> Scopes:
        """Return the factors of a target."""
        return self.prepared.scopes(target, self.examples)

    def template(self, template: Template, tied: bool) -> tuple[Place, ...]:
        """Ground a template; return the places of its parts."""
        start = self.blocks[-1].stop if self.blocks else 0
        self.blocks.append(Block(template.name, start, template.shape, 0.0 if template.nonneg else -np.inf))
        places: list[Place] = []
        for term in template.parts:
            scopes = self.scopes(term.target)
            single = len(term.target.table_cards) == 1 and scopes.variant is None
            parts = [FactorPart(scopes)] if single else scopes.parts(term.target)
            for part in parts:  # single variables are turned one by one
                for mine in _of_one_table(part):
                    shown = term._replace(basis=mine.form(term.basis))
                    cards = mine.cards if mine.true is not None else term.target.table_cards
                    places.append(self._part(template, shown, mine.scopes, cards, tied))
        return tuple(places)

    def _part(
        self, template: Template, part: FactorTerm, scopes: Scopes, cards: tuple[int, ...], tied: bool
    ) -> Place:
        whole = scopes.turned is None and scopes.variant is None
        columns, basis = _selected(part.basis)
        group = NODE if len(cards) == 1 else len(self.groups)
        self._note(template, part, scopes, cards, group, tied)
        if group == NODE:
            at = self._states(part, scopes, cards[0], columns, tied)
            own = None if scopes.variant is None else self._numbers(template, scopes)
            return Place(NODE, at, None, basis, tied, own)
        shapes = scopes.shapes
        if tied:
            rows, base = np.zeros(len(shapes.scope), dtype=np.int32), np.zeros(shapes.n_examples, dtype=np.int64)
            self.groups.append(Group(part.name, cards, shapes, rows, base, 1))
            if whole:
                self.shared[part.target] = group
            return Place(group, slice(None), columns, basis, tied)
        self.groups.append(Group(part.name, cards, shapes, shapes.own_number, shapes.ptr[:-1], shapes.n_factors))
        if whole and not template.parts[1:]:
            return Place(group, slice(None), columns, basis, tied)
        return Place(group, self._numbers(template, scopes), columns, basis, tied)

    def _numbers(self, template: Template, scopes: Scopes) -> I64:
        """Return the factor of the template that each factor of auxiliary variables belongs to."""
        counts = factor_counts(template.target, self.layout, self.examples)
        return scopes.shapes.spread(scopes.number, np.cumsum(counts) - counts)

    def _states(self, part: FactorTerm, scopes: Scopes, card: int, columns: I64 | None, tied: bool) -> I64 | slice:
        """Return the positions in ``Theta.node`` of the entries of each factor."""
        variables = scopes.shapes.variables()[:, 0].astype(np.int64)
        plain = columns is None and part.basis is None and not tied and scopes.turned is None and scopes.variant is None
        alike = plain and len(variables) == len(self.layout.card) and bool((self.layout.card == card).all())
        if alike and (variables == np.arange(len(variables))).all():
            return slice(None)
        starts = np.concatenate([[0], np.cumsum(self.layout.card, dtype=np.int64)])
        states = np.arange(card) if columns is None else columns
        found: I64 = starts[variables][:, None] + states
        if scopes.turned is not None:
            turned = scopes.shapes.spread(np.arange(len(scopes.turned)))
            turned = np.flatnonzero(scopes.turned[turned, 0])
            found[turned] = starts[variables[turned]][:, None] + np.array(part.target.label.converse)[states]
        return found

    def _note(
        self, template: Template, part: FactorTerm, scopes: Scopes, cards: tuple[int, ...], group: int, tied: bool
    ) -> None:
        """Add the map from weights to scores that has this form: properties of tables follow from it."""
        shapes = scopes.shapes
        features = None if tied else np.ones((shapes.n_factors, 1))
        width = template.width if part.basis is None else len(part.basis)
        self.maps.append(
            FeatureMap(
                name=part.name, group=group, cards=cards, shapes=shapes, block=self.blocks[-1],
                n_units=1, n_basis=width, features=features, row_ptr=shapes.ptr, basis=part.basis,
                source=f"the scores of '{template.name}'",
            )
        )  # fmt: skip


def _of_one_table(part: FactorPart) -> list[FactorPart]:
    """Return the factors of a rule in parts that have the same table."""
    if part.true is None or part.scopes.variant is None:
        return [part]
    return [
        replace(part, scopes=part.scopes.of_variant(k), true=part.true[k : k + 1]) for k in range(len(part.true))
    ]


def _selected(basis: F64 | None) -> tuple[I64 | None, F64 | None]:
    """Return (column of each row, ``None``) of a basis that only selects columns, else (``None``, the basis)."""
    if basis is None:
        return None, None
    single = (np.count_nonzero(basis, axis=1) == 1).all() and (basis.max(axis=1) == 1.0).all()
    columns = basis.argmax(axis=1)
    if single and len(np.unique(columns)) == len(columns):
        return columns, None
    return None, basis

