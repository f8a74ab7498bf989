"""Factor templates: a target, its features, the form of its table, and how its weights are tied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ssvm_dsl.lang.arrays import NotNumbers, as_floats, number_text, real_array
from ssvm_dsl.lang.dims import Condition, Dim, Index, Read, indices_of, with_paired
from ssvm_dsl.lang.features.sources import Concat, Feature, JointFeature, has_sliced, positions_of
from ssvm_dsl.lang.forms import FULL, Form, as_form, indicator_form
from ssvm_dsl.lang.inputs import At, Source
from ssvm_dsl.lang.outputs.about_target import ScoredTarget, in_tables, table_mistakes
from ssvm_dsl.lang.outputs.agreements import LEAST_ARITY, Agreement, FactorTerm, agreements_of, factor_terms
from ssvm_dsl.lang.outputs.labels import Label, Latent, Target
from ssvm_dsl.lang.outputs.targets import as_target
from ssvm_dsl.lang.patterns.join import symbols_of
from ssvm_dsl.lang.patterns.pattern import Pattern
from ssvm_dsl.lang.patterns.references import LabelAt
from ssvm_dsl.lang.rules.circuits import most_of
from ssvm_dsl.lang.rules.rule_patterns import RuleTarget, RuleTruth, VariedRule
from ssvm_dsl.lang.symbols import Mistake, ModelView, Symbol, as_flag, compared, got

EDGE = "edge"

#: Which weights a factor has: of every feature and every joint state, or of those seen together in training.
ALL, OBSERVED = "all", "observed"


@dataclass(frozen=True, init=False, repr=False)
class Factor(ScoredTarget):
    """A scored factor template.

    The score of a factor f in the joint states s is ``sum_q sum_p w[u, q, p] x[f, p] basis[q, s]``, with x its
    features (1 without), ``basis`` its form and u the unit ``per`` puts it in.  All factors of the template
    share w unless ``per`` unties them.

    Parameters
    ----------
    target : Label or Target
        ``y``, ``y.is_(k)``, ``chain(y)``, ``pairs(y, W)``, ``grid(y)``, ``complete(y)``, ``along(y, edges)``,
        ``cliques(y, sets)`` or ``cross(a, b)``; ``siblings(y)`` or ``grandparents(y)`` of pointers; ``spans(y)``,
        ``chain(y)`` or ``starts(y)`` of a label of segments.
    features : Input, feature, or list of them, optional
        Rows of features; a list is put side by side.
    form : Form or array, optional
        ``FULL``, ``POTTS``, ``SYMMETRIC``, ``ANTISYMMETRIC`` or a basis of shape ``(p, *states)``.
    per : Dim, sequence of Dim, or "edge", optional
        Unties the weights: a copy for each position of a fixed axis, or (``"edge"``) for each single factor.
    tie : Factor, optional
        Share the weights of another factor of the same weight shape.
    nonneg : bool
        Keep the weights non-negative (``POTTS`` with ``nonneg`` is associative).  Associative factors of four and more
        variables need no table, whatever their number (:mod:`ssvm_dsl.lang.outputs.agreements`).
    weights : {"all", "observed"}
        ``"observed"``: a weight only for those pairs of a feature and a state (for targets of several variables, their
        joint state) that occur together in the training data, as in CRFsuite; other pairs score zero.  For sparse
        features, form ``FULL`` and weights that all factors share.

    Examples
    --------
    >>> emit = Factor(y, features=x)
    >>> trans = Factor(chain(y))
    >>> horiz = Factor(pairs(y, W), form=POTTS, nonneg=True)
    >>> emit = Factor(y, features=words, weights="observed")
    """

    form: Form
    per: tuple[Dim | Index | Read, ...] | str
    tie: Factor | None
    nonneg: bool
    weights: str

    def __init__(
        self,
        target: Label | Target | LabelAt | Sequence[Any],
        features: Source | Sequence[Source] | None = None,
        form: Form | Any = FULL,
        per: Dim | Index | Read | Sequence[Any] | str | None = None,
        tie: Factor | None = None,
        nonneg: bool = False,
        weights: str = ALL,
        where: Condition | At | None = None,
    ) -> None:
        mistakes: list[Mistake] = []
        goal = as_target(target, where)
        source = _as_source(features, mistakes)
        shape = as_form(form, mistakes)
        if goal.kind == "indicator" and not goal.mistakes:
            if shape != FULL:
                mistakes.append("form: an indicator y.is_(k) has no other form")
            assert goal.state is not None
            shape = indicator_form(goal.label.index(goal.state) or 0)
        if isinstance(goal, VariedRule) and source is not None and source.sparse:
            goal = RuleTruth(goal.rule)  # rows of tables times features are dense
        if isinstance(goal, RuleTarget):
            mistakes += _rule_mistakes(goal, source, shape, weights)
            shape = FULL if goal.mistakes or mistakes else goal.form
        elif goal.label.pointer and not goal.mistakes:
            mistakes += _pointer_mistakes(source, shape, weights)
            shape = indicator_form(1)
        if goal.of_segments and not goal.mistakes:
            mistakes += _segment_mistakes(source, per, weights)
        if tie is not None and not isinstance(tie, Factor):
            mistakes.append(got("tie: the other Factor whose weights to share", tie))
            tie = None
        units = _as_units(per, goal, mistakes)
        mistakes += [*goal.mistakes, *shape.problems(goal.cards)]
        if isinstance(goal, Pattern) and not isinstance(units, str):
            goal = goal.reading(() if source is None else positions_of(source), units)
        nonneg = as_flag(nonneg, "nonneg", mistakes)
        if not _by_agreement(goal, shape, nonneg):
            mistakes += table_mistakes(goal)
        if tie is not None and nonneg != tie.nonneg:
            mistakes.append("nonneg: set it on the factor whose weights are shared, and here the same")
        if not (isinstance(weights, str) and weights in (ALL, OBSERVED)):
            mistakes.append(got("weights: 'all' or 'observed'", weights))
            weights = ALL
        if weights == OBSERVED:
            mistakes += _observed_mistakes(source, shape, units)
            if any(label.turns for label in goal.labels) and isinstance(goal, Pattern):
                mistakes.append("weights='observed': not of variables in both orders whose classes have converse ones")
        if tie is not None and OBSERVED in (weights, tie.weights):
            mistakes.append("tie: a factor with weights='observed' shares them with no other")
        self._fill(
            mistakes, target=goal, features=source, form=shape, per=units, tie=tie, nonneg=nonneg, weights=weights
        )

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)
        if isinstance(self.target, RuleTruth):
            self.target.circuit.rename(self.name)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        target, where = self.written()
        options: dict[str, Any] = {}
        if self.features is not None:
            options["features"] = self.features
        if self.form != FULL and self.form.name not in ("indicator", "truth"):
            options["form"] = self.form
        if self.per:
            per = self.per if isinstance(self.per, str) else tuple(getattr(one, "origin", one) for one in self.per)
            options["per"] = per if isinstance(per, str) or len(per) > 1 else per[0]
        if self.tie is not None:
            options["tie"] = self.tie
        if self.nonneg:
            options["nonneg"] = True
        if self.observed:
            options["weights"] = self.weights
        return (target,), options | where

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield the symbols of the target and the features, and the factor whose weights are shared."""
        yield from super().references()
        for one in () if isinstance(self.per, str) else self.per:
            yield from symbols_of(one)
        if self.tie is not None:
            yield "the factor", self.tie

    def clashes(self, model: ModelView) -> Iterator[str]:
        """Yield mistakes of ``weights="observed"`` for variables that are never observed."""
        hidden = [label.name for label in self.target.labels if isinstance(label, Latent)]
        if hidden and self.observed:
            yield f"weights='observed': {hidden[0]} is latent, so that nothing is seen together with it"

    def misfits(self, model: ModelView) -> Iterator[str]:
        """Yield why the form or the features do not fit."""
        if self.joint and self.form != FULL:
            yield "form: a JointFeature already depends on the states; leave form out"
        yield from super().misfits(model)

    def gaps(self, model: ModelView) -> Iterator[str]:
        """Yield why its auxiliary variables have no size, or its weights cannot be shared."""
        for label in self.agreements:
            yield from label.gaps(model)
        if self.tie is None:
            return
        if self.tie.tie is not None:
            yield f"tie to {self.tie.tie.name}, which owns the weights of {self.tie.name}"
        elif self._weights_now() != self.tie._weights_now():
            mine, other = self._weights_now(), self.tie._weights_now()
            yield f"its weights {mine} cannot be tied to {self.tie.name} with {other}"

    def _weights_now(self) -> tuple[int | None, ...]:
        """Return the shape of the weights as far as it is known before fitting."""
        return self.weight_shape(None if self.features is None else self.features.width)

    @property
    def note(self) -> str:
        """The shape of its weights, such as ``w[26, 128]``; a learnt width shows as ``?``."""
        return self.weight_text + (f"  (of {self.tie.name})" if self.tie is not None else "")

    @property
    def weight_text(self) -> str:
        """The shape of the weights as text."""
        shape = self._weights_now()
        return f"w[{', '.join('?' if size is None else str(size) for size in shape)}]" if shape else "w (one number)"

    @property
    def unit_shape(self) -> tuple[int, ...]:
        """Sizes of the untied axes; ``()`` when all factors share the weights."""
        if isinstance(self.per, str):
            sizes = {dim.name: dim.size or 0 for dim in self.target.all_axes}
            return (int(self.target.count(sizes)),)
        return tuple(_axis_of(one).size or 0 for one in self.per)

    @property
    def n_units(self) -> int:
        """Number of untied copies of the weights."""
        return prod(self.unit_shape)

    @property
    def agreements(self) -> tuple[Agreement, ...]:
        """The auxiliary variables in place of a table: those of associative factors over many variables."""

        def find() -> tuple[Agreement, ...]:
            by_agreement = _by_agreement(self.target, self.form, self.nonneg)
            return agreements_of(self.target, self.name) if by_agreement else ()

        return self._kept("_agreements", find)

    @property
    def parts(self) -> tuple[FactorTerm, ...]:
        """The factors that the compiler grounds: these factors, or those of their auxiliary variables."""

        def find() -> tuple[FactorTerm, ...]:
            if self.agreements:
                return factor_terms(self.agreements)
            basis = None if self.joint else self.form.matrix(self.target.cards)
            if self.target.of_segments and not self.joint:
                basis = in_tables(self.target, np.eye(prod(self.target.cards)) if basis is None else basis)
            return (FactorTerm(self.name, self.target, basis),)

        return self._kept(f"_parts of {self.name}", find)  # it gets its name late

    @property
    def joint(self) -> bool:
        """Whether the features depend on the states (``JointFeature``)."""
        return isinstance(self.features, JointFeature)

    @property
    def observed(self) -> bool:
        """Whether only pairs of a feature and a state seen together in training have weights."""
        return self.weights == OBSERVED

    def weight_shape(self, width: int | None) -> tuple[int | None, ...]:
        """Return the shape of the weights users see, for a feature width (``None``: not known yet)."""
        if self.observed:
            return prod(self.target.cards), width
        form = () if self.joint else self.form.weight_shape(self.target.cards)
        return (*self.unit_shape, *form, *(() if self.features is None else (width,)))


def _by_agreement(target: Target, form: Form, nonneg: bool) -> bool:
    """Whether auxiliary variables represent the table of a factor."""
    alone = len(target.all_labels) == 1 and not target.label.turns
    return form.name == "potts" and nonneg and target.arity >= LEAST_ARITY and alone


def _as_source(features: object, mistakes: list[Mistake]) -> Source | None:
    """Return the features as one Source; a list becomes a Concat."""
    if features is None or isinstance(features, Source):
        return features
    if isinstance(features, list | tuple):
        return Concat(features)
    mistakes.append(got("features: an Input, a feature or a list of them", features, compared(features)))
    return None


def _as_units(per: object, target: Target, mistakes: list[Mistake]) -> tuple[Dim | Index | Read, ...] | str:
    """Return the untied axes; note axes that are ragged or not shared by a factor's variables."""
    if per is None:
        return ()
    if isinstance(per, str):
        ragged = [dim for dim in target.all_axes if dim.ragged]
        if per != EDGE:
            mistakes.append(got("per: a fixed Dim or 'edge'", per))
        elif ragged or target.inputs:
            mistakes.append("per='edge': weights for each edge need fixed axes, e.g. Dim(6), and a fixed pattern")
        else:
            return EDGE
        return ()
    if isinstance(target, Pattern) and target.word is None:
        return _as_indexed_units(per, target, mistakes)
    dims = tuple(per) if isinstance(per, list | tuple) else (per,)
    if target.label.pointer and all(isinstance(dim, Dim) for dim in dims):
        dims = tuple(_as_shared(dim, target) for dim in with_paired(dims))
    for dim in dims:
        if not isinstance(dim, Dim):
            mistakes.append(got("per: a fixed Dim or 'edge'", dim))
        elif dim.ragged:
            mistakes.append("per: the axis must be fixed, e.g. Dim(6); a ragged axis has no fixed number of copies")
        elif not any(dim is axis for axis in target.shared_axes):
            mistakes.append(lambda: f"per: the variables of one {target!r} factor differ along it; use per='edge'")
        else:
            continue
        return ()
    if len(set(map(id, dims))) != len(dims):
        mistakes.append(got("per: each axis once", per))
        return ()
    return dims


def _as_indexed_units(per: object, target: Pattern, mistakes: list[Mistake]) -> tuple[Dim | Index | Read, ...]:
    """Return the indices, or what is read at them, whose positions have weights of their own."""
    listed = tuple(per) if isinstance(per, list | tuple) else (per,)
    units: list[Index | Read] = []
    for one in listed:
        if isinstance(one, Dim):
            over = [index for index in target.free if index.dim is one]
            if len(over) != 1:
                mistakes.append(got("per: in a pattern an index, not an axis that two indices run over", one))
                return ()
            one = over[0]
        if not isinstance(one, Index | Read):
            mistakes.append(got("per: an index over a fixed axis, or positions on one that are read, as day[t]", one))
            return ()
        axis = _axis_of(one)
        if axis.ragged:
            mistakes.append(f"per: {one!r} runs over a ragged axis, which has no fixed number of copies: use Dim(6)")
            return ()
        strange = [index for index in indices_of(one) if not any(index is own for own in target.free)]
        if strange:
            mistakes.append(got("per: an index of the pattern", strange[0]))
            return ()
        mistakes += getattr(one, "mistakes", ())
        units.append(one)
    return tuple(units)


def _axis_of(one: Dim | Index | Read) -> Dim:
    """Return the axis whose positions have weights of their own."""
    return one if isinstance(one, Dim) else one.axis


def _as_shared(dim: Dim, target: Target) -> Dim:
    """Return an axis, or its paired where only that is one of pointers' positions to point to."""
    shared = target.shared_axes
    other = not any(dim is axis for axis in shared) and any(dim is axis.origin for axis in shared)
    return dim.paired if other else dim


def _rule_mistakes(target: RuleTarget, features: Source | None, form: Form, weights: object) -> Iterator[Mistake]:
    """Yield what a factor of a rule does not have."""
    if form != FULL or not _is_all(weights) or isinstance(features, JointFeature):
        yield "a factor of a rule has one weight, or one for each feature: no form, weights or JointFeature"
    count = target.rule
    if count.op == "Count" and count.most is None and most_of(count) is None and not target.mistakes:
        yield got("Count: over a ragged axis most= is needed, the last number that has a weight", target)


def _pointer_mistakes(features: Source | None, form: Form, weights: object) -> Iterator[Mistake]:
    """Yield what a factor of a pointer label does not have."""
    if form != FULL or not _is_all(weights) or isinstance(features, JointFeature):
        yield "a factor of a pointer label scores where all its pointers are: no form, weights or JointFeature"


def _segment_mistakes(features: Source | None, per: object, weights: object) -> Iterator[Mistake]:
    """Yield the settings that a factor of segments does not allow."""
    if per is not None or not _is_all(weights) or isinstance(features, JointFeature):
        yield "a factor of segments has no per, weights='observed' or JointFeature"
    if not isinstance(features, Feature) and has_sliced(features):
        yield "features that are not kept (stored=False) stand alone: write a factor for them"


def _is_all(weights: object) -> bool:
    return isinstance(weights, str) and weights == ALL


def _observed_mistakes(features: Source | None, form: Form, per: tuple[Any, ...] | str) -> Iterator[Mistake]:
    """Yield why a factor cannot have weights for observed pairs only."""
    if features is None or not features.sparse:
        yield got("weights='observed': the features are Attributes, or others that are sparse", features)
    if form != FULL:
        yield "weights='observed': the form is FULL, a weight for each state"
    if per:
        yield "weights='observed': all factors share the weights, leave per out"


# -- scores that come from elsewhere and have no weight ------------------------------------------------------------


@dataclass(frozen=True, init=False, repr=False)
class Given(ScoredTarget):
    """Scores with no weight: logits of a network, log-probabilities, prior costs.

    They are added to the scores of the factors unchanged; ``-inf`` rules a state out.

    Parameters
    ----------
    target : Label or Target
        ``y``, ``y.is_(k)``, ``y.at(0)``, ``chain(y)`` and so on, as for :class:`Factor`.
    scores : Input, feature, or array
        An input (or another dense feature, fitted ones included: ``Standardized(logits)``) with a number for each
        joint state of the target (one for ``y.is_(k)``, and for each position of a pointer label and what it points
        to), at the positions that features of a factor have; or an array of the shape of the joint states, the same
        for all.

    Examples
    --------
    >>> net = Given(y, scores=logits)                    # logits = Input(T, 26)
    >>> arcs = Given(head, scores=matrix)                # head = Label(T, over=T), matrix = Input(T, T)
    >>> bigrams = Given(chain(y), scores=np.log(counts))  # the same (26, 26) table everywhere
    """

    table: tuple[float, ...] | None

    joint, observed, per, n_units = False, False, (), 1  # as of a Factor

    def __init__(self, target: Label | Target | LabelAt | Sequence[Any], scores: Any, where: Any = None) -> None:
        mistakes: list[Mistake] = []
        goal = as_target(target, where)
        n, source, table = 1 if of_one_number(goal) else prod(goal.cards), None, None
        if isinstance(scores, Source) and (scores.sparse or isinstance(scores, JointFeature)):
            mistakes.append(got("Given: scores must be a dense Input, another dense feature, or an array", scores))
        elif isinstance(scores, Source):
            source, width = scores, scores.width or n
            if width != n and not (width == 1 and _of_pairs(goal)) and not goal.mistakes:
                words = f"{number_text(n)} numbers, one for each joint state of the target"
                if _of_pairs(goal):
                    words = "one number for each position and what it points to, as of Input(T, T)"
                mistakes.append(f"Given: expected {words}, {number_text(width)} are declared")
        else:
            table = self._read_table(goal, scores, n, mistakes)
        mistakes += [f"Given: {text}" for text in table_mistakes(goal)]
        if goal.label.pointer and goal.arity > 1 and not goal.mistakes and not isinstance(goal, RuleTarget):
            mistakes.append("Given: of several pointers there are no given scores; use a Factor with them as features")
        if has_sliced(source):
            mistakes.append("Given: scores are kept; a Feature of them has no stored=False")
        mistakes = [*goal.mistakes, *mistakes]
        if isinstance(goal, Pattern) and source is not None:
            goal = goal.reading(positions_of(source))
        self._fill(mistakes, target=goal, features=source, table=table)

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)
        if isinstance(self.target, RuleTruth):
            self.target.circuit.rename(self.name)

    @staticmethod
    def _read_table(goal: Target, scores: Any, n: int, mistakes: list[Mistake]) -> tuple[float, ...] | None:
        """Return an array of scores as plain numbers."""
        shape = () if of_one_number(goal) else goal.cards
        try:
            table = as_floats(real_array(scores))
        except NotNumbers as err:
            mistakes.append(f"Given: scores must be an Input, a feature or an array of numbers, found {err.found}")
            return None
        if table.shape not in (shape, (n,)):  # or one after the other, as files have them
            if not goal.mistakes:
                mistakes.append(f"Given: an array of scores has the shape {shape}, got {table.shape}")
        elif np.isnan(table).any() or (table == np.inf).any():
            mistakes.append("Given: scores are numbers or -inf, not nan or +inf")
        else:
            return tuple(table.ravel().tolist())
        return None

    @property
    def only_state(self) -> int | None:
        """The state that scores are for: that of ``y.is_(k)``, or that a pointer is there; ``None`` for all states."""
        if self.target.kind == "indicator":
            assert self.target.state is not None
            return self.target.label.index(self.target.state) or 0
        alone = self.features is not None and self.features.width == 1
        return 1 if alone and _of_pairs(self.target) else None

    @property
    def note(self) -> str:
        """``"no weights"``, for ``print(Model)``."""
        return "no weights"

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        scores = self.features if self.table is None else list(self.table)
        target, where = self.written()
        return (target,), {"scores": scores} | where


def of_one_number(target: Target) -> bool:
    """Whether there is one score for each factor: that of a class, or of a rule that is true."""
    return target.kind == "indicator" or (isinstance(target, RuleTarget) and target.rule.op != "Count")


def _of_pairs(target: Target) -> bool:
    """Whether a target is each position of a pointer label and what it points to."""
    return target.kind == "each" and target.label.pointer
