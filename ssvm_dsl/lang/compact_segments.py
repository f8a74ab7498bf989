"""Labels of segments whose spans are no variables: which models allow it.

Every span as a variable has a state for each class, a literal for each of them, and a row of features: 250 bytes a
span.  Where all that a model says of spans is what their class and their length score, the class of each position and
whether a segment begins there say everything: programs have these alone, and scores of spans are one table of classes
and lengths (:class:`ssvm_dsl.ir.Group`, kind ``"spans"``).
"""

from __future__ import annotations

from typing import Any

from ssvm_dsl.lang.constraints.forbidden import Forbid
from ssvm_dsl.lang.constraints.logic import Constraint
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.features.span_features import SpanLength, SpanSum
from ssvm_dsl.lang.forms import FULL
from ssvm_dsl.lang.given import Given
from ssvm_dsl.lang.inputs import Source
from ssvm_dsl.lang.losses.label_losses import Hamming, Loss, NoLoss, ZeroOne
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.outputs.targets import starts
from ssvm_dsl.lang.symbols import Symbol

#: Targets of the class of a position, of successive segments, and of where segments begin.
_TARGETS = ("each", "indicator", "at", "chain", "starts", "pairs")


def compact_label(symbols: tuple[Symbol, ...]) -> Label | None:
    """Return the label of segments whose spans need no variables; ``None`` where there is none.

    It is the only label; factors of spans have weights of classes, of lengths (``SpanLength``) or of sums over
    positions (``SpanSum``); and nothing else looks at spans.
    """
    labels = [one for one in symbols if isinstance(one, Label)]
    if len(labels) != 1 or labels[0].segments is None:
        return None
    return labels[0] if all(map(_allows, symbols)) else None


def _allows(symbol: Symbol) -> bool:
    """Whether a symbol says nothing of single spans."""
    if isinstance(symbol, Constraint):
        return False
    if isinstance(symbol, Factor):
        return not symbol.agreements and _target_allows(symbol.target, symbol.features) and _plain(symbol)
    if isinstance(symbol, Given | Forbid):
        return symbol.target.kind != "spans" and _target_allows(symbol.target, None)
    if isinstance(symbol, Loss):
        return all(isinstance(term, Hamming | ZeroOne | NoLoss) for _, term in symbol.terms)
    return True


def _plain(factor: Factor) -> bool:
    """Whether a factor of spans has weights of its own, of lengths one for each class."""
    if factor.target.kind != "spans":
        return True
    return factor.tie is None and (factor.form == FULL or not isinstance(factor.features, SpanLength))


def _target_allows(target: Target, features: Source | None) -> bool:
    if target.kind == "spans":
        return features is None or isinstance(features, SpanLength) or type(features) is SpanSum
    return target.kind in _TARGETS and target.order == 1


def compact_symbols(symbols: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    """Return the symbols of a model with a compact label, factors of spans written as others of the same weights.

    Weights of sums over the positions of a segment are those of its positions; a weight of each segment is one of
    where segments begin; those of lengths are a table of classes and lengths.
    """
    return tuple(_without_spans(one) if isinstance(one, Factor) else one for one in symbols)


def _without_spans(factor: Factor) -> Factor:
    if factor.target.kind != "spans":
        return factor
    label, source = factor.target.label, factor.features
    options: dict[str, Any] = {"form": factor.form, "nonneg": factor.nonneg}
    if source is None:
        made = Factor(starts(label), **options)
    elif isinstance(source, SpanSum):
        made = Factor(label, features=source.source, **options)
    else:
        made = Factor(Target("lengths", (label,)), nonneg=factor.nonneg)
    made.__set_name__(type(made), factor.name)
    return made
