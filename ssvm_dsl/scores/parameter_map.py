"""``ParameterMap``: how a weight vector w becomes scores, ``theta = Phi w``, and its adjoint ``Phi' mu``.

Phi is never formed.  For a factor f with features x_f, unit u_f and label basis B, the score of the joint
state s is ``sum_q sum_p w[u_f, q, p] x_f[p] B[q, s]``: a matrix product of features and weights, then the
basis.  Weights tied over factors without features make one table row, stored once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.ir.features import FEW_FACTORS, NODE, Block, FeatureMap, SlicedRows, pool_features, table_rows
from ssvm_dsl.ir.program import Group, Program
from ssvm_dsl.ir.ragged import members, positions
from ssvm_dsl.ir.shapes import has_repeated
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.scores.constants import Constants
from ssvm_dsl.scores.rows import (
    LARGEST,
    PART_SCORES,
    add_adjoint,
    add_by_unit,
    add_scores,
    gathered,
    in_kernel,
    is_bare,
    joint_rows,
    moderate,
    numbers,
    plain_rows,
    scatter_rows,
    split_rows,
    to_basis,
)

if TYPE_CHECKING:
    from ssvm_dsl.kernels.flat import FlatMaps


class DerivedTables:
    """What of a :class:`ParameterMap` follows from its structure and its blocks, whatever the features are.

    Maps of one structure share it, so that each part is worked out once (:meth:`ParameterMap.refilled`).

    Parameters
    ----------
    parameters : ParameterMap
        One of them.
    """

    def __init__(self, parameters: ParameterMap) -> None:
        program, maps, blocks = parameters.program, parameters.maps, parameters.blocks
        self._program = program
        self._unary = tuple(fmap.with_features(None) for fmap in maps if fmap.group == NODE)
        self.dim = max((block.stop for block in blocks), default=0)
        self.lower_bound: F64 = np.broadcast_to(-np.inf, self.dim)
        if any(block.lower_bound > -np.inf for block in blocks):
            self.lower_bound = np.full(self.dim, -np.inf)
            for block in blocks:
                self.lower_bound[block.offset : block.stop] = block.lower_bound
        filled = {fmap.group for fmap in maps} | set(parameters.constants.tables if parameters.constants else ())
        #: The groups that have neither weights nor constants: whoever asks questions fills their tables.
        self.bare = tuple(g for g in range(len(program.groups)) if g not in filled)

    @cached_property
    def places(self) -> dict[str, I64]:
        """Where the scores of all factors of a unary map with few of them are among those of states."""
        return {fmap.name: states_of(self._program, fmap) for fmap in self._unary if fmap.n_factors <= FEW_FACTORS}

    @cached_property
    def repeated(self) -> dict[str, bool]:
        """Whether several factors of a unary map are of one variable."""
        return {fmap.name: has_repeated(fmap.shapes) for fmap in self._unary}

    @cached_property
    def covers(self) -> dict[str, bool]:
        """Whether the factors of a unary map are exactly the variables, in order."""
        counts = np.diff(self._program.var_ptr)
        return {
            fmap.name: bool((fmap.shapes.counts == counts).all())
            and bool((fmap.shapes.scope[:, 0] == fmap.shapes.own_number).all())
            for fmap in self._unary
        }

    @cached_property
    def by_row(self) -> frozenset[str]:
        """Unary maps with a factor for each variable, in order, which has a row of its own if there are features.

        None where variables differ in their numbers of states.
        """
        if not self._program.uniform_card:
            return frozenset()
        own = [one for one in self._unary if one.rows is None and one.units is None and not one.joint]
        n = self._program.n_variables
        return frozenset(one.name for one in own if one.n_factors == n and self.covers[one.name])


@dataclass(frozen=True, eq=False)
class ParameterMap:
    """The linear map from weights to the scores of a program.

    Parameters
    ----------
    program : Program
        The structure whose scores are filled.
    maps : tuple of FeatureMap
        One for each factor template.
    blocks : tuple of Block
        The layout of w.
    constants : Constants, optional
        Scores that no weight multiplies.
    declared : str
        The structures that users declared, where the program looks different; empty elsewhere.
    joined : str
        The declared targets that join variables.
    """

    program: Program
    maps: tuple[FeatureMap, ...]
    blocks: tuple[Block, ...]
    constants: Constants | None = None
    declared: str = ""
    joined: str = ""

    @classmethod
    def build(
        cls,
        program: Program,
        maps: Sequence[FeatureMap],
        blocks: Sequence[Block],
        constants: Constants | None = None,
    ) -> ParameterMap:
        """Return the map, its dense features moved into one array so that compiled kernels reach them all."""
        return cls(program, tuple(pool_features(maps)), tuple(blocks), constants)

    @cached_property
    def _derived(self) -> DerivedTables:
        """What does not depend on features."""
        return DerivedTables(self)

    @property
    def dim(self) -> int:
        """Number of weights."""
        return self._derived.dim

    @property
    def lower_bound(self) -> F64:
        """Lower bound of each weight; ``shape (dim,)``."""
        return self._derived.lower_bound

    def refilled(self, maps: Sequence[FeatureMap], constants: Constants | None) -> ParameterMap:
        """Return the map with other features (in one array, as :meth:`build` moves them), and other constants.

        All that follows from the structure and the blocks is shared.
        """
        made = ParameterMap(self.program, tuple(maps), self.blocks, constants, self.declared, self.joined)
        made.__dict__["_derived"] = self._derived
        return made

    def with_groups(self, groups: Sequence[Group]) -> ParameterMap:
        """Return the map to the scores of a program with further factors, whose scores do not depend on weights."""
        if not groups:
            return self
        return replace(self, program=replace(self.program, groups=(*self.program.groups, *groups)))

    @property
    def has_varying_constants(self) -> bool:
        """Whether labellings that no rule forbids differ in what they score without weights."""
        return self.constants is not None and (self.constants.node is not None or self.constants.of_tables)

    @property
    def flat(self) -> FlatMaps:
        """All maps as flat arrays, for the compiled kernels.

        Raises
        ------
        OptionError
            There are features that are not kept.
        """
        for fmap in self.maps:
            if isinstance(fmap.features, SlicedRows):
                text = f"features of factor '{fmap.name}' are not kept (stored=False)"
                why = "this trainer steps in compiled code, which cannot call the function that makes them"
                raise OptionError(f"{text}: {why}; set trainer='one-slack' or 'subgradient', for smooth risks 'lbfgs'")
        return self._kept_flat

    @cached_property
    def sliced(self) -> tuple[FeatureMap, ...]:
        """The maps of features that are made in slices and not kept."""
        return tuple(fmap for fmap in self.maps if isinstance(fmap.features, SlicedRows))

    @cached_property
    def _kept_flat(self) -> FlatMaps:
        """All maps as flat arrays; those of features that are not kept without factors."""
        from ssvm_dsl.scores.flatten import flatten

        return flatten(self.maps, self.program.groups, self.constants)

    # -- theta = Phi w + constants ----------------------------------------------------------------------

    def scores(self, w: F64, examples: I64 | None = None, out: Theta | None = None) -> Theta:
        """Return ``Phi w`` and constants for the selected examples; other parts of ``out`` keep what they held.

        Parameters
        ----------
        w : ndarray of float64, shape (dim,)
        examples : ndarray of int64, optional
            All examples by default.
        out : Theta, optional
            Scores to overwrite.
        """
        theta = Theta.zeros(self.program) if out is None else out
        self.fill_shared(w, theta)
        self.fill_examples(w, theta, examples)
        return theta

    def fill_shared(self, w: F64, theta: Theta) -> None:
        """Write the tables that all examples share (factors without features)."""
        for fmap in self.maps:
            if fmap.features is None and fmap.group != NODE:
                theta.tables[fmap.group][...] = fmap.shared_tables(w)
        if self.constants is not None:
            self.constants.fill_shared(theta)

    def fill_examples(self, w: F64, theta: Theta, examples: I64 | None = None) -> None:
        """Write the scores that belong to the selected examples only (disjoint parts: safe in threads).

        Raises
        ------
        DataError
            A score is too large for a number, or not a number: names the input and the example.
        """
        part = slice(0, self.program.n_variables) if examples is None else positions(self.program.var_ptr, examples)
        first = True
        for fmap in self.maps:
            if fmap.group == NODE:
                self._fill_node(fmap, w, theta, examples, part, first)
                first = False
            elif fmap.features is not None:
                self._fill_tables(fmap, w, theta.tables[fmap.group], examples)
        if first:
            theta.node[self._states(part)] = 0.0
        for g in self._derived.bare:
            theta.tables[g][self.program.groups[g].table_rows(examples)] = 0.0
        if self.constants is not None:
            self.constants.fill_examples(self.program, theta, self._states(part), examples)
        known = moderate(theta.node if examples is None else theta.node[self._states(part)])
        for fmap in self.maps:
            if fmap.group != NODE and fmap.features is not None:
                own = fmap.joint or fmap.units is not None
                rows = positions(fmap.ptr if own else fmap.row_ptr, examples)
                known = known and moderate(theta.tables[fmap.group][rows])
        if not known:
            raise self._overflow(w, examples)

    def _overflow(self, w: F64, examples: I64 | None) -> DataError:
        """Return the error that names the first example whose scores, or their sum, are no numbers."""
        for fmap in self.maps:
            finite = (np.abs(self._factor_rows(fmap, w, examples)) <= LARGEST).all(axis=1)
            if fmap.features is not None and not finite.all():
                factor = int(numbers(positions(fmap.ptr, examples))[np.argmin(finite)])
                example = int(np.searchsorted(fmap.ptr, factor, side="right")) - 1
                break
        else:
            if not self.maps:
                return DataError("given scores", expected="scores whose sums are numbers", found="larger ones")
            fmap, example = self.maps[0], 0 if examples is None else int(examples[0])
        expected = "features whose scores are numbers"
        largest = np.abs(fmap.weights(w)).max(initial=0.0)
        found = f"scores beyond the largest number, with weights of up to {largest:.3g}"
        return DataError(fmap.source, example=example, expected=expected, found=found)

    def _states(self, part: slice | I64) -> slice | I64:
        """Return the state positions of packed variables."""
        if isinstance(part, slice):
            state_ptr = self.program.state_ptr
            return slice(int(state_ptr[part.start]), int(state_ptr[part.stop]))
        return members(self.program.state_ptr, part)

    def _fill_node(
        self, fmap: FeatureMap, w: F64, theta: Theta, examples: I64 | None, part: slice | I64, first: bool
    ) -> None:
        """Add unary scores; the first map of a program overwrites."""
        if fmap.features is not None and fmap.name in self._derived.by_row:
            card = self.program.uniform_card
            rows = theta.node.reshape(-1, card)
            if isinstance(part, slice) and first and fmap.basis is None and isinstance(fmap.features, np.ndarray):
                np.matmul(fmap.features[part], fmap.weights(w)[0].T, out=rows[part])
            else:
                few = isinstance(part, slice) and len(theta.node) <= PART_SCORES
                for some in (part,) if few else split_rows(part, card):
                    values = plain_rows(fmap, w, some)
                    rows[some] = values if first else rows[some] + values
            return
        if first:
            theta.node[self._states(part)] = 0.0
        if is_bare(fmap):
            add_scores(fmap, w, examples, self.program.state_ptr[fmap.variables(examples)[:, 0]], theta.node)
            return
        places = self._derived.places.get(fmap.name) if examples is None else None
        if places is None:
            places = states_of(self.program, fmap, examples)
        rows = self._factor_rows(fmap, w, examples)
        if self._derived.repeated[fmap.name]:
            np.add.at(theta.node, places, rows)
        else:
            theta.node[places] += rows

    def _factor_rows(self, fmap: FeatureMap, w: F64, examples: I64 | None) -> F64:
        """Return the table of each factor of the selected examples; ``shape (n, prod(cards))``."""
        if fmap.joint:
            return joint_rows(fmap, w, examples)
        if fmap.features is None:
            tables = fmap.shared_tables(w)
            if fmap.units is None:
                return np.broadcast_to(tables[0], (fmap.shapes.count(examples), fmap.n_configs))
            return tables[fmap.units_of(examples)]
        if fmap.units is not None:
            return self._unit_rows(fmap, w, examples)
        rows = positions(fmap.row_ptr, examples)
        tables = plain_rows(fmap, w, rows)
        if fmap.rows is None:
            return tables
        if isinstance(rows, slice):
            return tables[fmap.rows_of(examples) - rows.start]
        place = np.empty(int(fmap.row_ptr[-1]), dtype=np.int64)
        place[rows] = np.arange(len(rows))
        return tables[place[fmap.rows_of(examples)]]

    def _unit_rows(self, fmap: FeatureMap, w: F64, examples: I64 | None) -> F64:
        """Return the table of each factor of the selected examples when units have their own weights."""
        unit = fmap.units_of(examples)
        if gathered(fmap, len(unit)):
            assert isinstance(fmap.features, np.ndarray)
            rows = fmap.features[fmap.rows_of(examples)]
            scored: F64 = (fmap.weights(w)[unit] @ rows[:, :, None])[:, :, 0]
            return scored if fmap.basis is None else scored @ fmap.basis
        values = np.zeros((len(unit), fmap.n_configs))
        if in_kernel(fmap, len(unit)):
            from ssvm_dsl.kernels.scoring import rows_of_factors

            ids = np.arange(self.program.n_examples, dtype=np.int64) if examples is None else examples
            rows_of_factors(self._kept_flat, self.maps.index(fmap), ids, w, np.empty(fmap.n_basis), values.ravel())
            return values
        row = fmap.rows_of(examples)
        for u in np.unique(unit).tolist():
            mine = unit == u
            values[mine] = plain_rows(fmap, w, row[mine], u)
        return values

    def _fill_tables(self, fmap: FeatureMap, w: F64, tables: F64, examples: I64 | None) -> None:
        """Write the table rows that belong to the selected examples."""
        if fmap.joint or fmap.units is not None:
            made = joint_rows(fmap, w, examples) if fmap.joint else self._unit_rows(fmap, w, examples)
            tables[positions(fmap.ptr, examples)] = made
        else:
            rows = positions(fmap.row_ptr, examples)
            tables[rows] = plain_rows(fmap, w, rows)

    # -- Phi' mu ---------------------------------------------------------------------------------------

    def adjoint(self, mu: Theta, out: F64 | None = None, examples: I64 | None = None) -> F64:
        """Return ``Phi' mu`` for weights ``mu`` on the entries of Theta: ``<Phi w, mu> = <w, Phi' mu>``.

        Parameters
        ----------
        mu : Theta
            A number for each score, e.g. marginals summed over the factors that share a table row.
        out : ndarray of float64, shape (dim,), optional
            Where to add the result.
        examples : ndarray of int64, optional
            Only what belongs to these examples, and the tables that all examples share, is looked at.
        """
        grad = np.zeros(self.dim) if out is None else out
        for fmap in self.maps:
            if fmap.group == NODE:
                if self.program.uniform_card and self._derived.covers[fmap.name]:
                    values = mu.node.reshape(-1, self.program.uniform_card)[positions(fmap.ptr, examples)]
                else:
                    start = self.program.state_ptr[fmap.shapes.variables(examples)[:, 0]]
                    if is_bare(fmap):
                        add_adjoint(fmap, mu.node, examples, start, grad)
                        continue
                    values = mu.node[start[:, None] + np.arange(fmap.cards[0])]
                self._scatter(fmap, values, examples, grad)
            elif fmap.features is None:
                fmap.weights(grad)[:, :, 0] += to_basis(fmap, mu.tables[fmap.group])
            elif fmap.joint or fmap.units is not None:
                self._scatter(fmap, mu.tables[fmap.group][positions(fmap.ptr, examples)], examples, grad)
            else:
                rows = positions(fmap.row_ptr, examples)
                scatter_rows(fmap, to_basis(fmap, mu.tables[fmap.group][rows]), rows, fmap.weights(grad)[0])
        return grad

    def _scatter(self, fmap: FeatureMap, values: F64, examples: I64 | None, grad: F64) -> None:
        """Add the adjoint of one map; ``values`` holds the joint states of each factor of the selected examples."""
        target = fmap.weights(grad)
        unit = None if fmap.units is None else fmap.units_of(examples)
        if fmap.joint:
            assert isinstance(fmap.features, np.ndarray)
            stacked = fmap.features.reshape(fmap.n_factors, fmap.n_configs, fmap.width)[positions(fmap.ptr, examples)]
            add_by_unit(target[:, 0, :], unit, np.einsum("fcp,fc->fp", stacked, values))
            return
        if fmap.features is None:
            add_by_unit(target[:, :, 0], unit, to_basis(fmap, values))
            return
        if unit is not None and in_kernel(fmap, len(unit)):
            from ssvm_dsl.kernels.scoring import add_rows_of_factors

            ids = np.arange(self.program.n_examples, dtype=np.int64) if examples is None else examples
            add_rows_of_factors(self._kept_flat, self.maps.index(fmap), ids, np.ravel(values), grad)
            return
        projected = to_basis(fmap, values)
        rows = positions(fmap.ptr, examples) if fmap.rows is None else fmap.rows_of(examples)
        if unit is None:
            scatter_rows(fmap, projected, rows, target[0])
            return
        row, there = numbers(rows), projected.any(axis=1)
        for u in np.unique(unit[there]):
            mine = there & (unit == u)
            scatter_rows(fmap, projected[mine], row[mine], target[u])

    def accumulate(self, labels: I32, coef: F64, out: F64, examples: I64 | None = None) -> F64:
        """Add ``sum_i coef_i Phi(x_i, y_i)`` over the selected examples to ``out`` and return it.

        Parameters
        ----------
        labels : ndarray of int32
            Packed over the selected examples.
        coef : ndarray of float64, shape (n,)
        out : ndarray of float64, shape (dim,)
        """
        from ssvm_dsl.ir.solution import label_ptr, select
        from ssvm_dsl.kernels.scoring import add_joint_features

        ids, ptr = select(self.program, examples), label_ptr(self.program, examples)
        add_joint_features(self._kept_flat, ids, ptr, labels, coef, out)
        for fmap in self.sliced:
            owner, row, tables = self._chosen(fmap, labels, ids)
            scatter_rows(fmap, to_basis(fmap, tables * coef[owner, None]), row, fmap.weights(out)[0])
        return out

    def _chosen(self, fmap: FeatureMap, labels: I32, ids: I64) -> tuple[I64, I64, F64]:
        """Return (example, feature row, indicator of the joint state) of the factors that labellings choose."""
        from ssvm_dsl.ir.solution import chosen_states

        group = Group(fmap.name, fmap.cards, fmap.shapes, *table_rows(fmap))
        if fmap.group != NODE:
            group = self.program.groups[fmap.group]
        owner, _, state = chosen_states(group, self.program, labels, ids)
        there = np.flatnonzero(state >= 0)
        return owner[there], fmap.rows_of(ids)[there], np.eye(fmap.n_configs)[state[there]]

    def dot(self, w: F64, labels: I32, examples: I64 | None = None) -> F64:
        """Return ``w . Phi(x_i, y_i)`` of each selected example, without forming scores; ``shape (n,)``."""
        from ssvm_dsl.ir.solution import label_ptr, select
        from ssvm_dsl.kernels.scoring import dot_joint_features

        ids, ptr = select(self.program, examples), label_ptr(self.program, examples)
        values = np.empty(len(ids))
        dot_joint_features(self._kept_flat, ids, ptr, labels, w, values)
        for fmap in self.sliced:
            owner, row, tables = self._chosen(fmap, labels, ids)
            values += np.bincount(owner, (plain_rows(fmap, w, row) * tables).sum(axis=1), len(ids))
        if not np.isfinite(values).all():
            raise self._overflow(w, ids[~np.isfinite(values)])
        return values


def states_of(program: Program, fmap: FeatureMap, examples: I64 | None = None) -> I64:
    """Return where the scores of each factor of a unary map are among those of states; ``shape (n, card)``."""
    return np.asarray(program.state_ptr[fmap.variables(examples)[:, 0]][:, None] + np.arange(fmap.cards[0]))
