"""Which variable is which: labels of each example in order of declaration, positions in C order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I32, I64, Bools
from ssvm_dsl.compiler.inputs import Examples, check_sequence, refuse_mixture
from ssvm_dsl.compiler.labels.class_labels import class_array
from ssvm_dsl.compiler.labels.domains import LabelDomain, content_key
from ssvm_dsl.compiler.labels.label_structure import LabelStructure
from ssvm_dsl.compiler.labels.pointers import pair_values
from ssvm_dsl.compiler.labels.structures import structure_of
from ssvm_dsl.compiler.labels.unknown_labels import UnseenClasses
from ssvm_dsl.compiler.rules import AuxiliaryCounts, auxiliary_counts
from ssvm_dsl.errors import DataError, TooLargeError
from ssvm_dsl.ir.ragged import members, pointers, runs
from ssvm_dsl.ir.shapes import first_of_each, kinds_of_rows
from ssvm_dsl.lang.arrays import MOST, describe
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.outputs.agreements import Agreement, Auxiliary
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.rules.circuits import RuleCircuit
from ssvm_dsl.lang.rules.structures import RuleOfKind

#: Variables of a label whose places are kept.
FEW_VARIABLES = 2**12


class EncodedLabels(NamedTuple):
    """Labels as states, as :meth:`Layout.encode` returns them.

    Parameters
    ----------
    states : ndarray of int32, shape (V,)
    unknown : ndarray of bool, shape (V,), optional
        Which of them are not known.
    barred : ndarray of int64, optional
        States, counted over all variables, that some that are not known do not have.
    unseen : UnseenClasses, optional
        Variables whose class the model does not know, where these were asked for and there are any; their state is 0.
    """

    states: I32
    unknown: Bools | None
    barred: I64 | None = None
    unseen: UnseenClasses | None = None


@dataclass(frozen=True, eq=False)
class Layout:
    """Numbering of the variables of a batch.

    Parameters
    ----------
    declaration : Declaration
    n : int
        Number of examples.
    sizes : dict of str to ndarray of int64, shape (n,)
        Axis sizes.
    domains : dict, optional
        The positions of labels that have variables at some only.

    Attributes
    ----------
    known_scopes : dict
        The scopes of patterns, and rules, that have been laid over these examples.
    """

    declaration: Declaration
    n: int
    sizes: dict[str, I64]
    domains: dict[str, Any] = field(default_factory=dict)
    known_scopes: dict[Any, Any] = field(init=False, default_factory=dict)
    _counts: dict[str, I64] = field(init=False, default_factory=dict)
    _ends: dict[str, list[int]] = field(init=False, default_factory=dict)
    _variables: dict[str, slice | I64] = field(init=False, default_factory=dict)
    _shapes: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[I32, I64]] = field(init=False, default_factory=dict)
    _met_targets: dict[int, tuple[object, tuple[I32, I64]]] = field(init=False, default_factory=dict)

    @classmethod
    def of(cls, declaration: Declaration, examples: Examples) -> Layout:
        """Return the layout of checked examples.

        Raises
        ------
        TooLargeError
            There are more variables than 32 bits can number.
        """
        total, domains = 0.0, dict[str, Any]()
        for label in declaration.labels:
            if label.has_domain:
                domains[label.name] = LabelDomain.find(label, examples)
        for circuit in declaration.circuits:
            domains |= auxiliary_counts(circuit, domains, examples)
        for label in declaration.labels:
            here = domains.get(label.name, label)
            total += float(_count(here, examples.sizes, np.ones(examples.n)).sum())
        if total > MOST:
            text = f"model {declaration.name}: {total:.3g} variables in {examples.n} examples, {MOST} are the most"
            raise TooLargeError(f"{text}; pass fewer examples at a time")
        return cls(declaration, examples.n, examples.sizes, domains)

    def count(self, label: Label) -> I64:
        """Return the number of variables of a label in each example; ``shape (n,)``."""
        counts = self._counts.get(label.name)
        if counts is None:
            here = self.domains.get(label.name, label)
            counts = np.asarray(_count(here, self.sizes, np.ones(self.n, dtype=np.int64)), dtype=np.int64)
            self._counts[label.name] = counts
        return counts

    def ends(self, label: Label) -> list[int]:
        """Return 0, and where the variables of each example end among those of a label."""
        ends = self._ends.get(label.name)
        if ends is None:
            ends = self._ends[label.name] = pointers(self.count(label)).tolist()
        return ends

    @cached_property
    def var_ptr(self) -> I64:
        """Variables of each example; ``shape (n + 1,)``."""
        return pointers(np.sum([self.count(label) for label in self.declaration.labels], axis=0))

    def start(self, label: Label) -> I64:
        """Return the first variable of a label in each example; ``shape (n,)``."""
        return np.asarray(self.var_ptr[:-1] + self.start_inside(label))

    def start_inside(self, label: Label) -> I64:
        """Return the first variable of a label in each example, counted from the first one of that; ``shape (n,)``."""
        return self._starts[label.name]

    @cached_property
    def _starts(self) -> dict[str, I64]:
        """The first variable of each label in each example, counted from the first one of that."""
        start, found = np.zeros(self.n, dtype=np.int64), dict[str, I64]()
        for label in self.declaration.labels:
            found[label.name], start = start, start + self.count(label)
        return found

    def variables(self, label: Label) -> slice | I64:
        """Return all variables of a label, example by example (a slice when it is the only label)."""
        variables = self._variables.get(label.name)
        if variables is None:
            if len(self.declaration.labels) == 1:
                variables = slice(0, int(self.var_ptr[-1]))
            else:
                variables = runs(self.start(label), self.count(label))
            if isinstance(variables, slice) or len(variables) <= FEW_VARIABLES:
                self._variables[label.name] = variables
        return variables

    def rows(self, label: Label) -> I64 | None:
        """Return where each variable of a label is in the full arrays of all examples, ``None`` where these are all.

        Of a symmetric label it is the position (i, j) with i < j.
        """
        domain = self.domains.get(label.name)
        if not isinstance(domain, LabelDomain):
            return None
        base = pointers(domain.area[domain.of])[:-1]
        return np.asarray(domain.cell[members(domain.start, domain.of)] + np.repeat(base, domain.counts))

    def place(self, label: Label, example: int, number: int) -> tuple[int, ...]:
        """Return the position of the variable of a label with a number, counted in its example."""
        domain = self.domains.get(label.name)
        flat = int(domain.cells(example)[number]) if isinstance(domain, LabelDomain) else number
        return tuple(int(one) for one in np.unravel_index(flat, self.shape(label, example)))

    def shapes_of(self, target: Target | RuleCircuit | RuleOfKind, examples: Examples) -> tuple[I32, I64]:
        """Return (shape of each example, first example of each shape): what the scopes of an example follow from."""
        met = self._met_targets.get(id(target))
        if met is not None:
            return met[1]
        labels = [part for label in target.laid_labels for part in (label, *self.declaration.parts_of(label))]
        inputs, axes = tuple([one.name for one in target.inputs]), target.all_axes
        key = tuple([label.name for label in labels]), (*inputs, *[dim.name for dim in axes])
        shapes = self._shapes.get(key)
        if shapes is None:
            contents = [first_of_each(map(content_key, examples.raw[name])) for name in inputs]
            shapes = next((one for one in contents if len(one[1]) == self.n), None)  # no two are alike
            if shapes is None:
                names = {dim.name for label in labels for dim in label.dims} | {dim.name for dim in axes}
                columns = [self.start_inside(label) for label in labels]
                columns += [self.sizes[name] for name in sorted(names)]
                shapes = kinds_of_rows([*columns, *(of for of, _ in contents)], self.n)
            self._shapes[key] = shapes
        self._met_targets[id(target)] = target, shapes
        return shapes

    @cached_property
    def card(self) -> I32:
        """Number of states of each variable; ``shape (V,)``."""
        labels = self.declaration.labels
        if len(labels) == 1:
            return np.full(int(self.var_ptr[-1]), labels[0].n_states, dtype=np.int32)
        out = np.empty(int(self.var_ptr[-1]), dtype=np.int32)
        for label in labels:
            out[self.variables(label)] = label.n_states
        return out

    def shape(self, label: Label, i: int) -> tuple[int, ...]:
        """Return the shape of a label's array in example i."""
        if isinstance(label, Auxiliary):
            return (int(self.count(label)[i]),)
        return tuple(int(self.sizes[dim.name][i]) for dim in label.dims)

    def shapes(self, label: Label) -> Iterable[tuple[int, ...]]:
        """Return the shape of a label's array in each example."""
        sizes = [self.sizes[dim.name].tolist() for dim in label.dims]
        return zip(*sizes, strict=True) if sizes else repeat((), self.n)

    def pairs(self, label: Label) -> tuple[I64, I64]:
        """Return (pointers, positions to point to) of a pointer label in each example."""
        return np.prod([self.sizes[dim.name] for dim in label.dims[:-1]], axis=0), self.sizes[label.dims[-1].name]

    # -- users' labels to states and back --------------------------------------------------------------

    @cached_property
    def latent(self) -> Bools:
        """Which variables are latent, auxiliary ones of latent variables among them; ``shape (V,)``."""
        hidden = [one for one in self.agreements if one.is_latent]
        return self._which([*self.declaration.latents, *hidden])

    @cached_property
    def auxiliary(self) -> Bools:
        """Which variables are auxiliary ones of factors; ``shape (V,)``."""
        return self._which(self.agreements)

    @cached_property
    def agreements(self) -> list[Auxiliary]:
        """The auxiliary variables of factors and rules."""
        return [one for one in self.declaration.labels if isinstance(one, Auxiliary)]

    @cached_property
    def _coded(self) -> dict[bool, list[tuple[Label, LabelStructure]]]:
        """The labels that users see, without and with ``latent``, and what reads and writes them."""
        declaration = self.declaration
        shown = {False: declaration.outputs, True: declaration.latents}
        return {latent: [(label, structure_of(label)) for label in labels] for latent, labels in shown.items()}

    def _which(self, labels: Sequence[Label]) -> Bools:
        out = np.zeros(int(self.var_ptr[-1]), dtype=bool)
        for label in labels:
            out[self.variables(label)] = True
        return out

    def encode(
        self, Y: object, what: str = "Y", partial: bool = False, labels: Sequence[Label] | None = None,
        unseen: bool = False,
    ) -> EncodedLabels:  # fmt: skip
        """Return (state of each variable, mask of those that are not known or ``None``) for the users' labels.

        Not known are entries that are ``None`` or masked, what the label says is (``unknown=``), and what the loss
        ignores.

        Parameters
        ----------
        Y : list of labels, or EncodedLabels
            The latter are returned as they are.
        what : str
            Their name in messages.
        partial : bool
            Whether labels may be left out of the dict of an example.
        labels : sequence of Label, optional
            Those that are given: all but the latent ones by default.  Variables of others are in state 0.
        unseen : bool
            Whether labels may have classes that the model does not know.

        Raises
        ------
        DataError
            Naming label, example, expected and found.
        """
        if isinstance(Y, EncodedLabels):
            return Y
        given = check_sequence(Y, what)
        if len(given) != self.n:
            raise DataError(what, expected=f"{self.n} examples, as in X", found=f"{len(given)}")
        states = np.zeros(int(self.var_ptr[-1]), dtype=np.int32)
        ignored = np.zeros(len(states), dtype=bool)
        known = self.declaration.outputs if labels is None else labels
        odd = UnseenClasses(np.zeros(len(states), dtype=bool)) if unseen else None
        barred: list[I64] = []
        for label, values in self._split(given, what, partial, known):
            barred += structure_of(label).encode(self, label, values, (states, ignored), partial, odd)
        odd = odd if odd is not None and odd.counts else None
        hidden = ignored if ignored.any() else None
        return EncodedLabels(states, hidden, np.concatenate(barred) if barred else None, odd)

    def _split(
        self, given: Sequence[Any], what: str, partial: bool, labels: Sequence[Label]
    ) -> list[tuple[Label, Sequence[Any]]]:
        if partial:
            whole: dict[str, Any] = {label.name: None for label in labels}
            given = [whole if one is None and len(labels) > 1 else one for one in given]
            given = [whole | dict(one) if isinstance(one, Mapping) else one for one in given]
        plain_array = isinstance(given, np.ndarray) and given.dtype != object
        if len(labels) == 1 and (plain_array or not any(isinstance(one, Mapping) for one in given)):
            return [(labels[0], given)]
        names = [label.name for label in labels]
        refuse_mixture(given, names, what)
        for i, one in enumerate(given):
            if not isinstance(one, Mapping) or set(one) != set(names):
                found = f"a dict with {', '.join(map(str, one))}" if isinstance(one, Mapping) else describe(one)
                raise DataError(what, example=i, expected=f"a dict with the labels {', '.join(names)}", found=found)
        return [(label, [one[label.name] for one in given]) for label in labels]

    def decode(self, states: I32, latent: bool = False) -> list[Any]:
        """Return the users' form of a labelling: arrays of class names, one entry for each example.

        A model with several labels gives a dict for each example; a label without axes gives single values.  With
        ``latent``, the states of the latent variables alone.
        """
        labels = self._coded[latent]
        parts = [structure.decode(self, label, states) for label, structure in labels]
        if len(parts) == 1:
            return parts[0]
        names = [label.name for label, _ in labels]
        return [dict(zip(names, values, strict=True)) for values in zip(*parts, strict=True)]

    def decode_lists(self, states: I32) -> list[list[Any]]:
        """Return the class names at the positions of the only label, a list for each example."""
        (label,) = self.declaration.outputs
        flat = states[self.variables(label)]
        names = flat if label.classes is None else class_array(label.classes, of_objects=True)[flat]
        listed: list[Any] = names.tolist()
        return [listed[lo:hi] for lo, hi in pairwise(self.ends(label))]

    def decode_states(self, values: NDArray[np.float64]) -> list[Any]:
        """Return numbers given for every state of every variable as arrays ``(*axes, n_states)`` for each example.

        A model with several labels gives a dict for each example.
        """
        start = pointers(self.card)
        parts = []
        for label in self.declaration.outputs:
            if label.pointer:
                true = values[start[1:] - 1]  # of the second state, "points there"
                none = None if label.none is None else true[self.variables(label.none)]
                values_ = pair_values(true[self.variables(label)], none, *self.pairs(label))
                shapes = [(*self.shape(label, i)[:-1], one.shape[1]) for i, one in enumerate(values_)]
                parts.append([one.reshape(shape) for one, shape in zip(values_, shapes, strict=True)])
                continue
            first, k = start[:-1][self.variables(label)], label.n_states
            rows = values[first[:, None] + np.arange(k)]
            ptr = self.ends(label)
            if label.name in self.domains:
                domain, ends = self.domains[label.name], enumerate(pairwise(ptr))
                parts.append([domain.as_rows(label, rows[lo:hi], i) for i, (lo, hi) in ends])
                continue
            parts.append([rows[lo:hi].reshape(*self.shape(label, i), k) for i, (lo, hi) in enumerate(pairwise(ptr))])
        if len(parts) == 1:
            return parts[0]
        names = [label.name for label in self.declaration.outputs]
        return [dict(zip(names, one, strict=True)) for one in zip(*parts, strict=True)]


def _count(label: Label | LabelDomain | AuxiliaryCounts, sizes: Mapping[str, Any], ones: NDArray[Any]) -> NDArray[Any]:
    """Return the number of variables of a label in each example, for axis sizes."""
    if isinstance(label, LabelDomain | AuxiliaryCounts):
        return np.asarray(ones * label.counts)
    if isinstance(label, Agreement):
        return np.asarray(ones * label.of.count(sizes))
    for dim in label.dims:
        ones = ones * sizes[dim.name]
    return ones
