"""Labels of segments whose spans are no variables: which models allow it.

Every span as a variable has a state for each class, a literal for each of them, and a row of features: 250 bytes a
span.  The class of each position and whether a segment begins there say everything: programs have these alone, where
nothing but factors, given scores and losses looks at spans.  What these say of them is, from the cheapest on:

* weights of classes, of lengths and of sums over positions: those of starts and positions, and one table of classes and
  lengths (:class:`ssvm_dsl.ir.Group`, kind ``"spans"``);
* all other features, and given scores: a row for each span and a score for each of its classes (kind ``"one-span"``);
* durations: a table of classes and lengths;
* prices and counts of wrong spans: such a row for each true one, and a price or count of every beginning.
"""

from __future__ import annotations

from copy import copy
from typing import Any, TypeVar, cast

from ssvm_dsl.lang.constraints.durations import SegmentDuration
from ssvm_dsl.lang.constraints.forbidden import Forbid
from ssvm_dsl.lang.constraints.logic import Constraint
from ssvm_dsl.lang.factors import Factor, Given
from ssvm_dsl.lang.features.sources import SpanLength, SpanSum
from ssvm_dsl.lang.forms import FULL
from ssvm_dsl.lang.losses.cost import Cost
from ssvm_dsl.lang.losses.label_losses import CountLoss, Hamming, Loss, LossSum, NoLoss, ZeroOne
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.outputs.targets import starts
from ssvm_dsl.lang.symbols import Symbol

S = TypeVar("S", bound=Symbol)


def compact_label(symbols: tuple[Symbol, ...]) -> Label | None:
    """Return the label of segments whose spans need no variables; ``None`` where there is none.

    It is the only label, and no constraint or shared weights look at its spans.
    """
    labels = [one for one in symbols if isinstance(one, Label)]
    if len(labels) != 1 or labels[0].segments is None:
        return None
    return labels[0] if all(map(_allows, symbols)) else None


def _allows(symbol: Symbol) -> bool:
    """Whether a symbol needs no span as a variable."""
    if isinstance(symbol, SegmentDuration):
        return True
    if isinstance(symbol, Constraint):
        return False
    if isinstance(symbol, Factor):
        return not symbol.agreements and _target_allows(symbol.target) and _plain(symbol)
    if isinstance(symbol, Given):
        return _target_allows(symbol.target)
    if isinstance(symbol, Forbid):
        return symbol.target.kind != "spans" and _target_allows(symbol.target)
    if isinstance(symbol, Loss):
        return all(isinstance(term, Hamming | ZeroOne | NoLoss | Cost | CountLoss) for _, term in symbol.terms)
    return True


def _plain(factor: Factor) -> bool:
    """Whether a factor of spans owns weights."""
    return factor.target.kind != "spans" or factor.tie is None


def _target_allows(target: Target) -> bool:
    near = target.offsets in ((0,), (0, 1)) or target.fixed_position is not None
    return target.of_spans or near


def compact_symbols(symbols: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    """Return the symbols of a model with a compact label, factors of spans written as others of the same weights.

    Weights of sums over the positions of a segment are those of its positions; a weight of each segment is one of
    where segments begin; those of lengths are a table of classes and lengths.  All else is of single spans.
    """
    return tuple(map(_without_spans, symbols))


def _without_spans(symbol: Symbol) -> Symbol:
    if isinstance(symbol, Loss):
        return _loss_without_spans(symbol)
    if isinstance(symbol, SegmentDuration):
        return _about(symbol, "lengths")
    if not isinstance(symbol, Factor | Given) or symbol.target.kind != "spans":
        return symbol
    label, source = symbol.target.label, symbol.features
    if isinstance(symbol, Given):
        return _of_single_spans(symbol)
    options: dict[str, Any] = {"form": symbol.form, "nonneg": symbol.nonneg}
    if source is None:
        made = Factor(starts(label), **options)
    elif type(source) is SpanSum:
        made = Factor(label, features=source.source, **options)
    elif isinstance(source, SpanLength) and symbol.form == FULL:
        made = Factor(Target("lengths", (label,)), nonneg=symbol.nonneg)
    else:
        return _of_single_spans(symbol)
    made.__set_name__(type(made), symbol.name)
    return made


def _loss_without_spans(loss: Loss) -> Loss:
    """Return a loss whose prices and counts of wrong spans are of those that are true."""
    terms = tuple((weight, _term_without_spans(term)) for weight, term in loss.terms)
    if all(a is b for (_, a), (_, b) in zip(terms, loss.terms, strict=True)):
        return loss
    made = LossSum(terms)
    made.__set_name__(type(made), loss.name)
    return made


def _term_without_spans(term: Loss) -> Loss:
    spans = isinstance(term, Cost | CountLoss) and term.target.kind == "spans"
    return _of_single_spans(term) if spans else term


def _of_single_spans(symbol: S) -> S:
    """Return a factor, given scores, prices or counts of spans that are no variables."""
    return _about(symbol, "span")


def _about(symbol: S, kind: str) -> S:
    """Return a symbol about another kind of target of the same labels."""
    made: Any = copy(symbol)
    object.__setattr__(made, "target", Target(kind, made.target.labels))
    return cast(S, made)
